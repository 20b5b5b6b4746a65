/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Under systemd: the scope below which jobs' cgroups are made. There systemd is the one that writes
 * to the hierarchy, except below what it has delegated
 * (https://systemd.io/CGROUP_DELEGATION/). A scope is what can be delegated and outlives the
 * service: it lasts as long as a process is in it, whichever, so the first one is a keeper, which
 * does nothing ('sluice-supervise --keep'). systemd-run asks systemd for it, and so this program
 * needs no D-Bus. Knows nothing of jobs. Called by jobgroup.h alone.
 */
#ifndef SLUICE_AGENT_JOBS_JOBSCOPE_H
#define SLUICE_AGENT_JOBS_JOBSCOPE_H

#include <stdbool.h>
#include <stddef.h>

struct err;

/* As 'systemctl status' names it. */
#define JOBSCOPE_UNIT  "sluice-jobs.scope"
#define JOBSCOPE_SLICE "sluice.slice"

struct jobscope_options {
	const char *mount;	/* of cgroup v2 */
	const char *own;	/* the group of this process, from the mount on; "": the top */
	const char *supervisor; /* path of sluice-supervise */
	const char *systemd_run;
	bool is_system; /* root's; else the scope is one of the user's own systemd */
};

/*
 * Where the scope is, if it is there or not. `out` has room for `size` bytes. 0; -ENOENT: a user's
 * agent that was not started by the user's systemd, which could not move processes from where it is
 * to there; -ENAMETOOLONG. Pure.
 */
int jobscope_path(const struct jobscope_options *options, char *out, size_t size, struct err *err);

/*
 * Makes the scope unless it is there with a process in it. Blocks for as long as systemd takes,
 * 10 s at most. 0; -ETIMEDOUT, -EIO and what systemd-run said, -ENOENT: no such program, ...
 */
int jobscope_make(const struct jobscope_options *options, const char *path, struct err *err);

#endif
