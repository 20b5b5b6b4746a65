/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a message of the kernel: about the subsystem only if it names it. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "hardware/uevent.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char text[] = "SUBSYSTEM=infiniband";
	if (uevent_is_of((const char *)data, size, "infiniband") &&
	    !memmem(data, size, text, sizeof(text) - 1))
		abort();
	return 0;
}
