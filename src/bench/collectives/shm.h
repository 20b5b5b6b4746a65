/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives between processes of one machine through memory that they share: a memfd, handed over
 * by fork. Sums are taken in a fixed balanced binary tree over the ranks, element by element, so
 * that they are the same bits on all ranks, in all runs, for all kinds of memory and all
 * algorithms. A rank that dies is noticed within a second.
 */
#ifndef SLUICE_BENCH_COLLECTIVES_SHM_H
#define SLUICE_BENCH_COLLECTIVES_SHM_H

#include <stdint.h>
#include <sys/types.h>

struct backend;
struct err;
struct shm_world;

/* Made before the ranks are forked; 1 to COLLECTIVE_SHM_RANKS_MAX ranks. -EINVAL, -ENOMEM, -errno.
 */
int shm_world_new(uint32_t ranks, struct shm_world **out, struct err *err);
struct shm_world *shm_world_free(struct shm_world *world); /* NULL */
/* In the process that is `rank`, after the fork: waits until all have come. `timeout_ns` is that of
 * every single wait for another rank, this one included; 0: none. Dead ranks are noticed without
 * it. `world` stays the caller's, and must outlive it. All ranks call the same operations with the
 * same kind of memory. -ENOMEM; -EPIPE: a rank is gone; -ETIMEDOUT. */
int shm_backend_new(struct shm_world *world, uint32_t rank, uint64_t timeout_ns,
		    struct backend **out, struct err *err);

#endif
