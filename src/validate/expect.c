/* SPDX-License-Identifier: Apache-2.0 */
#include "validate/expect.h"

#include <stddef.h>

#include "base/check.h"
#include "hardware/gpu.h"

double expect_pcie(uint32_t gen, uint32_t width)
{
	static const double lanes[] = {0, 0.25, 0.5, 0.985, 1.969, 3.938, 7.563};
	return gen < array_length(lanes) ? lanes[gen] * width : 0;
}

double expect_host(uint32_t gen, uint32_t width)
{
	return 0.75 * expect_pcie(gen, width);
}

/* What `links` NVLinks carry in one direction: 20 GB/s each on Pascal, 25 up to Hopper, 50 from
 * Blackwell on. `architecture` is enum gpu_architecture. 0: none, or not known. */
static double expect_nvlink(uint32_t architecture, uint32_t links)
{
	if (architecture < GPU_ARCH_PASCAL)
		return 0;
	return links * (architecture == GPU_ARCH_PASCAL	     ? 20.0
			: architecture >= GPU_ARCH_BLACKWELL ? 50.0
							     : 25.0);
}

double expect_peer(uint32_t architecture, uint32_t links)
{
	return 0.85 * expect_nvlink(architecture, links);
}

double expect_all_reduce(uint32_t architecture, uint32_t links)
{
	return 0.7 * expect_nvlink(architecture, links);
}
