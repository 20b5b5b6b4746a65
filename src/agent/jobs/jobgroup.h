/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where jobs' cgroups are made: a directory of the cgroup2 hierarchy that is this agent's alone,
 * outside of the service's own group, so that stopping the service does not touch jobs. Under
 * systemd it is a scope that systemd has delegated (jobscope.h), for the agent with the usual
 * runtime directory: there is one such scope. Elsewhere root's lies at the top and a user's in the
 * user's own group, if that was delegated. Knows nothing of jobs.
 */
#ifndef SLUICE_AGENT_JOBS_JOBGROUP_H
#define SLUICE_AGENT_JOBS_JOBGROUP_H

#include <stdbool.h>

struct agent_paths;
struct err;
struct log;

enum jobgroup_limits {
	JOBGROUP_PATH_MAX = 192, /* with its NUL; a job's name comes behind it */
};

/* What is looked at; for tests. NULL: the real places. */
struct jobgroup_places {
	const char *const *mounts; /* candidates, ends in NULL */
	const char *self;	   /* /proc/self/cgroup */
	const char *booted;	   /* a directory that is there when systemd runs this machine */
	const char *const *runs;   /* candidates for systemd-run, ends in NULL */
	bool any_file_system;	   /* a test has no cgroup2 of its own */
};

struct jobgroup_options {
	const char *state_dir, *runtime_dir;
	const char *supervisor; /* path of sluice-supervise */
	bool is_system;
	const struct jobgroup_places *places; /* NULL: the real ones */
};

struct jobgroup {
	char path[JOBGROUP_PATH_MAX];  /* "": there is none */
	char plain[JOBGROUP_PATH_MAX]; /* where it is without systemd */
	bool is_scope;		       /* of systemd's */
	bool is_system;
	const struct jobgroup_places *places; /* borrowed */
};

/*
 * Makes it. 0; 1: it is there, but not below what systemd has delegated, and `err` says why;
 * otherwise why there are no cgroups here, which jobs can do without: -ENOENT (no cgroup2),
 * -EACCES, -EROFS, ... Blocks for as long as systemd takes.
 */
int jobgroup_make(const struct jobgroup_options *options, struct jobgroup *out, struct err *err);
/* The same, and what is not as it should be goes to the log. */
void jobgroup_open(const struct agent_paths *paths, const char *supervisor, struct log *log,
		   struct jobgroup *out);
/* Makes systemd's anew, which somebody has stopped. Blocks; on any thread. Where it cannot be had,
 * each job says that it runs without. `group`: a struct jobgroup. */
void jobgroup_renew(const char *supervisor, const void *group);
/* Removes it if no job is in it. systemd's stays: the next agent has it. */
void jobgroup_remove(const struct jobgroup *group);

/* For an uninstallation, with no agent there: ends systemd's scope if no job is in it, but only its
 * keeper. Whether that was so. */
bool jobgroup_end_scope(const struct agent_paths *paths);

#endif
