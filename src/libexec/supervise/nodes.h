/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the nodes of GPUs are closed to users (sluice.jobs.enforce), a job gets copies of its own
 * of those that it was granted, in a mount namespace of its own, laid over the closed ones. They
 * are gone with its last process. No process gets a group with which the others could be opened:
 * with a group, a job could leave a setgid program behind and keep every GPU for ever.
 *
 * Copies, in a namespace that processes of the same user alone can look into (/proc/PID/root, by
 * ptrace's rules): they reach what their user was granted, while the job runs. At its end the
 * copies are taken from whoever has kept a way to them. What the job was not given is kept from it
 * by its device rules besides.
 */
#ifndef SLUICE_LIBEXEC_SUPERVISE_NODES_H
#define SLUICE_LIBEXEC_SUPERVISE_NODES_H

#include <stddef.h>
#include <sys/types.h>

struct devguard_rule;
struct err;

enum image_nodes_limits {
	NODES_MAX = 512,	  /* copies */
	NODES_MEMORIES_MAX = 256, /* that are remembered: a job's, and its workers' */
};

/*
 * Where copies lie, one file system for each set, kept by whoever outlives the job: somebody may
 * have got hold of a copy without opening it (O_PATH, through /proc/PID/root), and could open it
 * when the GPU is another's.
 */
struct nodes_memories {
	int fds[NODES_MEMORIES_MAX]; /* owned */
	size_t count;
};
/* One more, for nodes_wish.memory_fd, borrowed until nodes_memories_close(). -1: there is no room
 * for more, or the kernel has no such thing (before 5.2): then copies are what is said above. */
int nodes_memories_add(struct nodes_memories *memories);
/* The job has ended: takes the copies away from whoever holds one, and forgets them. */
void nodes_memories_close(struct nodes_memories *memories);

struct nodes_wish {
	const char *root;  /* before /dev; "": this machine's */
	const char *place; /* a directory of root's that is there: used for a moment */
	const struct devguard_rule *denied; /* nodes that the job is not granted */
	size_t denied_count;
	uid_t uid; /* whose the copies are */
	gid_t gid;
	mode_t mode;   /* 0600; 0666 where the user of a container is another one */
	int memory_fd; /* where the copies lie, used once: nodes_memories_add(); -1 */
};

/*
 * Makes it so for the calling process and its children: a mount namespace of its own, in which what
 * is mounted elsewhere later is seen as before. Takes root (CAP_SYS_ADMIN, CAP_MKNOD); to be called
 * before that is given up. Returns how many copies there are, or -errno: then the namespace may be
 * half made, and nothing may be executed in it.
 */
int nodes_apply(const struct nodes_wish *wish, struct err *err);

#endif
