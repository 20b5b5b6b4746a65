/* SPDX-License-Identifier: Apache-2.0 */
/* Any packet on a job's control socket: refused, or a message that is the same when written again.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "job/control.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct control_message message;
	struct err err = {0};
	if (control_parse(data, size, &message, &err) < 0) {
		if (err.text[0] == '\0')
			abort();
		return 0;
	}
	char packet[CONTROL_PACKET_MAX];
	size_t length = control_format(&message, packet);
	if (length != size || memcmp(packet, data, size) != 0)
		abort();
	return 0;
}
