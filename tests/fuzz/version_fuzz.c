/* SPDX-License-Identifier: Apache-2.0 */
/* What a program printed for --version: any bytes. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cdi/version.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct version version, again;
	if (version_parse((const char *)data, size, &version) < 0)
		return 0;
	if (!version_is_at_least(&version, version.major, version.minor, 0))
		abort();
	/* Its text says the same, unless it was cut. */
	size_t length = strlen(version.text);
	if (length < sizeof(version.text) - 1 &&
	    (version_parse(version.text, length, &again) < 0 || again.major != version.major ||
	     again.minor != version.minor || again.patch != version.patch))
		abort();
	return 0;
}
