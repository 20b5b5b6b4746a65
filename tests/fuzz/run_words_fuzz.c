/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a command line: left to a shell, or words that are no longer than it is. */
#include "cmd/jobs/run/run_words.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char **words = NULL;
	size_t length = 0, count = 0;
	char *line = malloc(size + 1);
	if (!line)
		return 0;

	memcpy(line, data, size);
	line[size] = '\0';
	if (run_words_split(line, NULL, &words) == 1 && (!words[0] || !words[0][0]))
		abort();
	for (; words && words[count]; count++)
		length += strlen(words[count]) + 1;
	if (length > strlen(line) + 1 || count > RUN_WORDS_MAX)
		abort();

	free(words);
	free(line);
	return 0;
}
