/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The directory below which a driver lies: "/", or what a driver container made. Links in it are
 * followed as if it were "/", so that none leads out, and what is found is taken only if nobody but
 * root (or whoever runs this) could have put it there: it becomes the source of a mount. Knows
 * nothing of drivers.
 */
#ifndef SLUICE_CDI_ROOTDIR_H
#define SLUICE_CDI_ROOTDIR_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/file.h"

struct err;

struct rootdir {
	int fd;
	char path[FILE_PATH_MAX];    /* without links and without a slash at the end; "" for / */
	char trusted[FILE_PATH_MAX]; /* the directory that was found trustworthy last, and with it
					those above it; "" none */
	bool without_openat2;	     /* for tests: as on kernels before 5.6 */
};
#define ROOTDIR_CLOSED                                                                             \
	{                                                                                          \
		.fd = -1                                                                           \
	}

/* -EINVAL: `path` is not absolute; -EPERM: others may write to it; what open(2) gives. */
int rootdir_open(const char *path, struct rootdir *out, struct err *err);
void rootdir_close(struct rootdir *root);
#define _cleanup_rootdir_ __attribute__((cleanup(rootdir_close)))

/*
 * Finds `path` (absolute, as seen from inside). `type` is what it must be: S_IFREG or
 * S_IFDIR. `out_real` gets the path from inside without links, `out_fd` (may be NULL) a descriptor
 * for reading; given. -ENOENT: not there; -EPERM: somebody else could
 * write to it or to a directory above it, the message names which; -EINVAL: of another type;
 * -EOPNOTSUPP: a root other than / needs a kernel with openat2(2).
 */
int rootdir_find(struct rootdir *root, const char *path, mode_t type, char out_real[FILE_PATH_MAX],
		 int *out_fd, struct err *err);

/*
 * The same for a regular file in a directory that was found, whose descriptor for reading and path
 * without links are given: with fewer calls.
 */
int rootdir_entry(struct rootdir *root, int directory, const char *directory_path, const char *name,
		  char out_real[FILE_PATH_MAX], int *out_fd, struct err *err);

/*
 * The directory that holds a daemon's socket, where it may belong to the daemon's own user. It is a
 * directory that only root could have named so; what is in it is the daemon's, who could put a link
 * to any other file in the place of its socket. Whoever mounts the directory, and not the socket,
 * mounts nothing but the daemon's own files.
 */
int rootdir_find_daemon(struct rootdir *root, const char *path, const char *socket,
			char out_real[FILE_PATH_MAX], struct err *err);

#endif
