/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/socket_file.h"

#include <unistd.h>

#include "agent/paths.h"
#include "wire/listen.h"

int socket_file_listen(struct socket_file *file, const struct agent_paths *paths, struct err *err)
{
	/* Everybody may ask root's agent; what each may do, his user id on the socket decides. */
	int fd = wire_listen_unix(paths->socket, paths->is_system ? 0666 : 0600, err);
	if (fd >= 0 && lstat(paths->socket, &file->is) < 0)
		file->is.st_ino = 0;
	return fd;
}

bool socket_file_is_there(const struct socket_file *file, const struct agent_paths *paths)
{
	struct stat info;
	return lstat(paths->socket, &info) == 0 && info.st_ino == file->is.st_ino &&
	       info.st_dev == file->is.st_dev;
}

void socket_file_remove(const struct socket_file *file, const struct agent_paths *paths)
{
	if (file->is.st_ino != 0 && socket_file_is_there(file, paths))
		(void)unlink(paths->socket);
}
