/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/rcp.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/names.h"
#include "bench/mlrun.h"
#include "bench/stats.h"

#define RCP_ALPHA		 0.05
#define RCP_TOLERANCE		 0.0001 /* epochs, of the smallest acceptable mean */
#define RCP_NOT_CONVERGED_EPOCHS 1e9

/* A result has N runs; N - 2 of them are taken for samples, whatever is dropped. */
static size_t rcp_runs(const char *benchmark, size_t *out_drop)
{
	bool is_known;
	return mlrun_count(benchmark, out_drop, &is_known);
}

static double rcp_olympic(double *epochs, size_t count, size_t drop)
{
	stats_sort(epochs, count);
	return stats_mean(epochs + drop, count - 2 * drop);
}

/* Whether a result with this mean can be the reference: Student's test of two samples with the same
 * deviation, of `samples` and of `runs` runs. */
static bool rcp_is_possible(const struct rcp_record *record, size_t runs, double mean)
{
	double n = (double)record->samples, m = (double)runs;
	double pooled = record->deviation * sqrt((n - 1 + m - 1) / (n + m - 2));
	double t = (mean - record->mean) / (pooled * sqrt(1 / n + 1 / m));
	return stats_student_below(t, n + m - 2) > RCP_ALPHA;
}

static void rcp_bound(struct rcp_record *record, size_t runs)
{
	double low = 0, high = record->mean;

	record->fastest = record->slowest = record->mean;
	if (!(record->deviation > 0))
		return;

	while (high - low > RCP_TOLERANCE) {
		double middle = low + (high - low) / 2;
		if (middle <= low || middle >= high)
			break; /* numbers so large that there is none between */
		if (rcp_is_possible(record, runs, middle))
			high = middle;
		else
			low = middle;
	}

	record->fastest = low + (high - low) / 2;
	record->slowest = record->mean + (record->mean - record->fastest); /* Student's is even */
}

static double rcp_population_deviation(const double *values, size_t count)
{
	return stats_deviation(values, count) * sqrt((double)(count - 1) / (double)count);
}

void rcp_table_init(struct rcp_table *table)
{
	*table = (struct rcp_table){0};
}

void rcp_table_done(struct rcp_table *table)
{
	free(table->records);
	rcp_table_init(table);
}

/* --- reading ---------------------------------------------------------------------------------- */

static int rcp_read_epochs(const char *name, json_t *list, size_t drop, struct rcp_record *out,
			   struct err *err)
{
	size_t count = json_array_size(list); /* 0: not an array */
	if (count <= 2 * drop + 1 || count > RCP_EPOCHS_MAX)
		return err_set(
		    err, -EINVAL,
		    "record '%.64s': \"Epochs to converge\": a list of %zu to %d numbers "
		    "is wanted",
		    name, 2 * drop + 2, RCP_EPOCHS_MAX);

	_cleanup_free_ double *epochs = calloc(count, sizeof(*epochs));
	if (!epochs)
		return err_set(err, -ENOMEM, "no memory for the reference");

	for (size_t i = 0; i < count; i++) {
		json_t *value = json_array_get(list, i);
		epochs[i] = json_number_value(value);
		if (!json_is_number(value) || !(epochs[i] > 0) ||
		    !(epochs[i] < RCP_NOT_CONVERGED_EPOCHS))
			return err_set(err, -EINVAL,
				       "record '%.64s': \"Epochs to converge\"[%zu]: a number of "
				       "epochs above 0 is wanted",
				       name, i);
	}

	out->deviation = rcp_population_deviation(epochs, count);
	out->mean = rcp_olympic(epochs, count, drop);
	out->samples = count - 2 * drop;

	return 0;
}

static int rcp_read_record(const char *name, json_t *value, struct rcp_table *table,
			   struct err *err)
{
	const char *benchmark = json_string_value(json_object_get(value, "Benchmark"));
	json_t *size = json_object_get(value, "BS");
	struct rcp_record record = {.batch_size = json_number_value(size)};
	size_t drop;

	if (!benchmark || !benchmark[0] || strlen(benchmark) >= sizeof(table->benchmark))
		return err_set(err, -EINVAL, "record '%.64s': \"Benchmark\" is wanted", name);
	if (table->count > 0 && strcmp(table->benchmark, benchmark) != 0)
		return err_set(err, -EINVAL, "record '%.64s' is of %.64s, those before it of %s",
			       name, benchmark, table->benchmark);

	(void)memcpy(table->benchmark, benchmark, strlen(benchmark) + 1);
	if (!json_is_number(size) || !(record.batch_size > 0) || !isfinite(record.batch_size))
		return err_set(err, -EINVAL, "record '%.64s': \"BS\", the batch size, is wanted",
			       name);

	for (size_t i = 0; i < table->count; i++)
		if (table->records[i].batch_size == record.batch_size)
			return err_set(err, -EINVAL,
				       "record '%.64s': the batch size %.15g is there twice", name,
				       record.batch_size);

	size_t runs = rcp_runs(benchmark, &drop);
	int rc =
	    rcp_read_epochs(name, json_object_get(value, "Epochs to converge"), drop, &record, err);
	if (rc < 0)
		return rc;

	rcp_bound(&record, runs - 2);
	table->records[table->count++] = record;
	return 0;
}

static int rcp_compare(const void *left, const void *right)
{
	const struct rcp_record *a = left, *b = right;
	return (a->batch_size > b->batch_size) - (a->batch_size < b->batch_size);
}

int rcp_table_parse(const char *text, size_t length, struct rcp_table *out, struct err *err)
{
	json_error_t where;
	const char *name;
	json_t *value;
	int rc = 0;

	rcp_table_init(out);
	if (length > RCP_TABLE_BYTES_MAX)
		return err_set(err, -EINVAL, "%zu bytes: %d are allowed", length,
			       RCP_TABLE_BYTES_MAX);

	json_t *root = json_loadb(length ? text : "", length, JSON_REJECT_DUPLICATES, &where);
	if (!root)
		return err_set(err, -EINVAL, "line %d, column %d: %s", where.line, where.column,
			       where.text);

	size_t count = json_object_size(root); /* 0: not an object */
	if (count == 0 || count > RCP_RECORDS_MAX)
		rc = err_set(err, -EINVAL, "an object with 1 to %d records is wanted",
			     RCP_RECORDS_MAX);
	if (rc == 0 && !(out->records = calloc(count, sizeof(*out->records))))
		rc = err_set(err, -ENOMEM, "no memory for the reference");
	if (rc == 0)
		json_object_foreach(root, name, value) if (rc == 0) rc =
		    rcp_read_record(name, value, out, err);

	json_decref(root);
	if (rc < 0)
		rcp_table_done(out);
	else
		qsort(out->records, out->count, sizeof(*out->records), rcp_compare);

	return rc;
}

/* --- pruning and finding ---------------------------------------------------------------------- */

static struct rcp_record rcp_between(const struct rcp_record *low, const struct rcp_record *high,
				     double batch_size, size_t runs)
{
	double part = (batch_size - low->batch_size) / (high->batch_size - low->batch_size);
	struct rcp_record record = {
	    .batch_size = batch_size,
	    .mean = low->mean + part * (high->mean - low->mean),
	    .deviation = low->deviation + part * (high->deviation - low->deviation),
	    .samples = 2 * runs,
	};

	rcp_bound(&record, runs - 2);
	return record;
}

static void rcp_drop(struct rcp_table *table, size_t from, size_t count)
{
	(void)memmove(&table->records[from], &table->records[from + count],
		      (table->count - from - count) * sizeof(*table->records));
	table->count -= count;
}

int rcp_table_prune(struct rcp_table *table, struct err *err)
{
	size_t drop, runs = rcp_runs(table->benchmark, &drop), fastest = 0;

	if (table->count == 0)
		return err_set(err, -EINVAL, "the table of references is empty");

	for (size_t i = 1; i < table->count; i++)
		if (table->records[i].mean < table->records[fastest].mean)
			fastest = i;

	rcp_drop(table, 0, fastest);

	for (size_t i = 1; i + 1 < table->count;) {
		struct rcp_record *record = &table->records[i];
		struct rcp_record line =
		    rcp_between(record - 1, record + 1, record->batch_size, runs);
		/* Those before it are not looked at again, though they have other neighbours now:
		 * so does the checker of the rules. */
		if (record->mean > line.mean)
			rcp_drop(table, i, 1);
		else
			i++;
	}

	return 0;
}

enum rcp_found rcp_table_find(const struct rcp_table *table, double batch_size,
			      struct rcp_record *out)
{
	size_t drop, runs = rcp_runs(table->benchmark, &drop), above = 0;
	while (above < table->count && table->records[above].batch_size < batch_size)
		above++;

	if (above == table->count)
		return RCP_ABOVE;
	if (table->records[above].batch_size == batch_size || above == 0) {
		*out = table->records[above];
		return out->batch_size == batch_size ? RCP_EXACT : RCP_BELOW;
	}

	*out = rcp_between(&table->records[above - 1], &table->records[above], batch_size, runs);
	return RCP_BETWEEN;
}

/* --- judging ---------------------------------------------------------------------------------- */

const char *rcp_verdict_to_string(enum rcp_verdict verdict)
{
	static const char *const names[] = {"same", "faster", "slower", "missing", "not converged"};
	return names_at(names, verdict, "?");
}

static enum rcp_verdict rcp_verdict_of(const struct rcp_result *result)
{
	const struct rcp_record *reference = &result->reference;
	if (result->mean < reference->fastest)
		return result->found == RCP_BELOW ? RCP_MISSING : RCP_FASTER;
	/* Smaller batches may well take longer; of more than that the reference says nothing. */
	if (result->found != RCP_BELOW && result->mean > reference->slowest)
		return RCP_SLOWER;
	return RCP_SAME;
}

int rcp_judge(const struct rcp_table *table, double batch_size, double *epochs, size_t count,
	      struct rcp_result *out, struct err *err)
{
	size_t drop, failed = 0;
	(void)rcp_runs(table->benchmark, &drop);

	if (count <= 2 * drop)
		return err_set(err, -EINVAL, "%zu runs: %zu of them would be dropped", count,
			       2 * drop);

	for (size_t i = 0; i < count; i++) {
		failed += isnan(epochs[i]);
		if (isnan(epochs[i]))
			epochs[i] = RCP_NOT_CONVERGED_EPOCHS;
	}

	*out = (struct rcp_result){.factor = 1, .mean = rcp_olympic(epochs, count, drop)};
	out->found = rcp_table_find(table, batch_size, &out->reference);

	if (failed > drop) {
		out->verdict = RCP_NOT_CONVERGED;
		out->mean = NAN;
	} else if (out->found == RCP_ABOVE)

		out->verdict = RCP_MISSING;
	else
		out->verdict = rcp_verdict_of(out);
	if (out->verdict == RCP_SAME && out->mean < out->reference.mean)
		out->factor = out->reference.mean / out->mean;

	return 0;
}
