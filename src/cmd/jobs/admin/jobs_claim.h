/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs of `sluice jobs` that drain the queue, GPUs or a user, and reserve GPUs. For jobs.c. */
#ifndef SLUICE_CMD_JOBS_ADMIN_JOBS_CLAIM_H
#define SLUICE_CMD_JOBS_ADMIN_JOBS_CLAIM_H

struct command;

extern const struct command jobs_drain, jobs_resume, jobs_reserve, jobs_unreserve,
    jobs_reservations;

#endif
