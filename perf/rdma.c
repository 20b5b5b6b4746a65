/* SPDX-License-Identifier: Apache-2.0 */
/* What it costs to look at the RDMA adapters of a machine: the first time, and again and again. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "perf/gate.h"
#include "hardware/rdma.h"
#include "sim/error.h"
#include "sim/profile.h"
#include "sim/trees.h"

enum bench_limits {
	BENCH_COLD = 200,
	BENCH_RESCANS = 1000,
	BENCH_ADAPTERS = 8,
	BENCH_PORTS = 2, /* of each */
};

static struct sim_machine bench_machine;
static uint64_t bench_samples[BENCH_RESCANS];

static void bench_fail(const char *what, const char *why)
{
	(void)fprintf(stderr, "bench rdma: %s: %s\n", what, why);
	exit(1);
}

static void bench_start(const char *directory)
{
	struct sim_error error;
	if (setenv("SLUICE_PROFILES", BENCH_PROFILES, 0) < 0 ||
	    sim_profile_load("dgx-a100", NULL, &bench_machine, &error) < 0)
		bench_fail("the profile", error.text);

	(void)snprintf(bench_machine.root, sizeof(bench_machine.root), "%s/root", directory);
	bench_machine.nic_count = BENCH_ADAPTERS;
	bench_machine.nic_ports = BENCH_PORTS;
	bench_machine.nic_ethernet = 0;
	bench_machine.dev_style = sim_trees_can_make_nodes() ? SIM_DEV_NVIDIA : SIM_DEV_FILE;
	if (sim_trees_sync(&bench_machine, &error) != 0)
		bench_fail("the simulated files", error.text);
}

static void bench_read(struct rdma_inventory *inventory)
{
	struct err err = {.code = 0};
	if (rdma_read(bench_machine.root, inventory, &err) < 0)
		bench_fail("reading the adapters", err.text);
}

/* One reading in a process that has never read: its pages are not there yet. */
static uint64_t bench_cold(void)
{
	int ends[2];
	uint64_t took = 0;

	if (pipe(ends) < 0)
		bench_fail("a pipe", strerror(errno));

	pid_t pid = fork();
	if (pid < 0)
		bench_fail("a process", strerror(errno));

	if (pid == 0) {
		uint64_t begin = gate_now_ns();
		struct rdma_inventory *inventory = calloc(1, sizeof(*inventory));
		if (!inventory)
			_exit(1);
		bench_read(inventory);
		took = gate_now_ns() - begin;
		_exit(write(ends[1], &took, sizeof(took)) == sizeof(took) ? 0 : 1);
	}

	(void)close(ends[1]);
	if (read(ends[0], &took, sizeof(took)) != sizeof(took))
		bench_fail("a reading", "no answer");
	(void)close(ends[0]);
	(void)waitpid(pid, NULL, 0);

	return took;
}

static long bench_resident_kib(void)
{
	struct rusage usage;
	return getrusage(RUSAGE_SELF, &usage) == 0 ? usage.ru_maxrss : 0;
}

static void bench_measure(struct gate_report *report)
{
	for (int i = 0; i < BENCH_COLD; i++)
		bench_samples[i] = bench_cold();

	gate_time(report, "rdma_discovery", gate_quantile(bench_samples, BENCH_COLD, 0.5), "ms", 5,
		  bench_samples, BENCH_COLD);

	struct rdma_inventory *before = calloc(1, sizeof(*before)),
			      *after = calloc(1, sizeof(*after));
	if (!before || !after)
		bench_fail("the inventories", "no memory");
	bench_read(before);
	bench_read(after);
	gate_note(report, "%u adapters, %u RDMA devices with %d ports each, %u nodes of the first",
		  after->function_count, after->device_count, BENCH_PORTS,
		  after->device[0].node_count);

	long resident = bench_resident_kib();

	for (int i = 0; i < BENCH_RESCANS; i++) {
		uint64_t begin = gate_now_ns();

		bench_read(after);
		bool same = rdma_is_same(before, after);

		bench_samples[i] = gate_now_ns() - begin;
		if (!same)
			bench_fail("a rescan", "something changed");
	}

	gate_time(report, "rdma_rescan", gate_quantile(bench_samples, BENCH_RESCANS, 0.5), "ms", 2,
		  bench_samples, BENCH_RESCANS);
	gate_value(report, "rdma_growth", (double)(bench_resident_kib() - resident), "KiB",
		   GATE_AT_MOST, 0);
	free(before);
	free(after);
}

int main(int argc, char **argv)
{
	char directory[] = "/tmp/sluice-bench-rdma-XXXXXX";
	struct sim_error error;
	struct gate_report *report = gate_open(
	    argc, argv, "rdma", "reading 8 RDMA adapters with 16 ports from /sys", true, NULL);

	if (!mkdtemp(directory))
		bench_fail("a directory", strerror(errno));
	bench_start(directory);
	bench_measure(report);
	(void)sim_trees_remove(bench_machine.root, &error);
	(void)rmdir(directory);

	return gate_close(report);
}
