/* SPDX-License-Identifier: Apache-2.0 */
#include "base/glob.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "base/err.h"

/* What follows the element at `at`; NULL: it does not end. */
static const char *glob_next(const char *at)
{
	if (*at == '\\')
		return at[1] ? at + 2 : NULL;
	if (*at != '[')
		return at + 1;

	at++;
	if (*at == '!' || *at == '^')
		at++;
	if (*at == ']') /* as the first it is one of the set */
		at++;

	at = strchr(at, ']');
	return at ? at + 1 : NULL;
}

int glob_check(const char *pattern, struct err *err)
{
	for (const char *at = pattern; *at;) {
		const char *next = glob_next(at);
		if (!next && *at == '[')
			return err_set(err, -EINVAL,
				       "pattern '%.64s': the '[' at character %zu has no ']'",
				       pattern, (size_t)(at - pattern) + 1);
		if (!next)
			return err_set(err, -EINVAL, "pattern '%.64s' ends in a backslash",
				       pattern);
		at = next;
	}

	return 0;
}

/* Whether the set between `at` ('[') and `end` (behind its ']') has the character. */
static bool glob_set_has(const char *at, const char *end, unsigned char character)
{
	bool is_other = at[1] == '!' || at[1] == '^', has = false;
	const char *last = end - 1;

	at += is_other ? 2 : 1;
	while (at < last) {
		unsigned char from = (unsigned char)at[0], to = from;

		if (at + 2 < last && at[1] == '-') {
			to = (unsigned char)at[2];
			at += 2;
		}

		has = has || (character >= from && character <= to);
		at++;
	}

	return has != is_other;
}

static bool glob_fits_one(const char *at, const char *next, char character)
{
	switch (*at) {
	case '?':
		return true;
	case '[':
		return glob_set_has(at, next, (unsigned char)character);
	case '\\':
		return at[1] == character;
	default:
		return *at == character;
	}
}

bool glob_match(const char *pattern, const char *text)
{
	/* Where to go on when what follows the last star does not fit: one character later. */
	const char *star = NULL, *star_text = NULL;

	while (*text) {
		if (*pattern == '*') {
			star = ++pattern;
			star_text = text;
			continue;
		}

		const char *next = *pattern ? glob_next(pattern) : NULL;
		if (*pattern && !next)
			return false;

		if (next && glob_fits_one(pattern, next, *text)) {
			pattern = next;
			text++;
		} else if (star) {
			pattern = star;
			text = ++star_text;
		} else {
			return false;
		}
	}

	while (*pattern == '*')
		pattern++;

	return *pattern == '\0';
}
