/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the memory of a group of cgroup v1 ever ran out, also for a group below it that is gone
 * by now: memory.oom_control counts what was killed in its own group alone, and a container's
 * runtime removes the container's group with the count in it. In cgroup v2 memory.events counts for
 * all that is below, and this is not needed. Knows nothing of jobs.
 *
 * Kernel: Documentation/admin-guide/cgroup-v1/memory.rst ("OOM Control").
 */
#ifndef SLUICE_JOB_CGROUP_CGOOM_H
#define SLUICE_JOB_CGROUP_CGOOM_H

#include <stdbool.h>

struct err;

/* From now on: a descriptor (the caller's) for cgoom_has_run_out(). `group`: a directory of the
 * hierarchy `memory`. -ENOENT, -EACCES, ... */
int cgoom_watch(const char *group, struct err *err);
/* Whether it has, since the last time it was asked. Before the group is removed: that tells as
 * well. */
bool cgoom_has_run_out(int fd);

#endif
