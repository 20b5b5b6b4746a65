/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a moment to come: refused with a text, or one that lies ahead, within the years that
 * are allowed, and is the same when it is written and read back. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "job/moment.h"

#define NOW_NS	  INT64_C(1796083200000000000)
#define SECOND_NS INT64_C(1000000000)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct err err = {0};
	char text[MOMENT_SHOWN_MAX];
	int64_t at = 0, again = 0;

	if (moment_parse((const char *)data, size, NOW_NS, &at, &err) < 0) {
		if (err.text[0] == '\0')
			abort();
		return 0;
	}

	if (at < NOW_NS || (at - NOW_NS) / SECOND_NS > INT64_C(86400) * 366 * MOMENT_YEARS_MAX)
		abort();

	(void)moment_format(at, text);
	if (moment_parse(text, strlen(text), NOW_NS, &again, &err) < 0 || again != at)
		abort();

	return 0;
}
