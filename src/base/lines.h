/* SPDX-License-Identifier: Apache-2.0 */
/* Lines out of bytes that arrive in pieces of any size, with a cap on a line. Pure. */
#ifndef SLUICE_BASE_LINES_H
#define SLUICE_BASE_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

enum lines_limits {
	LINES_PIECE_MAX = 64 << 10, /* bytes that are fed at once */
	LINES_KEEP = 128 << 10,	    /* bytes of memory that stay between two lines */
};

struct lines {
	struct buf bytes; /* not yet handed out */
	size_t taken;	  /* of them, that were */
	size_t line_max;  /* bytes of a line */
	uint64_t number;  /* of the line that was handed out last */
};

void lines_init(struct lines *lines, size_t line_max);
void lines_done(struct lines *lines);
/* As after lines_init(): what is not handed out yet is dropped. */
void lines_clear(struct lines *lines);

/* Up to LINES_PIECE_MAX more bytes, when lines_next() had no more. -E2BIG: a line is too long;
 * -ENOMEM. */
int lines_feed(struct lines *lines, const char *bytes, size_t length);
/*
 * The next line, without its end ("\n" or "\r\n"): 1, and `*out` with a NUL behind it, which may be
 * changed and is valid until the next call; 0 when there is none yet. `is_end`: what is there
 * without an end of line counts, too. -E2BIG: it is too long.
 */
int lines_next(struct lines *lines, bool is_end, char **out, size_t *out_length);

#endif
