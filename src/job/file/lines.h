/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines of commands out of bytes that come piece by piece, for `sluice run --lines`: empty ones and
 * those that begin with '#' are left out, and so are a carriage return and blanks at an end. Pure.
 */
#ifndef SLUICE_JOB_FILE_LINES_H
#define SLUICE_JOB_FILE_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

struct err;

enum lines_limits {
	LINES_LINE_MAX = 131071, /* bytes: the longest argument of a command */
	LINES_PIECE_MAX = 65536, /* bytes that are fed at once */
};

struct lines {
	struct buf bytes; /* not yet handed out */
	size_t taken;	  /* of them, that were */
	uint64_t number;  /* of the line that was handed out last */
};

void lines_init(struct lines *lines);
void lines_done(struct lines *lines);

/* Up to LINES_PIECE_MAX more bytes, when lines_next() had no more. -E2BIG: a line is too long, with
 * its number; -ENOMEM. */
int lines_feed(struct lines *lines, const char *bytes, size_t length, struct err *err);
/* The next command: 1, `*out` valid until the next call; 0 when there is none yet. `is_end`: what
 * is there without an end of line counts, too. -EINVAL: a NUL in it, with its number. */
int lines_next(struct lines *lines, bool is_end, const char **out, struct err *err);

#endif
