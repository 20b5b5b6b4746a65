/* SPDX-License-Identifier: Apache-2.0 */
/* Which of the devices that are to be had a job gets: the rule stands at the top of schedule.h. */
#include "doors/queue/schedule/schedule.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "doors/queue/schedule/schedule_internal.h"
#include "units/allocator.h"

static bool choose_is_kept_by(const struct schedule_state *state,
			      const struct schedule_keeper *keeper)
{
	return state->time_ns > keeper->window_ns ||
	       (state->time_is_estimate && keeper->takes_no_estimates);
}

const struct schedule_keeper *schedule_keeper(const struct schedule_state *state, size_t place)
{
	const struct schedule_keeper *first = &state->first[place], *shut = &state->shut[place];
	if (first->id == 0)
		return NULL;
	if (choose_is_kept_by(state, first))
		return first;
	return choose_is_kept_by(state, shut) ? shut : NULL;
}

static bool schedule_is_to_be_had(const struct schedule_state *state, size_t place)
{
	return !schedule_keeper(state, place) &&
	       schedule_device_use(&state->machine->devices[place], &state->want) == SCHEDULE_FREE;
}

/* How many MIG devices of the parent nobody has: the fewer, the better one fits there. */
static uint64_t schedule_siblings(const struct schedule_machine *machine,
				  const struct schedule_device *device)
{
	uint64_t count = 0;
	for (size_t i = 0; i < machine->device_count; i++)
		count += machine->devices[i].unit.gpu == device->unit.gpu &&
			 machine->devices[i].used_count == 0;
	return count;
}

/* How far the device is from the adapters that are wanted: the same for all when none is. */
static uint8_t schedule_level(const struct schedule_state *state,
			      const struct schedule_device *device)
{
	return state->want.resources ? schedule_pools_level(&state->machine->pools,
							    state->want.resources, device->unit.gpu)
				     : 0;
}

/* Whether `a` is a better hole than `b`, which comes before it: see the top of schedule.h. */
static bool schedule_is_better(const struct schedule_state *state, const uint16_t *prefer,
			       size_t place_a, size_t place_b)
{
	const struct schedule_device *a = &state->machine->devices[place_a];
	const struct schedule_device *b = &state->machine->devices[place_b];

	if (prefer[place_a] != prefer[place_b])
		return prefer[place_a] < prefer[place_b];
	if ((a->unit.outsider != 0) != (b->unit.outsider != 0))
		return a->unit.outsider == 0;

	uint8_t far_a = schedule_level(state, a), far_b = schedule_level(state, b);
	if (far_a != far_b)
		return far_a < far_b;

	if (state->want.shared) {
		uint64_t left_a =
		    a->slot_count - a->used_count - (uint64_t)schedule_want_slots(&state->want, a);
		uint64_t left_b =
		    b->slot_count - b->used_count - (uint64_t)schedule_want_slots(&state->want, b);
		if (left_a * b->slot_count != left_b * a->slot_count)
			return left_a * b->slot_count < left_b * a->slot_count;
		if ((a->used_count > 0) != (b->used_count > 0))
			return a->used_count > 0;
	} else {
		if (a->slot_count != b->slot_count)
			return a->slot_count < b->slot_count;

		uint64_t rest_a = schedule_siblings(state->machine, a);
		uint64_t rest_b = schedule_siblings(state->machine, b);
		if (rest_a != rest_b)
			return rest_a < rest_b;
	}

	return a->last_used < b->last_used;
}

/* One device after the other, each the best hole for what is wanted. */
static void schedule_choose_holes(const struct schedule_state *state, const uint16_t *prefer,
				  bool *chosen)
{
	const struct schedule_want *want = &state->want;

	for (size_t n = 0; n < want->needed; n++) {
		size_t best = PLACE_UNIT_MAX;

		for (size_t i = 0; i < want->count; i++) {
			size_t place = want->device[i];
			if (!chosen[place] && schedule_is_to_be_had(state, place) &&
			    (best == PLACE_UNIT_MAX ||
			     schedule_is_better(state, prefer, place, best)))
				best = place;
		}

		if (best < PLACE_UNIT_MAX) /* the caller has counted */
			chosen[best] = true;
	}
}

/*
 * An allocator that knows the GPUs in the order of their last use: among answers that are equally
 * good it takes the one with the lowest numbers. That order holds for the whole pass, because what
 * is granted in it is not granted again.
 */
static int schedule_rank(struct schedule_state *state, struct err *err)
{
	const struct inventory *inventory = state->machine->inventory;
	_cleanup_free_ struct allocator_topology *shape = calloc(2, sizeof(*shape));
	if (!shape)
		return err_set(err, -ENOMEM, "no memory to choose GPUs with");

	struct allocator_topology *ranked = &shape[1];
	uint64_t used[GPU_MAX] = {0};

	allocator_topology_weigh(inventory, &shape[0]);
	ranked->gpu_count = shape[0].gpu_count;

	for (size_t i = 0; i < state->machine->device_count; i++)
		used[state->machine->devices[i].unit.gpu] = state->machine->devices[i].last_used;

	for (uint32_t a = 0; a < ranked->gpu_count; a++) {
		state->rank[a] = 0;
		for (uint32_t b = 0; b < ranked->gpu_count; b++)
			state->rank[a] += used[b] < used[a] || (used[b] == used[a] && b < a);
	}

	for (uint32_t a = 0; a < ranked->gpu_count; a++) {
		ranked->numa[state->rank[a]] = shape[0].numa[a];
		for (uint32_t b = 0; b < ranked->gpu_count; b++)
			ranked->weight[state->rank[a]][state->rank[b]] = shape[0].weight[a][b];
	}

	return allocator_new(ranked, &state->ranked, err);
}

/* The allocator to ask, and the number of each GPU in it. */
static int schedule_allocator(struct schedule_state *state, struct allocator **out,
			      uint32_t number[GPU_MAX], struct err *err)
{
	bool many = state->machine->inventory->gpu_count > SCHEDULE_RANKED_MAX;

	for (uint32_t i = 0; i < GPU_MAX; i++)
		number[i] = i;

	if (many && state->want.needed > 1)
		return schedule_shape_get(state->machine, out, err);

	int rc = state->ranked ? 0 : schedule_rank(state, err);
	if (rc < 0)
		return rc;

	memcpy(number, state->rank, sizeof(state->rank));
	*out = state->ranked;
	return 0;
}

/* Whether a whole GPU may be chosen: to be had, not farther from the adapters than `level`, and one
 * that nobody could share if there are enough of those. */
static bool schedule_is_candidate(const struct schedule_state *state, size_t place, bool only_plain,
				  uint8_t level)
{
	const struct schedule_device *device = &state->machine->devices[place];
	return schedule_is_to_be_had(state, place) && (!only_plain || device->slot_count == 1) &&
	       schedule_level(state, device) <= level;
}

static size_t schedule_candidates(const struct schedule_state *state, bool only_plain,
				  uint8_t level)
{
	size_t count = 0;
	for (size_t i = 0; i < state->want.count; i++)
		count += schedule_is_candidate(state, state->want.device[i], only_plain, level);
	return count;
}

/* The smallest distance within which there are enough GPUs. */
static uint8_t schedule_reach(const struct schedule_state *state, bool only_plain)
{
	static const uint8_t levels[] = {GPU_LEVEL_INTERNAL,   GPU_LEVEL_SINGLE, GPU_LEVEL_MULTIPLE,
					 GPU_LEVEL_HOSTBRIDGE, GPU_LEVEL_NODE,	 GPU_LEVEL_SYSTEM};
	for (size_t i = 0; i < array_length(levels); i++)
		if (schedule_candidates(state, only_plain, levels[i]) >= state->want.needed)
			return levels[i];
	return GPU_LEVEL_UNKNOWN;
}

/* Those that are preferred and to be had, as far as they are needed. */
static size_t schedule_choose_preferred(const struct schedule_state *state, const uint16_t *prefer,
					bool *chosen)
{
	const struct schedule_want *want = &state->want;
	size_t count = 0;

	for (; count < want->needed; count++) {
		size_t best = PLACE_UNIT_MAX;

		for (size_t i = 0; i < want->count; i++) {
			size_t place = want->device[i];
			if (prefer[place] != UINT16_MAX && !chosen[place] &&
			    schedule_is_to_be_had(state, place) &&
			    (best == PLACE_UNIT_MAX || prefer[place] < prefer[best]))
				best = place;
		}

		if (best == PLACE_UNIT_MAX)
			break;

		chosen[best] = true;
	}

	return count;
}

/* Whole GPUs: the preferred ones, and with them the best connected. */
static int schedule_choose_whole(struct schedule_state *state, const uint16_t *prefer, bool *chosen,
				 struct err *err)
{
	const struct schedule_want *want = &state->want;
	const struct schedule_device *devices = state->machine->devices;
	struct allocator_unit units[GPU_MAX], must[GPU_MAX], answer[GPU_MAX];
	struct allocator_question question = {
	    .available = units, .must = must, .size = want->needed};
	bool only_plain = schedule_candidates(state, true, GPU_LEVEL_UNKNOWN) >= want->needed;
	uint8_t reach = schedule_reach(state, only_plain);
	uint32_t number[GPU_MAX];
	struct allocator *allocator;

	if (schedule_choose_preferred(state, prefer, chosen) == want->needed)
		return 0;

	int rc = schedule_allocator(state, &allocator, number, err);
	if (rc < 0)
		return rc;

	for (size_t i = 0; i < want->count; i++) {
		size_t place = want->device[i];
		const struct allocator_unit unit = {.gpu = number[devices[place].unit.gpu]};

		if (chosen[place])
			must[question.must_count++] = unit;
		else if (schedule_is_candidate(state, place, only_plain, reach))
			units[question.available_count++] = unit;
	}

	rc = allocator_prefer(allocator, &question, answer, err);
	if (rc < 0)
		return rc;

	for (size_t i = 0; i < want->count; i++)
		for (int a = 0; a < rc; a++)
			if (number[devices[want->device[i]].unit.gpu] == answer[a].gpu)
				chosen[want->device[i]] = true;

	return 0;
}

int schedule_choose(struct schedule_state *state, bool *chosen, struct err *err)
{
	const struct schedule_want *want = &state->want;
	uint16_t own[PLACE_UNIT_MAX];
	const uint16_t *prefer = state->prefer;

	if (state->job->wants.prefer) {
		schedule_prefer_rank(state->machine, state->job->wants.prefer, own);
		prefer = own;
	}

	if (want->listed)
		for (size_t i = 0; i < want->count; i++)
			chosen[want->device[i]] = true;
	else if (want->shared || want->mig)
		schedule_choose_holes(state, prefer, chosen);
	else
		return schedule_choose_whole(state, prefer, chosen, err);

	return 0;
}

/* One worker after the other gets those of what is left that are best connected, and leave the
 * rest so. */
static int schedule_order_workers(struct schedule_state *state, uint16_t *places, struct err *err)
{
	const struct schedule_want *want = &state->want;
	const struct schedule_device *devices = state->machine->devices;
	struct allocator_unit units[GPU_MAX], answer[GPU_MAX];
	uint16_t ordered[GPU_MAX];
	uint32_t number[GPU_MAX];
	struct allocator *allocator;
	size_t done = 0, left = want->needed;
	int rc = schedule_allocator(state, &allocator, number, err);

	while (rc >= 0 && left > 0) {
		struct allocator_question question = {
		    .available = units, .available_count = left, .size = want->worker_gpus};

		for (size_t i = 0; i < left; i++)
			units[i] =
			    (struct allocator_unit){.gpu = number[devices[places[i]].unit.gpu]};

		rc = allocator_prefer(allocator, &question, answer, err);
		size_t kept = 0, before = done;

		for (size_t i = 0; i < left; i++) {
			bool is_next = false;
			for (int a = 0; a < rc; a++)
				is_next |= answer[a].gpu == units[i].gpu;

			if (is_next)
				ordered[done++] = places[i];
			else
				places[kept++] = places[i];
		}

		if (rc >= 0 && done == before)
			return err_set(err, -EIO, "no GPU was chosen for a worker");

		left = kept;
	}

	if (rc >= 0)
		memcpy(places, ordered, done * sizeof(*places));

	return rc < 0 ? rc : 0;
}

int schedule_choose_order(struct schedule_state *state, const bool *chosen, uint16_t *out,
			  struct err *err)
{
	const struct schedule_want *want = &state->want;
	size_t count = 0;
	for (size_t i = 0; i < want->count && count < want->needed; i++)
		if (chosen[want->device[i]])
			out[count++] = want->device[i];

	if (count != want->needed)
		return err_set(err, -EIO, "%zu GPUs were to be chosen, %zu were", want->needed,
			       count);

	bool is_cut = want->workers > 1 && want->worker_gpus > 0 && want->worker_gpus < count;
	if (!is_cut || want->listed || want->shared || want->mig)
		return 0;

	return schedule_order_workers(state, out, err);
}
