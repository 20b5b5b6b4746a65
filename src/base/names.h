/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The names of an enum as one table, read in both directions: a value that came from elsewhere and
 * is no member never reads behind the table, and a text that is none of the names is no member.
 */
#ifndef SLUICE_BASE_NAMES_H
#define SLUICE_BASE_NAMES_H

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "base/check.h"

/* names[value], or `unknown` for what is no member, or one without a name. */
#define names_at(names, value, unknown)                                                            \
	names_at_of((names), array_length(names), (size_t)(value), (unknown))

/* The member whose name `text` is, or -EINVAL. */
#define names_find(names, text) names_find_of((names), array_length(names), (text))

static inline const char *names_at_of(const char *const *names, size_t count, size_t value,
				      const char *unknown)
{
	return value < count && names[value] ? names[value] : unknown;
}

static inline int names_find_of(const char *const *names, size_t count, const char *text)
{
	for (size_t i = 0; i < count; i++)
		if (names[i] && strcmp(names[i], text) == 0)
			return (int)i;
	return -EINVAL;
}

#endif
