/* SPDX-License-Identifier: Apache-2.0 */
/* Unix sockets to listen on, and their addresses. Knows nothing of what is said there. */
#ifndef SLUICE_WIRE_LISTEN_H
#define SLUICE_WIRE_LISTEN_H

#include <sys/types.h>

struct err;
struct sockaddr_un;

/*
 * A bound and listening unix stream socket, O_CLOEXEC and non-blocking, with this mode whatever the
 * umask. A stale socket file (nobody listens) is replaced; -EADDRINUSE when somebody does, -EEXIST
 * when it is something else than a socket, -EACCES, ... Returns the descriptor.
 */
int wire_listen_unix(const char *path, mode_t mode, struct err *err);

/*
 * The address of a socket at `path`, which has room for 107 bytes: a longer path is reached by way
 * of a descriptor of its directory (/proc/self/fd). *out_directory is that one, owned, to be open
 * for as long as the address is used; -1 when none is needed. -ENAMETOOLONG for a name that is too
 * long for that; what opening the directory says.
 */
int wire_unix_address(const char *path, struct sockaddr_un *out, int *out_directory,
		      struct err *err);

#endif
