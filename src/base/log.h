/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log of a service. Where it goes is found out once: to the journal by its own protocol when
 * systemd started us, as coloured text when a person looks at a terminal, as JSON lines otherwise.
 * Writing never fails and never blocks: what the reader does not take in time is dropped and
 * counted, and the next line that goes through says how many were lost.
 *
 * Who logs: the door or the agent, once for each thing that happened; libraries below it return
 * errors and log at most at LOG_LEVEL_DEBUG.
 */
#ifndef SLUICE_BASE_LOG_H
#define SLUICE_BASE_LOG_H

#include <stdbool.h>
#include <stdint.h>

struct err;
struct log;

/* The numbers of syslog (RFC 5424), which the journal takes as PRIORITY. */
enum log_level {
	LOG_LEVEL_ERROR = 3,
	LOG_LEVEL_WARNING = 4,
	LOG_LEVEL_NOTICE = 5,
	LOG_LEVEL_INFO = 6,
	LOG_LEVEL_DEBUG = 7,
};

enum log_format {
	LOG_FORMAT_AUTO,
	LOG_FORMAT_TEXT,
	LOG_FORMAT_JSON,
	LOG_FORMAT_JOURNAL,
};

enum log_limits {
	LOG_MESSAGE_MAX = 64 * 1024, /* bytes of a message or a field; longer ones are cut */
	LOG_FIELDS_MAX = 16,
	LOG_LINE_MAX = 4096, /* of a text or JSON line, its end included: a pipe takes it whole */
};

/* What an entry is about: {"GPU_UUID", "GPU-..."}. Names are capitals, digits and '_', not first.
 */
struct log_field {
	const char *name;
	const char *value;
};

struct log_options {
	enum log_format format;
	int fd;			  /* borrowed: where text and JSON go, usually 2 */
	const char *program;	  /* SYSLOG_IDENTIFIER; borrowed for the log's life */
	const char *journal_path; /* NULL: /run/systemd/journal/socket */
};

/*
 * LOG_FORMAT_AUTO is the journal if $JOURNAL_STREAM names what `fd` is, text on a terminal, JSON
 * otherwise. A journal that cannot be reached becomes text with the "<4>" prefixes that journald
 * reads from a service's output. NULL: -ENOMEM; -EINVAL: an unknown format.
 */
struct log *log_new(const struct log_options *options, struct err *err);
struct log *log_free(struct log *log);
/* What it was decided to be; never LOG_FORMAT_AUTO. */
enum log_format log_format_of(const struct log *log);

/*
 * Writes one entry, from any thread. `fields` ends in a row without a name and may be NULL; rows
 * without a value or with a wrong name are left out. `log` may be NULL: then nothing is written.
 */
void log_write(struct log *log, enum log_level level, const struct log_field *fields,
	       const char *format, ...) __attribute__((format(printf, 4, 5)));
/* Entries that were lost because nobody took them, or for want of memory. */
uint64_t log_dropped(const struct log *log);

/* The level of the process: less important entries are not written. LOG_LEVEL_INFO at first. */
void log_set_level(enum log_level level);
/* "error", "warning", "notice", "info", "debug". */
const char *log_level_to_string(enum log_level level);

#endif
