/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/scaling.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/err.h"
#include "base/parse.h"
#include "bench/stats.h"

enum { SCALING_FIELD_MAX = RESULT_NAME_MAX, SCALING_COLUMNS_MAX = 64, SCALING_FIRST = 64 };

void scaling_init(struct scaling *scaling)
{
	*scaling = (struct scaling){0};
}

void scaling_done(struct scaling *scaling)
{
	free(scaling->runs);
	scaling_init(scaling);
}

static int scaling_add(struct scaling *scaling, uint64_t workers, double rate, struct err *err)
{
	if (scaling->run_count == SCALING_RUNS_MAX)
		return err_set(err, -E2BIG, "more than %d runs", SCALING_RUNS_MAX);

	if (array_room(&scaling->runs, scaling->run_count, &scaling->run_room, SCALING_FIRST) < 0)
		return err_set(err, -ENOMEM, "no memory for the series");

	scaling->runs[scaling->run_count++] = (struct scaling_run){workers, rate};
	return 0;
}

static void scaling_name(struct scaling *scaling, const char *metric, const char *unit)
{
	if (scaling->metric[0])
		return; /* of the first file */
	(void)snprintf(scaling->metric, sizeof(scaling->metric), "%s", metric); /* cut */
	(void)snprintf(scaling->unit, sizeof(scaling->unit), "%s", unit);
}

static bool scaling_is_number(double workers)
{
	return workers >= 1 && workers <= SCALING_WORKERS_MAX && workers == floor(workers);
}

/* --- results ---------------------------------------------------------------------------------- */

bool scaling_is_series(const struct result *result)
{
	for (size_t i = 0; i < result->run_count; i++)
		if (!result_run_find(&result->runs[i], SCALING_WORKERS))
			return false;
	return result->run_count > 0;
}

static const struct result_metric *scaling_metric(const struct result_run *run, const char *metric)
{
	if (metric)
		return result_run_find(run, metric);
	for (size_t i = 0; i < run->metric_count; i++)
		if (run->metrics[i].higher_is_better &&
		    strcmp(run->metrics[i].name, SCALING_WORKERS) != 0)
			return &run->metrics[i];
	return NULL;
}

int scaling_add_result(struct scaling *scaling, const struct result *result, const char *metric,
		       struct err *err)
{
	for (size_t i = 0; i < result->run_count; i++) {
		const struct result_run *run = &result->runs[i];
		const struct result_metric *workers = result_run_find(run, SCALING_WORKERS);
		const struct result_metric *rate =
		    scaling_metric(run, scaling->metric[0] ? scaling->metric : metric);

		if (result_run_failed(run))
			return err_set(err, -EINVAL, "run %zu failed", i);
		if (!workers || !scaling_is_number(workers->value))
			return err_set(err, -EINVAL, "run %zu has no whole number of workers", i);
		if (!rate || !(rate->value >= SCALING_RATE_MIN && rate->value <= SCALING_RATE_MAX))
			return err_set(err, -EINVAL, "run %zu has no %s from 1e-15 to 1e15", i,
				       metric ? metric : "rate (a metric of which more is better)");

		scaling_name(scaling, rate->name, rate->unit);
		int added = scaling_add(scaling, (uint64_t)workers->value, rate->value, err);
		if (added < 0)
			return added;
	}

	return 0;
}

/* --- tables ----------------------------------------------------------------------------------- */

/* The next field of a line, without blanks and quotes around it; false behind the last. */
static bool scaling_field(const char **at, const char *end, char out[SCALING_FIELD_MAX])
{
	if (!*at)
		return false;

	const char *from = *at, *to = from;
	while (to < end && *to != ',' && *to != ';' && *to != '\t')
		to++;

	*at = to < end ? to + 1 : NULL;

	while (from < to && (*from == ' ' || *from == '"'))
		from++;

	while (to > from && (to[-1] == ' ' || to[-1] == '"' || to[-1] == '\r'))
		to--;

	size_t length = (size_t)(to - from);
	length = length < SCALING_FIELD_MAX ? length : SCALING_FIELD_MAX - 1;
	(void)memcpy(out, from, length);
	out[length] = '\0';

	return true;
}

struct scaling_columns {
	size_t workers, rate; /* SCALING_COLUMNS_MAX: not there */
};

static int scaling_header(struct scaling *scaling, const char *line, const char *end,
			  const char *metric, struct scaling_columns *out, struct err *err)
{
	char field[SCALING_FIELD_MAX];

	*out = (struct scaling_columns){SCALING_COLUMNS_MAX, SCALING_COLUMNS_MAX};
	for (size_t i = 0; i < SCALING_COLUMNS_MAX && scaling_field(&line, end, field); i++) {
		if (strcmp(field, SCALING_WORKERS) == 0) {
			out->workers = i;
		} else if (out->rate == SCALING_COLUMNS_MAX &&
			   (!metric || strcmp(field, metric) == 0)) {
			out->rate = i;
			scaling_name(scaling, field, "");
		}
	}

	if (out->workers == SCALING_COLUMNS_MAX)
		return err_set(err, -EINVAL, "line 1 names no column '%s'", SCALING_WORKERS);

	return out->rate < SCALING_COLUMNS_MAX
		   ? 0
		   : err_set(err, -EINVAL, "line 1 names no column '%.60s'",
			     metric ? metric : "samples/s, or another rate");
}

static int scaling_row(struct scaling *scaling, const char *line, const char *end, size_t number,
		       const struct scaling_columns *columns, struct err *err)
{
	char field[SCALING_FIELD_MAX];
	double workers = 0, rate = 0;
	for (size_t i = 0; i < SCALING_COLUMNS_MAX && scaling_field(&line, end, field); i++) {
		double *out = i == columns->workers ? &workers : i == columns->rate ? &rate : NULL;
		if (out && parse_fraction(field, 0, SCALING_RATE_MAX, out) < 0)
			return err_set(err, -EINVAL, "line %zu: '%.60s' is no number", number,
				       field);
	}

	if (!scaling_is_number(workers))
		return err_set(err, -EINVAL, "line %zu: a number of workers is wanted, 1 to %d",
			       number, SCALING_WORKERS_MAX);
	if (!(rate >= SCALING_RATE_MIN))
		return err_set(err, -EINVAL, "line %zu: a rate above 0 is wanted", number);

	return scaling_add(scaling, (uint64_t)workers, rate, err);
}

int scaling_add_csv(struct scaling *scaling, const char *text, size_t length, const char *metric,
		    struct err *err)
{
	struct scaling_columns columns;
	bool has_header = false;

	if (length > SCALING_CSV_MAX)
		return err_set(err, -EINVAL, "%zu bytes: %d are allowed", length, SCALING_CSV_MAX);

	size_t number = 1;

	for (const char *at = text, *end = length ? text + length : text; at < end; number++) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));
		const char *stop = newline ? newline : end;
		size_t blank = 0;

		while (at + blank < stop && (at[blank] == ' ' || at[blank] == '\r'))
			blank++;

		int rc = 0;

		if (at + blank == stop || *at == '#')
			rc = 0;
		else if (!has_header)
			rc = scaling_header(scaling, at, stop, metric, &columns, err);
		else
			rc = scaling_row(scaling, at, stop, number, &columns, err);

		if (rc < 0)
			return rc;

		has_header = has_header || (at + blank < stop && *at != '#');
		at = newline ? newline + 1 : end;
	}

	return has_header ? 0 : err_set(err, -EINVAL, "there is no line of names in it");
}

/* --- the series ------------------------------------------------------------------------------- */

static int scaling_compare(const void *left, const void *right)
{
	const struct scaling_run *a = left, *b = right;
	if (a->workers != b->workers)
		return a->workers < b->workers ? -1 : 1;
	return (a->rate > b->rate) - (a->rate < b->rate);
}

/* The runs from `first` on that have as many workers, whose rates rise. */
static struct scaling_point scaling_point_of(const struct scaling *scaling, size_t first)
{
	const struct scaling_run *runs = &scaling->runs[first];
	size_t count = 1;
	while (first + count < scaling->run_count && runs[count].workers == runs->workers)
		count++;

	return (struct scaling_point){
	    .workers = runs->workers,
	    .runs = count,
	    .low = runs->rate,
	    .high = runs[count - 1].rate,
	    .rate = count % 2 ? runs[count / 2].rate
			      : (runs[count / 2 - 1].rate + runs[count / 2].rate) / 2,
	};
}

int scaling_end(struct scaling *scaling, struct err *err)
{
	if (scaling->run_count > 0)
		qsort(scaling->runs, scaling->run_count, sizeof(*scaling->runs), scaling_compare);

	for (size_t i = 0; i < scaling->run_count; i += scaling->points[scaling->count - 1].runs) {
		if (scaling->count == SCALING_POINTS_MAX)
			return err_set(err, -E2BIG, "more than %d numbers of workers",
				       SCALING_POINTS_MAX);
		scaling->points[scaling->count++] = scaling_point_of(scaling, i);
	}

	if (scaling->count < 2)
		return err_set(err, -EINVAL,
			       "%zu number of workers: a series has two at least (each run says "
			       "how many it had)",
			       scaling->count);

	const struct scaling_point *base = &scaling->points[0];

	for (size_t i = 0; i < scaling->count; i++) {
		struct scaling_point *point = &scaling->points[i];
		double times = (double)point->workers / (double)base->workers;

		point->speed_up = point->rate / base->rate;
		point->efficiency = point->speed_up / times;
		point->efficiency_low = i ? point->low / base->high / times : 1;
		point->efficiency_high = i ? point->high / base->low / times : 1;
	}

	return 0;
}
