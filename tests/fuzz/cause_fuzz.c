/* SPDX-License-Identifier: Apache-2.0 */
/* Any output and any exit code: nothing is found, or a line of text with one of the runtimes' exit
 * codes. */
#include "libexec/supervise/cause.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char out[JOBDIR_TEXT_MAX];
	if (size < 1)
		return 0;

	memset(out, 'x', sizeof(out));
	int code = cause_find((const char *)data + 1, size - 1, data[0], out);
	if (code == 0)
		return 0;
	if (code < 125 || code > 127 || !memchr(out, '\0', sizeof(out)) || out[0] == '\0')
		abort();
	for (const char *at = out; *at; at++)
		if ((unsigned char)*at < ' ' || *at == '\x7f')
			abort();
	return 0;
}
