/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the nodes of GPUs are closed to users (sluice.jobs.enforce), a job gets copies of its own
 * of those that it was granted, in a mount namespace of its own, laid over the closed ones. They
 * are gone with its last process. No process gets a group with which the others could be opened:
 * with a group, a job could leave a setgid program behind and keep every GPU for ever.
 *
 * Copies, in a namespace that processes of the same user alone can look into (/proc/PID/root, by
 * ptrace's rules): they reach what their user was granted, while the job runs. What the job was not
 * given is kept from it by its device rules besides.
 */
#ifndef SLUICE_LIBEXEC_SUPERVISE_NODES_H
#define SLUICE_LIBEXEC_SUPERVISE_NODES_H

#include <stddef.h>
#include <sys/types.h>

struct devguard_rule;
struct err;

enum nodes_limits { NODES_MAX = 512 /* copies */ };

struct nodes_wish {
	const char *root;  /* before /dev; "": this machine's */
	const char *place; /* a directory of root's that is there: used for a moment */
	const struct devguard_rule *denied; /* nodes that the job is not granted */
	size_t denied_count;
	uid_t uid; /* whose the copies are */
	gid_t gid;
	mode_t mode; /* 0600; 0666 where the user of a container is another one */
};

/*
 * Makes it so for the calling process and its children: a mount namespace of its own, in which what
 * is mounted elsewhere later is seen as before. Takes root (CAP_SYS_ADMIN, CAP_MKNOD); to be called
 * before that is given up. Returns how many copies there are, or -errno: then the namespace may be
 * half made, and nothing may be executed in it.
 */
int nodes_apply(const struct nodes_wish *wish, struct err *err);

#endif
