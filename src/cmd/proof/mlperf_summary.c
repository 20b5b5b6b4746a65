/* SPDX-License-Identifier: Apache-2.0 */
/* `sluice mlperf summary`, `check` and `compare`: logs of training runs, and their score. */
#include "cmd/proof/mlperf.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/findings.h"
#include "base/jsonw.h"
#include "base/parse.h"
#include "base/text.h"
#include "bench/published.h"
#include "bench/result.h"
#include "cmd/options.h"

enum {
	SUMMARY_REPORT_MAX = 64 << 20,
};

/* A word of a log, for a terminal. */
static int summary_word(struct buf *out, const char *text, int width)
{
	struct buf word _cleanup_buf_;
	buf_init(&word, 8 * MLLOG_TEXT_MAX);
	int rc = text_escape(&word, text, strlen(text));
	return rc < 0 ? rc : buf_printf(out, "%-*s ", width, buf_text(&word));
}

/* --- summary ------------------------------------------------------------------------------------
 */

struct summary_options {
	enum option_output output;
};

static const struct option_row summary_rows[] = {
    OPTION_OUTPUT(struct summary_options, output),
    {0},
};

struct summary {
	struct mlrun *runs; /* owned */
	size_t count;
	double minutes[MLPERF_FILES_MAX]; /* of those that are not empty */
	size_t aborted, endless, empty;	  /* of `count` */
	struct mlrun_score score;
	bool is_mixed; /* several benchmarks */
};

static const char *summary_end(const struct mlrun *run)
{
	if (run->lines == 0)
		return "empty";
	if (run->has_aborted)
		return "aborted";
	return isnan(mlrun_minutes(run)) ? "no end" : "ended";
}

/* "-" where there is none. */
static int summary_number(struct buf *out, int width, int digits, bool is_fixed, double number)
{
	if (isnan(number))
		return buf_printf(out, "%*s ", width, "-");
	return is_fixed ? buf_printf(out, "%*.*f ", width, digits, number)
			: buf_printf(out, "%*.*g ", width, digits, number);
}

static int summary_row(const struct mlrun *run, const char *path, struct buf *out)
{
	int rc = summary_word(out, run->benchmark[0] ? run->benchmark : "-", 12);
	if (rc == 0)
		rc = summary_word(out, run->platform[0] ? run->platform : "-", 20);
	if (rc == 0)
		rc = summary_number(out, 10, 2, true, mlrun_minutes(run));
	if (rc == 0)
		rc = summary_number(out, 8, 4, false, run->last_epoch);

	if (rc == 0)
		rc = summary_number(out, 10, 5, false, run->last_accuracy);
	if (rc == 0)
		rc = buf_printf(out, "%-8s ", summary_end(run));
	if (rc == 0)
		rc = text_escape(out, path, strlen(path));

	return rc == 0 ? buf_add_text(out, "\n") : rc;
}

/* Events that are not in the row, and would perhaps have changed it. */
static int summary_broken(const struct mlrun *run, const char *path, struct buf *out)
{
	if (run->broken == 0)
		return 0;
	int rc = text_escape(out, path, strlen(path));
	return rc == 0 ? buf_printf(out, ": lines that cannot be read: %" PRIu64 "\n", run->broken)
		       : rc;
}

static int summary_text(const struct summary *self, char *const *paths, struct buf *out)
{
	const struct mlrun_score *score = &self->score;
	int rc = buf_printf(out, "%-12s %-20s %10s %8s %10s %-8s %s\n", "BENCHMARK", "PLATFORM",
			    "MINUTES", "EPOCH", "ACCURACY", "END", "FILE");
	for (size_t i = 0; rc == 0 && i < self->count; i++)
		rc = summary_row(&self->runs[i], paths[i], out);

	for (size_t i = 0; rc == 0 && i < self->count; i++)
		rc = summary_broken(&self->runs[i], paths[i], out);

	if (rc == 0 && self->is_mixed)
		return buf_add_text(out, "no score: these are several benchmarks\n");

	if (rc == 0 && score->problem)
		return buf_printf(out,
				  "no score: %s (%zu runs, %zu aborted, %zu without an end, %zu "
				  "empty, %zu wanted)\n",
				  score->problem, score->runs, self->aborted, self->endless,
				  self->empty, score->wanted);

	return rc < 0 ? rc
		      : buf_printf(out,
				   "score (MLPerf-style, the fastest and the slowest dropped): "
				   "%.2f minutes of %zu runs, which lie %.1f %% apart\n",
				   score->minutes, score->runs, score->spread * 100);
}

static int summary_json(const struct summary *self, char *const *paths, struct buf *out)
{
	struct jsonw json;
	jsonw_init(&json, out);
	jsonw_object(&json, NULL);
	jsonw_array(&json, "runs");

	for (size_t i = 0; i < self->count; i++) {
		const struct mlrun *run = &self->runs[i];

		jsonw_object(&json, NULL);
		jsonw_text(&json, "file", paths[i]);
		jsonw_text(&json, "benchmark", run->benchmark);
		jsonw_text(&json, "organisation", run->organisation);
		jsonw_text(&json, "platform", run->platform);
		jsonw_text(&json, "division", run->division);
		jsonw_text(&json, "end", summary_end(run));
		result_write_number(&json, "minutes", mlrun_minutes(run));

		result_write_number(&json, "last_epoch", run->last_epoch);
		result_write_number(&json, "last_accuracy", run->last_accuracy);
		result_write_number(&json, "global_batch_size", run->global_batch_size);
		result_write_number(&json, "seed", run->seed);
		jsonw_u64(&json, "lines", run->lines);
		jsonw_u64(&json, "broken_lines", run->broken);
		jsonw_end_object(&json);
	}

	jsonw_end_array(&json);
	jsonw_object(&json, "score");
	result_write_number(&json, "minutes", self->is_mixed ? NAN : self->score.minutes);
	result_write_number(&json, "spread", self->is_mixed ? NAN : self->score.spread);
	jsonw_u64(&json, "aborted", self->aborted);
	jsonw_u64(&json, "without_end", self->endless);
	jsonw_u64(&json, "empty", self->empty);
	jsonw_u64(&json, "wanted", self->score.wanted);
	jsonw_word(&json, "problem",
		   self->is_mixed	 ? "several benchmarks"
		   : self->score.problem ? self->score.problem
					 : "");
	jsonw_end_object(&json);
	jsonw_end_object(&json);

	return json.rc < 0 ? json.rc : buf_add_text(out, "\n");
}

/* An empty log is no run: it is counted apart, and not scored. */
static int summary_fill(struct summary *self, char *const *paths, struct err *err)
{
	const struct mlrun *first = NULL;
	size_t runs = 0;

	for (size_t i = 0; i < self->count; i++) {
		struct mlrun *run = &self->runs[i];
		int rc = mlperf_read(paths[i], MLRULES_11, run, err);
		if (rc < 0)
			return rc;
		if (run->lines == 0) {
			self->empty++;
			continue;
		}

		double minutes = mlrun_minutes(run);

		self->aborted += run->has_aborted;
		self->endless += !run->has_aborted && isnan(minutes);
		self->minutes[runs++] = run->has_aborted ? NAN : minutes;
		first = first ? first : run;
		self->is_mixed = self->is_mixed || strcmp(run->benchmark, first->benchmark) != 0;
	}

	mlrun_score(first ? first->benchmark : "", self->minutes, runs, &self->score);

	return 0;
}

static int summary_main(const struct cmd_call *call)
{
	const struct summary_options *options = call->options;
	struct err err = {0};
	_cleanup_free_ struct summary *self = calloc(1, sizeof(*self));
	struct mlperf_files files _cleanup_mlperf_files_;
	struct buf text _cleanup_buf_;

	buf_init(&text, SUMMARY_REPORT_MAX);
	if (mlperf_files_find(call->argv, (size_t)call->argc, &files, &err) < 0)
		return cmd_fail(call, CMD_EXIT_DATA, &err);

	_cleanup_free_ struct mlrun *runs = calloc(files.count, sizeof(*runs));
	if (!self || !runs)
		return cmd_fail(call, CMD_EXIT_FAILED, (err_set(&err, -ENOMEM, "no memory"), &err));

	self->runs = runs;
	self->count = files.count;
	if (summary_fill(self, files.paths, &err) < 0)
		return cmd_fail(call, CMD_EXIT_DATA, &err);

	int rc = options->output == OPTION_OUTPUT_JSON ? summary_json(self, files.paths, &text)
						       : summary_text(self, files.paths, &text);
	if (rc < 0)
		return cmd_fail(call, CMD_EXIT_FAILED,
				(err_set(&err, rc, "the report is too long"), &err));

	(void)fwrite(buf_text(&text), 1, text.length, stdout); /* cmd_main() looks at stdout */
	return self->is_mixed || self->score.problem ? FINDINGS_EXIT_NOTHING : CMD_EXIT_OK;
}

static const struct cmd_exit_row summary_exits[] = {
    {CMD_EXIT_OK, "there is a score"},
    {FINDINGS_EXIT_NOTHING, "there is none; the runs are shown"},
    {CMD_EXIT_USAGE, "wrong command line"},
    {CMD_EXIT_DATA, "a file cannot be read"},
    {0, NULL},
};

const struct command cmd_mlperf_summary = {
    .name = "summary",
    .summary = "How long training runs took, and their score",
    .description = "Reads logs of one result, one file for each run, of any length. A directory "
		   "stands for its result_*.txt, or else its *.log, *.txt and *.out.",
    .run = summary_main,
    .options = summary_rows,
    .options_size = sizeof(struct summary_options),
    .positional = "FILE|DIR...",
    .positional_min = 1,
    .positional_max = MLPERF_FILES_MAX,
    .exits = summary_exits,
};

/* --- check --------------------------------------------------------------------------------------
 */

struct check_options {
	const char *ruleset;
	bool strict;
};

static const struct check_options check_defaults = {.ruleset = "1.1.0"};

static const struct option_row check_rows[] = {
    {.name = "ruleset",
     .letter = 'r',
     .kind = OPTION_TEXT,
     .value = "ROUND",
     .words = "0.6.0|0.7.0|1.0.0|1.1.0",
     .help = "the rules of which round: 0.6.0, 0.7.0, 1.0.0, 1.1.0 (default)",
     OPTION_FIELD(struct check_options, ruleset)},
    {.name = "strict",
     .kind = OPTION_FLAG,
     .help = "a key that belongs there once is refused again with the same value, too",
     OPTION_FIELD(struct check_options, strict)},
    {0},
};

static int check_lines(const char *path, char (*lines)[MLRUN_FINDING_MAX], size_t count,
		       size_t kept, struct buf *out)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < count && i < kept; i++) {
		rc = text_escape(out, path, strlen(path));
		if (rc == 0)
			rc = buf_add_text(out, ": ");
		if (rc == 0)
			rc = text_escape(out, lines[i], strlen(lines[i]));
		if (rc == 0)
			rc = buf_add_text(out, "\n");
	}

	return rc == 0 && kept < count ? buf_printf(out, "... and %zu more\n", count - kept) : rc;
}

static int check_file(const char *path, enum mlrules_round ruleset, bool is_strict, struct buf *out,
		      size_t *out_findings, struct err *err)
{
	_cleanup_free_ struct mlrun *run = calloc(1, sizeof(*run));
	if (!run)
		return err_set(err, -ENOMEM, "no memory");

	int rc = mlperf_read(path, ruleset, run, err);
	if (rc < 0)
		return rc;

	mlrun_end(run);
	size_t strict = is_strict ? run->repeat_count : 0, found = run->finding_count + strict;
	*out_findings += found;

	rc = check_lines(path, run->findings, run->finding_count, MLRUN_FINDINGS_MAX, out);
	if (rc == 0)
		rc = check_lines(path, run->repeats, strict, MLRUN_REPEATS_MAX, out);
	if (rc == 0)
		rc = text_escape(out, path, strlen(path));
	if (rc == 0)
		rc = buf_printf(out, ": %zu findings, %zu warnings, rules of %s\n", found,
				run->warning_count - strict, mlrules_to_string(ruleset));

	return rc < 0 ? err_set(err, rc, "the report is too long") : 0;
}

static int check_main(const struct cmd_call *call)
{
	const struct check_options *options = call->options;
	enum mlrules_round ruleset;
	struct err err = {0};
	struct buf text _cleanup_buf_;
	struct mlperf_files files _cleanup_mlperf_files_;
	size_t findings = 0;

	buf_init(&text, SUMMARY_REPORT_MAX);
	if (mlperf_files_find(call->argv, (size_t)call->argc, &files, &err) < 0)
		return cmd_fail(call, CMD_EXIT_DATA, &err);
	if (mlrules_from_string(options->ruleset, &ruleset) < 0)
		return cmd_usage(call, "--ruleset '%s': 0.6.0, 0.7.0, 1.0.0 or 1.1.0",
				 options->ruleset);

	for (size_t i = 0; i < files.count; i++)
		if (check_file(files.paths[i], ruleset, options->strict, &text, &findings, &err) <
		    0)
			return cmd_fail(call, CMD_EXIT_DATA, &err);

	(void)fwrite(buf_text(&text), 1, text.length, stdout); /* as above */
	return findings > 0 ? FINDINGS_EXIT_WRONG : CMD_EXIT_OK;
}

static const struct cmd_exit_row check_exits[] = {
    {CMD_EXIT_OK, "nothing was found"},
    {FINDINGS_EXIT_WRONG, "something is not as the rules want it"},
    {CMD_EXIT_USAGE, "wrong command line"},
    {CMD_EXIT_DATA, "a file cannot be read"},
    {0, NULL},
};

const struct command cmd_mlperf_check = {
    .name = "check",
    .summary = "Whether training logs are as the rules of a round want them",
    .description = "Which events and settings there are, how often, in which order and with which "
		   "values, which tensors were initialised, and whether the target was reached.",
    .run = check_main,
    .options = check_rows,
    .defaults = &check_defaults,
    .options_size = sizeof(struct check_options),
    .positional = "FILE|DIR...",
    .positional_min = 1,
    .positional_max = MLPERF_FILES_MAX,
    .exits = check_exits,
};

/* --- compare ------------------------------------------------------------------------------------
 */

struct mlperf_compare_options {
	const char *system, *round;
	uint32_t scope;
	enum option_output output;
};

static const struct option_row compare_rows[] = {
    {.name = "system",
     .kind = OPTION_TEXT,
     .value = "NAME",
     .help = "only those of this system: DGX-1",
     OPTION_FIELD(struct mlperf_compare_options, system)},
    {.name = "round",
     .kind = OPTION_TEXT,
     .value = "ROUND",
     .words = "v0.6|v0.7|v1.1",
     .help = "only those of this round: v0.6, v0.7, v1.1",
     OPTION_FIELD(struct mlperf_compare_options, round)},
    {.name = "scope",
     .kind = OPTION_CHOICE,
     .words = "per-system|max-scale|per-accelerator",
     .help = "what the minutes are of: the system as it stands (default), the largest one, one "
	     "accelerator of a server",
     OPTION_FIELD(struct mlperf_compare_options, scope)},
    OPTION_OUTPUT(struct mlperf_compare_options, output),
    {0},
};

static const char *const compare_scopes[] = {"per-system", "max-scale", "per-accelerator"};

static bool compare_is_meant(const struct published *row, const char *benchmark,
			     const struct mlperf_compare_options *options)
{
	return strcmp(row->benchmark, benchmark) == 0 &&
	       strcmp(row->scope, compare_scopes[options->scope]) == 0 &&
	       (!options->system || strcmp(row->system, options->system) == 0) &&
	       (!options->round || strcmp(row->round, options->round) == 0);
}

/* Above 0: slower. Whether that is more than runs of that very system differ among themselves. */
static const char *compare_meaning(const struct published *row, double slower)
{
	if (row->spread < 0)
		return "not known: the spread of its runs is not published";
	return fabs(slower) * 100 <= row->spread ? "none: inside the spread of its own runs"
						 : "outside the spread of its own runs";
}

static int compare_row(const struct published *row, double minutes, struct buf *out)
{
	double slower = minutes / row->minutes - 1;
	char spread[32] = "-";
	if (row->spread >= 0)
		(void)snprintf(spread, sizeof(spread), "%.1f %%", row->spread); /* fits */
	return buf_printf(out, "%-5s %-10s %-28s %10.2f %+8.2f %% %9s  %s\n", row->round,
			  row->submitter, row->system, row->minutes, slower * 100, spread,
			  compare_meaning(row, slower));
}

static void compare_json(const struct published *row, double minutes, struct jsonw *json)
{
	double slower = minutes / row->minutes - 1;

	jsonw_object(json, NULL);
	jsonw_text(json, "round", row->round);
	jsonw_text(json, "submitter", row->submitter);
	jsonw_text(json, "system", row->system);
	jsonw_text(json, "framework", row->framework);
	result_write_number(json, "minutes", row->minutes);
	result_write_number(json, "slower_by", slower);
	result_write_number(json, "spread", row->spread < 0 ? NAN : row->spread / 100);
	jsonw_text(json, "meaning", compare_meaning(row, slower));
	jsonw_end_object(json);
}

static int compare_main(const struct cmd_call *call)
{
	const struct mlperf_compare_options *options = call->options;
	double minutes;
	struct err err = {0};
	struct buf text _cleanup_buf_;
	struct jsonw json;
	size_t found = 0;

	buf_init(&text, SUMMARY_REPORT_MAX);
	if (parse_fraction(call->argv[1], 0, 1e9, &minutes) < 0 || !(minutes > 0))
		return cmd_usage(call, "'%s' are no minutes", call->argv[1]);

	bool is_json = options->output == OPTION_OUTPUT_JSON;
	int rc = is_json ? 0
			 : buf_printf(&text, "%-5s %-10s %-28s %10s %10s %9s  %s\n", "ROUND",
				      "SUBMITTER", "SYSTEM", "MINUTES", "SLOWER BY", "SPREAD",
				      "MEANING OF THE DIFFERENCE");

	jsonw_init(&json, &text);
	if (is_json)
		jsonw_array(&json, NULL);

	const struct published *row;

	for (size_t i = 0; rc == 0 && (row = published_at(i)); i++) {
		if (!compare_is_meant(row, call->argv[0], options))
			continue;

		found++;
		if (is_json)
			compare_json(row, minutes, &json);
		else
			rc = compare_row(row, minutes, &text);
	}

	if (is_json)
		jsonw_end_array(&json);

	if (found == 0) {
		(void)err_set(&err, -ENOENT,
			      "no published result of '%.40s' is like that: resnet, ssd, maskrcnn, "
			      "gnmt, transformer, minigo, bert, dlrm, rnnt and unet3d have some",
			      call->argv[0]);
		return cmd_fail(call, FINDINGS_EXIT_NOTHING, &err);
	}

	if (!is_json && rc == 0)
		rc = buf_add_text(
		    &text,
		    "A time to train is speed and convergence at once: without the epochs of "
		    "both sides it says nothing of speed alone.\n");

	(void)fwrite(buf_text(&text), 1, text.length, stdout); /* as above */
	return rc < 0 || json.rc < 0 ? CMD_EXIT_FAILED : CMD_EXIT_OK;
}

static const struct cmd_exit_row compare_exits[] = {
    {CMD_EXIT_OK, "shown"},
    {FINDINGS_EXIT_NOTHING, "nothing like that was published"},
    {CMD_EXIT_USAGE, "wrong command line"},
    {0, NULL},
};

static const struct cmd_example compare_examples[] = {
    {"sluice mlperf compare maskrcnn 202.8 --system DGX-1", "is 2.3 % faster than NVIDIA's?"},
    {NULL, NULL},
};

const struct command cmd_mlperf_compare = {
    .name = "compare",
    .summary = "A time to train beside published ones, and whether the difference means anything",
    .description = "The published times are those of data/mlperf-published.csv, with their "
		   "sources. What differs by less than the runs behind a published score differ "
		   "among themselves means nothing.",
    .run = compare_main,
    .options = compare_rows,
    .options_size = sizeof(struct mlperf_compare_options),
    .positional = "BENCHMARK MINUTES",
    .positional_min = 2,
    .positional_max = 2,
    .exits = compare_exits,
    .examples = compare_examples,
};
