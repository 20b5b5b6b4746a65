/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a round of the probe costs: eight GPUs of a simulated machine read as each second, and the
 * same with thousands of processes on each. The driver's own cost is in it, as far as the
 * simulated one has any.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/err.h"
#include "perf/gate.h"
#include "hardware/inventory.h"
#include "probe/sample.h"

enum { BENCH_ROUNDS = 1000, BENCH_CROWD = 4096, BENCH_WARM = 10 };
#define BENCH_PERIOD_NS UINT64_C(1000000000)

static uint64_t samples[BENCH_ROUNDS];
static struct snapshot snapshot;
static struct sample_memory memory[SNAPSHOT_GPU_MAX];
static struct inventory inventory;
static nvml_device handles[GPU_MAX];

static _Noreturn void bench_fail(const char *what)
{
	fprintf(stderr, "bench-probe: %s\n", what);
	exit(1);
}

static uint64_t bench_cpu_ns(void)
{
	struct timespec now;
	(void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * BENCH_PERIOD_NS + (uint64_t)now.tv_nsec;
}

/* CPU time of a round over all GPUs, median. */
static double bench_rounds(struct sampler *sampler, bool all_classes)
{
	for (uint32_t round = 0; round < BENCH_ROUNDS + BENCH_WARM; round++) {
		sampler->now_ns += BENCH_PERIOD_NS;
		sampler->unix_ns += (int64_t)BENCH_PERIOD_NS;
		sampler->due[SNAPSHOT_FAST] = true;
		sampler->due[SNAPSHOT_MEDIUM] = sampler->due[SNAPSHOT_SLOW] = all_classes;
		sampler->pcie_turn = SNAPSHOT_U32_ABSENT;

		uint64_t begin = bench_cpu_ns();

		for (uint32_t i = 0; i < snapshot.gpu_count; i++)
			sample_read(sampler, i, handles[i], &memory[i]);

		if (round >= BENCH_WARM)
			samples[round - BENCH_WARM] = bench_cpu_ns() - begin;
	}

	return gate_quantile(samples, BENCH_ROUNDS, 0.5);
}

struct bench_process {
	uint32_t pid;
	uint64_t memory;
	uint32_t gi, ci;
};

static int32_t bench_crowd(nvml_device device, uint32_t *count, void *out)
{
	struct bench_process *list = out;
	bool fits = *count > BENCH_CROWD;

	*count = BENCH_CROWD;

	for (uint32_t i = 0; fits && i < BENCH_CROWD; i++)
		list[i] = (struct bench_process){.pid = 1000 + i,
						 .memory = (uint64_t)i * 7919 % BENCH_CROWD << 20,
						 .gi = SNAPSHOT_WHOLE_GPU,
						 .ci = SNAPSHOT_WHOLE_GPU};

	return fits ? NVML_OK : NVML_INSUFFICIENT_SIZE;
}

int main(int argc, char **argv)
{
	struct err err = {.code = 0};
	struct call_mark mark = {.count = 0};
	struct nvml *nvml = NULL;
	const char *directory = getenv("SLUICE_SIM_LIBDIR");
	char path[4096];
	struct gate_report *report =
	    gate_open(argc, argv, "bench-probe", "a round of the probe on eight GPUs", true, NULL);

	(void)snprintf(path, sizeof(path), "%s/580", directory ? directory : BENCH_LIBDIR);
	(void)setenv("LD_LIBRARY_PATH", path, 1);
	(void)unsetenv("SLUICE_SIM_STATE");
	(void)setenv("SLUICE_SIM_PROFILE", "dgx-a100", 1);
	(void)setenv("SLUICE_PROFILES", BENCH_PROFILES, 0);

	if (nvml_open("/nonexistent", &mark, &nvml, &err) < 0)
		bench_fail(err.text);

	struct nvml_caller caller = {.nvml = nvml, .mark = &mark};
	const struct inventory_request request = {.root = "/nonexistent"};

	inventory_init(&inventory);
	if (inventory_read(&caller, &request, &inventory, handles, &err) < 0)
		bench_fail(err.text);
	snapshot.gpu_count = inventory.gpu_count;

	for (uint32_t i = 0; i < inventory.gpu_count; i++)
		sample_identify(&inventory, i, &snapshot.gpu[i]);

	struct sampler sampler = {.caller = &caller, .snapshot = &snapshot};

	double fast = bench_rounds(&sampler, false);
	gate_time(report, "probe_round", fast, "ms", 1, samples, BENCH_ROUNDS);

	double all = bench_rounds(&sampler, true);
	gate_time(report, "probe_round_all", all, "ms", 3, samples, BENCH_ROUNDS);
	nvml->fn.compute_processes = bench_crowd;

	double crowd = bench_rounds(&sampler, false);

	gate_note(report, "%u GPUs; in the crowd %u processes on each", snapshot.gpu_count,
		  snapshot.gpu[0].process_total);
	gate_time(report, "probe_round_crowd", crowd, "ms", 5, samples, BENCH_ROUNDS);

	for (uint32_t i = 0; i < snapshot.gpu_count; i++)
		sample_forget(&caller, &memory[i]);

	sampler_done(&sampler);
	inventory_done(&inventory);
	(void)nvml_close(nvml);

	return gate_close(report);
}
