/* SPDX-License-Identifier: Apache-2.0 */
/* When what is in use will be free: each job taken at its word about how long it runs. */
#include "doors/queue/schedule/schedule.h"

#include <errno.h>
#include <stdlib.h>

#include "base/array.h"
#include "job/launch.h"
#include "doors/queue/schedule/schedule_internal.h"

enum { AHEAD_FIRST = 32 };

static int ahead_add_guest(struct schedule_state *state, const struct launch_grant *grant,
			   const struct schedule_running *running)
{
	const struct schedule_device *device = schedule_machine_find(state->machine, grant->uuid);
	struct schedule_guest guest = {.left_ns = running->left_ns,
				       .is_estimate = running->is_estimate,
				       .is_overdue = running->is_overdue,
				       .priority = running->priority,
				       .since_ns = running->since_ns};

	if (!device)
		return 0;

	guest.place = (uint16_t)(device - state->machine->devices);
	/* A device that has other slots by now is in use as a whole: see schedule_machine_take().
	 */
	for (uint32_t slot = 0; slot < LAUNCH_SLOTS_MAX; slot++)
		guest.slots += launch_grant_has(grant, slot);

	if (guest.slots >= grant->slot_count || guest.slots > device->slot_count)
		guest.slots = device->slot_count;
	if (array_room(&state->guests, state->guest_count, &state->guest_capacity, AHEAD_FIRST) < 0)
		return -ENOMEM;

	state->guests[state->guest_count++] = guest;
	return 0;
}

int schedule_ahead_add(struct schedule_state *state, const struct schedule_running *running)
{
	for (size_t i = 0; i < running->grant_count; i++)
		if (ahead_add_guest(state, &running->grants[i], running) < 0)
			return -ENOMEM;

	if (running->cpu_milli == 0 && running->mem_bytes == 0)
		return 0;
	if (array_room(&state->ends, state->end_count, &state->end_capacity, AHEAD_FIRST) < 0)
		return -ENOMEM;

	state->ends[state->end_count++] = (struct schedule_end){
	    .left_ns = running->left_ns,
	    .amount = {
		[SCHEDULE_CPU] = running->cpu_milli, [SCHEDULE_MEMORY] = running->mem_bytes}};
	state->ends_are_sorted = false;
	return 0;
}

/* In how long the device has so many slots free. */
static uint64_t ahead_device(const struct schedule_state *state, size_t place, uint32_t slots,
			     bool *out_is_estimate)
{
	const struct schedule_device *device = &state->machine->devices[place];
	uint32_t known = 0;
	uint64_t best = SCHEDULE_NEVER;

	*out_is_estimate = false;
	if (device->holder[0] != '\0')
		return SCHEDULE_NEVER;
	if (device->slot_count - device->used_count >= slots)
		return 0;

	for (size_t i = 0; i < state->guest_count; i++)
		if (state->guests[i].place == place)
			known += state->guests[i].slots;

	/* What is in use and is no job's of ours is so for ever. */
	uint32_t strange = device->used_count > known ? device->used_count - known : 0;

	for (size_t i = 0; i < state->guest_count; i++) {
		if (state->guests[i].place != place)
			continue;

		uint64_t at_ns = schedule_pledge_left(state, &state->guests[i]);
		uint32_t used = strange;
		bool is_estimate = false;

		if (at_ns >= best)
			continue;

		for (size_t k = 0; k < state->guest_count; k++) {
			const struct schedule_guest *guest = &state->guests[k];
			if (guest->place != place)
				continue;

			bool is_over = schedule_pledge_left(state, guest) <= at_ns;
			used += is_over ? 0 : guest->slots;
			is_estimate |= is_over && guest->is_estimate;
		}

		if (used + slots <= device->slot_count) {
			best = at_ns;
			*out_is_estimate = is_estimate;
		}
	}

	return best;
}

static int ahead_compare_times(const void *left, const void *right)
{
	uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
	return (a > b) - (a < b);
}

void schedule_ahead_devices(const struct schedule_state *state, struct schedule_plan *out)
{
	const struct schedule_want *want = &state->want;
	struct schedule_opening openings[PLACE_UNIT_MAX];

	for (size_t i = 0; i < want->count; i++) {
		size_t place = want->device[i];
		const struct schedule_device *device = &state->machine->devices[place];
		enum schedule_use use = schedule_device_use(device, want);
		struct schedule_opening *opening = &openings[i];

		*opening = (struct schedule_opening){.place = (uint16_t)place,
						     .at_ns = SCHEDULE_NEVER,
						     .is_counted = use == SCHEDULE_FREE ||
								   use == SCHEDULE_USED};
		if (!opening->is_counted)
			continue;

		opening->at_ns = ahead_device(state, place, schedule_want_slots(want, device),
					      &opening->is_estimate);

		/* Not before the job that keeps it from this one has had it. */
		const struct schedule_keeper *keeper = schedule_keeper(state, place);
		if (keeper) {
			uint64_t kept_ns = keeper->window_ns ? keeper->window_ns : SCHEDULE_NEVER;
			if (kept_ns > opening->at_ns)
				opening->at_ns = kept_ns;
		}
	}

	schedule_plan_make(state, openings, want->count, out);
}

static int ahead_compare_ends(const void *left, const void *right)
{
	return ahead_compare_times(&((const struct schedule_end *)left)->left_ns,
				   &((const struct schedule_end *)right)->left_ns);
}

uint64_t schedule_ahead_amount(struct schedule_state *state, enum schedule_amount_kind kind,
			       uint64_t wanted)
{
	const struct schedule_amount *amount = &state->amounts[kind];
	uint64_t free_now = schedule_ahead_free(state, kind, 0);
	if (amount->there_is == 0 || free_now >= wanted)
		return 0;
	if (!state->ends_are_sorted && state->end_count > 0)
		qsort(state->ends, state->end_count, sizeof(*state->ends), ahead_compare_ends);
	state->ends_are_sorted = true;

	uint64_t used = amount->used;
	for (size_t i = 0; i < state->end_count; i++) {
		used -= state->ends[i].amount[kind];
		if (used <= amount->there_is && amount->there_is - used >= wanted)
			return state->ends[i].left_ns;
	}

	return SCHEDULE_NEVER;
}

uint64_t schedule_ahead_free(const struct schedule_state *state, enum schedule_amount_kind kind,
			     uint64_t at_ns)
{
	const struct schedule_amount *amount = &state->amounts[kind];
	uint64_t used = amount->used;
	for (size_t i = 0; at_ns > 0 && i < state->end_count; i++)
		if (state->ends[i].left_ns <= at_ns)
			used -= state->ends[i].amount[kind];
	return used < amount->there_is ? amount->there_is - used : 0;
}
