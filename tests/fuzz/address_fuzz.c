/* SPDX-License-Identifier: Apache-2.0 */
/* What is taken for an address comes back as one that is the same. */
#include "base/address.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct address address, again;
	struct err err = {0};
	char text[ADDRESS_TEXT_MAX];
	if (address_parse((const char *)data, size, &address, &err) < 0) {
		if (err.code == 0 || err.text[0] == '\0')
			abort();
		return 0;
	}
	(void)address_to_string(&address.any, text);
	if (address_parse(text, strlen(text), &again, NULL) < 0 || again.length != address.length ||
	    memcmp(&again.any, &address.any, address.length) != 0)
		abort();
	return 0;
}
