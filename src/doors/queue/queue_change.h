/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A change of jobs that is asked for or under way. Private to queue_change.c, which has one after
 * the other, and queue_again.c, which has those that begin final jobs anew.
 */
#ifndef SLUICE_DOORS_QUEUE_QUEUE_CHANGE_H
#define SLUICE_DOORS_QUEUE_QUEUE_CHANGE_H

#include "doors/queue/queue_internal.h"
#include "doors/queue/store/store_share.h"
#include "job/rights.h"

enum queue_change_kind {
	CHANGE_EDIT,   /* what queue_edit() was asked for */
	CHANGE_DOOM,   /* cancels those that are doomed */
	CHANGE_AGAIN,  /* queue_retry() */
	CHANGE_CANCEL, /* queue_cancel_array() */
	CHANGE_LIMIT,  /* queue_limit_change() */
};

/* A job of a set that stays as it is, found out on the storage thread. */
struct change_refusal {
	uint64_t id;
	int code;
	char *text; /* owned; NULL: no memory for it */
};

struct queue_change {
	struct queue_op op; /* first */
	struct queue_change *next;
	enum queue_change_kind kind;
	uid_t uid;	    /* who asked for it */
	bool is_counted;    /* on that user's account */
	uint64_t *sizes;    /* owned: of the specifications of jobs that begin anew */
	uint64_t all_bytes; /* of those; on their user's account while they are entered */
	uint64_t id;
	bool member_alone;
	struct queue_set set;		 /* not `id`: its `ids` are owned, NULL: no set is meant */
	struct change_refusal *refusals; /* owned: of a set that begins anew */
	size_t refusal_count, refusal_room;
	struct queue_edit edit; /* its texts are owned */
	char by[QUEUE_BY_MAX];
	char **environment; /* owned: of the edit */
	struct queue_limit limit;
	struct rights rights;
	bool has_rights;
	int signo; /* of a cancel, and what follows */
	bool has_grace, is_stored;
	uint64_t grace_ns;
	size_t running, cancelled; /* members that are being cancelled, and were */
	int result;
	struct err failure;
	queue_changed_fn *done; /* NULL: nobody waits */
	void *context;

	/* What it works on: the jobs as they are to be, and where their arrays stand then. */
	struct job *jobs;	    /* owned, with their texts */
	struct store_change *rows;  /* owned */
	struct store_array *arrays; /* owned: of each job */
	size_t count, room;
	char *spec; /* owned: a new one */
	size_t spec_length;
};

/* It is over; `changed` jobs are other ones now. Frees it, and begins the next. */
void queue_change_over(struct queue_change *change, int rc, size_t changed, const struct err *err);
/* What the store has answered: a full disk makes the queue pause. */
void queue_change_failed(struct queue *queue, int rc, const char *text);

/* queue_set.c. */
bool queue_set_has(const struct queue_set *set, uint64_t id);
/* Whether a job of the set may be changed by whoever asks, and is in one of the states
 * that they mean; -EPERM, -EBUSY. */
int queue_set_judge(const struct queue_change *change, const struct job *job, struct err *err);
/* Tells, on the loop, that one stays as it is. */
void queue_set_refuse(const struct queue_change *change, uint64_t id, const struct err *err);
/* Notes it, on the storage thread; and tells of all those. */
int queue_set_note(struct queue_change *change, uint64_t id, const struct err *why,
		   struct err *err);
void queue_set_tell(struct queue_change *change);
/* The `i`th job of the set; NULL, and whoever asked is told: it stays as it is. */
struct queue_job *queue_set_job(const struct queue_change *change, size_t i);
void queue_set_done(struct queue_change *change);

/* A new one; NULL: no memory, and whoever waits was told. Then it is handed over. */
struct queue_change *queue_change_new(enum queue_change_kind kind, uint64_t id, bool member_alone,
				      const char *by, queue_changed_fn *done, void *context);
void queue_change_submit(struct queue *queue, struct queue_change *change, uid_t uid);

/* Of CHANGE_LIMIT: which jobs, and what of each. */
int queue_limit_begin(struct queue_change *change, struct err *err);
/* It is durable. */
void queue_limit_apply(struct queue_job *job, uint64_t time_ns);
/* Room for so many jobs; and one more of them, a copy to be made what it is to become (NULL: no
 * memory). */
int queue_change_room(struct queue_change *change, size_t room, struct err *err);
struct job *queue_change_add(struct queue_change *change, const struct job *job, struct err *err);
/* What to do with the member of an array, or the job, that `change` is about: places in
 * queue->jobs, from *out_first to before *out_end. */
void queue_change_span(const struct queue_change *change, size_t *out_first, size_t *out_end);
/* Of CHANGE_AGAIN. On the storage thread: which jobs they are, and how large. */
int queue_again_look(struct queue_op *op);
/* Back on the loop: whether their user may have so much waiting, and then the rest of it. */
void queue_again_looked(struct queue_op *op, int rc);

#endif
