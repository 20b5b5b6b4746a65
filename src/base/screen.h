/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The output of a program as a terminal may show it to somebody else than its author: lines, tabs,
 * carriage returns, colours and the erasing of a line pass; all else that a terminal would obey is
 * shown as text_escape() shows it. Bytes come as they were read, so what is cut is kept for the
 * next. Pure. Knows nothing of terminals' kinds, which all share what passes (ECMA-48: SGR, EL).
 */
#ifndef SLUICE_BASE_SCREEN_H
#define SLUICE_BASE_SCREEN_H

#include <stdbool.h>
#include <stddef.h>

struct buf;

enum screen_limits {
	SCREEN_HELD_MAX = 32, /* bytes of a sequence: a longer one is shown */
	SCREEN_GROWTH = 6,    /* bytes that one byte may become, at most */
	SCREEN_END_MAX = SCREEN_HELD_MAX * SCREEN_GROWTH + 8, /* that screen_end() appends */
};

struct screen {
	char held[SCREEN_HELD_MAX]; /* the begin of something that is not whole yet */
	size_t length;
	bool is_coloured; /* a colour passed that may still be set */
};

/* Appends what is to be shown of these bytes. 0, -ENOSPC or -ENOMEM as buf_add(): an `out` with
 * room for SCREEN_GROWTH times `length` and SCREEN_END_MAX is never full. */
int screen_show(struct screen *screen, const char *data, size_t length, struct buf *out);
/* Nothing follows: what was held back is shown, and colours end. As above. */
int screen_end(struct screen *screen, struct buf *out);

#endif
