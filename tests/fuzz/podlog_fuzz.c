/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as the name of a log file or directory of the kubelet. */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "doors/kubelet/podlog.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int result, const struct podlog_name *name, bool has_container)
{
	if (result != 0 && result != -EINVAL)
		abort();
	if (result == 0 && (!name->pod[0] || !name->name_space[0] || !name->id[0] ||
			    (name->container[0] != '\0') != has_container))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* Without a NUL behind it. */
	char *text = malloc(size > 0 ? size : 1);
	struct podlog_name name;
	if (!text)
		abort();
	memcpy(text, data, size);
	check(podlog_parse_container(text, size, &name), &name, true);
	check(podlog_parse_pod(text, size, &name), &name, false);
	free(text);
	return 0;
}
