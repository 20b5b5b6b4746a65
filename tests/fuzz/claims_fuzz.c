/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as what is drained and reserved: refused with a text, or something that is the same
 * when it is written and read back. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "doors/queue/claim/claims.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct claims claims = {.items = NULL}, again = {.items = NULL};
	struct err err = {0};
	char *bytes = NULL, text[CLAIM_TEXT_MAX];
	size_t length = 0;

	if (claims_parse(data, size, &claims, &err) < 0) {
		if (err.text[0] == '\0')
			abort();
		return 0;
	}

	for (size_t i = 0; i < claims.count; i++)
		(void)claim_text(&claims.items[i], text);
	if (claims_format(&claims, &bytes, &length) < 0 ||
	    claims_parse(bytes, length, &again, &err) < 0 || again.count != claims.count)
		abort();

	free(bytes);
	claims_done(&claims);
	claims_done(&again);
	return 0;
}
