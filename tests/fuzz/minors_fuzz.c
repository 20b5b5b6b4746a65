/* SPDX-License-Identifier: Apache-2.0 */
/* The driver's list of MIG capabilities: any bytes. */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "hardware/minors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct minors *minors = NULL;
	if (minors_parse((const char *)data, size, &minors, NULL) < 0)
		return 0;
	uint32_t cap;
	for (uint32_t ci = 0; ci < 3; ci++)
		(void)minors_find(minors, 0, 1, ci, &cap);
	int rc = minors_find(minors, 0, 1, MINORS_GPU_INSTANCE, &cap);
	if (minors_count(minors) == 0 && rc != -ENOENT)
		abort();
	(void)minors_find_machine(minors, MINORS_MONITOR, &cap);
	size_t at = 0, seen = 0;
	while (minors_next(minors, 0, &at, &cap))
		seen++;
	if (seen > minors_count(minors))
		abort();
	(void)minors_free(minors);
	return 0;
}
