/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda/scheduler.h"

#include <string.h>

void sched_init(struct sched *out, uint64_t slice_ns, uint64_t switch_ns)
{
	out->slice_ns = slice_ns ? slice_ns : 1;
	out->switch_ns = switch_ns;
}

static uint32_t unit_of(struct sched *sched, uint64_t key)
{
	uint32_t free_unit = SCHED_UNIT_MAX;

	for (uint32_t u = 0; u < SCHED_UNIT_MAX; u++) {
		if (sched->unit[u].used && sched->unit[u].key == key)
			return u;
		if (!sched->unit[u].used && free_unit == SCHED_UNIT_MAX)
			free_unit = u;
	}

	if (free_unit == SCHED_UNIT_MAX)
		return free_unit;

	struct sched_unit *unit = &sched->unit[free_unit];

	*unit = (struct sched_unit){.used = true, .key = key, .holder = SCHED_CONTEXT_MAX};
	for (uint32_t e = 0; e < SCHED_ENGINE_COUNT; e++)
		unit->running_context[e] = SCHED_CONTEXT_MAX;

	return free_unit;
}

uint32_t sched_open(struct sched *sched, uint64_t key, uint32_t owner)
{
	uint32_t index = 0, unit;

	while (index < SCHED_CONTEXT_MAX && sched->context[index].used)
		index++;

	if (index == SCHED_CONTEXT_MAX)
		return index;

	unit = unit_of(sched, key);
	if (unit == SCHED_UNIT_MAX)
		return SCHED_CONTEXT_MAX;

	struct sched_context *context = &sched->context[index];

	memset(context, 0, sizeof(*context));
	context->used = true;
	context->unit = unit;

	if (sched->context_top <= index)
		sched->context_top = index + 1;
	if (sched->unit_top <= unit)
		sched->unit_top = unit + 1;
	context->owner = owner;
	context->first = context->undone = context->next = 1;

	return index;
}

static struct sched_op *op_at(struct sched_context *context, uint64_t number)
{
	return &context->ring[number % SCHED_RING];
}

static const struct sched_op *op_of(const struct sched_context *context, uint64_t number)
{
	return &context->ring[number % SCHED_RING];
}

/* The compute engine lets go of what it runs, after so much of it is done. */
static void compute_stop(struct sched *sched, struct sched_unit *unit)
{
	uint32_t index = unit->running_context[SCHED_COMPUTE];
	uint64_t worked = sched->now_ns - unit->since_ns;
	struct sched_context *context;

	if (index >= SCHED_CONTEXT_MAX)
		return;

	context = &sched->context[index];
	context->busy_ns += worked;
	unit->busy_ns += worked;

	struct sched_op *op = op_at(context, unit->running_op[SCHED_COMPUTE]);

	if (op->left_ns != SCHED_NEVER)
		op->left_ns -= worked < op->left_ns ? worked : op->left_ns;
	op->state = SCHED_WAITING;
	unit->running_context[SCHED_COMPUTE] = SCHED_CONTEXT_MAX;
}

void sched_close(struct sched *sched, uint32_t index)
{
	struct sched_context *context = &sched->context[index];

	if (index >= SCHED_CONTEXT_MAX || !context->used)
		return;

	struct sched_unit *unit = &sched->unit[context->unit % SCHED_UNIT_MAX];

	if (unit->running_context[SCHED_COMPUTE] == index)
		compute_stop(sched, unit);

	for (uint32_t e = 0; e < SCHED_ENGINE_COUNT; e++) {
		if (unit->running_context[e] == index)
			unit->running_context[e] = SCHED_CONTEXT_MAX;
	}

	if (unit->holder == index) {
		unit->holder = SCHED_CONTEXT_MAX;
		unit->slice_end = unit->switch_end = 0;
	}

	context->used = false;
}

uint64_t sched_submit(struct sched *sched, uint32_t index, const struct sched_request *request)
{
	struct sched_context *context = &sched->context[index];

	if (index >= SCHED_CONTEXT_MAX || !context->used ||
	    context->next - context->first >= SCHED_RING)
		return 0;

	uint64_t number = context->next++;

	*op_at(context, number) = (struct sched_op){
	    .request = *request,
	    .left_ns = request->flags & SCHED_STUCK ? SCHED_NEVER : request->cost_ns,
	    .state = SCHED_WAITING,
	};
	context->submitted++;
	return number;
}

bool sched_is_done(const struct sched *sched, uint32_t index, uint64_t number)
{
	const struct sched_context *context = &sched->context[index];

	if (index >= SCHED_CONTEXT_MAX || !context->used || number < context->undone)
		return true;
	return number >= context->next || op_of(context, number)->state == SCHED_DONE;
}

bool sched_all_done(const struct sched *sched, uint32_t index, uint64_t number)
{
	const struct sched_context *context = &sched->context[index];

	return index >= SCHED_CONTEXT_MAX || !context->used || number < context->undone ||
	       context->undone >= context->next;
}

/* Whether what it waits for is done, time aside. */
static bool is_free(const struct sched *sched, const struct sched_context *context, uint64_t number)
{
	const struct sched_op *op = op_of(context, number);
	uint32_t index = (uint32_t)(context - sched->context);

	if (op->request.before && !sched_is_done(sched, index, op->request.before))
		return false;
	if (op->request.after_number &&
	    !sched_is_done(sched, op->request.after, op->request.after_number))
		return false;
	if (!(op->request.flags & (SCHED_BARRIER | SCHED_BLOCKING)))
		return true;

	/* the default stream waits for the blocking ones, and they for it */
	uint32_t waits_for =
	    op->request.flags & SCHED_BARRIER ? SCHED_BARRIER | SCHED_BLOCKING : SCHED_BARRIER;

	for (uint64_t n = context->undone; n < number; n++) {
		const struct sched_op *earlier = op_of(context, n);

		if (earlier->state != SCHED_DONE && (earlier->request.flags & waits_for))
			return false;
	}

	return true;
}

/* The first operation for an engine that may run now; 0: none. `*out_later`: the least time at
 * which one may that waits for nothing but time. */
static uint64_t find_ready(const struct sched *sched, const struct sched_context *context,
			   uint32_t engine, uint64_t *out_later)
{
	for (uint64_t n = context->undone; n < context->next; n++) {
		const struct sched_op *op = op_of(context, n);

		if (op->state != SCHED_WAITING || op->request.engine != engine ||
		    !is_free(sched, context, n))
			continue;
		if (op->request.ready_ns <= sched->now_ns)
			return n;
		if (out_later && op->request.ready_ns < *out_later)
			*out_later = op->request.ready_ns;
	}

	return 0;
}

static void finish(struct sched *sched, struct sched_context *context, uint64_t number)
{
	struct sched_op *op = op_at(context, number);

	op->state = SCHED_DONE;
	op->left_ns = 0;
	op->done_ns = sched->now_ns;
	op->order = ++sched->done_count;
	if (!op->begin_ns)
		op->begin_ns = sched->now_ns;
	context->finished++;

	while (context->undone < context->next &&
	       op_of(context, context->undone)->state == SCHED_DONE)
		context->undone++;
}

static uint64_t end_of(uint64_t now_ns, uint64_t left_ns)
{
	return left_ns >= SCHED_NEVER - now_ns ? SCHED_NEVER : now_ns + left_ns;
}

static void start(struct sched *sched, struct sched_unit *unit, uint32_t engine, uint32_t index,
		  uint64_t number)
{
	struct sched_context *context = &sched->context[index];
	struct sched_op *op = op_at(context, number);
	bool is_new = op->begin_ns == 0;

	if (is_new)
		op->begin_ns = sched->now_ns ? sched->now_ns : 1;

	if ((op->request.flags & SCHED_ELAPSED) && !is_new) {
		uint64_t end = end_of(op->begin_ns, op->request.cost_ns);

		op->left_ns = end > sched->now_ns ? end - sched->now_ns : 0;
	}

	op->state = SCHED_RUNNING;
	unit->running_context[engine] = index;
	unit->running_op[engine] = number;
	unit->end_ns[engine] = end_of(sched->now_ns, op->left_ns);

	if (engine != SCHED_COMPUTE)
		return;

	unit->since_ns = sched->now_ns;
	if (context->out_ns && !is_new)
		context->gap[context->gap_count++ % SCHED_GAP_MAX] =
		    (struct sched_gap){context->out_ns, sched->now_ns};

	context->out_ns = 0;
}

/* The next context of the unit, after `holder` in their order, that has something to compute; the
 * holder itself comes last. SCHED_CONTEXT_MAX: none. */
static uint32_t next_context(const struct sched *sched, uint32_t unit, uint32_t holder,
			     uint64_t *out_number)
{
	uint32_t begin = holder < sched->context_top ? holder + 1 : 0;

	for (uint32_t i = 0; i < sched->context_top; i++) {
		uint32_t index = (begin + i) % sched->context_top;
		const struct sched_context *context = &sched->context[index];

		if (!context->used || context->unit != unit)
			continue;

		*out_number = find_ready(sched, context, SCHED_COMPUTE, NULL);
		if (*out_number)
			return index;
	}

	return SCHED_CONTEXT_MAX;
}

/* A slice that ended while nobody else wanted the engine was followed by another one at once. */
static void slice_renew(const struct sched *sched, struct sched_unit *unit)
{
	uint64_t over;

	if (sched->now_ns <= unit->slice_end)
		return;
	over = sched->now_ns - unit->slice_end;
	unit->slice_end = end_of(unit->slice_end,
				 (over + sched->slice_ns - 1) / sched->slice_ns * sched->slice_ns);
}

/* Gives the idle compute engine something to do. True: it did. */
static bool compute_start(struct sched *sched, uint32_t u)
{
	struct sched_unit *unit = &sched->unit[u];
	uint64_t number = 0;
	uint32_t next;

	if (unit->running_context[SCHED_COMPUTE] < SCHED_CONTEXT_MAX || unit->switch_end)
		return false;

	slice_renew(sched, unit);
	if (unit->holder < SCHED_CONTEXT_MAX && sched->now_ns < unit->slice_end) {
		number = find_ready(sched, &sched->context[unit->holder], SCHED_COMPUTE, NULL);
		if (number) {
			start(sched, unit, SCHED_COMPUTE, unit->holder, number);
			return true;
		}
	}

	next = next_context(sched, u, unit->holder, &number);
	if (next == SCHED_CONTEXT_MAX)
		return false;

	if (next == unit->holder || unit->holder == SCHED_CONTEXT_MAX || !sched->switch_ns) {
		unit->switches += next != unit->holder;
		unit->holder = next;
		unit->slice_end = end_of(sched->now_ns, sched->slice_ns);
		start(sched, unit, SCHED_COMPUTE, next, number);
	} else {
		unit->holder = next;
		unit->switches++;
		unit->switch_ns += sched->switch_ns;
		unit->switch_end = end_of(sched->now_ns, sched->switch_ns);
	}

	return true;
}

/* At the end of a slice: if another context wants the engine, what runs is taken from it. */
static bool compute_preempt(struct sched *sched, uint32_t u)
{
	struct sched_unit *unit = &sched->unit[u];
	uint32_t index = unit->running_context[SCHED_COMPUTE], next;
	uint64_t number = 0;

	if (index >= SCHED_CONTEXT_MAX)
		return false;

	slice_renew(sched, unit);
	if (sched->now_ns < unit->slice_end)
		return false;

	next = next_context(sched, u, index, &number);
	if (next == SCHED_CONTEXT_MAX || next == index) {
		unit->slice_end = end_of(sched->now_ns, sched->slice_ns);
		return false;
	}

	compute_stop(sched, unit);
	sched->context[index].out_ns = sched->now_ns;
	return compute_start(sched, u);
}

static bool copies_start(struct sched *sched, uint32_t u)
{
	struct sched_unit *unit = &sched->unit[u];
	bool is_moved = false;

	for (uint32_t e = SCHED_COPY_IN; e < SCHED_ENGINE_COUNT; e++) {
		for (uint32_t c = 0; c < sched->context_top; c++) {
			if (unit->running_context[e] < SCHED_CONTEXT_MAX)
				break;

			const struct sched_context *context = &sched->context[c];
			uint64_t number = context->used && context->unit == u
					      ? find_ready(sched, context, e, NULL)
					      : 0;

			if (number) {
				start(sched, unit, e, c, number);
				is_moved = true;
			}
		}
	}

	return is_moved;
}

static bool ends(struct sched *sched, uint32_t u)
{
	struct sched_unit *unit = &sched->unit[u];
	bool is_moved = false;

	for (uint32_t e = 0; e < SCHED_ENGINE_COUNT; e++) {
		uint32_t index = unit->running_context[e];

		if (index >= SCHED_CONTEXT_MAX || unit->end_ns[e] > sched->now_ns)
			continue;

		struct sched_context *context = &sched->context[index];

		if (e == SCHED_COMPUTE) {
			compute_stop(sched, unit);
			context->kernels_done++;
		}

		unit->running_context[e] = SCHED_CONTEXT_MAX;
		finish(sched, context, unit->running_op[e]);
		is_moved = true;
	}

	if (unit->switch_end && unit->switch_end <= sched->now_ns) {
		unit->switch_end = 0;
		unit->slice_end = end_of(sched->now_ns, sched->slice_ns);
		is_moved = true;
	}

	return is_moved;
}

/* Events and waits, which need no engine. */
static bool instants(struct sched *sched)
{
	bool is_moved = false;

	for (uint32_t c = 0; c < sched->context_top; c++) {
		struct sched_context *context = &sched->context[c];

		if (!context->used)
			continue;

		for (uint64_t n = context->undone; n < context->next; n++) {
			const struct sched_op *op = op_of(context, n);

			if (op->state == SCHED_WAITING && op->request.engine == SCHED_NO_ENGINE &&
			    !(op->request.flags & SCHED_STUCK) &&
			    op->request.ready_ns <= sched->now_ns && is_free(sched, context, n)) {
				finish(sched, context, n);
				is_moved = true;
			}
		}
	}

	return is_moved;
}

/* Everything that happens at this very moment. */
static void settle(struct sched *sched)
{
	bool is_moved = true;

	while (is_moved) {
		is_moved = false;
		for (uint32_t u = 0; u < sched->unit_top; u++)
			is_moved |= sched->unit[u].used && ends(sched, u);

		is_moved |= instants(sched);
		for (uint32_t u = 0; u < sched->unit_top; u++) {
			if (!sched->unit[u].used)
				continue;
			is_moved |= compute_preempt(sched, u);
			is_moved |= compute_start(sched, u);
			is_moved |= copies_start(sched, u);
		}
	}
}

/* Whether a context other than the one that runs has something queued, so that slices matter. */
static bool is_contended(const struct sched *sched, uint32_t u)
{
	for (uint32_t c = 0; c < sched->context_top; c++) {
		const struct sched_context *context = &sched->context[c];

		if (context->used && context->unit == u && context->undone < context->next &&
		    c != sched->unit[u].running_context[SCHED_COMPUTE])
			return true;
	}

	return false;
}

static void earlier(uint64_t *least, uint64_t ns)
{
	if (ns < *least)
		*least = ns;
}

uint64_t sched_next_event(const struct sched *sched)
{
	uint64_t least = SCHED_NEVER;

	for (uint32_t u = 0; u < sched->unit_top; u++) {
		const struct sched_unit *unit = &sched->unit[u];

		if (!unit->used)
			continue;

		for (uint32_t e = 0; e < SCHED_ENGINE_COUNT; e++) {
			if (unit->running_context[e] < SCHED_CONTEXT_MAX)
				earlier(&least, unit->end_ns[e]);
		}

		if (unit->switch_end)
			earlier(&least, unit->switch_end);
		else if (unit->running_context[SCHED_COMPUTE] < SCHED_CONTEXT_MAX &&
			 unit->slice_end > sched->now_ns && is_contended(sched, u))
			earlier(&least, unit->slice_end);
	}

	for (uint32_t c = 0; c < sched->context_top; c++) {
		const struct sched_context *context = &sched->context[c];

		if (!context->used)
			continue;

		for (uint64_t n = context->undone; n < context->next; n++) {
			const struct sched_op *op = op_of(context, n);

			/* what is ready already is settled: it waits for an engine */
			if (op->state == SCHED_WAITING && !(op->request.flags & SCHED_STUCK) &&
			    op->request.ready_ns > sched->now_ns)
				earlier(&least, op->request.ready_ns);
		}
	}

	return least < sched->now_ns ? sched->now_ns : least;
}

void sched_advance(struct sched *sched, uint64_t ns)
{
	settle(sched);

	for (;;) {
		uint64_t next = sched_next_event(sched);

		if (next > ns)
			break;

		sched->now_ns = next;
		settle(sched);
	}

	if (ns != SCHED_NEVER && ns > sched->now_ns)
		sched->now_ns = ns;
}

bool sched_collect(struct sched *sched, uint32_t index, struct sched_op *out)
{
	struct sched_context *context = &sched->context[index];

	if (index >= SCHED_CONTEXT_MAX || !context->used || context->first >= context->next ||
	    context->first >= context->undone)
		return false;
	*out = *op_at(context, context->first++);
	return true;
}

const struct sched_op *sched_op(const struct sched *sched, uint32_t index, uint64_t number)
{
	const struct sched_context *context = &sched->context[index];

	if (index >= SCHED_CONTEXT_MAX || !context->used || number < context->first ||
	    number >= context->next)
		return NULL;
	return op_of(context, number);
}

void sched_release(struct sched *sched, uint32_t index, uint64_t number)
{
	struct sched_context *context = &sched->context[index];
	struct sched_op *op;

	if (!sched_op(sched, index, number))
		return;

	op = op_at(context, number);
	op->request.cost_ns = 0;
	op->left_ns = op->state == SCHED_RUNNING ? op->left_ns : 0;
	if (op->state == SCHED_RUNNING)
		sched->unit[context->unit].end_ns[op->request.engine] = sched->now_ns;
}

void sched_unstick(struct sched *sched, uint32_t index, uint64_t number, uint64_t ready_ns)
{
	if (!sched_op(sched, index, number))
		return;

	struct sched_op *op = op_at(&sched->context[index], number);

	if (op->state != SCHED_WAITING || !(op->request.flags & SCHED_STUCK))
		return;

	op->request.flags &= ~(uint32_t)SCHED_STUCK;
	op->request.ready_ns = ready_ns;
	op->left_ns = 0;
}

bool sched_has_turn(const struct sched *sched, uint32_t index, uint64_t number)
{
	return !sched_op(sched, index, number) || is_free(sched, &sched->context[index], number);
}
