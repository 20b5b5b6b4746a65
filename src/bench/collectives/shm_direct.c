/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Long messages without a copy between: every rank reaches the others' buffers themselves, because
 * they are registered, or through the kernel (process_vm_readv and _writev). Of a reduction each
 * rank computes one slice, of all sources, and puts it where it belongs: nobody else touches
 * that slice of any buffer, so that it may be done in place.
 */
#include "bench/collectives/shm_internal.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>

/* How a rank's buffers can be reached: as an index of a region and an offset, or as addresses in
 * its process. */
struct shm_place {
	uint64_t region[2], offset[2]; /* of send and receive */
};

enum shm_direct_sizes {
	SHM_SLICE_ALIGN = 4096, /* bytes; two ranks never write to the same cache line */
};

struct shm_direct {
	struct shm_backend *self;
	const struct shm_plan *plan;
	struct shm_place places[COLLECTIVE_SHM_RANKS_MAX];
	bool is_mapped; /* registered; else through the kernel */
	bool streams;
};

/* What is read through the kernel lies in my slots meanwhile, from all but one rank, and a result
 * beside it. They are free: all have come here, so they have left the operation before. As much at
 * a time as fits, since every call of the kernel finds the pages anew. */
static size_t shm_direct_block_bytes(const struct shm_direct *direct)
{
	size_t each = 2 * SHM_SLOT_BYTES / direct->self->backend.ranks;
	return direct->is_mapped ? SHM_BLOCK : each - each % SHM_CACHE_LINE;
}

static uint8_t *shm_direct_at(const struct shm_direct *direct, uint32_t rank, int side)
{
	const struct shm_place *place = &direct->places[rank];
	const struct shm_region *region = &direct->self->regions[place->region[side]];
	return region->map + region->bytes * rank + place->offset[side];
}

/* All of it, or an error: the kernel may do less than it is asked to. */
static int shm_direct_move(struct shm_direct *direct, uint32_t peer, bool writes, void *here,
			   uint64_t there, size_t bytes, struct err *err)
{
	pid_t pid = atomic_load(&direct->self->world->seats[peer].pid);

	while (bytes > 0) {
		struct iovec mine = {.iov_base = here, .iov_len = bytes};
		struct iovec theirs = {.iov_base = (void *)(uintptr_t)there, .iov_len = bytes};
		ssize_t moved = writes ? process_vm_writev(pid, &mine, 1, &theirs, 1, 0)
				       : process_vm_readv(pid, &mine, 1, &theirs, 1, 0);
		if (moved <= 0) {
			int rc = moved == 0 ? -EIO : errno == ESRCH ? -EPIPE : -errno;
			direct->self->broken = rc;
			return err_set(err, rc, "%s the memory of rank %u (process %d): %s",
				       writes ? "writing" : "reading", peer, (int)pid,
				       err_describe(moved == 0 ? -EIO : -errno));
		}

		here = (uint8_t *)here + moved;
		there += (uint64_t)moved;
		bytes -= (size_t)moved;
	}

	return 0;
}

/* One block of my slice of a sum, at `at` in all sources and destinations. */
static int shm_direct_block(struct shm_direct *direct, size_t at, size_t bytes, struct err *err)
{
	struct shm_backend *self = direct->self;
	const struct backend_call *call = direct->plan->call;
	uint32_t ranks = self->backend.ranks, rank = self->backend.rank;
	bool goes_to_all = call->op == COLLECTIVE_ALL_REDUCE;
	const void *sources[COLLECTIVE_SHM_RANKS_MAX];
	uint8_t *scratch = shm_slot(self->world, rank, 0, 0);

	for (uint32_t peer = 0; peer < ranks; peer++) {
		if (peer == rank) {
			sources[peer] = direct->plan->source + at;
		} else if (direct->is_mapped) {
			sources[peer] = shm_direct_at(direct, peer, 0) + at;
		} else {
			int rc = shm_direct_move(direct, peer, false, scratch,
						 direct->places[peer].offset[0] + at, bytes, err);
			if (rc < 0)
				return rc;

			sources[peer] = scratch;
			scratch += bytes;
		}
	}

	bool is_mine = goes_to_all || call->root == rank;
	uint8_t *result = is_mine ? (uint8_t *)call->receive + at : scratch;

	uint8_t block[SHM_BLOCK] __attribute__((aligned(64)));
	if (direct->streams)
		result = block;
	reduce_tree(self->reduce, call->type, call->redop, sources, ranks, result,
		    bytes / direct->plan->element);

	for (uint32_t step = 0; step < ranks; step++) {
		uint32_t peer = (rank + step) % ranks;
		if (!goes_to_all && peer != call->root)
			continue;

		uint8_t *to = peer == rank ? (uint8_t *)call->receive + at : NULL;
		if (!to && direct->is_mapped)
			to = shm_direct_at(direct, peer, 1) + at;

		int rc = 0;

		if (!to)
			rc = shm_direct_move(direct, peer, true, result,
					     direct->places[peer].offset[1] + at, bytes, err);
		else if (direct->streams)
			reduce_stream(to, result, bytes);
		else if (to != result)
			memcpy(to, result, bytes);

		if (rc < 0)
			return rc;
	}

	return 0;
}

static int shm_direct_slice(struct shm_direct *direct, struct err *err)
{
	uint32_t ranks = direct->self->backend.ranks, rank = direct->self->backend.rank;
	size_t total = direct->plan->longest, block = shm_direct_block_bytes(direct);
	size_t lines = (total + SHM_SLICE_ALIGN - 1) / SHM_SLICE_ALIGN;
	size_t from = lines * rank / ranks * SHM_SLICE_ALIGN;
	size_t end = lines * (rank + 1) / ranks * SHM_SLICE_ALIGN;
	if (end > total)
		end = total;

	for (size_t at = from; at < end; at += block) {
		int rc = shm_direct_block(direct, at, end - at < block ? end - at : block, err);
		if (rc < 0)
			return rc;
	}

	return 0;
}

static int shm_direct_copy(struct shm_direct *direct, struct err *err)
{
	const struct shm_plan *plan = direct->plan;
	uint32_t ranks = direct->self->backend.ranks, rank = direct->self->backend.rank;

	for (uint32_t step = 0; step < ranks; step++) {
		uint32_t peer = (rank + step) % ranks;
		const struct shm_part *part = &plan->copy[peer];

		if (part->bytes == 0)
			continue;

		const uint8_t *from = peer == rank ? plan->source + part->from : NULL;
		if (!from && direct->is_mapped)
			from = shm_direct_at(direct, peer, 0) + part->from;

		int rc = 0;

		if (!from)
			rc = shm_direct_move(direct, peer, false, part->to,
					     direct->places[peer].offset[0] + part->from,
					     part->bytes, err);
		else if (from != part->to && direct->streams)
			reduce_stream(part->to, from, part->bytes);
		else if (from != part->to)
			memcpy(part->to, from, part->bytes);

		if (rc < 0)
			return rc;
	}

	return 0;
}

/* reduce_scatter: my part of all sources, for me alone. */
static int shm_direct_sum(struct shm_direct *direct, struct err *err)
{
	struct shm_backend *self = direct->self;
	const struct shm_plan *plan = direct->plan;
	uint32_t ranks = self->backend.ranks, rank = self->backend.rank;
	const void *sources[COLLECTIVE_SHM_RANKS_MAX];
	size_t block = shm_direct_block_bytes(direct);

	for (size_t done = 0; done < plan->sum.bytes; done += block) {
		size_t now = plan->sum.bytes - done, at = plan->sum.from + done;
		if (now > block)
			now = block;

		uint8_t *scratch = shm_slot(self->world, rank, 0, 0);

		for (uint32_t peer = 0; peer < ranks; peer++) {
			sources[peer] = plan->source + at;
			if (peer != rank && direct->is_mapped) {
				sources[peer] = shm_direct_at(direct, peer, 0) + at;
			} else if (peer != rank) {
				int rc =
				    shm_direct_move(direct, peer, false, scratch,
						    direct->places[peer].offset[0] + at, now, err);
				if (rc < 0)
					return rc;

				sources[peer] = scratch;
				scratch += now;
			}
		}

		reduce_tree(self->reduce, plan->call->type, plan->call->redop, sources, ranks,
			    plan->sum.to + done, now / plan->element);
	}

	return 0;
}

int shm_direct_run(struct shm_backend *self, const struct shm_plan *plan, struct err *err)
{
	const struct backend_call *call = plan->call;
	struct shm_direct direct = {.self = self, .plan = plan};
	const void *sides[2] = {call->send, call->receive};
	const struct shm_region *regions[2] = {shm_memory_find(self, call->send),
					       shm_memory_find(self, call->receive)};

	direct.is_mapped = regions[0] && regions[1];
	if (!direct.is_mapped && (!self->reads_others || plan->longest < self->limits.kernel))
		return 1;

	direct.streams = direct.is_mapped && plan->longest >= self->limits.stream;
	struct shm_place mine = {0};

	for (int side = 0; side < 2; side++) {
		mine.offset[side] = (uintptr_t)sides[side];
		if (!direct.is_mapped)
			continue;

		mine.region[side] = (uint64_t)(regions[side] - self->regions);
		mine.offset[side] -=
		    (uintptr_t)(regions[side]->map + regions[side]->bytes * self->backend.rank);
	}

	uint64_t kind = SHM_KIND_DIRECT + direct.is_mapped;
	int rc = shm_lines(self, kind, &mine, direct.places, sizeof(mine), err);
	if (rc < 0)
		return rc;

	if (!plan->is_reduced)
		rc = shm_direct_copy(&direct, err);
	else if (call->op == COLLECTIVE_REDUCE_SCATTER)
		rc = shm_direct_sum(&direct, err);
	else
		rc = shm_direct_slice(&direct, err);

	if (rc < 0)
		return rc;
	if (direct.streams)
		reduce_stream_end();

	return shm_lines(self, SHM_KIND_END, NULL, NULL, 0, err);
}
