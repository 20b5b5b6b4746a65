/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"

enum file_internals {
	FILE_CHUNK = 4096, /* what sysfs gives at most at once */
	FILE_TEMPORARY_TRIES = 16,
	FILE_NAME_SIZE = 256,
};

/* One read of what `out` still takes. Bytes read, 0 at the end, -errno. */
static ssize_t file_read_chunk(int fd, struct buf *out)
{
	char probe;
	char *into = &probe;
	size_t room = out->max - out->length;

	if (room > 0) {
		int rc = buf_reserve(out, room < FILE_CHUNK ? room : FILE_CHUNK);
		if (rc < 0)
			return rc;

		into = out->data + out->length;
		if (room > out->capacity - out->length - 1)
			room = out->capacity - out->length - 1;
	}

	ssize_t count;
	do {
		count = read(fd, into, room > 0 ? room : 1);
	} while (count < 0 && errno == EINTR);
	if (count < 0)

		return -errno;
	if (count > 0 && into == &probe)
		return -EFBIG;
	if (into != &probe) {
		out->length += (size_t)count;
		out->data[out->length] = '\0';
	}

	return count;
}

int file_read(const char *path, struct buf *out, struct err *err)
{
	/* O_NONBLOCK: a FIFO in place of the file must not hang us. */
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd < 0)
		return err_set(err, -errno, "cannot open '%s': %s", path, err_describe(errno));
	return file_read_open(fd, path, out, err);
}

int file_read_open(int fd, const char *path, struct buf *out, struct err *err)
{
	size_t before = out->length;
	ssize_t count;
	do {
		count = file_read_chunk(fd, out);
	} while (count > 0);
	if (count == 0)

		return 0;

	out->length = before;
	if (out->data)
		out->data[before] = '\0';
	if (count == -EFBIG)
		return err_set(err, -EFBIG, "'%s' is larger than the %zu bytes that are allowed",
			       path, out->max - before);

	return err_set(err, (int)count, "cannot read '%s': %s", path, err_describe((int)count));
}

/* Opens the directory that holds `path`; `out_name` points to the last part of `path`. */
static int file_open_parent(const char *path, const char **out_name, struct err *err)
{
	char parent[FILE_PATH_MAX];
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;
	size_t length = slash ? (size_t)(slash - path) : 0;
	if (length >= sizeof(parent))
		return err_set(err, -ENAMETOOLONG, "path is too long: '%.64s...'", path);

	if (*name == '\0' || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		return err_set(err, -EISDIR, "cannot write '%s': it names a directory", path);

	if (!slash)
		memcpy(parent, ".", 2);
	else if (length == 0)
		memcpy(parent, "/", 2);
	else {
		memcpy(parent, path, length);
		parent[length] = '\0';
	}

	int fd = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return err_set(err, -errno, "cannot open directory '%s': %s", parent,
			       err_describe(errno));

	*out_name = name;
	return fd;
}

/* A new file of a name that nobody else has. The descriptor, or -errno. */
static int file_open_temporary(int directory, mode_t mode, char out_name[FILE_NAME_SIZE])
{
	for (int i = 0; i < FILE_TEMPORARY_TRIES; i++) {
		uint64_t random = 0;
		if (getrandom(&random, sizeof(random), GRND_NONBLOCK) != sizeof(random))
			random = (uint64_t)getpid() * FILE_TEMPORARY_TRIES + (uint64_t)i;
		(void)snprintf(out_name, FILE_NAME_SIZE, ".sluice-%016llx.tmp",
			       (unsigned long long)random); /* fits */

		int fd = openat(directory, out_name,
				O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
		if (fd >= 0)
			return fd;
		if (errno != EEXIST)
			return -errno;
	}

	return -EEXIST;
}

static int file_write_all(int fd, const char *data, size_t length)
{
	while (length > 0) {
		ssize_t count = write(fd, data, length);
		if (count < 0 && errno == EINTR)
			continue;
		if (count < 0)
			return -errno;

		data += count;
		length -= (size_t)count;
	}

	return 0;
}

/* Content, owner and mode of `like` (may be NULL), fsync if it is to be durable, and close; `*fd`
 * is closed whatever happens. */
static int file_fill(int *fd, const void *data, size_t length, const struct stat *like,
		     bool is_durable)
{
	int rc = file_write_all(*fd, data, length);
	/* The mode last: a change of the owner takes set-user-id bits away. */
	if (rc == 0 && like &&
	    (fchown(*fd, like->st_uid, like->st_gid) < 0 || fchmod(*fd, like->st_mode & 07777) < 0))
		rc = -errno;
	if (rc == 0 && is_durable && fsync(*fd) < 0)
		rc = -errno;
	if (close(take_fd(fd)) < 0 && rc == 0)
		rc = -errno; /* NFS reports a full quota here */

	return rc;
}

/* A rename puts a file where a device was: root would take /dev/null or /dev/stdout, which is a
 * link into /proc, away from everybody. */
static bool file_is_no_place(int directory, const char *name)
{
	static const char processes[] = "/proc/";
	char link[sizeof(processes)];
	struct stat status;

	if (fstatat(directory, name, &status, 0) == 0 &&
	    (S_ISCHR(status.st_mode) || S_ISBLK(status.st_mode) || S_ISFIFO(status.st_mode)))
		return true;

	ssize_t length = readlinkat(directory, name, link, sizeof(link));
	return length >= (ssize_t)sizeof(processes) - 1 &&
	       memcmp(link, processes, sizeof(processes) - 1) == 0;
}

static int file_write(const char *path, const void *data, size_t length, mode_t mode,
		      const struct stat *like, bool is_durable, struct err *err)
{
	const char *name;
	_cleanup_close_ int directory = file_open_parent(path, &name, err);
	if (directory < 0)
		return directory;

	if (file_is_no_place(directory, name))
		return err_set(err, -EEXIST,
			       "'%s' is a device or a pipe, in whose place a file would be put",
			       path);

	char temporary[FILE_NAME_SIZE];
	_cleanup_close_ int fd = file_open_temporary(directory, mode, temporary);
	if (fd < 0)
		return err_set(err, fd, "cannot create a temporary file beside '%s': %s", path,
			       err_describe(fd));

	int rc = file_fill(&fd, data, length, like, is_durable);
	if (rc == 0 && renameat(directory, temporary, directory, name) < 0)
		rc = -errno;
	if (rc < 0) {
		(void)unlinkat(directory, temporary, 0);
		return err_set(err, rc, "cannot write '%s': %s", path, err_describe(rc));
	}

	/* EINVAL: a file system that cannot fsync directories has nothing to lose by it. */
	if (is_durable && fsync(directory) < 0 && errno != EINVAL)
		return err_set(err, -errno, "cannot make '%s' durable: %s", path,
			       err_describe(errno));

	return 0;
}

int file_write_atomic(const char *path, const void *data, size_t length, mode_t mode,
		      struct err *err)
{
	return file_write(path, data, length, mode, NULL, true, err);
}

int file_write_like(const char *path, const void *data, size_t length, const struct stat *like,
		    struct err *err)
{
	return file_write(path, data, length, S_IRUSR | S_IWUSR, like, true, err);
}

int file_write_transient(const char *path, const void *data, size_t length, const struct stat *like,
			 struct err *err)
{
	return file_write(path, data, length, S_IRUSR | S_IWUSR, like, false, err);
}

int file_path(char out[FILE_PATH_MAX], struct err *err, const char *format, ...)
{
	char path[FILE_PATH_MAX];
	va_list arguments;

	va_start(arguments, format);
	int length = vsnprintf(path, sizeof(path), format, arguments);

	va_end(arguments);
	if (length < 0 || length >= FILE_PATH_MAX)
		return err_set(err, -ENAMETOOLONG, "path is longer than %d bytes: '%.64s...'",
			       FILE_PATH_MAX - 1, length < 0 ? "" : path);

	memcpy(out, path, (size_t)length + 1);
	return 0;
}

static int file_mkdir_one(const char *path, mode_t mode, struct err *err)
{
	if (mkdir(path, mode) == 0)
		return 0;

	/* Whatever mkdir said, a directory that is there is what was asked for. */
	int code = -errno;
	struct stat status;

	if (stat(path, &status) == 0) {
		if (S_ISDIR(status.st_mode))
			return 0;
		code = -ENOTDIR;
	}

	return err_set(err, code, "cannot create directory '%s': %s", path, err_describe(code));
}

int file_mkdirs(const char *path, mode_t mode, struct err *err)
{
	char part[FILE_PATH_MAX];
	size_t length = strlen(path);
	if (length >= sizeof(part))
		return err_set(err, -ENAMETOOLONG, "path is too long: '%.64s...'", path);
	if (length == 0)
		return err_set(err, -ENOENT, "cannot create a directory without a name");

	memcpy(part, path, length + 1);

	for (size_t i = 1; i < length; i++) {
		if (part[i] != '/' || part[i - 1] == '/')
			continue;

		part[i] = '\0';
		int rc = file_mkdir_one(part, mode, err);
		if (rc < 0)
			return rc;

		part[i] = '/';
	}

	return file_mkdir_one(part, mode, err);
}

bool file_exists(const char *path)
{
	return access(path, F_OK) == 0;
}
