/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel log: records separated by NUL bytes, through one parser. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "hardware/kmsg.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kmsg_parser parser = {.lines = 0};
	struct kmsg_recent recent = {.next = 0};
	const char *at = (const char *)data;
	size_t left = size;
	while (left > 0) {
		const char *end = memchr(at, '\0', left);
		size_t length = end ? (size_t)(end - at) : left;
		struct kmsg_xid xid;
		uint64_t sequence;
		(void)kmsg_parse_sequence(at, length, &sequence);
		if (kmsg_parse(&parser, at, length, &xid) == KMSG_XID) {
			if (xid.xid > KMSG_XID_MAX || !memchr(xid.text, '\0', sizeof(xid.text)) ||
			    xid.link < -1 || xid.link >= GPU_LINK_MAX)
				abort();
			(void)kmsg_is_duplicate(&recent, &xid.pci, xid.xid, 0, xid.time_us);
		}
		size_t used = end ? length + 1 : length;
		at += used;
		left -= used;
	}
	return 0;
}
