/* SPDX-License-Identifier: Apache-2.0 */
/* The report as a page: see report.h. */
#include "bench/report.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/buf.h"
#include "bench/compare.h"
#include "bench/html.h"

enum {
	PLOT_WIDTH = 860,
	PLOT_HEIGHT = 260,
	PLOT_EDGE = 60, /* on the left, for the numbers; a third of it elsewhere */
	PLOT_LINES = 5,
	PLOT_ROW = 40,
};

/* --- all runs in their order ------------------------------------------------------------------ */

struct html_scale {
	double low, high;
};

static double html_x(size_t i, size_t count)
{
	double width = PLOT_WIDTH - PLOT_EDGE - PLOT_EDGE / 3;
	return PLOT_EDGE + width * ((double)i + 0.5) / (double)count;
}

static double html_y(const struct html_scale *scale, double value)
{
	double height = PLOT_HEIGHT - 2 * PLOT_EDGE / 3;
	double range = scale->high > scale->low ? scale->high - scale->low : 1;
	return PLOT_EDGE / 3 + height * (1 - (value - scale->low) / range);
}

static struct html_scale html_scale_of(const struct result *runs, const char *metric)
{
	struct html_scale scale = {INFINITY, -INFINITY};

	for (size_t i = 0; i < runs->run_count; i++) {
		const struct result_metric *found = result_run_find(&runs->runs[i], metric);
		if (!found)
			continue;
		scale.low = found->value < scale.low ? found->value : scale.low;
		scale.high = found->value > scale.high ? found->value : scale.high;
	}

	return scale;
}

static int html_runs(const struct result *runs, const struct compare_judgement *judgement,
		     struct buf *out)
{
	struct html_scale scale = html_scale_of(runs, judgement->metric);
	int rc = buf_printf(out,
			    "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"%s of each "
			    "run in its order\">\n",
			    PLOT_WIDTH, PLOT_HEIGHT, judgement->metric);

	for (int i = 0; rc == 0 && i < PLOT_LINES; i++) {
		double value = scale.low + (scale.high - scale.low) * i / (PLOT_LINES - 1);
		double y = html_y(&scale, value);

		rc = buf_printf(out,
				"<line class=\"grid\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" "
				"y2=\"%.1f\"/><text x=\"0\" y=\"%.1f\">%.4g</text>\n",
				PLOT_EDGE, PLOT_WIDTH - PLOT_EDGE / 3, y, y, y + 4, value);
	}

	for (size_t i = 0; rc == 0 && i < runs->run_count; i++) {
		const struct result_run *run = &runs->runs[i];
		const struct result_metric *found = result_run_find(run, judgement->metric);
		if (!found)
			continue;

		rc = buf_printf(out,
				"<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" "
				"r=\"%s\"><title>run %" PRIu64 " of %s: %.6g %s%s</title>"
				"</circle>\n",
				strcmp(run->side, "A") == 0 ? "a" : "b", html_x(i, runs->run_count),
				html_y(&scale, found->value), compare_is_disturbed(run) ? "2" : "4",
				run->index + 1, run->side, found->value, judgement->unit,
				compare_is_disturbed(run) ? ", disturbed" : "");
	}

	return rc == 0 ? buf_add_text(out, "</svg>\n") : rc;
}

/* --- what B is worse by ----------------------------------------------------------------------- */

static double html_ratio_x(double worse_by, double reach)
{
	double half = (PLOT_WIDTH - 2.0 * PLOT_EDGE) / 2;
	double at = worse_by / reach;
	at = at > 1 ? 1 : at < -1 ? -1 : at;
	return PLOT_EDGE + half * (1 + at);
}

static int html_interval(const struct report *report, struct buf *out)
{
	const struct compare_outcome *outcome = report->outcome;
	double reach = 2 * report->margin;
	for (size_t i = 0; i < outcome->judgement_count; i++) {
		const struct verdict *verdict = &outcome->judgements[i].verdict;
		double far = fmax(fabs(verdict->within_95.low), fabs(verdict->within_95.high));
		reach = far * 1.1 > reach ? far * 1.1 : reach;
	}

	int height = PLOT_ROW * ((int)outcome->judgement_count + 1);
	double left = html_ratio_x(-report->margin, reach);
	double right = html_ratio_x(report->margin, reach), zero = html_ratio_x(0, reach);
	int rc = buf_printf(
	    out,
	    "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"what B is worse by, with its "
	    "intervals and the margin\">\n<rect class=\"margin\" x=\"%.1f\" y=\"0\" "
	    "width=\"%.1f\" height=\"%d\"/><line class=\"zero\" x1=\"%.1f\" x2=\"%.1f\" y1=\"0\" "
	    "y2=\"%d\"/>\n",
	    PLOT_WIDTH, height, left, right - left, height - PLOT_ROW, zero, zero,
	    height - PLOT_ROW);

	for (size_t i = 0; rc == 0 && i < outcome->judgement_count; i++) {
		const struct compare_judgement *judgement = &outcome->judgements[i];
		const struct verdict *verdict = &judgement->verdict;
		int y = PLOT_ROW * (int)i + PLOT_ROW / 2;

		rc = buf_printf(
		    out,
		    "<text x=\"0\" y=\"%d\">%s</text><line class=\"range\" x1=\"%.1f\" "
		    "x2=\"%.1f\" y1=\"%d\" y2=\"%d\"/><line class=\"range fat\" x1=\"%.1f\" "
		    "x2=\"%.1f\" y1=\"%d\" y2=\"%d\"/><circle class=\"b\" cx=\"%.1f\" cy=\"%d\" "
		    "r=\"6\"><title>%+.3f %%</title></circle>\n",
		    y + 4, judgement->metric, html_ratio_x(verdict->within_95.low, reach),
		    html_ratio_x(verdict->within_95.high, reach), y, y,
		    html_ratio_x(verdict->within_90.low, reach),
		    html_ratio_x(verdict->within_90.high, reach), y, y,
		    html_ratio_x(verdict->estimate, reach), y, verdict->estimate * 100);
	}

	return rc < 0 ? rc
		      : buf_printf(out,
				   "<text x=\"%.1f\" y=\"%d\">-%g %%</text><text x=\"%.1f\" "
				   "y=\"%d\">+%g %%</text></svg>\n",
				   left - 30, height - 10, report->margin * 100, right - 10,
				   height - 10, report->margin * 100);
}

int report_html(const struct report *report, struct buf *out)
{
	const struct compare_outcome *outcome = report->outcome;
	struct buf text _cleanup_buf_;

	buf_init(&text, out->max);
	int rc = report_text(report, &text);
	if (rc == 0)
		rc = html_begin(out, "sluice bench compare");
	if (rc == 0)
		rc =
		    buf_printf(out, "<h1>%s</h1>\n<pre>", verdict_to_string(compare_kind(outcome)));

	if (rc == 0)
		rc = html_text(out, buf_text(&text));
	if (rc == 0)
		rc = buf_add_text(out, "</pre>\n");
	if (rc == 0 && outcome->judgement_count > 0)
		rc = buf_add_text(out, "<h2>What B is worse by</h2>\n<p>Thick: 90 %, thin: 95 "
				       "%, grey: the margin.</p>\n");
	if (rc == 0 && outcome->judgement_count > 0)
		rc = html_interval(report, out);

	for (size_t i = 0; rc == 0 && i < outcome->judgement_count; i++) {
		const struct compare_judgement *judgement = &outcome->judgements[i];
		rc = buf_printf(out,
				"<h2>%s of each run, in %s</h2>\n<p><span class=\"a\">&#9679;"
				"</span> A is blue, B is orange; small: disturbed.</p>\n",
				judgement->metric, judgement->unit);
		if (rc == 0)
			rc = html_runs(&outcome->runs, judgement, out);
	}

	return rc < 0 ? rc
		      : buf_printf(out, "<p>sluice %s, %s</p>\n</html>\n", report->version,
				   report->started);
}
