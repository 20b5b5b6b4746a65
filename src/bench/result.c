/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/result.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/jsonw.h"
#include "bench/steady.h"

enum { RESULT_NUMBER_MAX = 40, RESULT_RUNS_FIRST = 64 };

void result_run_init(struct result_run *run)
{
	*run = (struct result_run){.side = "-"};
}

void result_run_done(struct result_run *run)
{
	for (size_t i = 0; i < run->metric_count; i++)
		free(run->metrics[i].samples);
	free(run->metrics);
	result_run_init(run);
}

const struct result_metric *result_run_find(const struct result_run *run, const char *name)
{
	for (size_t i = 0; i < run->metric_count; i++)
		if (strcmp(run->metrics[i].name, name) == 0)
			return &run->metrics[i];
	return NULL;
}

bool result_run_failed(const struct result_run *run)
{
	return run->rc != 0 || run->timed_out;
}

/* The metric of that name, or a new one. */
static struct result_metric *result_run_place(struct result_run *run, const char *name,
					      struct err *err)
{
	for (size_t i = 0; i < run->metric_count; i++)
		if (strcmp(run->metrics[i].name, name) == 0)
			return &run->metrics[i];

	if (run->metric_count >= RESULT_METRICS_MAX) {
		(void)err_set(err, -E2BIG, "more than %d metrics of one run", RESULT_METRICS_MAX);
		return NULL;
	}

	struct result_metric *more =
	    reallocarray(run->metrics, run->metric_count + 1, sizeof(*more));
	if (!more) {
		(void)err_set(err, -ENOMEM, "no memory for the metric '%s'", name);
		return NULL;
	}

	run->metrics = more;
	struct result_metric *metric = &more[run->metric_count++];
	*metric = (struct result_metric){0};
	(void)snprintf(metric->name, sizeof(metric->name), "%s", name); /* was measured */

	return metric;
}

int result_run_add(struct result_run *run, const char *name, const char *unit,
		   bool higher_is_better, const double *samples, size_t count, struct err *err)
{
	static const char letters[] =
	    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	    "_-./";
	if (name[0] == '\0' || strlen(name) >= RESULT_NAME_MAX || name[strspn(name, letters)])
		return err_set(err, -EINVAL,
			       "'%.80s' is no name of a metric: 1 to %d letters, digits and '_-./'",
			       name, RESULT_NAME_MAX - 1);

	if (strlen(unit) >= RESULT_UNIT_MAX)
		return err_set(err, -EINVAL, "the metric '%s': the unit '%.32s' is too long", name,
			       unit);

	for (size_t i = 0; i < count; i++)
		if (!isfinite(samples[i]))
			return err_set(err, -EINVAL, "sample %zu of '%s' is no number", i + 1,
				       name);

	struct steady steady;
	int rc = steady_find(samples, count, &steady, err);
	if (rc < 0)
		return err_wrap(err, "the metric '%s'", name);

	_cleanup_free_ double *own = calloc(count, sizeof(*own));
	if (!own)
		return err_set(err, -ENOMEM, "no memory for the metric '%s'", name);

	memcpy(own, samples, count * sizeof(*own));
	struct result_metric *metric = result_run_place(run, name, err);
	if (!metric)
		return run->metric_count < RESULT_METRICS_MAX ? -ENOMEM : -E2BIG;

	free(metric->samples);
	metric->samples = take_ptr(own);
	metric->sample_count = count;
	metric->higher_is_better = higher_is_better;
	metric->value = steady.median;
	metric->is_unsteady = !steady.is_steady;
	(void)snprintf(metric->unit, sizeof(metric->unit), "%s", unit); /* was measured */

	return 0;
}

void result_init(struct result *result)
{
	*result = (struct result){0};
}

void result_done(struct result *result)
{
	for (size_t i = 0; i < result->run_count; i++)
		result_run_done(&result->runs[i]);

	free(result->runs);
	free(result->fingerprint);
	if (result->calibration)
		result_done(result->calibration); /* has none of its own */
	free(result->calibration);
	result_init(result);
}

struct result_run *result_add_run(struct result *result)
{
	if (result->run_count >= RESULT_RUNS_MAX ||
	    array_room(&result->runs, result->run_count, &result->run_room, RESULT_RUNS_FIRST) < 0)
		return NULL;

	struct result_run *run = &result->runs[result->run_count++];
	result_run_init(run);
	return run;
}

/* --- reading ---------------------------------------------------------------------------------- */

static uint64_t result_read_u64(const json_t *object, const char *key)
{
	json_int_t number = json_integer_value(json_object_get(object, key));
	return number > 0 ? (uint64_t)number : 0;
}

static int result_read_samples(const json_t *list, double **out, size_t *out_count, struct err *err)
{
	size_t count = json_array_size(list);
	if (count == 0 || count > RESULT_SAMPLES_MAX)
		return err_set(err, -EINVAL, "samples: 1 to %d numbers are wanted",
			       RESULT_SAMPLES_MAX);

	_cleanup_free_ double *samples = calloc(count, sizeof(*samples));
	if (!samples)
		return err_set(err, -ENOMEM, "no memory for %zu samples", count);

	for (size_t i = 0; i < count; i++) {
		const json_t *sample = json_array_get(list, i);
		if (!json_is_number(sample))
			return err_set(err, -EINVAL, "samples[%zu] is no number", i);
		samples[i] = json_number_value(sample);
	}

	*out = take_ptr(samples);
	*out_count = count;
	return 0;
}

static int result_read_metric(const char *name, const json_t *from, struct result_run *out,
			      struct err *err)
{
	const char *unit = json_string_value(json_object_get(from, "unit"));
	const char *better = json_string_value(json_object_get(from, "better"));
	if (better && strcmp(better, "lower") != 0 && strcmp(better, "higher") != 0)
		return err_set(err, -EINVAL, "better: 'lower' or 'higher' is wanted");

	_cleanup_free_ double *samples = NULL;
	size_t count = 0;
	int rc = result_read_samples(json_object_get(from, "samples"), &samples, &count, err);

	return rc < 0
		   ? rc
		   : result_run_add(out, name, unit ? unit : "",
				    better && strcmp(better, "higher") == 0, samples, count, err);
}

static int result_read_run(const json_t *from, struct result_run *out, struct err *err)
{
	const char *side = json_string_value(json_object_get(from, "side"));

	if (!json_is_object(from))
		return err_set(err, -EINVAL, "it is no object");
	if (side && strlen(side) >= sizeof(out->side))
		return err_set(err, -EINVAL, "side: '%.40s' is too long", side);

	(void)snprintf(out->side, sizeof(out->side), "%s", side ? side : "-"); /* was measured */
	out->index = result_read_u64(from, "index");
	out->block = result_read_u64(from, "block");
	out->slot = (uint32_t)result_read_u64(from, "slot");
	out->start_ns = result_read_u64(from, "start_ns");
	out->end_ns = result_read_u64(from, "end_ns");
	out->rc = (int)(json_integer_value(json_object_get(from, "rc")) & 0xffff);
	out->timed_out = json_is_true(json_object_get(from, "timed_out"));

	const json_t *events = json_object_get(from, "env_events");
	out->steal_ms = result_read_u64(events, "steal_ms");
	out->throttled_us = result_read_u64(events, "throttled_us");
	out->gpu_throttle = (uint32_t)(result_read_u64(events, "gpu_throttle") & UINT32_MAX);
	out->gpu_celsius = (uint32_t)(result_read_u64(events, "gpu_celsius") & UINT16_MAX);

	const char *name;
	json_t *metric, *metrics = json_object_get(from, "metrics");
	json_object_foreach(metrics, name, metric)

	{
		int rc = result_read_metric(name, metric, out, err);
		if (rc < 0)
			return err_wrap(err, "metrics.%.64s", name);
	}

	return 0;
}

static int result_read_runs(const json_t *runs, struct result *out, struct err *err)
{
	for (size_t i = 0; i < json_array_size(runs); i++) {
		struct result_run *run = result_add_run(out);
		if (!run)
			return err_set(err, -ENOMEM, "no memory for run %zu, or too many runs", i);

		int rc = result_read_run(json_array_get(runs, i), run, err);
		if (rc < 0)
			return err_wrap(err, "runs[%zu]", i);
	}

	return 0;
}

static int result_read_calibration(const json_t *from, struct result *out, struct err *err)
{
	const json_t *runs = json_object_get(json_object_get(from, "calibration"), "runs");
	if (json_array_size(runs) == 0)
		return 0;

	out->calibration = calloc(1, sizeof(*out->calibration));
	if (!out->calibration)
		return err_set(err, -ENOMEM, "no memory for the calibration");

	result_init(out->calibration);
	int rc = result_read_runs(runs, out->calibration, err);
	return rc < 0 ? err_wrap(err, "calibration") : 0;
}

static int result_read(const json_t *from, struct result *out, struct err *err)
{
	const char *schema = json_string_value(json_object_get(from, "schema"));
	const char *tool = json_string_value(json_object_get(from, "tool"));
	const json_t *runs = json_object_get(from, "runs");

	if (!schema || strcmp(schema, RESULT_SCHEMA) != 0)
		return err_set(err, -EPROTO, "schema: '%.40s' is not '%s'", schema ? schema : "",
			       RESULT_SCHEMA);
	if (!json_is_array(runs))
		return err_set(err, -EINVAL, "runs: a list is wanted");

	(void)snprintf(out->tool, sizeof(out->tool), "%.*s", RESULT_NAME_MAX - 1,
		       tool ? tool : ""); /* cut */
	out->seed = result_read_u64(from, "seed");

	const json_t *fingerprint = json_object_get(from, "fingerprint");
	if (json_is_object(fingerprint))
		out->fingerprint = json_dumps(fingerprint, JSON_COMPACT); /* NULL: not compared */
	out->looks = result_read_u64(from, "looks") > 1 ? 2 : 1;

	int rc = result_read_runs(runs, out, err);
	return rc < 0 ? rc : result_read_calibration(from, out, err);
}

int result_parse(const char *text, size_t length, struct result *out, struct err *err)
{
	result_init(out);
	json_error_t why;

	if (length > RESULT_BYTES_MAX)
		return err_set(err, -EINVAL, "%zu bytes are too many for a result: %d are possible",
			       length, RESULT_BYTES_MAX);

	json_t *json = json_loadb(text, length, JSON_REJECT_DUPLICATES, &why);
	if (!json)
		return err_set(err, -EINVAL, "line %d, column %d: %s", why.line, why.column,
			       why.text);

	int rc = result_read(json, out, err);

	json_decref(json);
	if (rc < 0)
		result_done(out);

	return rc;
}

/* --- writing ---------------------------------------------------------------------------------- */

void result_write_number(struct jsonw *json, const char *key, double number)
{
	char text[RESULT_NUMBER_MAX];
	if (!isfinite(number)) {
		jsonw_null(json, key);
		return;
	}
	(void)snprintf(text, sizeof(text), "%.17g", number); /* fits */
	jsonw_raw(json, key, text, strlen(text));
}

static void result_write_metric(struct jsonw *json, const struct result_metric *metric)
{
	jsonw_object(json, metric->name);
	jsonw_text(json, "unit", metric->unit);
	jsonw_text(json, "better", metric->higher_is_better ? "higher" : "lower");
	jsonw_array(json, "samples");

	for (size_t i = 0; i < metric->sample_count; i++)
		result_write_number(json, NULL, metric->samples[i]);

	jsonw_end_array(json);
	jsonw_end_object(json);
}

static void result_write_run(struct jsonw *json, const struct result_run *run)
{
	jsonw_object(json, NULL);
	jsonw_text(json, "side", run->side);
	jsonw_u64(json, "index", run->index);
	jsonw_u64(json, "block", run->block);
	jsonw_u64(json, "slot", run->slot);
	jsonw_u64(json, "start_ns", run->start_ns);
	jsonw_u64(json, "end_ns", run->end_ns);
	jsonw_i64(json, "rc", run->rc);

	if (run->timed_out)
		jsonw_bool(json, "timed_out", true);
	jsonw_object(json, "metrics");

	for (size_t i = 0; i < run->metric_count; i++)
		result_write_metric(json, &run->metrics[i]);

	jsonw_end_object(json);
	jsonw_object(json, "env_events");
	jsonw_u64(json, "steal_ms", run->steal_ms);
	jsonw_u64(json, "throttled_us", run->throttled_us);

	if (run->gpu_throttle)
		jsonw_u64(json, "gpu_throttle", run->gpu_throttle);
	if (run->gpu_celsius)
		jsonw_u64(json, "gpu_celsius", run->gpu_celsius);
	jsonw_end_object(json);
	jsonw_word(json, "errors", run->tail);
	jsonw_word(json, "problem", run->problem);
	jsonw_end_object(json);
}

void result_write_runs(struct jsonw *json, const struct result *result)
{
	jsonw_array(json, "runs");
	for (size_t i = 0; i < result->run_count; i++)
		result_write_run(json, &result->runs[i]);
	jsonw_end_array(json);
}
