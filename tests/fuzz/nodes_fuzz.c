/* SPDX-License-Identifier: Apache-2.0 */
/* What the driver says in /proc of its device nodes: any bytes. */
#include "cdi/nodes.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct nodes_majors majors = {0};
	struct nodes_rule rule = {.mode = 0666};
	nodes_devices_parse((const char *)data, size, &majors);
	nodes_rule_parse((const char *)data, size, &rule);
	if (majors.uvm > NODES_MAJOR_MAX || majors.caps > NODES_MAJOR_MAX || rule.mode > 0777 ||
	    rule.minor > NODES_MINOR_MAX)
		abort();
	return 0;
}
