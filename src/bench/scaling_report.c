/* SPDX-License-Identifier: Apache-2.0 */
/* A scaling series as a table, a page and JSON: see scaling.h. */
#include "bench/scaling.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/buf.h"
#include "base/jsonw.h"
#include "base/text.h"
#include "bench/html.h"

enum {
	SCALING_WIDTH = 860,
	SCALING_HEIGHT = 300,
	SCALING_LEFT = 70,
	SCALING_EDGE = 30,
	SCALING_LINES = 5,
};

int scaling_text(const struct scaling *scaling, struct buf *out)
{
	struct buf name _cleanup_buf_;

	buf_init(&name, 8 * RESULT_NAME_MAX);
	int rc = text_escape(&name, scaling->metric, strlen(scaling->metric));
	if (rc == 0)
		rc = buf_printf(out, "%7s %5s %14s %14s %14s %8s %10s  %s\n", "WORKERS", "RUNS",
				buf_text(&name), "LOWEST", "HIGHEST", "SPEED-UP", "EFFICIENCY",
				"BETWEEN");

	for (size_t i = 0; rc == 0 && i < scaling->count; i++) {
		const struct scaling_point *point = &scaling->points[i];
		rc = buf_printf(out,
				"%7" PRIu64 " %5zu %14.6g %14.6g %14.6g %8.2f %8.1f %%  %.1f "
				"and %.1f %%\n",
				point->workers, point->runs, point->rate, point->low, point->high,
				point->speed_up, point->efficiency * 100,
				point->efficiency_low * 100, point->efficiency_high * 100);
	}

	return rc == 0 ? buf_printf(out,
				    "Efficiency: of %" PRIu64 " workers' rate, each; between "
				    "what the slowest and the fastest runs would give.\n",
				    scaling->points[0].workers)
		       : rc;
}

void scaling_json(const struct scaling *scaling, struct jsonw *json)
{
	jsonw_text(json, "metric", scaling->metric);
	jsonw_text(json, "unit", scaling->unit);
	jsonw_array(json, "scaling");

	for (size_t i = 0; i < scaling->count; i++) {
		const struct scaling_point *point = &scaling->points[i];

		jsonw_object(json, NULL);
		jsonw_u64(json, "workers", point->workers);
		jsonw_u64(json, "runs", point->runs);
		result_write_number(json, "rate", point->rate);
		result_write_number(json, "lowest", point->low);
		result_write_number(json, "highest", point->high);
		result_write_number(json, "speed_up", point->speed_up);
		result_write_number(json, "efficiency", point->efficiency);
		result_write_number(json, "efficiency_low", point->efficiency_low);
		result_write_number(json, "efficiency_high", point->efficiency_high);
		jsonw_end_object(json);
	}

	jsonw_end_array(json);
}

/* --- the page --------------------------------------------------------------------------------- */

struct scaling_plot {
	const struct scaling *scaling;
	double top;	/* of the vertical axis, from 0 on */
	double percent; /* 100: values are parts of 1 */
	double (*value)(const struct scaling_point *point);
	double (*low)(const struct scaling_point *point);
	double (*high)(const struct scaling_point *point);
	const char *label;
};

static double scaling_x(const struct scaling *scaling, double workers)
{
	double last = (double)scaling->points[scaling->count - 1].workers;
	return SCALING_LEFT + (SCALING_WIDTH - SCALING_LEFT - SCALING_EDGE) * workers / last;
}

static double scaling_y(const struct scaling_plot *plot, double value)
{
	double height = SCALING_HEIGHT - 2 * SCALING_EDGE;
	return SCALING_EDGE + height * (1 - value / plot->top);
}

static int scaling_grid(const struct scaling_plot *plot, struct buf *out)
{
	int rc = buf_printf(out, "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"%s\">\n",
			    SCALING_WIDTH, SCALING_HEIGHT, plot->label);

	for (int i = 0; rc == 0 && i < SCALING_LINES; i++) {
		double value = plot->top * i / (SCALING_LINES - 1), y = scaling_y(plot, value);
		rc = buf_printf(out,
				"<line class=\"grid\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" "
				"y2=\"%.1f\"/><text x=\"0\" y=\"%.1f\">%.4g%s</text>\n",
				SCALING_LEFT, SCALING_WIDTH - SCALING_EDGE, y, y, y + 4,
				value * plot->percent, plot->percent > 1 ? " %" : "");
	}

	for (size_t i = 0; rc == 0 && i < plot->scaling->count; i++)
		rc = buf_printf(
		    out, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%" PRIu64 "</text>\n",
		    scaling_x(plot->scaling, (double)plot->scaling->points[i].workers),
		    SCALING_HEIGHT - 8, plot->scaling->points[i].workers);

	return rc;
}

/* What was measured: a line through the medians, and each one's range. */
static int scaling_curve(const struct scaling_plot *plot, struct buf *out)
{
	const struct scaling *scaling = plot->scaling;
	int rc = buf_add_text(out, "<polyline class=\"line\" points=\"");
	for (size_t i = 0; rc == 0 && i < scaling->count; i++)
		rc = buf_printf(out, "%.1f,%.1f ",
				scaling_x(scaling, (double)scaling->points[i].workers),
				scaling_y(plot, plot->value(&scaling->points[i])));

	if (rc == 0)
		rc = buf_add_text(out, "\"/>\n");

	for (size_t i = 0; rc == 0 && i < scaling->count; i++) {
		const struct scaling_point *point = &scaling->points[i];
		double x = scaling_x(scaling, (double)point->workers);

		rc = buf_printf(
		    out,
		    "<line class=\"range\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>"
		    "<circle class=\"a\" cx=\"%.1f\" cy=\"%.1f\" r=\"4\"><title>%" PRIu64
		    " workers: %.6g%s</title></circle>\n",
		    x, x, scaling_y(plot, plot->low(point)), scaling_y(plot, plot->high(point)), x,
		    scaling_y(plot, plot->value(point)), point->workers,
		    plot->value(point) * plot->percent, plot->percent > 1 ? " %" : "");
	}

	return rc == 0 ? buf_add_text(out, "</svg>\n") : rc;
}

static double scaling_rate(const struct scaling_point *point)
{
	return point->rate;
}

static double scaling_low(const struct scaling_point *point)
{
	return point->low;
}

static double scaling_high(const struct scaling_point *point)
{
	return point->high;
}

static double scaling_efficiency(const struct scaling_point *point)
{
	return point->efficiency;
}

static double scaling_efficiency_low(const struct scaling_point *point)
{
	return point->efficiency_low;
}

static double scaling_efficiency_high(const struct scaling_point *point)
{
	return point->efficiency_high;
}

static int scaling_plots(const struct scaling *scaling, struct buf *out)
{
	const struct scaling_point *first = &scaling->points[0];
	const struct scaling_point *last = &scaling->points[scaling->count - 1];
	double each = first->rate / (double)first->workers;
	struct scaling_plot rate = {
	    scaling,	  each * (double)last->workers, 1, scaling_rate, scaling_low,
	    scaling_high, "rate by number of workers"};
	struct scaling_plot part = {scaling,
				    1,
				    100,
				    scaling_efficiency,
				    scaling_efficiency_low,
				    scaling_efficiency_high,
				    "efficiency by number of workers"};

	for (size_t i = 0; i < scaling->count; i++) {
		rate.top = fmax(rate.top, scaling->points[i].high);
		part.top = fmax(part.top, scaling->points[i].efficiency_high);
	}

	int rc = scaling_grid(&rate, out);
	if (rc == 0) /* if all were as fast as the first */
		rc = buf_printf(
		    out, "<line class=\"zero\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n",
		    scaling_x(scaling, (double)first->workers), scaling_y(&rate, first->rate),
		    scaling_x(scaling, (double)last->workers),
		    scaling_y(&rate, each * (double)last->workers));

	if (rc == 0)
		rc = scaling_curve(&rate, out);
	if (rc == 0)
		rc = buf_add_text(out, "<h2>Efficiency</h2>\n");
	if (rc == 0)
		rc = scaling_grid(&part, out);

	return rc == 0 ? scaling_curve(&part, out) : rc;
}

int scaling_html(const struct scaling *scaling, const char *version, const char *started,
		 struct buf *out)
{
	struct buf text _cleanup_buf_;

	buf_init(&text, out->max);
	int rc = scaling_text(scaling, &text);
	if (rc == 0)
		rc = html_begin(out, "sluice bench compare: scaling");
	if (rc == 0)
		rc = buf_add_text(out, "<h1>Scaling</h1>\n<pre>");

	if (rc == 0)
		rc = html_text(out, buf_text(&text));
	if (rc == 0)
		rc = buf_add_text(out, "</pre>\n<h2>");
	if (rc == 0)
		rc = html_text(out, scaling->metric);
	if (rc == 0)
		rc = buf_add_text(out, "</h2>\n<p>Grey: if all workers were as fast as the "
				       "first. Bars: the slowest and the fastest run.</p>\n");

	if (rc == 0)
		rc = scaling_plots(scaling, out);

	return rc == 0 ? buf_printf(out, "<p>sluice %s, %s</p>\n</html>\n", version, started) : rc;
}
