/* SPDX-License-Identifier: Apache-2.0 */
/* Any text as the indices of an array: refused with a sentence, or as many in ascending order as it
 * says. */
#include "job/indices.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct err err = {0};
	uint32_t count = 0;
	if (indices_check((const char *)data, size, 1000, &count, &err) < 0) {
		if (err.text[0] == '\0')
			abort();
		return 0;
	}

	char *text = malloc(size + 1);
	if (!text)
		return 0;
	memcpy(text, data, size);
	text[size] = '\0';
	if (count == 0 || count > 1000)
		abort();
	for (uint32_t n = 1; n < count; n++)
		if (indices_at(text, n) <= indices_at(text, n - 1))
			abort();
	free(text);
	return 0;
}
