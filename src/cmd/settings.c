/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/settings.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "policy/config.h"

/* "a", "b,c" as "a,b,c". */
static int settings_join(const struct option_list *list, const char *flag,
			 char out[SETTINGS_WORDS_MAX], struct err *err)
{
	size_t length = 0;

	for (size_t i = 0; i < list->count; i++) {
		size_t more = strlen(list->items[i]);
		if (more + 2 > SETTINGS_WORDS_MAX - length)
			return err_set(err, -E2BIG, "--%s: the list is longer than %d bytes", flag,
				       SETTINGS_WORDS_MAX - 1);
		if (i > 0)
			out[length++] = ',';
		memcpy(out + length, list->items[i], more);
		length += more;
	}

	out[length] = '\0';
	return 0;
}

int settings_overrides(const struct settings *settings, struct settings_words *words,
		       struct config_overrides *out, struct err *err)
{
	for (size_t i = 0; i < SCHEMA_COUNT; i++) {
		const struct schema_row *row = schema_row((enum schema_id)i);

		out->flag[i] = settings->text[i];
		if (settings->words[i].count == 0)
			continue;

		int rc = settings_join(&settings->words[i], row->flag, words->text[i], err);
		if (rc < 0)
			return rc;

		out->flag[i] = words->text[i];
	}

	return 0;
}
