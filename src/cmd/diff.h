/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What changed between two texts, in the form of diff -u, for edits of one place: everything from
 * the first line that differs to the last is shown as one piece. Pure.
 */
#ifndef SLUICE_CMD_DIFF_H
#define SLUICE_CMD_DIFF_H

#include <stdbool.h>
#include <stddef.h>

struct buf;

/* Appends the difference; nothing when there is none. `path` is what both are called; `is_new`:
 * there is no text before. As buf_add(). */
int diff_add(const char *path, bool is_new, const struct buf *before, const struct buf *after,
	     struct buf *out);

#endif
