/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands out of lines, for `sluice run --lines`: empty ones and those that begin with '#' are
 * left out, and so are blanks at both ends. Pure.
 */
#ifndef SLUICE_JOB_FILE_CMDLINES_H
#define SLUICE_JOB_FILE_CMDLINES_H

#include <stdbool.h>

struct err;
struct lines;

enum cmdlines_limits {
	CMDLINES_LINE_MAX = 131071, /* bytes: the longest argument of a command */
};

/* The next command of `lines`, which were made with CMDLINES_LINE_MAX: 1, `*out` valid until the
 * next call; 0 and `is_end` as lines_next(). -E2BIG: a line is too long, with its number; -EINVAL:
 * a NUL in it, with its number. */
int cmdlines_next(struct lines *lines, bool is_end, const char **out, struct err *err);

#endif
