/* SPDX-License-Identifier: Apache-2.0 */
#include "base/longopt.h"

#include <getopt.h>
#include <string.h>

const char *longopt_word(char *const *argv, size_t *out_length)
{
	const char *last = argv[optind - 1];
	const char *word = (optarg == last ? argv[optind - 2] : last) + 2;

	*out_length = strcspn(word, "=");
	return word;
}

bool longopt_is_whole(char *const *argv, const char *name)
{
	size_t length;
	(void)longopt_word(argv, &length);
	return length == strlen(name);
}
