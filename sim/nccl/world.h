/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ranks of a simulated communicator: processes of one machine that share a segment, in which
 * each pair has a ring of bytes per direction. Moves messages between ranks, notices the dead, and
 * compares what both ends say they are doing. Knows nothing of reductions, GPUs and streams.
 */
#ifndef SLUICE_SIM_NCCL_WORLD_H
#define SLUICE_SIM_NCCL_WORLD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sim/nccl/api.h"

enum comm_world_limits {
	WORLD_RANKS_MAX = 64,
	WORLD_BUS_MAX = 24,
	WORLD_RING_MAX = 256 << 10, /* bytes of one ring; smaller where there are many ranks */
	WORLD_RING_MIN = 4 << 10,
	WORLD_BYTES_MAX = 16 << 20, /* of all rings */
	WORLD_PROBLEM_MAX = 256,
};

struct comm_world;

/* What a message is part of; both ends must say the same. */
struct world_tag {
	uint32_t kind; /* enum comm_kind */
	uint32_t type, redop, root;
	uint64_t count;
	uint64_t number; /* of the collective on this communicator; 0 for send and receive */
};

struct world_transfer {
	uint32_t peer;
	bool is_send;
	uint8_t *data; /* borrowed */
	size_t bytes, done;
	struct world_tag tag;
	size_t tag_done;
	struct world_tag heard; /* of a receive */
};

/* A fresh id, which names a segment that nobody has made yet. NCCL_SYSTEM_ERROR. */
int world_make_id(struct nccl_id *out);
/*
 * Meets the others: all `ranks` must come, each once. Waits until `*stop`. `bus_id` is told to the
 * others. NCCL_INVALID_USAGE, NCCL_INVALID_ARGUMENT, NCCL_SYSTEM_ERROR, NCCL_REMOTE_ERROR with
 * `problem`.
 */
int world_join(const struct nccl_id *id, uint32_t ranks, uint32_t rank, const char *bus_id,
	       const atomic_bool *stop, struct comm_world **out, char problem[WORLD_PROBLEM_MAX]);
/* The others notice. NULL. */
struct comm_world *comm_world_leave(struct comm_world *world, bool is_abort);
const char *world_bus_id(const struct comm_world *world, uint32_t rank);
/* Until all are done. Transfers of one pair and direction go in the order given. NCCL_SUCCESS,
 * NCCL_REMOTE_ERROR (somebody died or aborted), NCCL_INVALID_USAGE (both ends differ),
 * NCCL_IN_PROGRESS (stopped). */
int world_move(struct comm_world *world, struct world_transfer *transfers, size_t count,
	       const atomic_bool *stop, char problem[WORLD_PROBLEM_MAX]);

#endif
