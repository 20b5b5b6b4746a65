/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/error.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { NEAREST_MAX = 32 };

int sim_fail(struct sim_error *error, int exit_code, const char *format, ...)
{
	if (error) {
		va_list arguments;

		error->exit_code = exit_code;
		va_start(arguments, format);
		(void)vsnprintf(error->text, sizeof(error->text), format, arguments);
		va_end(arguments);
	}

	return -1;
}

static uint32_t least(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* Levenshtein distance; both at most NEAREST_MAX long. */
static uint32_t distance(const char *a, size_t a_length, const char *b, size_t b_length)
{
	uint32_t row[NEAREST_MAX + 1];

	for (size_t j = 0; j <= b_length; j++)
		row[j] = (uint32_t)j;

	for (size_t i = 1; i <= a_length; i++) {
		uint32_t diagonal = row[0];

		row[0] = (uint32_t)i;
		for (size_t j = 1; j <= b_length; j++) {
			uint32_t change = diagonal + (a[i - 1] != b[j - 1]);

			diagonal = row[j];
			row[j] = least(least(row[j] + 1, row[j - 1] + 1), change);
		}
	}

	return row[b_length];
}

const char *sim_nearest(const char *name, size_t length, const char *const *names, size_t count)
{
	const char *best = NULL;
	uint32_t best_distance;

	if (length == 0 || length > NEAREST_MAX)
		return NULL;

	best_distance = (uint32_t)(length / 3 > 1 ? length / 3 : 1) + 1;
	for (size_t i = 0; i < count; i++) {
		size_t other = strlen(names[i]);
		uint32_t d;

		if (other > NEAREST_MAX)
			continue;

		d = distance(name, length, names[i], other);
		if (d < best_distance) {
			best_distance = d;
			best = names[i];
		}
	}

	return best;
}
