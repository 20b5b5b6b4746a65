/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a file of expectations. What was read is read again from its own text. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "bench/collectives/expect.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct expect expect;
	struct err err = {0};
	int result = expect_parse((const char *)data, size, &expect, &err);
	if (result < 0 && (err.text[0] == '\0' || expect.lines))
		abort();
	for (size_t i = 0; i < expect.count; i++) {
		const struct expect_line *line = &expect.lines[i];
		char text[EXPECT_TEXT_MAX];
		if (expect_status(line) != EXPECT_SKIP)
			abort();
		expect_text(line, text);
		if (strlen(text) >= sizeof(text) - 1)
			abort();
	}
	expect_done(&expect);
	return 0;
}
