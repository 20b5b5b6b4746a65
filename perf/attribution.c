/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long the agent's loop stands still to find out who uses the GPUs: 16 GPUs with 64 processes
 * each, which are real ones of this machine. First when all of them are new, then each second.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/usage/attribution.h"
#include "agent/usage/proctable.h"
#include "base/loop.h"
#include "perf/gate.h"
#include "web/view.h"

enum {
	BENCH_GPUS = 16,
	BENCH_PROCESSES = BENCH_GPUS * SNAPSHOT_PROCESS_MAX,
	BENCH_ROUNDS = 1000,
	BENCH_PERIOD_MS = 1000,
};

static pid_t children[BENCH_PROCESSES];

_Noreturn static void bench_fail(const char *what)
{
	fprintf(stderr, "bench: %s\n", what);
	exit(2);
}

static uint64_t bench_cpu_ns(void)
{
	struct timespec now;
	(void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static void bench_start(void)
{
	for (size_t i = 0; i < BENCH_PROCESSES; i++) {
		children[i] = fork();
		if (children[i] < 0)
			bench_fail("starting processes");

		if (children[i] == 0) {
			(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
			for (;;)
				(void)pause();
		}
	}
}

static void bench_stop(void)
{
	for (size_t i = 0; i < BENCH_PROCESSES; i++) {
		(void)kill(children[i], SIGKILL);
		(void)waitpid(children[i], NULL, 0);
	}
}

static void bench_view(struct view *view)
{
	view->snapshot.gpu_count = BENCH_GPUS;
	for (uint32_t g = 0; g < BENCH_GPUS; g++) {
		struct snapshot_gpu *gpu = &view->snapshot.gpu[g];
		(void)snprintf(gpu->uuid, sizeof(gpu->uuid), "GPU-%u", g);
		gpu->process_count = gpu->process_total = SNAPSHOT_PROCESS_MAX;
		view->gpu[g].energy_mj = SNAPSHOT_U64_ABSENT;

		for (uint32_t p = 0; p < SNAPSHOT_PROCESS_MAX; p++)
			gpu->process[p] = (struct snapshot_process){
			    .pid = (uint32_t)children[g * SNAPSHOT_PROCESS_MAX + p],
			    .gi = SNAPSHOT_WHOLE_GPU,
			    .ci = SNAPSHOT_WHOLE_GPU,
			    .memory_bytes = 1 << 20,
			    .util_sm = 1};
	}
}

int main(int argc, char **argv)
{
	struct gate_report *report = gate_open(
	    argc, argv, "attribution",
	    "CPU time of the loop for who uses 16 GPUs with 1,024 processes.", false, NULL);
	static uint64_t slices[BENCH_PROCESSES], fills[BENCH_ROUNDS];
	struct view *view = calloc(1, sizeof(*view));
	struct loop *loop = loop_new(LOOP_FAKE, NULL);
	struct attribution *attribution = NULL;
	struct proctable *table = NULL;
	const struct attribution_options options = {.loop = loop};
	size_t count = 0, left;

	bench_start();
	if (!view || !loop || attribution_new(&options, &attribution, NULL) < 0 ||
	    proctable_new(NULL, &table, NULL) < 0)
		bench_fail("no memory");

	bench_view(view);

	for (size_t i = 0; i < BENCH_PROCESSES; i++)
		(void)proctable_want(table, (uint32_t)children[i]);

	do {
		uint64_t begin = bench_cpu_ns();
		left = proctable_read(table, PROCTABLE_SLICE);
		slices[count++] = bench_cpu_ns() - begin;
	} while (left > 0 && count < BENCH_PROCESSES);
	double slice = gate_quantile(slices, count, 0.5);

	gate_note(report, "new processes: %zu slices of %d, p99 %.2f ms", count, PROCTABLE_SLICE,
		  gate_quantile(slices, count, 0.99) / 1e6);

	for (size_t i = 0; i < BENCH_ROUNDS; i++) {
		view->snapshot.taken_ns += BENCH_PERIOD_MS * UINT64_C(1000000);
		for (uint32_t g = 0; g < BENCH_GPUS; g++)
			view->gpu[g].busy_ns += BENCH_PERIOD_MS * UINT64_C(500000);

		if (loop_advance(loop, BENCH_PERIOD_MS * UINT64_C(1000000), NULL) < 0)
			bench_fail("the clock");

		uint64_t begin = bench_cpu_ns();
		attribution_fill(attribution, 0, view);
		fills[i] = bench_cpu_ns() - begin;
	}

	double fill = gate_quantile(fills, BENCH_ROUNDS, 0.5);
	gate_note(report, "a sample: %u processes, p99 %.2f ms", view->process_count,
		  gate_quantile(fills, BENCH_ROUNDS, 0.99) / 1e6);
	gate_time(report, "attribution_slice", slice, "ms", 1, slices, count);
	gate_time(report, "attribution_fill", fill, "ms", 1, fills, BENCH_ROUNDS);
	attribution_stop(attribution);
	(void)attribution_free(attribution);
	(void)proctable_free(table);
	(void)loop_free(loop);
	free(view);
	bench_stop();

	return gate_close(report);
}
