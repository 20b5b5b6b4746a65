/* SPDX-License-Identifier: Apache-2.0 */
#include "hardware/health_marks.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/parse.h"
#include "base/text.h"

#define MARKS_HEAD "sluice-health 1"

enum marks_limits {
	LINE_MAX_LENGTH = 512, /* bytes of a line with its NUL */
	WORDS_MAX = 9,
};

/* --- writing --------------------------------------------------------------------------------- */

int health_marks_begin(struct buf *out, const char *boot, uint64_t kmsg_sequence)
{
	int rc = buf_printf(out, MARKS_HEAD "\n");
	if (rc == 0 && boot[0])
		rc = buf_printf(out, "boot %s\n", boot);
	if (rc == 0 && kmsg_sequence != HEALTH_MARKS_NO_SEQUENCE)
		rc = buf_printf(out, "kmsg %" PRIu64 "\n", kmsg_sequence);
	return rc;
}

int health_marks_end(struct buf *out)
{
	return buf_add_text(out, "end\n");
}

bool health_mark_is_empty(const struct health_track *track)
{
	return track->event_count == 0 && track->held == 0 && !track->remap_accepted &&
	       track->recovery_from_log == 0;
}

/* A number, or "-" for one that is not told. */
static int add_u32(struct buf *out, uint32_t value)
{
	return value == SNAPSHOT_U32_ABSENT ? buf_add_text(out, " -")
					    : buf_printf(out, " %" PRIu32, value);
}

static int add_xid(struct buf *out, const struct health_event *event)
{
	const uint32_t numbers[] = {event->gi, event->ci, event->pid, event->recovery_action};
	int rc = buf_printf(out, "xid %" PRIu32 " %" PRIu64, event->xid, event->time_ns);
	for (size_t i = 0; rc == 0 && i < array_length(numbers); i++)
		rc = add_u32(out, numbers[i]);

	const char *severity = !event->has_severity ? "-" : event->fatal ? "fatal" : "nonfatal";

	if (rc == 0)
		rc = buf_printf(out, " %s %s\n", severity, event->reset_seen ? "reset-seen" : "-");

	return rc;
}

/* Text on a line of its own: what would end the line becomes a blank. */
static int add_text(struct buf *out, const char *key, const char *text)
{
	int rc = buf_add_text(out, key);
	for (; rc == 0 && *text; text++) {
		char byte = (unsigned char)*text < ' ' || *text == 0x7f ? ' ' : *text;
		rc = buf_add(out, &byte, 1);
	}
	return rc == 0 ? buf_add_text(out, "\n") : rc;
}

static int add_held(struct buf *out, const struct health_track *track)
{
	int rc = 0;
	for (uint32_t cause = 0; rc == 0 && cause < HEALTH_CAUSE_COUNT; cause++) {
		if (track->held >> cause & 1)
			rc = buf_printf(out, "held %s\n", health_cause_to_string(cause));
	}

	if (rc == 0 && track->held_action != 0)
		rc = buf_printf(out, "action %" PRIu32 "\n", track->held_action);
	if (rc == 0 && track->held_text[0])
		rc = add_text(out, "text ", track->held_text);
	if (rc == 0 && track->recovery_from_log != 0)
		rc = buf_printf(out, "recovery %" PRIu32 "\n", track->recovery_from_log);
	if (rc == 0 && track->remap_accepted)
		rc = buf_add_text(out, "accepted\n");

	return rc;
}

int health_marks_add(struct buf *out, const struct health_mark *mark)
{
	const struct health_track *track = &mark->track;
	char bus[SNAPSHOT_SHORT_MAX + 2];

	(void)snprintf(bus, sizeof(bus), "%s", mark->bus[0] ? mark->bus : "-");
	int rc = buf_printf(out, "gpu %s %" PRIu32 " %s ", mark->uuid, mark->index, bus);
	if (rc == 0)
		rc = add_text(out, "", mark->name);
	if (rc == 0 && track->energy.is_known)
		rc = buf_printf(out, "energy %" PRId64 "\n", track->energy.value);

	if (rc == 0 && track->ecc.is_known)
		rc = buf_printf(out, "ecc %" PRId64 "\n", track->ecc.value);
	if (rc == 0)
		rc = add_held(out, track);

	for (uint32_t i = 0; rc == 0 && i < track->event_count; i++)
		rc = add_xid(out, &track->event[i]);

	return rc;
}

/* --- reading --------------------------------------------------------------------------------- */

struct marks_reading {
	struct health_marks *marks;
	struct health_mark *mark; /* the GPU whose lines come; NULL before the first */
	bool has_head, is_ended;
};

struct line {
	char text[LINE_MAX_LENGTH]; /* its words, each ended by a NUL */
	char *word[WORDS_MAX];	    /* in it; the last one holds the rest of the line */
	size_t count;
};

/* Splits at single blanks into at most `max` words. */
static void line_split(struct line *line, size_t max)
{
	char *at = line->text;

	line->count = 0;
	while (line->count < max) {
		line->word[line->count++] = at;
		char *blank = line->count < max ? strchr(at, ' ') : NULL;
		if (!blank)
			return;

		*blank = '\0';
		at = blank + 1;
	}
}

static bool read_u32(const char *word, uint32_t *out)
{
	uint64_t value;
	if (parse_u64(word, 0, UINT32_MAX, &value) < 0)
		return false;
	*out = (uint32_t)value;
	return true;
}

/* The other way round than add_u32(). */
static bool read_maybe_u32(const char *word, uint32_t *out)
{
	if (strcmp(word, "-") != 0)
		return read_u32(word, out);
	*out = SNAPSHOT_U32_ABSENT;
	return true;
}

static bool read_text(const char *word, size_t size, char *out)
{
	size_t length = strlen(word);
	if (length >= size)
		return false;
	memcpy(out, word, length + 1);
	return true;
}

static bool read_counter(const char *word, struct health_counter *out)
{
	out->is_known = true;
	return parse_i64(word, INT64_MIN, INT64_MAX, &out->value) == 0;
}

static bool read_gpu(struct marks_reading *reading, const struct line *line)
{
	struct health_marks *marks = reading->marks;
	if (marks->count == HEALTH_MARKS_GPU_MAX || line->count != 5)
		return false;

	struct health_mark *mark = &marks->marks[marks->count];
	*mark = (struct health_mark){.uuid = ""};

	const char *bus = strcmp(line->word[3], "-") == 0 ? "" : line->word[3];
	if (line->word[1][0] == '\0' || !read_text(line->word[1], sizeof(mark->uuid), mark->uuid) ||
	    !read_u32(line->word[2], &mark->index) ||
	    !read_text(bus, sizeof(mark->bus), mark->bus) ||
	    !read_text(line->word[4], sizeof(mark->name), mark->name))
		return false;

	marks->count++;
	reading->mark = mark;
	return true;
}

static bool read_severity(const char *word, struct health_event *event)
{
	event->fatal = strcmp(word, "fatal") == 0;
	event->has_severity = event->fatal || strcmp(word, "nonfatal") == 0;
	return event->has_severity || strcmp(word, "-") == 0;
}

static bool read_xid(struct health_track *track, const struct line *line)
{
	struct health_event event = {.xid = 0};

	char *const *word = line->word;
	if (track->event_count == HEALTH_EVENT_MAX || line->count != 9)
		return false;

	event.reset_seen = strcmp(word[8], "reset-seen") == 0;
	if (!read_u32(word[1], &event.xid) ||
	    parse_u64(word[2], 0, UINT64_MAX, &event.time_ns) < 0 ||
	    !read_maybe_u32(word[3], &event.gi) || !read_maybe_u32(word[4], &event.ci) ||
	    !read_maybe_u32(word[5], &event.pid) ||
	    !read_maybe_u32(word[6], &event.recovery_action) || !read_severity(word[7], &event) ||
	    (!event.reset_seen && strcmp(word[8], "-") != 0))
		return false;

	track->event[track->event_count++] = event;
	return true;
}

static bool read_held(struct health_track *track, const char *word)
{
	int cause = health_cause_from_string(word);
	if (cause < 0)
		return false;
	track->held |= UINT32_C(1) << cause;
	return true;
}

/* A line about the present GPU. */
static bool read_about_gpu(struct health_track *track, const struct line *line)
{
	const char *key = line->word[0], *value = line->count == 2 ? line->word[1] : "";
	if (strcmp(key, "xid") == 0)
		return read_xid(track, line);
	if (strcmp(key, "energy") == 0)
		return read_counter(value, &track->energy);
	if (strcmp(key, "ecc") == 0)
		return read_counter(value, &track->ecc);

	if (strcmp(key, "held") == 0)
		return read_held(track, value);
	if (strcmp(key, "action") == 0)
		return read_u32(value, &track->held_action);
	if (strcmp(key, "text") == 0)
		return read_text(value, sizeof(track->held_text), track->held_text);
	if (strcmp(key, "recovery") == 0)
		return read_u32(value, &track->recovery_from_log);

	if (strcmp(key, "accepted") == 0) {
		track->remap_accepted = true;
		return line->count == 1;
	}

	return false;
}

static size_t words_of(const char *text)
{
	static const struct {
		const char *key;
		size_t words;
	} kinds[] = {{"gpu ", 5}, {"xid ", 9}};

	for (size_t i = 0; i < array_length(kinds); i++) {
		if (text_starts_with(text, kinds[i].key))
			return kinds[i].words;
	}

	return 2;
}

static bool read_line(struct marks_reading *reading, struct line *line)
{
	struct health_marks *marks = reading->marks;

	if (reading->is_ended)
		return false;
	if (!reading->has_head) {
		reading->has_head = strcmp(line->text, MARKS_HEAD) == 0;
		return reading->has_head;
	}

	line_split(line, words_of(line->text));
	const char *key = line->word[0], *value = line->count == 2 ? line->word[1] : "";
	if (strcmp(key, "gpu") == 0)
		return read_gpu(reading, line);
	if (strcmp(key, "end") == 0) {
		reading->is_ended = true;
		return line->count == 1;
	}

	if (reading->mark)
		return read_about_gpu(&reading->mark->track, line);
	if (strcmp(key, "boot") == 0)
		return value[0] && read_text(value, sizeof(marks->boot), marks->boot);

	return strcmp(key, "kmsg") == 0 &&
	       parse_u64(value, 0, HEALTH_MARKS_NO_SEQUENCE - 1, &marks->kmsg_sequence) == 0;
}

/* The next line, without its end. False: none, or none that can be ours. */
static bool next_line(const char **at, const char *end, struct line *out)
{
	const char *stop = memchr(*at, '\n', (size_t)(end - *at));
	size_t length = stop ? (size_t)(stop - *at) : 0;
	if (!stop || length >= sizeof(out->text) || memchr(*at, '\0', length))
		return false;

	memcpy(out->text, *at, length);
	out->text[length] = '\0';
	*at = stop + 1;

	return true;
}

int health_marks_parse(const char *text, size_t length, struct health_marks *out, struct err *err)
{
	_cleanup_health_marks_ struct health_marks marks = {.kmsg_sequence =
								HEALTH_MARKS_NO_SEQUENCE};
	struct marks_reading reading = {.marks = &marks};
	const char *at = text, *end = text + length;

	marks.marks = calloc(HEALTH_MARKS_GPU_MAX, sizeof(*marks.marks));
	if (!marks.marks)
		return err_set(err, -ENOMEM, "no memory to read what is remembered of the GPUs");

	for (unsigned number = 1; at < end; number++) {
		struct line line;
		if (!next_line(&at, end, &line) || !read_line(&reading, &line))
			return err_set(err, -EINVAL, "line %u is damaged", number);
	}

	if (!reading.is_ended)
		return err_set(err, -EINVAL, "its end is missing");

	*out = marks;
	marks.marks = NULL;
	return 0;
}

void health_marks_done(struct health_marks *marks)
{
	free(marks->marks);
	marks->marks = NULL;
	marks->count = 0;
}
