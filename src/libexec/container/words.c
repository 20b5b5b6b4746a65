/* SPDX-License-Identifier: Apache-2.0 */
#include "libexec/container/words.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/err.h"

enum { WORDS_FIRST = 32 }; /* words of a command line, at first */

static void words_put(struct words *words, const char *format, va_list arguments)
{
	if (array_room(&words->words, words->count + 1, &words->room, WORDS_FIRST) < 0) {
		words->failed = true;
		return;
	}

	int length = vasprintf(&words->words[words->count], format, arguments);
	if (length < 0)
		words->words[words->count] = NULL;
	else
		words->count++;

	words->failed = words->failed || length < 0;
	words->words[words->count] = NULL;
}

void words_add(struct words *words, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	words_put(words, format, arguments);
	va_end(arguments);
}

void words_add_once(struct words *words, const char *format, ...)
{
	size_t count = words->count;
	va_list arguments;

	va_start(arguments, format);
	words_put(words, format, arguments);
	va_end(arguments);

	for (size_t i = 0; i < count && words->count > count; i++) {
		if (strcmp(words->words[i], words->words[count]) != 0)
			continue;
		free(words->words[count]);
		words->words[count] = NULL;
		words->count = count;
	}
}

int words_take(struct words *words, char ***out, struct err *err)
{
	char **argv = words->words;
	bool failed = words->failed || !argv;

	*words = (struct words){.count = 0};
	if (failed) {
		words_free(argv);
		return err_set(err, -ENOMEM, "no memory for the runtime's command line");
	}

	*out = argv;
	return 0;
}

char **words_free(char **argv)
{
	for (char **at = argv; at && *at; at++)
		free(*at);
	free(argv);
	return NULL;
}
