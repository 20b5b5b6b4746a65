/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What becomes of a job's output: where it is limited, copied or a terminal's, the job writes into
 * pipes, and this moves what comes into its files while the supervisor waits for other things.
 * Elsewhere the job has the files themselves and nothing here is used.
 */
#ifndef SLUICE_LIBEXEC_SUPERVISE_OUTPUT_H
#define SLUICE_LIBEXEC_SUPERVISE_OUTPUT_H

#include <stdbool.h>

#include "libexec/supervise/relay.h"
#include "libexec/supervise/terminal.h"
#include "libexec/supervise/watch.h"

struct err;
struct launch;

#define OUTPUT_COPY_NS                                                                             \
	(5 * CLOCK_NS_PER_S) /* a copy that takes nothing for so long is given up                  \
			      */

struct output {
	struct relay out, err;
	struct relay **more; /* owned, each; of workers, and of what removes a container */
	size_t more_count;
	uint32_t more_lost;	  /* of those that are done with: enum jobdir_lost */
	int events_fd;		  /* owned; epoll; -1: nothing is relayed */
	int timer_fd;		  /* owned */
	struct terminal terminal; /* of a job that has one; `out` has no pipe then */
	bool is_blocked;
	pid_t copy; /* 0: none; a child */
};

#define OUTPUT_NONE                                                                                \
	((struct output){.out = RELAY_NONE,                                                        \
			 .err = RELAY_NONE,                                                        \
			 .terminal = TERMINAL_NONE,                                                \
			 .events_fd = -1,                                                          \
			 .timer_fd = -1})

/*
 * `job_fd`: the job's directory. Given the files of both outputs, which are replaced by what the
 * job is to write into (owned by the caller still). Does nothing, and returns 0, for a job of which
 * nothing is relayed; else 1. -errno: both are as they were.
 */
int output_open(struct output *output, int job_fd, const struct launch *launch, int *out_fd,
		int *err_fd, struct err *err);
/* Begins the copy that the spec asks for; `err_fd`: what the job writes its errors into. What goes
 * wrong is said there. */
void output_copy(struct output *output, const struct launch *launch, int err_fd);
/* Another file of the job, that of a worker; what is given to whoever writes it (the caller's).
 * With a limit that is a pipe, and what comes is kept up to `limit_bytes`; without, the file. */
int output_add(struct output *output, int job_fd, const struct launch *launch, const char *prefix,
	       uint64_t limit_bytes, struct err *err);
/* What was added last but one has its notes in the file of what was added last: a worker's output
 * in its errors. Without a limit there is nothing to note. */
void output_pair(struct output *output);
/* For run_listen(). */
struct watch_source output_source(struct output *output);
/* Nobody of the job lives: takes what is left in the pipes, and closes all. */
void output_done(struct output *output, int job_fd);
/* What of it was not kept, after that: enum jobdir_lost. `copy_failed`: the process of the copy
 * said so. */
uint32_t output_lost(const struct output *output, bool copy_failed);

#endif
