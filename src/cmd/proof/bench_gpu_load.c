/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `sluice bench gpu gemm` and the other loads: options and lines of output. What runs on the GPU is
 * in src/bench/gpu/.
 */
#include "cmd/proof/bench_gpu.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/findings.h"
#include "bench/gpu/load.h"
#include "bench/gpu/load_report.h"
#include "cmd/options.h"

enum {
	LOAD_SECONDS = 15,
	LOAD_WARMUP = 2,
	LOAD_STALL = 30,
	LOAD_SECONDS_MAX = 7 * 24 * 3600,
	LOAD_OUTPUT_MAX = 1 << 20,
	LOAD_KERNEL_US_MAX = 10000000,
};

struct load_options {
	const char *library, *device, *size, *path, *barrier;
	enum driver_resolve resolve;
	uint32_t text; /* 0: by the GPU; else enum kernel_text + 1 */
	uint32_t seconds, warmup, kernel_us, iterations, kernels_per_request, tenants, stall;
	double rate;
	uint64_t seed, start_at, target;
	bool json, quiet;
	enum option_output output;
};

/* --- the options of each ---------------------------------------------------------------------- */

#define ROW_LIBRARY                                                                                \
	BENCH_GPU_LIBRARY_ROW(struct load_options, library),                                       \
	    {.name = "resolve",                                                                    \
	     .kind = OPTION_CHOICE,                                                                \
	     .words = "dlsym|getprocaddress",                                                      \
	     .help = "how its calls are found (default dlsym)",                                    \
	     OPTION_FIELD(struct load_options, resolve)},                                          \
	    BENCH_GPU_DEVICE_ROW(struct load_options, device),                                     \
	{                                                                                          \
		.name = "text", .kind = OPTION_CHOICE, .words = "auto|sl70|sl75|sl80",             \
		.help = "which PTX text of the kernels (default: by the GPU)",                     \
		OPTION_FIELD(struct load_options, text)                                            \
	}

#define ROW_TIME                                                                                   \
	{.name = "seconds",                                                                        \
	 .kind = OPTION_U32,                                                                       \
	 .value = "N",                                                                             \
	 .help = "how long it runs, --warmup at both ends included (default 15)",                  \
	 .max = LOAD_SECONDS_MAX,                                                                  \
	 OPTION_FIELD(struct load_options, seconds)},                                              \
	{                                                                                          \
		.name = "warmup", .kind = OPTION_U32, .value = "N",                                \
		.help = "seconds that do not count, at the beginning and at the end (default 2)",  \
		.max = LOAD_SECONDS_MAX, OPTION_FIELD(struct load_options, warmup)                 \
	}

#define ROW_MEETING                                                                                \
	{.name = "barrier",                                                                        \
	 .kind = OPTION_PATH,                                                                      \
	 .help = "start together with the others that name this file, which must be new",          \
	 OPTION_FIELD(struct load_options, barrier)},                                              \
	    {.name = "tenants",                                                                    \
	     .kind = OPTION_U32,                                                                   \
	     .value = "N",                                                                         \
	     .help = "with --barrier: how many come",                                              \
	     .max = LOAD_TENANTS_MAX,                                                              \
	     OPTION_FIELD(struct load_options, tenants)},                                          \
	{                                                                                          \
		.name = "start-at", .kind = OPTION_U64, .value = "UNIX_SECONDS",                   \
		.help = "start at that time: for pods that share no file",                         \
		.max = UINT64_C(1) << 33, OPTION_FIELD(struct load_options, start_at)              \
	}

#define ROW_REST                                                                                   \
	{.name = "seed",                                                                           \
	 .kind = OPTION_U64,                                                                       \
	 .value = "N",                                                                             \
	 .help = "of operands and arrivals (default: a new one)",                                  \
	 .max = UINT64_C(1) << 53,                                                                 \
	 OPTION_FIELD(struct load_options, seed)},                                                 \
	    {.name = "stall",                                                                      \
	     .kind = OPTION_U32,                                                                   \
	     .value = "SECONDS",                                                                   \
	     .help = "give up when nothing comes back from the GPU for so long (default 30)",      \
	     .min = 1,                                                                             \
	     .max = LOAD_SECONDS_MAX,                                                              \
	     OPTION_FIELD(struct load_options, stall)},                                            \
	    {.name = "json",                                                                       \
	     .kind = OPTION_FLAG,                                                                  \
	     .help = "the same as --output=json",                                                  \
	     OPTION_FIELD(struct load_options, json)},                                             \
	    {.name = "quiet",                                                                      \
	     .letter = 'q',                                                                        \
	     .kind = OPTION_FLAG,                                                                  \
	     .help = "print the summary alone, not every second",                                  \
	     OPTION_FIELD(struct load_options, quiet)},                                            \
	    OPTION_OUTPUT(struct load_options, output)

#define ROW_KERNEL(text)                                                                           \
	{.name = "kernel-us",                                                                      \
	 .kind = OPTION_U32,                                                                       \
	 .value = "N",                                                                             \
	 .help = text,                                                                             \
	 .max = LOAD_KERNEL_US_MAX,                                                                \
	 OPTION_FIELD(struct load_options, kernel_us)},                                            \
	{                                                                                          \
		.name = "iterations", .kind = OPTION_U32, .value = "N",                            \
		.help =                                                                            \
		    "of a kernel, instead of finding out how many take --kernel-us: for a load "   \
		    "that starts beside another",                                                  \
		.max = 1 << 30, OPTION_FIELD(struct load_options, iterations)                      \
	}

static const struct option_row gemm_rows[] = {
    {.name = "size",
     .kind = OPTION_TEXT,
     .value = "M,N,K",
     .help = "of the product (default 4096 for all three): M and N multiples of 128, K of 32",
     OPTION_FIELD(struct load_options, size)},
    ROW_TIME,
    ROW_MEETING,
    ROW_LIBRARY,
    ROW_REST,
    {0},
};
static const struct option_row burn_rows[] = {
    ROW_KERNEL("how long a kernel takes alone (default 1000)"),
    ROW_TIME,
    ROW_MEETING,
    ROW_LIBRARY,
    ROW_REST,
    {0},
};
static const struct option_row small_rows[] = {
    ROW_KERNEL("how long a kernel takes (default 0: one that does nothing)"),
    ROW_TIME,
    ROW_MEETING,
    ROW_LIBRARY,
    ROW_REST,
    {0},
};
static const struct option_row lc_rows[] = {
    {.name = "rate",
     .kind = OPTION_FRACTION,
     .value = "N",
     .help = "requests a second, at random times (default 100)",
     .max = 1000000,
     OPTION_FIELD(struct load_options, rate)},
    {.name = "kernels-per-request",
     .kind = OPTION_U32,
     .value = "N",
     .help = "default 20",
     .min = 1,
     .max = 1000,
     OPTION_FIELD(struct load_options, kernels_per_request)},
    ROW_KERNEL("how long each takes alone (default 100)"),
    ROW_TIME,
    ROW_MEETING,
    ROW_LIBRARY,
    ROW_REST,
    {0},
};
static const struct option_row alloc_rows[] = {
    {.name = "target",
     .kind = OPTION_SIZE,
     .help = "how much to take (default nine tenths of what is free)",
     .max = UINT64_C(1) << 48,
     OPTION_FIELD(struct load_options, target)},
    {.name = "path",
     .kind = OPTION_TEXT,
     .value = "NAME",
     .words = "cuMemAlloc|cuMemAllocManaged|cuMemAllocPitch|cuMemAllocAsync|cuMemCreate",
     .help = "that way alone (default: all, one after the other)",
     OPTION_FIELD(struct load_options, path)},
    ROW_MEETING,
    ROW_LIBRARY,
    ROW_REST,
    {0},
};
static const struct option_row ruler_rows[] = {
    ROW_TIME, ROW_MEETING, ROW_LIBRARY, ROW_REST, {0},
};

#define LOAD_DEFAULTS .seconds = LOAD_SECONDS, .warmup = LOAD_WARMUP, .stall = LOAD_STALL

static const struct load_options gemm_defaults = {.size = "4096", LOAD_DEFAULTS};
static const struct load_options burn_defaults = {.kernel_us = 1000, LOAD_DEFAULTS};
static const struct load_options small_defaults = {LOAD_DEFAULTS};
static const struct load_options lc_defaults = {
    .rate = 100, .kernels_per_request = 20, .kernel_us = 100, LOAD_DEFAULTS};

static const struct cmd_exit_row load_exits[] = {
    {LOAD_OK, "it ran, and what the GPU computed is right"},
    {LOAD_WRONG, "the GPU computed wrongly, or stopped working on the way"},
    {LOAD_REFUSED, "what was asked for cannot be meant: a size, a rate, too short a time"},
    {LOAD_NO_GPU, "no driver, no GPU, one without tensor cores, or kernels that do not load"},
    {LOAD_NO_MEMORY, "the GPU has too little memory left"},
    {LOAD_ALONE, "the others did not come to the barrier, or --start-at has passed"},
    {CMD_EXIT_USAGE, "wrong command line"},
    {CMD_EXIT_CANNOT_WRITE, "what was measured cannot be written"},
    {FINDINGS_EXIT_INTERRUPTED, "interrupted"},
    {0, NULL},
};

/* --- running ---------------------------------------------------------------------------------- */

struct load_call {
	const struct cmd_call *call;
	const struct load_options *options;
	struct load_plan plan;
	struct load_summary summary;
	bool is_json;
};

static atomic_bool load_interrupted; /* a signal has nothing else to tell it by */

static void load_on_signal(int number)
{
	(void)number;
	atomic_store(&load_interrupted, true);
}

static void load_second_print(const struct load_second *second, void *context)
{
	struct load_call *self = context;
	struct buf line _cleanup_buf_;

	buf_init(&line, LOAD_OUTPUT_MAX);
	if (self->options->quiet)
		return;

	int rc = self->is_json ? load_report_second_json(second, &self->summary, &line)
			       : load_report_second_text(second, &self->summary, &line);
	if (rc == 0)
		(void)fwrite(buf_text(&line), 1, line.length, stdout); /* cmd_main() looks at it */
	(void)fflush(stdout);
}

/* From another thread, while the first is held in the driver: nothing else can be done. */
static void load_stalled(const char *what, void *context)
{
	struct load_call *self = context;
	struct err err = {0};

	(void)err_set(&err, -ETIMEDOUT,
		      "GPU %s: nothing came back for %u s; a kernel hangs, or the GPU is lost: see "
		      "dmesg and sluice health",
		      what, self->options->stall);
	(void)fflush(stdout);
	_exit(cmd_fail(self->call, LOAD_WRONG, &err));
}

static int load_plan_make(struct load_call *self, enum load_mode mode, struct err *err)
{
	const struct load_options *options = self->options;
	struct load_plan *plan = &self->plan;

	*plan = (struct load_plan){
	    .mode = mode,
	    .library = options->library,
	    .resolve = options->resolve,
	    .device = options->device,
	    .text = (int)options->text - 1,
	    .run_ns = options->seconds * CLOCK_NS_PER_S,
	    .warmup_ns = options->warmup * CLOCK_NS_PER_S,
	    .kernel_ns = options->kernel_us * CLOCK_NS_PER_US,
	    .iterations = options->iterations,
	    .kernels_per_request = options->kernels_per_request,
	    .rate = options->rate,
	    .seed = options->seed,
	    .target_bytes = options->target,
	    .path = options->path,
	    .barrier = options->barrier,
	    .tenants = options->tenants,
	    .start_at = options->start_at,
	    .stall_ns = options->stall * CLOCK_NS_PER_S,
	    .stop = &load_interrupted,
	    .second = load_second_print,
	    .stalled = load_stalled,
	    .context = self,
	};
	if (plan->seed == 0 && getrandom(&plan->seed, sizeof(plan->seed), 0) > 0)
		plan->seed >>= 11; /* what every reader of JSON keeps */

	return options->size ? hgemm_size_read(options->size, &plan->size, err) : 0;
}

static int load_finish(struct load_call *self, int rc, const struct err *err)
{
	struct buf text _cleanup_buf_;
	struct load_summary *summary = &self->summary;

	buf_init(&text, LOAD_OUTPUT_MAX);
	int made = 0;

	if (self->is_json && summary->library[0])
		made =
		    load_report_summary_json(&self->plan, summary, rc < 0 ? err->text : "", &text);
	else if (rc == 0)
		made = load_report_summary_text(&self->plan, summary, &text);

	(void)fwrite(buf_text(&text), 1, text.length, stdout);
	if (rc < 0 && summary->log[0])
		(void)fprintf(stderr, "%s\n", summary->log);
	if (rc == -EINTR)
		return cmd_fail(self->call, FINDINGS_EXIT_INTERRUPTED, err);
	if (rc < 0)
		return cmd_fail(self->call, summary->status, err);

	return made < 0 ? CMD_EXIT_FAILED : LOAD_OK;
}

/* A verb is called as the mode in which it runs. */
static int load_main(const struct cmd_call *call)
{
	struct err err = {0};
	enum load_mode mode;
	_cleanup_free_ struct load_call *self = calloc(1, sizeof(*self));
	if (!self)
		return cmd_fail(call, CMD_EXIT_FAILED, (err_set(&err, -ENOMEM, "no memory"), &err));

	self->call = call;
	self->options = call->options;
	self->is_json = self->options->json || self->options->output == OPTION_OUTPUT_JSON;
	if (load_mode_from_string(call->command->name, &mode) < 0 ||
	    load_plan_make(self, mode, &err) < 0)
		return cmd_fail(call, LOAD_REFUSED, &err);

	struct sigaction action = {.sa_handler = load_on_signal};
	(void)sigaction(SIGINT, &action, NULL); /* these cannot fail */
	(void)sigaction(SIGTERM, &action, NULL);

	int rc = load_run(&self->plan, &self->summary, &err);
	if (rc == 0 && atomic_load(&load_interrupted))
		rc = err_set(&err, -EINTR, "interrupted: no figure of a part of a run");

	return load_finish(self, rc, &err);
}

/* --- the verbs -------------------------------------------------------------------------------- */

/* What all of these commands have. */
#define LOAD_COMMAND                                                                               \
	.run = load_main, .options_size = sizeof(struct load_options),                             \
	.exit_unwritten = CMD_EXIT_CANNOT_WRITE, .exits = load_exits

static const struct cmd_example gemm_examples[] = {
    {"sluice bench gpu gemm --seconds 60 --size 8192", "the rate of a large product"},
    {"sluice bench gpu gemm --barrier /tmp/b --tenants 2 & "
     "sluice bench gpu gemm --barrier /tmp/b --tenants 2",
     "two that share a GPU, started together"},
    {NULL, NULL},
};

const struct command cmd_bench_gpu_gemm = {
    .name = "gemm",
    .summary = "Multiply matrices in half precision on tensor cores, and print the rate",
    .description =
	"Two launches are queued at any time, so that the GPU always has work. 64 random "
	"elements of the product are verified against double precision before anything "
	"is timed, and after it.",
    LOAD_COMMAND,
    .options = gemm_rows,
    .defaults = &gemm_defaults,
    .examples = gemm_examples,
};
const struct command cmd_bench_gpu_burn = {
    .name = "burn",
    .summary = "Keep the tensor cores busy from registers alone: the highest rate, and heat",
    .description =
	"Its operands stay the same and come from no memory, so its rate is an upper figure. Once "
	"a "
	"second a result is compared with the first one; a bit that differs is an error of the "
	"hardware and ends it.",
    LOAD_COMMAND,
    .options = burn_rows,
    .defaults = &burn_defaults,
};
const struct command cmd_bench_gpu_small = {
    .name = "small",
    .summary = "Time launches of next to nothing: what a launch costs the host",
    LOAD_COMMAND,
    .options = small_rows,
    .defaults = &small_defaults,
};
const struct command cmd_bench_gpu_graph = {
    .name = "graph",
    .summary = "The same of a graph of 100 kernels",
    LOAD_COMMAND,
    .options = small_rows,
    .defaults = &small_defaults,
};
const struct command cmd_bench_gpu_lc = {
    .name = "lc",
    .summary = "Requests that come at their own times: how long each takes",
    .description =
	"The times are drawn before it starts, and a latency counts from the time at which the "
	"request was due: a GPU that stands still is not asked less meanwhile. What is unfinished "
	"at the end counts with its age.",
    LOAD_COMMAND,
    .options = lc_rows,
    .defaults = &lc_defaults,
};
const struct command cmd_bench_gpu_alloc = {
    .name = "alloc",
    .summary = "Take memory in every way there is, each until a target or its first error",
    LOAD_COMMAND,
    .options = alloc_rows,
    .defaults = &small_defaults,
};
const struct command cmd_bench_gpu_ruler = {
    .name = "ruler",
    .summary = "Show when others have the GPU: lengths of slices and of the gaps between them",
    LOAD_COMMAND,
    .options = ruler_rows,
    .defaults = &small_defaults,
};
