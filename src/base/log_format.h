/* SPDX-License-Identifier: Apache-2.0 */
/* How an entry of the log looks in each format. Pure: an entry in, bytes out; log.c sends them. */
#ifndef SLUICE_BASE_LOG_FORMAT_H
#define SLUICE_BASE_LOG_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <time.h>

#include "base/log.h"

struct buf;

struct log_entry {
	enum log_level level;
	const char *message;
	const struct log_field *fields; /* ends in a row without a name */
	const char *program;
	struct timespec when; /* CLOCK_REALTIME */
};

enum log_text_style {
	LOG_TEXT_PLAIN,	   /* "2026-11-20T22:30:00.123Z warning: message key=value" */
	LOG_TEXT_COLOURED, /* "22:30:00 warning: ..." with colours, local time */
	LOG_TEXT_PREFIXED, /* "<4>message key=value", as sd-daemon(3) says */
};

/* All append to `out` and return 0, -ENOSPC (longer than out->max; content is then undefined) or
 * -ENOMEM. Text and JSON are one line with its end and show no control characters. */
int log_format_text(struct buf *out, const struct log_entry *entry, enum log_text_style style);
int log_format_json(struct buf *out, const struct log_entry *entry);
/* The journal's native protocol: https://systemd.io/JOURNAL_NATIVE_PROTOCOL/ */
int log_format_journal(struct buf *out, const struct log_entry *entry);

#endif
