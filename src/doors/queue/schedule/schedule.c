/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/queue/schedule/schedule.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "doors/queue/schedule/schedule_internal.h"
#include "doors/queue/schedule/schedule_score.h"
#include "units/allocator.h"

static void schedule_state_done(struct schedule_state *state)
{
	schedule_class_done(state);
	schedule_order_done(&state->order);
	schedule_tally_done(&state->arrays);
	free(state->guests);
	free(state->ends);
	free(state->waiters);
	state->ranked = allocator_free(state->ranked);
}

/* --- starting -------------------------------------------------------------------------------- */

/* Takes the lowest free slots of the device. */
static void schedule_grant(struct schedule_state *state, size_t place, uint32_t slots,
			   struct launch_grant *out)
{
	struct schedule_device *device = &state->machine->devices[place];
	const struct place_unit *unit = &device->unit;

	*out = (struct launch_grant){.index = unit->index, .slot_count = device->slot_count};
	memcpy(out->uuid, unit->uuid, sizeof(out->uuid));
	memcpy(out->label, unit->label, sizeof(out->label));

	for (uint32_t slot = 0; slot < device->slot_count && slots > 0; slot++) {
		uint64_t bit = UINT64_C(1) << (slot % 64);
		if (device->used[slot / 64] & bit)
			continue;

		device->used[slot / 64] |= bit;
		device->used_count++;
		launch_grant_add(out, slot);
		slots--;
	}

	device->used_whole = !state->want.shared;
	device->last_used = ++state->machine->clock;
	state->given_to[place] = state->job->id;
	state->was_backfilled |=
	    state->first[place].id != 0 || (state->counted_on[place / 64] >> (place % 64) & 1);
}

/* What a job that starts takes beside devices, and for how long. */
static int schedule_take(struct schedule_state *state, const struct launch_grant *grants,
			 size_t count)
{
	const struct job *job = state->job;
	const struct schedule_running running = {.cpu_milli = job->wants.cpu_milli,
						 .mem_bytes = job->wants.mem_bytes,
						 .left_ns = state->time_ns,
						 .is_estimate = state->time_is_estimate,
						 .priority = job->wants.priority,
						 .since_ns = state->input->now_ns,
						 .grants = grants,
						 .grant_count = count};
	uint32_t array;

	schedule_pools_take(&state->machine->pools, job->resources);

	for (enum schedule_amount_kind kind = 0; kind < SCHEDULE_AMOUNTS; kind++) {
		struct schedule_amount *amount = &state->amounts[kind];
		uint64_t taken = schedule_amount_of(kind, job);

		amount->used += taken;
		if (taken == 0 || amount->kept_for == 0)
			continue;

		state->was_backfilled = true;
		if (state->time_ns > amount->window_ns)
			amount->spare -= taken < amount->spare ? taken : amount->spare;
	}

	if (job->array_id != 0) {
		if (schedule_tally_find(&state->arrays, job->array_id, &array) < 0)
			return -ENOMEM;
		state->arrays.counts[array]++;
	}

	return schedule_ahead_add(state, &running);
}

static int schedule_start(struct schedule_state *state, struct schedule_decision *out,
			  struct err *err)
{
	const struct schedule_want *want = &state->want;
	const struct schedule_device *devices = state->machine->devices;
	size_t count = want->slots ? state->job->gpus : want->needed;
	bool chosen[PLACE_UNIT_MAX] = {false};
	uint16_t places[PLACE_UNIT_MAX];
	_cleanup_free_ struct launch_grant *grants = NULL;

	if (want->needed > 0) {
		grants = calloc(count, sizeof(*grants));
		if (!grants)
			return err_set(err, -ENOMEM, "no memory for the GPUs of a job");

		int rc = schedule_choose(state, chosen, err);
		if (rc == 0)
			rc = schedule_choose_order(state, chosen, places, err);
		if (rc < 0)
			return rc;

		/* Workers that share devices get one slot after the other, in turns. */
		for (size_t i = 0; i < count; i++) {
			size_t place = places[i % want->needed];
			uint32_t slots =
			    want->slots ? 1 : schedule_want_slots(want, &devices[place]);
			schedule_grant(state, place, slots, &grants[i]);
		}
	}

	if (schedule_take(state, grants, count) < 0)
		return err_set(err, -ENOMEM, "no memory for what a job has");

	*out = (struct schedule_decision){
	    .start = true, .grants = take_ptr(grants), .grant_count = count, .text = ""};
	return 0;
}

/* --- waiting --------------------------------------------------------------------------------- */

/* What the devices that a job could use are to it. */
struct schedule_count {
	size_t unused;	  /* free */
	size_t to_be_had; /* and not kept from it */
	size_t open;	  /* free, or in use by a job, which will end */
	size_t kept;	  /* of those: for an earlier job */
	size_t outsiders; /* somebody computes there without a queue */
	size_t closed;	  /* drained, or reserved for others */
};

static struct schedule_count schedule_count(const struct schedule_state *state)
{
	struct schedule_count count = {0};

	for (size_t i = 0; i < state->want.count; i++) {
		size_t place = state->want.device[i];
		enum schedule_use use =
		    schedule_device_use(&state->machine->devices[place], &state->want);
		bool is_open = use == SCHEDULE_FREE || use == SCHEDULE_USED;
		bool is_kept = is_open && schedule_keeper(state, place);

		count.unused += use == SCHEDULE_FREE;
		count.to_be_had += use == SCHEDULE_FREE && !is_kept;
		count.open += is_open;
		count.kept += is_kept;
		count.outsiders += use == SCHEDULE_OUTSIDER;
		count.closed += use == SCHEDULE_CLOSED;
	}

	return count;
}

/* How many open devices are kept for the jobs up to `order`. */
static size_t schedule_kept_until(const struct schedule_state *state, size_t order)
{
	size_t count = 0;

	for (size_t i = 0; i < state->want.count; i++) {
		size_t place = state->want.device[i];
		enum schedule_use use =
		    schedule_device_use(&state->machine->devices[place], &state->want);
		const struct schedule_keeper *keeper = schedule_keeper(state, place);

		count += (use == SCHEDULE_FREE || use == SCHEDULE_USED) && keeper &&
			 keeper->order <= order;
	}

	return count;
}

/* The first of the jobs that have to start before this one can: what is kept for it and those
 * before it does not leave enough. */
static uint64_t schedule_behind(const struct schedule_state *state, size_t open)
{
	size_t first = SIZE_MAX;
	uint64_t behind = 0;

	for (size_t i = 0; i < state->want.count; i++) {
		size_t place = state->want.device[i];
		const struct schedule_keeper *keeper = schedule_keeper(state, place);
		if (!keeper || keeper->order >= first ||
		    open - schedule_kept_until(state, keeper->order) >= state->want.needed)
			continue;

		first = keeper->order;
		behind = keeper->id;
	}

	return behind;
}

/* Keeps a device for the job in hand, which can start in `opens_ns` at the earliest. */
static void schedule_keep_device(struct schedule_state *state, size_t place, size_t order,
				 uint64_t opens_ns)
{
	const struct schedule_keeper keeper = {
	    .id = state->job->id,
	    .order = order,
	    .window_ns = opens_ns == SCHEDULE_NEVER ? 0 : opens_ns,
	    .takes_no_estimates = state->takes_no_estimates,
	};

	if (state->first[place].id == 0) {
		state->first[place] = state->shut[place] = keeper;
		return;
	}

	struct schedule_keeper *shut = &state->shut[place];
	bool takes_no_estimates = shut->takes_no_estimates || keeper.takes_no_estimates;

	if (keeper.window_ns < shut->window_ns)
		*shut = keeper;
	shut->takes_no_estimates = takes_no_estimates;
}

/* Whether it makes a difference when the job in hand can start. */
static bool schedule_is_open(const struct schedule_state *state)
{
	for (size_t i = 0; i < state->want.count; i++) {
		size_t place = state->want.device[i];
		if (state->first[place].id == 0 || state->shut[place].window_ns > 0)
			return true;
	}

	return false;
}

/* Whether something is kept for the job in hand, which has to wait for devices. Where nothing is
 * ever pledged each job keeps what it wants, or wide ones would wait for ever. Else the pledge sees
 * to them, and who keeps more than one at a time only leaves devices idle. */
static bool schedule_may_keep(const struct schedule_state *state)
{
	const struct queue_rules *rules = state->machine->rules;

	if (!rules || rules->reserve_after_ns == 0 ||
	    schedule_order_pledges(&state->order, state->job))
		return true;

	for (size_t i = 0; i < state->want.count; i++)
		if (state->first[state->want.device[i]].id != 0)
			return false;

	return true;
}

/* When the job in hand can start, if it keeps nothing. */
static void schedule_foresee(struct schedule_state *state)
{
	struct schedule_plan plan;

	if (!schedule_is_open(state))
		return;

	schedule_ahead_devices(state, &plan);
	state->opens_ns = plan.opens_ns;
	state->opens_is_estimate = plan.is_estimate;
}

/* What it gathers; `has_window`: what is kept is all that it waits for. */
static void schedule_keep(struct schedule_state *state, size_t order, bool has_window)
{
	bool is_pledged = has_window && schedule_order_pledges(&state->order, state->job);
	struct schedule_plan plan;

	if (is_pledged || (has_window && schedule_is_open(state)))
		schedule_ahead_devices(state, &plan);
	else
		schedule_plan_all(state, &plan);

	state->opens_ns = plan.opens_ns;
	state->opens_is_estimate = plan.is_estimate;
	uint64_t window_ns = is_pledged ? schedule_pledge_window(state, &plan) : plan.opens_ns;

	for (size_t i = 0; i < plan.count; i++) {
		const struct schedule_device *device = &state->machine->devices[plan.gathered[i]];
		/* What is reserved for others is theirs meanwhile. */
		if (schedule_device_use(device, &state->want) != SCHEDULE_CLOSED)
			schedule_keep_device(state, plan.gathered[i], order, window_ns);
	}

	const struct schedule_pools *pools = &state->machine->pools;
	const char *list = state->want.resources;
	struct demand demand;

	while (demand_next(&list, &demand, NULL) > 0) {
		uint64_t *kept = &state->kept_pool[schedule_pools_find(pools, demand.name)];
		*kept = *kept ? *kept : state->job->id;
	}
}

/* How long a job of this class may run at most to start nevertheless, as far as can be told. What
 * is kept is kept from longer ones during the whole pass. */
static uint64_t schedule_window(const struct schedule_state *state,
				const struct schedule_count *count)
{
	uint64_t window_ns = 0;

	if (count->unused < state->want.needed)
		return 0;

	for (size_t i = 0; i < state->want.count; i++) {
		size_t place = state->want.device[i];
		const struct schedule_keeper *keeper = schedule_keeper(state, place);
		if (keeper && keeper->window_ns > window_ns)
			window_ns = keeper->window_ns;
	}

	for (enum schedule_amount_kind kind = 0; kind < SCHEDULE_AMOUNTS; kind++) {
		const struct schedule_amount *amount = &state->amounts[kind];
		if (schedule_amount_of(kind, state->job) > 0 && amount->kept_for != 0 &&
		    amount->window_ns < state->time_ns && amount->window_ns > window_ns)
			window_ns = amount->window_ns;
	}

	return window_ns;
}

/* All that come later in the class wait for the same as this one. */
static int schedule_wait_alike(const struct schedule_state *state, enum job_reason reason,
			       struct schedule_class *class_, struct err *err)
{
	if (class_->waits)
		return 0; /* the first has said it */
	class_->waits = true;
	class_->reason = reason;
	class_->text = strdup(state->text);
	return class_->text ? 0 : err_set(err, -ENOMEM, "no memory for the reason of a job");
}

/* What is said of a job that others wait for: that it is not its place alone. */
static const char *schedule_reserved(const struct schedule_state *state, uint64_t id)
{
	const struct job *job = schedule_order_pledged(&state->order, id);
	if (!job)
		return "";

	return job->gpus > 1	? ", for which GPUs are reserved"
	       : job->gpus == 1 ? ", for which a GPU is reserved"
				: ", which comes first";
}

/* They wait for this one, or for the one that this one waits for. */
static void schedule_wait_behind(const struct schedule_state *state, struct schedule_class *class_,
				 uint64_t behind)
{
	if (class_->waits)
		return;
	class_->waits = true;
	class_->reason = JOB_REASON_QUEUE_ORDER;
	(void)snprintf(class_->later, sizeof(class_->later), "behind %" PRIu64 "%s", behind,
		       schedule_reserved(state, behind));
}

static void schedule_say_behind(struct schedule_state *state, uint64_t behind)
{
	(void)snprintf(state->text, sizeof(state->text), "behind %" PRIu64 "%s", behind,
		       schedule_reserved(state, behind));
}

/* What it says has to be said again if something is taken that it counts on. */
static int schedule_add_waiter(struct schedule_state *state, const struct schedule_decision *said,
			       struct err *err)
{
	if (array_room(&state->waiters, state->waiter_count, &state->waiter_capacity, 16) < 0)
		return err_set(err, -ENOMEM, "no memory for the reason of a job");

	struct schedule_waiter *waiter = &state->waiters[state->waiter_count++];
	*waiter = (struct schedule_waiter){.job = state->job, .said = *said};
	if (said->reason != JOB_REASON_WAITING_FOR_GPU)
		return 0;

	for (size_t i = 0; i < state->want.count; i++) {
		size_t place = state->want.device[i];
		if (schedule_keeper(state, place))
			continue;
		waiter->its_own[place / 64] |= UINT64_C(1) << (place % 64);
		state->counted_on[place / 64] |= UINT64_C(1) << (place % 64);
	}

	return 0;
}

/* "have 1, need 2; ..." of the job in hand. `its_own`: the devices that nobody keeps from it. */
static size_t schedule_say_waiting(struct schedule_state *state, const uint64_t *its_own)
{
	uint64_t kept_for[PLACE_UNIT_MAX];
	const struct schedule_view view = {.machine = state->machine,
					   .want = &state->want,
					   .order = &state->order,
					   .kept_for = kept_for,
					   .given_to = state->given_to,
					   .is_pledged =
					       schedule_order_pledges(&state->order, state->job),
					   .who = state->input->who,
					   .context = state->input->context};
	size_t have = 0;

	for (size_t i = 0; i < state->want.count; i++) {
		size_t place = state->want.device[i];
		bool is_own = its_own ? its_own[place / 64] >> (place % 64) & 1
				      : !schedule_keeper(state, place);
		const struct schedule_keeper *keeper = schedule_keeper(state, place);
		if (!keeper || keeper->id == state->job->id)
			keeper = &state->first[place];
		kept_for[place] = is_own ? 0 : keeper->id;
		have += is_own && schedule_device_use(&state->machine->devices[place],
						      &state->want) == SCHEDULE_FREE;
	}

	schedule_reason_waiting(&view, have, state->text);
	return have;
}

/* There are not enough devices for the job in hand: why, and what that means for those behind it.
 */
static int schedule_wait(struct schedule_state *state, size_t order,
			 const struct schedule_count *count, struct schedule_class *class_,
			 struct schedule_decision *out, struct err *err)
{
	const struct schedule_want *want = &state->want;
	if (count->open < want->needed) {
		const struct schedule_view view = {.machine = state->machine, .want = want};
		bool outsiders = count->open + count->outsiders >= want->needed;

		class_->window_ns = 0;
		if (count->closed > 0 && count->open + count->closed >= want->needed) {
			out->reason = schedule_reason_closed(&view, state->text);
			return schedule_wait_alike(state, out->reason, class_, err);
		}

		out->reason = outsiders ? JOB_REASON_GPU_IN_USE : JOB_REASON_GPU_UNHEALTHY;
		schedule_reason_outside(&view, outsiders ? SCHEDULE_OUTSIDER : SCHEDULE_SICK,
					state->text);
		class_->window_ns = 0;

		return schedule_wait_alike(state, out->reason, class_, err);
	}

	uint64_t behind = state->job->id;
	bool keeps = schedule_may_keep(state);
	int rc = 0;

	if (count->open - count->kept < want->needed) {
		out->reason = JOB_REASON_QUEUE_ORDER;
		behind = schedule_behind(state, count->open);
		schedule_say_behind(state, behind);
	} else {
		out->reason = JOB_REASON_WAITING_FOR_GPU;
		out->has_turn = schedule_say_waiting(state, NULL) > 0 && keeps;
		rc = schedule_add_waiter(state, out, err);
	}

	schedule_wait_behind(state, class_, behind);
	if (keeps)
		schedule_keep(state, order, true);
	else
		schedule_foresee(state);
	class_->window_ns = schedule_window(state, count);

	return rc;
}

/* The resources beside the GPUs are not there. One that waits for others to end keeps those of its
 * pools, and the devices; one for which no adapter is well keeps nothing. */
static int schedule_wait_pool(struct schedule_state *state, size_t order,
			      enum schedule_pool_use use, uint64_t behind,
			      struct schedule_class *class_, struct schedule_decision *out,
			      struct err *err)
{
	class_->window_ns = 0;
	if (use == SCHEDULE_POOL_SICK) {
		out->reason = JOB_REASON_RESOURCE_UNHEALTHY;
		return schedule_wait_alike(state, out->reason, class_, err);
	}

	out->reason = behind ? JOB_REASON_QUEUE_ORDER : JOB_REASON_WAITING_FOR_RESOURCE;
	out->has_turn = !behind;
	if (behind)
		schedule_say_behind(state, behind);
	schedule_wait_behind(state, class_, behind ? behind : state->job->id);
	schedule_keep(state, order, false);
	schedule_pledge_stay(state);

	return 0;
}

/* The resources that a job wants beside GPUs: how they are, and `out_behind` the job that keeps
 * them from it (0: none does). */
static enum schedule_pool_use schedule_look_at_pools(struct schedule_state *state,
						     uint64_t *out_behind)
{
	const struct schedule_pools *pools = &state->machine->pools;
	char text[SCHEDULE_POOL_TEXT_MAX];
	const char *list = state->want.resources;
	struct demand demand;
	size_t place;

	*out_behind = 0;
	enum schedule_pool_use use = schedule_pools_look(pools, list, &place, text);

	(void)snprintf(state->text, sizeof(state->text), "%s", text);

	while (use == SCHEDULE_POOL_FREE && demand_next(&list, &demand, NULL) > 0) {
		*out_behind = state->kept_pool[schedule_pools_find(pools, demand.name)];
		if (*out_behind)
			return SCHEDULE_POOL_USED;
	}

	return use;
}

/* --- amounts --------------------------------------------------------------------------------- */

static uint64_t schedule_amount_free(const struct schedule_amount *amount)
{
	return amount->used < amount->there_is ? amount->there_is - amount->used : 0;
}

static void schedule_say_amount(struct schedule_state *state, enum schedule_amount_kind kind)
{
	const struct schedule_amount *amount = &state->amounts[kind];
	char have[WANT_AMOUNT_MAX], need[WANT_AMOUNT_MAX], all[WANT_AMOUNT_MAX];
	(void)snprintf(state->text, sizeof(state->text), "%shave %s, need %s of %s",
		       schedule_order_pledges(&state->order, state->job) ? "reserved, " : "",
		       schedule_amount_text(kind, schedule_amount_free(amount), have),
		       schedule_amount_text(kind, schedule_amount_of(kind, state->job), need),
		       schedule_amount_text(kind, amount->there_is, all));
}

/* The first amount that is not there for the job in hand, or SCHEDULE_AMOUNTS. `*out_behind`: it
 * is, and this job keeps it; 0. */
static enum schedule_amount_kind schedule_look_at_amounts(const struct schedule_state *state,
							  uint64_t *out_behind)
{
	*out_behind = 0;
	for (enum schedule_amount_kind kind = 0; kind < SCHEDULE_AMOUNTS; kind++) {
		const struct schedule_amount *amount = &state->amounts[kind];
		uint64_t wanted = schedule_amount_of(kind, state->job);
		if (wanted == 0 || amount->there_is == 0)
			continue;
		if (schedule_amount_free(amount) < wanted)
			return kind;

		if (amount->kept_for != 0 && state->time_ns > amount->window_ns &&
		    wanted > amount->spare) {
			*out_behind = amount->kept_for;
			return kind;
		}
	}

	return SCHEDULE_AMOUNTS;
}

/* Keeps all amounts of the job in hand of which nobody keeps anything; how long at least until they
 * are enough. */
static uint64_t schedule_keep_amounts(struct schedule_state *state)
{
	uint64_t opens_ns = 0;
	for (enum schedule_amount_kind kind = 0; kind < SCHEDULE_AMOUNTS; kind++) {
		uint64_t wanted = schedule_amount_of(kind, state->job);
		uint64_t at_ns = wanted ? schedule_ahead_amount(state, kind, wanted) : 0;
		opens_ns = at_ns > opens_ns ? at_ns : opens_ns;
	}

	bool is_known = opens_ns != SCHEDULE_NEVER;

	for (enum schedule_amount_kind kind = 0; kind < SCHEDULE_AMOUNTS; kind++) {
		struct schedule_amount *amount = &state->amounts[kind];
		uint64_t wanted = schedule_amount_of(kind, state->job);
		if (wanted == 0 || amount->there_is == 0 || amount->kept_for != 0)
			continue;

		uint64_t then = schedule_ahead_free(state, kind, is_known ? opens_ns : 0);

		amount->kept_for = state->job->id;
		amount->window_ns = is_known ? opens_ns : 0;
		amount->spare = then > wanted ? then - wanted : 0;
	}

	return opens_ns;
}

/* There are devices for the job in hand, and an amount is missing. */
static int schedule_wait_amount(struct schedule_state *state, size_t order,
				enum schedule_amount_kind kind, uint64_t behind,
				const struct schedule_count *count, struct schedule_class *class_,
				struct schedule_decision *out, struct err *err)
{
	bool chosen[PLACE_UNIT_MAX] = {false};

	if (behind) {
		out->reason = JOB_REASON_QUEUE_ORDER;
		schedule_say_behind(state, behind);
		schedule_wait_behind(state, class_, behind);
		class_->window_ns = schedule_window(state, count);
		return 0;
	}

	out->reason =
	    kind == SCHEDULE_CPU ? JOB_REASON_WAITING_FOR_CPU : JOB_REASON_WAITING_FOR_MEMORY;
	schedule_say_amount(state, kind);
	schedule_wait_behind(state, class_, state->job->id);

	int rc = 0;

	schedule_pledge_stay(state);
	if (state->amounts[kind].kept_for == 0) {
		out->has_turn = true;
		if (state->want.needed > 0)
			rc = schedule_choose(state, chosen, err);

		uint64_t opens_ns = schedule_keep_amounts(state);

		state->opens_ns = opens_ns;
		for (size_t i = 0; rc == 0 && i < state->want.count; i++)
			if (chosen[state->want.device[i]])
				schedule_keep_device(state, state->want.device[i], order, opens_ns);
	}

	class_->window_ns = schedule_window(state, count);
	return rc < 0 ? rc : schedule_add_waiter(state, out, err);
}

/* More than there is at all, by now: it keeps nothing. */
static bool schedule_is_too_much(struct schedule_state *state, enum job_reason *out_reason)
{
	for (enum schedule_amount_kind kind = 0; kind < SCHEDULE_AMOUNTS; kind++) {
		const struct schedule_amount *amount = &state->amounts[kind];
		if (amount->there_is == 0 ||
		    schedule_amount_of(kind, state->job) <= amount->there_is)
			continue;

		schedule_say_amount(state, kind);
		*out_reason = kind == SCHEDULE_CPU ? JOB_REASON_WAITING_FOR_CPU
						   : JOB_REASON_WAITING_FOR_MEMORY;
		return true;
	}

	return false;
}

/* --- the pass -------------------------------------------------------------------------------- */

/* What is wrong with this job alone, whatever there is: it keeps nothing. */
static int schedule_is_limited(struct schedule_state *state, uint64_t user_gpus,
			       struct schedule_decision *out, struct err *err)
{
	const struct job *job = state->job;
	uint64_t limit = schedule_limit_of(state->machine, job);
	uint32_t array;

	if (job->array_id != 0 && job->wants.array_parallel != 0) {
		if (schedule_tally_find(&state->arrays, job->array_id, &array) < 0)
			return err_set(err, -ENOMEM, "no memory to count the jobs of an array");

		if (state->arrays.counts[array] >= job->wants.array_parallel) {
			(void)snprintf(state->text, sizeof(state->text),
				       "%" PRIu64 " of array %" PRIu64 " run, as many as may",
				       state->arrays.counts[array], job->array_id);
			out->reason = JOB_REASON_ARRAY_LIMIT;
			return 1;
		}
	}

	if (job->gpus == 0 || user_gpus + job->gpus <= limit)
		return 0;

	(void)snprintf(state->text, sizeof(state->text),
		       "the user has %" PRIu64 " GPU%s, needs %u more, may have %" PRIu64,
		       user_gpus, user_gpus == 1 ? "" : "s", job->gpus, limit);
	out->reason = JOB_REASON_USER_LIMIT;
	return 1;
}

/* What the job in hand waits for, if it does. */
static int schedule_look(struct schedule_state *state, size_t order, struct schedule_class *class_,
			 struct schedule_decision *out, struct err *err)
{
	struct err why = {.code = 0};

	out->text = state->text;
	if (schedule_want_make(state->machine, state->job, &state->want, &why) < 0) {
		/* It was checked when it came, so the machine was another one then. */
		out->reason = JOB_REASON_NO_MACHINE;
		(void)snprintf(state->text, sizeof(state->text), "%.*s", JOB_REASON_MAX - 1,
			       state->machine->device_count == 0 ? state->machine->problem
								 : why.text);
		return schedule_wait_alike(state, out->reason, class_, err);
	}

	if (schedule_is_too_much(state, &out->reason))
		return schedule_wait_alike(state, out->reason, class_, err);

	struct schedule_count count = schedule_count(state);
	uint64_t behind;
	enum schedule_pool_use use = schedule_look_at_pools(state, &behind);
	if (use == SCHEDULE_POOL_SICK ||
	    (use == SCHEDULE_POOL_USED && count.open >= state->want.needed))
		return schedule_wait_pool(state, order, use, behind, class_, out, err);

	if (use == SCHEDULE_POOL_USED || count.to_be_had < state->want.needed)
		return schedule_wait(state, order, &count, class_, out, err);

	enum schedule_amount_kind missing = schedule_look_at_amounts(state, &behind);
	if (missing < SCHEDULE_AMOUNTS)
		return schedule_wait_amount(state, order, missing, behind, &count, class_, out,
					    err);

	return schedule_start(state, out, err);
}

static int schedule_decide(struct schedule_state *state, size_t order, uint64_t *user_gpus,
			   struct schedule_decision *out, struct err *err)
{
	const struct job *job = state->job;

	*out = (struct schedule_decision){.text = "", .opens_ns = SCHEDULE_NEVER};
	int rc = schedule_is_limited(state, *user_gpus, out, err);
	if (rc != 0) {
		out->text = state->text;
		return rc < 0 ? rc : 0;
	}

	if (job->gpus == 0 && !job->resources && job->wants.cpu_milli == 0 &&
	    job->wants.mem_bytes == 0 && job->array_id == 0) {
		out->start = true;
		return 0;
	}

	struct schedule_class *class_;
	if (schedule_class_of(state, job, &class_) < 0)
		return err_set(err, -ENOMEM, "no memory to put %zu jobs in order", order);

	if (class_->waits && state->time_ns > class_->window_ns) {
		out->reason = class_->reason;
		out->text = class_->text ? class_->text : class_->later;
		return 0;
	}

	size_t waiters = state->waiter_count;

	rc = schedule_look(state, order, class_, out, err);
	out->was_pledged = schedule_order_pledges(&state->order, job);
	out->pledged_ns = state->pledged_ns;
	out->promise_ns = state->promise_ns;
	out->takes_no_estimates = state->takes_no_estimates;
	out->opens_ns = state->opens_ns;
	out->opens_is_estimate = state->opens_is_estimate;
	if (state->waiter_count > waiters)
		state->waiters[waiters].said = *out;
	*user_gpus += out->grant_count;
	return rc;
}

static void schedule_take_up(struct schedule_state *state, const struct job *job)
{
	uint64_t limit_ns = job->wants.time_ns ? job->wants.time_ns : SCHEDULE_NEVER;

	state->job = job;
	state->time_is_estimate = limit_ns == SCHEDULE_NEVER && job->estimate_ns > 0;
	state->time_ns = state->time_is_estimate ? job->estimate_ns : limit_ns;
	state->opens_ns = SCHEDULE_NEVER;
	state->opens_is_estimate = false;
	state->pledged_ns = state->promise_ns = 0;
	state->takes_no_estimates = false;
}

/* Something was taken that others wait for: they have less now than they said. */
static void schedule_say_again(struct schedule_state *state)
{
	for (size_t i = 0; i < state->waiter_count; i++) {
		const struct schedule_waiter *waiter = &state->waiters[i];
		struct schedule_decision decision = waiter->said;

		schedule_take_up(state, waiter->job);
		if (decision.reason != JOB_REASON_WAITING_FOR_GPU)
			schedule_say_amount(state, decision.reason == JOB_REASON_WAITING_FOR_CPU
						       ? SCHEDULE_CPU
						       : SCHEDULE_MEMORY);
		else if (schedule_want_make(state->machine, waiter->job, &state->want, NULL) == 0)
			(void)schedule_say_waiting(state, waiter->its_own);

		state->input->decide(waiter->job, &decision, state->input->context);
	}
}

static int schedule_begin(struct schedule_state *state, struct err *err)
{
	const struct schedule_input *input = state->input;
	const struct queue_rules *rules = state->machine->rules;

	for (enum schedule_amount_kind kind = 0; kind < SCHEDULE_AMOUNTS; kind++)
		state->amounts[kind].there_is = schedule_amount_there_is(kind, state->machine);

	schedule_prefer_rank(state->machine, rules ? rules->prefer : NULL, state->prefer);

	for (size_t i = 0; i < input->running_count; i++) {
		const struct schedule_running *running = &input->running[i];
		uint32_t user, array = 0;

		if (schedule_tally_find(&state->order.users, running->uid, &user) < 0 ||
		    (running->array_id &&
		     schedule_tally_find(&state->arrays, running->array_id, &array) < 0) ||
		    schedule_ahead_add(state, running) < 0)
			return err_set(err, -ENOMEM, "no memory for what runs");

		state->order.users.counts[user] += running->grant_count;
		if (running->array_id)
			state->arrays.counts[array]++;
		state->amounts[SCHEDULE_CPU].used += running->cpu_milli;
		state->amounts[SCHEDULE_MEMORY].used += running->mem_bytes;
	}

	const struct schedule_order_by by = {
	    .rule = rules ? rules->order : RULES_ORDER_FIFO,
	    .now_ns = input->now_ns,
	    .gpu_score = schedule_score_gpu(rules ? &rules->weights : NULL,
					    schedule_machine_gpus(state->machine)),
	};

	return schedule_order_make(input->jobs, input->count, &by, &state->order, err);
}

int schedule_pass(struct schedule_machine *machine, const struct schedule_input *input,
		  struct err *err)
{
	_cleanup_(schedule_state_done) struct schedule_state state = {.machine = machine,
								      .input = input};
	int rc = schedule_begin(&state, err);
	const struct job *job;
	uint64_t *user_gpus, waiting = 0;

	for (size_t i = 0; rc == 0 && (job = schedule_order_next(&state.order, &user_gpus)); i++) {
		struct schedule_decision decision;

		schedule_take_up(&state, job);
		rc = schedule_decide(&state, i, user_gpus, &decision, err);
		if (rc < 0)
			break;

		decision.place = decision.start ? 0 : ++waiting;
		input->decide(job, &decision, input->context);
		free(decision.grants);
	}

	if (rc == 0 && state.was_backfilled)
		schedule_say_again(&state);

	return rc;
}
