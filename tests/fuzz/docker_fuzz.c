/* SPDX-License-Identifier: Apache-2.0 */
/* What `docker info` prints, or what stands in its place in the user's PATH: any bytes. */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "libexec/container/docker.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct docker_info info;
	int result = docker_parse_info((const char *)data, size, &info, NULL);
	if (result > 0)
		abort();
	/* What is understood has a version, which ends within its room. */
	if (result == 0 &&
	    (!info.version[0] || strnlen(info.version, DOCKER_VERSION_MAX) == DOCKER_VERSION_MAX))
		abort();
	return 0;
}
