/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ranks of a run, and who watches them. Either this process forks them and stays outside as
 * their parent (world_run_forked), or it is itself one of the ranks that an mpirun started
 * (world_run_rank). Both run the same rows, and both say of a rank that dies or stands still which
 * one it is and how far it had come, and end the run: nothing waits for ever, and no process stays.
 * Knows nothing of tables and options; a command calls it.
 */
#ifndef SLUICE_BENCH_COLLECTIVES_WORLD_H
#define SLUICE_BENCH_COLLECTIVES_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "bench/collectives/measure.h"

struct backend;
struct err;
struct world_seat;

enum world_limits {
	WORLD_RANKS_MAX = 64, /* that are forked */
	WORLD_MEET_MAX = 4096,
	WORLD_HOST_MAX = 64, /* bytes with the NUL, here and below */
	WORLD_DESCRIPTION_MAX = 256,
	WORLD_PLACE_MAX = 256,
	/* Ranks of an mpirun whose deadline passes leave the others so long to say where they are;
	 * the one that stands still is the one that says nothing. */
	WORLD_LAST_WORDS_MS = 250,
	WORLD_END_MS = 1000, /* that ranks have to end by themselves once one is gone */
};
#define WORLD_START_TIMEOUT_NS (UINT64_C(120) * 1000000000)

/* One rank, for the head of the table. */
struct world_member {
	uint32_t rank;
	int32_t cpu; /* it is pinned to; -1: to none */
	int64_t pid;
	char host[WORLD_HOST_MAX];
};

struct world_job {
	uint32_t ranks;		   /* forked: 1 to WORLD_RANKS_MAX; else not read */
	bool pins;		   /* each to a processor of its own where there are enough */
	uint64_t start_timeout_ns; /* from the fork until all can begin; 0: none */
	uint64_t timeout_ns;	   /* of each row (-T); 0: none */
	void *context;		   /* for the functions below; borrowed */

	/* In each rank's process: makes its backend. An error there ends the run with that error
	 * (-ENOENT: the library or device is not there). */
	int (*start)(void *context, struct world_seat *seat, struct backend **out, struct err *err);
	/* In each rank's process: row number `index`, the same on all ranks. 1:
	 * `out` is filled; 0: there is no such row, the run is done. */
	int (*plan)(void *context, uint64_t index, struct measure_plan *out, struct err *err);

	/* The rest is called in the parent, or on rank 0 where there is none. NULL: not wanted. */
	/* All ranks are there. `description` is the backend's of rank 0. */
	void (*ready)(void *context, const char *description, const struct world_member *members,
		      uint32_t ranks);
	/* A row is done; it is `row`'s until this returns, which may take its samples. Negative:
	 * ends the run with that error. */
	int (*row)(void *context, uint64_t index, struct measure_row *row, struct err *err);
	/* The run ends badly, and not by a signal to it: where each rank was, one call each, before
	 * world_run_* returns: "all_reduce of 1048576 bytes, timed one by one, 12 operations done;
	 * before it all_reduce of 524288 bytes". Of ranks that an mpirun started each tells of
	 * itself only, and on each, before it ends the others; what ended it stands behind a colon.
	 */
	void (*place)(void *context, uint32_t rank, const char *text);
};

/*
 * Forks the ranks, runs the rows on them and waits for their end. This thread must be the only one,
 * and standard output is flushed before. 0: all rows are done. The first error that a rank had, or
 * -EPIPE: a rank died (killed by a signal, or it exited), which the message names with the last it
 * had completed; -ETIMEDOUT: a deadline passed, and the message names the rank that was furthest
 * behind; -ECANCELED: a signal (SIGINT, SIGTERM, SIGHUP) came; -EINVAL: number of ranks; -EAGAIN,
 * -ENOMEM: fork. When it returns no rank is left. A rank does not outlive this process either.
 */
int world_run_forked(const struct world_job *job, struct err *err);

/*
 * This process is one of the ranks. The same errors; on -EPIPE and others the backend has been
 * aborted. When a deadline passes while this rank is in the library, `place` is called from
 * another thread, the backend aborted, and after WORLD_END_MS more the process ends with exit code
 * 2: a rank that waits in a library cannot be had back.
 */
int world_run_rank(const struct world_job *job, struct err *err);

/* Of a seat: for start(). Ranks that an mpirun started have the numbers that the library gives
 * them: 0 of 0 here, and nothing to meet by (-EOPNOTSUPP). */
uint32_t world_seat_rank(const struct world_seat *seat);
uint32_t world_seat_ranks(const struct world_seat *seat);
/* Rank 0's `bytes` come to all; every rank calls it, with the same size, at most WORLD_MEET_MAX.
 * For NCCL's unique id, which only a process that stays may make. -ETIMEDOUT, -ECANCELED: the run
 * ends; -E2BIG. */
int world_seat_meet(struct world_seat *seat, void *bytes, size_t size, struct err *err);

#endif
