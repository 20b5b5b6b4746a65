/* SPDX-License-Identifier: Apache-2.0 */
/* Any text as a quantity, and as a text with variables in it. */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "job/file/expand.h"
#include "job/file/quantity.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *lookup(const char *name, size_t length, const void *context)
{
	(void)context;
	return length > 0 && name[0] == 'A' ? "$(A)" : NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char text[256];
	uint64_t whole = 0, milli = 0;
	if (size >= sizeof(text))
		return 0;
	memcpy(text, data, size);
	text[size] = '\0';
	if (quantity_parse(text, 1000, &milli) == 0 &&
	    (quantity_parse(text, 1, &whole) != 0 || whole != milli / 1000 + (milli % 1000 != 0)))
		abort();
	struct buf out;
	buf_init(&out, 1024);
	int rc = expand_text(text, lookup, NULL, &out);
	if (rc != 0 && rc != -ENOSPC)
		abort();
	buf_done(&out);
	return 0;
}
