/* SPDX-License-Identifier: Apache-2.0 */
/* /proc/PID/limits: any bytes. What is understood is one of each resource, and nothing that is
 * wanted raises a hard limit. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "agent/jobs/peer_limits.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_lowered(const struct spec_limit *limits, const uint8_t *data, size_t size)
{
	struct spec_limit lowered[SPEC_LIMITS_MAX], wanted[SPEC_LIMITS_MAX] = {{0}};
	size_t bytes = size < sizeof(wanted) ? size : sizeof(wanted);

	memcpy(lowered, limits, sizeof(lowered));
	memcpy(wanted, data, bytes);
	for (uint32_t i = 0; i < SPEC_LIMITS_MAX; i++)
		wanted[i].resource %= SPEC_LIMITS_MAX;
	if (peer_limits_lower(lowered, wanted, SPEC_LIMITS_MAX, NULL) < 0)
		abort();
	for (uint32_t i = 0; i < SPEC_LIMITS_MAX; i++)
		if (lowered[i].resource != i || lowered[i].hard > limits[i].hard ||
		    lowered[i].soft > lowered[i].hard)
			abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct spec_limit limits[SPEC_LIMITS_MAX];
	char *text = malloc(size > 0 ? size : 1); /* without a NUL behind it */

	if (!text)
		abort();
	memcpy(text, data, size);
	for (uint32_t i = 0; i < SPEC_LIMITS_MAX; i++)
		limits[i] = (struct spec_limit){i, 1000 + i, 2000 + i};
	check_lowered(limits, data, size);
	if (peer_limits_parse(text, size, limits, NULL) == 0)
		check_lowered(limits, data, size);
	free(text);
	return 0;
}
