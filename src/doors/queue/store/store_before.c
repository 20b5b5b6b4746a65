/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/queue/store/store_before.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/err.h"
#include "base/parse.h"
#include "base/text.h"
#include "job/schema.h"
#include "job/spec.h"

#define BEFORE_MAGIC "sluice-spec 1\n"

/* Lists that had other names. */
static const struct before_name {
	const char *then;
	size_t at;
} before_names[] = {
    {"arg", offsetof(struct spec, argv)},
    {"env", offsetof(struct spec, environment)},
    {"image_env", offsetof(struct spec, image_environment)},
    {"worker_env", offsetof(struct spec, worker_environment)},
};

/* "name=value": the value has a NUL behind it, or not. */
struct before_entry {
	const char *name, *value;
	size_t name_length, value_length;
};

static bool before_is(const struct before_entry *entry, const char *name)
{
	return strlen(name) == entry->name_length &&
	       memcmp(entry->name, name, entry->name_length) == 0;
}

static const struct form_field *before_find(const struct form_field *fields, size_t count,
					    const struct before_entry *entry)
{
	for (size_t i = 0; i < count; i++)
		if (before_is(entry, fields[i].name))
			return &fields[i];
	return NULL;
}

static int before_split(const char *text, size_t length, struct before_entry *out)
{
	const char *equals = memchr(text, '=', length);
	if (!equals || equals == text)
		return -EINVAL;
	*out = (struct before_entry){.name = text,
				     .name_length = (size_t)(equals - text),
				     .value = equals + 1,
				     .value_length = length - (size_t)(equals - text) - 1};
	return 0;
}

/* A value that is no list; of a text that is too long, or a number that is too large, -EINVAL. */
static int before_field(const struct form_field *field, const struct before_entry *entry,
			void *object)
{
	const char *value = entry->value;
	size_t length = entry->value_length;
	char *at = (char *)object + field->at;

	if (memchr(value, '\0', length))
		return -EINVAL;

	if (field->kind == FORM_STRING) {
		free(*(char **)at);
		*(char **)at = text_copy(value, length);
		return *(char **)at ? 0 : -ENOMEM;
	}

	if (field->kind == FORM_TEXT || field->kind == FORM_BYTES) {
		if (length >= field->max)
			return -EINVAL;
		memcpy(at, value, length);
		at[length] = '\0';
		return 0;
	}

	bool is_negative = field->kind == FORM_I32 && length > 0 && value[0] == '-';
	uint64_t number;
	int rc = parse_u64_span(value + is_negative, length - is_negative, 0, field->max, &number);
	if (rc == 0)
		form_set_number(field, object, is_negative ? -number : number);
	return rc;
}

/* --- what is wanted --------------------------------------------------------------------------- */

static int before_wants_line(const char *line, size_t length, struct wants *out)
{
	struct before_entry entry;
	int rc = before_split(line, length, &entry);
	const struct form_field *field =
	    rc == 0 ? before_find(schema_wants, schema_wants_count, &entry) : NULL;
	return field ? before_field(field, &entry, out) : -EINVAL;
}

int store_before_wants(const char *text, size_t length, struct wants *out, struct err *err)
{
	wants_init(out);
	size_t number = 1;
	int rc = 0;

	for (const char *at = text; rc == 0 && at < text + length; number++) {
		const char *end = memchr(at, '\n', length - (size_t)(at - text));
		rc = end ? before_wants_line(at, (size_t)(end - at), out) : -EINVAL;
		if (rc < 0)
			rc = err_set(err, rc, "line %zu of what a job wants cannot be meant",
				     number);
		at = end ? end + 1 : text + length;
	}

	if (rc == 0)
		rc = wants_check(out, err);
	if (rc < 0)
		wants_done(out);
	return rc;
}

/* --- the specification ------------------------------------------------------------------------ */

/* "7:1024:4096". */
static int before_limit(const struct before_entry *entry, struct spec *out)
{
	uint64_t parts[3];
	const char *at = entry->value;

	if (out->limit_count >= SPEC_LIMITS_MAX)
		return -EINVAL;

	for (size_t i = 0; i < array_length(parts); i++) {
		size_t length = strcspn(at, ":");
		uint64_t max = i == 0 ? SPEC_LIMITS_MAX - 1 : UINT64_MAX;
		if (parse_u64_span(at, length, 0, max, &parts[i]) < 0 ||
		    at[length] != (i < 2 ? ':' : '\0'))
			return -EINVAL;
		at += length + (i < 2);
	}

	out->limits[out->limit_count++] =
	    (struct spec_limit){.resource = (uint32_t)parts[0], .soft = parts[1], .hard = parts[2]};
	return 0;
}

/* uid, gid, or one of the groups. */
static int before_owner(const struct before_entry *entry, struct spec *out)
{
	uint64_t number;
	if (parse_u64(entry->value, 0, UINT32_MAX - 1, &number) < 0)
		return -EINVAL;
	if (before_is(entry, "group"))
		return spec_add_group(out, (gid_t)number, NULL);
	*(before_is(entry, "uid") ? &out->uid : &out->gid) = (uint32_t)number;
	return 0;
}

static int before_spec_entry(const struct before_entry *entry, struct spec *out)
{
	const struct form_field *field = before_find(schema_spec, schema_spec_count, entry);

	for (size_t i = 0; !field && i < array_length(before_names); i++)
		for (size_t j = 0; before_is(entry, before_names[i].then) && j < schema_spec_count;
		     j++)
			field = schema_spec[j].at == before_names[i].at ? &schema_spec[j] : field;

	if (field && field->kind == FORM_LIST)
		return form_list_add((char ***)((char *)out + field->at),
				     (size_t *)((char *)out + field->count_at), field->max,
				     entry->value);
	if (field)
		return before_field(field, entry, out);

	if (before_is(entry, "limit"))
		return before_limit(entry, out);
	if (before_is(entry, "wants")) {
		wants_done(&out->wants);
		return store_before_wants(entry->value, entry->value_length, &out->wants, NULL);
	}

	bool is_owner =
	    before_is(entry, "uid") || before_is(entry, "gid") || before_is(entry, "group");
	return is_owner ? before_owner(entry, out) : -EINVAL;
}

int store_before_spec(const char *bytes, size_t length, struct spec *out, struct err *err)
{
	const char *at = bytes + strlen(BEFORE_MAGIC), *end = bytes + length;
	size_t number = 1;
	int rc = 0;

	spec_init(out);
	if (length > SPEC_BYTES_MAX || length < strlen(BEFORE_MAGIC) ||
	    memcmp(bytes, BEFORE_MAGIC, strlen(BEFORE_MAGIC)) != 0)
		return err_set(err, -EINVAL, "this is no specification of an earlier release");

	for (; rc == 0 && at < end; number++) {
		const char *stop = memchr(at, '\0', (size_t)(end - at));
		struct before_entry entry;

		rc = stop ? before_split(at, (size_t)(stop - at), &entry) : -EINVAL;
		if (rc == 0)
			rc = before_spec_entry(&entry, out);
		if (rc < 0)
			rc = err_set(err, rc == -ENOMEM ? rc : -EINVAL,
				     "entry %zu of a specification cannot be meant", number);
		at = stop ? stop + 1 : end;
	}

	if (rc == 0)
		rc = spec_check(out, err);
	if (rc < 0)
		spec_done(out);
	return rc;
}
