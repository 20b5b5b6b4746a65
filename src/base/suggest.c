/* SPDX-License-Identifier: Apache-2.0 */
#include "base/suggest.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static size_t smaller(size_t a, size_t b)
{
	return a < b ? a : b;
}

/*
 * Optimal string alignment: insert, delete, replace and swap of neighbours cost 1 each. Both words
 * have at most SUGGEST_WORD_MAX letters.
 * https://en.wikipedia.org/wiki/Damerau%E2%80%93Levenshtein_distance
 */
static size_t suggest_distance(const char *a, size_t a_length, const char *b, size_t b_length)
{
	size_t rows[3][SUGGEST_WORD_MAX + 1];
	for (size_t j = 0; j <= b_length; j++)
		rows[0][j] = j;

	for (size_t i = 1; i <= a_length; i++) {
		size_t *row = rows[i % 3];
		const size_t *above = rows[(i + 2) % 3];
		const size_t *two_above = rows[(i + 1) % 3];

		row[0] = i;
		for (size_t j = 1; j <= b_length; j++) {
			size_t cost = a[i - 1] == b[j - 1] ? 0 : 1;
			row[j] =
			    smaller(smaller(above[j] + 1, row[j - 1] + 1), above[j - 1] + cost);
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				row[j] = smaller(row[j], two_above[j - 2] + 1);
		}
	}

	return rows[a_length % 3][b_length];
}

void suggest_init(struct suggest *suggest, const char *word)
{
	*suggest = (struct suggest){.word = word, .distance = SIZE_MAX};
}

void suggest_offer(struct suggest *suggest, const char *name)
{
	size_t word_length = strnlen(suggest->word, SUGGEST_WORD_MAX + 1);
	size_t name_length = strnlen(name, SUGGEST_WORD_MAX + 1);
	if (word_length == 0 || word_length > SUGGEST_WORD_MAX || name_length > SUGGEST_WORD_MAX)
		return;

	size_t distance = suggest_distance(suggest->word, word_length, name, name_length);
	size_t longer = word_length > name_length ? word_length : name_length;
	size_t allowed = longer < 3 ? 1 : (longer + 2) / 3;
	bool begins = word_length >= 2 && strncmp(name, suggest->word, word_length) == 0;
	bool all_different = distance >= longer;

	if (begins)
		distance = 1;
	else if (distance > allowed || all_different)
		return;

	if (distance < suggest->distance) {
		suggest->distance = distance;
		suggest->best = name;
	}
}

const char *suggest_best(const struct suggest *suggest)
{
	return suggest->best;
}

const char *suggest_nearest(const char *word, const char *const *names, size_t count)
{
	struct suggest suggest;
	suggest_init(&suggest, word);
	for (size_t i = 0; i < count; i++)
		suggest_offer(&suggest, names[i]);
	return suggest_best(&suggest);
}
