/* SPDX-License-Identifier: Apache-2.0 */
/* The verb `wait` of `sluice jobs`. For jobs.c. */
#ifndef SLUICE_CMD_JOBS_JOBS_WAIT_H
#define SLUICE_CMD_JOBS_JOBS_WAIT_H

struct command;

extern const struct command jobs_wait;

#endif
