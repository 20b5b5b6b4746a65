/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A package repository, whatever it is: a directory of packages, of an RPM repository or of a
 * Debian one, or the address of one. Finds its index, and tells of each package in it. Nothing is
 * kept, nothing of a package itself is read, and links in a directory are not followed.
 */
#ifndef SLUICE_LIBEXEC_PACKAGES_REPOSITORY_H
#define SLUICE_LIBEXEC_PACKAGES_REPOSITORY_H

#include <stdbool.h>
#include <stdint.h>

#include "libexec/packages/package.h"

struct err;

enum repository_limits {
	REPOSITORY_INDEX_MAX = 1 << 20, /* of repomd.xml */
	REPOSITORY_DEPTH_MAX = 8,	/* of directories */
	REPOSITORY_FILES_MAX = 1 << 18, /* that are looked at in a directory */
};
#define REPOSITORY_PACKED_MAX (UINT64_C(256) << 20) /* bytes of an index as it comes */
/* Of what is in it: the largest distribution's have some hundred MiB. */
#define REPOSITORY_UNPACKED_MAX (UINT64_C(1024) << 20)

enum repository_kind { REPOSITORY_FILES, REPOSITORY_RPM, REPOSITORY_DEBIAN };

struct repository_options {
	/* A directory, "file:///...", "https://...", or as in a sources.list:
	 * "https://deb.debian.org/debian bookworm main contrib". */
	const char *location;
	const char *deb_arch; /* "amd64": which index of a Debian repository */
	/* By HTTP: fetch() of fetch.h; NULL: addresses are refused. */
	int (*fetch)(const char *url, uint64_t max, uint64_t timeout_ms,
		     int (*sink)(const char *data, size_t length, void *context), void *context,
		     struct err *err);
	uint64_t timeout_ms; /* for each file */
	package_sink sink;
	void *context;
};

/*
 * 0 when all of it was read: `out` says how. -ENOENT: there is none, or it has no index; -EBADMSG,
 * -EFBIG, -ENOTSUP, ...: an index that cannot be read; -E2BIG: too many files; what the sink
 * returned. The error names the file.
 */
int repository_read(const struct repository_options *options, enum repository_kind *out,
		    struct err *err);

const char *repository_kind_to_string(enum repository_kind kind);

#endif
