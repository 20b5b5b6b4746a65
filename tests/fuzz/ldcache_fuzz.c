/* SPDX-License-Identifier: Apache-2.0 */
/* The loader's cache: any bytes. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cdi/ldcache.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ldcache cache;
	if (ldcache_parse(data, size, &cache, NULL) < 0)
		return 0;
	struct ldcache_entry entry;
	uint32_t at = 0, count = 0;
	while (ldcache_next(&cache, &at, &entry)) {
		count++;
		if (strlen(entry.name) >= size || strlen(entry.path) >= size)
			abort();
	}
	if (count > cache.count)
		abort();
	return 0;
}
