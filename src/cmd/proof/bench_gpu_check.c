/* SPDX-License-Identifier: Apache-2.0 */
/* `sluice bench gpu vectoradd|bandwidth|p2p|stress|metrics|all`: single checks, with their figures.
 */
#include "cmd/proof/bench_gpu.h"

#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "base/parse.h"
#include "cmd/options.h"
#include "cmd/machine/validate_run.h"

#define CHECK_STRESS_NS UINT64_C(60000000000)
#define CHECK_FILL_MIN	0.1
#define CHECK_FILL_MAX	0.95
#define CHECK_BIT(what) (UINT32_C(1) << (what))

struct gpu_check_options {
	const char *gpus, *json, *library, *fill, *exporter;
	uint64_t timeout_ns, time_ns, bytes;
	uint32_t repeats;
	bool force;
	enum option_output output;
};

static const struct gpu_check_options check_defaults = {.timeout_ns = VALIDATE_TIMEOUT_NS,
							.time_ns = CHECK_STRESS_NS};

/* What all of them have. */
#define CHECK_ROWS                                                                                 \
	VALIDATE_GPUS_ROW(struct gpu_check_options, gpus),                                         \
	    {.name = "lib",                                                                        \
	     .kind = OPTION_PATH,                                                                  \
	     .value = "PATH",                                                                      \
	     .help = "the driver's library (default: libcuda.so.1)",                               \
	     OPTION_FIELD(struct gpu_check_options, library)},                                     \
	    VALIDATE_TIMEOUT_ROW(struct gpu_check_options, timeout_ns),                            \
	    VALIDATE_JSON_ROW(struct gpu_check_options, json),                                     \
	    OPTION_OUTPUT(struct gpu_check_options, output)

#define CHECK_COPY_ROWS                                                                            \
	{.name = "size",                                                                           \
	 .kind = OPTION_SIZE,                                                                      \
	 .value = "SIZE",                                                                          \
	 .help = "of a copy (default 512Mi; less where memory is short, or simulated)",            \
	 .min = 65536,                                                                             \
	 .max = UINT64_C(1) << 40,                                                                 \
	 OPTION_FIELD(struct gpu_check_options, bytes)},                                           \
	{                                                                                          \
		.name = "repeats", .kind = OPTION_U32, .value = "N",                               \
		.help = "how often each copy is timed (default 3; 5 from GPU to GPU)", .min = 3,   \
		.max = 32, OPTION_FIELD(struct gpu_check_options, repeats)                         \
	}

#define CHECK_STRESS_ROWS                                                                          \
	{.name = "time",                                                                           \
	 .kind = OPTION_DURATION,                                                                  \
	 .value = "TIME",                                                                          \
	 .help = "how long GPUs are loaded (default 60s; at least once through their memory)",     \
	 .min = 1000000,                                                                           \
	 .max = UINT64_C(86400000000000),                                                          \
	 OPTION_FIELD(struct gpu_check_options, time_ns)},                                         \
	    {.name = "fill",                                                                       \
	     .kind = OPTION_TEXT,                                                                  \
	     .value = "SHARE",                                                                     \
	     .help = "of the memory that is free: 0.1 to 0.95 (default 0.9)",                      \
	     OPTION_FIELD(struct gpu_check_options, fill)},                                        \
	{                                                                                          \
		.name = "force", .kind = OPTION_FLAG, .help = "also GPUs that somebody else uses", \
		OPTION_FIELD(struct gpu_check_options, force)                                      \
	}

#define CHECK_METRICS_ROWS VALIDATE_EXPORTER_ROW(struct gpu_check_options, exporter)

static const struct option_row check_plain_rows[] = {CHECK_ROWS, {0}};
static const struct option_row check_metrics_rows[] = {CHECK_METRICS_ROWS, CHECK_ROWS, {0}};
static const struct option_row check_copy_rows[] = {CHECK_COPY_ROWS, CHECK_ROWS, {0}};
static const struct option_row check_stress_rows[] = {CHECK_STRESS_ROWS, CHECK_ROWS, {0}};
static const struct option_row check_all_rows[] = {
    CHECK_COPY_ROWS, CHECK_STRESS_ROWS, CHECK_METRICS_ROWS, CHECK_ROWS, {0}};

/* Which checks a verb stands for. */
static const struct {
	const char *verb;
	uint32_t mask;
} check_masks[] = {
    {"vectoradd", CHECK_BIT(VALIDATE_VECTORADD)},
    {"bandwidth", CHECK_BIT(VALIDATE_BANDWIDTH)},
    {"p2p", CHECK_BIT(VALIDATE_P2P)},
    {"stress", CHECK_BIT(VALIDATE_STRESS) | CHECK_BIT(VALIDATE_ECC) | CHECK_BIT(VALIDATE_XID)},
    {"metrics", CHECK_BIT(VALIDATE_METRICS)},
    {"all", CHECK_BIT(VALIDATE_DRIVER) | CHECK_BIT(VALIDATE_VECTORADD) |
		CHECK_BIT(VALIDATE_BANDWIDTH) | CHECK_BIT(VALIDATE_P2P) |
		CHECK_BIT(VALIDATE_STRESS) | CHECK_BIT(VALIDATE_ECC) | CHECK_BIT(VALIDATE_XID) |
		CHECK_BIT(VALIDATE_METRICS)},
};

static uint32_t check_mask_of(const char *verb)
{
	uint32_t mask = 0;
	for (size_t i = 0; i < array_length(check_masks); i++)
		if (strcmp(verb, check_masks[i].verb) == 0)
			mask = check_masks[i].mask;
	return mask;
}

static int check_main(const struct cmd_call *call)
{
	const struct gpu_check_options *options = call->options;
	double fill = VALIDATE_FILL;

	if (options->fill && (parse_fraction(options->fill, 0, 1, &fill) < 0 ||
			      fill < CHECK_FILL_MIN || fill > CHECK_FILL_MAX))
		return cmd_usage(call, "--fill '%s': 0.1 to 0.95", options->fill);

	struct validate_run run = {.call = call, .output = options->output, .json = options->json};
	run.plan = (struct validate_plan){.mask = check_mask_of(call->command->name),
					  .gpus = options->gpus,
					  .library = options->library,
					  .timeout_ns = options->timeout_ns,
					  .stress_ns = options->time_ns,
					  .fill = fill,
					  .bytes = options->bytes,
					  .repeats = options->repeats,
					  .exporter = options->exporter,
					  .has_peers = true,
					  .is_forced = options->force};
	return validate_run_all(&run);
}

/* What all of these commands have. */
#define CHECK_COMMAND                                                                              \
	.run = check_main, .defaults = &check_defaults,                                            \
	.options_size = sizeof(struct gpu_check_options), .exit_unwritten = CMD_EXIT_CANNOT_WRITE, \
	.exits = validate_exits

static const struct cmd_example check_vectoradd_examples[] = {
    {"sluice bench gpu vectoradd", "does a GPU compute at all?"},
    {NULL, NULL},
};

const struct command cmd_bench_gpu_vectoradd = {
    .name = "vectoradd",
    .summary = "Add two vectors on each GPU and check every sum",
    .description = "Prints the UUID of each GPU and what the vectorAdd of the CUDA samples prints: "
		   "\"Test PASSED\" where all 50,000 sums are right.",
    CHECK_COMMAND,
    .options = check_plain_rows,
    .examples = check_vectoradd_examples,
};

static const struct cmd_example check_bandwidth_examples[] = {
    {"sluice bench gpu bandwidth", "are the links as fast as they should be?"},
    {NULL, NULL},
};

const struct command cmd_bench_gpu_bandwidth = {
    .name = "bandwidth",
    .summary = "Measure copies between host and GPUs, within and between GPUs",
    .description = "By the copy engine and by the GPU's processors, one way and both; all data are "
		   "checked. The processor is bound to the NUMA node of the GPU.",
    CHECK_COMMAND,
    .options = check_copy_rows,
    .examples = check_bandwidth_examples,
};

static const struct cmd_example check_p2p_examples[] = {
    {"sluice bench gpu p2p --gpus 0,1", "one pair alone"},
    {NULL, NULL},
};

const struct command cmd_bench_gpu_p2p = {
    .name = "p2p",
    .summary = "Measure copies from GPU to GPU, through the host and straight",
    .description = "Which GPU reaches which, how fast it is with that access and without, one way "
		   "and both, and how long 16 bytes take.",
    CHECK_COMMAND,
    .options = check_copy_rows,
    .examples = check_p2p_examples,
};

static const struct cmd_example check_stress_examples[] = {
    {"sluice bench gpu stress --time 10m", "a GPU that somebody has doubts about"},
    {NULL, NULL},
};

const struct command cmd_bench_gpu_stress = {
    .name = "stress",
    .summary = "Load GPUs and compare all results bit by bit",
    .description =
	"Fills most of the memory with results of one product of matrices, computed again and "
	"again on all GPUs at once: finds memory that flips, and GPUs that err when hot or are "
	"always wrong. `burn` is the load that only keeps a GPU busy.",
    CHECK_COMMAND,
    .options = check_stress_rows,
    .examples = check_stress_examples,
};

static const struct cmd_example check_metrics_examples[] = {
    {"sluice bench gpu metrics", "is what the dashboards show so?"},
    {NULL, NULL},
};

const struct command cmd_bench_gpu_metrics = {
    .name = "metrics",
    .summary = "Find out whether the service's metrics tell the truth",
    .description = "Brings GPUs to known levels and compares what the exporter of a running "
		   "service says meanwhile.",
    CHECK_COMMAND,
    .options = check_metrics_rows,
    .examples = check_metrics_examples,
};

static const struct cmd_example check_all_examples[] = {
    {"sluice bench gpu all --json gpus.json", "everything, and its samples in a file"},
    {NULL, NULL},
};

const struct command cmd_bench_gpu_all = {
    .name = "all",
    .summary = "All of these checks, one after the other",
    .description = "vectoradd, bandwidth, p2p, stress, metrics.",
    CHECK_COMMAND,
    .options = check_all_rows,
    .examples = check_all_examples,
};
