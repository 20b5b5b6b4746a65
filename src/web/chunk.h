/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes that are made once and sent to many: an answer that clients share while they read it at
 * their own pace. Counted; gone with the last of them. Knows nothing of what is in it.
 */
#ifndef SLUICE_WEB_CHUNK_H
#define SLUICE_WEB_CHUNK_H

#include <stdint.h>

#include "base/buf.h"

struct err;

struct chunk {
	struct buf buf; /* content; not changed any more once it is shared */
	uint32_t references;
};

/* An empty one that takes at most `max` bytes, with one reference. NULL: -ENOMEM. */
struct chunk *chunk_new(size_t max, struct err *err);
struct chunk *chunk_ref(struct chunk *chunk);
/* NULL is fine; returns NULL. */
struct chunk *chunk_unref(struct chunk *chunk);
/* Gives back what is reserved and not used. */
void chunk_trim(struct chunk *chunk);
/* Its content compressed (gzip, level 1), a new one. NULL: -ENOMEM, -ENOSPC. */
struct chunk *chunk_gzip(const struct chunk *chunk, struct err *err);

#endif
