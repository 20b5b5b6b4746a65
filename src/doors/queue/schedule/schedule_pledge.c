/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/queue/schedule/schedule_pledge.h"

#include <stdlib.h>

#include "doors/queue/schedule/schedule_internal.h"

static uint64_t pledge_times(uint32_t gpus, uint32_t machine_gpus)
{
	if (gpus < 2)
		return SCHEDULE_NARROW_TIMES;
	return gpus < machine_gpus - machine_gpus / 2 ? SCHEDULE_MIDDLE_TIMES : 1;
}

uint64_t schedule_due_ns(uint64_t after_ns, uint32_t gpus, uint32_t machine_gpus,
			 int64_t waits_since_ns, uint64_t served_ns)
{
	if (after_ns == 0)
		return 0;

	/* Far more than anybody waits, and little enough to add. */
	uint64_t step_ns = after_ns < SCHEDULE_AFTER_MAX_NS ? after_ns : SCHEDULE_AFTER_MAX_NS;
	uint64_t wait_ns = step_ns * pledge_times(gpus, machine_gpus);
	int64_t due_ns = waits_since_ns + (int64_t)wait_ns;
	int64_t next_ns = served_ns > 0 ? (int64_t)(served_ns + step_ns) : due_ns;

	due_ns = next_ns > due_ns ? next_ns : due_ns;
	return due_ns > 0 ? (uint64_t)due_ns : 1;
}

static uint64_t pledge_after(uint64_t now_ns, uint64_t in_ns)
{
	return in_ns >= SCHEDULE_NEVER - now_ns ? SCHEDULE_NEVER : now_ns + in_ns;
}

/* It started after the pledge was made, and is of a higher priority: it was free to. */
static bool pledge_yields_to(const struct schedule_state *state, const struct schedule_guest *guest)
{
	return guest->since_ns > state->job->pledged_ns &&
	       guest->priority > state->job->wants.priority;
}

uint64_t schedule_pledge_left(const struct schedule_state *state,
			      const struct schedule_guest *guest)
{
	const struct job *job = state->job;

	if (job->pledged_ns == 0 || guest->since_ns <= job->pledged_ns ||
	    pledge_yields_to(state, guest))
		return guest->left_ns;

	/* What is estimated to be gone by then is worth nothing any more. */
	if (guest->is_estimate && job->takes_no_estimates)
		return SCHEDULE_NEVER;

	/* It was let past because it would be gone by then. */
	return pledge_after(state->input->now_ns, guest->left_ns) <= job->promise_ns
		   ? guest->left_ns
		   : SCHEDULE_NEVER;
}

static int plan_compare(const void *left, const void *right)
{
	const struct schedule_opening *a = left, *b = right;
	if (a->is_counted != b->is_counted)
		return b->is_counted - a->is_counted;
	if (a->at_ns != b->at_ns)
		return a->at_ns < b->at_ns ? -1 : 1;
	return a->place < b->place ? -1 : a->place > b->place;
}

static void plan_gather_all(const struct schedule_state *state, struct schedule_plan *plan)
{
	plan->count = state->want.count;
	for (size_t i = 0; i < plan->count; i++)
		plan->gathered[i] = state->want.device[i];
}

void schedule_plan_all(const struct schedule_state *state, struct schedule_plan *out)
{
	out->opens_ns = SCHEDULE_NEVER;
	out->is_estimate = false;
	plan_gather_all(state, out);
}

void schedule_plan_make(const struct schedule_state *state, struct schedule_opening *openings,
			size_t count, struct schedule_plan *out)
{
	size_t needed = state->want.needed, counted = 0, enough = 0;

	schedule_plan_all(state, out);
	qsort(openings, count, sizeof(*openings), plan_compare);

	for (size_t i = 0; i < count; i++)
		counted += openings[i].is_counted;

	if (needed > 0 && counted >= needed)
		out->opens_ns = openings[needed - 1].at_ns;
	if (out->opens_ns == SCHEDULE_NEVER)
		return;

	for (size_t i = 0; i < needed; i++)
		out->is_estimate |= openings[i].is_estimate;

	while (enough < counted && openings[enough].at_ns <= out->opens_ns)
		enough++;

	/* Several open at that very moment (a wide job ends): of what is free already as much is
	 * left to others as there will be more than enough; but not for an estimate. */
	size_t spare = enough - needed, first = 0;
	for (size_t i = needed - 1; i < enough; i++)
		spare = openings[i].is_estimate ? 0 : spare;

	while (first < spare && openings[first].at_ns == 0)
		first++;

	out->count = 0;
	for (size_t i = first; i < needed + first; i++)
		out->gathered[out->count++] = openings[i].place;
}

/* Of those that went past by an estimate one takes longer: what others are estimated to take is
 * worth no more. */
static bool pledge_was_misled(const struct schedule_state *state)
{
	for (size_t i = 0; i < state->guest_count; i++) {
		const struct schedule_guest *guest = &state->guests[i];
		if (guest->is_overdue && guest->since_ns >= state->job->pledged_ns &&
		    !pledge_yields_to(state, guest) &&
		    schedule_want_has(&state->want, guest->place))
			return true;
	}

	return false;
}

uint64_t schedule_pledge_window(struct schedule_state *state, struct schedule_plan *plan)
{
	const struct job *job = state->job;
	uint64_t now_ns = state->input->now_ns;
	uint64_t by_ns = pledge_after(now_ns, plan->opens_ns);
	bool is_new = job->pledged_ns == 0;

	for (size_t i = 0; !is_new && i < state->guest_count; i++)
		is_new = pledge_yields_to(state, &state->guests[i]) &&
			 schedule_want_has(&state->want, state->guests[i].place);

	state->takes_no_estimates =
	    !is_new && (job->takes_no_estimates || pledge_was_misled(state));
	state->pledged_ns = is_new ? now_ns : job->pledged_ns;

	bool is_believed = !plan->is_estimate || !state->takes_no_estimates;
	bool is_earlier = by_ns < job->promise_ns && is_believed;

	state->promise_ns = is_new || is_earlier ? by_ns : job->promise_ns;

	if (by_ns > state->promise_ns || by_ns == SCHEDULE_NEVER)
		plan_gather_all(state, plan);
	if (state->promise_ns == SCHEDULE_NEVER || state->promise_ns <= now_ns)
		return 0;

	return state->promise_ns - now_ns;
}

void schedule_pledge_stay(struct schedule_state *state)
{
	const struct job *job = state->job;
	if (!schedule_order_pledges(&state->order, job))
		return;

	state->pledged_ns = job->pledged_ns > 0 ? job->pledged_ns : state->input->now_ns;
	state->promise_ns = SCHEDULE_NEVER;
	state->takes_no_estimates = job->pledged_ns > 0 && job->takes_no_estimates;
}
