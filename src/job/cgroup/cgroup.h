/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job's own cgroup v2: whatever its processes do to their parents, sessions and users, they stay
 * in it, so that all of them can be found and killed at once, also after their supervisor is lost.
 * Needs a directory of a cgroup2 file system that we may write; sets no limits. Knows nothing of
 * jobs.
 *
 * Kernel: Documentation/admin-guide/cgroup-v2.rst.
 */
#ifndef SLUICE_JOB_CGROUP_CGROUP_H
#define SLUICE_JOB_CGROUP_CGROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct err;

enum cgroup_limits {
	CGROUP_PATH_MAX = 256, /* with its NUL: fits into a job's claim */
	CGROUP_TEXT_MAX = 4096,
	CGROUP_DEPTH_MAX = 16,	    /* of groups that the job made below its own */
	CGROUP_PROCESS_MAX = 65536, /* of one group, that are looked at */
};

/* A group below a job's, for what starts the job's container: with the container's beside it the
 * job's own has none of them, as cgroup v2 wants it of a group that is divided. */
#define CGROUP_LAUNCHER "launcher"

/* A group beside jobs', where there is one: for what supervises them. It keeps the scope that
 * systemd has delegated, and the service can be stopped without a process that is left of it. */
#define CGROUP_SUPERVISORS "supervisors"

struct cgroup {
	int fd; /* owned; the directory */
	char path[CGROUP_PATH_MAX];
};

#define CGROUP_NONE ((struct cgroup){.fd = -1})

/*
 * Makes ROOT/NAME, or takes an empty one that is there. -EBUSY: there, and processes in it;
 * -ENAMETOOLONG, -EMEDIUMTYPE (`root` is not in a cgroup2 file system), -ENOENT, -EACCES, ...
 */
int cgroup_create(const char *root, const char *name, struct cgroup *out, struct err *err);
/* One that is there, by its path. -ENOENT, -EMEDIUMTYPE, -ENAMETOOLONG. */
int cgroup_open(const char *path, struct cgroup *out, struct err *err);
void cgroup_close(struct cgroup *cgroup);
#define _cleanup_cgroup_ __attribute__((cleanup(cgroup_close)))

/* Moves the calling process into it. May be called between fork and exec. -errno. */
int cgroup_join(const struct cgroup *cgroup);
/* Moves another process into it. -ESRCH, -EACCES, ... */
int cgroup_move(const struct cgroup *cgroup, pid_t pid, struct err *err);
/* The same with a directory of cgroup v1. */
int cgroup_move_v1(const char *directory, pid_t pid, struct err *err);
/* Descriptor of its cgroup.events (caller's): poll() says POLLPRI when it may have become empty. */
int cgroup_watch(const struct cgroup *cgroup, struct err *err);
/* 1: some process is in it or below, 0: none. -ENODEV: it is removed. */
int cgroup_is_populated(const struct cgroup *cgroup, struct err *err);
/* How many processes are in it and below. */
int cgroup_count(const struct cgroup *cgroup, size_t *out, struct err *err);

/*
 * Kills all in it and below: at once where the kernel can (cgroup.kill, Linux 5.14), else it
 * freezes the group, kills them one by one (a frozen process dies of SIGKILL) and thaws it. Returns
 * without waiting; to be called again while cgroup_is_populated(), for the second way can miss what
 * is forked before all is frozen.
 */
int cgroup_kill(const struct cgroup *cgroup, struct err *err);
/* The second way alone: for tests, on any kernel. */
int cgroup_kill_frozen(const struct cgroup *cgroup, struct err *err);

/* Removes it with what the job made below. -EBUSY while it is populated. Not there is fine. */
int cgroup_remove(const struct cgroup *cgroup, struct err *err);

/*
 * Container runtimes make, where there are v1 hierarchies beside cgroup v2, groups of the same name
 * in each of them. Where the group `path` would be in the hierarchy `controller` ("devices"):
 * -ENOENT when `path` is in no such place, or that hierarchy is not there.
 */
int cgroup_path_v1(const char *path, const char *controller, char out[CGROUP_PATH_MAX],
		   struct err *err);
/* Makes such a group, and those in which it is, whatever the umask: a runtime that a job's user
 * runs has to be able to look at them. -errno. */
int cgroup_make_v1(const char *group, struct err *err);
/* Removes these groups, with what is below (`whole`) or where nothing is. Best effort. */
void cgroup_remove_v1(const char *path, bool whole);
/* One of them alone, as cgroup_path_v1() has said it ("": none), with what is below. Best effort.
 */
void cgroup_remove_one_v1(const char *group);

/* The text of cgroup.events: keys that are not known are passed over. -EBADMSG. Pure. */
struct cgroup_events {
	bool populated, frozen;
};
int cgroup_parse_events(const char *text, size_t length, struct cgroup_events *out,
			struct err *err);

#endif
