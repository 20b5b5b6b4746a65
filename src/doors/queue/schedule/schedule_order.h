/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In which order a pass looks at the waiting jobs: the highest score first (schedule_score.h),
 * where each GPU that the user's jobs have at that moment of the pass counts against them; of equal
 * scores the one submitted first. One that is lifted, for something is pledged to it or kept free
 * already, comes before all of its priority and below. Where the owner wants it so, the shortest
 * time comes before the score, and priority before both. Pure; knows nothing of devices. For
 * schedule*.c alone, but for the tally, which the queue uses as well.
 *
 * n jobs of u users cost O(n log u), and O(n log n) with the shortest first.
 */
#ifndef SLUICE_DOORS_QUEUE_SCHEDULE_SCHEDULE_ORDER_H
#define SLUICE_DOORS_QUEUE_SCHEDULE_SCHEDULE_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "doors/queue/rules.h"
#include "job/wants.h"

struct err;
struct job;

/* Numbers by key: GPUs of a user, running members of an array. */
struct schedule_tally {
	uint64_t *keys, *counts; /* owned */
	uint32_t *table;	 /* owned; place in `keys` + 1; 0: empty */
	size_t count, capacity;	 /* of `keys` and `counts` */
	size_t table_size;	 /* a power of two */
};
/* The place of the key in `counts`, where it is made with 0 if it is not there. -ENOMEM. */
int schedule_tally_find(struct schedule_tally *tally, uint64_t key, uint32_t *out);
/* The same without making it: false, `out` untouched. */
bool schedule_tally_look(const struct schedule_tally *tally, uint64_t key, uint32_t *out);
void schedule_tally_done(struct schedule_tally *tally);

enum schedule_order_limits {
	SCHEDULE_PRIORITIES = 2 * WANTS_PRIORITY_MAX + 1,
};

/* A job's place in its group. */
struct schedule_key {
	uint64_t key; /* the smaller, the earlier */
	uint32_t job; /* place in `jobs` */
};

/* How it is to be ordered. */
struct schedule_order_by {
	enum rules_order rule;
	uint64_t now_ns;
	int64_t gpu_score; /* what each GPU that a user's jobs have takes from their scores */
};

struct schedule_order {
	const struct job *const *jobs; /* borrowed */
	size_t count;
	struct schedule_order_by by;
	uint32_t pledged[SCHEDULE_PRIORITIES]; /* place in `jobs` + 1 of the one that has the
						  pledge, or is due first; 0: there is none */
	bool has_pledge;		       /* there is one */
	uint32_t lifted[SCHEDULE_PRIORITIES];  /* how many are, of this priority and above */
	struct schedule_tally users;	       /* by uid: GPUs that their jobs have */
	void *memory;			       /* owned; these lie in it: */
	struct schedule_key *sorted, *spare;   /* jobs without a regard to users */
	uint32_t *bucket;		       /* of each job */
	uint32_t *user;			       /* of each job: place in `users` */
	uint32_t *next; /* of each place in `sorted`: the same user's next; or NONE */
	int64_t *used;	/* owned; of each user: usage_score */
	int64_t *score; /* of the first job that is left, in the same memory */
	uint32_t *head; /* owned; of each user: the place of the first one; or NONE */
	uint32_t *heap; /* users that have one */
	size_t heap_count;
	size_t at;	     /* first in `sorted` behind the group that is looked at */
	bool has_given;	     /* the top of the heap was returned by the last call */
	uint32_t given_user; /* whose job that was */
};

/* Users that run something may be counted in `users` before; `out` begins as {0}. `jobs` are
 * ordered by id. -ENOMEM; schedule_order_done() is called in any case. */
int schedule_order_make(const struct job *const *jobs, size_t count,
			const struct schedule_order_by *by, struct schedule_order *out,
			struct err *err);
/* Whether what becomes free is pledged to it: it is due, and first of its priority. */
bool schedule_order_pledges(const struct schedule_order *order, const struct job *job);
/* The one of that id if so, or NULL. Borrowed. */
const struct job *schedule_order_pledged(const struct schedule_order *order, uint64_t id);
/* The next job, or NULL after the last. `*out_gpus` is how many GPUs its user has; to be added to
 * before the next call when the job gets some. Borrowed. */
const struct job *schedule_order_next(struct schedule_order *order, uint64_t **out_gpus);
void schedule_order_done(struct schedule_order *order);

#endif
