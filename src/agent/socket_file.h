/* SPDX-License-Identifier: Apache-2.0 */
/* The file of the agent's own socket: made, recognised and removed. Somebody may put another in its
 * place meanwhile, which is not ours to remove. */
#ifndef SLUICE_AGENT_SOCKET_FILE_H
#define SLUICE_AGENT_SOCKET_FILE_H

#include <stdbool.h>
#include <sys/stat.h>

struct agent_paths;
struct err;

/* Zero-initialised: there is none. */
struct socket_file {
	struct stat is;
};

/* A descriptor that listens at paths->socket; errors of wire_listen_unix(). */
int socket_file_listen(struct socket_file *file, const struct agent_paths *paths, struct err *err);
bool socket_file_is_there(const struct socket_file *file, const struct agent_paths *paths);
void socket_file_remove(const struct socket_file *file, const struct agent_paths *paths);

#endif
