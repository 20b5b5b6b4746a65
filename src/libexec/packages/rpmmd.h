/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two XML files of an RPM repository that count: repomd.xml, which names the other, and
 * primary.xml, the packages. Read by expat as they arrive; what they have beside that is not kept.
 * A document type is refused, and with it every entity that could make a short text long. Pure.
 * https://rpm-software-management.github.io/createrepo_c/c/
 */
#ifndef SLUICE_LIBEXEC_PACKAGES_RPMMD_H
#define SLUICE_LIBEXEC_PACKAGES_RPMMD_H

#include <stddef.h>

#include "libexec/packages/package.h"

struct err;
struct rpmmd;

enum rpmmd_limits {
	RPMMD_DEPTH_MAX = 32,
	RPMMD_PATH_MAX = 512,
	RPMMD_BUFFER_MAX = 1 << 20, /* of one token: a changelog in an attribute is not ours */
};

/* Reads primary.xml. Owned. NULL: -ENOMEM. `context` is borrowed. */
struct rpmmd *rpmmd_new(package_sink sink, void *context, struct err *err);
struct rpmmd *rpmmd_free(struct rpmmd *rpmmd);
/* 0; -EBADMSG: not such a file, the error says where; -ENOMEM; what the sink returned. */
int rpmmd_feed(struct rpmmd *rpmmd, const char *data, size_t length, struct err *err);
int rpmmd_end(struct rpmmd *rpmmd, struct err *err);

/*
 * Of a whole repomd.xml: where primary.xml lies, from the directory above repodata/. -ENOENT: it
 * names none; -EBADMSG: not such a file, or the path leads out of the repository; -ENOMEM.
 */
int rpmmd_find_primary(const char *text, size_t length, char out[RPMMD_PATH_MAX], struct err *err);

#endif
