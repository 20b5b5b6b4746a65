/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as the text of cgroup.events. */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/err.h"
#include "job/cgroup/cgroup.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct cgroup_events events;
	struct err err = {0};
	int result = cgroup_parse_events((const char *)data, size, &events, &err);
	if (result != 0 && (result != -EBADMSG || err.text[0] == '\0'))
		abort();
	return 0;
}
