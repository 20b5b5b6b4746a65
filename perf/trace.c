/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Simulated weeks of a lab with eight GPUs: how long jobs wait under the scheduler of the queue,
 * under first come first served, and under EASY backfill. The scheduler is the one of the service,
 * with its scores, pledges and estimates; the other two are in trace_policy.c. Times are the
 * trace's: nothing is run, and no clock is read but for the noise that is printed.
 * doc/measurements.md says how the weeks are made.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "perf/gate.h"
#include "perf/trace.h"

enum trace_bench_limits {
	TRACE_WEEKS = 4,
	TRACE_WIDE = 4, /* GPUs of a wide job, or more */
};

#define TRACE_SEED UINT64_C(20261128)

/* Seconds that jobs of all weeks have waited, by width: [0] of all, [1] of wide ones, then 1, 2,
 * 4, 8. */
enum trace_group { TRACE_ALL, TRACE_ALL_WIDE, TRACE_BY_WIDTH, TRACE_GROUPS = TRACE_BY_WIDTH + 4 };

static const char *const trace_group_name[] = {"all", "4 or 8", "1", "2", "4", "8"};

struct trace_waits {
	uint64_t *s[TRACE_GROUPS]; /* owned */
	size_t count[TRACE_GROUPS], room[TRACE_GROUPS];
	double busy; /* of the GPU-seconds of the weeks */
};

static void trace_fail(const char *what)
{
	(void)fprintf(stderr, "bench-trace: %s failed\n", what);
	exit(1);
}

static void trace_note(struct trace_waits *waits, size_t group, uint64_t wait_s)
{
	if (waits->count[group] == waits->room[group]) {
		waits->room[group] = waits->room[group] ? 2 * waits->room[group] : 1024;
		waits->s[group] =
		    reallocarray(waits->s[group], waits->room[group], sizeof(*waits->s[group]));
		if (!waits->s[group])
			trace_fail("noting how long jobs waited");
	}

	waits->s[group][waits->count[group]++] = wait_s;
}

static void trace_add(struct trace_waits *waits, const struct trace *trace)
{
	static const uint32_t widths[] = {1, 2, 4, 8};

	for (size_t i = 0; i < trace->count; i++) {
		const struct trace_job *job = &trace->jobs[i];
		uint64_t wait_s = job->started_s - job->arrives_s;

		trace_note(waits, TRACE_ALL, wait_s);
		if (job->gpus >= TRACE_WIDE)
			trace_note(waits, TRACE_ALL_WIDE, wait_s);
		for (size_t w = 0; w < 4; w++)
			if (job->gpus == widths[w])
				trace_note(waits, TRACE_BY_WIDTH + w, wait_s);
	}

	waits->busy += trace_utilisation(trace) / TRACE_WEEKS;
}

static double trace_wait(struct trace_waits *waits, size_t group, double q)
{
	return gate_quantile(waits->s[group], waits->count[group], q);
}

static void trace_table(struct gate_report *report, struct trace_waits all[TRACE_POLICIES])
{
	gate_note(report, "waiting, in minutes  GPUs     jobs      p50      p95      p99");

	for (size_t p = 0; p < TRACE_POLICIES; p++)
		for (size_t g = 0; g < TRACE_GROUPS; g++)
			gate_note(
			    report, "%-20s %-7s %5zu %8.1f %8.1f %8.1f", trace_policy_name[p],
			    trace_group_name[g], all[p].count[g], trace_wait(&all[p], g, 0.5) / 60,
			    trace_wait(&all[p], g, 0.95) / 60, trace_wait(&all[p], g, 0.99) / 60);

	for (size_t p = 0; p < TRACE_POLICIES; p++)
		gate_note(report, "%-20s GPUs busy %.1f %% of the week", trace_policy_name[p],
			  100 * all[p].busy);
}

/* Ours through the better of the other two. */
static double trace_ratio(struct trace_waits all[TRACE_POLICIES], size_t group, double q)
{
	double fifo = trace_wait(&all[TRACE_FIFO], group, q);
	double easy = trace_wait(&all[TRACE_EASY], group, q);
	double better = fifo < easy ? fifo : easy;
	return trace_wait(&all[TRACE_OURS], group, q) / (better > 1 ? better : 1);
}

int main(int argc, char **argv)
{
	struct gate_report *report =
	    gate_open(argc, argv, "trace",
		      "How long jobs of simulated weeks wait: the queue's scheduler beside first "
		      "come first served and EASY backfill.",
		      true, NULL);
	static struct trace_waits all[TRACE_POLICIES];
	size_t broken = 0;

	for (uint64_t week = 0; week < TRACE_WEEKS; week++) {
		struct trace trace;

		if (trace_make(&trace, TRACE_SEED + week) < 0)
			trace_fail("making a week");

		for (size_t p = 0; p < TRACE_POLICIES; p++) {
			if (trace_run(&trace, (enum trace_policy)p) < 0)
				trace_fail("a week");
			trace_add(&all[p], &trace);
			broken += trace.broken_promises;
		}

		trace_done(&trace);
	}

	trace_table(report, all);
	gate_note(report, "promises to wide jobs that were not kept: %zu", broken);
	gate_value(report, "trace_wait", trace_ratio(all, TRACE_ALL_WIDE, 0.95),
		   "of the better's p95, 4 or 8 GPUs", GATE_AT_MOST, 1);
	gate_value(report, "trace_wait_all", trace_ratio(all, TRACE_ALL, 0.5),
		   "of the better's p50, all jobs", GATE_AT_MOST, 1.1);
	gate_value(report, "trace_busy",
		   all[TRACE_OURS].busy / (all[TRACE_EASY].busy > all[TRACE_FIFO].busy
					       ? all[TRACE_EASY].busy
					       : all[TRACE_FIFO].busy),
		   "of the better's utilisation", GATE_AT_LEAST, 0.99);
	gate_value(report, "trace_promises", (double)broken, "promises broken", GATE_AT_MOST, 0);

	for (size_t p = 0; p < TRACE_POLICIES; p++)
		for (size_t g = 0; g < TRACE_GROUPS; g++)
			free(all[p].s[g]);

	return gate_close(report);
}
