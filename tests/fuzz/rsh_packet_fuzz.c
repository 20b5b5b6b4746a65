/* SPDX-License-Identifier: Apache-2.0 */
/* What a process of a job sends to its supervisor, and the answer: any bytes. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "libexec/rsh/packet.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char again[PACKET_MAX + 1];

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct packet packet, second;
	if (!packet_parse((const char *)data, size, &packet))
		return 0;
	size_t length = packet_format(&packet, again, sizeof(again));
	if (length != size || !packet_parse(again, length, &second) || second.kind != packet.kind ||
	    second.value != packet.value || second.text_length != packet.text_length ||
	    memcmp(second.text, packet.text, packet.text_length) != 0 ||
	    strcmp(second.host, packet.host) != 0)
		abort();
	return 0;
}
