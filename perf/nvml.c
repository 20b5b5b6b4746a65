/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the simulated libnvidia-ml.so.1 costs the programs that load it. The library is found in
 * $SLUICE_SIM_LIBDIR (default: beside this program's build tree); the machine is a private DGX
 * A100.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "perf/gate.h"
#include "sim/error.h"
#include "sim/nvml/api.h"
#include "sim/profile.h"
#include "sim/state.h"

enum { BENCH_ROUNDS = 2000, BENCH_BATCH = 100, BENCH_GPUS = 8, BENCH_FIELDS = 30 };

struct bench_api {
	unsigned (*init)(void);
	unsigned (*shutdown)(void);
	unsigned (*handle)(unsigned index, void **device);
	unsigned (*power)(void *device, unsigned *milliwatts);
	unsigned (*uuid)(void *device, char *text, unsigned length);
	unsigned (*utilisation)(void *device, struct nvml_utilization *out);
	unsigned (*memory)(void *device, struct nvml_memory *out);
	unsigned (*fields)(void *device, int count, struct nvml_field_value *field);
};

static uint64_t samples[BENCH_ROUNDS];

static _Noreturn void bench_fail(const char *what)
{
	fprintf(stderr, "bench-nvml: %s\n", what);
	exit(1);
}

static void bench_symbol(void *library, const char *name, void *out)
{
	void *symbol = dlsym(library, name);
	if (!symbol)
		bench_fail(name);
	memcpy(out, &symbol, sizeof(symbol));
}

static void bench_load(const char *path, struct bench_api *api)
{
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!library)
		bench_fail(dlerror());
	bench_symbol(library, "nvmlInit_v2", &api->init);
	bench_symbol(library, "nvmlShutdown", &api->shutdown);
	bench_symbol(library, "nvmlDeviceGetHandleByIndex_v2", &api->handle);
	bench_symbol(library, "nvmlDeviceGetPowerUsage", &api->power);
	bench_symbol(library, "nvmlDeviceGetUUID", &api->uuid);
	bench_symbol(library, "nvmlDeviceGetUtilizationRates", &api->utilisation);
	bench_symbol(library, "nvmlDeviceGetMemoryInfo", &api->memory);
	bench_symbol(library, "nvmlDeviceGetFieldValues", &api->fields);
}

/* A machine on the real clock with a busy process on each GPU: ticks pass while we measure. */
static void bench_machine(const char *path)
{
	static struct sim_machine machine;
	struct sim_error error = {0};
	struct sim_options options = {.seed = 1};

	if (sim_profile_load("dgx-a100", &options, &machine, &error) < 0 ||
	    sim_state_create(path, &machine, &error) < 0)
		bench_fail(error.text);

	struct sim_state *state = NULL;
	if (sim_state_open(path, &state, &error) != SIM_OPEN_OK)
		bench_fail(error.text);

	struct sim_machine *change = sim_state_write(state);
	if (!change)
		bench_fail("the state cannot be written");

	for (uint32_t gpu = 0; gpu < BENCH_GPUS; gpu++) {
		struct sim_process *process = &change->gpu[gpu].process[0];
		if (sim_state_identify((uint32_t)getpid(), process) != 0)
			bench_fail("/proc does not know this process");
		process->gi = process->ci = SIM_WHOLE_GPU;
		process->type = SIM_PROCESS_COMPUTE;
		process->util_permille = 700;
		process->membw_permille = -1;
		process->memory_bytes = UINT64_C(1) << 30;
		process->begin_tick = change->tick;
	}

	sim_state_commit(state);
	sim_state_close(state);
}

/* Private memory of this process in KiB. */
static uint64_t bench_private_kib(void)
{
	char line[256];
	uint64_t sum = 0;
	FILE *file = fopen("/proc/self/smaps_rollup", "re");
	if (!file)
		bench_fail("/proc/self/smaps_rollup cannot be read");

	while (fgets(line, sizeof(line), file)) {
		if (strncmp(line, "Private_", 8) != 0)
			continue;

		uint64_t value = 0;
		for (const char *c = line + strcspn(line, ":") + 1; *c; c++)
			value = *c >= '0' && *c <= '9' ? value * 10 + (uint64_t)(*c - '0') : value;

		sum += value;
	}

	fclose(file);
	return sum;
}

/* In a process of its own: what loading, Init, and reading everything once adds. */
static double bench_added_kib(const char *library)
{
	int pipes[2];
	uint64_t added = 0;

	if (pipe(pipes) != 0)
		bench_fail("pipe");

	pid_t pid = fork();
	if (pid == 0) {
		struct bench_api api;
		struct nvml_utilization use;
		unsigned value;

		bench_private_kib(); /* what reading costs is there before */
		uint64_t before = bench_private_kib();

		bench_load(library, &api);
		if (api.init() != NVML_OK)
			bench_fail("nvmlInit failed");

		for (unsigned i = 0; i < BENCH_GPUS; i++) {
			void *device = NULL;
			api.handle(i, &device);
			api.power(device, &value);
			api.utilisation(device, &use);
		}

		added = bench_private_kib() - before;
		_exit(write(pipes[1], &added, sizeof(added)) != sizeof(added));
	}

	int status = 1;
	if (pid < 0 || read(pipes[0], &added, sizeof(added)) != sizeof(added) ||
	    waitpid(pid, &status, 0) != pid || status != 0)
		bench_fail("the process that measures memory failed");

	close(pipes[0]);
	close(pipes[1]);
	return (double)added;
}

/* Bytes of the library without its symbols for debuggers: what `strip` leaves. */
static double bench_stripped(const char *library, const char *directory)
{
	char path[512];
	struct stat status;
	int exit_status = 1;

	snprintf(path, sizeof(path), "%s/stripped.so", directory);
	pid_t pid = fork();
	if (pid == 0) {
		execlp("strip", "strip", "-o", path, library, (char *)NULL);
		_exit(127);
	}

	if (pid < 0 || waitpid(pid, &exit_status, 0) != pid || exit_status != 0 ||
	    stat(path, &status) != 0)
		bench_fail("strip failed (is binutils installed?)");

	unlink(path);
	return (double)status.st_size;
}

/* Time of one call, in batches, because the clock costs as much as the call. */
#define BENCH_EACH(call)                                                                           \
	for (size_t round = 0; round < BENCH_ROUNDS; round++) {                                    \
		uint64_t begin = gate_now_ns();                                                    \
		for (size_t i = 0; i < BENCH_BATCH; i++)                                           \
			wrong += (call) != NVML_OK;                                                \
		samples[round] = (gate_now_ns() - begin) / BENCH_BATCH;                            \
	}

static void bench_getters(struct gate_report *report, const struct bench_api *api)
{
	struct nvml_field_value field[BENCH_FIELDS];
	struct nvml_utilization use;
	struct nvml_memory memory;
	char text[80];
	unsigned value, wrong = 0;
	void *device = NULL;
	static const unsigned ids[BENCH_FIELDS] = {
	    1,	2,  3,	 4,   5,   6,	38,  45,  52,  59,  74,	 75,  82,  83,	91,
	    94, 95, 138, 139, 142, 143, 144, 145, 160, 185, 186, 190, 191, 192, 230};

	if (api->init() != NVML_OK || api->handle(3, &device) != NVML_OK)
		bench_fail("nvmlInit failed");
	BENCH_EACH(api->uuid(device, text, sizeof(text)));
	gate_note(report, "nvmlDeviceGetUUID              %7.0f ns",
		  gate_quantile(samples, BENCH_ROUNDS, 0.5));
	BENCH_EACH(api->utilisation(device, &use));
	gate_note(report, "nvmlDeviceGetUtilizationRates  %7.0f ns",
		  gate_quantile(samples, BENCH_ROUNDS, 0.5));
	BENCH_EACH(api->memory(device, &memory));
	gate_note(report, "nvmlDeviceGetMemoryInfo        %7.0f ns",
		  gate_quantile(samples, BENCH_ROUNDS, 0.5));
	BENCH_EACH(api->power(device, &value));

	double power = gate_quantile(samples, BENCH_ROUNDS, 0.5);
	gate_note(report, "nvmlDeviceGetPowerUsage        %7.0f ns, p99 %.0f ns", power,
		  gate_quantile(samples, BENCH_ROUNDS, 0.99));
	gate_time(report, "nvml_getter", power, "us", 1, samples, BENCH_ROUNDS);

	for (unsigned i = 0; i < BENCH_FIELDS; i++)
		field[i] = (struct nvml_field_value){.id = ids[i], .scope = UINT32_MAX};

	BENCH_EACH(api->fields(device, BENCH_FIELDS, field));
	gate_time(report, "nvml_fields_30", gate_quantile(samples, BENCH_ROUNDS, 0.5), "us", 10,
		  samples, BENCH_ROUNDS);

	for (unsigned i = 0; i < BENCH_FIELDS; i++)
		wrong += field[i].result != NVML_OK;

	api->shutdown();
	if (wrong)
		bench_fail("a call failed while it was measured");
}

static void bench_init(struct gate_report *report, const struct bench_api *api)
{
	unsigned wrong = 0;

	for (size_t round = 0; round < BENCH_ROUNDS; round++) {
		uint64_t begin = gate_now_ns();

		wrong += api->init() != NVML_OK;
		for (unsigned i = 0; i < BENCH_GPUS; i++) {
			void *device = NULL;
			wrong += api->handle(i, &device) != NVML_OK;
		}

		wrong += api->shutdown() != NVML_OK;
		samples[round] = gate_now_ns() - begin;
	}

	if (wrong)
		bench_fail("a call failed while it was measured");
	gate_time(report, "nvml_init_8_shutdown", gate_quantile(samples, BENCH_ROUNDS, 0.5), "ms",
		  2, samples, BENCH_ROUNDS);
}

int main(int argc, char **argv)
{
	struct bench_api api;
	char directory[] = "/tmp/bench-nvml-XXXXXX", state[128], library[512];
	const char *libraries = getenv("SLUICE_SIM_LIBDIR");
	struct gate_report *report = gate_open(argc, argv, "bench-nvml",
					       "what the simulated NVML library costs", true, NULL);

	snprintf(library, sizeof(library), "%s/580/libnvidia-ml.so.1",
		 libraries && *libraries ? libraries : BENCH_LIBDIR);
	if (!mkdtemp(directory))
		bench_fail("no temporary directory");
	snprintf(state, sizeof(state), "%s/sim.state", directory);
	setenv("SLUICE_PROFILES", BENCH_PROFILES, 0);
	setenv("SLUICE_SIM_STATE", state, 1);
	bench_machine(state);

	double added = bench_added_kib(library);

	bench_load(library, &api);
	bench_getters(report, &api);
	bench_init(report, &api);
	gate_value(report, "nvml_private", added, "KiB", GATE_AT_MOST, 1024);
	gate_value(report, "nvml_library", bench_stripped(library, directory) / 1024, "KiB",
		   GATE_AT_MOST, 150);
	unlink(state);
	rmdir(directory);

	return gate_close(report);
}
