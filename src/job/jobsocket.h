/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SOCK_SEQPACKET sockets in the directory of a job, reached by way of the directory's descriptor: a
 * socket's path has room for 107 bytes. control.h and attach.h say what is spoken there.
 */
#ifndef SLUICE_JOB_JOBSOCKET_H
#define SLUICE_JOB_JOBSOCKET_H

#include <sys/types.h>

struct err;

#define JOBSOCKET_OURS ((uid_t)-1)

/*
 * Listens on `name`, in the place of one that a dead process has left, open to one user: this
 * process's, if `uid` is JOBSOCKET_OURS or we are not root. Returns the socket, which does not
 * block.
 */
int jobsocket_listen(int job_fd, const char *name, uid_t uid, gid_t gid, int backlog,
		     struct err *err);
void jobsocket_remove(int job_fd, const char *name);
/* A socket that does not block. -ENOENT, -ECONNREFUSED: nobody is there. */
int jobsocket_connect(int job_fd, const char *name, struct err *err);

#endif
