/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attempts that are over, for what the queue learns from them when it opens: what users have had,
 * and how long their jobs take. Blocking, as all of the store.
 */
#ifndef SLUICE_DOORS_QUEUE_STORE_STORE_PAST_H
#define SLUICE_DOORS_QUEUE_STORE_STORE_PAST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct err;
struct store;

struct store_past {
	uid_t uid;
	const char *name, *grants;		/* borrowed during the call; grants: as record.h */
	int64_t started_unix_ns, ended_unix_ns; /* the first not after the second */
	bool has_succeeded;
};

/* Calls `each` for the last `max` of them, the latest first. Nonzero from it ends that and is
 * returned. -EIO, -ENOMEM. */
int store_past(struct store *store, size_t max,
	       int (*each)(const struct store_past *past, void *context), void *context,
	       struct err *err);

#endif
