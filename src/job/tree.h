/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The descendants of a process, read from /proc, and how to end them all. Together with
 * PR_SET_CHILD_SUBREAPER nothing that a job starts gets away: what daemonises becomes a child of
 * the reaper and is found there. Only a process that we may not signal (it changed its user)
 * survives; who ends a tree has to look whether anything is left.
 */
#ifndef SLUICE_JOB_TREE_H
#define SLUICE_JOB_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct err;

enum tree_limits {
	TREE_MAX = 65536,	/* processes of the machine that are looked at */
	TREE_STAT_MAX = 1024,	/* bytes of /proc/PID/stat */
	TREE_STATUS_MAX = 8192, /* and of /proc/PID/status: groups are in it */
	TREE_PATIENCE = 8,	/* rounds of killing before all is stopped first */
	TREE_FREEZE_MAX = 64,	/* rounds of stopping what was forked meanwhile */
};

struct tree_process {
	pid_t pid, parent, group;
	char state;	   /* as in /proc/PID/stat: R S D T t Z X I */
	uint64_t start;	   /* clock ticks since boot: tells a reused pid */
	bool is_executing; /* its new program has no environment yet: nothing tells whose it is */
	bool has_environment; /* that is not empty */
};

/* Reads the text of /proc/PID/stat. -EINVAL. Pure. */
int tree_parse_stat(const char *text, size_t length, struct tree_process *out, struct err *err);

/* One process as it is now. -ESRCH when there is none. */
int tree_read(pid_t pid, struct tree_process *out, struct err *err);

/*
 * All descendants of `root` that are not zombies, ordered by pid, without `root` and without
 * `spare` (0: none). `*out` is the caller's to free.
 */
int tree_list(pid_t root, pid_t spare, struct tree_process **out, size_t *out_count,
	      struct err *err);

/* Whether the process catches that signal: 1, 0, or -errno. */
int tree_catches(pid_t pid, int signal_number);

/* Sends a signal to this very process, or to nobody: not to one that has its number by now. */
void tree_signal_process(const struct tree_process *process, int signal_number);

/*
 * Sends a signal to every process group that has a descendant of `root` in it, but `root`'s own.
 * Only for a root whose descendants are in sessions of their own: a group cannot reach beyond its
 * session. A group whose leader lives gets it in one go, so that what is forked at that moment gets
 * it too: by the leader's pidfd (Linux 6.9), or by its number where the leader is a child of ours,
 * which only we reap. Of every other group the number may be a stranger's by now, and each of its
 * processes that was found gets the signal for itself.
 */
int tree_signal_groups(pid_t root, int signal_number, size_t *out_count, struct err *err);

/*
 * Kills them all; reaps nothing. To be called again until nobody is left, `round` counting from 0:
 * what was forked meanwhile is killed by the next one. From round TREE_PATIENCE on all are stopped
 * first, again and again until none is new: what forks faster than it can be killed cannot fork
 * while it is stopped. Not before, for whoever kills could be killed in between, and a process that
 * stands still for ever is a worse thing to leave than one that runs.
 */
int tree_kill(pid_t root, pid_t spare, unsigned round, size_t *out_count, struct err *err);

#endif
