/* SPDX-License-Identifier: Apache-2.0 */
/* The shared file's layout, for world.c (the file, who lives) and world_turn.c (whose turn). */
#ifndef SLUICE_SIM_CUDA_WORLD_PRIVATE_H
#define SLUICE_SIM_CUDA_WORLD_PRIVATE_H

#include <pthread.h>
#include <sys/types.h>

#include "sim/cuda/world.h"

#define WORLD_MAGIC UINT64_C(0x31616475436d6953)

enum world_private_limits {
	WORLD_FORMAT = 2,
	WORLD_LOOK_MS = 50,	     /* how often who waits looks whether the others are alive */
	WORLD_STOPPED_PATIENCES = 5, /* the lock was not given back for so long: stopped with it */
	/* bytes of the file that are locked: 0 while a world is made, 1 + n while process n lives
	 */
	WORLD_BYTE_MAKING = 0,
	WORLD_BYTE_PROCESS = 1,
};

enum world_thread_state {
	WORLD_FREE,
	WORLD_HERE,  /* has the turn */
	WORLD_READY, /* waits for it */
	WORLD_WAITS, /* for time or an operation */
	WORLD_AWAY,  /* did not come back within the patience */
};

struct world_thread {
	uint32_t state; /* enum world_thread_state */
	uint32_t process;
	uint64_t local_ns;
	uint64_t since_ms; /* real: it has had the turn since */
	uint32_t wake;	   /* futex: counts turns */
	uint32_t reserved;
	struct world_wait wait;
};

struct world_shared {
	uint64_t magic, bytes;
	uint32_t format, is_real;
	uint64_t patience_ms;
	uint64_t start_ns; /* real clock: CLOCK_MONOTONIC at time 0 */
	uint64_t left_behind;
	uint64_t locks;	 /* how often it was locked */
	uint32_t change; /* futex, real clock: something was submitted */
	uint32_t thread_top;
	pthread_mutex_t lock;		     /* robust, of processes */
	uint32_t process[WORLD_PROCESS_MAX]; /* pid; 0: free */
	struct world_thread thread[WORLD_THREAD_MAX];
	struct sched sched;
};

struct world {
	struct world_shared *shared;
	int fd;		       /* -1: of this process alone */
	pthread_mutex_t local; /* of this process's threads; taken before the shared one */
	uint32_t process;
	pthread_key_t key; /* of a thread: its struct world_place */
};

struct world_place {
	struct world *world;
	uint32_t thread;
};

uint64_t world_monotonic_ns(void);
void world_unlock(struct world *world);
/* Drops processes that are gone; with the lock. True: there were some. */
bool world_bury(struct world *world);
/* Whose turn it is now that nobody has it; with the lock. */
void world_pass(struct world *world);
/* Takes everything of a process away; with the lock. */
void world_drop(struct world *world, uint32_t process);

#endif
