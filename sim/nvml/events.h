/* SPDX-License-Identifier: Apache-2.0 */
/* The lock of the event sets, for the fork handlers: the forking thread holds it over the fork. */
#ifndef SLUICE_SIM_NVML_EVENTS_H
#define SLUICE_SIM_NVML_EVENTS_H

void events_lock(void);
void events_unlock(void);

#endif
