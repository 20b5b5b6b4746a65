/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/listen.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"

int wire_unix_address(const char *path, struct sockaddr_un *out, struct err *err)
{
	size_t length = strlen(path);
	if (length >= sizeof(out->sun_path))
		return err_set(err, -ENAMETOOLONG,
			       "the path of a socket has at most %zu bytes, '%s' has %zu",
			       sizeof(out->sun_path) - 1, path, length);
	*out = (struct sockaddr_un){.sun_family = AF_UNIX};
	memcpy(out->sun_path, path, length);
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
	int rc = wire_unix_address(path, &address, err);
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
