/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as `--signal`: refused with a text, or a warning that is the same, to the second, when
 * it is written and read back. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "job/warning.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct err err = {0};
	struct warning warning, again;
	char text[WARNING_TEXT_MAX];

	if (warning_parse((const char *)data, size, &warning, &err) < 0) {
		if (err.text[0] == '\0')
			abort();
		return 0;
	}

	(void)warning_format(&warning, text);
	if (warning_parse(text, strlen(text), &again, &err) < 0 || again.signal != warning.signal ||
	    again.command_alone != warning.command_alone ||
	    again.before_ns / 1000000000 != warning.before_ns / 1000000000)
		abort();

	(void)warning_check(&warning, size, &err);
	return 0;
}
