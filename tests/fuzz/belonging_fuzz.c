/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as the text of /proc/PID/cgroup. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "hardware/belonging.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_digits(const char *text, const char *allowed)
{
	if (text[strspn(text, allowed)] != '\0')
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* Without a NUL behind it. */
	char *text = malloc(size > 0 ? size : 1);
	struct belonging belonging;
	if (!text)
		abort();
	memcpy(text, data, size);
	bool found = belonging_parse(text, size, &belonging);
	size_t container = strlen(belonging.container), pod = strlen(belonging.pod);
	if ((container != 0 && container != 64) || (pod != 0 && pod != 32 && pod != 36))
		abort();
	check_digits(belonging.container, "0123456789abcdef");
	check_digits(belonging.pod, "0123456789abcdef-");
	if (found != (container || pod || belonging.job || belonging.slurm_job))
		abort();
	free(text);
	return 0;
}
