/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as what an exporter answers. */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "validate/gpu/metrics.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	double value = 0;
	if (metrics_find((const char *)data, size, "used", "GPU-aaaa", &value) && !isfinite(value))
		abort();
	return 0;
}
