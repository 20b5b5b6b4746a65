/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as what a job wants: refused, or something that passes its check and is the same when
 * written and read back. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/err.h"
#include "job/wants.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct wants wants _cleanup_wants_, again _cleanup_wants_;
	struct err err = {0};
	char *bytes = NULL;
	size_t length = 0;
	wants_init(&again);
	if (wants_parse((const char *)data, size, &wants, &err) < 0) {
		if (err.text[0] == '\0')
			abort();
		return 0;
	}
	if (wants_check(&wants, &err) < 0 || wants_format(&wants, &bytes, &length) < 0 ||
	    wants_parse(bytes, length, &again, &err) < 0 || !wants_are_equal(&wants, &again))
		abort();
	free(bytes);
	return 0;
}
