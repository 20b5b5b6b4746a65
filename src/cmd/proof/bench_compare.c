/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `sluice bench compare`: two commands in turns, and a verdict. Options, files and progress; what
 * is measured and said is in src/bench/.
 */
#include "cmd/proof/bench.h"

#include <errno.h>
#include <inttypes.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/file.h"
#include "base/findings.h"
#include "base/parse.h"
#include "base/text.h"
#include "bench/compare.h"
#include "bench/report.h"
#include "bench/runner.h"
#include "bench/scaling.h"
#include "cmd/proof/bench_gpus.h"
#include "cmd/proof/bench_scaling.h"
#include "cmd/options.h"

enum {
	COMPARE_PAIRS = 20,
	COMPARE_REPORT_MAX = 512 << 20,
	COMPARE_SEED_BITS = 53, /* what every reader of JSON keeps */
};

enum compare_aa { COMPARE_AA_AUTO, COMPARE_AA_SKIP };

struct compare_options {
	const char *a, *b, *setup_a, *setup_b, *margin, *parse, *json, *html;
	struct option_list metrics;
	uint64_t pairs, max_pairs, warmup, seed, cooldown_ns, timeout_ns;
	uint32_t aa, better;
	bool from, until_decided, show_output, quiet;
	enum option_output output;
};

static const struct compare_options compare_defaults = {
    .pairs = COMPARE_PAIRS, .warmup = 1, .margin = "1%"};

static const struct option_row compare_rows[] = {
    {.name = "a",
     .kind = OPTION_TEXT,
     .value = "COMMAND",
     .help = "one side, for /bin/sh: what the other is judged by",
     OPTION_FIELD(struct compare_options, a)},
    {.name = "b",
     .kind = OPTION_TEXT,
     .value = "COMMAND",
     .help = "the other side",
     OPTION_FIELD(struct compare_options, b)},
    {.name = "pairs",
     .letter = 'n',
     .kind = OPTION_U64,
     .value = "N",
     .help = "how often each side is run; 6 at least for a verdict (default 20)",
     .min = 1,
     .max = VERDICT_PAIRS_MAX,
     OPTION_FIELD(struct compare_options, pairs)},
    {.name = "margin",
     .letter = 'm',
     .kind = OPTION_TEXT,
     .value = "PERCENT",
     .help = "differences below this do not matter: 1%, 0.5% (default 1%)",
     OPTION_FIELD(struct compare_options, margin)},
    {.name = "metric",
     .kind = OPTION_LIST,
     .value = "NAME",
     .help = "what is compared: wall (default), cpu, rss, output, or what the commands write of "
	     "themselves; may be given again",
     .words = "wall|cpu|rss|output",
     OPTION_FIELD(struct compare_options, metrics)},
    {.name = "parse",
     .kind = OPTION_TEXT,
     .value = "nccl|mllog|regex:RE",
     .help = "read the metric 'output' from what the commands print: the largest bus bandwidth of "
	     "the table of nccl-tests, or the first group of this extended regular expression, of "
	     "the last line that it fits; or the metrics epoch_time, epochs and time_to_train of a "
	     "training log (mllog)",
     OPTION_FIELD(struct compare_options, parse)},
    {.name = "better",
     .kind = OPTION_CHOICE,
     .words = "lower|higher",
     .help = "which values of 'output' are better (default lower)",
     OPTION_FIELD(struct compare_options, better)},
    {.name = "aa",
     .kind = OPTION_CHOICE,
     .words = "auto|skip",
     .help = "first run A against itself, to see what this machine can tell apart (auto, default), "
	     "or believe that it can (skip)",
     OPTION_FIELD(struct compare_options, aa)},
    {.name = "until-decided",
     .kind = OPTION_FLAG,
     .help = "if that decides nothing, go on to as many pairs as are needed, up to --max-pairs; "
	     "the intervals are wider for it",
     OPTION_FIELD(struct compare_options, until_decided)},
    {.name = "max-pairs",
     .kind = OPTION_U64,
     .value = "N",
     .help = "with --until-decided (default 10 times --pairs)",
     .min = 1,
     .max = VERDICT_PAIRS_MAX,
     OPTION_FIELD(struct compare_options, max_pairs)},
    {.name = "warmup",
     .kind = OPTION_U64,
     .value = "N",
     .help = "runs of each side before, that do not count (default 1)",
     .max = 1000,
     OPTION_FIELD(struct compare_options, warmup)},
    {.name = "setup-a",
     .kind = OPTION_TEXT,
     .value = "COMMAND",
     .help = "run this before each run of A; it is not measured",
     OPTION_FIELD(struct compare_options, setup_a)},
    {.name = "setup-b",
     .kind = OPTION_TEXT,
     .value = "COMMAND",
     .help = "the same for B",
     OPTION_FIELD(struct compare_options, setup_b)},
    {.name = "cooldown",
     .kind = OPTION_DURATION,
     .value = "TIME",
     .help = "rest so long between two runs",
     OPTION_FIELD(struct compare_options, cooldown_ns)},
    {.name = "timeout",
     .kind = OPTION_DURATION,
     .value = "TIME",
     .help = "a run that takes longer is killed and has failed (default: none)",
     OPTION_FIELD(struct compare_options, timeout_ns)},
    {.name = "seed",
     .kind = OPTION_U64,
     .value = "N",
     .help = "of the order of the runs (default: a new one, which is printed)",
     .max = UINT64_C(1) << COMPARE_SEED_BITS,
     OPTION_FIELD(struct compare_options, seed)},
    {.name = "from",
     .kind = OPTION_FLAG,
     .help = "run nothing: judge the recorded FILE again, or two that were recorded apart; or show "
	     "a scaling series: a table (.csv), or runs that say how many workers they had",
     OPTION_FIELD(struct compare_options, from)},
    {.name = "json",
     .kind = OPTION_PATH,
     .value = "FILE",
     .help = "write all runs and verdicts there (sluice.result/1)",
     OPTION_FIELD(struct compare_options, json)},
    {.name = "html",
     .kind = OPTION_PATH,
     .value = "FILE",
     .help = "write the report with its plots there, as a page",
     OPTION_FIELD(struct compare_options, html)},
    {.name = "show-output",
     .kind = OPTION_FLAG,
     .help = "let the commands' output through, which costs them a little",
     OPTION_FIELD(struct compare_options, show_output)},
    BENCH_QUIET_ROW(struct compare_options),
    OPTION_OUTPUT(struct compare_options, output),
    {0},
};

static const struct cmd_exit_row compare_exits[] = {
    {FINDINGS_EXIT_RIGHT, "the same within the margin, or different by less, or B is better"},
    {FINDINGS_EXIT_POOR, "B is worse by more than the margin"},
    {FINDINGS_EXIT_WRONG, "a run failed"},
    {FINDINGS_EXIT_NOTHING, "nothing can be said: too few pairs, or this machine is too restless"},
    {CMD_EXIT_USAGE, "wrong command line"},
    {CMD_EXIT_DATA, "a recorded file cannot be read"},
    {CMD_EXIT_CANNOT_WRITE, "a report could not be written"},
    {FINDINGS_EXIT_INTERRUPTED, "interrupted"},
    {0, NULL},
};

static const struct cmd_example compare_examples[] = {
    {"sluice bench compare --a './train' --b 'podman run --rm -v .:/w train /w/train'",
     "what a container costs"},
    {"sluice bench compare -n 60 -m 0.5% --html report.html --a ./old --b ./new",
     "a finer look, with plots"},
    {"sluice bench compare --from result.json -m 5%",
     "runs that were recorded with --json, judged again by this margin"},
    {"sluice bench compare --from series.csv --html scaling.html",
     "efficiency by number of workers, with plots"},
    {NULL, NULL},
};

/* --- options ---------------------------------------------------------------------------------- */

static int compare_margin(const char *text, double *out)
{
	char number[CLOCK_UTC_TEXT];
	size_t length = strlen(text);
	bool is_percent = length > 0 && text[length - 1] == '%';

	length -= is_percent;
	if (length == 0 || length >= sizeof(number))
		return -EINVAL;

	memcpy(number, text, length);
	number[length] = '\0';

	double value;
	if (parse_fraction(number, 0, 100, &value) < 0)
		return -EINVAL;

	value = is_percent ? value / 100 : value;
	if (!(value > 0) || !(value < 1))
		return -EINVAL;

	*out = value;
	return 0;
}

static void compare_progress(const char *what, uint64_t done, uint64_t all, void *context)
{
	(void)context;
	(void)fprintf(stderr, "\r%-20s run %" PRIu64 " of %" PRIu64 " ", what, done + 1, all);
	(void)fflush(stderr);
}

static void compare_look(struct result_run *run, void *context)
{
	bench_gpus_look(context, run);
}

/* A file below $TMPDIR that the commands may write to. */
static int compare_result_file(char out[FILE_PATH_MAX], struct err *err)
{
	const char *directory = getenv("TMPDIR");
	int rc = file_path(out, err, "%s/sluice-result-XXXXXX",
			   directory && *directory ? directory : "/tmp");
	if (rc < 0)
		return rc;
	_cleanup_close_ int fd = mkstemp(out);
	return fd < 0 ? err_set(err, -errno, "making '%s': %s", out, err_describe(errno)) : 0;
}

struct compare_call {
	const struct cmd_call *call;
	const struct compare_options *options;
	struct compare_plan plan;
	regex_t line;
	bool has_line;
	char result_path[FILE_PATH_MAX]; /* "": none */
};

static int compare_plan_metrics(struct compare_call *self)
{
	const struct compare_options *options = self->options;
	if (options->metrics.count > COMPARE_METRICS_MAX)
		return cmd_usage(self->call, "more than %d metrics", COMPARE_METRICS_MAX);

	for (size_t i = 0; i < options->metrics.count; i++) {
		for (size_t j = 0; j < i; j++)
			if (strcmp(options->metrics.items[i], options->metrics.items[j]) == 0)
				return cmd_usage(self->call, "the metric '%s' is named twice",
						 options->metrics.items[i]);
		self->plan.metrics[self->plan.metric_count++] = options->metrics.items[i];
	}

	if (self->plan.metric_count > 0)
		return 0;

	bool is_mllog = options->parse && strcmp(options->parse, "mllog") == 0;
	self->plan.metrics[self->plan.metric_count++] = is_mllog	 ? "epoch_time"
							: options->parse ? "output"
									 : "wall";
	return 0;
}

static int compare_plan_parse(struct compare_call *self)
{
	static const char prefix[] = "regex:";
	const char *text = self->options->parse;

	if (!text)
		return 0;

	self->plan.is_nccl_table = strcmp(text, "nccl") == 0;
	self->plan.is_mllog = strcmp(text, "mllog") == 0;
	if (self->plan.is_nccl_table || self->plan.is_mllog)
		return 0;
	if (!text_starts_with(text, prefix))
		return cmd_usage(self->call, "--parse takes nccl, mllog or regex:RE, not '%s'",
				 text);

	int code = regcomp(&self->line, text + strlen(prefix), REG_EXTENDED | REG_NEWLINE);
	if (code != 0) {
		char why[128];
		(void)regerror(code, &self->line, why, sizeof(why));
		return cmd_usage(self->call, "--parse: '%s': %s", text + strlen(prefix), why);
	}

	self->has_line = true;
	if (self->line.re_nsub < 1)
		return cmd_usage(self->call, "--parse: '%s' has no group: put the number into ( )",
				 text + strlen(prefix));

	self->plan.line = &self->line;
	self->plan.line_higher_is_better = self->options->better == 1;
	return 0;
}

/* 0, or the exit code. */
static int compare_plan_make(struct compare_call *self)
{
	const struct compare_options *options = self->options;
	struct compare_plan *plan = &self->plan;

	if (options->from ? options->a || options->b : !options->a || !options->b)
		return cmd_usage(self->call, "either --a and --b, or --from with files, is wanted");
	if (options->from ? self->call->argc < 1 : self->call->argc > 0)
		return cmd_usage(self->call, options->from ? "--from wants one file or two"
							   : "files are wanted with --from alone");
	if (compare_margin(options->margin, &plan->margin) < 0)
		return cmd_usage(self->call,
				 "--margin '%s': more than 0%% and less than 100%% is wanted",
				 options->margin);

	plan->a = options->a;
	plan->b = options->b;
	plan->setup_a = options->setup_a;
	plan->setup_b = options->setup_b;
	plan->pairs = options->pairs;
	plan->max_pairs = !options->until_decided ? 0
			  : options->max_pairs	  ? options->max_pairs
						  : 10 * options->pairs;
	plan->warmups = options->warmup;
	plan->cooldown_ns = options->cooldown_ns;
	plan->timeout_ns = options->timeout_ns;
	plan->calibrates = options->aa == COMPARE_AA_AUTO;
	plan->shows_output = options->show_output;
	plan->seed = options->seed;
	if (plan->seed == 0 && getrandom(&plan->seed, sizeof(plan->seed), 0) > 0)
		plan->seed >>= 64 - COMPARE_SEED_BITS;
	plan->progress = options->quiet || !isatty(STDERR_FILENO) ? NULL : compare_progress;

	int code = compare_plan_metrics(self);
	return code == 0 ? compare_plan_parse(self) : code;
}

/* --- recorded files --------------------------------------------------------------------------- */

static int compare_read(const char *path, struct result *out, struct err *err)
{
	struct buf text _cleanup_buf_;
	buf_init(&text, RESULT_BYTES_MAX);
	int rc = file_read(path, &text, err);
	if (rc < 0)
		return rc;
	rc = result_parse(buf_text(&text), text.length, out, err);
	return rc < 0 ? err_wrap(err, "'%s'", path) : 0;
}

/* `a`: what the first file holds. */
static int compare_from(struct compare_call *self, struct compare_outcome *out, struct result *a,
			struct result *b, struct err *err)
{
	const struct compare_plan *plan = &self->plan;

	if (self->call->argc == 1) {
		out->runs = *a;
		out->looks = a->looks;
		result_init(a);

		if (out->runs.calibration && plan->calibrates) {
			out->calibration = *out->runs.calibration;
			free(out->runs.calibration);
			out->runs.calibration = NULL;
		}

		return compare_again(plan, out, err);
	}

	int rc = compare_read(self->call->argv[1], b, err);
	return rc < 0 ? rc
		      : compare_recorded(a, b, plan->margin, plan->metrics, plan->metric_count, out,
					 err);
}

/* --- the report ------------------------------------------------------------------------------- */

static int compare_write(const char *path, int (*make)(const struct report *, struct buf *),
			 const struct report *report, struct err *err)
{
	struct buf text _cleanup_buf_;
	buf_init(&text, COMPARE_REPORT_MAX);
	int rc = path ? make(report, &text) : 0;
	if (rc < 0)
		return err_set(err, rc, "making the report for '%s': %s", path, err_describe(rc));
	return path ? file_write_atomic(path, buf_text(&text), text.length, 0644, err) : 0;
}

static int compare_print(const struct compare_options *options, const struct report *report,
			 struct err *err)
{
	struct buf text _cleanup_buf_;

	buf_init(&text, COMPARE_REPORT_MAX);
	int rc = options->output == OPTION_OUTPUT_JSON ? report_json(report, &text)
						       : report_text(report, &text);
	if (rc < 0)
		return err_set(err, rc, "making the report: %s", err_describe(rc));

	(void)fwrite(buf_text(&text), 1, text.length, stdout); /* cmd_main() looks at stdout */
	rc = compare_write(options->json, report_json, report, err);
	return rc < 0 ? rc : compare_write(options->html, report_html, report, err);
}

static int compare_exit_code(const struct compare_outcome *outcome)
{
	switch (compare_kind(outcome)) {
	case VERDICT_EQUIVALENT:
	case VERDICT_DIFFERENT_BUT_SMALL:
	case VERDICT_FASTER:
		return FINDINGS_EXIT_RIGHT;
	case VERDICT_SLOWER:
		return FINDINGS_EXIT_POOR;
	case VERDICT_FAILED:
		return FINDINGS_EXIT_WRONG;
	default:
		return FINDINGS_EXIT_NOTHING;
	}
}

static int compare_series(const struct cmd_call *call, const struct result *first)
{
	const struct compare_options *options = call->options;
	char started[CLOCK_UTC_TEXT];
	const struct bench_scaling what = {
	    .files = call->argv,
	    .count = (size_t)call->argc,
	    .metric = options->metrics.count ? options->metrics.items[0] : NULL,
	    .json = options->json,
	    .html = options->html,
	    .started = started,
	    .is_json = options->output == OPTION_OUTPUT_JSON,
	    .first = first,
	};

	clock_utc_text(started);
	return bench_scaling_run(call, &what);
}

/* Measures, or reads, and reports; the exit code. */
static int compare_go(struct compare_call *self, struct compare_outcome *outcome, struct result *a,
		      struct result *b)
{
	const struct compare_options *options = self->options;
	struct err err = {0};
	char started[CLOCK_UTC_TEXT];

	clock_utc_text(started);
	runner_catch_signals();

	int rc = options->from ? compare_from(self, outcome, a, b, &err)
			       : compare_run(&self->plan, outcome, &err);

	if (self->plan.progress)
		(void)fprintf(stderr, "\r\x1b[K");

	struct buf line _cleanup_buf_;
	char *argv[CMD_LINE_ARGUMENTS_MAX];
	int argc = cmd_line(&line, argv);
	char names[2][FILE_PATH_MAX] = {"", ""};

	for (int i = 0; options->from && i < 2; i++)
		(void)snprintf(names[i], sizeof(names[i]), "%s%s",
			       self->call->argc == 2 ? ""
			       : i == 0		     ? "A of "
						     : "B of ",
			       self->call->argv[self->call->argc == 2 ? i : 0]); /* cut */

	struct report report = {.outcome = outcome,
				.a = options->from ? names[0] : options->a,
				.b = options->from ? names[1] : options->b,
				.version = cmd_version(),
				.started = started,
				.margin = self->plan.margin,
				/* Of runs that were recorded together, theirs. */
				.seed = options->from ? outcome->runs.seed : self->plan.seed,
				.argc = argc,
				.argv = argv,
				.environment = environ,
				.gpus = bench_gpus_inventory(self->plan.context)};

	if (rc < 0 && !options->from)
		(void)compare_write(options->json, report_json, &report, NULL); /* what there is */
	if (rc == -EINTR)
		return cmd_fail(self->call, FINDINGS_EXIT_INTERRUPTED, &err);
	if (rc < 0)
		return cmd_fail(self->call, options->from ? CMD_EXIT_DATA : FINDINGS_EXIT_WRONG,
				&err);
	if (compare_print(options, &report, &err) < 0)
		return cmd_fail(self->call, CMD_EXIT_CANNOT_WRITE, &err);

	return compare_exit_code(outcome);
}

/* --from, when the plan is made: verdicts, or a series; the exit code. */
static int compare_files(struct compare_call *self, struct compare_outcome *outcome,
			 struct result *a, struct result *b)
{
	const struct cmd_call *call = self->call;
	struct err err = {0};
	if (bench_scaling_is_meant(call->argv, (size_t)call->argc))
		return compare_series(call, NULL);
	if (compare_read(call->argv[0], a, &err) < 0)
		return cmd_fail(call, CMD_EXIT_DATA, &err);
	return scaling_is_series(a) ? compare_series(call, a) : compare_go(self, outcome, a, b);
}

/* Two commands, when the plan is made; the exit code. */
static int compare_commands(struct compare_call *self, struct compare_outcome *outcome,
			    struct result *a, struct result *b)
{
	struct err err = {0};

	/* First: an interruption meanwhile leaves nothing behind. */
	self->plan.context = bench_gpus_start();
	self->plan.look = compare_look;

	int code = CMD_EXIT_OK;

	if (compare_result_file(self->result_path, &err) < 0) {
		code = cmd_fail(self->call, CMD_EXIT_CANNOT_WRITE, &err);
	} else {
		self->plan.result_path = self->result_path;
		code = compare_go(self, outcome, a, b);
		(void)unlink(self->result_path);
	}

	(void)bench_gpus_stop(self->plan.context);
	return code;
}

static int compare_main(const struct cmd_call *call)
{
	struct compare_call self = {.call = call, .options = call->options};
	struct compare_outcome outcome;
	struct result a, b;

	compare_init(&outcome);
	result_init(&a);
	result_init(&b);

	int code = compare_plan_make(&self);
	if (code == 0)
		code = self.options->from ? compare_files(&self, &outcome, &a, &b)
					  : compare_commands(&self, &outcome, &a, &b);
	if (self.has_line)
		regfree(&self.line);
	compare_done(&outcome);
	result_done(&a);
	result_done(&b);

	return code;
}

const struct command cmd_bench_compare = {
    .name = "compare",
    .summary = "Run two commands in turns and say whether one costs more",
    .description =
	"Runs A and B in pairs, in an order that a coin decides, after A against itself; says "
	"whether B is worse by more than the margin, the same within it, or that neither can be "
	"told here, and how many pairs would tell.",
    .run = compare_main,
    .options = compare_rows,
    .defaults = &compare_defaults,
    .options_size = sizeof(struct compare_options),
    .positional = "[FILE...]",
    .positional_max = BENCH_SCALING_FILES_MAX,
    .exit_unwritten = CMD_EXIT_CANNOT_WRITE,
    .exits = compare_exits,
    .examples = compare_examples,
};
