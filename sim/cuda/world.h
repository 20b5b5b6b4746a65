/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the processes of one simulated machine share of its GPUs' time: the scheduler, its clock and
 * a turnstile, in a file beside the machine's state (for a machine without a file: in memory of
 * this process alone).
 *
 * Virtual clock (the default): one thread of all processes runs at a time, the one with the least
 * virtual time; time advances only when all wait in calls of the driver. So the same calls give the
 * same times, whatever the processors do meanwhile. A process that dies is dropped; a thread that
 * stays away longer than the patience (it computes, or waits for something else) is left out until
 * it comes back. One that is stopped (SIGSTOP) while it has the lock keeps it: after five times the
 * patience the others go on, each for itself, and say so. Real clock: the same scheduler by
 * CLOCK_MONOTONIC, and threads run as they like.
 *
 * Knows nothing of memory, kernels and devices. Called by driver*.c only.
 */
#ifndef SLUICE_SIM_CUDA_WORLD_H
#define SLUICE_SIM_CUDA_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/cuda/scheduler.h"

struct world; /* this process's view */

enum world_limits {
	WORLD_PROCESS_MAX = 64,
	WORLD_THREAD_MAX = 256, /* of all processes, at a time */
	WORLD_NO_THREAD = WORLD_THREAD_MAX,
};

struct world_options {
	bool is_real;	      /* the real clock */
	uint64_t slice_ns;    /* default 2 ms */
	uint64_t switch_ns;   /* default 100 us */
	uint64_t patience_ms; /* default 1000 */
};

/* From $SLUICE_SIM_CUDA_CLOCK (virtual|real), _SLICE_US, _SWITCH_US, _PATIENCE_MS. False: one of
 * them cannot be understood; `out_which` names it. */
bool world_options_read(struct world_options *out, const char **out_which);

/* `path` NULL: of this process alone. The first process of a machine says how time runs; later ones
 * follow it. NULL: it cannot be had (errno). */
struct world *world_open(const char *path, const struct world_options *options);
/* Takes this process out: its contexts and its threads. The view stays, for threads that still run
 * while the process ends. */
void world_leave(struct world *world);
/* The same, and frees the view. */
void world_close(struct world *world);
/* In a child of fork(): forgets the view; nothing that is shared is touched. */
void world_forget(struct world *world);
bool world_is_real(const struct world *world);
/* How many threads were ever left behind for staying away: above 0 times are not reproducible. */
uint64_t world_left_behind(const struct world *world);

/* What a thread waits for. */
enum world_wait_kind {
	WORLD_WAIT_TIME, /* `ns` */
	WORLD_WAIT_OP,	 /* operation `number` of `context` */
	WORLD_WAIT_ALL,	 /* and all before it */
	WORLD_WAIT_ROOM, /* `number` operations more than there are now can be collected */
};
struct world_wait {
	uint32_t kind;
	uint32_t context;
	uint64_t number, ns;
};

/*
 * The calls below are for a thread that has its turn. world_begin() takes it (under the real clock
 * at once) and with it the lock of the shared memory, which world_end() gives back; the turn itself
 * stays with the thread until it waits. Between the two world_sched() may be read and changed.
 * world_begin() returns false when there are too many threads.
 */
bool world_begin(struct world *world);
void world_end(struct world *world);
/* The lock alone, for one who had the turn in the same call; given back by world_end(). */
void world_lock(struct world *world);
struct sched *world_sched(struct world *world);
uint32_t world_process(const struct world *world);
/* The thread's own time: what it submits is ready then. Between begin and end. */
uint64_t world_now(const struct world *world);
/* The call itself takes so long (under the virtual clock). Between begin and end. */
void world_spend(struct world *world, uint64_t ns);
/* Waits; not between begin and end, and with no lock of the caller held. */
void world_wait(struct world *world, const struct world_wait *wait);

#endif
