/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever stands in the file of the token: what is taken can stand in a header. */
#include "agent/web/door_web_token.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char token[WEB_TOKEN_MAX], again[WEB_TOKEN_MAX];
	struct err err = {0};
	if (web_token_parse((const char *)data, size, token, &err) < 0) {
		if (err.code == 0)
			abort();
		return 0;
	}
	size_t length = strlen(token);
	if (length < WEB_TOKEN_MIN || strpbrk(token, " \t\r\n\"\\,;") ||
	    web_token_parse(token, length, again, NULL) < 0 || strcmp(token, again) != 0)
		abort();
	return 0;
}
