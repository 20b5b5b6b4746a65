/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pass of the scheduler over 10,000 waiting jobs on 8 GPUs: CPU time of this thread, with jobs
 * that lie apart in memory as those of a queue do. Invented devices; no driver, no tokens, no
 * files.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/err.h"
#include "perf/gate.h"
#include "doors/queue/schedule/schedule.h"
#include "doors/queue/schedule/schedule_score.h"

enum bench_limits {
	BENCH_GPUS = 8,
	BENCH_SLOTS = 4,
	BENCH_JOBS = 10000,
	BENCH_ROUNDS = 1000,
	BENCH_UIDS = 300,
	BENCH_RUNNING = 200,
};

enum bench_kind {
	BENCH_ALIKE, /* all want one GPU, all GPUs are busy */
	BENCH_MIXED, /* wide, shared, named and CPU jobs; all GPUs are busy */
	BENCH_START, /* the same on an idle machine: what can start is started */
	BENCH_IDS,   /* each of a third of the jobs names other GPUs */
	BENCH_USERS, /* as mixed: of many users, with priorities, times, processors and memory */
	BENCH_KINDS,
};

static const char *const bench_kind_name[] = {"alike", "mixed", "start", "ids", "users"};

struct bench {
	struct inventory inventory;
	struct schedule_machine machine;
	struct schedule_device idle[BENCH_GPUS], busy[BENCH_GPUS];
	struct schedule_running running[BENCH_RUNNING];
	struct launch_grant grants[BENCH_GPUS];
	struct job *jobs[BENCH_JOBS];
	size_t started, waiting;
	size_t changed; /* texts that differ from the last pass: what a queue would store */
	uint32_t text_hash[BENCH_JOBS];
};

static void bench_fail(const char *what)
{
	(void)fprintf(stderr, "bench-schedule: %s failed\n", what);
	exit(1);
}

static void bench_machine(struct bench *bench)
{
	bench->inventory.gpu_count = BENCH_GPUS;
	bench->inventory.gpus = calloc(BENCH_GPUS, sizeof(struct gpu));
	if (!bench->inventory.gpus)
		bench_fail("making a machine");

	for (uint32_t i = 0; i < BENCH_GPUS; i++) {
		struct gpu *gpu = &bench->inventory.gpus[i];
		gpu->index = i;
		(void)snprintf(gpu->uuid, sizeof(gpu->uuid), "GPU-%08x", i);

		for (uint32_t j = 0; j < BENCH_GPUS; j++)
			bench->inventory.level[i][j] =
			    i / 4 == j / 4 ? GPU_LEVEL_NODE : GPU_LEVEL_SYSTEM;

		struct schedule_device *device = &bench->idle[i];
		place_describe(&bench->inventory, NULL, i, PLACE_WHOLE, NULL, NULL, &device->unit);
		device->slot_count = i < BENCH_GPUS / 2 ? BENCH_SLOTS : 1;
		bench->busy[i] = *device;
		bench->busy[i].used_whole = true;
		bench->busy[i].used_count = device->slot_count;
	}

	/* Each GPU is somebody's, for so long; the other jobs have processors and memory. */
	for (uint32_t i = 0; i < BENCH_RUNNING; i++) {
		struct schedule_running *running = &bench->running[i];
		*running = (struct schedule_running){.uid = i,
						     .cpu_milli = 1000,
						     .mem_bytes = 1 << 30,
						     .left_ns = (i + 1) * UINT64_C(1000000000)};
		if (i >= BENCH_GPUS)
			continue;

		struct launch_grant *grant = &bench->grants[i];
		grant->slot_count = bench->busy[i].slot_count;
		memcpy(grant->uuid, bench->busy[i].unit.uuid, sizeof(grant->uuid));

		for (uint32_t slot = 0; slot < grant->slot_count; slot++)
			launch_grant_add(grant, slot);

		running->grants = grant;
		running->grant_count = 1;
	}

	static const struct queue_rules rules = {.weights = RULES_WEIGHTS_DEFAULT,
						 .reserve_after_ns = UINT64_C(600000000000),
						 .cpu_milli = BENCH_RUNNING * 1000 + 8000,
						 .mem_bytes = UINT64_C(256) << 30};
	bench->machine = (struct schedule_machine){
	    .rules = &rules, .inventory = &bench->inventory, .device_count = BENCH_GPUS};
}

/* Some of the GPUs, in an order that depends on the number. */
static char *bench_ids(size_t number)
{
	char text[64];
	size_t length = 0, left[BENCH_GPUS], count = BENCH_GPUS;
	for (size_t i = 0; i < BENCH_GPUS; i++)
		left[i] = i;

	size_t wanted = 1 + number % BENCH_GPUS;

	for (size_t i = 0; i < wanted; i++) {
		size_t pick = number % count;
		number /= count;
		length += (size_t)snprintf(text + length, sizeof(text) - length, "%s%zu",
					   length ? "," : "", left[pick]);
		left[pick] = left[--count];
	}

	return strdup(text);
}

static void bench_job(struct job *job, size_t number, enum bench_kind kind)
{
	free(job->ids);
	*job = (struct job){.id = number + 1, .gpus = 1};

	if (kind == BENCH_USERS) {
		job->uid = (uid_t)(number * 7919 % BENCH_UIDS);
		job->wants.priority = (int32_t)(number % 5) - 2;
		job->wants.time_ns = number % 3 ? number * 7907 % 1009 * 1000000000 : 0;
		job->wants.cpu_milli = (uint32_t)(1 + number % 16) * 1000;
		job->wants.mem_bytes = (number % 4) << 30;
	}

	if (kind == BENCH_ALIKE)
		return;

	switch (number % 6) {
	case 0:
		job->gpus = 1 + (uint32_t)(number / 6) % BENCH_GPUS;
		break;
	case 1:
	case 2:
		job->share_numerator = 1;
		job->share_denominator = BENCH_SLOTS;
		break;
	case 3:
		job->gpus = number % 60 == 3 ? 0 : 1;
		break;
	default:
		job->ids = bench_ids(kind == BENCH_IDS ? number : number % BENCH_GPUS * 8);
		if (!job->ids)
			bench_fail("making a job");
		break;
	}
}

static void bench_decide(const struct job *job, struct schedule_decision *decision, void *context)
{
	struct bench *bench = context;
	bench->started += decision->start;
	bench->waiting += !decision->start;

	uint32_t hash = (uint32_t)decision->reason;
	for (const char *at = decision->text; *at; at++)
		hash = hash * 31 + (uint8_t)*at;

	bench->changed += bench->text_hash[job->id - 1] != hash;
	bench->text_hash[job->id - 1] = hash;
}

static uint64_t bench_cpu_ns(void)
{
	struct timespec now;
	(void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static const char *bench_who(const char *uuid, void *context)
{
	return "job 12 of alice";
}

/* As the queue does before each pass: what each job has for itself and against it. */
static void bench_judge(struct bench *bench)
{
	for (size_t i = 0; i < BENCH_JOBS; i++) {
		struct job *job = bench->jobs[i];
		const struct schedule_facts facts = {
		    .waited_ns = (BENCH_JOBS - i) * UINT64_C(7000000000),
		    .gpus = job->gpus,
		    .priority = job->wants.priority,
		    .usage_hours = job->uid * 0.7,
		    .machine_gpus = BENCH_GPUS,
		};
		struct schedule_score score;

		schedule_score_make(&bench->machine.rules->weights, &facts, &score);
		job->own_score = schedule_score_total(&score) + score.usage;
		job->usage_score = score.usage;
	}
}

static uint64_t bench_pass(struct bench *bench, enum bench_kind kind)
{
	struct schedule_device devices[BENCH_GPUS];
	memcpy(devices, kind == BENCH_START ? bench->idle : bench->busy, sizeof(devices));
	bench->machine.devices = devices;
	bench->started = bench->waiting = bench->changed = 0;

	uint64_t begin = bench_cpu_ns();
	bench_judge(bench);
	const struct schedule_input input = {.jobs = (const struct job *const *)bench->jobs,
					     .count = BENCH_JOBS,
					     .running = bench->running,
					     .running_count =
						 kind == BENCH_START ? 0 : BENCH_RUNNING,
					     .who = bench_who,
					     .decide = bench_decide,
					     .context = bench};
	if (schedule_pass(&bench->machine, &input, NULL) < 0)
		bench_fail("a pass");

	uint64_t took = bench_cpu_ns() - begin;

	bench->machine.devices = NULL;
	if (bench->started + bench->waiting != BENCH_JOBS)
		bench_fail("deciding each job once");

	return took;
}

int main(int argc, char **argv)
{
	struct gate_report *report =
	    gate_open(argc, argv, "schedule",
		      "CPU time of one pass over 10,000 waiting jobs on 8 GPUs.", false, NULL);
	static struct bench bench;
	static uint64_t samples[BENCH_ROUNDS], worst[BENCH_ROUNDS];
	double worst_median = 0;

	bench_machine(&bench);

	for (size_t i = 0; i < BENCH_JOBS; i++)
		if (!(bench.jobs[i] = calloc(1, sizeof(struct job))))
			bench_fail("making a job");

	gate_note(report, "jobs     start  wait  median ms  p99 ms");

	for (int kind = 0; kind < BENCH_KINDS; kind++) {
		for (size_t i = 0; i < BENCH_JOBS; i++)
			bench_job(bench.jobs[i], i, (enum bench_kind)kind);

		for (size_t i = 0; i < BENCH_ROUNDS; i++)
			samples[i] = bench_pass(&bench, (enum bench_kind)kind);

		double median = gate_quantile(samples, BENCH_ROUNDS, 0.5);
		gate_note(report, "%-7s %6zu %5zu %10.2f %7.2f", bench_kind_name[kind],
			  bench.started, bench.waiting, median / 1e6,
			  gate_quantile(samples, BENCH_ROUNDS, 0.99) / 1e6);

		if (median > worst_median) {
			worst_median = median;
			memcpy(worst, samples, sizeof(worst));
		}
	}

	gate_time(report, "pass_10k", worst_median, "ms", 5, worst, BENCH_ROUNDS);

	for (size_t i = 0; i < BENCH_JOBS; i++) {
		free(bench.jobs[i]->ids);
		free(bench.jobs[i]);
	}

	inventory_done(&bench.inventory);
	return gate_close(report);
}
