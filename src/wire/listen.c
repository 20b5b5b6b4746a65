/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/listen.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"

/* Bytes of a path, with its NUL, that an address holds. */
enum { LISTEN_PATH_MAX = sizeof(((struct sockaddr_un *)NULL)->sun_path) };

/* Opens the directory that `path` names something in, and writes an address through it. */
static int listen_through(const char *path, char out[LISTEN_PATH_MAX], struct err *err)
{
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;
	_cleanup_free_ char *directory =
	    slash ? strndup(path, slash > path ? (size_t)(slash - path) : 1) : strdup(".");
	if (!directory)
		return err_set(err, -ENOMEM, "out of memory for the address of '%s'", path);

	_cleanup_close_ int fd = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0) {
		int code = -errno;
		return err_set(err, code, "cannot open the directory '%s': %s", directory,
			       err_describe(code));
	}

	int length = snprintf(out, LISTEN_PATH_MAX, "/proc/self/fd/%d/%s", fd, name);
	if (length < 0 || length >= LISTEN_PATH_MAX)
		return err_set(
		    err, -ENAMETOOLONG, "the name of a socket has at most %d bytes, '%s' has %zu",
		    LISTEN_PATH_MAX - 1 - (length - (int)strlen(name)), path, strlen(name));

	return take_fd(&fd);
}

int wire_unix_address(const char *path, struct sockaddr_un *out, int *out_directory,
		      struct err *err)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	size_t length = strlen(path);
	int directory = -1;

	if (length < LISTEN_PATH_MAX) {
		memcpy(address.sun_path, path, length);
	} else {
		directory = listen_through(path, address.sun_path, err);
		if (directory < 0)
			return directory;
	}

	*out = address;
	*out_directory = directory;
	return 0;
}

/* 0: nothing is there any more. */
static int listen_clear(const char *path, const struct sockaddr_un *address, struct err *err)
{
	struct stat status;
	if (lstat(path, &status) < 0) {
		int code = -errno;
		return code == -ENOENT ? 0
				       : err_set(err, code, "cannot look at '%s': %s", path,
						 err_describe(code));
	}

	if (!S_ISSOCK(status.st_mode))
		return err_set(err, -EEXIST, "'%s' is there and no socket; remove it", path);

	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0) {
		int code = -errno;
		return err_set(err, code, "cannot make a socket: %s", err_describe(code));
	}

	if (connect(fd, (const struct sockaddr *)address, sizeof(*address)) == 0 ||
	    errno != ECONNREFUSED)
		return err_set(err, -EADDRINUSE, "another process listens on '%s'", path);

	if (unlink(path) < 0 && errno != ENOENT) {
		int code = -errno;
		return err_set(err, code, "cannot remove the stale socket '%s': %s", path,
			       err_describe(code));
	}

	return 0;
}

int wire_listen_unix(const char *path, mode_t mode, struct err *err)
{
	struct sockaddr_un address;
	_cleanup_close_ int directory = -1;
	int rc = wire_unix_address(path, &address, &directory, err);
	if (rc == 0)
		rc = listen_clear(path, &address, err);

	if (rc < 0)
		return rc;

	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	/* Nobody can connect before listen(), so nobody sees the mode that the umask gives. */
	if (fd < 0 || bind(fd, (const struct sockaddr *)&address, sizeof(address)) < 0) {
		int code = -errno;
		return err_set(err, code, "cannot bind '%s': %s", path, err_describe(code));
	}

	if (chmod(path, mode) < 0 || listen(fd, SOMAXCONN) < 0) {
		int code = -errno;
		(void)unlink(path);
		return err_set(err, code, "cannot listen on '%s': %s", path, err_describe(code));
	}

	return take_fd(&fd);
}
