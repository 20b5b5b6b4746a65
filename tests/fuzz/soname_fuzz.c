/* SPDX-License-Identifier: Apache-2.0 */
/* A shared library: any bytes. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cdi/soname.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct soname library;
	if (soname_parse(data, size, &library, NULL) < 0)
		return 0;
	/* What is taken becomes a path in a container. */
	if (strlen(library.soname) >= sizeof(library.soname) || strchr(library.soname, '/') ||
	    strcmp(library.soname, "..") == 0)
		abort();
	return 0;
}
