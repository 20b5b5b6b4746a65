/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much of the queue's memory is whose, for its shares: sizes of specifications, and the oldest
 * final jobs of somebody forgotten. As store.h: blocking, on the storage thread.
 */
#ifndef SLUICE_DOORS_QUEUE_STORE_STORE_SHARE_H
#define SLUICE_DOORS_QUEUE_STORE_STORE_SHARE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct err;
struct store;

/* Bytes of a job's specification; 0: it has none, or that of the array that it is in. */
int store_spec_bytes(struct store *store, uint64_t id, uint64_t *out, struct err *err);
/* The same of all jobs that have not ended, in the order of their ids. Nonzero from each() ends it
 * and is returned. */
int store_live_bytes(struct store *store, int (*each)(uint64_t id, uint64_t bytes, void *context),
		     void *context, struct err *err);

/* What a user has of the jobs that have ended, and how much of it is to go. */
struct store_share {
	uid_t uid;
	uint64_t jobs, bytes;
	size_t cut; /* index of the cut that this user's jobs count for */
};

struct store_cut {
	uint64_t jobs, bytes;
};

/* Of all users, in the order of their ids; owned: *out. */
int store_shares(struct store *store, struct store_share **out, size_t *out_count, struct err *err);
/*
 * Forgets final jobs of these users (in the order of their ids), the oldest first, until the cuts
 * are made or STORE_FORGET_MAX are forgotten. Jobs with a time of their own go last. Those of an
 * array stay until all of it has ended. *out_ids (owned) for jobdir_remove().
 */
int store_forget_shares(struct store *store, const struct store_share *shares, size_t count,
			struct store_cut *cuts, uint64_t **out_ids, size_t *out_count,
			struct err *err);

#endif
