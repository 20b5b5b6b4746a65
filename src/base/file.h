/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whole files: read with a cap, written by temporary + fsync + rename, so that a reader sees the
 * old content or the new and never half of either. Knows nothing of what is in them.
 */
#ifndef SLUICE_BASE_FILE_H
#define SLUICE_BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct buf;
struct err;
struct stat;

enum file_limits {
	FILE_PATH_MAX = 4096,
};

/*
 * Reads all of `path` into `out` (appending; its max is the cap). Works for /proc and sysfs, whose
 * sizes are not known beforehand. -ENOENT, -EACCES, ...; -EFBIG when the cap is passed.
 */
int file_read(const char *path, struct buf *out, struct err *err);
/* The same of an open file; `path` is what errors call it. */
int file_read_open(int fd, const char *path, struct buf *out, struct err *err);

/*
 * Replaces `path` atomically: a temporary in the same directory, fsync, rename, fsync of the
 * directory. `mode` as for open(2). On failure the old file is untouched and no temporary stays.
 * -EEXIST: it is a device, a pipe or a link into /proc, such as /dev/stdout.
 */
int file_write_atomic(const char *path, const void *data, size_t length, mode_t mode,
		      struct err *err);

/* The same with owner, group and mode of `like`, whatever the umask: for a file that belongs to
 * somebody. -EPERM: the owner cannot be kept. */
int file_write_like(const char *path, const void *data, size_t length, const struct stat *like,
		    struct err *err);

/* The same without waiting for the disk, which can take longer than all else together: for what is
 * read at once and made anew after a crash. A reader sees the old content or the new all the same.
 */
int file_write_transient(const char *path, const void *data, size_t length, const struct stat *like,
			 struct err *err);

/*
 * "root" + "path" in a buffer of FILE_PATH_MAX bytes: every reader of /proc, /sys and /dev takes a
 * root, so that it can be pointed at a simulated machine. -ENAMETOOLONG when it does not fit.
 */
int file_path(char out[FILE_PATH_MAX], struct err *err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* mkdir -p: missing parents get `mode` as well. 0 if it is there already. */
int file_mkdirs(const char *path, mode_t mode, struct err *err);

bool file_exists(const char *path);

#endif
