/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where jobs' cgroups are made: a directory of the cgroup2 hierarchy that is this agent's alone.
 * Root's lies at the top, outside of the service's own group, so that stopping the service does not
 * touch jobs; a user's lies in his own group, if that was delegated to him. Knows nothing of jobs.
 */
#ifndef SLUICE_AGENT_JOBGROUP_H
#define SLUICE_AGENT_JOBGROUP_H

#include <stdbool.h>

struct err;

enum jobgroup_limits {
	JOBGROUP_PATH_MAX = 192, /* with its NUL; a job's name comes behind it */
};

/* What is looked at; for tests. NULL: the real places. */
struct jobgroup_places {
	const char *const *mounts; /* candidates, ends in NULL */
	const char *self;	   /* /proc/self/cgroup */
	bool any_file_system;	   /* a test has no cgroup2 of its own */
};

/*
 * Makes the directory for the agent with this state directory. 0 and `out`; otherwise why there are
 * no cgroups here, which jobs can do without: -ENOENT (no cgroup2), -EACCES, -EROFS, ...
 */
int jobgroup_make(const char *state_dir, bool is_system, const struct jobgroup_places *places,
		  char out[JOBGROUP_PATH_MAX], struct err *err);
/* Removes it if no job is in it. */
void jobgroup_remove(const char *path);

#endif
