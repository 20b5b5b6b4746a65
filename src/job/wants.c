/* SPDX-License-Identifier: Apache-2.0 */
#include "job/wants.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/err.h"
#include "base/parse.h"
#include "base/text.h"

enum wants_kind { WANTS_I32, WANTS_U32, WANTS_U64, WANTS_BOOL, WANTS_STRING };

struct wants_field {
	const char *name;
	enum wants_kind kind;
	size_t offset;
	uint64_t max; /* of a number; of a text: bytes with its NUL */
};

#define WANTS_FIELD(name_, kind_, max_)                                                            \
	{                                                                                          \
#name_, kind_, offsetof(struct wants, name_), max_                                 \
	}

static const struct wants_field wants_fields[] = {
    WANTS_FIELD(priority, WANTS_I32, WANTS_PRIORITY_MAX),
    WANTS_FIELD(hold, WANTS_U32, WANTS_HOLD_COUNT - 1),
    WANTS_FIELD(cpu_milli, WANTS_U32, UINT32_MAX),
    WANTS_FIELD(pids, WANTS_U32, UINT32_MAX),
    WANTS_FIELD(mem_bytes, WANTS_U64, UINT64_MAX),
    WANTS_FIELD(isolation, WANTS_U32, WANTS_ISOLATION_COUNT - 1),
    WANTS_FIELD(retries, WANTS_U32, WANTS_RETRIES_MAX),
    WANTS_FIELD(retry_lost, WANTS_BOOL, 1),
    WANTS_FIELD(retry_delay_ns, WANTS_U64, UINT64_MAX),
    WANTS_FIELD(time_ns, WANTS_U64, UINT64_MAX),
    WANTS_FIELD(idle_ns, WANTS_U64, UINT64_MAX),
    WANTS_FIELD(has_ttl, WANTS_BOOL, 1),
    WANTS_FIELD(ttl_ns, WANTS_U64, UINT64_MAX),
    WANTS_FIELD(gpu_memory_bytes, WANTS_U64, UINT64_MAX),
    WANTS_FIELD(outsiders, WANTS_U32, WANTS_OUTSIDERS_COUNT - 1),
    WANTS_FIELD(array, WANTS_U32, WANTS_ARRAY_COUNT - 1),
    WANTS_FIELD(array_count, WANTS_U32, WANTS_ARRAY_MAX),
    WANTS_FIELD(array_parallel, WANTS_U32, WANTS_ARRAY_MAX),
    WANTS_FIELD(array_apart, WANTS_BOOL, 1),
    WANTS_FIELD(launcher, WANTS_U32, WANTS_LAUNCHER_COUNT - 1),
    WANTS_FIELD(workers, WANTS_U32, WANTS_WORKERS_MAX),
    WANTS_FIELD(worker_gpus, WANTS_U32, UINT32_MAX),
    WANTS_FIELD(worker_slots, WANTS_U32, UINT32_MAX),
    WANTS_FIELD(launcher_is_worker, WANTS_BOOL, 1),
    WANTS_FIELD(merge, WANTS_BOOL, 1),
    WANTS_FIELD(oversubscribe, WANTS_BOOL, 1),
    WANTS_FIELD(after, WANTS_STRING, WANTS_LIST_MAX),
    WANTS_FIELD(prefer, WANTS_STRING, WANTS_LIST_MAX),
    WANTS_FIELD(gpu_type, WANTS_STRING, WANTS_NAME_MAX),
    WANTS_FIELD(project, WANTS_STRING, WANTS_NAME_MAX),
};

_Static_assert(array_length(wants_fields) <= 64, "wants_parse() has a bit for each");

static const char *const wants_isolations[WANTS_ISOLATION_COUNT] = {
    [WANTS_ISOLATION_BEST] = "best",	 [WANTS_ISOLATION_REQUIRE] = "require",
    [WANTS_ISOLATION_CGROUP] = "cgroup", [WANTS_ISOLATION_LANDLOCK] = "landlock",
    [WANTS_ISOLATION_ENV] = "env",	 [WANTS_ISOLATION_CONTAINER] = "container",
    [WANTS_ISOLATION_NONE] = "none",
};

const char *wants_isolation_to_string(uint32_t isolation)
{
	return isolation < WANTS_ISOLATION_COUNT ? wants_isolations[isolation] : NULL;
}

int wants_isolation_from_string(const char *text, uint32_t *out)
{
	for (uint32_t i = 0; i < WANTS_ISOLATION_COUNT; i++) {
		if (strcmp(text, wants_isolations[i]) == 0) {
			*out = i;
			return 0;
		}
	}
	return -EINVAL;
}

void wants_init(struct wants *wants)
{
	*wants = (struct wants){0};
}

static char **wants_string(const struct wants *wants, const struct wants_field *field)
{
	return (char **)((char *)wants + field->offset);
}

void wants_done(struct wants *wants)
{
	if (!wants)
		return;
	for (size_t i = 0; i < array_length(wants_fields); i++)
		if (wants_fields[i].kind == WANTS_STRING)
			free(*wants_string(wants, &wants_fields[i]));
	wants_init(wants);
}

int wants_copy(const struct wants *wants, struct wants *out)
{
	struct wants copy = *wants;
	bool has_failed = false;

	for (size_t i = 0; i < array_length(wants_fields); i++) {
		if (wants_fields[i].kind != WANTS_STRING)
			continue;

		const char *text = *wants_string(wants, &wants_fields[i]);
		char *own = text ? strdup(text) : NULL;

		*wants_string(&copy, &wants_fields[i]) = own;
		has_failed = has_failed || (text && !own);
	}

	if (has_failed) {
		wants_done(&copy);
		return -ENOMEM;
	}

	*out = copy;
	return 0;
}

/* The number of a field that is no text; a negative one as its two's complement. */
static uint64_t wants_number(const struct wants *wants, const struct wants_field *field)
{
	const char *at = (const char *)wants + field->offset;

	switch (field->kind) {
	case WANTS_I32:
		return (uint64_t)(int64_t) * (const int32_t *)at;
	case WANTS_U32:
		return *(const uint32_t *)at;
	case WANTS_U64:
		return *(const uint64_t *)at;
	default:
		return *(const bool *)at;
	}
}

bool wants_are_equal(const struct wants *a, const struct wants *b)
{
	for (size_t i = 0; i < array_length(wants_fields); i++) {
		const struct wants_field *field = &wants_fields[i];
		if (field->kind != WANTS_STRING) {
			if (wants_number(a, field) != wants_number(b, field))
				return false;
			continue;
		}

		const char *one = *wants_string(a, field), *other = *wants_string(b, field);
		if (!one != !other || (one && strcmp(one, other) != 0))
			return false;
	}

	return true;
}

/* --- what can be meant ------------------------------------------------------------------------ */

int wants_next_after(const char **list, struct wants_after *out, struct err *err)
{
	static const char ok[] = "ok:";
	const char *at = *list;

	if (!at || *at == '\0')
		return 0;

	size_t length = strcspn(at, ",");
	const char *number = at;
	size_t digits = length;
	struct wants_after after = {0};

	if (text_starts_with(at, ok)) {
		after.has_to_succeed = true;
		number += strlen(ok);
		digits -= strlen(ok);
	}

	if (parse_u64_span(number, digits, 1, INT64_MAX, &after.id) < 0)
		return err_set(err, -EINVAL,
			       "'%.*s' is no number of a job that could be waited for",
			       (int)(length < 64 ? length : 64), at);

	*list = at[length] == ',' ? at + length + 1 : NULL;
	if (*list && **list == '\0')
		return err_set(err, -EINVAL, "the list of jobs to wait for ends in a comma");

	*out = after;
	return 1;
}

static int wants_check_after(const char *list, struct err *err)
{
	struct wants_after after;
	size_t count = 0;
	int more;

	while ((more = wants_next_after(&list, &after, err)) > 0)
		if (++count > WANTS_AFTER_MAX)
			return err_set(err, -E2BIG, "a job can wait for %d others at most",
				       WANTS_AFTER_MAX);

	return more;
}

static int wants_check_number(const struct wants *wants, const struct wants_field *field,
			      struct err *err)
{
	uint64_t number = wants_number(wants, field);

	if (field->kind == WANTS_I32) {
		int64_t value = (int64_t)number, max = (int64_t)field->max;
		if (value < -max || value > max)
			return err_set(err, -EINVAL,
				       "%s is %" PRId64 ": it can be -%" PRId64 " to %" PRId64,
				       field->name, value, max, max);
	} else if (number > field->max) {
		return err_set(err, -EINVAL, "%s is %" PRIu64 ": at most %" PRIu64 " can be meant",
			       field->name, number, field->max);
	}

	return 0;
}

/* Text that can stand in a line of the form, and that a terminal shows as it is. */
static int wants_check_string(const char *text, const struct wants_field *field, struct err *err)
{
	if (strnlen(text, field->max) == field->max)
		return err_set(err, -E2BIG, "%s is longer than %" PRIu64 " bytes", field->name,
			       field->max - 1);

	for (const char *at = text; *at; at++)
		if ((unsigned char)*at < ' ' || *at == 127)
			return err_set(err, -EINVAL, "%s has a control character in it",
				       field->name);

	return *text ? 0 : err_set(err, -EINVAL, "%s is empty", field->name);
}

int wants_check(const struct wants *wants, struct err *err)
{
	for (size_t i = 0; i < array_length(wants_fields); i++) {
		const struct wants_field *field = &wants_fields[i];
		const char *text = field->kind == WANTS_STRING ? *wants_string(wants, field) : NULL;
		int rc = 0;

		if (field->kind != WANTS_STRING)
			rc = wants_check_number(wants, field, err);
		else if (text)
			rc = wants_check_string(text, field, err);

		if (rc < 0)
			return rc;
	}

	if ((wants->array == WANTS_ARRAY_NONE) != (wants->array_count == 0))
		return err_set(err, -EINVAL, "an array without members, or members of no array");
	if ((wants->launcher == WANTS_LAUNCHER_NONE) != (wants->workers == 0))
		return err_set(err, -EINVAL, "a launcher without workers, or workers of none");
	if (wants->array_count > 0 && wants->workers > 0)
		return err_set(err, -EINVAL, "an array of jobs with workers cannot be meant");

	return wants_check_after(wants->after, err);
}

/* --- the text --------------------------------------------------------------------------------- */

int wants_format(const struct wants *wants, struct buf *out)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < array_length(wants_fields); i++) {
		const struct wants_field *field = &wants_fields[i];
		const char *text = field->kind == WANTS_STRING ? *wants_string(wants, field) : NULL;
		uint64_t number = field->kind == WANTS_STRING ? 0 : wants_number(wants, field);

		if (text)
			rc = buf_printf(out, "%s=%s\n", field->name, text);
		else if (number != 0 && field->kind == WANTS_I32)
			rc = buf_printf(out, "%s=%" PRId64 "\n", field->name, (int64_t)number);
		else if (number != 0)
			rc = buf_printf(out, "%s=%" PRIu64 "\n", field->name, number);
	}

	return rc;
}

static int wants_read_number(struct wants *wants, const struct wants_field *field,
			     const char *value, size_t length)
{
	char *at = (char *)wants + field->offset;
	bool is_negative = field->kind == WANTS_I32 && length > 0 && value[0] == '-';
	uint64_t number;
	int rc = parse_u64_span(value + is_negative, length - is_negative, 0, field->max, &number);
	if (rc < 0)
		return rc;

	if (field->kind == WANTS_I32)
		*(int32_t *)at = is_negative ? -(int32_t)number : (int32_t)number;
	else if (field->kind == WANTS_U32)
		*(uint32_t *)at = (uint32_t)number;
	else if (field->kind == WANTS_U64)
		*(uint64_t *)at = number;
	else
		*(bool *)at = number;

	return 0;
}

/* A line without its end. `seen`: a bit for each of wants_fields. */
static int wants_read_line(struct wants *wants, const char *line, size_t length, uint64_t *seen)
{
	const char *equals = memchr(line, '=', length);
	size_t name_length = equals ? (size_t)(equals - line) : length;

	for (size_t i = 0; equals && i < array_length(wants_fields); i++) {
		const struct wants_field *field = &wants_fields[i];
		if (strlen(field->name) != name_length ||
		    memcmp(field->name, line, name_length) != 0)
			continue;
		if (*seen & (UINT64_C(1) << i))
			return -EEXIST;

		*seen |= UINT64_C(1) << i;
		const char *value = equals + 1;
		size_t value_length = length - name_length - 1;

		if (field->kind != WANTS_STRING)
			return wants_read_number(wants, field, value, value_length);
		if (memchr(value, '\0', value_length))
			return -EINVAL;

		char *own = calloc(value_length + 1, 1); /* strndup() may look beyond, for ASan */
		if (!own)
			return -ENOMEM;

		memcpy(own, value, value_length);
		*wants_string(wants, field) = own;
		return 0;
	}

	return -EINVAL;
}

int wants_parse(const char *text, size_t length, struct wants *out, struct err *err)
{
	wants_init(out);
	uint64_t seen = 0;
	size_t number = 1;
	int rc = 0;

	if (length > WANTS_TEXT_MAX)
		rc = err_set(err, -EINVAL, "%zu bytes of what a job wants: %d are allowed", length,
			     WANTS_TEXT_MAX);

	for (const char *at = text; rc == 0 && length > 0 && at < text + length; number++) {
		const char *end = memchr(at, '\n', length - (size_t)(at - text));
		rc = end ? wants_read_line(out, at, (size_t)(end - at), &seen) : -EINVAL;
		if (rc == -ENOMEM)
			rc = err_set(err, -ENOMEM, "no memory for what a job wants");
		else if (rc < 0)
			rc = err_set(err, -EINVAL, "line %zu of what a job wants cannot be meant",
				     number);

		at = end ? end + 1 : text + length;
	}

	if (rc == 0 && (rc = wants_check(out, err)) == -E2BIG)
		rc = -EINVAL;
	if (rc < 0)
		wants_done(out);

	return rc;
}
