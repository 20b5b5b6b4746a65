/* SPDX-License-Identifier: Apache-2.0 */
/* What was chosen before, as the state file says, and fallback strategies: any bytes. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "agent/choice.h"
#include "base/buf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct choice_memory memory;
	if (choice_memory_parse((const char *)data, size, &memory, NULL) == 0) {
		/* What was read is what would be written, and can lead nowhere else. */
		_cleanup_buf_ struct buf again;
		buf_init(&again, CHOICE_MEMORY_MAX);
		if (choice_memory_format(&memory, &again) < 0 || again.length != size ||
		    memcmp(again.data, data, size) != 0 || strchr(memory.name, '/') ||
		    memory.label[0] == '.')
			abort();
	}
	char text[256];
	uint32_t bits = 0;
	size_t length = size < sizeof(text) ? size : sizeof(text) - 1;
	memcpy(text, data, length);
	text[length] = '\0';
	if (choice_fallbacks_parse(text, &bits, NULL) == 0 &&
	    bits > (CHOICE_NAMED | CHOICE_SINGLE | CHOICE_EMPTY))
		abort();
	return 0;
}
