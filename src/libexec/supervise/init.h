/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A PID namespace for a job, with a /proc of its own: its processes see each other and nobody else,
 * so that /proc/PID/root of a process outside is no way to its files. The first process in it,
 * ours, takes in the orphans and ends when nobody is left. What the job runs is started into it
 * and stays a child of the supervisor, which sees its end as always. Needs root. Knows nothing of
 * jobs.
 *
 * Kernel: pid_namespaces(7), setns(2).
 */
#ifndef SLUICE_LIBEXEC_SUPERVISE_INIT_H
#define SLUICE_LIBEXEC_SUPERVISE_INIT_H

#include <sys/types.h>

struct cgroup;
struct err;

struct init {
	pid_t pid;		/* as it is seen here, a child of ours; -1: there is none */
	int pids_fd, mounts_fd; /* owned; its namespaces */
	int root_fd;		/* owned; what is / there */
	int outside_fd;		/* owned; our own of processes */
	int alive_fd;		/* owned; it ends after this is closed, when it is alone */
};

#define INIT_NONE                                                                                  \
	((struct init){.pid = -1,                                                                  \
		       .pids_fd = -1,                                                              \
		       .mounts_fd = -1,                                                            \
		       .root_fd = -1,                                                              \
		       .outside_fd = -1,                                                           \
		       .alive_fd = -1})

/*
 * Starts it, in the cgroup (fd -1: none); it dies with us, and with it everything in it. Returns
 * when /proc is there. -EPERM (not root, or forbidden), -ENOSYS, -EINVAL (an old kernel).
 */
int init_start(const struct cgroup *cgroup, struct init *out, struct err *err);

/* From here to init_leave() each new process of ours is born in the namespace. -errno. */
int init_enter(const struct init *init);
void init_leave(const struct init *init);
/* For that new process: the files as they are there, /proc among them. Its directory becomes /.
 * May be called between fork and exec. -errno. */
int init_join_mounts(const struct init *init);

/* What was started has ended: so does the namespace, as soon as nobody is left in it. */
void init_release(struct init *init);
/* Kills all that is in it. It is still to be reaped. */
void init_kill(struct init *init);
void init_done(struct init *init);

#endif
