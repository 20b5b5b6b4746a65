/* SPDX-License-Identifier: Apache-2.0 */
#include "job/isolation.h"

#include <errno.h>
#include <stdbool.h>

#include "base/check.h"
#include "base/names.h"

static const char *const isolation_names[] = {
    [ISOLATION_BEST] = "best",
    [ISOLATION_REQUIRE] = "require",
    [ISOLATION_CGROUP] = "cgroup",
    [ISOLATION_LANDLOCK] = "landlock",
    [ISOLATION_ENV] = "env",
    [ISOLATION_CONTAINER] = "container",
    [ISOLATION_NONE] = "none",
    [ISOLATION_CGROUP1] = "cgroup1",
    [ISOLATION_CGROUP2] = "cgroup2",
    [ISOLATION_CONTAINER_ALONE] = "container, no device cgroup around it",
};

static bool isolation_is_level(uint32_t isolation)
{
	return isolation >= ISOLATION_LANDLOCK && isolation < array_length(isolation_names);
}

/* -EINVAL: it is none of those from `first` to the one before `end`. */
static int isolation_find(const char *text, uint32_t first, uint32_t end, uint32_t *out)
{
	int at = names_find(isolation_names, text);
	if (at < (int)first || at >= (int)end)
		return -EINVAL;
	*out = (uint32_t)at;
	return 0;
}

const char *isolation_asked_to_string(uint32_t asked)
{
	return asked < ISOLATION_ASKED_COUNT ? isolation_names[asked] : NULL;
}

int isolation_asked_from_string(const char *text, uint32_t *out)
{
	return isolation_find(text, 0, ISOLATION_ASKED_COUNT, out);
}

const char *isolation_level_to_string(enum isolation level)
{
	return isolation_names[isolation_is_level(level) ? level : ISOLATION_ENV];
}

int isolation_level_from_string(const char *text, enum isolation *out)
{
	uint32_t level;
	int rc = isolation_find(text, ISOLATION_LANDLOCK, array_length(isolation_names), &level);
	if (rc == 0)
		*out = (enum isolation)level;
	return rc;
}
