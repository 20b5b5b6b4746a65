/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as the head of a message between ranks, and as the file in which rank 0 says where it
 * is. What is taken is written back as it was. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "bench/collectives/bootstrap.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bootstrap_head head;
	char host[BOOTSTRAP_HOST_MAX];
	uint16_t port = 0;
	uint64_t token = 0;
	if (size >= BOOTSTRAP_HEAD && bootstrap_head_parse(data, &head) == 0) {
		uint8_t back[BOOTSTRAP_HEAD];
		bootstrap_head_write(&head, back);
		if (memcmp(back, data, sizeof(back)) != 0 || head.rank >= head.ranks ||
		    head.bytes > BOOTSTRAP_SHARE_MAX * BOOTSTRAP_RANKS_MAX)
			abort();
	}
	if (bootstrap_file_parse((const char *)data, size, host, &port, &token) == 0 &&
	    (!memchr(host, '\0', sizeof(host)) || host[0] == '\0' || port == 0))
		abort();
	return 0;
}
