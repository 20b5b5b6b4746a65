/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job of a job file as what the agent is asked for, and that in turn as JSON for people and
 * tests. Asks nobody and looks at nothing.
 */
#ifndef SLUICE_CMD_JOBS_RUN_RUN_JOB_H
#define SLUICE_CMD_JOBS_RUN_RUN_JOB_H

#include "cmd/jobs/run/run_request.h"
#include "job/file/jobfile_arena.h"

struct buf;
struct err;
struct jobfile_job;
struct run_options;

/* A request with what it is made of. Do not move it. */
struct run_job {
	struct run_request request;
	struct jobfile_arena arena;
};

/*
 * `options`: those of the call that hold for jobs of a file (socket, key, host, ...); with `host`
 * the command runs without its container. `file` is what errors call the file. `job`, `options` and
 * `environment` are borrowed for the life of `out`, which is given back by run_job_done() in any
 * case. -EINVAL for what cannot be meant here, -ENOMEM.
 */
int run_job_make(const struct jobfile_job *job, const char *file, const struct run_options *options,
		 char *const *environment, struct run_job *out, struct err *err);
void run_job_done(struct run_job *job);

/* What is asked for, without what this process is (environment, limits, umask, key), indented.
 * -ENOMEM, -ENOSPC as buf_add(). */
int run_job_show(const struct run_request *request, struct buf *out);

#endif
