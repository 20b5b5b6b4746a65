/* SPDX-License-Identifier: Apache-2.0 */
/* Lines out of bytes that arrive in pieces of any size, with a cap on a line. Pure. */
#ifndef SLUICE_LIBEXEC_KUBE_LINES_H
#define SLUICE_LIBEXEC_KUBE_LINES_H

#include <stddef.h>

#include "base/buf.h"

enum lines_limits {
	LINES_MAX = 4 << 20,  /* bytes of a line */
	LINES_KEEP = 64 << 10 /* of memory that stays between two lines */
};

struct lines {
	struct buf part; /* of the line that is not whole */
};

void lines_init(struct lines *lines);
void lines_done(struct lines *lines);
void lines_clear(struct lines *lines);

/*
 * Calls `line` for each line that is whole, without its end ("\n" or "\r\n"); empty ones are left
 * out. What it returns other than 0 ends this and is returned. -EMSGSIZE: a line is longer than
 * LINES_MAX; -ENOMEM. After a failure only lines_clear() makes it usable again.
 */
int lines_feed(struct lines *lines, const char *data, size_t length,
	       int (*line)(const char *text, size_t length, void *context), void *context);

#endif
