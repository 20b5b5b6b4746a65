/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/checks.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/jsonw.h"
#include "base/names.h"
#include "bench/result.h"

enum { CHECKS_FIRST = 16 };

const char *check_status_to_string(enum check_status status)
{
	static const char *const words[] = {
	    [CHECK_PASS] = "PASS", [CHECK_WARN] = "WARN", [CHECK_SKIP] = "SKIP",
	    [CHECK_SLOW] = "SLOW", [CHECK_FAIL] = "FAIL",
	};
	return names_at(words, status, "?");
}

void check_set(struct check *check, enum check_status status, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	check->status = status;
	(void)vsnprintf(check->reason, sizeof(check->reason), format, arguments);
	va_end(arguments);
}

/* How bad each is; a skip says less than a warning. */
static int check_weight(enum check_status status)
{
	static const int weights[] = {[CHECK_PASS] = 0,
				      [CHECK_SKIP] = 1,
				      [CHECK_WARN] = 2,
				      [CHECK_SLOW] = 3,
				      [CHECK_FAIL] = 4};
	return weights[status];
}

void check_worsen(struct check *check, enum check_status status, const char *format, ...)
{
	if (check_weight(status) <= check_weight(check->status))
		return;
	va_list arguments;
	va_start(arguments, format);
	check->status = status;
	(void)vsnprintf(check->reason, sizeof(check->reason), format, arguments);
	va_end(arguments);
}

void check_value(struct check *check, double value, const char *unit)
{
	check->has_value = true;
	check->value = value;
	(void)snprintf(check->unit, sizeof(check->unit), "%s", unit);
}

/* --- the sink --------------------------------------------------------------------------------- */

void checks_begin(const struct checks_sink *sink, struct check *out, uint64_t place,
		  const char *name, const char *target)
{
	*out = (struct check){.status = CHECK_PASS};
	(void)snprintf(out->name, sizeof(out->name), "%s", name);
	(void)snprintf(out->target, sizeof(out->target), "%s", target);
	struct checks_record record = {.kind = CHECKS_BEGIN, .number = place};
	record.check = *out;
	sink->take(sink->context, &record);
}

void checks_end(const struct checks_sink *sink, const struct check *check)
{
	struct checks_record record = {.kind = CHECKS_END};
	record.check = *check;
	sink->take(sink->context, &record);
}

void checks_sample(const struct checks_sink *sink, const char *target, const char *metric,
		   const char *unit, bool higher_is_better, double value)
{
	struct checks_record record = {.kind = CHECKS_SAMPLE};
	struct checks_sample *sample = &record.sample;

	memset(sample, 0, sizeof(*sample));
	(void)snprintf(sample->target, sizeof(sample->target), "%s", target);
	(void)snprintf(sample->metric, sizeof(sample->metric), "%s", metric);
	(void)snprintf(sample->unit, sizeof(sample->unit), "%s", unit);
	sample->higher_is_better = higher_is_better;
	sample->value = value;
	sink->take(sink->context, &record);
}

void checks_note(const struct checks_sink *sink, const char *format, ...)
{
	struct checks_record record = {.kind = CHECKS_NOTE};
	va_list arguments;
	va_start(arguments, format);
	(void)vsnprintf(record.text, sizeof(record.text), format, arguments); /* cut */
	va_end(arguments);
	sink->take(sink->context, &record);
}

void checks_progress(const struct checks_sink *sink, const char *format, ...)
{
	struct checks_record record = {.kind = CHECKS_PROGRESS};
	va_list arguments;
	va_start(arguments, format);
	(void)vsnprintf(record.text, sizeof(record.text), format, arguments); /* cut */
	va_end(arguments);
	sink->take(sink->context, &record);
}

void checks_fact(const struct checks_sink *sink, const char *name, const char *target,
		 uint64_t number)
{
	struct checks_record record = {.kind = CHECKS_FACT, .number = number};
	record.check = (struct check){.status = CHECK_PASS};
	(void)snprintf(record.check.name, sizeof(record.check.name), "%s", name);
	(void)snprintf(record.check.target, sizeof(record.check.target), "%s", target);
	sink->take(sink->context, &record);
}

/* --- the list --------------------------------------------------------------------------------- */

void checks_init(struct checks *checks)
{
	*checks = (struct checks){.list = NULL};
}

void checks_done(struct checks *checks)
{
	free(checks->list);
	free(checks->samples);
	checks_init(checks);
}

void checks_add(struct checks *checks, const struct check *check)
{
	if (checks->count == CHECKS_MAX ||
	    array_room(&checks->list, checks->count, &checks->room, CHECKS_FIRST) < 0)
		checks->is_cut = true;
	else
		checks->list[checks->count++] = *check;
}

void checks_add_sample(struct checks *checks, const struct checks_sample *sample)
{
	if (checks->sample_count == CHECKS_SAMPLES_MAX ||
	    array_room(&checks->samples, checks->sample_count, &checks->sample_room, CHECKS_FIRST) <
		0)
		checks->is_cut = true;
	else
		checks->samples[checks->sample_count++] = *sample;
}

void checks_say(struct checks *checks, const char *name, const char *target,
		enum check_status status, const char *hint, const char *format, ...)
{
	struct check check = {.status = status};
	va_list arguments;

	(void)snprintf(check.name, sizeof(check.name), "%s", name);
	(void)snprintf(check.target, sizeof(check.target), "%s", target);
	(void)snprintf(check.hint, sizeof(check.hint), "%s", hint ? hint : "");
	va_start(arguments, format);
	(void)vsnprintf(check.reason, sizeof(check.reason), format, arguments);
	va_end(arguments);
	checks_add(checks, &check);
}

size_t checks_of(const struct checks *checks, enum check_status status)
{
	size_t count = 0;
	for (size_t i = 0; i < checks->count; i++)
		count += checks->list[i].status == status;
	return count;
}

enum findings_exit checks_exit_code(const struct checks *checks)
{
	bool is_whole = !checks->is_cut;
	return findings_exit_code(checks_of(checks, CHECK_FAIL) > 0,
				  is_whole && checks_of(checks, CHECK_SLOW) > 0,
				  is_whole && checks_of(checks, CHECK_SKIP) < checks->count);
}

/* --- JSON ------------------------------------------------------------------------------------- */

/* The samples of one metric, which follow each other; the place behind them. */
static size_t checks_write_metric(struct jsonw *json, const struct checks *checks, size_t at)
{
	const struct checks_sample *first = &checks->samples[at];
	jsonw_object(json, first->metric);
	jsonw_text(json, "unit", first->unit);
	jsonw_text(json, "better", first->higher_is_better ? "higher" : "lower");
	jsonw_array(json, "samples");

	while (at < checks->sample_count &&
	       strcmp(checks->samples[at].metric, first->metric) == 0 &&
	       strcmp(checks->samples[at].target, first->target) == 0)
		result_write_number(json, NULL, checks->samples[at++].value);

	jsonw_end_array(json);
	jsonw_end_object(json);
	return at;
}

static void checks_write_runs(struct jsonw *json, const struct checks *checks)
{
	size_t at = 0;

	jsonw_array(json, "runs");

	for (uint64_t index = 0; at < checks->sample_count; index++) {
		const char *target = checks->samples[at].target;

		jsonw_object(json, NULL);
		jsonw_text(json, "side", "-");
		jsonw_u64(json, "index", index);
		jsonw_u64(json, "block", index);
		jsonw_u64(json, "slot", 1);
		jsonw_u64(json, "start_ns", 0); /* many short measurements: they have no one time */
		jsonw_u64(json, "end_ns", 0);
		jsonw_u64(json, "rc", 0);
		jsonw_text(json, "target", target);
		jsonw_object(json, "metrics");

		while (at < checks->sample_count && strcmp(checks->samples[at].target, target) == 0)
			at = checks_write_metric(json, checks, at);

		jsonw_end_object(json);
		jsonw_object(json, "env_events");
		jsonw_end_object(json);
		jsonw_end_object(json);
	}

	jsonw_end_array(json);
}

void checks_write(struct jsonw *json, const struct checks *checks, bool has_runs)
{
	if (has_runs)
		checks_write_runs(json, checks);
	jsonw_array(json, "checks");

	for (size_t i = 0; i < checks->count; i++) {
		const struct check *check = &checks->list[i];

		jsonw_object(json, NULL);
		jsonw_text(json, "name", check->name);
		jsonw_text(json, "target", check->target);
		jsonw_text(json, "status", check_status_to_string(check->status));

		if (check->has_value)
			result_write_number(json, "value", check->value);
		else
			jsonw_null(json, "value");

		if (check->has_limit)
			result_write_number(json, "limit", check->limit);
		else
			jsonw_null(json, "limit");

		jsonw_word(json, "unit", check->unit);
		jsonw_text(json, "reason", check->reason);
		if (has_runs)
			jsonw_text(json, "hint", check->hint);
		jsonw_end_object(json);
	}

	jsonw_end_array(json);
}
