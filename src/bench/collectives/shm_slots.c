/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of any length between buffers that only their own rank can reach: round by round through
 * the slots. */
#include "bench/collectives/shm_internal.h"

#include <string.h>

/* What of [from, from + bytes) lies in [at, at + length). */
static bool shm_overlap(const struct shm_part *part, size_t at, size_t length, struct shm_part *out)
{
	size_t from = part->from > at ? part->from : at;
	size_t end = part->from + part->bytes, limit = at + length;
	if (end > limit)
		end = limit;
	if (from >= end)
		return false;
	*out = (struct shm_part){
	    .from = from, .bytes = end - from, .to = part->to + (from - part->from)};
	return true;
}

/* My slot of this round has my bytes [at, at + length). */
static uint64_t shm_slots_show(struct shm_backend *self, const struct shm_plan *plan, size_t at,
			       size_t length)
{
	uint64_t round = ++self->round;
	if (at < plan->source_bytes) {
		size_t left = plan->source_bytes - at;
		memcpy(shm_slot(self->world, self->backend.rank, round), plan->source + at,
		       left < length ? left : length);
	}
	atomic_store_explicit(&self->world->seats[self->backend.rank].round, round,
			      memory_order_release);
	return round;
}

/* Everybody is waited for, even who has nothing for me: see shm_internal.h. */
static int shm_slots_take(struct shm_backend *self, const struct shm_plan *plan, uint64_t round,
			  size_t at, size_t length, struct err *err)
{
	uint32_t ranks = self->backend.ranks, rank = self->backend.rank;
	const void *sources[COLLECTIVE_SHM_RANKS_MAX];
	struct shm_part sum = {0}, part;
	bool is_summed = plan->is_reduced && shm_overlap(&plan->sum, at, length, &sum);
	for (uint32_t step = 0; step < ranks; step++) {
		uint32_t peer = (rank + step) % ranks;
		const uint8_t *slot =
		    peer == rank ? plan->source + at : shm_slot(self->world, peer, round);
		int rc = peer == rank
			     ? 0
			     : shm_wait(self, &self->world->seats[peer].round, round, peer, err);
		if (rc < 0)
			return rc;
		if (is_summed)
			sources[peer] = slot + (sum.from - at);
		else if (!plan->is_reduced && shm_overlap(&plan->copy[peer], at, length, &part) &&
			 part.to != slot + (part.from - at))
			memcpy(part.to, slot + (part.from - at), part.bytes);
	}
	if (is_summed)
		reduce_tree(self->reduce, plan->call->type, plan->call->redop, sources, ranks,
			    sum.to, sum.bytes / plan->element);
	return 0;
}

int shm_slots_run(struct shm_backend *self, const struct shm_plan *plan, struct err *err)
{
	for (size_t at = 0; at < plan->longest; at += SHM_SLOT_BYTES) {
		size_t length = plan->longest - at;
		if (length > SHM_SLOT_BYTES)
			length = SHM_SLOT_BYTES;
		uint64_t round = shm_slots_show(self, plan, at, length);
		int rc = shm_slots_take(self, plan, round, at, length, err);
		if (rc < 0)
			return rc;
	}
	return 0;
}
