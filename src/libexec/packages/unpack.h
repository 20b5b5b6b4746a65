/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes that may be compressed: by gzip, xz or zstd, as their first bytes say, else they are taken
 * as they are. A short file can stand for a very long one: what comes out has a limit, and so has
 * the memory that it takes. Pure.
 */
#ifndef SLUICE_LIBEXEC_PACKAGES_UNPACK_H
#define SLUICE_LIBEXEC_PACKAGES_UNPACK_H

#include <stddef.h>
#include <stdint.h>

struct err;
struct unpack;

enum unpack_limits {
	UNPACK_CHUNK = 64 << 10,     /* handed on at a time */
	UNPACK_WINDOW_LOG = 25,	     /* of zstd: 32 MiB; the highest ordinary level has 8 */
	UNPACK_XZ_MEMORY = 80 << 20, /* of xz: its highest level takes 65 MiB */
};

/* Is given what comes out; what it returns other than 0 ends it and is returned. */
typedef int (*unpack_sink)(const char *data, size_t length, void *context);

/* `max`: most bytes that may come out. Owned. NULL: -ENOMEM. */
struct unpack *unpack_new(uint64_t max, unpack_sink sink, void *context);
struct unpack *unpack_free(struct unpack *unpack);
/* 0; -EFBIG: more than `max` comes out; -EBADMSG: damaged; -ENOTSUP: packed in a way that this
 * program was built without, or that takes too much memory; -ENOMEM; what the sink returned. */
int unpack_feed(struct unpack *unpack, const char *data, size_t length, struct err *err);
/* -EBADMSG: its end is missing. */
int unpack_end(struct unpack *unpack, struct err *err);

#endif
