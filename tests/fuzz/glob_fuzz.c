/* SPDX-License-Identifier: Apache-2.0 */
/* A pattern, a NUL and a text: a pattern that is refused fits nothing, one without its own
 * characters fits itself alone, and no pattern takes long. */
#include "base/glob.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"

enum { TEXT_MAX = 1024 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char text[TEXT_MAX + 2];
	struct err err = {0};
	if (size > TEXT_MAX)
		return 0;
	memcpy(text, data, size);
	text[size] = text[size + 1] = '\0';

	const char *pattern = text, *rest = text + strlen(text) + 1;
	if (rest > text + size + 1)
		rest = text + size;

	bool fits = glob_match(pattern, rest);
	if (!strpbrk(pattern, "*?[\\") && fits != (strcmp(pattern, rest) == 0))
		abort();
	if (glob_check(pattern, &err) < 0 && err.text[0] == '\0')
		abort();
	if (!glob_match("*", rest) || !glob_match("", ""))
		abort();

	return 0;
}
