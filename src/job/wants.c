/* SPDX-License-Identifier: Apache-2.0 */
#include "job/wants.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/parse.h"
#include "base/text.h"
#include "job/indices.h"
#include "job/schema.h"

void wants_init(struct wants *wants)
{
	*wants = (struct wants){0};
}

void wants_done(struct wants *wants)
{
	if (!wants)
		return;
	form_done(schema_wants, schema_wants_count, wants);
	wants_init(wants);
}

int wants_copy(const struct wants *wants, struct wants *out)
{
	struct wants copy = *wants;
	int rc = form_copy_strings(schema_wants, schema_wants_count, &copy);
	if (rc < 0)
		wants_done(&copy);
	else
		*out = copy;
	return rc;
}

bool wants_are_equal(const struct wants *a, const struct wants *b)
{
	for (size_t i = 0; i < schema_wants_count; i++)
		if (!form_field_is_equal(&schema_wants[i], a, b))
			return false;
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

/* Text that a terminal shows as it is. */
static int wants_check_string(const char *text, const struct form_field *field, struct err *err)
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
	for (size_t i = 0; i < schema_wants_count; i++) {
		const struct form_field *field = &schema_wants[i];
		const char *text = form_string(field, wants);
		int rc = text ? wants_check_string(text, field, err)
			      : form_check_number(field, wants, err);

		if (rc < 0)
			return rc;
	}

	if ((wants->array == WANTS_ARRAY_NONE) != (wants->array_count == 0))
		return err_set(err, -EINVAL, "an array without members, or members of no array");
	if ((wants->launcher == WANTS_LAUNCHER_NONE) != (wants->workers == 0))
		return err_set(err, -EINVAL, "a launcher without workers, or workers of none");
	if (wants->array_count > 0 && wants->workers > 0)
		return err_set(err, -EINVAL, "an array of jobs with workers cannot be meant");

	uint32_t count = wants->array_count;
	int rc = 0;

	if (wants->array_indices)
		rc = indices_check(wants->array_indices, strlen(wants->array_indices),
				   WANTS_ARRAY_MAX, &count, err);
	if (rc < 0)
		return err_wrap(err, "array_indices");
	if (count != wants->array_count)
		return err_set(err, -EINVAL,
			       "array_indices: '%.64s' are %" PRIu32
			       " members, and the array has %" PRIu32,
			       wants->array_indices, count, wants->array_count);

	return wants_check_after(wants->after, err);
}

/* --- as bytes --------------------------------------------------------------------------------- */

int wants_format(const struct wants *wants, char **out_bytes, size_t *out_length)
{
	Sluice__V1__Wants message;
	schema_from_wants(wants, &message);
	return form_pack(&message.base, WANTS_BYTES_MAX, out_bytes, out_length);
}

int wants_parse(const void *bytes, size_t length, struct wants *out, struct err *err)
{
	wants_init(out);
	if (length > WANTS_BYTES_MAX)
		return err_set(err, -EINVAL, "%zu bytes of what a job wants: %d are allowed",
			       length, WANTS_BYTES_MAX);

	Sluice__V1__Wants *message = sluice__v1__wants__unpack(NULL, length, bytes);
	if (!message)
		return err_set(err, -EINVAL, "these bytes are nothing that a job can want");

	int rc = schema_to_wants(message, out, err);
	sluice__v1__wants__free_unpacked(message, NULL);
	return rc;
}
