/* SPDX-License-Identifier: Apache-2.0 */
/*
 * "Did you mean ...?": the nearest of a list of names to one that is not in it. Used by whatever
 * reads names that people type: commands, options, configuration keys.
 */
#ifndef SLUICE_BASE_SUGGEST_H
#define SLUICE_BASE_SUGGEST_H

#include <stddef.h>

enum suggest_limits {
	SUGGEST_WORD_MAX = 48, /* longer words are not compared */
};

struct suggest {
	const char *word; /* borrowed until the last call with this struct */
	const char *best; /* borrowed from suggest_offer(); NULL while nothing is near enough */
	size_t distance;
};

/* Starts a search for what resembles `word`. */
void suggest_init(struct suggest *suggest, const char *word);
/* One more name that would have been right. The first of equally near names wins. */
void suggest_offer(struct suggest *suggest, const char *name);
/* The nearest name: at most a third of the letters away (swapped neighbours count once), or one
 * that begins with the word. NULL when nothing is near. */
const char *suggest_best(const struct suggest *suggest);

/* The same over an array of `count` names. */
const char *suggest_nearest(const char *word, const char *const *names, size_t count);

#endif
