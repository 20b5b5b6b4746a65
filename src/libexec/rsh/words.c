/* SPDX-License-Identifier: Apache-2.0 */
#include "libexec/rsh/words.h"

#include <stdbool.h>

/* Of ssh(1): without, and with a value. */
static const char words_flags[] = "xnqTv46ft";
static const char words_valued[] = "opliFEcm";

static bool words_has(const char *set, char letter)
{
	while (*set && *set != letter)
		set++;
	return *set && letter;
}

static bool words_is(const char *text, const char *word)
{
	while (*text && *text == *word) {
		text++;
		word++;
	}
	return *text == *word;
}

/* One argument that begins with '-', at `*at`; a value that stands apart is passed over. */
static enum words_result words_option(int argc, const char *const *argv, int *at)
{
	for (const char *letter = argv[*at] + 1; *letter; letter++) {
		if (words_has(words_valued, *letter)) {
			if (!letter[1])
				(*at)++;
			return *at < argc ? WORDS_OK : WORDS_BAD_OPTION;
		}

		if (!words_has(words_flags, *letter))
			return WORDS_BAD_OPTION;
	}

	return WORDS_OK;
}

static enum words_result words_options(int argc, const char *const *argv, int *at)
{
	for (; *at < argc && argv[*at][0] == '-' && argv[*at][1]; (*at)++) {
		if (words_is(argv[*at], "--")) {
			(*at)++;
			break;
		}

		if (words_is(argv[*at], "--help") || words_is(argv[*at], "-h"))
			return WORDS_HELP;

		enum words_result result = words_option(argc, argv, at);
		if (result != WORDS_OK)
			return result;
	}

	return *at < argc ? WORDS_OK : WORDS_NO_HOST;
}

enum words_result words_parse(int argc, const char *const *argv, size_t host_max, char *text,
			      size_t size, struct rsh_words *out)
{
	int at = 1;
	enum words_result result = words_options(argc, argv, &at);
	if (result != WORDS_OK)
		return result;

	const char *host = argv[at];
	size_t host_length = 0;

	for (const char *seen = argv[at]; *seen; seen++) {
		host_length++;
		if (*seen == '@') {
			host = seen + 1;
			host_length = 0;
		}
	}

	if (host_length == 0)
		return WORDS_NO_HOST;
	if (++at == argc)
		return WORDS_NO_COMMAND;

	size_t length = 0;

	for (bool is_first = true; at < argc; at++, is_first = false) {
		if (!is_first) {
			if (length < size)
				text[length] = ' ';
			length++;
		}

		for (const char *byte = argv[at]; *byte; byte++, length++)
			if (length < size)
				text[length] = *byte;
	}

	out->host = host;
	out->host_length = host_length;
	out->length = length;

	if (host_length > host_max || length >= size)
		return WORDS_TOO_LONG;

	text[length] = '\0';
	return WORDS_OK;
}
