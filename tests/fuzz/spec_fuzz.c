/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a job's specification: refused, or one that passes its check and is the same when
 * written and read back. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/err.h"
#include "job/spec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct spec spec, again;
	struct err err = {0};
	if (spec_parse((const char *)data, size, &spec, &err) < 0) {
		if (err.text[0] == '\0')
			abort();
		return 0;
	}
	char *bytes = NULL;
	size_t length = 0;
	if (spec_check(&spec, &err) < 0 || spec_format(&spec, &bytes, &length, &err) < 0 ||
	    spec_parse(bytes, length, &again, &err) < 0 || !spec_is_equal(&spec, &again))
		abort();
	free(bytes);
	spec_done(&spec);
	spec_done(&again);
	return 0;
}
