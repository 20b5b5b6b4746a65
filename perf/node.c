/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What it takes to make a node ready, on simulated machines: the labels as a program and as a
 * function, `sluice doctor`, from the start of the agent until GPUs are registered and CDI
 * specification, labels and validation files lie there, and the same of a driver that comes when
 * the agent is there already. The agent and its commands are the real ones; the kubelet's side is
 * perf/kubelet_side.c. Looking at RDMA adapters is measured by perf/rdma.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "base/err.h"
#include "base/file.h"
#include "perf/footprint_process.h"
#include "perf/gate.h"
#include "perf/kubelet_side.h"
#include "perf/queue_rig.h"
#include "doors/labels/label.h"
#include "doors/labels/labels.h"
#include "hardware/gpu.h"
#include "policy/config.h"
#include "policy/policy.h"

enum bench_limits {
	BENCH_RUNS = 200, /* of a program */
	BENCH_SETS = 4000,
	BENCH_GROWTH = 20000, /* sets between two looks at the memory */
	BENCH_STARTS = 40,
	BENCH_LATE = 5, /* drivers that come late; each is a wait */
	BENCH_GPUS = 8,
	BENCH_GPUS_MANY = 16,
	BENCH_MIG_EACH = 7,
	BENCH_FILES = 3,
	BENCH_DOCTOR_WORST = 2, /* it has found failures */
};

#define BENCH_POLL_NS UINT64_C(200000)
#define BENCH_WAIT_NS UINT64_C(60000000000)
#define BENCH_MB      1e6

extern char **environ;

static struct rig bench_rig;
static struct side bench_side;

/* --- programs ----------------------------------------------------------------------------------
 */

/* What a program took, with the processes that it has waited for. */
struct bench_took {
	uint64_t ns, cpu_ns, rss;
};

/* Runs `sluice ARGUMENTS` to its end; its exit code. */
static int bench_run(const char *const *arguments, struct bench_took *out)
{
	posix_spawn_file_actions_t files;
	struct rusage usage;
	pid_t pid;
	int status;

	rig_must(posix_spawn_file_actions_init(&files) == 0 &&
		     posix_spawn_file_actions_addopen(&files, 1, "/dev/null", O_WRONLY, 0) == 0 &&
		     posix_spawn_file_actions_addopen(&files, 2, "/dev/null", O_WRONLY, 0) == 0,
		 "out of memory");
	uint64_t began = gate_now_ns();

	rig_must(posix_spawn(&pid, BENCH_SLUICE, &files, NULL, (char *const *)arguments, environ) ==
		     0,
		 "cannot start " BENCH_SLUICE);
	rig_must(wait4(pid, &status, 0, &usage) == pid, "cannot wait for %d", (int)pid);
	out->ns = gate_now_ns() - began;
	out->cpu_ns =
	    (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * UINT64_C(1000000000) +
	    (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1000;
	out->rss = (uint64_t)usage.ru_maxrss * 1024;
	(void)posix_spawn_file_actions_destroy(&files);

	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void bench_program(struct gate_report *report, const char *gate, double limit_ms,
			  const char *const *arguments, int worst, uint64_t *out_rss)
{
	static uint64_t samples[BENCH_RUNS], cpu[BENCH_RUNS];
	uint64_t most = 0;

	for (size_t i = 0; i < BENCH_RUNS; i++) {
		struct bench_took took;
		int code = bench_run(arguments, &took);

		samples[i] = took.ns;
		cpu[i] = took.cpu_ns;
		rig_must(code >= 0 && code <= worst, "'sluice %s' ended with %d", arguments[1],
			 code);
		most = took.rss > most ? took.rss : most;
	}

	gate_time(report, gate, gate_quantile(samples, BENCH_RUNS, 0.5), "ms", limit_ms, samples,
		  BENCH_RUNS);
	gate_note(report,
		  "%s, exec to exit: shortest %.1f ms, longest of %d %.1f ms; processor time with "
		  "that of the probe: median %.1f ms",
		  gate, gate_quantile(samples, BENCH_RUNS, 0) / 1e6, BENCH_RUNS,
		  gate_quantile(samples, BENCH_RUNS, 1) / 1e6,
		  gate_quantile(cpu, BENCH_RUNS, 0.5) / 1e6);
	if (out_rss)
		*out_rss = most;
}

static void bench_part_labels(struct gate_report *report)
{
	static const char *const plain[] = {"sluice", "labels", NULL};
	static const char *const mixed[] = {"sluice", "labels", "--mig-strategy", "mixed", NULL};
	rig_open_machine(&bench_rig, "dgx-a100", NULL);
	bench_program(report, "labels_cold", 15, plain, 0, NULL);
	rig_close(&bench_rig);
	rig_open_machine(&bench_rig, "dgx-a100", "single");
	bench_program(report, "labels_cold_mig", 15, mixed, 0, NULL);
	rig_close(&bench_rig);
}

static void bench_part_doctor(struct gate_report *report)
{
	static const char *const arguments[] = {"sluice", "doctor", NULL};
	uint64_t rss = 0;
	rig_open_machine(&bench_rig, "dgx-a100", NULL);
	bench_program(report, "doctor", 2000, arguments, BENCH_DOCTOR_WORST, &rss);
	gate_value(report, "doctor_rss", (double)rss / BENCH_MB, "MB", GATE_AT_MOST, 8);
	rig_close(&bench_rig);
}

/* --- the set of labels -------------------------------------------------------------------------
 */

static void bench_machine(struct inventory *out, struct gpu *gpus, struct mig_device *migs)
{
	inventory_init(out);
	out->gpus = gpus;
	out->migs = migs;
	out->cuda_version = 13000;
	(void)snprintf(out->driver_version, sizeof(out->driver_version), "580.105.08");

	for (uint32_t i = 0; i < BENCH_GPUS_MANY; i++) {
		struct gpu *gpu = &gpus[out->gpu_count++];
		*gpu = (struct gpu){.index = i,
				    .minor = i,
				    .memory_bytes = UINT64_C(40) << 30,
				    .cc_major = 8,
				    .mig_current = GPU_MIG_ENABLED,
				    .mig_max = BENCH_MIG_EACH};
		(void)snprintf(gpu->uuid, sizeof(gpu->uuid), "GPU-%08" PRIx32, i);
		(void)snprintf(gpu->name, sizeof(gpu->name), "NVIDIA A100-SXM4-40GB");

		for (uint32_t k = 0; k < BENCH_MIG_EACH; k++) {
			struct mig_device *mig = &migs[out->mig_count++];
			*mig = (struct mig_device){.parent = i,
						   .index = k,
						   .gi = k + 1,
						   .memory_bytes = UINT64_C(5) << 30,
						   .sm_count = 14,
						   .gi_slices = 1,
						   .ci_slices = 1};
			(void)snprintf(mig->uuid, sizeof(mig->uuid), "MIG-%" PRIu32 "-%" PRIu32, i,
				       k);
			(void)snprintf(mig->profile, sizeof(mig->profile), "1g.5gb");
		}
	}
}

static void bench_part_set(struct gate_report *report)
{
	static const char text[] = "version: v1\nflags: {migStrategy: mixed}\n";
	static uint64_t samples[BENCH_SETS];
	static struct gpu gpus[BENCH_GPUS_MANY];
	static struct mig_device migs[BENCH_GPUS_MANY * BENCH_MIG_EACH];
	static struct labels_facts facts;
	const struct policy_surroundings surroundings = {.has_kubelet = true};
	struct inventory inventory;
	struct config *config = NULL;
	struct policy *policy = NULL;
	struct label_set set;
	struct err err = {0};
	struct footprint before = {0}, after = {0};

	bench_machine(&inventory, gpus, migs);
	label_set_init(&set);
	rig_must(config_parse(text, strlen(text), "config", NULL, true, &config, &err) == 0 &&
		     policy_make(&inventory, config, &surroundings, &policy, &err) == 0,
		 "%s", err.text);

	for (size_t i = 0; i < BENCH_SETS; i++) {
		uint64_t began = gate_now_ns();
		rig_must(
		    labels_make(&inventory, config, &surroundings, policy, &facts, &set, &err) == 0,
		    "%s", err.text);
		samples[i] = gate_now_ns() - began;
	}

	gate_time(report, "labels_set", gate_quantile(samples, BENCH_SETS, 0.5), "ms", 0.2, samples,
		  BENCH_SETS);
	gate_note(report, "the set has %zu labels of %d GPUs and %d MIG devices", set.count,
		  BENCH_GPUS_MANY, BENCH_GPUS_MANY * BENCH_MIG_EACH);

	for (size_t i = 0; i < 2 * BENCH_GROWTH; i++) {
		if (i == BENCH_GROWTH)
			rig_must(footprint_read(getpid(), &before) == 0, "we are not there");
		(void)labels_make(&inventory, config, &surroundings, policy, &facts, &set, &err);
	}

	rig_must(footprint_read(getpid(), &after) == 0, "we are not there");
	gate_value(report, "labels_growth",
		   ((double)after.private_dirty - (double)before.private_dirty) / 1024, "KiB",
		   GATE_AT_MOST, 16);
	label_set_done(&set);
	(void)policy_free(policy);
	(void)config_free(config);
}

/* --- until the node is ready -------------------------------------------------------------------
 */

static const char *const bench_files[BENCH_FILES] = {
    "/var/run/cdi/sluice.sim-gpu.json",
    "/etc/kubernetes/node-feature-discovery/features.d/gfd",
    "/run/nvidia/validations/driver-ready",
};

static void bench_path(size_t file, char out[FILE_PATH_MAX])
{
	rig_must(file_path(out, NULL, "%s/root%s", bench_rig.directory, bench_files[file]) == 0,
		 "path too long");
}

/* As on a node that has just booted. */
static void bench_remove_files(void)
{
	char path[FILE_PATH_MAX];
	for (size_t i = 0; i < BENCH_FILES; i++) {
		bench_path(i, path);
		rig_must(unlink(path) == 0 || errno == ENOENT, "cannot remove %s", path);
	}

	rig_must(file_path(path, NULL, "%s/root/etc/kubernetes/node-feature-discovery/features.d",
			   bench_rig.directory) == 0 &&
		     file_mkdirs(path, 0755, NULL) == 0,
		 "cannot make %s", path);
}

/* Until all is there: when the last of it came. */
static uint64_t bench_wait(uint64_t began, uint64_t times[BENCH_FILES + 1])
{
	uint64_t until = gate_now_ns() + BENCH_WAIT_NS;
	size_t missing = BENCH_FILES + 1;

	memset(times, 0, (BENCH_FILES + 1) * sizeof(*times));

	while (missing > 0) {
		rig_must(gate_now_ns() < until, "the node is not ready: %s/agent.log",
			 bench_rig.directory);
		side_rest(&bench_side, BENCH_POLL_NS);
		missing = 0;

		for (size_t i = 0; i < BENCH_FILES; i++) {
			char path[FILE_PATH_MAX];
			bench_path(i, path);
			if (times[i] == 0 && file_exists(path))
				times[i] = gate_now_ns() - began;
			missing += times[i] == 0;
		}

		const struct side_resource *resource = &bench_side.resources[0];
		if (bench_side.count > 0 && resource->devices == BENCH_GPUS)
			times[BENCH_FILES] = resource->registered_ns - began;
		missing += times[BENCH_FILES] == 0;
	}

	uint64_t last = 0;
	for (size_t i = 0; i <= BENCH_FILES; i++)
		last = times[i] > last ? times[i] : last;

	return last;
}

static void bench_open(void)
{
	rig_open_machine(&bench_rig, "dgx-a100", NULL);
	/* A driver that is not there is waited for. */
	rig_configure(&bench_rig, "version: v1\nflags: {failOnInitError: false}\n");
	side_open(&bench_side, &bench_rig);
}

static void bench_close(void)
{
	side_close(&bench_side);
	rig_close(&bench_rig);
}

static void bench_part_start(struct gate_report *report)
{
	static uint64_t samples[BENCH_STARTS], parts[BENCH_FILES + 1][BENCH_STARTS];
	uint64_t times[BENCH_FILES + 1];

	bench_open();
	rig_use_state(&bench_rig, "start");

	for (size_t i = 0; i < BENCH_STARTS + 1; i++) {
		bench_remove_files();
		side_forget(&bench_side);

		uint64_t last = bench_wait(rig_launch_agent(&bench_rig), times);

		rig_terminate_agent(&bench_rig);
		if (i == 0)
			continue; /* has made the state */

		samples[i - 1] = last;

		for (size_t k = 0; k <= BENCH_FILES; k++)
			parts[k][i - 1] = times[k];
	}

	gate_time(report, "start_to_ready", gate_quantile(samples, BENCH_STARTS, 0.5), "ms", 100,
		  samples, BENCH_STARTS);
	gate_note(report,
		  "from exec: registered %.1f ms, CDI specification %.1f ms, labels %.1f ms, "
		  "driver-ready %.1f ms; longest of %d for all of it %.1f ms",
		  gate_quantile(parts[BENCH_FILES], BENCH_STARTS, 0.5) / 1e6,
		  gate_quantile(parts[0], BENCH_STARTS, 0.5) / 1e6,
		  gate_quantile(parts[1], BENCH_STARTS, 0.5) / 1e6,
		  gate_quantile(parts[2], BENCH_STARTS, 0.5) / 1e6, BENCH_STARTS,
		  gate_quantile(samples, BENCH_STARTS, 1) / 1e6);
	bench_close();
}

static void bench_sim(const char *verb, const char *fault)
{
	char root[FILE_PATH_MAX], state[FILE_PATH_MAX];
	rig_must(file_path(root, NULL, "%s/root", bench_rig.directory) == 0 &&
		     file_path(state, NULL, "%s/machine", bench_rig.directory) == 0,
		 "path too long");
	const char *const arguments[] = {"sluice",  "sim", verb,  "--root", root,
					 "--state", state, fault, NULL};

	struct bench_took took;
	rig_must(bench_run(arguments, &took) == 0, "'sluice sim %s' failed", verb);
}

static void bench_part_late(struct gate_report *report)
{
	static uint64_t samples[BENCH_LATE];
	uint64_t times[BENCH_FILES + 1];

	bench_open();

	for (size_t i = 0; i < BENCH_LATE; i++) {
		rig_use_state(&bench_rig, "late");
		bench_remove_files();
		side_forget(&bench_side);
		bench_sim("inject", "no-driver");
		(void)rig_start_agent(&bench_rig);
		side_rest(&bench_side, UINT64_C(1000000000)); /* it has found none */
		rig_must(bench_side.count == 0, "there is a driver already");

		uint64_t began = gate_now_ns();

		bench_sim("heal", NULL);
		(void)bench_wait(began, times);
		samples[i] = times[BENCH_FILES];
		rig_terminate_agent(&bench_rig);
	}

	gate_time(report, "driver_late", gate_quantile(samples, BENCH_LATE, 0.5), "ms", 2000,
		  samples, BENCH_LATE);
	gate_note(report, "a driver that comes later, to registered: longest of %d %.0f ms",
		  BENCH_LATE, gate_quantile(samples, BENCH_LATE, 1) / 1e6);
	bench_close();
}

static const struct gate_part bench_parts[] = {
    {"labels", bench_part_labels}, {"set", bench_part_set},   {"doctor", bench_part_doctor},
    {"start", bench_part_start},   {"late", bench_part_late},
};

int main(int argc, char **argv)
{
	return gate_main(
	    argc, argv, "node",
	    "Measures what makes a node ready, on simulated machines. The name of one\n"
	    "part (labels, set, doctor, start, late) as an argument measures that alone.",
	    bench_parts, array_length(bench_parts));
}
