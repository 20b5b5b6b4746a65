/* SPDX-License-Identifier: Apache-2.0 */
/* The lock of the GPM samples, for the fork handlers. */
#ifndef SLUICE_SIM_NVML_GPM_H
#define SLUICE_SIM_NVML_GPM_H

void gpm_lock(void);
void gpm_unlock(void);

#endif
