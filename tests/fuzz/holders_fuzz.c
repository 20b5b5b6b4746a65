/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of /proc/PID/limits, mountinfo and cgroup: any bytes. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "doctor/holders.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* Without a NUL behind it, as lines come. */
	char *text = malloc(size > 0 ? size : 1), pod[HOLDERS_POD_MAX];
	uint64_t bytes;
	if (!text)
		abort();
	memcpy(text, data, size);
	(void)holders_parse_memlock(text, size, &bytes);
	(void)holders_parse_shm(text, size, &bytes);
	if (holders_parse_pod(text, size, pod) == 0 && strlen(pod) != 36 &&
	    strlen(pod) != 32) /* a static pod's */
		abort();
	free(text);
	return 0;
}
