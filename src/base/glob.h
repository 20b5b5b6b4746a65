/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a text fits a pattern with `*`, `?` and sets such as `[a-c_]` (`[!...]`: none of these).
 * A backslash takes the next character as it is. fnmatch(3) would do it, but takes exponential time
 * for patterns that somebody chose for that; this takes at most the product of both lengths.
 */
#ifndef SLUICE_BASE_GLOB_H
#define SLUICE_BASE_GLOB_H

#include <stdbool.h>

struct err;

/* -EINVAL: a set that does not end, or nothing behind a backslash; the text says where. */
int glob_check(const char *pattern, struct err *err);
/* A pattern that glob_check() refuses fits nothing. */
bool glob_match(const char *pattern, const char *text);

#endif
