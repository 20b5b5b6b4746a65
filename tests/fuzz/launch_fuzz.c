/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a launch: refused, or one that is the same when written and read back. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "job/launch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct launch launch, again;
	struct err err = {0};
	if (launch_parse((const char *)data, size, &launch, &err) < 0) {
		if (err.text[0] == '\0')
			abort();
		return 0;
	}
	char *bytes = NULL;
	size_t length = 0;
	if (launch_format(&launch, &bytes, &length, &err) < 0 ||
	    launch_parse(bytes, length, &again, &err) < 0 || again.id != launch.id ||
	    again.attempt != launch.attempt || again.grant_count != launch.grant_count ||
	    strcmp(again.cgroup_root, launch.cgroup_root) != 0 ||
	    again.denied_count != launch.denied_count || again.part_count != launch.part_count ||
	    !spec_is_equal(&launch.spec, &again.spec))
		abort();
	for (size_t i = 0; i < launch.grant_count; i++)
		if (memcmp(&launch.grants[i], &again.grants[i], sizeof(launch.grants[i])) != 0)
			abort();
	free(bytes);
	launch_done(&launch);
	launch_done(&again);
	return 0;
}
