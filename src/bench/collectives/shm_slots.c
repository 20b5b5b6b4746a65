/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of any length between buffers that only their own rank can reach: round by round through
 * the slots. */
#include "bench/collectives/shm_internal.h"

#include <string.h>

#include "base/clock.h"

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

/* Into a slot, mostly. */
static void shm_slots_put(uint8_t *to, const uint8_t *from, size_t bytes, bool streams)
{
	if (streams)
		reduce_stream(to, from, bytes);
	else
		memcpy(to, from, bytes);
}

/* My slot of this round has my bytes [at, at + length). */
static uint64_t shm_slots_show(struct shm_backend *self, const struct shm_plan *plan, size_t at,
			       size_t length)
{
	uint64_t round = ++self->round;

	if (at < plan->source_bytes) {
		size_t left = plan->source_bytes - at, bytes = left < length ? left : length;
		bool streams = self->streams;

		shm_slots_put(shm_slot(self->world, self->backend.rank, round, length),
			      plan->source + at, bytes, streams);
		if (streams)
			reduce_stream_end();
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
		    peer == rank ? plan->source + at : shm_slot(self->world, peer, round, length);
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

/* One rank's part of `length` bytes: whole lines, so that no two write to the same one. */
static struct shm_part shm_slice(size_t length, uint32_t ranks, uint32_t rank)
{
	size_t lines = (length + SHM_CACHE_LINE - 1) / SHM_CACHE_LINE;
	size_t from = lines * rank / ranks * SHM_CACHE_LINE;
	size_t end = lines * (rank + 1) / ranks * SHM_CACHE_LINE;
	if (end > length)
		end = length;
	return (struct shm_part){.from = from, .bytes = end - from};
}

/* Results that no cache has room for are written past it, which saves reading what they replace. */
static bool shm_slots_streams(const struct shm_backend *self, const struct shm_plan *plan)
{
	return plan->longest >= self->limits.stream;
}

/* My slice of all ranks' slots, into my buffer and for the others: where it lay in my own slot is
 * nothing yet, since nobody else wants it of me. */
static int shm_slots_sum_slice(struct shm_backend *self, const struct shm_plan *plan,
			       uint64_t round, size_t at, size_t length, struct err *err)
{
	uint32_t ranks = self->backend.ranks, rank = self->backend.rank;
	struct shm_part mine = shm_slice(length, ranks, rank);
	const void *sources[COLLECTIVE_SHM_RANKS_MAX];

	for (uint32_t step = 1; step < ranks; step++) {
		uint32_t peer = (rank + step) % ranks;
		int rc = shm_wait(self, &self->world->seats[peer].round, round, peer, err);
		if (rc < 0)
			return rc;
		sources[peer] = shm_slot(self->world, peer, round, length) + mine.from;
	}

	uint8_t *to = plan->sum.to + at + mine.from;
	uint8_t *shown = shm_slot(self->world, rank, round, length) + mine.from;

	uint8_t block[SHM_BLOCK] __attribute__((aligned(SHM_CACHE_LINE)));
	bool streams = self->streams, streams_out = shm_slots_streams(self, plan);

	for (size_t done = 0; done < mine.bytes; done += SHM_BLOCK) {
		size_t now = mine.bytes - done < SHM_BLOCK ? mine.bytes - done : SHM_BLOCK;
		uint8_t *result = streams_out ? block : to + done;
		const void *parts[COLLECTIVE_SHM_RANKS_MAX];

		for (uint32_t peer = 0; peer < ranks; peer++)
			parts[peer] = peer == rank ? plan->source + at + mine.from + done
						   : (const uint8_t *)sources[peer] + done;

		reduce_tree(self->reduce, plan->call->type, plan->call->redop, parts, ranks, result,
			    now / plan->element);
		shm_slots_put(shown + done, result, now, streams);
		if (streams_out)
			reduce_stream(to + done, result, now);
	}

	if (streams)
		reduce_stream_end();
	atomic_store_explicit(&self->world->seats[rank].done, round, memory_order_release);
	return 0;
}

/* all_reduce of what fits into a slot, each rank one slice: n - 1 of n bytes are read twice,
 * instead of n - 1 times. */
static int shm_slots_slices(struct shm_backend *self, const struct shm_plan *plan, size_t at,
			    size_t length, struct err *err)
{
	uint32_t ranks = self->backend.ranks, rank = self->backend.rank;
	struct shm_part mine = shm_slice(length, ranks, rank);
	uint64_t round = ++self->round;
	uint8_t *slot = shm_slot(self->world, rank, round, length);
	bool streams = self->streams;
	bool streams_out = shm_slots_streams(self, plan);
	size_t behind = mine.from + mine.bytes;

	shm_slots_put(slot, plan->source + at, mine.from, streams);
	shm_slots_put(slot + behind, plan->source + at + behind, length - behind, streams);
	if (streams)
		reduce_stream_end();
	atomic_store_explicit(&self->world->seats[rank].round, round, memory_order_release);

	int rc = shm_slots_sum_slice(self, plan, round, at, length, err);

	for (uint32_t step = 1; rc == 0 && step < ranks; step++) {
		uint32_t peer = (rank + step) % ranks;
		struct shm_part theirs = shm_slice(length, ranks, peer);

		rc = shm_wait(self, &self->world->seats[peer].done, round, peer, err);
		if (rc == 0)
			shm_slots_put(plan->sum.to + at + theirs.from,
				      shm_slot(self->world, peer, round, length) + theirs.from,
				      theirs.bytes, streams_out);
	}

	if (streams_out)
		reduce_stream_end();

	return rc;
}

/* --- through the caches, or past them -----------------------------------------------------------
 */

/* What this round does; the time now if it is a trial, or 0. */
static uint64_t shm_habit_begin(struct shm_habit *habit, bool *out_streams)
{
	static const struct clock clock = {NULL};
	uint32_t turn = habit->count++ % SHM_HABIT_PERIOD;

	if (turn == 0)
		habit->least_ns[0] = habit->least_ns[1] = UINT64_MAX;

	bool is_trial = turn < 2 * SHM_HABIT_TRIES;

	/* Not by a hair: all ranks should come to the same. */
	*out_streams =
	    is_trial ? turn >= SHM_HABIT_TRIES : habit->least_ns[1] < habit->least_ns[0] / 8 * 7;
	return is_trial ? clock_now_ns(&clock) : 0;
}

static void shm_habit_end(struct shm_habit *habit, uint64_t began_ns, bool streams)
{
	static const struct clock clock = {NULL};
	uint64_t took_ns = began_ns ? clock_now_ns(&clock) - began_ns : UINT64_MAX;
	if (took_ns < habit->least_ns[streams])
		habit->least_ns[streams] = took_ns;
}

/* --- rounds -------------------------------------------------------------------------------------
 */

static int shm_slots_round(struct shm_backend *self, const struct shm_plan *plan, bool is_sliced,
			   size_t at, size_t length, struct err *err)
{
	if (is_sliced)
		return shm_slots_slices(self, plan, at, length, err);
	uint64_t round = shm_slots_show(self, plan, at, length);
	return shm_slots_take(self, plan, round, at, length, err);
}

int shm_slots_run(struct shm_backend *self, const struct shm_plan *plan, struct err *err)
{
	bool is_sliced =
	    plan->call->op == COLLECTIVE_ALL_REDUCE && plan->longest >= self->limits.slice;

	for (size_t at = 0; at < plan->longest; at += SHM_SLOT_BYTES) {
		size_t length = plan->longest - at;
		if (length > SHM_SLOT_BYTES)
			length = SHM_SLOT_BYTES;

		struct shm_habit *habit = &self->habits[63 - __builtin_clzll(length)];
		bool learns = length >= self->limits.shy;
		uint64_t began_ns = learns ? shm_habit_begin(habit, &self->streams) : 0;

		self->streams = learns && self->streams;
		int rc = shm_slots_round(self, plan, is_sliced, at, length, err);
		if (rc < 0)
			return rc;
		if (learns)
			shm_habit_end(habit, began_ns, self->streams);
	}

	return 0;
}
