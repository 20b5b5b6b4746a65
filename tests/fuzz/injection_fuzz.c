/* SPDX-License-Identifier: Apache-2.0 */
/* What a container runtime says of its configuration: any bytes, and a verdict on it. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "doors/kubelet/injection.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct injection_runtime runtime = {.name = "containerd", .version = "v1.7.2"};
	char why[INJECTION_TEXT_MAX] = "";
	if (injection_config_parse((const char *)data, size, &runtime, NULL) < 0 &&
	    runtime.knows_config)
		abort();
	for (uint32_t i = 0; i < runtime.directory_count; i++) {
		if (runtime.directory[i][0] != '/')
			abort();
	}
	(void)injection_judge(&runtime, "", "a/gpu", true, why);
	if (why[0] == '\0')
		abort();
	return 0;
}
