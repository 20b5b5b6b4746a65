/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looking at files below a root that may be a simulated machine, the disk of another one or
 * hostile: links never lead out of the root, only regular files are read and none beyond a cap, and
 * nothing that waits (a FIFO, a device) is ever opened for reading. Knows nothing of what is in the
 * files.
 */
#ifndef SLUICE_DOCTOR_ROOTFS_H
#define SLUICE_DOCTOR_ROOTFS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/file.h"

struct buf;
struct err;
struct stat;

enum rootfs_limits {
	ROOTFS_FILE_MAX = 256 << 10, /* of a file that is read whole */
	ROOTFS_LINES_MAX = 64 << 20, /* of one that is read line by line */
	ROOTFS_LINE_MAX = 16384,     /* bytes of a line; the rest of a longer one is left out */
	ROOTFS_NAMES_MAX = 65536,    /* entries of one directory that are looked at */
	ROOTFS_SMALL_MAX = 4096,     /* of a file that holds one word */
};

struct rootfs {
	int fd;
	int kernel_fd;		  /* below which /proc and /sys lie; -1: the same */
	char path[FILE_PATH_MAX]; /* for messages; "" for / */
	bool without_openat2;	  /* for tests: as on kernels before 5.6 */
};
#define ROOTFS_CLOSED                                                                              \
	{                                                                                          \
		.fd = -1, .kernel_fd = -1                                                          \
	}

/*
 * `path` "" or "/": this machine. `own_kernel`: when there is no /proc below `path`, that of this
 * machine is taken, and its /sys: a container sees the kernel of its host. What open(2) gives.
 */
int rootfs_open(const char *path, bool own_kernel, struct rootfs *out, struct err *err);
void rootfs_close(struct rootfs *rootfs);

/*
 * All paths are absolute as seen from inside of the root. Without openat2(2) a root other than /
 * cannot be looked at safely: -EOPNOTSUPP.
 *
 * Appends the whole of a regular file; the cap is the smaller of the buffer's max and
 * ROOTFS_FILE_MAX. -ENOENT, -EACCES, ...; -EFBIG; -EINVAL: it is not a regular file.
 */
int rootfs_read(const struct rootfs *rootfs, const char *path, struct buf *out);
/* The first line of a small file without its end and blanks around it: "" when it is empty.
 * Errors as above, -EINVAL also for text with control characters. */
int rootfs_word(const struct rootfs *rootfs, const char *path, char *out, size_t size);
/* A number in a small file. -EINVAL. */
int rootfs_number(const struct rootfs *rootfs, const char *path, int64_t *out);
/*
 * Calls `line` for each line (no NUL or line end behind it) until it returns another number than
 * 0, which is returned. Errors as rootfs_read(), with ROOTFS_LINES_MAX.
 */
int rootfs_lines(const struct rootfs *rootfs, const char *path,
		 int (*line)(const char *text, size_t length, void *context), void *context);
/* As stat(2). */
int rootfs_stat(const struct rootfs *rootfs, const char *path, struct stat *out);
bool rootfs_exists(const struct rootfs *rootfs, const char *path);
/* The target of a symbolic link. -EINVAL: it is none; -ENAMETOOLONG. */
int rootfs_link(const struct rootfs *rootfs, const char *path, char out[FILE_PATH_MAX]);
/* The last part of that: the driver's name of "../../bus/pci/drivers/nvidia". */
int rootfs_link_name(const struct rootfs *rootfs, const char *path, char *out, size_t size);
/* A descriptor of a regular file for reading; given. Errors as rootfs_read(). */
int rootfs_file(const struct rootfs *rootfs, const char *path);
/* The path without links. -ENAMETOOLONG. */
int rootfs_real(const struct rootfs *rootfs, const char *path, char out[FILE_PATH_MAX]);
/* A descriptor of the directory, for fstatat() of names in it; given. */
int rootfs_directory(const struct rootfs *rootfs, const char *path);
/* The value of an extended attribute as text. -ENODATA, -EOPNOTSUPP: it has none. */
int rootfs_attribute(const struct rootfs *rootfs, const char *path, const char *name, char *out,
		     size_t size);

/*
 * Calls `entry` for each name in a directory, in no order and with "." and "..", until it returns
 * another number than 0, which is returned. `directory` is for readlinkat() of the name. For what
 * may have more names than ROOTFS_NAMES_MAX. -ENOENT, -EACCES, -ENOTDIR, ...; -ENOMEM.
 */
int rootfs_each(const struct rootfs *rootfs, const char *path,
		int (*entry)(int directory, const char *name, void *context), void *context);

/* Names of a directory, ordered; freed by rootfs_names_done(). */
struct rootfs_names {
	char **name; /* owned */
	size_t count, room;
};
#define _cleanup_rootfs_names_ __attribute__((cleanup(rootfs_names_done)))
/* Without those that begin with a dot. `suffix` (may be NULL): only names that end so. -ENOENT,
 * -EACCES, -ENOTDIR, ...; -E2BIG: ROOTFS_NAMES_MAX; -ENOMEM. */
int rootfs_list(const struct rootfs *rootfs, const char *path, const char *suffix,
		struct rootfs_names *out);
void rootfs_names_done(struct rootfs_names *names);

#endif
