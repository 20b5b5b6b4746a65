/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as NCCL's log; the first says which rank reads them. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "bench/collectives/nccl/nccl_transport.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct nccl_links links;
	if (size == 0)
		return 0;
	uint32_t ranks = 16, rank = data[0] % ranks;
	nccl_links_parse((const char *)data + 1, size - 1, rank, ranks, &links);
	if (!memchr(links.network, '\0', sizeof(links.network)) || links.path[rank] != 0)
		abort();
	for (uint32_t peer = 0; peer < NCCL_RANKS_MAX; peer++) {
		if (links.path[peer] >> NCCL_PATH_COUNT || (peer >= ranks && links.path[peer]))
			abort();
	}
	return 0;
}
