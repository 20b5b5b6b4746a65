/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/report.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/jsonw.h"
#include "base/text.h"
#include "bench/compare.h"
#include "bench/fingerprint.h"
#include "hardware/gpu.h"
#include "hardware/snapshot.h"

enum {
	REPORT_RANGE_MAX = 48,
	REPORT_VALUE_MAX = 32,
};

#define REPORT_TREND	0.01 /* a trend that is less likely than that is told of */
#define REPORT_HOPELESS ((size_t)5000)

/* --- words ------------------------------------------------------------------------------------ */

static int report_escaped(struct buf *out, const char *text)
{
	return text_escape(out, text, strlen(text));
}

/* "-0.2 % to +1.1 %" */
static const char *report_range(struct stats_interval interval, char out[REPORT_RANGE_MAX])
{
	(void)snprintf(out, REPORT_RANGE_MAX, "%+.2f %% to %+.2f %%", interval.low * 100,
		       interval.high * 100); /* cut only where it is absurd */
	return out;
}

static const char *report_value(double value, char out[REPORT_VALUE_MAX])
{
	(void)snprintf(out, REPORT_VALUE_MAX, "%.5g", value); /* fits */
	return out;
}

/* What would decide it. */
static int report_needed(const struct verdict *verdict, struct buf *out)
{
	if (verdict->pairs_one_sided > REPORT_HOPELESS)
		return buf_printf(out,
				  "  Pairs differ by %.1f %% among themselves: more than %zu pairs "
				  "would be needed, which is hopeless here. A quieter machine, a "
				  "longer run or a larger --margin decides it.\n",
				  verdict->deviation * 100, REPORT_HOPELESS);

	return buf_printf(out,
			  "  Pairs differ by %.1f %% among themselves: about %zu pairs would show "
			  "that B is not slower than that, about %zu that both are the same "
			  "(--pairs).\n",
			  verdict->deviation * 100, verdict->pairs_one_sided,
			  verdict->pairs_equivalent);
}

static int report_explain(const struct report *report, const struct compare_judgement *judgement,
			  struct buf *out)
{
	const struct verdict *verdict = &judgement->verdict;
	double margin = report->margin * 100;
	int rc = buf_printf(out, "%s: %s", judgement->metric, verdict_to_string(verdict->kind));
	if (rc < 0)
		return rc;

	switch (verdict->kind) {
	case VERDICT_EQUIVALENT:
		return buf_printf(out, ": the same within %g %%, and no difference to be seen.\n",
				  margin);
	case VERDICT_DIFFERENT_BUT_SMALL:
		return buf_printf(out, ": B is %s by %.2f %%, which is less than %g %%.\n",
				  verdict->estimate > 0 ? "worse" : "better",
				  fabs(verdict->estimate) * 100, margin);
	case VERDICT_SLOWER:
		return buf_printf(out, ": B is worse by more than %g %%.\n", margin);
	case VERDICT_FASTER:
		return buf_printf(out, ": B is better by more than %g %%.\n", margin);
	case VERDICT_TOO_FEW:
		return buf_printf(
		    out, ": %zu %s; at least %d are needed to say anything.\n", verdict->units,
		    verdict->by_blocks ? "blocks of two pairs" : "pairs", VERDICT_PAIRS_MIN);
	case VERDICT_REFUSED:
		if (judgement->calibration.kind == VERDICT_TOO_FEW)
			return buf_printf(
			    out,
			    ": A against itself depends on which runs first, and %zu "
			    "blocks are too few to see beyond that: at least %d pairs "
			    "are needed.\n",
			    judgement->calibration.units, 2 * VERDICT_PAIRS_MIN);

		if (judgement->calibration.excludes_zero)
			return buf_printf(
			    out,
			    ": A against itself gave %+.2f %% to %+.2f %%: its runs are "
			    "not alike, or one of twenty such trials has come up. Try "
			    "again, with more pairs if it stays so.\n",
			    judgement->calibration.within_95.low * 100,
			    judgement->calibration.within_95.high * 100);

		return buf_printf(
		    out,
		    ": this machine cannot resolve %g %% with so many pairs: A against "
		    "itself gave %+.2f %% to %+.2f %%, half-width %.2f %%.\n",
		    margin, judgement->calibration.within_95.low * 100,
		    judgement->calibration.within_95.high * 100, judgement->resolution * 100);
	default:
		break;
	}
	rc = verdict->excludes_zero
		 ? buf_printf(out, ": B is %s, but not whether by more than %g %%.\n",
			      verdict->estimate > 0 ? "worse" : "better", margin)
		 : buf_printf(out,
			      ": it can be told neither that both are the same within "
			      "%g %% nor that they are not.\n",
			      margin);

	return rc < 0 ? rc : report_needed(verdict, out);
}

/* What has to be known beside the verdict. */
static int report_marks_of(const struct compare_judgement *judgement, struct buf *out)
{
	const struct verdict *verdict = &judgement->verdict;
	char range[REPORT_RANGE_MAX];
	int rc = 0;

	if (verdict->by_blocks)
		rc = buf_printf(out,
				"- %s: whoever runs second is worse by %+.2f %% (95 %%: %s), so "
				"blocks of two pairs were compared.\n",
				judgement->metric, verdict->slot_effect * 100,
				report_range(verdict->slot_within_95, range));

	if (rc == 0 && verdict->trend_a < REPORT_TREND)
		rc = buf_printf(out, "- %s: A drifts in the course of the runs (p = %.2g).\n",
				judgement->metric, verdict->trend_a);
	if (rc == 0 && verdict->trend_b < REPORT_TREND)
		rc = buf_printf(out, "- %s: B drifts in the course of the runs (p = %.2g).\n",
				judgement->metric, verdict->trend_b);

	if (rc == 0 && judgement->is_unsteady)
		rc = buf_printf(out,
				"- %s: UNSTEADY: in some runs no part of the iterations "
				"was like their second half.\n",
				judgement->metric);

	if (rc == 0 && judgement->is_unpaired)
		rc = buf_printf(out,
				"- %s: unpaired: the two were recorded one after the other, "
				"and whatever changed between them counts as a difference.\n",
				judgement->metric);

	return rc;
}

static int report_gpus(uint32_t throttle, struct buf *out)
{
	static const uint32_t harmless = UINT32_C(1) << 0 | UINT32_C(1) << 1; /* idle, app_clocks */
	const char *name, *comma = "";
	int rc = 0;

	if ((throttle & ~harmless) == 0)
		return 0;

	rc = buf_add_text(out, "- GPUs were slowed down in some runs: ");
	for (uint32_t bit = 0; rc == 0 && bit < 32; bit++) {
		if (!(throttle & ~harmless & UINT32_C(1) << bit) ||
		    !(name = snapshot_throttle_to_string(bit)))
			continue;
		rc = buf_printf(out, "%s%s", comma, name);
		comma = ", ";
	}

	return rc == 0 ? buf_add_text(out, ".\n") : rc;
}

/* They are in lines, escaped. */
static int report_differences(const char *lines, struct buf *out)
{
	int rc = buf_add_text(out, "- A and B were not measured in the same place:\n");
	while (rc == 0 && *lines) {
		size_t length = strcspn(lines, "\n");
		rc = buf_printf(out, "    %.*s\n", (int)length, lines);
		lines += length + (lines[length] == '\n');
	}
	return rc;
}

static int report_marks(const struct report *report, struct buf *out)
{
	const struct compare_outcome *outcome = report->outcome;
	int rc = 0;

	if (outcome->is_simulated || (report->gpus && report->gpus->simulated))
		rc = buf_add_text(out, "- The GPUs are simulated: neither their state nor a "
				       "time of theirs is that of a GPU.\n");

	size_t runs = outcome->runs.run_count + outcome->calibration.run_count;

	for (size_t i = 0; rc == 0 && i < outcome->judgement_count; i++)
		rc = report_marks_of(&outcome->judgements[i], out);

	if (rc == 0 && outcome->disturbed_runs > 0)
		rc = buf_printf(out,
				"- %zu of %zu runs were disturbed: others had more than 1 %% of "
				"their time, their control group had to stand still, or a GPU was "
				"slowed down.\n",
				outcome->disturbed_runs, runs);

	if (rc == 0)
		rc = report_gpus(outcome->gpu_throttle, out);
	if (rc == 0 && outcome->differences)
		rc = report_differences(outcome->differences, out);

	if (rc == 0 && outcome->looks > 1)
		rc = buf_printf(out,
				"- The data may be looked at %u times, and the intervals "
				"are as much wider.\n",
				outcome->looks);

	return rc;
}

static int report_failure(const struct compare_outcome *outcome, struct buf *out)
{
	const struct result_run *run = outcome->failure;
	if (!run)
		return 0;

	int rc = buf_printf(
	    out, "FAILED: %zu of %zu runs failed. The first is run %" PRIu64 " of %s: %s %d\n",
	    outcome->failed_runs, outcome->runs.run_count + outcome->calibration.run_count,
	    run->index + 1, run->side, run->timed_out ? "too long, killed," : "exit code", run->rc);
	if (rc == 0 && run->problem[0]) {
		rc = buf_add_text(out, "  ");
		if (rc == 0)
			rc = text_escape(out, run->problem, strlen(run->problem));
		if (rc == 0)
			rc = buf_add_text(out, "\n");
	}

	for (const char *at = run->tail; rc == 0 && *at;) {
		size_t length = strcspn(at, "\n");

		rc = buf_add_text(out, "  | ");
		if (rc == 0)
			rc = text_escape(out, at, length);
		if (rc == 0)
			rc = buf_add_text(out, "\n");
		at += length + (at[length] == '\n');
	}

	return rc;
}

/* --- the table -------------------------------------------------------------------------------- */

static int report_row(const struct compare_judgement *judgement, struct buf *out)
{
	const struct verdict *verdict = &judgement->verdict;
	char a[REPORT_VALUE_MAX], b[REPORT_VALUE_MAX], r90[REPORT_RANGE_MAX], r95[REPORT_RANGE_MAX];
	bool has_interval = verdict->kind != VERDICT_TOO_FEW;

	return buf_printf(out, "%-12s %-6s %12s %12s  %+8.2f %%  %-22s  %-22s %8.2g\n",
			  judgement->metric, judgement->unit, report_value(judgement->median_a, a),
			  report_value(judgement->median_b, b), verdict->estimate * 100,
			  has_interval ? report_range(verdict->within_90, r90) : "-",
			  has_interval ? report_range(verdict->within_95, r95) : "-",
			  judgement->p_corrected);
}

static int report_table(const struct compare_outcome *outcome, struct buf *out)
{
	int rc = outcome->judgement_count == 0
		     ? 0
		     : buf_printf(out, "\n%-12s %-6s %12s %12s  %10s  %-22s  %-22s %8s\n", "METRIC",
				  "UNIT", "A", "B", "B WORSE BY", "90 %", "95 %", "P");
	for (size_t i = 0; rc == 0 && i < outcome->judgement_count; i++)
		rc = report_row(&outcome->judgements[i], out);

	return rc == 0 ? buf_add_text(out, "\n") : rc;
}

int report_text(const struct report *report, struct buf *out)
{
	const struct compare_outcome *outcome = report->outcome;
	int rc = buf_add_text(out, "A  ");
	if (rc == 0)
		rc = report_escaped(out, report->a);
	if (rc == 0)
		rc = buf_add_text(out, "\nB  ");

	if (rc == 0)
		rc = report_escaped(out, report->b);
	if (rc == 0)
		rc = buf_add_text(out, "\n");
	if (rc == 0 && outcome->runs.run_count > 0) /* none: two files, of runs apart */
		rc = buf_printf(out, "%zu pairs, ", outcome->runs.run_count / 2);
	if (rc == 0)
		rc = buf_printf(out, "margin %g %%", report->margin * 100);

	if (rc == 0 && report->seed > 0)
		rc = buf_printf(out, ", seed %" PRIu64, report->seed);
	if (rc == 0)
		rc = buf_add_text(out, "\n");
	if (rc == 0)
		rc = report_table(outcome, out);
	if (rc == 0)
		rc = report_failure(outcome, out);

	for (size_t i = 0; rc == 0 && i < outcome->judgement_count; i++)
		rc = report_explain(report, &outcome->judgements[i], out);

	return rc == 0 ? report_marks(report, out) : rc;
}

/* --- JSON ------------------------------------------------------------------------------------- */

static void report_json_interval(struct jsonw *json, const char *key,
				 struct stats_interval interval)
{
	jsonw_array(json, key);
	result_write_number(json, NULL, interval.low);
	result_write_number(json, NULL, interval.high);
	jsonw_end_array(json);
}

static void report_json_count(struct jsonw *json, const char *key, size_t count)
{
	if (count == SIZE_MAX)
		jsonw_null(json, key);
	else
		jsonw_u64(json, key, count);
}

static void report_json_verdict(struct jsonw *json, const struct compare_judgement *judgement)
{
	const struct verdict *verdict = &judgement->verdict;

	jsonw_object(json, NULL);
	jsonw_text(json, "metric", judgement->metric);
	jsonw_text(json, "verdict", verdict_to_string(verdict->kind));
	jsonw_u64(json, "units", verdict->units);
	jsonw_bool(json, "by_blocks", verdict->by_blocks);
	jsonw_bool(json, "unpaired", judgement->is_unpaired);
	jsonw_bool(json, "unsteady", judgement->is_unsteady);
	result_write_number(json, "median_a", judgement->median_a);
	result_write_number(json, "median_b", judgement->median_b);
	result_write_number(json, "worse_by", verdict->estimate);
	result_write_number(json, "geometric_mean", verdict->geometric_mean);

	report_json_interval(json, "within_90", verdict->within_90);
	report_json_interval(json, "within_95", verdict->within_95);
	result_write_number(json, "p", verdict->p);
	result_write_number(json, "p_corrected", judgement->p_corrected);
	result_write_number(json, "deviation", verdict->deviation);
	report_json_count(json, "pairs_equivalent", verdict->pairs_equivalent);
	report_json_count(json, "pairs_one_sided", verdict->pairs_one_sided);
	result_write_number(json, "slot_effect", verdict->slot_effect);
	report_json_interval(json, "slot_within_95", verdict->slot_within_95);
	result_write_number(json, "trend_a", verdict->trend_a);
	result_write_number(json, "trend_b", verdict->trend_b);

	if (judgement->has_calibration) {
		report_json_interval(json, "calibration_within_95",
				     judgement->calibration.within_95);
		result_write_number(json, "resolution", judgement->resolution);
	}

	jsonw_end_object(json);
}

int report_json(const struct report *report, struct buf *out)
{
	struct jsonw json;
	const struct compare_outcome *outcome = report->outcome;

	jsonw_init(&json, out);
	jsonw_object(&json, NULL);
	jsonw_text(&json, "schema", RESULT_SCHEMA);
	jsonw_text(&json, "tool", "sluice bench compare");
	jsonw_text(&json, "version", report->version);
	jsonw_text(&json, "started", report->started);
	jsonw_array(&json, "argv");

	for (int i = 0; i < report->argc; i++)
		jsonw_text(&json, NULL, report->argv[i]);

	jsonw_end_array(&json);
	jsonw_text(&json, "a", report->a);
	jsonw_text(&json, "b", report->b);
	jsonw_u64(&json, "seed", report->seed);
	result_write_number(&json, "margin", report->margin);
	jsonw_u64(&json, "looks", outcome->looks);
	jsonw_u64(&json, "failed_runs", outcome->failed_runs);
	jsonw_u64(&json, "disturbed_runs", outcome->disturbed_runs);
	jsonw_text(&json, "verdict", verdict_to_string(compare_kind(outcome)));
	jsonw_word(&json, "differences", outcome->differences ? outcome->differences : "");
	fingerprint_write_with(&json, "", report->environment, report->gpus);
	result_write_runs(&json, &outcome->runs);

	if (outcome->calibration.run_count > 0) {
		jsonw_object(&json, "calibration");
		result_write_runs(&json, &outcome->calibration);
		jsonw_end_object(&json);
	}

	jsonw_array(&json, "verdicts");

	for (size_t i = 0; i < outcome->judgement_count; i++)
		report_json_verdict(&json, &outcome->judgements[i]);

	jsonw_end_array(&json);
	jsonw_end_object(&json);
	return json.rc < 0 ? json.rc : buf_add_text(out, "\n");
}
