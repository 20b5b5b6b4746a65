/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The other two. First come first served: nobody starts before the one that came before. EASY
 * (Lifka 1995): the first that waits has a reservation at the moment at which enough GPUs will be
 * free by the limits of what runs; those behind it start now, in their order, where that delays it
 * not.
 */
#include <stdbool.h>
#include <stddef.h>

#include "perf/trace.h"

const char *const trace_policy_name[TRACE_POLICIES] = {"sluice", "first come", "EASY backfill"};

#define NOT_YET UINT64_MAX

struct trace_state {
	struct trace *trace;
	uint64_t now_s;
	size_t arrived; /* jobs that have arrived */
	uint32_t free;
};

static void trace_start(struct trace_state *state, struct trace_job *job)
{
	job->started_s = state->now_s;
	state->free -= job->gpus;
}

static struct trace_job *trace_first_waiting(struct trace_state *state, size_t from)
{
	for (size_t i = from; i < state->arrived; i++)
		if (state->trace->jobs[i].started_s == NOT_YET)
			return &state->trace->jobs[i];
	return NULL;
}

/* When so many GPUs are free by the limits, and how many more are then. */
static uint64_t trace_shadow(const struct trace_state *state, uint32_t gpus, uint32_t *out_extra)
{
	uint64_t at_s = state->now_s;

	for (;;) {
		uint32_t free = state->free;
		uint64_t next_s = NOT_YET;

		for (size_t i = 0; i < state->arrived; i++) {
			const struct trace_job *job = &state->trace->jobs[i];
			if (job->started_s == NOT_YET ||
			    job->started_s + job->runs_s <= state->now_s)
				continue;

			uint64_t end_s = job->started_s + job->limit_s;
			if (end_s <= at_s)
				free += job->gpus;
			else if (end_s < next_s)
				next_s = end_s;
		}

		if (free >= gpus) {
			*out_extra = free - gpus;
			return at_s;
		}

		at_s = next_s;
	}
}

static void trace_backfill(struct trace_state *state, const struct trace_job *head)
{
	uint32_t extra;
	uint64_t shadow_s = trace_shadow(state, head->gpus, &extra);

	for (size_t i = (size_t)(head - state->trace->jobs) + 1; i < state->arrived; i++) {
		struct trace_job *job = &state->trace->jobs[i];
		if (job->started_s != NOT_YET || job->gpus > state->free)
			continue;

		bool is_over = state->now_s + job->limit_s <= shadow_s;
		if (!is_over && job->gpus > extra)
			continue;

		extra -= is_over ? 0 : job->gpus;
		trace_start(state, job);
	}
}

/* The next moment at which something happens; NOT_YET: never. Ends give GPUs back. */
static uint64_t trace_next(struct trace_state *state)
{
	uint64_t next_s = state->arrived < state->trace->count
			      ? state->trace->jobs[state->arrived].arrives_s
			      : NOT_YET;

	for (size_t i = 0; i < state->arrived; i++) {
		const struct trace_job *job = &state->trace->jobs[i];
		uint64_t end_s = job->started_s == NOT_YET ? NOT_YET : job->started_s + job->runs_s;
		if (end_s > state->now_s && end_s < next_s)
			next_s = end_s;
	}

	if (next_s == NOT_YET)
		return NOT_YET;

	for (size_t i = 0; i < state->arrived; i++) {
		const struct trace_job *job = &state->trace->jobs[i];
		if (job->started_s != NOT_YET && job->started_s + job->runs_s == next_s)
			state->free += job->gpus;
	}

	while (state->arrived < state->trace->count &&
	       state->trace->jobs[state->arrived].arrives_s <= next_s)
		state->arrived++;

	return next_s;
}

int trace_run(struct trace *trace, enum trace_policy policy)
{
	struct trace_state state = {.trace = trace, .free = TRACE_GPUS};

	trace->broken_promises = 0;
	for (size_t i = 0; i < trace->count; i++)
		trace->jobs[i].started_s = NOT_YET;

	if (policy == TRACE_OURS)
		return trace_run_ours(trace);

	while ((state.now_s = trace_next(&state)) != NOT_YET) {
		struct trace_job *head;
		while ((head = trace_first_waiting(&state, 0)) && head->gpus <= state.free)
			trace_start(&state, head);
		if (head && policy == TRACE_EASY)
			trace_backfill(&state, head);
	}

	return 0;
}
