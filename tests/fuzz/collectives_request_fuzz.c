/* SPDX-License-Identifier: Apache-2.0 */
/* Any text as a size and as NCCL_TESTS_SPLIT of the collectives, and as /proc/meminfo. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "bench/collectives/request.h"
#include "bench/collectives/room.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char text[2 * REQUEST_TEXT_MAX];
	size_t length = size < sizeof(text) ? size : sizeof(text) - 1;
	if (length > 0)
		memcpy(text, data, length);
	text[length] = '\0';
	uint64_t bytes = 0;
	if (room_parse_available((const char *)data, size, &bytes) == 0 && bytes % 1024 != 0)
		abort();
	bytes = 0;
	if (request_size_parse(text, &bytes) == 0 && bytes >> COLLECTIVE_BYTES_BITS)
		abort();
	struct request_split split = {0};
	if (request_split_parse(text, &split) == 0 &&
	    (split.kind == REQUEST_SPLIT_NONE || request_split_groups(&split, 5) > 5))
		abort();
	return 0;
}
