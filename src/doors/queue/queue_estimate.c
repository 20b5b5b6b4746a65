/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long jobs take that do not say so: by what those of the same user and name have taken. In
 * memory; made anew from the store when the queue opens.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "doors/queue/queue_internal.h"
#include "doors/queue/schedule/schedule_estimate.h"

enum estimate_kind_limits {
	ESTIMATE_KINDS_MAX = 512, /* a power of two; of users and names that were last seen */
	ESTIMATE_PROBES = 8,
};

struct queue_estimate {
	uint64_t key; /* of user and name; 0: nobody's */
	uint64_t used;
	struct schedule_history history;
};

struct queue_estimates {
	uint64_t uses;
	struct queue_estimate kinds[ESTIMATE_KINDS_MAX];
};

/* FNV-1a. Names that collide share what they take: no more than an estimate is at stake. */
static uint64_t estimate_key(uid_t uid, const char *name)
{
	uint64_t key = UINT64_C(0xcbf29ce484222325) ^ uid;
	for (; *name; name++)
		key = (key ^ (uint8_t)*name) * UINT64_C(0x100000001b3);
	key = (key ^ key >> 32) * UINT64_C(0x9e3779b97f4a7c15);
	return key ? key : 1;
}

/* The one of that key; else, with `may_make`, the one of those in its places that was used the
 * longest ago, made anew. */
static struct queue_estimate *estimate_find(struct queue_estimates *all, uint64_t key,
					    bool may_make)
{
	struct queue_estimate *oldest = NULL;

	for (size_t i = 0; i < ESTIMATE_PROBES; i++) {
		struct queue_estimate *kind = &all->kinds[(key + i) % ESTIMATE_KINDS_MAX];
		if (kind->key == key)
			return kind;
		if (!oldest || kind->used < oldest->used)
			oldest = kind;
	}

	if (may_make)
		*oldest = (struct queue_estimate){.key = key};
	return may_make ? oldest : NULL;
}

void queue_estimate_note(struct queue *queue, uid_t uid, const char *name, uint64_t ran_ns,
			 bool has_succeeded)
{
	/* A few kilobytes that most queues never need: without them nothing is estimated. */
	if (!queue->estimates && !(queue->estimates = calloc(1, sizeof(*queue->estimates))))
		return;

	struct queue_estimate *kind =
	    estimate_find(queue->estimates, estimate_key(uid, name), has_succeeded);
	if (!kind)
		return;

	kind->used = ++queue->estimates->uses;
	schedule_estimate_add(&kind->history, ran_ns, has_succeeded);
}

uint64_t queue_estimate_ns(const struct queue *queue, const struct job *job)
{
	struct queue_estimate *kind =
	    queue->estimates
		? estimate_find(queue->estimates, estimate_key(job->uid, job->name), false)
		: NULL;
	return kind ? schedule_estimate_ns(&kind->history) : 0;
}

void queue_estimate_done(struct queue *queue)
{
	free(take_ptr(queue->estimates));
}
