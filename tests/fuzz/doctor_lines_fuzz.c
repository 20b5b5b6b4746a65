/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of os-release, modprobe.d, dpkg's list and the kernel's command line: any bytes. */
#include "doctor/lines.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char word[32];
	const char *text = (const char *)data;
	if (lines_assignment(text, size, "ID", word, sizeof(word)) && strlen(word) >= size)
		abort();
	if (lines_field(text, size, "Version", word, sizeof(word)) && strlen(word) >= size)
		abort();
	(void)lines_modprobe(text, size, "nouveau");
	word[0] = '\0';
	if (lines_cmdline(text, size, "nouveau", word, sizeof(word)) == LINES_NOTHING &&
	    word[0] != '\0')
		abort();
	return 0;
}
