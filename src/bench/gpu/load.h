/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads for a GPU: a known amount of work on tensor cores, launches, requests that arrive by
 * themselves, memory, and a ruler that shows when others have the GPU. Each verifies that the GPU
 * computes rightly before it times anything, and gives no rate otherwise. Several of them can be
 * started together, in other processes, containers or pods. Knows nothing of options and printing.
 */
#ifndef SLUICE_BENCH_GPU_LOAD_H
#define SLUICE_BENCH_GPU_LOAD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench/gpu/driver.h"
#include "bench/gpu/hgemm.h"
#include "bench/gpu/kernel.h"
#include "bench/gpu/meter.h"
#include "bench/gpu/readings.h"

struct err;

enum load_mode {
	LOAD_GEMM,  /* products, two launches queued */
	LOAD_BURN,  /* tensor cores alone */
	LOAD_SMALL, /* launches of next to nothing */
	LOAD_GRAPH, /* a graph of 100 of them */
	LOAD_LC,    /* requests that come at their own times */
	LOAD_ALLOC, /* every way to take memory */
	LOAD_RULER, /* when others have the GPU */
	LOAD_MODE_COUNT
};
const char *load_mode_to_string(enum load_mode mode);
/* -EINVAL: there is no such mode. */
int load_mode_from_string(const char *text, enum load_mode *out);

/* How a load ends; the exit code of its command. */
enum load_status {
	LOAD_OK = 0,
	LOAD_WRONG = 1,	  /* a wrong result, or the GPU stopped working on the way */
	LOAD_REFUSED = 2, /* what was asked for cannot be meant */
	LOAD_NO_GPU = 3,  /* no library, no GPU, one without tensor cores, kernels do not load */
	LOAD_NO_MEMORY = 4,
	LOAD_ALONE = 5, /* the others did not come to the barrier */
};

enum load_limits {
	LOAD_TENANTS_MAX = 64,
	LOAD_REQUESTS_MAX = 1 << 22,
	LOAD_GRAPH_NODES = 100,
	LOAD_BLOCK = 1000, /* launches that `small` times together */
	LOAD_SAMPLES_MAX = 1 << 20,
	LOAD_PATHS_MAX = 8,
	LOAD_LOG_MAX = 8192,
	LOAD_BUCKETS = 32, /* of a histogram: powers of two of a microsecond */
};

struct load_second {
	double unix_seconds;
	enum load_mode mode;
	bool counts;
	double tflops;
	uint64_t kernels;
	double gpu_ms, wall_ms;
	/* lc: of the requests that were due in it and are done */
	uint64_t requests;
	double p50_ms, p99_ms, p999_ms;
	double launch_ns; /* small, graph: median of its blocks */
};

struct load_path {
	const char *name;
	uint64_t bytes_ok;
	int error; /* the first; CUDA_OK: it came to the target */
	char error_name[48];
	bool is_missing; /* the driver has no such call */
};

struct load_histogram {
	uint64_t count, bucket[LOAD_BUCKETS]; /* bucket n: below 2^n us */
	double median_us, p99_us, max_us;
};

struct load_plan {
	enum load_mode mode;
	const char *library; /* NULL: libcuda.so.1 */
	enum driver_resolve resolve;
	const char *device; /* number or UUID */
	uint64_t run_ns, warmup_ns;
	struct hgemm_size size;
	uint64_t kernel_ns;  /* burn, lc; small and graph: 0 is a kernel that does nothing */
	uint32_t iterations; /* of them; 0: found out from kernel_ns */
	uint32_t kernels_per_request;
	double rate; /* requests a second */
	uint64_t seed;
	uint64_t target_bytes; /* alloc; 0: nine tenths of what is free */
	const char *path;      /* alloc: that one alone; NULL: all */
	const char *barrier;   /* file; NULL: none */
	uint32_t tenants;
	uint64_t start_at;	 /* seconds since 1970; 0: now */
	uint64_t stall_ns;	 /* real time after which a kernel will not end any more */
	int text;		 /* enum kernel_text; -1: what the GPU takes */
	const atomic_bool *stop; /* may be NULL */
	void (*second)(const struct load_second *second, void *context);
	/* A kernel does not end. Called from another thread, which cannot take the one back that
	 * waits in the driver: the process must end. */
	void (*stalled)(const char *what, void *context);
	void *context;
};

struct load_summary {
	enum load_status status;
	struct driver_device device;
	int driver_version;
	bool is_simulated;
	char library[DRIVER_PATH_MAX];
	enum kernel_text text;
	char kernel[24]; /* that is timed */
	uint64_t load_ns, start_to_kernel_ns,
	    context_ns;			   /* to the first launch, without the context */
	bool was_verified, verified_small; /* a smaller size stood for it: simulated */
	double rate, rate_min, rate_max;   /* TFLOP/s; a second */
	double total_tflop;
	uint64_t kernels;
	uint32_t seconds_counted;
	double gpu_busy; /* share of the wall time that counts, by events */
	uint32_t iterations;
	uint64_t requests, unfinished;
	double p50_ms, p99_ms, p999_ms, max_ms, mean_ms, lc_busy;
	double launch_ns;
	uint64_t launches;
	struct load_path paths[LOAD_PATHS_MAX];
	uint32_t path_count;
	uint64_t free_bytes, total_bytes;
	struct load_histogram gaps, slices;
	double gap_share, timer_step_ns;
	struct readings readings;
	double start_unix;
	uint64_t start_ns;	/* of the driver's clock */
	double host_cpu;	/* of a core, while it was timed */
	char log[LOAD_LOG_MAX]; /* what the compiler said when the kernels do not load */
};

/* Whether a plan can be meant: -EINVAL says what is wrong. Pure. */
int load_plan_check(const struct load_plan *plan, struct err *err);
/* Runs it. 0; or a negative error whose status is in `out` (LOAD_...), which is filled as far as it
 * came. */
int load_run(const struct load_plan *plan, struct load_summary *out, struct err *err);

#endif
