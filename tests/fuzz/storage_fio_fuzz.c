/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as what fio prints: refused with a reason, or something was read. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/err.h"
#include "bench/storage_fio.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct reader_outcome outcome = {0};
	struct err err = {0};
	int result = storage_fio_parse((const char *)data, size, &outcome, &err);
	if (result < 0 ? err.text[0] == '\0' : outcome.bytes == 0 || outcome.took_ns == 0)
		abort();
	return 0;
}
