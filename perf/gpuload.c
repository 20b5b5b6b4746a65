/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the load generator itself costs, so that what it measures is the GPU: idle time between
 * kernels, how well a rate repeats, the host's processor, the time to the first kernel, and what it
 * carries and loads. On the GPU of this machine; or on the simulated one: with its virtual clock
 * for what the GPU does, with the real one for what the host does, where the figures include the
 * simulator's own work. Each run is a process of its own, which finds nothing loaded.
 */
#include <dlfcn.h>
#include <link.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "perf/gate.h"
#include "bench/gpu/kernel.h"
#include "bench/gpu/load.h"

enum {
	GPULOAD_RUNS = 3,
	GPULOAD_SECONDS = 15,
	GPULOAD_SECONDS_SIMULATED = 5,
	GPULOAD_EDGE = 4096,
	GPULOAD_STALL_S = 60,
	PTX_BYTES_MAX = 80 * 1024,
	START_MS_MAX = 300,
};

#define NS_PER_S UINT64_C(1000000000)

/* What a run, a child, leaves behind. */
struct outcome {
	bool has_run;
	unsigned libraries; /* loaded on the way, beside the driver's */
	struct load_summary summary;
};

struct gpuload {
	struct gate_report *report;
	const char *library; /* NULL: the machine's own */
	bool is_simulated;
	size_t failed;
	struct outcome *shared;
};

/* --- libraries -------------------------------------------------------------------------------- */

/* Those of the driver come with it, and so does whatever it is linked against. */
static int count_foreign(struct dl_phdr_info *info, size_t size, void *context)
{
	unsigned *count = context;
	(void)size;
	*count += !strstr(info->dlpi_name, "cuda") && !strstr(info->dlpi_name, "nvidia");
	return 0;
}

static unsigned libraries(void)
{
	unsigned count = 0;
	(void)dl_iterate_phdr(count_foreign, &count);
	return count;
}

/* --- runs ------------------------------------------------------------------------------------- */

static void stalled(const char *what, void *context)
{
	(void)context;
	(void)fprintf(stderr, "bench-gpuload: GPU %s: nothing came back for %d s\n", what,
		      GPULOAD_STALL_S);
	_exit(1);
}

static void run_here(struct gpuload *self, enum load_mode mode)
{
	struct err err = {0};

	/* With what it is linked against, which is not ours; a driver that was used stays loaded.
	 */
	(void)dlopen(self->library ? self->library : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	unsigned before = libraries();
	struct load_plan plan = {
	    .mode = mode,
	    .library = self->library,
	    .text = -1,
	    .size = {GPULOAD_EDGE, GPULOAD_EDGE, GPULOAD_EDGE},
	    .run_ns = (self->is_simulated ? GPULOAD_SECONDS_SIMULATED : GPULOAD_SECONDS) * NS_PER_S,
	    .warmup_ns = NS_PER_S,
	    .kernel_ns = NS_PER_S / 1000,
	    .seed = 7,
	    .stall_ns = GPULOAD_STALL_S * NS_PER_S,
	    .stalled = stalled,
	};

	self->shared->has_run = load_run(&plan, &self->shared->summary, &err) == 0;
	if (!self->shared->has_run)
		(void)fprintf(stderr, "bench-gpuload: %s: %s\n", load_mode_to_string(mode),
			      err.text);

	unsigned after = libraries();
	self->shared->libraries = after > before ? after - before : 0;
}

/* `clock`: of the simulated driver, "virtual" or "real". NULL: it did not run. */
static const struct load_summary *run(struct gpuload *self, enum load_mode mode, const char *clock)
{
	int status = 1;

	self->shared->has_run = false;
	pid_t child = fork();
	if (child == 0) {
		(void)setenv("SLUICE_SIM_CUDA_CLOCK", clock, 1);
		run_here(self, mode);
		_exit(0);
	}

	if (child < 0 || waitpid(child, &status, 0) != child || status != 0 ||
	    !self->shared->has_run) {
		self->failed++;
		return NULL;
	}

	const struct load_summary *summary = &self->shared->summary;
	gate_note(self->report, "%s%s%s: %s %.3f TFLOP/s, GPU busy %.3f %%, host %.2f %%",
		  summary->device.name, self->is_simulated ? ", simulated, clock " : "",
		  self->is_simulated ? clock : "", summary->kernel, summary->rate,
		  100 * summary->gpu_busy, 100 * summary->host_cpu);
	return summary;
}

/* What the GPU does. */
static void products(struct gpuload *self)
{
	double least = INFINITY, most = 0, idle = 0;

	for (size_t i = 0; i < GPULOAD_RUNS; i++) {
		const struct load_summary *summary = run(self, LOAD_GEMM, "virtual");
		if (!summary)
			return;

		least = fmin(least, summary->rate);
		most = fmax(most, summary->rate);
		idle = fmax(idle, 1 - summary->gpu_busy);
	}

	gate_value(self->report, "gemm.idle", 100 * fmax(idle, 0), "%", GATE_AT_MOST, 0.1);
	gate_value(self->report, "gemm.spread", 100 * (most - least) / most, "%", GATE_AT_MOST,
		   0.5);
}

/* What the host does. The simulator computes the results of burning, so only a GPU says what that
 * takes of the host. */
static void hosts(struct gpuload *self)
{
	uint64_t start[GPULOAD_RUNS];
	double cpu = 0;

	for (size_t i = 0; i < GPULOAD_RUNS; i++) {
		const struct load_summary *summary = run(self, LOAD_GEMM, "real");
		if (!summary)
			return;
		cpu = fmax(cpu, summary->host_cpu);
		start[i] = summary->start_to_kernel_ns;
	}

	gate_value(self->report, "gemm.host_cpu", 100 * cpu, "%", GATE_AT_MOST, 2);
	/* The first run may find the driver's cache empty. */
	gate_time(self->report, "start_to_kernel", gate_quantile(start, GPULOAD_RUNS, 0), "ms",
		  START_MS_MAX, NULL, 0);
	gate_value(self->report, "libraries", self->shared->libraries, "beside the driver's",
		   GATE_AT_MOST, 0);

	const struct load_summary *summary = run(self, LOAD_BURN, "real");
	if (summary && !self->is_simulated)
		gate_value(self->report, "burn.host_cpu", 100 * summary->host_cpu, "%",
			   GATE_AT_MOST, 2);
}

static void carried(struct gpuload *self)
{
	uint32_t all = 0, bytes;
	for (int text = 0; text < KERNEL_TEXT_COUNT; text++) {
		(void)kernel_text((enum kernel_text)text, &bytes);
		all += bytes;
	}
	gate_value(self->report, "ptx", all, "bytes", GATE_AT_MOST, PTX_BYTES_MAX);
}

/* In a process of its own too: a driver that was initialised does not go through a fork(). */
static bool machine_has_gpu(void)
{
	int status = 1;
	pid_t child = fork();
	if (child == 0) {
		struct driver driver;
		_exit(driver_open(NULL, DRIVER_BY_DLSYM, &driver, NULL) < 0 || driver.is_simulated);
	}
	return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

int main(int argc, char **argv)
{
	struct gpuload self = {.shared = mmap(NULL, sizeof(*self.shared), PROT_READ | PROT_WRITE,
					      MAP_SHARED | MAP_ANONYMOUS, -1, 0)};
	if (self.shared == MAP_FAILED)
		return 1;
	self.is_simulated = !machine_has_gpu();
	if (self.is_simulated) {
		self.library = BENCH_LIBCUDA;
		(void)setenv("SLUICE_SIM_PROFILE", BENCH_PROFILES "/t4x1.profile", 1);
	}

	self.report = gate_open(argc, argv, "gpuload",
				"what the load generator itself costs the host and the GPU",
				self.is_simulated, NULL);
	products(&self);
	hosts(&self);
	carried(&self);

	int status = gate_close(self.report);
	return self.failed ? 1 : status;
}
