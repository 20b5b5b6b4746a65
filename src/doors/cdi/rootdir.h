/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The directory below which a driver lies: "/", or what a driver container made. Links in it are
 * followed as if it were "/", so that none leads out, and what is found is taken only if nobody but
 * root (or whoever runs this) could have put it there: it becomes the source of a mount. Knows
 * nothing of drivers.
 */
#ifndef SLUICE_DOORS_CDI_ROOTDIR_H
#define SLUICE_DOORS_CDI_ROOTDIR_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/file.h"

struct err;

struct rootdir {
	int fd;
	char path[FILE_PATH_MAX];    /* without links and without a slash at the end; "" for / */
	char trusted[FILE_PATH_MAX]; /* the directory that was found trustworthy last; "" none */
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
 * Finds `path` (absolute, as seen from inside). `type` is what it must be: S_IFREG, S_IFSOCK,
 * S_IFDIR. `out_real` gets the path from inside without links, `out_fd` (may be NULL) a descriptor:
 * of O_PATH for a socket, else for reading; given. -ENOENT: not there; -EPERM: somebody else could
 * write to it or to a directory above it, the message names which; -EINVAL: of another type;
 * -EOPNOTSUPP: a root other than / needs a kernel with openat2(2).
 */
int rootdir_find(struct rootdir *root, const char *path, mode_t type, char out_real[FILE_PATH_MAX],
		 int *out_fd, struct err *err);

#endif
