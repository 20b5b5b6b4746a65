/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/mllog.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/names.h"
#include "base/parse.h"
#include "bench/mlnotation.h"

static const char mllog_token[] = ":::MLLOG ", mllog_old_token[] = ":::MLL ";

static const char *const mllog_events[] = {[MLLOG_POINT] = "POINT_IN_TIME",
					   [MLLOG_START] = "INTERVAL_START",
					   [MLLOG_STOP] = "INTERVAL_END"};

/* --- finding it ------------------------------------------------------------------------------- */

/* Where the last `token` begins; NULL. */
static const char *mllog_find(const char *line, size_t length, const char *token)
{
	const char *found = NULL, *at = line;
	size_t span = strlen(token);
	while ((at = memmem(at, length - (size_t)(at - line), token, span))) {
		found = at;
		at += span;
	}
	return found;
}

/* Recursion of the JSON reader is bounded by what it is given. */
static bool mllog_is_shallow(const char *text, size_t length)
{
	size_t depth = 0;

	for (size_t i = 0; i < length; i++) {
		if (text[i] == '{' || text[i] == '[')
			depth++;
		else if ((text[i] == '}' || text[i] == ']') && depth > 0)
			depth--;

		if (depth > MLLOG_DEPTH_MAX)
			return false;
	}

	return true;
}

/* Logs are bytes: what is not UTF-8 is Latin-1. Caller's; NULL: no memory. */
static char *mllog_decode(const char *text, size_t length, size_t *out_length)
{
	char *own = malloc(2 * length + 1);
	size_t filled = 0;

	for (size_t i = 0; own && i < length; i++) {
		unsigned char byte = (unsigned char)text[i];
		if (byte < 0x80) {
			own[filled++] = (char)byte;
		} else {
			own[filled++] = (char)(0xc0 | byte >> 6);
			own[filled++] = (char)(0x80 | (byte & 0x3f));
		}
	}

	if (own)
		own[filled] = '\0';
	*out_length = filled;
	return own;
}

/* --- what is in it ---------------------------------------------------------------------------- */

static double mllog_number(const json_t *object, const char *key)
{
	const json_t *value = json_object_get(object, key);
	return json_is_number(value) ? json_number_value(value) : NAN;
}

static void mllog_text(char out[MLLOG_TEXT_MAX], const json_t *value)
{
	const char *text = json_string_value(value);
	(void)snprintf(out, MLLOG_TEXT_MAX, "%.*s", MLLOG_TEXT_MAX - 1, text ? text : ""); /* cut */
}

/* FNV-1a, http://www.isthe.com/chongo/tech/comp/fnv/ */
static uint64_t mllog_id(const void *data, size_t length)
{
	const unsigned char *bytes = data;
	uint64_t id = 0xcbf29ce484222325;
	for (size_t i = 0; i < length; i++)
		id = (id ^ bytes[i]) * 0x100000001b3;
	return id;
}

/* 1, 1.0 and true are equal, as they are to the checker. 0: no memory. */
static uint64_t mllog_value_id(const struct mllog *log, const json_t *value)
{
	if (log->kind == MLLOG_NUMBER || log->kind == MLLOG_BOOL) {
		double number = log->number == 0 ? 0 : log->number; /* -0 is 0 */
		return mllog_id(&number, sizeof(number));
	}

	char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_SORT_KEYS | JSON_COMPACT);
	uint64_t id = text ? mllog_id(text, strlen(text)) : 0;

	free(text);
	return id;
}

/* Python's writer of JSON has three numbers that JSON has not; mlnotation.h says what became of
 * them. */
static bool mllog_take_special(struct mllog *out, const char *text)
{
	bool is_negative = *text == '-';
	bool is_infinite = strcmp(text + is_negative, "Infinity") == 0;
	if (!is_infinite && strcmp(text, "NaN") != 0)
		return false;
	out->kind = MLLOG_NUMBER;
	out->number = !is_infinite ? NAN : is_negative ? -INFINITY : INFINITY;
	return true;
}

static void mllog_take_many(struct mllog *out, const json_t *value)
{
	out->kind = MLLOG_OTHER;
	out->has_length = true;
	out->length = json_is_array(value) ? json_array_size(value) : json_object_size(value);

	for (size_t i = 0; i < MLLOG_ITEMS_MAX; i++) {
		const json_t *item = json_array_get(value, i);
		out->items[i] = json_is_number(item) ? json_number_value(item) : NAN;
	}

	out->bbox = mllog_number(value, "BBOX");
	out->segm = mllog_number(value, "SEGM");
}

/* `is_converted`: it was no JSON. */
static void mllog_take_value(struct mllog *out, const json_t *value, bool is_converted)
{
	const char *text = json_string_value(value);

	if (json_is_null(value)) {
		out->kind = MLLOG_NULL;
	} else if (json_is_boolean(value)) {
		out->kind = MLLOG_BOOL;
		out->number = json_is_true(value);
	} else if (json_is_number(value)) {
		out->kind = MLLOG_NUMBER;
		out->is_integer = json_is_integer(value);

		out->number = json_number_value(value);
	} else if (!text) {
		mllog_take_many(out, value);
	} else if (!is_converted || !mllog_take_special(out, text)) {
		out->kind = MLLOG_STRING;
		out->has_length = true;
		out->length = json_string_length(value);
		mllog_text(out->text, value);
	}

	out->value_id = mllog_value_id(out, value);
}

static int mllog_take_metadata(struct mllog *out, const json_t *body, bool is_converted,
			       struct err *err)
{
	const json_t *value = json_object_get(body, "value");
	const json_t *metadata = json_object_get(body, "metadata");

	if (!value)
		return err_set(err, -EINVAL, "'%s' has no value (null is one)", out->key);
	if (!json_is_object(metadata) && !json_is_null(metadata))
		return err_set(err, -EINVAL, "'%s' has no metadata ({} are some)", out->key);

	mllog_take_value(out, value, is_converted);
	out->epoch_num = mllog_number(metadata, "epoch_num");
	out->first_epoch_num = mllog_number(metadata, "first_epoch_num");
	out->epoch_count = mllog_number(metadata, "epoch_count");
	out->timestamp_s = mllog_number(metadata, "timestamp");
	mllog_text(out->status, json_object_get(metadata, "status"));
	mllog_text(out->method, json_object_get(metadata, "method"));
	mllog_text(out->tensor, json_object_get(metadata, "tensor"));
	out->has_tensor = json_object_get(metadata, "tensor") != NULL;

	return 0;
}

static bool mllog_ends_in(const char *text, const char *end)
{
	size_t length = strlen(text), span = strlen(end);
	return length >= span && strcmp(text + length - span, end) == 0;
}

static enum mllog_event mllog_event_of_key(const char *key)
{
	return mllog_ends_in(key, "_start")  ? MLLOG_START
	       : mllog_ends_in(key, "_stop") ? MLLOG_STOP
					     : MLLOG_POINT;
}

/* Neither event_type nor namespace is read by MLCommons' checker, and Google's logs of v0.7 lack
 * them. */
static int mllog_take_new(struct mllog *out, const json_t *body, bool is_converted, struct err *err)
{
	const char *key = json_string_value(json_object_get(body, "key"));
	const char *event = json_string_value(json_object_get(body, "event_type"));
	const char *time = json_string_value(json_object_get(body, "time_ms"));

	out->time_ms = mllog_number(body, "time_ms");
	if (!key || *key == '\0' || strlen(key) >= MLLOG_KEY_MAX)
		return err_set(err, -EINVAL, "it has no key, or one of %d bytes and more",
			       MLLOG_KEY_MAX);

	memcpy(out->key, key, strlen(key) + 1);
	if (time)
		(void)parse_fraction(time, 0, 1e15, &out->time_ms); /* else it stays NAN */
	if (isnan(out->time_ms))
		return err_set(err, -EINVAL, "'%s' has no time_ms", key);

	out->event = mllog_event_of_key(key);
	int at = event ? names_find(mllog_events, event) : -EINVAL;
	if (at >= 0)
		out->event = (enum mllog_event)at;

	return mllog_take_metadata(out, body, is_converted, err);
}

/* "1560000000.123 run_start: " before the object. Returns where that begins, or NULL. */
static const char *mllog_take_old(const char *text, size_t length, struct mllog *out)
{
	char number[32];
	const char *blank = memchr(text, ' ', length);
	size_t digits = blank ? (size_t)(blank - text) : 0;
	if (digits == 0 || digits >= sizeof(number))
		return NULL;

	memcpy(number, text, digits);
	number[digits] = '\0';

	double seconds;
	if (parse_fraction(number, 0, 1e11, &seconds) < 0)
		return NULL;

	const char *key = blank + 1;
	size_t left = length - digits - 1;
	const char *colon = memchr(key, ':', left);
	size_t span = colon ? (size_t)(colon - key) : 0;
	if (span == 0 || span >= MLLOG_KEY_MAX)
		return NULL;

	memcpy(out->key, key, span);
	out->key[span] = '\0';
	if (strspn(out->key, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") <
	    span)
		return NULL;

	out->is_old = true;
	out->time_ms = seconds * 1000;
	out->event = mllog_event_of_key(out->key);

	return colon + 1;
}

/* What Python writes and JSON has not, as what it means. Whole numbers may be of any size here, as
 * a seed of 64 bits is. -EINVAL says nothing: the attempt to read it as JSON said why. */
static int mllog_convert(const char *text, size_t length, struct mllog *out, json_t **out_json)
{
	struct buf converted _cleanup_buf_;
	json_error_t unused;

	buf_init(&converted, 8 * MLLOG_LINE_MAX);
	int rc = mlnotation_to_json(text, length, &converted, &out->is_python, NULL);
	if (rc < 0)
		return rc;
	if (!mllog_is_shallow(buf_text(&converted), converted.length))
		return -EINVAL;

	*out_json =
	    json_loadb(buf_text(&converted), converted.length, JSON_DECODE_INT_AS_REAL, &unused);
	return *out_json ? 0 : -EINVAL;
}

/* The object that begins at `body`; the caller's. */
static int mllog_load(const char *line, size_t length, const char *body, struct mllog *out,
		      json_t **out_json, bool *out_is_converted, struct err *err)
{
	size_t left = length - (size_t)(body - line), decoded;
	if (!mllog_is_shallow(body, left))
		return err_set(err, -EINVAL, "more than %d levels", MLLOG_DEPTH_MAX);

	_cleanup_free_ char *text = mllog_decode(body, left, &decoded);
	if (!text)
		return err_set(err, -ENOMEM, "no memory for a line");

	json_error_t why;
	*out_json = json_loadb(text, decoded, 0, &why);
	*out_is_converted = !*out_json;

	int rc = *out_json ? 0 : mllog_convert(text, decoded, out, out_json);
	if (rc == -EINVAL)
		return err_set(err, rc, "column %zu: %s",
			       (size_t)(body - line) + (size_t)(why.column > 0 ? why.column : 0),
			       why.text);

	return rc < 0 ? err_set(err, rc, "no memory for a line") : 0;
}

int mllog_parse(const char *line, size_t length, struct mllog *out, struct err *err)
{
	struct mllog found = {.epoch_num = NAN,
			      .first_epoch_num = NAN,
			      .epoch_count = NAN,
			      .bbox = NAN,
			      .segm = NAN,
			      .items = {NAN, NAN},
			      .timestamp_s = NAN};
	const char *token = mllog_find(line, length, mllog_token);
	const char *old = mllog_find(line, length, mllog_old_token);
	if (!token && !old)
		return 0;

	if (length > MLLOG_LINE_MAX)
		return err_set(err, -EINVAL, "it has %zu bytes: at most %d can be read", length,
			       MLLOG_LINE_MAX);

	const char *body = token && (!old || token > old) ? token + strlen(mllog_token) : NULL;
	if (!body) {
		old += strlen(mllog_old_token);
		body = mllog_take_old(old, length - (size_t)(old - line), &found);
		if (!body)
			return err_set(err, -EINVAL, "':::MLL' wants SECONDS KEY: {...}");
	}

	bool is_converted;
	json_t *json;
	int rc = mllog_load(line, length, body, &found, &json, &is_converted, err);
	if (rc < 0)
		return rc;

	rc = found.is_old ? mllog_take_metadata(&found, json, is_converted, err)
			  : mllog_take_new(&found, json, is_converted, err);
	json_decref(json);
	if (rc < 0)
		return rc;

	*out = found;

	return 1;
}

/* --- writing ---------------------------------------------------------------------------------- */

/* One value of JSON, as it is written in one line. Caller's; NULL: it is none. A number keeps the
 * digits that it was given with. */
static char *mllog_one_line(const char *text, bool is_object)
{
	json_error_t why;

	if (!mllog_is_shallow(text, strlen(text)))
		return NULL;

	json_t *json = json_loads(text, JSON_DECODE_ANY, &why);
	char *line = json && (!is_object || json_is_object(json))
			 ? json_is_number(json)
			       ? strndup(text + strspn(text, " \t\r\n"),
					 strcspn(text + strspn(text, " \t\r\n"), " \t\r\n"))
			       : json_dumps(json, JSON_ENCODE_ANY | JSON_ENSURE_ASCII)
			 : NULL;

	json_decref(json);
	return line;
}

int mllog_format(struct buf *out, uint64_t time_ms, enum mllog_event event, const char *key,
		 const char *value, const char *metadata, struct err *err)
{
	size_t length = strlen(key);
	if (length == 0 || length >= MLLOG_KEY_MAX ||
	    strspn(key, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") < length)
		return err_set(err, -EINVAL,
			       "'%.40s' is no key: letters, digits and '_', at most %d of them",
			       key, MLLOG_KEY_MAX - 1);

	char *value_line = mllog_one_line(value ? value : "null", false);
	char *metadata_line = mllog_one_line(metadata ? metadata : "{}", true);
	int rc = 0;

	if (!value_line)
		rc = err_set(err, -EINVAL, "the value of '%s' is no JSON: '%.80s'", key,
			     value ? value : "");
	else if (!metadata_line)
		rc = err_set(err, -EINVAL, "the metadata of '%s' are no JSON object: '%.80s'", key,
			     metadata ? metadata : "");
	else
		rc = buf_printf(out,
				"%s{\"namespace\": \"\", \"time_ms\": %" PRIu64
				", \"event_type\": \"%s\", \"key\": \"%s\", \"value\": %s, "
				"\"metadata\": %s}\n",
				mllog_token, time_ms, mllog_events[event], key, value_line,
				metadata_line);

	free(value_line);
	free(metadata_line);
	return rc;
}
