/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much users and projects have had of the machine, from the attempts in the store: those that
 * overlap a window of time, cut to it. What was forgotten (sluice.jobs.retention) is not counted.
 * Blocking, as all of the store.
 */
#ifndef SLUICE_DOORS_QUEUE_STORE_STORE_USAGE_H
#define SLUICE_DOORS_QUEUE_STORE_STORE_USAGE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "job/wants.h"

struct err;
struct store;

enum store_usage_limits {
	STORE_USAGE_MAX = 1024, /* pairs of user and project */
};

struct store_usage_window {
	int64_t since_unix_ns, until_unix_ns; /* what still runs, runs until then */
	int64_t uid;			      /* of this user alone; negative: of all */
};

/* Of one user for one project. Times in milliseconds, so that years of many GPUs fit. */
struct store_use {
	uid_t uid;
	char project[WANTS_NAME_MAX]; /* "": none was named */
	uint64_t jobs;		      /* that ran in the window, */
	uint64_t failed;	      /* and of these those that have failed for good */
	uint64_t wall_ms;	      /* of their attempts together */
	uint64_t gpu_ms;	      /* by devices; a share counts its part of one */
	uint64_t cpu_ms;	      /* by the processors asked for, of jobs that asked for some */
	uint64_t cpu_jobs;	      /* how many those are */
};

struct store_usage {
	struct store_use *items; /* owned; in no order */
	size_t count;
};

void store_usage_done(struct store_usage *usage);
/*
 * An attempt that ended before it began, by a clock that was set, has taken no time. `out` is
 * initialised here. -E2BIG: more than STORE_USAGE_MAX pairs; -ENOMEM, -EIO, -EUCLEAN.
 */
int store_usage(struct store *store, const struct store_usage_window *window,
		struct store_usage *out, struct err *err);

#endif
