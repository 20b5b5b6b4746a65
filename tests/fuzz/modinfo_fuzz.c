/* SPDX-License-Identifier: Apache-2.0 */
/* A kernel module: any bytes. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "doctor/modinfo.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct modinfo info;
	if (modinfo_parse(data, size, &info, NULL) == 0 &&
	    (strlen(info.vermagic) >= sizeof(info.vermagic) || strchr(info.vermagic, '\033')))
		abort();
	return 0;
}
