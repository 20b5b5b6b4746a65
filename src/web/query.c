/* SPDX-License-Identifier: Apache-2.0 */
#include "web/query.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/parse.h"

enum { SINCE_DIGITS_MAX = 9 }; /* behind the point: nanoseconds */

static const char *const set_names[] = {"all", "native", "dcgm"};

static int query_set(const char *value, size_t length, struct query *out, struct err *err)
{
	for (unsigned i = 0; i < sizeof(set_names) / sizeof(set_names[0]); i++) {
		if (strlen(set_names[i]) != length || memcmp(set_names[i], value, length) != 0)
			continue;
		out->set = (enum view_set)i;
		out->has_set = true;
		return 0;
	}

	return err_set(err, -EINVAL, "parameter 'set' is one of all, native, dcgm");
}

static int query_series(const char *value, size_t length, struct query *out, struct err *err)
{
	if (length == 0 || length >= sizeof(out->series))
		return err_set(err, -EINVAL, "parameter 'series' is no name of a series");

	for (size_t i = 0; i < length; i++) {
		char c = value[i];
		if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'))
			return err_set(err, -EINVAL, "parameter 'series' is no name of a series");
	}

	memcpy(out->series, value, length);
	out->series[length] = '\0';
	return 0;
}

/* Seconds since 1970, with or without a fraction. */
static int query_since(const char *value, size_t length, struct query *out, struct err *err)
{
	const char *point = memchr(value, '.', length);
	size_t whole = point ? (size_t)(point - value) : length;
	uint64_t seconds, fraction = 0;

	/* until the year 2262, where nanoseconds end */
	int rc = parse_u64_span(value, whole, 0, INT64_MAX / CLOCK_NS_PER_S - 1, &seconds);
	if (rc == 0 && point) {
		size_t digits = length - whole - 1;
		if (digits > SINCE_DIGITS_MAX)
			digits = SINCE_DIGITS_MAX;
		rc = parse_u64_span(point + 1, digits, 0, UINT64_MAX, &fraction);

		for (size_t i = digits; i < SINCE_DIGITS_MAX; i++)
			fraction *= 10;

		for (const char *c = point + 1 + digits; rc == 0 && c < value + length; c++)
			rc = *c >= '0' && *c <= '9' ? 0 : -EINVAL;
	}

	if (rc < 0)
		return err_set(err, -EINVAL, "parameter 'since' is a time in seconds since 1970");

	out->since_unix_ns = (int64_t)(seconds * CLOCK_NS_PER_S + fraction);
	out->has_since = true;
	return 0;
}

static int query_resolution(const char *value, size_t length, struct query *out, struct err *err)
{
	if (length == 1 && value[0] == '1')
		out->resolution_s = 1;
	else if (length == 2 && memcmp(value, "10", 2) == 0)
		out->resolution_s = 10;
	else
		return err_set(err, -EINVAL, "parameter 'resolution' is 1 or 10 (seconds)");
	return 0;
}

static const struct query_row {
	const char *name;
	enum query_parameter parameter;
	int (*read)(const char *value, size_t length, struct query *out, struct err *err);
} rows[] = {
    {"set", QUERY_SET, query_set},
    {"series", QUERY_SERIES, query_series},
    {"since", QUERY_SINCE, query_since},
    {"resolution", QUERY_RESOLUTION, query_resolution},
};

static const struct query_row *query_find(const char *name, size_t length, unsigned taken)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if ((rows[i].parameter & taken) != 0 && strlen(rows[i].name) == length &&
		    memcmp(rows[i].name, name, length) == 0)
			return &rows[i];
	}
	return NULL;
}

/* A name of somebody's in an error: what could be markup or worse stays out of it. */
static int query_unknown(const char *name, size_t length, struct err *err)
{
	char shown[QUERY_VALUE_MAX];
	size_t size = length < sizeof(shown) - 1 ? length : sizeof(shown) - 1;
	for (size_t i = 0; i < size; i++) {
		char c = name[i];
		bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
			     (c >= '0' && c <= '9') || c == '_' || c == '-';
		shown[i] = plain ? c : '?';
	}

	shown[size] = '\0';
	return err_set(err, -EINVAL, "parameter '%s' is not known here", shown);
}

int query_parse(const char *text, size_t length, unsigned taken, struct query *out, struct err *err)
{
	struct query query = {.series = ""};
	unsigned seen = 0;
	int rc = 0;

	for (size_t at = 0, count = 0; at < length && rc == 0; count++) {
		const char *ampersand = memchr(text + at, '&', length - at);
		size_t end = ampersand ? (size_t)(ampersand - text) : length;
		const char *equals = memchr(text + at, '=', end - at);
		size_t name = equals ? (size_t)(equals - (text + at)) : end - at;

		if (count >= QUERY_PARAMETERS_MAX)
			return err_set(err, -EINVAL, "there are more than %d parameters",
				       QUERY_PARAMETERS_MAX);

		const struct query_row *row = query_find(text + at, name, taken);
		if (!row)
			rc = query_unknown(text + at, name, err);
		else if ((seen & row->parameter) != 0)
			rc = err_set(err, -EINVAL, "parameter '%s' is there twice", row->name);
		else if (!equals)
			rc = err_set(err, -EINVAL, "parameter '%s' has no value", row->name);
		else
			rc = row->read(equals + 1, end - at - name - 1, &query, err);

		seen |= row ? (unsigned)row->parameter : 0;
		at = end + 1;
	}

	if (rc == 0)
		*out = query;

	return rc;
}
