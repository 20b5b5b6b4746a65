/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log_format.h"

#include <errno.h>
#include <jansson.h>
#include <stdint.h>
#include <string.h>

#include "base/buf.h"
#include "base/names.h"
#include "base/text.h"

enum log_format_internals {
	LOG_TIME_SIZE = 64,
	LOG_NAME_MAX = 64, /* the journal's own limit for field names */
};

static bool log_field_is_good(const struct log_field *field)
{
	size_t length = strspn(field->name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
	bool starts_right = field->name[0] >= 'A' && field->name[0] <= 'Z';
	return field->value && starts_right && length <= LOG_NAME_MAX &&
	       field->name[length] == '\0';
}

/* The next field worth writing; NULL at the end. */
static const struct log_field *log_field_next(const struct log_field *field, size_t *index)
{
	for (; field && field[*index].name && *index < LOG_FIELDS_MAX; (*index)++) {
		if (log_field_is_good(&field[*index]))
			return &field[(*index)++];
	}
	return NULL;
}

static void log_lower(const char *name, char out[LOG_NAME_MAX + 1])
{
	size_t length = strlen(name);
	for (size_t i = 0; i < length; i++)
		out[i] = name[i] >= 'A' && name[i] <= 'Z' ? (char)(name[i] - 'A' + 'a') : name[i];
	out[length] = '\0';
}

static void log_time_utc(const struct timespec *when, char out[LOG_TIME_SIZE])
{
	struct tm parts = {0};
	(void)gmtime_r(&when->tv_sec, &parts);
	size_t length = strftime(out, LOG_TIME_SIZE, "%Y-%m-%dT%H:%M:%S", &parts);
	(void)snprintf(out + length, LOG_TIME_SIZE - length, ".%03uZ",
		       (unsigned)(when->tv_nsec / 1000000) % 1000); /* fits */
}

static const char *log_colour(enum log_level level)
{
	static const char *const colours[] = {
	    [LOG_LEVEL_ERROR] = "\x1b[1;31m",
	    [LOG_LEVEL_WARNING] = "\x1b[1;33m",
	    [LOG_LEVEL_NOTICE] = "\x1b[1m",
	    [LOG_LEVEL_DEBUG] = "\x1b[2m",
	};
	return names_at(colours, level, "");
}

static int log_text_head(struct buf *out, const struct log_entry *entry, enum log_text_style style)
{
	const char *level = log_level_to_string(entry->level);
	char time[LOG_TIME_SIZE];

	switch (style) {
	case LOG_TEXT_PREFIXED:
		return buf_printf(out, "<%d>", (int)entry->level);
	case LOG_TEXT_COLOURED: {
		struct tm parts = {0};
		const char *colour = log_colour(entry->level);

		(void)localtime_r(&entry->when.tv_sec, &parts);
		(void)strftime(time, sizeof(time), "%H:%M:%S", &parts);
		return buf_printf(out, "%s %s%s:%s ", time, colour, level,
				  *colour ? "\x1b[0m" : "");
	}
	case LOG_TEXT_PLAIN:
		break;
	}
	log_time_utc(&entry->when, time);

	return buf_printf(out, "%s %s: ", time, level);
}

int log_format_text(struct buf *out, const struct log_entry *entry, enum log_text_style style)
{
	int rc = log_text_head(out, entry, style);
	if (rc == 0)
		rc = text_escape(out, entry->message, strlen(entry->message));

	const struct log_field *field;
	size_t index = 0;

	while (rc == 0 && (field = log_field_next(entry->fields, &index)) != NULL) {
		char name[LOG_NAME_MAX + 1];
		log_lower(field->name, name);

		bool quoted = strpbrk(field->value, " =\"") || *field->value == '\0';
		rc = buf_printf(out, " %s=%s", name, quoted ? "\"" : "");
		if (rc == 0)
			rc = text_escape(out, field->value, strlen(field->value));
		if (rc == 0 && quoted)
			rc = buf_add_text(out, "\"");
	}

	return rc == 0 ? buf_add_text(out, "\n") : rc;
}

static json_t *log_json_text(const char *text)
{
	_cleanup_buf_ struct buf valid;
	buf_init(&valid, 3 * strlen(text));
	if (text_make_valid(&valid, text, strlen(text)) < 0)
		return NULL;
	return json_stringn(buf_text(&valid), valid.length);
}

static int log_json_dump(const char *data, size_t size, void *context)
{
	return text_escape_json(context, data, size) < 0 ? -1 : 0;
}

int log_format_json(struct buf *out, const struct log_entry *entry)
{
	char time[LOG_TIME_SIZE];
	log_time_utc(&entry->when, time);

	json_t *line =
	    json_pack("{s:s, s:s, s:o}", "time", time, "level", log_level_to_string(entry->level),
		      "message", log_json_text(entry->message));
	int rc = line ? 0 : -ENOMEM;
	const struct log_field *field;
	size_t index = 0;

	while (rc == 0 && (field = log_field_next(entry->fields, &index)) != NULL) {
		char name[LOG_NAME_MAX + 1];
		log_lower(field->name, name);
		if (json_object_get(line, name))
			continue; /* "message" and its like are taken */
		if (json_object_set_new(line, name, log_json_text(field->value)) < 0)
			rc = -ENOMEM;
	}

	/* What jansson cannot write is what the buffer refuses; its memory is small beside it. */
	if (rc == 0 && json_dump_callback(line, log_json_dump, out, JSON_COMPACT) < 0)
		rc = -ENOSPC;
	json_decref(line);
	return rc == 0 ? buf_add_text(out, "\n") : rc;
}

/* "NAME=value\n", or, for values with line ends, the name, "\n", 64 bits of length, the value. */
static int log_journal_field(struct buf *out, const char *name, const char *value, size_t length)
{
	int rc = buf_add_text(out, name);

	if (!memchr(value, '\n', length)) {
		if (rc == 0)
			rc = buf_add_text(out, "=");
	} else {
		unsigned char size[8];
		for (size_t i = 0; i < sizeof(size); i++)
			size[i] = (unsigned char)((uint64_t)length >> 8 * i);

		if (rc == 0)
			rc = buf_add_text(out, "\n");
		if (rc == 0)
			rc = buf_add(out, size, sizeof(size));
	}

	if (rc == 0)
		rc = buf_add(out, value, length);

	return rc == 0 ? buf_add_text(out, "\n") : rc;
}

int log_format_journal(struct buf *out, const struct log_entry *entry)
{
	int rc = buf_printf(out, "PRIORITY=%d\n", (int)entry->level);
	if (rc == 0)
		rc = log_journal_field(out, "SYSLOG_IDENTIFIER", entry->program,
				       strlen(entry->program));
	if (rc == 0)
		rc = log_journal_field(out, "MESSAGE", entry->message, strlen(entry->message));

	const struct log_field *field;
	size_t index = 0;
	while (rc == 0 && (field = log_field_next(entry->fields, &index)) != NULL)
		rc = log_journal_field(out, field->name, field->value,
				       strnlen(field->value, LOG_MESSAGE_MAX));

	return rc;
}
