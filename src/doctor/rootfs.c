/* SPDX-License-Identifier: Apache-2.0 */
#include "doctor/rootfs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/array.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/parse.h"

enum {
	ROOTFS_TRIES_MAX = 1000,
	ROOTFS_SELF_MAX = 32, /* "/proc/self/fd/N" */
};

static bool is_below(const char *path, const char *directory)
{
	size_t length = strlen(directory);
	return strncmp(path, directory, length) == 0 &&
	       (path[length] == '/' || path[length] == '\0');
}

static bool is_kernels(const char *path)
{
	return is_below(path, "/proc") || is_below(path, "/sys");
}

/* As openat(2), with everything below the root. -errno. */
static int rootfs_openat(const struct rootfs *rootfs, const char *path, int flags)
{
	bool of_kernel = rootfs->kernel_fd >= 0 && is_kernels(path);
	struct open_how how = {.flags = (unsigned)(O_CLOEXEC | flags),
			       .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
	int fd = -1;

	errno = rootfs->without_openat2 ? ENOSYS : EAGAIN;
	/* EAGAIN: somebody renamed something meanwhile, anywhere, and the kernel is not sure that a
	 * ".." of a link stayed inside. openat2(2) */
	for (int i = 0; i < ROOTFS_TRIES_MAX && fd < 0 && errno == EAGAIN; i++)
		fd = (int)syscall(SYS_openat2, of_kernel ? rootfs->kernel_fd : rootfs->fd, path,
				  &how, sizeof(how));

	/* A filter for system calls that is older than the call refuses it with EPERM. */
	if (fd < 0 && (errno == ENOSYS || errno == EPERM)) {
		if (rootfs->path[0] != '\0' && !of_kernel)
			return -EOPNOTSUPP;
		fd = open(path, O_CLOEXEC | flags); /* nothing leads out of "/" */
	}

	return fd < 0 ? -errno : fd;
}

int rootfs_open(const char *path, bool own_kernel, struct rootfs *out, struct err *err)
{
	struct rootfs rootfs = ROOTFS_CLOSED;
	size_t length = strlen(path);
	while (length > 0 && path[length - 1] == '/')
		length--;

	int rc = file_path(rootfs.path, err, "%.*s", (int)length, path);
	if (rc < 0)
		return rc;

	rootfs.fd = open(length ? rootfs.path : "/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (rootfs.fd < 0)
		return err_set(err, -errno, "cannot look below '%s': %s", path,
			       err_describe(-errno));
	if (own_kernel && !rootfs_exists(&rootfs, "/proc/version"))
		rootfs.kernel_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	*out = rootfs;

	return 0;
}

void rootfs_close(struct rootfs *rootfs)
{
	cleanup_close_fn(&rootfs->fd);
	cleanup_close_fn(&rootfs->kernel_fd);
	rootfs->fd = rootfs->kernel_fd = -1;
}

/* Looked at before it is opened: to open a device can do something. */
int rootfs_file(const struct rootfs *rootfs, const char *path)
{
	struct stat status;
	_cleanup_close_ int place = rootfs_openat(rootfs, path, O_PATH);
	if (place < 0)
		return place;
	if (fstat(place, &status) < 0)
		return -errno;

	if (!S_ISREG(status.st_mode))
		return -EINVAL;

	_cleanup_close_ int fd = rootfs_openat(rootfs, path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return fd;
	if (fstat(fd, &status) < 0)
		return -errno;

	return S_ISREG(status.st_mode) ? take_fd(&fd) : -EINVAL;
}

int rootfs_read(const struct rootfs *rootfs, const char *path, struct buf *out)
{
	_cleanup_close_ int fd = rootfs_file(rootfs, path);
	if (fd < 0)
		return fd;

	size_t max = out->max;
	out->max = max < ROOTFS_FILE_MAX ? max : ROOTFS_FILE_MAX;

	int rc = file_read_open(fd, path, out, NULL);
	out->max = max;
	return rc;
}

int rootfs_word(const struct rootfs *rootfs, const char *path, char *out, size_t size)
{
	_cleanup_buf_ struct buf text;
	buf_init(&text, ROOTFS_SMALL_MAX);

	int rc = rootfs_read(rootfs, path, &text);
	if (rc < 0)
		return rc;

	const char *start = buf_text(&text), *end = start + strcspn(start, "\n");
	while (start < end && (*start == ' ' || *start == '\t'))
		start++;

	while (end > start && (end[-1] == ' ' || end[-1] == '\t'))
		end--;

	size_t length = (size_t)(end - start);
	if (length >= size)
		return -ENAMETOOLONG;

	for (size_t i = 0; i < length; i++)
		if ((unsigned char)start[i] < ' ' || start[i] == 0x7f)
			return -EINVAL;

	memcpy(out, start, length);
	out[length] = '\0';
	return 0;
}

int rootfs_number(const struct rootfs *rootfs, const char *path, int64_t *out)
{
	char word[32];
	int rc = rootfs_word(rootfs, path, word, sizeof(word));
	if (rc < 0)
		return rc == -ENAMETOOLONG ? -EINVAL : rc;
	return parse_i64(word, INT64_MIN, INT64_MAX, out) < 0 ? -EINVAL : 0;
}

/* Hands out the whole lines of `text`; the rest, which has no end yet, is moved to the front. */
static int lines_of(char *text, size_t *length, bool *skipping,
		    int (*line)(const char *text, size_t length, void *context), void *context)
{
	size_t at = 0;
	const char *end;

	while ((end = memchr(text + at, '\n', *length - at))) {
		size_t size = (size_t)(end - text) - at;
		int rc = *skipping ? 0 : line(text + at, size, context);

		*skipping = false;
		at += size + 1;
		if (rc != 0)
			return rc;
	}

	*length -= at;
	memmove(text, text + at, *length);
	if (*length < ROOTFS_LINE_MAX)
		return 0;

	int rc = *skipping ? 0 : line(text, *length, context);

	*skipping = true;
	*length = 0;
	return rc;
}

int rootfs_lines(const struct rootfs *rootfs, const char *path,
		 int (*line)(const char *text, size_t length, void *context), void *context)
{
	_cleanup_close_ int fd = rootfs_file(rootfs, path);
	if (fd < 0)
		return fd;

	char text[ROOTFS_LINE_MAX];
	size_t length = 0, total = 0;
	bool skipping = false;

	for (;;) {
		ssize_t got = read(fd, text + length, sizeof(text) - length);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (got == 0)
			return length > 0 && !skipping ? line(text, length, context) : 0;

		length += (size_t)got;
		total += (size_t)got;
		if (total > ROOTFS_LINES_MAX)
			return -EFBIG;

		int rc = lines_of(text, &length, &skipping, line, context);
		if (rc != 0)
			return rc;
	}
}

int rootfs_stat(const struct rootfs *rootfs, const char *path, struct stat *out)
{
	_cleanup_close_ int fd = rootfs_openat(rootfs, path, O_PATH);
	if (fd < 0)
		return fd;
	return fstat(fd, out) < 0 ? -errno : 0;
}

bool rootfs_exists(const struct rootfs *rootfs, const char *path)
{
	struct stat status;
	return rootfs_stat(rootfs, path, &status) == 0;
}

int rootfs_link(const struct rootfs *rootfs, const char *path, char out[FILE_PATH_MAX])
{
	_cleanup_close_ int fd = rootfs_openat(rootfs, path, O_PATH | O_NOFOLLOW);
	if (fd < 0)
		return fd;

	ssize_t length = readlinkat(fd, "", out, FILE_PATH_MAX);
	if (length < 0)
		return errno == ENOENT ? -EINVAL : -errno; /* what the kernel says of no link */
	if (length == FILE_PATH_MAX)
		return -ENAMETOOLONG;

	out[length] = '\0';
	return 0;
}

int rootfs_link_name(const struct rootfs *rootfs, const char *path, char *out, size_t size)
{
	char target[FILE_PATH_MAX];
	int rc = rootfs_link(rootfs, path, target);
	if (rc < 0)
		return rc;

	const char *slash = strrchr(target, '/');
	const char *name = slash ? slash + 1 : target;

	if (strlen(name) >= size)
		return -ENAMETOOLONG;

	(void)snprintf(out, size, "%s", name);
	return 0;
}

/* Where a descriptor leads, as this process sees it. */
static int real_of(int fd, char out[FILE_PATH_MAX])
{
	char self[ROOTFS_SELF_MAX];
	(void)snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);

	ssize_t length = readlink(self, out, FILE_PATH_MAX);
	if (length < 0)
		return -errno;
	if (length == FILE_PATH_MAX)
		return -ENAMETOOLONG;

	out[length] = '\0';
	return 0;
}

int rootfs_real(const struct rootfs *rootfs, const char *path, char out[FILE_PATH_MAX])
{
	char top[FILE_PATH_MAX], full[FILE_PATH_MAX];
	_cleanup_close_ int fd = rootfs_openat(rootfs, path, O_PATH);
	if (fd < 0)
		return fd;

	int rc = real_of(fd, full);
	if (rc == 0)
		rc = real_of(rootfs->fd, top);
	if (rc < 0)
		return rc;

	size_t length = strcmp(top, "/") == 0 ? 0 : strlen(top);
	if (strncmp(full, top, length) != 0 || full[length] != '/')
		return -EXDEV;

	memmove(out, full + length, strlen(full + length) + 1);
	return 0;
}

int rootfs_directory(const struct rootfs *rootfs, const char *path)
{
	return rootfs_openat(rootfs, path, O_RDONLY | O_DIRECTORY);
}

int rootfs_attribute(const struct rootfs *rootfs, const char *path, const char *name, char *out,
		     size_t size)
{
	_cleanup_close_ int fd = rootfs_openat(rootfs, path, O_PATH);
	if (fd < 0)
		return fd;

	/* fgetxattr() refuses a descriptor of this kind, which a device node has to have. */
	char self[ROOTFS_SELF_MAX];
	(void)snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);

	ssize_t length = getxattr(self, name, out, size - 1);
	if (length < 0)
		return -errno;

	out[length] = '\0';
	return 0;
}

/* --- directories ----------------------------------------------------------------------------- */

void rootfs_names_done(struct rootfs_names *names)
{
	for (size_t i = 0; i < names->count; i++)
		free(names->name[i]);
	free(names->name);
	*names = (struct rootfs_names){.name = NULL};
}

static int names_add(struct rootfs_names *names, const char *name)
{
	if (array_room(&names->name, names->count, &names->room, 1) < 0)
		return -ENOMEM;

	char *copy = strdup(name);
	if (!copy)
		return -ENOMEM;

	names->name[names->count++] = copy;
	return 0;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool ends_in(const char *name, const char *suffix)
{
	size_t length = strlen(name), wanted = strlen(suffix);
	return length >= wanted && strcmp(name + length - wanted, suffix) == 0;
}

int rootfs_each(const struct rootfs *rootfs, const char *path,
		int (*entry)(int directory, const char *name, void *context), void *context)
{
	_cleanup_close_ int fd = rootfs_directory(rootfs, path);
	if (fd < 0)
		return fd;

	_cleanup_closedir_ DIR *listing = fdopendir(fd);
	if (!listing)
		return -ENOMEM;

	fd = -1; /* the listing's now */
	const struct dirent *found;
	int rc = 0;

	while (rc == 0 && (found = readdir(listing)))
		rc = entry(dirfd(listing), found->d_name, context);

	return rc;
}

struct listing {
	struct rootfs_names names;
	const char *suffix;
	size_t seen;
};

static int list_entry(int directory, const char *name, void *context)
{
	struct listing *listing = context;
	(void)directory;
	if (listing->seen++ == ROOTFS_NAMES_MAX)
		return -E2BIG;
	if (name[0] == '.' || (listing->suffix && !ends_in(name, listing->suffix)))
		return 0;
	return names_add(&listing->names, name);
}

int rootfs_list(const struct rootfs *rootfs, const char *path, const char *suffix,
		struct rootfs_names *out)
{
	struct listing listing = {.suffix = suffix};
	*out = listing.names;

	int rc = rootfs_each(rootfs, path, list_entry, &listing);
	if (rc < 0) {
		rootfs_names_done(&listing.names);
		return rc;
	}

	*out = listing.names;
	if (out->count > 0)
		qsort(out->name, out->count, sizeof(*out->name), compare_names);

	return 0;
}
