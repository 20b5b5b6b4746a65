/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the parts of the scheduler share: what a job wants, as devices of a machine (_want), jobs
 * that want the same (_class), which devices one gets (_choose), when what is in use will be free
 * (_ahead), and the texts that say why it waits (_reason). schedule.c has the pass itself. For
 * schedule*.c alone.
 */
#ifndef SLUICE_DOORS_QUEUE_SCHEDULE_SCHEDULE_INTERNAL_H
#define SLUICE_DOORS_QUEUE_SCHEDULE_SCHEDULE_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "doors/queue/schedule/schedule.h"
#include "doors/queue/schedule/schedule_order.h"
#include "doors/queue/schedule/schedule_pledge.h"
#include "units/allocator.h"

/* How the GPUs are connected, with the allocator that has worked it out. */
struct schedule_shape {
	struct allocator_topology topology;
	struct allocator *allocator; /* owned */
};
/* The machine's own, made or made anew when the GPUs are connected otherwise than they were. */
int schedule_shape_get(struct schedule_machine *machine, struct allocator **out, struct err *err);

/* What a job takes of the machine beside its devices. */
enum schedule_amount_kind { SCHEDULE_CPU, SCHEDULE_MEMORY }; /* thousandths of one, bytes */
#define SCHEDULE_AMOUNTS 2

enum schedule_want_limits {
	WANT_AMOUNT_MAX = 32, /* bytes of an amount as text */
	WANT_KIND_MAX = WANTS_NAME_MAX + 80,
	WANT_THERE_MAX = 256,
};

/* What a job asks of a machine. */
struct schedule_want {
	size_t needed;	       /* devices */
	const char *resources; /* beside them, as demand.h; borrowed; NULL: none */
	bool listed;	       /* exactly those of `device`, in that order */
	bool shared;	       /* slots of each; else whole devices */
	bool mig;	       /* not listed: MIG devices, because there is nothing else */
	uint32_t outsiders;    /* enum wants_outsiders, never WANTS_OUTSIDERS_RULE */
	uint64_t shut;	       /* as of struct job */
	uint32_t numerator, denominator; /* of a share; denominator 0: one slot */
	uint32_t workers, worker_gpus;	 /* as in struct wants */
	uint32_t slots; /* of each device, for workers that share all of `device`; 0: they do not */
	size_t count;	/* devices that it could use if they were free: in the machine's order, or
			   the user's */
	uint16_t device[PLACE_UNIT_MAX];
};

/*
 * Which devices the job could use. 0; -EINVAL, -ENOENT for ids; -ERANGE, with both numbers, when
 * there are too few or none of them is shared.
 */
int schedule_want_make(const struct schedule_machine *machine, const struct job *job,
		       struct schedule_want *out, struct err *err);
/* Whether it could use the device at that place. */
bool schedule_want_has(const struct schedule_want *want, size_t place);
/* Slots of `device` that the job would get: all of them if it wants it whole. */
uint32_t schedule_want_slots(const struct schedule_want *want,
			     const struct schedule_device *device);

/* How a device is for a job. */
enum schedule_use {
	SCHEDULE_FREE,
	SCHEDULE_USED,	   /* ours or another queue's job is on it */
	SCHEDULE_OUTSIDER, /* somebody computes there without a queue */
	SCHEDULE_SICK,
	SCHEDULE_CLOSED, /* drained, or reserved for somebody else */
};
enum schedule_use schedule_device_use(const struct schedule_device *device,
				      const struct schedule_want *want);

/* The place of each device in such a list (NULL: an empty one); UINT16_MAX: it is not there. */
void schedule_prefer_rank(const struct schedule_machine *machine, const char *list,
			  uint16_t rank[PLACE_UNIT_MAX]);

uint64_t schedule_amount_of(enum schedule_amount_kind kind, const struct job *job);
/* 0: it is not counted. */
uint64_t schedule_amount_there_is(enum schedule_amount_kind kind,
				  const struct schedule_machine *machine);
/* "1.5", "16Gi": returns `out`. */
const char *schedule_amount_text(enum schedule_amount_kind kind, uint64_t amount,
				 char out[WANT_AMOUNT_MAX]);
/* GPUs that the user of this job may have. */
uint64_t schedule_limit_of(const struct schedule_machine *machine, const struct job *job);

/* --- a pass ---------------------------------------------------------------------------------- */

enum schedule_class_limits {
	CLASS_LATER_MAX = 80, /* "behind 18446744073709551615, ..." */
};

/*
 * Jobs that want the same. During a pass things are only taken and kept, never let go of, so once
 * one of a class has to wait, all later ones have to: they are decided without a look at a device,
 * but for those that end soon enough to be backfilled.
 */
struct schedule_class {
	const struct job *first; /* borrowed; what it wants, the class wants */
	bool waits;
	uint64_t window_ns;	     /* one that runs no longer may start nevertheless */
	enum job_reason reason;	     /* of those behind the first that waits */
	char later[CLASS_LATER_MAX]; /* and its text, */
	char *text;		     /* or, if not NULL, this one; owned */
};

/* Slots of a device that will be free when somebody has run as long as he may. */
struct schedule_guest {
	uint16_t place;
	uint32_t slots;
	uint64_t left_ns; /* SCHEDULE_NEVER: not known */
	bool is_estimate, is_overdue;
	int32_t priority;
	uint64_t since_ns;
};

/* And parts of the amounts. */
struct schedule_end {
	uint64_t left_ns;
	uint64_t amount[SCHEDULE_AMOUNTS];
};

/* A job that waits and keeps a device. */
struct schedule_keeper {
	uint64_t id;		 /* 0: none */
	size_t order;		 /* its place in the order */
	uint64_t window_ns;	 /* who runs no longer does not delay it, */
	bool takes_no_estimates; /* if that is no estimate */
};

/* An amount, and who keeps of it. */
struct schedule_amount {
	uint64_t there_is; /* 0: not counted */
	uint64_t used;
	uint64_t kept_for;  /* a job that waits; 0: none */
	uint64_t window_ns; /* who runs no longer does not delay it, */
	uint64_t spare;	    /* nor does who takes no more than this */
};

/* A job that waits and says what it has: what it said is not true any more when something that it
 * keeps is taken. */
struct schedule_waiter {
	const struct job *job;	       /* borrowed */
	struct schedule_decision said; /* but for its text, which is made anew */
	uint64_t
	    its_own[(PLACE_UNIT_MAX + 63) / 64]; /* bit set: nobody keeps that device from it */
};

struct schedule_state {
	struct schedule_machine *machine;
	const struct schedule_input *input;
	struct schedule_order order;
	struct schedule_tally arrays; /* running members, by the array's id */

	const struct job *job; /* in hand, */
	uint64_t time_ns;      /* how long it runs; SCHEDULE_NEVER: it does not say */
	bool time_is_estimate;
	uint64_t pledged_ns, promise_ns; /* as of struct job, from now on */
	bool takes_no_estimates;
	uint64_t opens_ns; /* in how long it can start; SCHEDULE_NEVER: not known */
	bool opens_is_estimate;
	struct schedule_want want;
	char text[JOB_REASON_MAX]; /* its reason */

	uint64_t kept_pool[SCHEDULE_POOLS_MAX + 1]; /* of each pool: the first job that keeps it */
	/* Of each device: the first job that keeps it, and the one that shuts it the most. */
	struct schedule_keeper first[PLACE_UNIT_MAX], shut[PLACE_UNIT_MAX];
	uint64_t given_to[PLACE_UNIT_MAX]; /* and the last that got it in this pass */
	struct schedule_amount amounts[SCHEDULE_AMOUNTS];
	/* Bit set: somebody who waits said that it has that device. */
	uint64_t counted_on[(PLACE_UNIT_MAX + 63) / 64];
	bool was_backfilled; /* something that is kept, or was counted on, was given */

	struct schedule_guest *guests; /* owned */
	size_t guest_count, guest_capacity;
	struct schedule_end *ends; /* owned */
	size_t end_count, end_capacity;
	bool ends_are_sorted;

	struct schedule_waiter *waiters; /* owned */
	size_t waiter_count, waiter_capacity;

	struct schedule_class *classes;	    /* owned */
	size_t class_count, class_capacity; /* of `classes` */
	uint32_t *table;		    /* owned; place in `classes` + 1; 0: empty */
	size_t table_size;		    /* a power of two, at least twice class_count */

	struct allocator *ranked;	 /* owned; NULL until it is needed */
	uint32_t rank[GPU_MAX];		 /* number of a GPU in it */
	uint16_t prefer[PLACE_UNIT_MAX]; /* place in the rules' list; UINT16_MAX: not there */
};

/* The class of a job, made if it is the first of it. -ENOMEM. */
int schedule_class_of(struct schedule_state *state, const struct job *job,
		      struct schedule_class **out);
void schedule_class_done(struct schedule_state *state);

/* The job that keeps the device from the one in hand, which would delay it; NULL: none. */
const struct schedule_keeper *schedule_keeper(const struct schedule_state *state, size_t place);
/* `chosen` has a false for each device of the machine: true for those that the job in hand gets,
 * out of enough that are to be had. -ENOMEM. */
int schedule_choose(struct schedule_state *state, bool *chosen, struct err *err);
/* Their places, in the order in which they are given. -ENOMEM. */
int schedule_choose_order(struct schedule_state *state, const bool *chosen, uint16_t *out,
			  struct err *err);

/* What is in use, and how long. -ENOMEM. */
int schedule_ahead_add(struct schedule_state *state, const struct schedule_running *running);
/* When there are enough devices for the job in hand, if nothing is started, and which. */
void schedule_ahead_devices(const struct schedule_state *state, struct schedule_plan *out);
/* In how long there is that much of an amount, as above; and how much of it is free at a time. */
uint64_t schedule_ahead_amount(struct schedule_state *state, enum schedule_amount_kind kind,
			       uint64_t wanted);
uint64_t schedule_ahead_free(const struct schedule_state *state, enum schedule_amount_kind kind,
			     uint64_t at_ns);

/* What a reason is written from. */
struct schedule_view {
	const struct schedule_machine *machine;
	const struct schedule_want *want;
	const struct schedule_order *order; /* NULL: nothing is kept */
	const uint64_t *kept_for; /* of each device: the first waiting job that keeps it; 0: none */
	const uint64_t *given_to; /* of each device: the last job that got it in this pass; or 0 */
	bool is_pledged;	  /* what becomes free is for this job */
	const char *(*who)(const char *uuid, void *context);
	void *context;
};
/* "have 1, need 2; GPU 3: job 12 of alice", perhaps "reserved, " before it: all devices that are
 * not to be had. */
void schedule_reason_waiting(const struct schedule_view *view, size_t have,
			     char out[JOB_REASON_MAX]);
/* "GPU 3, pid 4711, bob" or "GPU 3, lost": the devices that are as `use` says; behind both
 * numbers when more than one device is wanted. */
/* The devices that are closed to the job, and by what: returns the reason. */
enum job_reason schedule_reason_closed(const struct schedule_view *view, char out[JOB_REASON_MAX]);
void schedule_reason_outside(const struct schedule_view *view, enum schedule_use use,
			     char out[JOB_REASON_MAX]);

#endif
