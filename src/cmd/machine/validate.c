/* SPDX-License-Identifier: Apache-2.0 */
/* `sluice validate`: options; what is checked is in src/validate/. */
#include <string.h>

#include "cmd/options.h"
#include "cmd/machine/validate_run.h"

enum { VALIDATE_GPUS_MAX = 64 };

struct validate_options {
	uint32_t level, expect;
	const char *gpus, *json, *exporter;
	struct option_list only, skip;
	uint64_t timeout_ns, stress_ns;
	bool force;
	enum option_output output;
};

static const struct validate_options validate_defaults = {.level = 1,
							  .expect = UINT32_MAX,
							  .timeout_ns = VALIDATE_TIMEOUT_NS,
							  .stress_ns = VALIDATE_STRESS_NS};

#define VALIDATE_WORDS                                                                             \
	"driver|count|isolation|settings|vectoradd|bandwidth|p2p|shm|memlock|collectives|"         \
	"transport|stress|train|metrics|ecc|xid"

static const struct option_row validate_rows[] = {
    {.name = "level",
     .letter = 'l',
     .kind = OPTION_U32,
     .value = "N",
     .help = "1: seconds, 2: links as well, a minute, 3: stress as well, minutes (default 1)",
     .words = "1|2|3",
     .min = 1,
     .max = VALIDATE_LEVEL_MAX,
     OPTION_FIELD(struct validate_options, level)},
    VALIDATE_GPUS_ROW(struct validate_options, gpus),
    {.name = "expect",
     .kind = OPTION_U32,
     .value = "N",
     .help = "fail unless so many GPUs are in sight",
     .max = VALIDATE_GPUS_MAX,
     OPTION_FIELD(struct validate_options, expect)},
    {.name = "only",
     .kind = OPTION_LIST,
     .value = "CHECK",
     .help = "this check alone, of whatever level; may be given again",
     .words = VALIDATE_WORDS,
     OPTION_FIELD(struct validate_options, only)},
    {.name = "skip",
     .kind = OPTION_LIST,
     .value = "CHECK",
     .help = "not this check; may be given again",
     .words = VALIDATE_WORDS,
     OPTION_FIELD(struct validate_options, skip)},
    VALIDATE_TIMEOUT_ROW(struct validate_options, timeout_ns),
    {.name = "stress-time",
     .kind = OPTION_DURATION,
     .value = "TIME",
     .help = "how long level 3 loads the GPUs (default 5m)",
     .min = 1000000,
     .max = UINT64_C(86400000000000),
     OPTION_FIELD(struct validate_options, stress_ns)},
    {.name = "force",
     .kind = OPTION_FLAG,
     .help = "stress GPUs that somebody else uses, too",
     OPTION_FIELD(struct validate_options, force)},
    VALIDATE_EXPORTER_ROW(struct validate_options, exporter),
    VALIDATE_JSON_ROW(struct validate_options, json),
    OPTION_OUTPUT(struct validate_options, output),
    {0},
};

static const struct cmd_example validate_examples[] = {
    {"sluice validate", "does every GPU compute, and are they those that were given?"},
    {"sluice validate --level 2 --expect 8 --json /dev/termination-log",
     "before a node takes work: eight GPUs, and links as fast as they should be"},
    {"sluice validate --level 3 --skip metrics", "a machine that somebody has doubts about"},
    {NULL, NULL},
};

/* A list of checks as bits. False: the exit code is in `out_code`. */
static bool validate_bits(const struct cmd_call *call, const char *option,
			  const struct option_list *list, uint32_t *out_bits, int *out_code)
{
	*out_bits = 0;
	for (size_t i = 0; i < list->count; i++) {
		enum validate_what what = VALIDATE_DRIVER;
		if (validate_what_parse(list->items[i], &what) < 0) {
			*out_code = cmd_usage(call, "--%s '%s': there is no such check (%s)",
					      option, list->items[i], VALIDATE_WORDS);
			return false;
		}

		*out_bits |= UINT32_C(1) << what;
	}

	return true;
}

static int validate_main(const struct cmd_call *call)
{
	const struct validate_options *options = call->options;
	uint32_t only, skip;
	int code = 0;

	if (!validate_bits(call, "only", &options->only, &only, &code) ||
	    !validate_bits(call, "skip", &options->skip, &skip, &code))
		return code;

	struct validate_run run = {.call = call,
				   .output = options->output,
				   .json = options->json,
				   .level = options->level,
				   .is_quiet = true};
	run.plan =
	    (struct validate_plan){.mask = (only ? only : validate_mask(options->level)) & ~skip,
				   .gpus = options->gpus,
				   .has_expect = options->expect != UINT32_MAX,
				   .expect = options->expect,
				   .timeout_ns = options->timeout_ns,
				   .stress_ns = options->stress_ns,
				   .fill = VALIDATE_FILL,
				   .exporter = options->exporter,
				   .is_forced = options->force};
	if (run.plan.mask == 0)
		return cmd_usage(call, "--skip leaves nothing to check");
	if (run.plan.has_expect)
		run.plan.mask |= UINT32_C(1) << VALIDATE_COUNT;

	return validate_run_all(&run);
}

const struct command cmd_validate = {
    .name = "validate",
    .summary = "Find out by real work whether GPUs are fit for use",
    .description =
	"Computes on every GPU that is in sight, compares what is there with what was given, "
	"measures links, and loads the GPUs while their results are compared bit by bit. The exit "
	"code admits a node to a cluster, or does not. What was not looked at is said, and is no "
	"pass. `sluice doctor` asks whether everything needed is there; this does the work.",
    .group = CMD_GROUP_MACHINE,
    .run = validate_main,
    .options = validate_rows,
    .defaults = &validate_defaults,
    .options_size = sizeof(struct validate_options),
    .exit_unwritten = CMD_EXIT_CANNOT_WRITE,
    .exits = validate_exits,
    .examples = validate_examples,
};
