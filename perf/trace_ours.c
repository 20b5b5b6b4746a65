/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scheduler of the queue on a trace, given what the queue gives it: scores, when a job is due,
 * how long what runs may still run, and what jobs of that name have taken. As in queue_schedule.c,
 * with the defaults of its rules.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "doors/queue/schedule/schedule.h"
#include "doors/queue/schedule/schedule_estimate.h"
#include "doors/queue/schedule/schedule_score.h"
#include "perf/trace.h"

#define SECOND_NS UINT64_C(1000000000)
#define DUE_S	  600

enum ours_state { OURS_TO_COME, OURS_WAITS, OURS_RUNS, OURS_OVER };

struct ours_job {
	struct job job; /* first */
	struct trace_job *from;
	enum ours_state state;
	struct launch_grant *grants; /* owned */
	size_t grant_count;
	uint64_t promise_s; /* the last that it was told; 0: none */
};

struct ours {
	struct trace *trace;
	struct ours_job *jobs; /* owned */
	struct inventory inventory;
	struct gpu gpus[TRACE_GPUS];
	struct schedule_device devices[TRACE_GPUS];
	struct schedule_machine machine;
	struct queue_rules rules;
	struct schedule_history history[TRACE_USERS][TRACE_NAMES];
	double hours[TRACE_USERS];
	uint64_t served_s[TRACE_USERS];
	uint64_t now_s, faded_s;
	size_t arrived;
};

/* 0 is never. */
static uint64_t ours_ns(uint64_t s)
{
	return (s + 1) * SECOND_NS;
}

static void ours_machine(struct ours *ours)
{
	struct inventory *inventory = &ours->inventory;

	inventory->gpu_count = TRACE_GPUS;
	inventory->gpus = ours->gpus;
	for (uint32_t i = 0; i < TRACE_GPUS; i++) {
		struct gpu *gpu = &ours->gpus[i];
		gpu->index = i;
		(void)snprintf(gpu->uuid, sizeof(gpu->uuid), "GPU-%08x", i);
		for (uint32_t k = 0; k < TRACE_GPUS; k++)
			inventory->level[i][k] = i / 4 == k / 4 ? GPU_LEVEL_NODE : GPU_LEVEL_SYSTEM;
		place_describe(inventory, NULL, i, PLACE_WHOLE, NULL, NULL, &ours->devices[i].unit);
		ours->devices[i].slot_count = 1;
	}

	ours->rules = (struct queue_rules){.weights = RULES_WEIGHTS_DEFAULT,
					   .reserve_after_ns = DUE_S * SECOND_NS};
	ours->machine = (struct schedule_machine){.rules = &ours->rules,
						  .inventory = inventory,
						  .devices = ours->devices,
						  .device_count = TRACE_GPUS};
}

static void ours_decide(const struct job *shown, struct schedule_decision *decision, void *context)
{
	struct ours *ours = context;
	struct ours_job *job = &ours->jobs[shown->id - 1];

	job->job.has_turn = decision->has_turn;
	job->job.pledged_ns = decision->pledged_ns;
	job->job.promise_ns = decision->promise_ns;
	if (decision->promise_ns > 0 && decision->promise_ns != SCHEDULE_NEVER)
		job->promise_s = decision->promise_ns / SECOND_NS - 1;
	if (!decision->start)
		return;

	job->state = OURS_RUNS;
	job->from->started_s = ours->now_s;
	job->grants = take_ptr(decision->grants);
	job->grant_count = decision->grant_count;
	if (decision->was_pledged)
		ours->served_s[job->from->user] = ours->now_s;
	if (job->promise_s > 0 && ours->now_s > job->promise_s)
		ours->trace->broken_promises++;
}

static uint64_t ours_due_ns(const struct ours *ours, const struct ours_job *job)
{
	uint64_t served_s = ours->served_s[job->from->user];

	return schedule_due_ns(ours->rules.reserve_after_ns, job->from->gpus, TRACE_GPUS,
			       (int64_t)ours_ns(job->from->arrives_s),
			       served_s > 0 ? ours_ns(served_s) : 0);
}

/* What its user has had so far, what runs included. */
static double ours_hours(const struct ours *ours, uint32_t user)
{
	double hours = ours->hours[user];
	for (size_t i = 0; i < ours->arrived; i++) {
		const struct ours_job *job = &ours->jobs[i];
		if (job->state == OURS_RUNS && job->from->user == user)
			hours += schedule_used_hours(
			    job->from->gpus, (ours->now_s - job->from->started_s) * SECOND_NS, 0,
			    RULES_HALF_LIFE_NS);
	}
	return hours;
}

static void ours_judge(const struct ours *ours, struct ours_job *job)
{
	const struct schedule_facts facts = {
	    .waited_ns = (ours->now_s - job->from->arrives_s) * SECOND_NS,
	    .gpus = job->from->gpus,
	    .usage_hours = ours_hours(ours, job->from->user),
	    .machine_gpus = TRACE_GPUS,
	};
	struct schedule_score score;

	schedule_score_make(&ours->rules.weights, &facts, &score);
	job->job.own_score = schedule_score_total(&score) + score.usage;
	job->job.usage_score = score.usage;
	job->job.due_ns = ours_due_ns(ours, job);
	job->job.estimate_ns =
	    schedule_estimate_ns(&ours->history[job->from->user][job->from->name]);
}

static int ours_pass(struct ours *ours)
{
	_cleanup_free_ const struct job **list = calloc(ours->arrived + 1, sizeof(*list));
	struct schedule_running running[TRACE_GPUS];
	size_t count = 0, running_count = 0;

	if (!list)
		return -ENOMEM;

	for (size_t i = 0; i < TRACE_GPUS; i++) {
		ours->devices[i].used[0] = ours->devices[i].used_count = 0;
		ours->devices[i].used_whole = false;
	}

	for (size_t i = 0; i < ours->arrived; i++) {
		struct ours_job *job = &ours->jobs[i];
		if (job->state == OURS_WAITS) {
			ours_judge(ours, job);
			list[count++] = &job->job;
		}

		if (job->state != OURS_RUNS)
			continue;

		for (size_t g = 0; g < job->grant_count; g++)
			schedule_machine_take(&ours->machine, &job->grants[g]);

		uint64_t ran_s = ours->now_s - job->from->started_s;

		running[running_count++] =
		    (struct schedule_running){.uid = job->job.uid,
					      .left_ns = (job->from->limit_s - ran_s) * SECOND_NS,
					      .since_ns = ours_ns(job->from->started_s),
					      .grants = job->grants,
					      .grant_count = job->grant_count};
	}

	const struct schedule_input input = {.jobs = list,
					     .count = count,
					     .now_ns = ours_ns(ours->now_s),
					     .running = running,
					     .running_count = running_count,
					     .decide = ours_decide,
					     .context = ours};
	return count > 0 ? schedule_pass(&ours->machine, &input, NULL) : 0;
}

static void ours_end(struct ours *ours, struct ours_job *job)
{
	const struct trace_job *from = job->from;

	job->state = OURS_OVER;
	free(take_ptr(job->grants));
	ours->hours[from->user] +=
	    schedule_used_hours(from->gpus, from->runs_s * SECOND_NS, 0, RULES_HALF_LIFE_NS);
	schedule_estimate_add(&ours->history[from->user][from->name], from->runs_s * SECOND_NS,
			      true);
}

/* Goes on to the next moment at which something happens; false: nothing will. */
static bool ours_next(struct ours *ours)
{
	uint64_t next_s = ours->arrived < ours->trace->count
			      ? ours->trace->jobs[ours->arrived].arrives_s
			      : UINT64_MAX;

	for (size_t i = 0; i < ours->arrived; i++) {
		const struct ours_job *job = &ours->jobs[i];
		uint64_t at_s = UINT64_MAX;
		if (job->state == OURS_RUNS)
			at_s = job->from->started_s + job->from->runs_s;
		else if (job->state == OURS_WAITS && ours_due_ns(ours, job) > ours_ns(ours->now_s))
			at_s = ours_due_ns(ours, job) / SECOND_NS - 1;
		next_s = at_s < next_s ? at_s : next_s;
	}

	if (next_s == UINT64_MAX)
		return false;

	ours->now_s = next_s;

	double left = schedule_fade((next_s - ours->faded_s) * SECOND_NS, RULES_HALF_LIFE_NS);
	for (size_t user = 0; user < TRACE_USERS; user++)
		ours->hours[user] *= left;
	ours->faded_s = next_s;

	for (size_t i = 0; i < ours->arrived; i++) {
		struct ours_job *job = &ours->jobs[i];
		if (job->state == OURS_RUNS && job->from->started_s + job->from->runs_s <= next_s)
			ours_end(ours, job);
	}

	while (ours->arrived < ours->trace->count &&
	       ours->trace->jobs[ours->arrived].arrives_s <= next_s)
		ours->jobs[ours->arrived++].state = OURS_WAITS;

	return true;
}

int trace_run_ours(struct trace *trace)
{
	_cleanup_free_ struct ours *ours = calloc(1, sizeof(*ours));
	_cleanup_free_ struct ours_job *jobs = calloc(trace->count, sizeof(*jobs));
	int rc = 0;

	if (!ours || !jobs)
		return -ENOMEM;

	ours->trace = trace;
	ours->jobs = jobs;
	ours_machine(ours);

	for (size_t i = 0; i < trace->count; i++) {
		struct trace_job *from = &trace->jobs[i];
		jobs[i].from = from;
		jobs[i].job = (struct job){.id = i + 1,
					   .uid = 1000 + from->user,
					   .gpus = from->gpus,
					   .wants = {.time_ns = from->limit_s * SECOND_NS}};
	}

	while (rc == 0 && ours_next(ours))
		rc = ours_pass(ours);

	for (size_t i = 0; i < trace->count; i++)
		free(jobs[i].grants);

	ours->machine.devices = NULL; /* they are in `ours` */
	schedule_machine_done(&ours->machine);
	return rc;
}
