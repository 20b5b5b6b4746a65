/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as what a store of an earlier release held: refused, or a specification and wishes that
 * pass their check and can be written as they are now. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/err.h"
#include "doors/queue/store/store_before.h"
#include "job/spec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect(bool condition)
{
	if (!condition)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct spec spec _cleanup_spec_;
	struct wants wants _cleanup_wants_;
	struct err err = {0};
	char *bytes = NULL;
	size_t length = 0;

	if (store_before_spec((const char *)data, size, &spec, &err) == 0)
		expect(spec_check(&spec, &err) == 0 &&
		       spec_format(&spec, &bytes, &length, &err) == 0);
	else
		expect(err.text[0] != '\0');
	free(bytes);

	err = (struct err){0};
	bytes = NULL;
	if (store_before_wants((const char *)data, size, &wants, &err) == 0)
		expect(wants_check(&wants, &err) == 0 &&
		       wants_format(&wants, &bytes, &length) == 0);
	else
		expect(err.text[0] != '\0');
	free(bytes);
	return 0;
}
