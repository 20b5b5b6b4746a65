/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The directory that the workers of a job have to themselves,
 * STATE/workers/<job>.<attempt>-<random>: its user's, who may put anything into it, and so apart
 * from what the queue lists. The supervisor makes it and throws it away (trash.h); the agent, what
 * a killed one left.
 */
#ifndef SLUICE_JOB_WORKDIR_H
#define SLUICE_JOB_WORKDIR_H

#include <stddef.h>
#include <stdint.h>

#include "base/file.h"

struct err;

enum workdir_limits { WORKDIR_SWEEP = 256 /* looked at in one call */ };

/* Makes that of an attempt, 0700 and the caller's, for whoever has the job's directory open. The
 * descriptor, and in `out_path` where it is. `instance`: of the attempt (struct launch). -EEXIST.
 */
int workdir_make(int job_fd, uint64_t id, uint32_t attempt, const char *instance,
		 char out_path[FILE_PATH_MAX], struct err *err);
/* Throws it away, with all that is in it. Not there is fine. */
int workdir_discard(int job_fd, uint64_t id, uint32_t attempt, const char *instance,
		    struct err *err);

/* The agent's, on its storage thread: throws away those of jobs whose lock nobody holds. Adds to
 * `stays` what cannot be; the first of them is in `err`. */
void workdir_sweep(int state_fd, size_t *stays, struct err *err);

#endif
