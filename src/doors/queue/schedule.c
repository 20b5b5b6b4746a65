/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/queue/schedule.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "doors/queue/schedule_internal.h"
#include "units/allocator.h"

enum schedule_class_limits {
	CLASS_LATER_MAX = 40, /* "behind 18446744073709551615" */
};

/*
 * Jobs that want the same. During a pass devices are only taken and kept, never let go of, so once
 * one of a class has to wait, all later ones have to: they are decided without a look at a device.
 */
struct schedule_class {
	const struct job *first; /* borrowed; what it wants, the class wants */
	bool waits;
	enum job_reason reason;	     /* of those behind the first that waits */
	char later[CLASS_LATER_MAX]; /* and its text, */
	char *text;		     /* or, if not NULL, this one; owned */
};

struct schedule_state {
	struct schedule_machine *machine;
	const char *(*who)(const char *uuid, void *context);
	void *context;
	uint64_t kept_pool[SCHEDULE_POOLS_MAX + 1]; /* of each pool: the first job that keeps it */
	uint64_t kept_for[PLACE_UNIT_MAX];  /* of each device: the first job that keeps it, */
	size_t kept_order[PLACE_UNIT_MAX];  /* its place in the order, */
	uint64_t given_to[PLACE_UNIT_MAX];  /* and the last that got it in this pass */
	struct schedule_want want;	    /* of the job in hand */
	char text[JOB_REASON_MAX];	    /* its reason */
	struct schedule_class *classes;	    /* owned */
	size_t class_count, class_capacity; /* of `classes` */
	uint32_t *table;		    /* owned; place in `classes` + 1; 0: empty */
	size_t table_size;		    /* a power of two, at least twice class_count */
	struct allocator *ranked;	    /* owned; NULL until it is needed */
	uint32_t rank[GPU_MAX];		    /* number of a GPU in it */
};

static void schedule_state_done(struct schedule_state *state)
{
	for (size_t i = 0; i < state->class_count; i++)
		free(state->classes[i].text);
	free(state->classes);
	free(state->table);
	state->ranked = allocator_free(state->ranked);
}

/* --- classes --------------------------------------------------------------------------------- */

static uint64_t class_hash(const struct job *job)
{
	/* FNV-1a: the table is made anew at each pass, and a user who finds collisions waits for
	 * nobody but his own jobs. */
	uint64_t hash = UINT64_C(0xcbf29ce484222325);
	const uint32_t numbers[] = {job->gpus, job->share_numerator, job->share_denominator,
				    job->ignore_outsiders};
	for (size_t i = 0; i < array_length(numbers); i++)
		hash = (hash ^ numbers[i]) * UINT64_C(0x100000001b3);
	for (const char *at = job->ids; at && *at; at++)
		hash = (hash ^ (uint8_t)*at) * UINT64_C(0x100000001b3);
	for (const char *at = job->resources; at && *at; at++)
		hash = (hash ^ (uint8_t)*at) * UINT64_C(0x100000001b3);
	return hash ^ hash >> 32;
}

static bool class_text_is(const char *a, const char *b)
{
	return !a == !b && (!a || strcmp(a, b) == 0);
}

static bool class_is(const struct schedule_class *class_, const struct job *job)
{
	const struct job *first = class_->first;
	return first->gpus == job->gpus && first->share_numerator == job->share_numerator &&
	       first->share_denominator == job->share_denominator &&
	       first->ignore_outsiders == job->ignore_outsiders &&
	       class_text_is(first->ids, job->ids) &&
	       class_text_is(first->resources, job->resources);
}

static int class_table_grow(struct schedule_state *state)
{
	size_t size = state->table_size ? state->table_size * 2 : 64;
	uint32_t *table = calloc(size, sizeof(*table));
	struct schedule_class *classes =
	    table ? reallocarray(state->classes, size / 2, sizeof(*classes)) : NULL;
	if (!classes) {
		free(table);
		return -ENOMEM;
	}
	state->classes = classes;
	for (size_t i = 0; i < state->class_count; i++) {
		size_t at = class_hash(classes[i].first) & (size - 1);
		while (table[at] != 0)
			at = (at + 1) & (size - 1);
		table[at] = (uint32_t)i + 1;
	}
	free(state->table);
	state->table = table;
	state->table_size = size;
	state->class_capacity = size / 2;
	return 0;
}

static int class_of(struct schedule_state *state, const struct job *job, size_t *out)
{
	if (state->class_count == state->class_capacity) {
		int result = class_table_grow(state);
		if (result < 0)
			return result;
	}
	size_t at = class_hash(job) & (state->table_size - 1);
	for (; state->table[at] != 0; at = (at + 1) & (state->table_size - 1)) {
		if (class_is(&state->classes[state->table[at] - 1], job)) {
			*out = state->table[at] - 1;
			return 0;
		}
	}
	*out = state->class_count++;
	state->classes[*out] = (struct schedule_class){.first = job};
	state->table[at] = (uint32_t)state->class_count;
	return 0;
}

/* --- choosing -------------------------------------------------------------------------------- */

static bool schedule_is_to_be_had(const struct schedule_state *state, size_t place)
{
	return state->kept_for[place] == 0 &&
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
static bool schedule_is_better(const struct schedule_state *state, const struct schedule_device *a,
			       const struct schedule_device *b)
{
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
static void schedule_choose_holes(const struct schedule_state *state, bool *chosen)
{
	const struct schedule_want *want = &state->want;
	const struct schedule_device *devices = state->machine->devices;
	for (size_t n = 0; n < want->needed; n++) {
		size_t best = PLACE_UNIT_MAX;
		for (size_t i = 0; i < want->count; i++) {
			size_t place = want->device[i];
			if (!chosen[place] && schedule_is_to_be_had(state, place) &&
			    (best == PLACE_UNIT_MAX ||
			     schedule_is_better(state, &devices[place], &devices[best])))
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
	int result = state->ranked ? 0 : schedule_rank(state, err);
	if (result < 0)
		return result;
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

/* Whole GPUs, best connected. `chosen` has an entry for each device of the machine. */
static int schedule_choose_whole(struct schedule_state *state, bool *chosen, struct err *err)
{
	const struct schedule_want *want = &state->want;
	const struct schedule_device *devices = state->machine->devices;
	struct allocator_unit units[GPU_MAX], answer[GPU_MAX];
	struct allocator_question question = {.available = units, .size = want->needed};
	bool only_plain = schedule_candidates(state, true, GPU_LEVEL_UNKNOWN) >= want->needed;
	uint8_t reach = schedule_reach(state, only_plain);
	uint32_t number[GPU_MAX];
	struct allocator *allocator;
	int result = schedule_allocator(state, &allocator, number, err);
	if (result < 0)
		return result;
	for (size_t i = 0; i < want->count; i++)
		if (schedule_is_candidate(state, want->device[i], only_plain, reach))
			units[question.available_count++] = (struct allocator_unit){
			    .gpu = number[devices[want->device[i]].unit.gpu]};
	result = allocator_prefer(allocator, &question, answer, err);
	if (result < 0)
		return result;
	for (size_t i = 0; i < want->count; i++)
		for (int a = 0; a < result; a++)
			if (number[devices[want->device[i]].unit.gpu] == answer[a].gpu)
				chosen[want->device[i]] = true;
	return 0;
}

/* Takes the lowest free slots of the device. */
static void schedule_grant(struct schedule_state *state, uint64_t id, size_t place,
			   struct launch_grant *out)
{
	struct schedule_device *device = &state->machine->devices[place];
	const struct place_unit *unit = &device->unit;
	uint32_t slots = schedule_want_slots(&state->want, device);
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
	state->given_to[place] = id;
}

static int schedule_start(struct schedule_state *state, uint64_t id, struct schedule_decision *out,
			  struct err *err)
{
	const struct schedule_want *want = &state->want;
	schedule_pools_take(&state->machine->pools, want->resources);
	if (want->needed == 0) {
		*out = (struct schedule_decision){.start = true, .text = ""};
		return 0;
	}
	bool chosen[PLACE_UNIT_MAX] = {false};
	_cleanup_free_ struct launch_grant *grants = calloc(want->needed, sizeof(*grants));
	if (!grants)
		return err_set(err, -ENOMEM, "no memory for the GPUs of a job");
	int result = 0;
	if (want->listed)
		for (size_t i = 0; i < want->count; i++)
			chosen[want->device[i]] = true;
	else if (want->shared || want->mig)
		schedule_choose_holes(state, chosen);
	else
		result = schedule_choose_whole(state, chosen, err);
	if (result < 0)
		return result;
	size_t count = 0;
	for (size_t i = 0; i < want->count && count < want->needed; i++)
		if (chosen[want->device[i]])
			schedule_grant(state, id, want->device[i], &grants[count++]);
	if (count != want->needed)
		return err_set(err, -EIO, "%zu GPUs were to be chosen, %zu were", want->needed,
			       count);
	*out = (struct schedule_decision){
	    .start = true, .grants = take_ptr(grants), .grant_count = count, .text = ""};
	return 0;
}

/* --- waiting --------------------------------------------------------------------------------- */

/* What the devices that a job could use are to it. */
struct schedule_count {
	size_t to_be_had; /* free, and kept for nobody */
	size_t open;	  /* free, or in use by a job, which will end */
	size_t kept;	  /* of those: for an earlier job */
	size_t outsiders; /* somebody computes there without a queue */
};

static struct schedule_count schedule_count(const struct schedule_state *state)
{
	struct schedule_count count = {0};
	for (size_t i = 0; i < state->want.count; i++) {
		size_t place = state->want.device[i];
		enum schedule_use use =
		    schedule_device_use(&state->machine->devices[place], &state->want);
		bool is_open = use == SCHEDULE_FREE || use == SCHEDULE_USED;
		bool is_kept = is_open && state->kept_for[place] != 0;
		count.to_be_had += use == SCHEDULE_FREE && !is_kept;
		count.open += is_open;
		count.kept += is_kept;
		count.outsiders += use == SCHEDULE_OUTSIDER;
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
		count += (use == SCHEDULE_FREE || use == SCHEDULE_USED) &&
			 state->kept_for[place] != 0 && state->kept_order[place] <= order;
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
		size_t order = state->kept_order[place];
		if (state->kept_for[place] == 0 || order >= first ||
		    open - schedule_kept_until(state, order) >= state->want.needed)
			continue;
		first = order;
		behind = state->kept_for[place];
	}
	return behind;
}

static void schedule_keep(struct schedule_state *state, const struct job *job, size_t order)
{
	for (size_t i = 0; i < state->want.count; i++) {
		size_t place = state->want.device[i];
		if (state->kept_for[place] != 0)
			continue;
		state->kept_for[place] = job->id;
		state->kept_order[place] = order;
	}
	const struct schedule_pools *pools = &state->machine->pools;
	const char *list = state->want.resources;
	struct demand demand;
	while (demand_next(&list, &demand, NULL) > 0) {
		uint64_t *kept = &state->kept_pool[schedule_pools_find(pools, demand.name)];
		*kept = *kept ? *kept : job->id;
	}
}

/* All that come later in the class wait for the same as this one. */
static int schedule_wait_alike(const struct schedule_state *state, enum job_reason reason,
			       struct schedule_class *class_, struct err *err)
{
	class_->reason = reason;
	class_->text = strdup(state->text);
	return class_->text ? 0 : err_set(err, -ENOMEM, "no memory for the reason of a job");
}

/* The first of its class that has to wait: why, and what that means for those behind it. */
static int schedule_wait(struct schedule_state *state, const struct job *job, size_t order,
			 const struct schedule_count *count, struct schedule_class *class_,
			 enum job_reason *out_reason, struct err *err)
{
	const struct schedule_want *want = &state->want;
	const struct schedule_view view = {.machine = state->machine,
					   .want = want,
					   .kept_for = state->kept_for,
					   .given_to = state->given_to,
					   .who = state->who,
					   .context = state->context};
	class_->waits = true;
	if (count->open < want->needed) {
		bool outsiders = count->open + count->outsiders >= want->needed;
		*out_reason = outsiders ? JOB_REASON_GPU_IN_USE : JOB_REASON_GPU_UNHEALTHY;
		schedule_reason_outside(&view, outsiders ? SCHEDULE_OUTSIDER : SCHEDULE_SICK,
					state->text);
		return schedule_wait_alike(state, *out_reason, class_, err);
	}
	uint64_t behind = job->id;
	if (count->open - count->kept < want->needed) {
		*out_reason = JOB_REASON_QUEUE_ORDER;
		behind = schedule_behind(state, count->open);
		(void)snprintf(state->text, sizeof(state->text), "behind %" PRIu64, behind);
	} else {
		*out_reason = JOB_REASON_WAITING_FOR_GPU;
		schedule_reason_waiting(&view, count->to_be_had, state->text);
	}
	class_->reason = JOB_REASON_QUEUE_ORDER;
	(void)snprintf(class_->later, sizeof(class_->later), "behind %" PRIu64, behind);
	schedule_keep(state, job, order);
	return 0;
}

/* The first of its class for which the resources beside the GPUs are not there. One that waits for
 * others to end keeps those of its pools, and the devices; one for which no adapter is well keeps
 * nothing. */
static int schedule_wait_pool(struct schedule_state *state, const struct job *job, size_t order,
			      enum schedule_pool_use use, uint64_t behind,
			      struct schedule_class *class_, enum job_reason *out_reason,
			      struct err *err)
{
	class_->waits = true;
	if (use == SCHEDULE_POOL_SICK) {
		*out_reason = JOB_REASON_RESOURCE_UNHEALTHY;
		return schedule_wait_alike(state, *out_reason, class_, err);
	}
	*out_reason = behind ? JOB_REASON_QUEUE_ORDER : JOB_REASON_WAITING_FOR_RESOURCE;
	if (behind)
		(void)snprintf(state->text, sizeof(state->text), "behind %" PRIu64, behind);
	class_->reason = JOB_REASON_QUEUE_ORDER;
	(void)snprintf(class_->later, sizeof(class_->later), "behind %" PRIu64,
		       behind ? behind : job->id);
	schedule_keep(state, job, order);
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

static int schedule_decide(struct schedule_state *state, const struct job *job, size_t order,
			   struct schedule_decision *out, struct err *err)
{
	*out = (struct schedule_decision){.text = ""};
	if (job->gpus == 0 && !job->resources) {
		out->start = true;
		return 0;
	}
	size_t place;
	if (class_of(state, job, &place) < 0)
		return err_set(err, -ENOMEM, "no memory to put %zu jobs in order", order);
	struct schedule_class *class_ = &state->classes[place];
	if (class_->waits) {
		out->reason = class_->reason;
		out->text = class_->text ? class_->text : class_->later;
		return 0;
	}
	struct err why = {.code = 0};
	out->text = state->text;
	if (schedule_want_make(state->machine, job, &state->want, &why) < 0) {
		/* It was checked when it came, so the machine was another one then. */
		class_->waits = true;
		out->reason = JOB_REASON_NO_MACHINE;
		(void)snprintf(state->text, sizeof(state->text), "%.*s", JOB_REASON_MAX - 1,
			       state->machine->device_count == 0 ? state->machine->problem
								 : why.text);
		return schedule_wait_alike(state, out->reason, class_, err);
	}
	struct schedule_count count = schedule_count(state);
	uint64_t behind;
	enum schedule_pool_use use = schedule_look_at_pools(state, &behind);
	if (use == SCHEDULE_POOL_SICK ||
	    (use == SCHEDULE_POOL_USED && count.open >= state->want.needed))
		return schedule_wait_pool(state, job, order, use, behind, class_, &out->reason,
					  err);
	if (use == SCHEDULE_POOL_FREE && count.to_be_had >= state->want.needed)
		return schedule_start(state, job->id, out, err);
	return schedule_wait(state, job, order, &count, class_, &out->reason, err);
}

int schedule_pass(struct schedule_machine *machine, const struct job *const *jobs, size_t count,
		  const char *(*who)(const char *uuid, void *context),
		  void (*decide)(const struct job *job, struct schedule_decision *decision,
				 void *context),
		  void *context, struct err *err)
{
	_cleanup_(schedule_state_done) struct schedule_state state = {
	    .machine = machine, .who = who, .context = context};
	for (size_t i = 0; i < count; i++) {
		struct schedule_decision decision;
		int result = schedule_decide(&state, jobs[i], i, &decision, err);
		if (result < 0)
			return result;
		decide(jobs[i], &decision, context);
		free(decision.grants);
	}
	return 0;
}
