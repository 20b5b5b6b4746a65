/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What keeps a job to its devices: what it asks for at least, and the level that an attempt
 * reached.
 */
#ifndef SLUICE_JOB_ISOLATION_H
#define SLUICE_JOB_ISOLATION_H

#include <stdint.h>

/* The numbers of what can be asked for stand in stored jobs (proto/job.proto, `Wants`): they stay.
 */
enum isolation {
	/* Asked for alone. */
	ISOLATION_BEST,	   /* the highest there is */
	ISOLATION_REQUIRE, /* the same, and it fails where that is less than landlock */
	ISOLATION_CGROUP,  /* of either generation */
	/* Asked for, and reached. */
	ISOLATION_LANDLOCK,
	ISOLATION_ENV, /* nothing but the variables that tell it which are its own */
	ISOLATION_CONTAINER,
	ISOLATION_NONE, /* reached: privileged */
	/* Reached alone. */
	ISOLATION_CGROUP1,
	ISOLATION_CGROUP2,
	ISOLATION_CONTAINER_ALONE, /* without rules around its cgroup */
};
#define ISOLATION_ASKED_COUNT 7 /* the first ones */

/* The word of `--isolation` for what can be asked for. NULL: it cannot. */
const char *isolation_asked_to_string(uint32_t asked);
/* -EINVAL: no such word. */
int isolation_asked_from_string(const char *text, uint32_t *out);

/* The word for a level. What is no level, as of an attempt that said nothing, is "env". */
const char *isolation_level_to_string(enum isolation level);
/* -EINVAL: no such word. */
int isolation_level_from_string(const char *text, enum isolation *out);

#endif
