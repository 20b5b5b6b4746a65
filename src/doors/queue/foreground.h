/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A supervised job in the foreground of whoever typed it: signals reach the command once and only
 * once, Ctrl-Z stops it and the shell notices, a second Ctrl-C within two seconds kills it, and
 * when the supervisor is killed this process cleans up in its place.
 *
 * The command runs in our own process group, so the terminal is its as it is ours: what the
 * terminal sends to the group the command has already, and only what was sent to us alone is
 * passed on.
 *
 * Knows nothing of GPUs or options. Called by `sluice run`.
 */
#ifndef SLUICE_DOORS_QUEUE_FOREGROUND_H
#define SLUICE_DOORS_QUEUE_FOREGROUND_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "doors/queue/supervise.h"

struct err;

#define FOREGROUND_SECOND_NS UINT64_C(2000000000) /* a second Ctrl-C within this kills */
#define FOREGROUND_WAKE_NS   UINT64_C(100000000)  /* how long a command may take to be continued */

/* Told as it happens; `kind` is an enum supervise_kind. */
typedef void (*foreground_tell_fn)(void *context, uint32_t kind, int32_t value);

struct foreground_result {
	pid_t command;	      /* 0: it never ran */
	int launch_error;     /* -errno of the exec, 0 if it ran */
	int status;	      /* as of waitpid(2) */
	bool supervisor_lost; /* killed; what was left of the job we killed ourselves */
	int killed;	      /* processes that had to be killed after the command's end */
	int64_t started_unix_ns, ended_unix_ns; /* CLOCK_REALTIME; 0: never */
};

/*
 * Runs the job to its end and until nothing of it lives. The signal mask and group of `job` are
 * set here. 0 whenever the job could be started or the reason why not is in `out`.
 */
int foreground_run(struct supervise_job *job, foreground_tell_fn tell, void *context,
		   struct foreground_result *out, struct err *err);

/* As a shell has it: the command's own code, 128 + n after signal n, 126 and 127 when it cannot be
 * executed or found, 137 when the supervisor was killed and the command with it. */
int foreground_exit_code(const struct foreground_result *result);

#endif
