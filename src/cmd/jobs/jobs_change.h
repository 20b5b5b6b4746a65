/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The verbs of `sluice jobs` that change something: jobs that wait or have failed, and the queue as
 * a whole. For jobs.c.
 */
#ifndef SLUICE_CMD_JOBS_JOBS_CHANGE_H
#define SLUICE_CMD_JOBS_JOBS_CHANGE_H

struct command;

extern const struct command jobs_hold, jobs_release, jobs_retry, jobs_prio, jobs_set;
extern const struct command jobs_gc;

#endif
