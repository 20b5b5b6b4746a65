/* SPDX-License-Identifier: Apache-2.0 */
#include "cdi/rootdir.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"

enum { ROOTDIR_PROC_MAX = 32, ROOTDIR_TRIES_MAX = 1000 };

/* As openat(2) with everything below the root. -errno. */
static int rootdir_openat(const struct rootdir *root, const char *path, int flags, struct err *err)
{
	struct open_how how = {.flags = (unsigned)(O_PATH | O_CLOEXEC | flags),
			       .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
	int fd = -1;

	errno = root->without_openat2 ? ENOSYS : EAGAIN;
	/* EAGAIN: somebody renamed something meanwhile, anywhere, and the kernel is not sure that a
	 * ".." of a link stayed inside. openat2(2) */
	for (int i = 0; i < ROOTDIR_TRIES_MAX && fd < 0 && errno == EAGAIN; i++)
		fd = (int)syscall(SYS_openat2, root->fd, path, &how, sizeof(how));

	if (fd < 0 && errno == ENOSYS) {
		if (root->path[0] != '\0')
			return err_set(err, -EOPNOTSUPP,
				       "cannot look below '%s': this kernel has no openat2(2); use "
				       "--driver-root / or Linux 5.6",
				       root->path);

		fd = open(path, O_PATH | O_CLOEXEC | flags); /* nothing leads out of "/" */
	}

	if (fd < 0)
		return err_set(err, -errno, "cannot open '%s%s': %s", root->path, path,
			       err_describe(errno));

	return fd;
}

static bool rootdir_may_own(uid_t uid)
{
	return uid == 0 || uid == geteuid();
}

/* Whether only root could have made what `status` describes. */
static int rootdir_trust(const struct rootdir *root, const char *path, const struct stat *status,
			 struct err *err)
{
	if (!rootdir_may_own(status->st_uid))
		return err_set(err, -EPERM,
			       "'%s%s' belongs to user %u and not to root: it is not given to "
			       "containers",
			       root->path, path, (unsigned)status->st_uid);

	if (status->st_mode & (S_IWGRP | S_IWOTH))
		return err_set(err, -EPERM,
			       "'%s%s' may be written by others (mode %04o): it is not given to "
			       "containers; chmod go-w",
			       root->path, path, (unsigned)(status->st_mode & 07777));

	return 0;
}

/* The path of an open file, seen from inside of the root. */
static int rootdir_real(const struct rootdir *root, int fd, char out[FILE_PATH_MAX],
			struct err *err)
{
	char link[ROOTDIR_PROC_MAX], text[FILE_PATH_MAX];
	(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd); /* fits */

	ssize_t length = readlink(link, text, sizeof(text));
	if (length < 0)
		return err_set(err, -errno, "cannot read '%s': %s; is /proc mounted?", link,
			       err_describe(errno));
	if ((size_t)length == sizeof(text))
		return err_set(err, -ENAMETOOLONG, "a path below '%s' is too long", root->path);

	text[length] = '\0';
	size_t prefix = strlen(root->path);
	if (strncmp(text, root->path, prefix) != 0 || (text[prefix] != '/' && text[prefix] != '\0'))
		return err_set(err, -EPERM, "'%s' lies outside of '%s'", text, root->path);

	memcpy(out, text[prefix] ? text + prefix : "/",
	       text[prefix] ? strlen(text + prefix) + 1 : 2);
	return 0;
}

/* Whether the directory real[0..length) is the one that is trusted, or above it. */
static bool rootdir_is_trusted(const struct rootdir *root, const char *real, size_t length)
{
	return strncmp(root->trusted, real, length) == 0 &&
	       (root->trusted[length] == '/' || root->trusted[length] == '\0');
}

/* Every directory above `real`, from the root itself on. */
static int rootdir_trust_above(struct rootdir *root, const char *real, struct err *err)
{
	const char *last = strrchr(real, '/');
	size_t length = (size_t)(last - real);
	if (rootdir_is_trusted(root, real, length))
		return 0;

	char path[FILE_PATH_MAX];

	for (size_t end = 1; end <= length; end++) {
		if (real[end] != '/' || rootdir_is_trusted(root, real, end))
			continue;

		memcpy(path, real, end);
		path[end] = '\0';

		_cleanup_close_ int fd = rootdir_openat(root, path, 0, err);
		if (fd < 0)
			return fd;

		struct stat status;
		if (fstat(fd, &status) != 0)
			return err_set(err, -errno, "cannot look at '%s%s': %s", root->path, path,
				       err_describe(errno));

		int rc = rootdir_trust(root, path, &status, err);
		if (rc < 0)
			return rc;
	}

	memcpy(root->trusted, real, length);
	root->trusted[length] = '\0';
	return 0;
}

static const char *rootdir_type_name(mode_t type)
{
	return type == S_IFDIR ? "directory" : type == S_IFSOCK ? "socket" : "regular file";
}

/* A descriptor for reading of what one of O_PATH stands for. */
static int rootdir_reopen(const struct rootdir *root, int fd, const char *path, struct err *err)
{
	char link[ROOTDIR_PROC_MAX];
	(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd); /* fits */
	int open_fd = open(link, O_RDONLY | O_CLOEXEC);
	if (open_fd < 0)
		return err_set(err, -errno, "cannot open '%s%s': %s", root->path, path,
			       err_describe(errno));
	return open_fd;
}

/* Opens `path` and looks at it: its type, and its path from inside. Trusts nothing. */
static int rootdir_look(struct rootdir *root, const char *path, mode_t type,
			char out_real[FILE_PATH_MAX], struct stat *out, struct err *err)
{
	_cleanup_close_ int fd = rootdir_openat(root, path, type == S_IFSOCK ? O_NOFOLLOW : 0, err);
	if (fd < 0)
		return fd;
	if (fstat(fd, out) != 0)
		return err_set(err, -errno, "cannot look at '%s%s': %s", root->path, path,
			       err_describe(errno));
	if ((out->st_mode & S_IFMT) != type)
		return err_set(err, -EINVAL, "'%s%s' is no %s", root->path, path,
			       rootdir_type_name(type));

	int rc = rootdir_real(root, fd, out_real, err);
	if (rc == 0 && out->st_nlink == 0)
		rc = err_set(err, -ENOENT, "'%s%s' was removed meanwhile", root->path, path);

	return rc < 0 ? rc : take_fd(&fd);
}

int rootdir_find(struct rootdir *root, const char *path, mode_t type, char out_real[FILE_PATH_MAX],
		 int *out_fd, struct err *err)
{
	char real[FILE_PATH_MAX];
	struct stat status;
	_cleanup_close_ int fd = rootdir_look(root, path, type, real, &status, err);
	if (fd < 0)
		return fd;

	int rc = rootdir_trust(root, real, &status, err);
	if (rc == 0)
		rc = rootdir_trust_above(root, real, err);
	if (rc < 0)
		return rc;
	if (type == S_IFDIR && real[1])
		memcpy(root->trusted, real, strlen(real) + 1);

	if (out_fd) {
		int open_fd = rootdir_reopen(root, fd, path, err);
		if (open_fd < 0)
			return open_fd;
		*out_fd = open_fd;
	}

	memcpy(out_real, real, strlen(real) + 1);
	return 0;
}

int rootdir_entry(struct rootdir *root, int directory, const char *directory_path, const char *name,
		  char out_real[FILE_PATH_MAX], int *out_fd, struct err *err)
{
	char path[FILE_PATH_MAX];
	int rc = file_path(path, err, "%s/%s", directory_path[1] ? directory_path : "", name);
	if (rc < 0)
		return rc;

	_cleanup_close_ int fd =
	    openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat status;

	if (fd < 0 && errno == ELOOP) /* a link */
		return rootdir_find(root, path, S_IFREG, out_real, out_fd, err);
	if (fd < 0 || fstat(fd, &status) != 0)
		return err_set(err, -errno, "cannot open '%s%s': %s", root->path, path,
			       err_describe(errno));
	if (!S_ISREG(status.st_mode))
		return err_set(err, -EINVAL, "'%s%s' is no %s", root->path, path,
			       rootdir_type_name(S_IFREG));

	rc = rootdir_trust(root, path, &status, err);
	if (rc < 0)
		return rc;

	*out_fd = take_fd(&fd);
	memcpy(out_real, path, strlen(path) + 1);
	return 0;
}

int rootdir_find_daemon(struct rootdir *root, const char *path, const char *socket,
			char out_real[FILE_PATH_MAX], struct err *err)
{
	char real[FILE_PATH_MAX], inside[FILE_PATH_MAX];
	struct stat status;
	_cleanup_close_ int fd = rootdir_look(root, path, S_IFDIR, real, &status, err);
	if (fd < 0)
		return fd;

	int rc = rootdir_trust_above(root, real, err);
	if (rc == 0 && (status.st_mode & (S_IWGRP | S_IWOTH)))
		rc = rootdir_trust(root, real, &status, err);
	if (rc == 0)
		rc = file_path(inside, err, "%s/%s", path, socket);
	if (rc < 0)
		return rc;

	char ignored[FILE_PATH_MAX];
	_cleanup_close_ int socket_fd = rootdir_look(root, inside, S_IFSOCK, ignored, &status, err);
	if (socket_fd < 0)
		return socket_fd;

	memcpy(out_real, real, strlen(real) + 1);
	return 0;
}

int rootdir_open(const char *path, struct rootdir *out, struct err *err)
{
	if (path[0] != '/')
		return err_set(err, -EINVAL, "driver root '%s' is not an absolute path", path);

	struct rootdir root = {.fd = -1};
	_cleanup_close_ int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return err_set(err, -errno, "cannot open driver root '%s': %s", path,
			       err_describe(errno));

	int rc = rootdir_real(&root, fd, root.path, err);
	if (rc < 0)
		return rc;

	struct stat status;
	if (fstat(fd, &status) != 0)
		return err_set(err, -errno, "cannot look at driver root '%s': %s", path,
			       err_describe(errno));

	rc = rootdir_trust(&(struct rootdir){.path = ""}, root.path, &status, err);
	if (rc < 0)
		return err_wrap(err, "driver root");
	if (strcmp(root.path, "/") == 0)
		root.path[0] = '\0';
	*out = root;
	out->fd = take_fd(&fd);

	return 0;
}

void rootdir_close(struct rootdir *root)
{
	if (root->fd >= 0)
		(void)close(root->fd); /* nothing was written */
	root->fd = -1;
}
