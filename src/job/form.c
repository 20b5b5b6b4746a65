/* SPDX-License-Identifier: Apache-2.0 */
#include "job/form.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/names.h"
#include "base/text.h"

enum { FORM_LIST_FIRST = 8 };

static const void *form_at(const void *object, size_t at)
{
	return (const char *)object + at;
}

static void *form_into(void *object, size_t at)
{
	return (char *)object + at;
}

uint64_t form_number(const struct form_field *field, const void *object)
{
	const void *at = form_at(object, field->at);

	switch (field->kind) {
	case FORM_WORD:
	case FORM_U32:
		return *(const uint32_t *)at;
	case FORM_I32:
		return (uint64_t)(int64_t) * (const int32_t *)at;
	case FORM_U64:
		return *(const uint64_t *)at;
	case FORM_BOOL:
		return *(const bool *)at;
	default:
		return 0;
	}
}

const char *form_string(const struct form_field *field, const void *object)
{
	return field->kind == FORM_STRING ? *(char *const *)form_at(object, field->at) : NULL;
}

void form_set_number(const struct form_field *field, void *object, uint64_t number)
{
	void *at = form_into(object, field->at);

	switch (field->kind) {
	case FORM_WORD:
	case FORM_U32:
	case FORM_I32:
		*(uint32_t *)at = (uint32_t)number;
		break;
	case FORM_U64:
		*(uint64_t *)at = number;
		break;
	case FORM_BOOL:
		*(bool *)at = number != 0;
		break;
	default:
		break;
	}
}

static char **form_list(const struct form_field *field, const void *object, size_t *out_count)
{
	*out_count = *(const size_t *)form_at(object, field->count_at);
	return *(char **const *)form_at(object, field->at);
}

/* --- into a message --------------------------------------------------------------------------- */

static ProtobufCBinaryData form_bytes(const char *text)
{
	return (ProtobufCBinaryData){.len = strlen(text), .data = (uint8_t *)text};
}

static int form_list_to(const struct form_field *field, const void *object,
			ProtobufCMessage *message)
{
	size_t count;
	char **list = form_list(field, object, &count);
	if (count == 0)
		return 0;

	ProtobufCBinaryData *items = calloc(count, sizeof(*items));
	if (!items)
		return -ENOMEM;

	for (size_t i = 0; i < count; i++)
		items[i] = form_bytes(list[i]);

	*(ProtobufCBinaryData **)form_into(message, field->message_at) = items;
	*(size_t *)form_into(message, field->message_count_at) = count;
	return 0;
}

static int form_field_to(const struct form_field *field, const void *object,
			 ProtobufCMessage *message)
{
	const char *text = form_at(object, field->at);
	void *out = form_into(message, field->message_at);
	uint64_t number = form_number(field, object);

	switch (field->kind) {
	case FORM_STRING:
		if (form_string(field, object))
			*(char **)out = (char *)form_string(field, object);
		return 0;
	case FORM_TEXT:
		*(char **)out = (char *)text;
		return 0;
	case FORM_BYTES:
		*(ProtobufCBinaryData *)out = form_bytes(text);
		return 0;
	case FORM_WORD:
		if (number > 0 && number <= field->max)
			*(char **)out = (char *)field->words[number];
		return 0;
	case FORM_U32:
	case FORM_I32:
		*(uint32_t *)out = (uint32_t)number;
		return 0;
	case FORM_U64:
		*(uint64_t *)out = number;
		return 0;
	case FORM_BOOL:
		*(protobuf_c_boolean *)out = number != 0;
		return 0;
	case FORM_LIST:
		return form_list_to(field, object, message);
	}
	return 0;
}

int form_to_message(const struct form_field *fields, size_t count, const void *object,
		    ProtobufCMessage *message)
{
	int rc = 0;
	for (size_t i = 0; rc == 0 && i < count; i++)
		rc = form_field_to(&fields[i], object, message);
	return rc;
}

void form_message_done(const struct form_field *fields, size_t count, ProtobufCMessage *message)
{
	for (size_t i = 0; i < count; i++) {
		if (fields[i].kind != FORM_LIST)
			continue;
		ProtobufCBinaryData **list = form_into(message, fields[i].message_at);
		free(*list);
		*list = NULL;
		*(size_t *)form_into(message, fields[i].message_count_at) = 0;
	}
}

int form_pack(const ProtobufCMessage *message, size_t max, char **out, size_t *out_length)
{
	size_t length = protobuf_c_message_get_packed_size(message);
	if (length > max)
		return -E2BIG;

	char *bytes = malloc(length + 1); /* one more: nothing is not NULL */
	if (!bytes)
		return -ENOMEM;

	*out_length = protobuf_c_message_pack(message, (uint8_t *)bytes);
	bytes[*out_length] = '\0';
	*out = bytes;
	return 0;
}

/* --- out of a message ------------------------------------------------------------------------- */

static int form_text_from(const struct form_field *field, const void *from, size_t length,
			  char *out, struct err *err)
{
	if (length >= field->max)
		return err_set(err, -E2BIG, "%s is longer than %" PRIu64 " bytes", field->name,
			       field->max - 1);
	if (length > 0 && memchr(from, '\0', length))
		return err_set(err, -EINVAL, "%s has a NUL byte in it", field->name);
	if (length > 0)
		memcpy(out, from, length);
	out[length] = '\0';
	return 0;
}

/* What is longer than it may be is left to who checks the whole: he says what it is. */
static int form_string_from(const struct form_field *field, const char *text, char **out,
			    struct err *err)
{
	if (*text == '\0')
		return 0;
	*out = strdup(text);
	return *out ? 0 : err_set(err, -ENOMEM, "no memory for %s", field->name);
}

static int form_word_from(const struct form_field *field, const char *text, uint32_t *out,
			  struct err *err)
{
	int at = names_find_of(field->words, (size_t)field->max + 1, text);
	if (at >= 0) {
		*out = (uint32_t)at;
		return 0;
	}

	return *text == '\0'
		   ? 0
		   : err_set(err, -EINVAL, "%s: '%.40s' is none that is known", field->name, text);
}

int form_list_add(char ***list, size_t *count, size_t max, const char *text)
{
	if (*count >= max)
		return -E2BIG;

	size_t filled = *count + 1;
	bool is_full = filled >= FORM_LIST_FIRST && (filled & (filled - 1)) == 0;
	if (!*list || is_full) {
		size_t room = *list ? 2 * filled : FORM_LIST_FIRST;
		char **more = reallocarray(*list, room, sizeof(*more));
		if (!more)
			return -ENOMEM;

		*list = more;
		more[*count] = NULL;
	}

	char *copy = strdup(text);
	if (!copy)
		return -ENOMEM;

	(*list)[(*count)++] = copy;
	(*list)[*count] = NULL;
	return 0;
}

static int form_list_from(const struct form_field *field, const ProtobufCMessage *message,
			  void *object, struct err *err)
{
	const ProtobufCBinaryData *items =
	    *(ProtobufCBinaryData *const *)form_at(message, field->message_at);
	size_t count = *(const size_t *)form_at(message, field->message_count_at);
	char ***list = form_into(object, field->at);
	size_t *filled = form_into(object, field->count_at);

	if (count > field->max)
		return err_set(err, -E2BIG,
			       "%zu of %s are too many: at most %" PRIu64 " are possible", count,
			       field->name, field->max);

	for (size_t i = 0; i < count; i++) {
		if (items[i].len > 0 && memchr(items[i].data, '\0', items[i].len))
			return err_set(err, -EINVAL, "%s %zu has a NUL byte in it", field->name, i);

		char *text = text_copy(items[i].data, items[i].len);
		int rc = text ? form_list_add(list, filled, field->max, text) : -ENOMEM;
		free(text);
		if (rc < 0)
			return err_set(err, rc, "no memory for %s", field->name);
	}

	return 0;
}

static uint64_t form_message_number(const struct form_field *field, const void *from)
{
	switch (field->kind) {
	case FORM_U64:
		return *(const uint64_t *)from;
	case FORM_BOOL:
		return *(const protobuf_c_boolean *)from != 0;
	default:
		return *(const uint32_t *)from;
	}
}

static int form_field_from(const struct form_field *field, const ProtobufCMessage *message,
			   void *object, struct err *err)
{
	const void *from = form_at(message, field->message_at);
	void *out = form_into(object, field->at);

	switch (field->kind) {
	case FORM_TEXT: {
		const char *text = *(char *const *)from;
		return form_text_from(field, text, strlen(text), out, err);
	}
	case FORM_BYTES: {
		const ProtobufCBinaryData *bytes = from;
		return form_text_from(field, bytes->data, bytes->len, out, err);
	}
	case FORM_STRING:
		return form_string_from(field, *(char *const *)from, out, err);
	case FORM_WORD:
		return form_word_from(field, *(char *const *)from, out, err);
	case FORM_LIST:
		return form_list_from(field, message, object, err);
	default:
		form_set_number(field, object, form_message_number(field, from));
		return form_check_number(field, object, err);
	}
}

int form_from_message(const struct form_field *fields, size_t count,
		      const ProtobufCMessage *message, void *object, struct err *err)
{
	if (message->n_unknown_fields > 0)
		return err_set(err, -EINVAL,
			       "field %" PRIu32
			       " is not known here: it is of a later release of sluice",
			       message->unknown_fields[0].tag);

	int rc = 0;
	for (size_t i = 0; rc == 0 && i < count; i++)
		rc = form_field_from(&fields[i], message, object, err);
	return rc;
}

/* --- the struct itself ------------------------------------------------------------------------ */

void form_done(const struct form_field *fields, size_t count, void *object)
{
	for (size_t i = 0; i < count; i++) {
		char ***list = form_into(object, fields[i].at);

		if (fields[i].kind == FORM_STRING) {
			free(*(char **)form_into(object, fields[i].at));
			*(char **)form_into(object, fields[i].at) = NULL;
		} else if (fields[i].kind == FORM_LIST) {
			for (char **at = *list; at && *at; at++)
				free(*at);
			free(*list);
			*list = NULL;
			*(size_t *)form_into(object, fields[i].count_at) = 0;
		}
	}
}

int form_copy_strings(const struct form_field *fields, size_t count, void *object)
{
	int rc = 0;
	for (size_t i = 0; i < count; i++) {
		char **text = form_into(object, fields[i].at);
		if (fields[i].kind != FORM_STRING || !*text)
			continue;
		*text = strdup(*text);
		rc = *text ? rc : -ENOMEM;
	}
	return rc;
}

static bool form_lists_are_equal(const struct form_field *field, const void *a, const void *b)
{
	size_t count, others;
	char **left = form_list(field, a, &count), **right = form_list(field, b, &others);
	bool is_equal = count == others;

	for (size_t i = 0; is_equal && i < count; i++)
		is_equal = strcmp(left[i], right[i]) == 0;
	return is_equal;
}

bool form_field_is_equal(const struct form_field *field, const void *a, const void *b)
{
	switch (field->kind) {
	case FORM_TEXT:
	case FORM_BYTES:
		return strcmp(form_at(a, field->at), form_at(b, field->at)) == 0;
	case FORM_STRING: {
		const char *one = form_string(field, a), *other = form_string(field, b);
		return !one == !other && (!one || strcmp(one, other) == 0);
	}
	case FORM_LIST:
		return form_lists_are_equal(field, a, b);
	default:
		return form_number(field, a) == form_number(field, b);
	}
}

int form_check_number(const struct form_field *field, const void *object, struct err *err)
{
	uint64_t number = form_number(field, object);

	if (field->kind == FORM_I32) {
		int64_t value = (int64_t)number, max = (int64_t)field->max;
		if (value < -max || value > max)
			return err_set(err, -EINVAL,
				       "%s is %" PRId64 ": it can be -%" PRId64 " to %" PRId64,
				       field->name, value, max, max);
	} else if ((field->kind == FORM_U32 || field->kind == FORM_U64 ||
		    field->kind == FORM_WORD) &&
		   number > field->max) {
		return err_set(err, -EINVAL, "%s is %" PRIu64 ": at most %" PRIu64 " can be meant",
			       field->name, number, field->max);
	}

	return 0;
}
