/* SPDX-License-Identifier: Apache-2.0 */
/* `sluice mlperf rcp`: whether a result converges as the reference does. */
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
#include "base/file.h"
#include "base/findings.h"
#include "base/jsonw.h"
#include "base/parse.h"
#include "base/text.h"
#include "bench/rcp.h"
#include "bench/result.h"
#include "cmd/options.h"

enum { RCP_REPORT_MAX = 1 << 20, RCP_NUMBER_MAX = 32 };

struct rcp_options {
	const char *table;
	bool all, one_sided;
	enum option_output output;
};

static const struct option_row rcp_rows[] = {
    {.name = "table",
     .letter = 't',
     .kind = OPTION_PATH,
     .value = "FILE",
     .help = "reference convergence points, JSON in the form of mlcommons/logging (needed)",
     OPTION_FIELD(struct rcp_options, table)},
    {.name = "all-records",
     .kind = OPTION_FLAG,
     .help = "also those records of the table that others make useless",
     OPTION_FIELD(struct rcp_options, all)},
    {.name = "one-sided",
     .kind = OPTION_FLAG,
     .help = "slower than the reference is no finding: the test of the rules",
     OPTION_FIELD(struct rcp_options, one_sided)},
    OPTION_OUTPUT(struct rcp_options, output),
    {0},
};

/* What the runs have in common, and when each converged. */
struct rcp_runs {
	char benchmark[MLLOG_TEXT_MAX];
	double batch_size;
	double *epochs; /* owned */
	size_t count, converged;
	size_t wanted; /* runs of a result of this benchmark */
};

/* To three decimals, by the decimal value, as the checker of the rules does. */
static double rcp_round(double epoch)
{
	char text[RCP_NUMBER_MAX];
	int length = snprintf(text, sizeof(text), "%.3f", epoch);
	double rounded = epoch; /* NAN, or a number so large that it has no decimals */
	if (length > 0 && (size_t)length < sizeof(text))
		(void)parse_fraction(text, 0, 1e15, &rounded);
	return rounded;
}

static int rcp_add_run(struct rcp_runs *runs, const char *path, const struct mlrun *run,
		       struct err *err)
{
	if (run->lines == 0)
		return err_set(err, -EINVAL, "'%s' is empty: no line has ':::MLLOG' or ':::MLL'",
			       path);
	if (isnan(run->global_batch_size))
		return err_set(err, -EINVAL, "'%s' says no global_batch_size", path);

	if (run->broken > 0)
		return err_set(err, -EINVAL,
			       "'%s': lines that cannot be read (%" PRIu64 "), of which one may be "
			       "its last epoch: sluice mlperf check names them",
			       path, run->broken);

	if (runs->count > 0 && strcmp(runs->benchmark, run->benchmark) != 0)
		return err_set(err, -EINVAL, "'%s' is of '%.64s', those before it of '%s'", path,
			       run->benchmark, runs->benchmark);
	if (runs->count > 0 && runs->batch_size != run->global_batch_size)
		return err_set(err, -EINVAL, "'%s' has batches of %g, those before it of %g", path,
			       run->global_batch_size, runs->batch_size);

	(void)memcpy(runs->benchmark, run->benchmark, sizeof(runs->benchmark));
	runs->batch_size = run->global_batch_size;
	runs->epochs[runs->count++] = rcp_round(run->converged_epoch);
	runs->converged += !isnan(run->converged_epoch);

	return 0;
}

static int rcp_read_runs(const struct mlperf_files *files, struct rcp_runs *runs, struct err *err)
{
	_cleanup_free_ struct mlrun *run = calloc(1, sizeof(*run));

	runs->epochs = calloc(files->count, sizeof(*runs->epochs));
	int rc = run && runs->epochs ? 0 : err_set(err, -ENOMEM, "no memory");
	for (size_t i = 0; rc == 0 && i < files->count; i++) {
		rc = mlperf_read(files->paths[i], MLRULES_11, run, err);
		if (rc == 0)
			rc = rcp_add_run(runs, files->paths[i], run, err);
	}

	size_t drop;
	bool is_known;

	runs->wanted = mlrun_count(runs->benchmark, &drop, &is_known);
	if (rc == 0 && !is_known)
		runs->wanted = runs->count;

	return rc;
}

static int rcp_read_table(const struct rcp_options *options, struct rcp_table *out, struct err *err)
{
	struct buf text _cleanup_buf_;

	buf_init(&text, RCP_TABLE_BYTES_MAX);
	int rc = file_read(options->table, &text, err);
	if (rc == 0)
		rc = rcp_table_parse(buf_text(&text), text.length, out, err);
	if (rc == 0 && !options->all)
		rc = rcp_table_prune(out, err);

	return rc < 0 ? err_wrap(err, "'%s'", options->table) : 0;
}

static const char *rcp_meaning(const struct rcp_result *result)
{
	switch (result->verdict) {
	case RCP_SAME:
		return result->found == RCP_BELOW ? "converges no faster than the reference of the "
						    "smallest batch; slower may well be right"
						  : "converges as the reference does";
	case RCP_FASTER:
		return "converges in fewer epochs than the reference can: the mathematics was "
		       "changed";
	case RCP_SLOWER:
		return "converges in more epochs than the reference needs: look for damaged data, "
		       "wrong "
		       "sharding, stale gradients, or settings";
	case RCP_MISSING:
		return "there is no reference for that batch size: larger, or faster than the "
		       "smallest one's";
	default:
		return "too many runs did not converge";
	}
}

static int rcp_text(const struct rcp_runs *runs, const struct rcp_result *result, struct buf *out)
{
	static const char *const found[] = {"its record", "between two records",
					    "the record of the smallest batch", "none"};
	const struct rcp_record *reference = &result->reference;
	struct buf name _cleanup_buf_;

	buf_init(&name, 8 * MLLOG_TEXT_MAX);
	int rc = text_escape(&name, runs->benchmark, strlen(runs->benchmark));
	if (rc == 0)
		rc = buf_printf(out, "%s, batches of %g, %zu runs, %zu converged\n",
				buf_text(&name), runs->batch_size, runs->count, runs->converged);

	if (rc == 0 && reference->samples > 0)
		rc = buf_printf(
		    out, "reference:  mean %.3f epochs, deviation %.3f, %zu runs count (%s)\n",
		    reference->mean, reference->deviation, reference->samples,
		    found[result->found]);

	if (rc == 0 && reference->samples > 0)
		rc = result->found == RCP_BELOW
			 ? buf_printf(out, "acceptable: %.3f epochs and more\n", reference->fastest)
			 : buf_printf(out, "acceptable: %.3f to %.3f epochs\n", reference->fastest,
				      reference->slowest);

	if (rc == 0 && !isnan(result->mean))
		rc = buf_printf(out, "result:     mean %.3f epochs\n", result->mean);
	if (rc == 0)
		rc = buf_printf(out, "verdict:    %s: %s\n", rcp_verdict_to_string(result->verdict),
				rcp_meaning(result));

	if (rc == 0 && runs->count != runs->wanted)
		rc = buf_printf(out,
				"a result has %zu runs, for which the acceptable epochs are: of "
				"%zu, the verdict is less sure\n",
				runs->wanted, runs->count);

	return rc == 0 && result->factor > 1
		   ? buf_printf(out, "a score of it is multiplied by %.4f\n", result->factor)
		   : rc;
}

static int rcp_json(const struct rcp_runs *runs, const struct rcp_result *result, struct buf *out)
{
	bool has_reference = result->reference.samples > 0;
	const struct rcp_record *reference = &result->reference;
	struct jsonw json;

	jsonw_init(&json, out);
	jsonw_object(&json, NULL);
	jsonw_text(&json, "benchmark", runs->benchmark);
	result_write_number(&json, "batch_size", runs->batch_size);
	jsonw_u64(&json, "runs", runs->count);
	jsonw_u64(&json, "wanted", runs->wanted);
	jsonw_u64(&json, "converged", runs->converged);
	result_write_number(&json, "mean", result->mean);
	result_write_number(&json, "reference_mean", has_reference ? reference->mean : NAN);
	result_write_number(&json, "reference_deviation",
			    has_reference ? reference->deviation : NAN);
	result_write_number(&json, "fastest", has_reference ? reference->fastest : NAN);

	/* Smaller batches than any of the references may take as long as they do. */
	bool has_slowest = has_reference && result->found != RCP_BELOW;
	result_write_number(&json, "slowest", has_slowest ? reference->slowest : NAN);
	result_write_number(&json, "factor", result->factor);
	jsonw_text(&json, "verdict", rcp_verdict_to_string(result->verdict));
	jsonw_end_object(&json);

	return json.rc < 0 ? json.rc : buf_add_text(out, "\n");
}

static int rcp_exit(const struct rcp_result *result, bool one_sided)
{
	if (result->verdict == RCP_SAME || (result->verdict == RCP_SLOWER && one_sided))
		return CMD_EXIT_OK;
	return result->verdict == RCP_MISSING ? FINDINGS_EXIT_NOTHING : FINDINGS_EXIT_WRONG;
}

static int rcp_report(const struct cmd_call *call, const struct rcp_runs *runs,
		      const struct rcp_result *result)
{
	const struct rcp_options *options = call->options;
	struct err err = {0};
	struct buf text _cleanup_buf_;

	buf_init(&text, RCP_REPORT_MAX);
	int rc = options->output == OPTION_OUTPUT_JSON ? rcp_json(runs, result, &text)
						       : rcp_text(runs, result, &text);
	if (rc < 0)
		return cmd_fail(call, CMD_EXIT_FAILED,
				(err_set(&err, rc, "the report is too long"), &err));

	(void)fwrite(buf_text(&text), 1, text.length, stdout); /* cmd_main() looks at stdout */
	return rcp_exit(result, options->one_sided);
}

static int rcp_main(const struct cmd_call *call)
{
	const struct rcp_options *options = call->options;
	struct err err = {0};
	struct rcp_runs runs = {0};
	struct rcp_table table _cleanup_rcp_table_;
	struct mlperf_files files _cleanup_mlperf_files_;
	struct rcp_result result;

	rcp_table_init(&table);
	files = (struct mlperf_files){0};
	if (!options->table)
		return cmd_usage(call, "--table FILE is wanted: the reference convergence points");

	int rc = mlperf_files_find(call->argv, (size_t)call->argc, &files, &err);
	if (rc == 0)
		rc = rcp_read_table(options, &table, &err);
	if (rc == 0)
		rc = rcp_read_runs(&files, &runs, &err);

	_cleanup_free_ double *epochs = runs.epochs;

	if (rc == 0 && strcmp(runs.benchmark, table.benchmark) != 0)
		rc = err_set(&err, -EINVAL, "the runs are of '%s', the table '%s' of '%s'",
			     runs.benchmark, options->table, table.benchmark);
	if (rc == 0)
		rc = rcp_judge(&table, runs.batch_size, epochs, runs.count, &result, &err);

	return rc < 0 ? cmd_fail(call, CMD_EXIT_DATA, &err) : rcp_report(call, &runs, &result);
}

static const struct cmd_exit_row rcp_exits[] = {
    {CMD_EXIT_OK, "it converges as the reference does"},
    {FINDINGS_EXIT_WRONG, "faster, slower, or too many runs did not converge"},
    {FINDINGS_EXIT_NOTHING, "there is no reference to compare it with"},
    {CMD_EXIT_USAGE, "wrong command line"},
    {CMD_EXIT_DATA, "a file cannot be read, or the runs are not of one result"},
    {0, NULL},
};

static const struct cmd_example rcp_examples[] = {
    {"sluice mlperf rcp results/resnet --table rcps_resnet.json",
     "after as many epochs as the reference?"},
    {NULL, NULL},
};

const struct command cmd_mlperf_rcp = {
    .name = "rcp",
    .summary = "Whether training converges after as many epochs as the reference",
    .description =
	"Reads the logs of one result, and compares the mean of their epochs, the fastest and the "
	"slowest run dropped, with reference convergence points. Faster than the reference can be "
	"means other mathematics; slower, that something is broken.",
    .run = rcp_main,
    .options = rcp_rows,
    .options_size = sizeof(struct rcp_options),
    .positional = "FILE|DIR...",
    .positional_min = 1,
    .positional_max = MLPERF_FILES_MAX,
    .exits = rcp_exits,
    .examples = rcp_examples,
};
