/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The settings of the configuration as options of a command: those rows of policy/schema.def that
 * have a flag, under its names. A command has a `struct settings settings` in its struct of options
 * and cmd/settings.def in its table. What the values mean, the configuration's parser says.
 */
#ifndef SLUICE_CMD_SETTINGS_H
#define SLUICE_CMD_SETTINGS_H

#include "cmd/options.h"
#include "policy/schema.h"

struct config_overrides;
struct err;

enum settings_limits {
	SETTINGS_WORDS_MAX = 512, /* bytes of all words of a list */
};

/* Filled by options_parse(). */
struct settings {
	const char *text[SCHEMA_COUNT];
	struct option_list words[SCHEMA_COUNT]; /* lists: may be given again */
};

/* The lists as one text each. */
struct settings_words {
	char text[SCHEMA_COUNT][SETTINGS_WORDS_MAX];
};

/* Fills the flags of `out`, which borrow from `settings` and `words`. -E2BIG: a list that is too
 * long. */
int settings_overrides(const struct settings *settings, struct settings_words *words,
		       struct config_overrides *out, struct err *err);

#endif
