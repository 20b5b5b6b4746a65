/* SPDX-License-Identifier: Apache-2.0 */
#include "job/record.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/buf.h"
#include "base/check.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/parse.h"
#include "base/text.h"

static const char record_magic[] = "sluice-attempt 1";

/* A piece of the text: up to a blank, or the rest of a line. */
struct record_span {
	const char *at;
	size_t length;
};

struct record_reader {
	const char *at, *end;
	size_t line;
};

void record_attempt_done(struct record_attempt *attempt)
{
	free(attempt->grants);
	*attempt = (struct record_attempt){.grant_count = 0};
}

static bool record_next_line(struct record_reader *reader, struct record_span *out)
{
	if (reader->at >= reader->end)
		return false;

	size_t left = (size_t)(reader->end - reader->at);
	const char *newline = memchr(reader->at, '\n', left);

	out->at = reader->at;
	out->length = newline ? (size_t)(newline - reader->at) : left;
	reader->at += out->length + (newline ? 1 : 0);
	reader->line++;

	return true;
}

/* Takes the first word off the line. */
static bool record_next_word(struct record_span *line, struct record_span *out)
{
	if (line->length == 0)
		return false;

	const char *blank = memchr(line->at, ' ', line->length);
	size_t length = blank ? (size_t)(blank - line->at) : line->length;

	*out = (struct record_span){line->at, length};
	size_t taken = length + (blank ? 1 : 0);
	line->at += taken;
	line->length -= taken;

	return length > 0;
}

static bool record_is(const struct record_span *span, const char *text)
{
	return span->length == strlen(text) && memcmp(span->at, text, span->length) == 0;
}

/* Copies a text without control characters; "" is none. */
static bool record_copy(const struct record_span *span, char *out, size_t size)
{
	if (span->length == 0 || span->length >= size)
		return false;

	for (size_t i = text_plain(span->at, span->length); i < span->length; i++) {
		if ((unsigned char)span->at[i] < ' ' || span->at[i] == 0x7f)
			return false;
	}

	memcpy(out, span->at, span->length);
	out[span->length] = '\0';
	return true;
}

static bool record_copy_word(struct record_span *line, char *out, size_t size)
{
	struct record_span word;
	return record_next_word(line, &word) && record_copy(&word, out, size);
}

static bool record_u32(struct record_span *line, uint64_t max, uint32_t *out)
{
	struct record_span word;
	uint64_t value;
	if (!record_next_word(line, &word) ||
	    parse_u64_span(word.at, word.length, 0, max, &value) < 0)
		return false;
	*out = (uint32_t)value;
	return true;
}

static bool record_parse_slots(struct record_span word, struct launch_grant *grant)
{
	for (size_t i = 0; i < array_length(grant->slots); i++) {
		const char *colon = memchr(word.at, ':', word.length);
		size_t length = colon ? (size_t)(colon - word.at) : word.length;
		if (length == 0 || length > 16 ||
		    parse_hex_span(word.at, length, UINT64_MAX, &grant->slots[i]) < 0)
			return false;
		if (!colon)
			return true;

		word.at += length + 1;
		word.length -= length + 1;
	}

	return false;
}

/* No slot beyond those of the device, and at least one. */
static bool record_slots_fit(const struct launch_grant *grant)
{
	uint64_t any = 0, beyond = 0;

	for (size_t i = 0; i < array_length(grant->slots); i++) {
		size_t first = i * 64, count = grant->slot_count;

		any |= grant->slots[i];
		if (count <= first)
			beyond |= grant->slots[i];
		else if (count < first + 64)
			beyond |= grant->slots[i] >> (count - first);
	}

	return any != 0 && beyond == 0;
}

static bool record_parse_grant(struct record_span *line, struct launch_grant *out)
{
	struct record_span slots;
	*out = (struct launch_grant){.index = 0};
	return record_copy_word(line, out->uuid, sizeof(out->uuid)) &&
	       record_u32(line, UINT32_MAX, &out->index) &&
	       record_u32(line, LAUNCH_SLOTS_MAX, &out->slot_count) &&
	       record_next_word(line, &slots) && record_parse_slots(slots, out) &&
	       record_slots_fit(out) && record_copy(line, out->label, sizeof(out->label));
}

static int record_error(const struct record_reader *reader, struct err *err)
{
	return err_set(err, -EINVAL, "line %zu of what is stored of an attempt cannot be read",
		       reader->line);
}

static int record_parse_line(struct record_reader *reader, struct record_span line,
			     struct record_attempt *attempt, size_t *room, struct err *err)
{
	struct record_span word;
	if (!record_next_word(&line, &word))
		return record_error(reader, err);
	if (record_is(&word, "instance"))
		return record_copy(&line, attempt->instance, sizeof(attempt->instance))
			   ? 0
			   : record_error(reader, err);

	if (record_is(&word, "isolation")) {
		char text[64];
		return record_copy(&line, text, sizeof(text)) &&
			       isolation_level_from_string(text, &attempt->isolation) == 0
			   ? 0
			   : record_error(reader, err);
	}

	if (!record_is(&word, "grant") || attempt->grant_count == LAUNCH_GRANTS_MAX)
		return record_error(reader, err);

	/* Most have one. */
	if (array_room(&attempt->grants, attempt->grant_count, room, 1) < 0)
		return err_set(err, -ENOMEM, "no memory for the GPUs of an attempt");

	if (!record_parse_grant(&line, &attempt->grants[attempt->grant_count]))
		return record_error(reader, err);

	attempt->grant_count++;
	return 0;
}

int record_parse_attempt(const char *text, size_t length, struct record_attempt *out,
			 struct err *err)
{
	*out = (struct record_attempt){.grant_count = 0};
	_cleanup_record_attempt_ struct record_attempt attempt = {.grant_count = 0};
	struct record_reader reader = {.at = text, .end = text + length};
	struct record_span line;

	if (length > RECORD_TEXT_MAX || !record_next_line(&reader, &line) ||
	    !record_is(&line, record_magic))
		return record_error(&reader, err);

	size_t room = 0;
	while (record_next_line(&reader, &line)) {
		int rc = record_parse_line(&reader, line, &attempt, &room, err);
		if (rc < 0)
			return rc;
	}

	*out = attempt;
	attempt = (struct record_attempt){.grant_count = 0};
	return 0;
}

int record_each_grant(const char *text, size_t length,
		      void (*each)(const struct launch_grant *grant, void *context), void *context)
{
	struct record_reader reader = {.at = text, .end = text + length};
	struct record_span line, word;

	if (length > RECORD_TEXT_MAX || !record_next_line(&reader, &line) ||
	    !record_is(&line, record_magic))
		return -EINVAL;

	while (record_next_line(&reader, &line)) {
		struct launch_grant grant;

		if (!record_next_word(&line, &word))
			return -EINVAL;
		if (!record_is(&word, "grant"))
			continue;
		if (!record_parse_grant(&line, &grant))
			return -EINVAL;

		each(&grant, context);
	}

	return 0;
}

static int record_add_grant(struct buf *buf, const struct launch_grant *grant)
{
	int rc = buf_printf(buf, "grant %s %" PRIu32 " %" PRIu32 " ", grant->uuid, grant->index,
			    grant->slot_count);
	size_t words = array_length(grant->slots);
	while (words > 1 && grant->slots[words - 1] == 0)
		words--;

	for (size_t i = 0; i < words && rc == 0; i++)
		rc = buf_printf(buf, "%s%" PRIx64, i > 0 ? ":" : "", grant->slots[i]);

	return rc == 0 ? buf_printf(buf, " %s\n", grant->label) : rc;
}

int record_format_attempt(const char *instance, const struct launch_grant *grants, size_t count,
			  char **out, struct err *err)
{
	_cleanup_buf_ struct buf buf;
	buf_init(&buf, RECORD_TEXT_MAX);

	int rc = buf_printf(&buf, "%s\n", record_magic);
	if (rc == 0 && instance[0])
		rc = buf_printf(&buf, "instance %s\n", instance);

	for (size_t i = 0; i < count && rc == 0; i++)
		rc = record_add_grant(&buf, &grants[i]);

	if (rc == 0 && !(*out = buf_take(&buf)))
		rc = -ENOMEM;
	if (rc == -ENOSPC)
		return err_set(err, -E2BIG, "what is stored of %zu GPUs passes %d bytes", count,
			       RECORD_TEXT_MAX);

	return rc < 0 ? err_set(err, rc, "no memory for the GPUs of an attempt") : 0;
}

int record_format_observations(const struct queue_observation *observed, size_t count, char **out,
			       struct err *err)
{
	*out = NULL;
	if (count == 0)
		return 0;

	_cleanup_buf_ struct buf buf;
	buf_init(&buf, RECORD_TEXT_MAX);

	int rc = 0;
	for (size_t i = 0; i < count && i < RECORD_OBSERVATIONS_MAX && rc == 0; i++)
		rc = buf_printf(&buf, "%d %" PRId64 " %" PRId64 " %s\n", (int)observed[i].pid,
				observed[i].first_unix_ns, observed[i].last_unix_ns,
				observed[i].uuid);

	if (rc == 0 && !(*out = buf_take(&buf)))
		rc = -ENOMEM;

	return rc < 0 ? err_set(err, rc, "no memory for the observations of a job") : 0;
}

static bool record_i64(struct record_span *line, int64_t *out)
{
	struct record_span word;
	uint64_t value;
	if (!record_next_word(line, &word) ||
	    parse_u64_span(word.at, word.length, 0, INT64_MAX, &value) < 0)
		return false;
	*out = (int64_t)value;
	return true;
}

static bool record_parse_observation(struct record_span *line, struct queue_observation *out)
{
	uint32_t pid;
	*out = (struct queue_observation){.pid = 0};
	if (!record_u32(line, INT32_MAX, &pid) || !record_i64(line, &out->first_unix_ns) ||
	    !record_i64(line, &out->last_unix_ns) ||
	    !record_copy(line, out->uuid, sizeof(out->uuid)))
		return false;

	out->pid = (pid_t)pid;
	return true;
}

int record_parse_observations(const char *text, size_t length, struct queue_observation **out,
			      size_t *out_count, struct err *err)
{
	*out = NULL;
	*out_count = 0;

	_cleanup_free_ struct queue_observation *list = NULL;
	struct record_reader reader = {.at = text, .end = text + length};
	struct record_span line;
	size_t count = 0, room = 0;

	while (record_next_line(&reader, &line)) {
		if (count == RECORD_OBSERVATIONS_MAX)
			return record_error(&reader, err);

		if (array_room(&list, count, &room, 1) < 0)
			return err_set(err, -ENOMEM, "no memory for the observations");

		if (!record_parse_observation(&line, &list[count]))
			return record_error(&reader, err);

		count++;
	}

	*out = take_ptr(list);
	*out_count = count;
	return 0;
}
