/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who starts next, and on what: devices with their slots and the waiting jobs in their order in,
 * decisions and reasons out. Pure: no clock, no tokens, no driver; the same input gives the same
 * answer. Called by the queue whenever something has changed.
 *
 * The order is that of schedule_order.h: by score, in which what a user has had and has counts. A
 * job that does not fit keeps those behind it from as many devices as it wants, those that will be
 * free first, so that wide jobs do not starve; from all that it could use where nobody knows when
 * that is. Jobs that want other devices, or none, go past. A job that could not start even if
 * none of the others ran (a GPU is unhealthy, an outsider computes on it, no adapter is well), or
 * whose user has all the GPUs that he may have, keeps nothing: it would block the machine until
 * somebody repairs it. If some of what is kept for a job is free already, it has its turn: until it
 * starts it comes before all others of its priority. Otherwise users who always have fewer GPUs
 * could take what it is waiting for, one by one, for ever.
 *
 * Neither is enough for a job of several GPUs whose user has some already, while others come one by
 * one who have none. So of each priority the oldest of those that are due (due_ns of struct job)
 * has what becomes free pledged to it (schedule_pledge.h): it comes before all others of its
 * priority, as if it had a turn. Pledges to wide jobs alone would do the same to narrow ones, one
 * after the other: so those are due as well, later.
 *
 * Where the rules pledge (reserve_after_ns), that is enough, and a job keeps what it waits for only
 * while no job before it keeps any of that: the pledge, or the first in the order, has one
 * reservation, as under EASY backfill. Those behind it keep nothing and have no turn. If each kept
 * what it wants, GPUs would be idle for jobs that are far from starting, and narrow jobs would wait
 * half as long again (doc/measurements.md, "waiting in simulated weeks").
 *
 * What is kept can be taken nevertheless (backfilled) by a job that says how long it runs, if it
 * ends no later than the earliest moment at which what is kept is enough for the job that keeps
 * it: when enough of the jobs that are there now have run as long as they said, or where they said
 * nothing as long as is estimated (estimate_ns). A job of which neither is known never ends, here:
 * it is not backfilled, and nothing is backfilled past a job that waits for its end. So a
 * backfilled job never moves the earliest start of a job that keeps something. Of several that keep
 * the same device the earliest start counts. A job from which it is kept does not start before the
 * one that keeps it.
 *
 * Processors and memory of the machine are amounts beside the devices, taken by the jobs that name
 * them. A job for which there are GPUs, and not enough of these, keeps them, and as many GPUs as it
 * wants: then only what is left when it starts is given to others, or what ends before, as above. A
 * job that waits for GPUs keeps no processors and no memory, so jobs without GPUs never wait for
 * GPUs.
 *
 * A device is taken whole (all its slots) or in part; parts are shared only with parts.
 *   - Any whole devices: GPUs that are not split by MIG; MIG devices if all of the queue's are.
 *     Those without slots to share come first if they are enough; then the best connected that
 *     leave the rest well connected (units/allocator.h), MIG devices of the fullest GPU; then the
 *     least recently used (of several GPUs of a machine with more than SCHEDULE_RANKED_MAX, those
 *     that come first).
 *     Jobs that want an adapter too get GPUs out of the nearest to it that are enough.
 *     What the job prefers, or the rules, comes before all this.
 *     Those of a job with workers are in an order in which each worker's are well connected.
 *   - Shares: one on which nobody computes without a queue; then the device on which the smallest
 *     part is left over; among equals one that is shared already, then the least recently used.
 */
#ifndef SLUICE_DOORS_QUEUE_SCHEDULE_SCHEDULE_H
#define SLUICE_DOORS_QUEUE_SCHEDULE_SCHEDULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "job/job.h"
#include "job/launch.h"
#include "job/place.h"
#include "doors/queue/claim/claims.h"
#include "doors/queue/rules.h"
#include "doors/queue/schedule/schedule_pool.h"

struct err;
struct inventory;
struct policy;
struct schedule_shape;
struct snapshot;

enum schedule_limits {
	SCHEDULE_SLOT_WORDS = (LAUNCH_SLOTS_MAX + 63) / 64,
	SCHEDULE_HOLDER_MAX = NOTE_NAME_MAX + 48,
	SCHEDULE_PROBLEM_MAX = 256,
	SCHEDULE_RANKED_MAX = 8, /* GPUs for which it takes no time to order them anew */
};

/* A GPU or MIG device that the queue may hand out. */
struct schedule_device {
	struct place_unit unit;		    /* uuid, label, health, outsider: as place.h */
	uint32_t slot_count;		    /* 1: cannot be shared */
	uint64_t used[SCHEDULE_SLOT_WORDS]; /* slots that somebody has */
	uint32_t used_count;
	uint64_t claims;    /* that name it: it is shut to jobs that these are shut to */
	bool used_whole;    /* by one job, exclusively */
	uint64_t last_used; /* machine.clock when it was last granted; 0: never */
	char holder[SCHEDULE_HOLDER_MAX]; /* it is somebody else's as a whole: who, in words */
	char guest[SCHEDULE_HOLDER_MAX];  /* somebody else has slots of it: who; see _hold() */
};

enum schedule_due_limits {
	/* So many times as long as a wide job, one of half the machine's GPUs or more, waits before
	 * it is due one of fewer; and one of one GPU, or of none, on a machine with more. */
	SCHEDULE_MIDDLE_TIMES = 4,
	SCHEDULE_NARROW_TIMES = 12,
};
#define SCHEDULE_AFTER_MAX_NS (UINT64_C(10) * 365 * 86400 * 1000000000 / SCHEDULE_NARROW_TIMES)

/* A moment that never comes, and a time that is not known. */
#define SCHEDULE_NEVER UINT64_MAX

struct schedule_machine {
	const struct queue_rules *rules;   /* borrowed; NULL: none */
	const struct claims *claims;	   /* borrowed; NULL: none */
	const struct inventory *inventory; /* borrowed; NULL: the driver does not answer */
	/* Why there is no inventory, or no device for the queue; without an inventory the queue may
	 * put what it knows here. */
	char problem[SCHEDULE_PROBLEM_MAX];
	struct schedule_device *devices; /* owned; in the order of GPU and MIG device */
	size_t device_count;
	struct schedule_pools pools; /* owned; what there is beside them */
	uint64_t clock;		     /* grants so far */
	/* Owned; NULL until it is needed. What is known of how many GPUs are connected: it takes
	 * milliseconds to work out. A copy of this struct has to set it to NULL. */
	struct schedule_shape *shape;
};

/*
 * The devices of the queue's door, all slots free: one for each device that has units in
 * `policy`, with as many slots as it has replicas there; of a GPU split by MIG its MIG devices.
 * `inventory`, `snapshot` and `policy` may be NULL (then there are no devices). `stranger` says of
 * a process that computes on a device whose it is: see place_stranger; with NULL all processes are
 * strangers. `out` is initialised here. -ENOMEM.
 */
int schedule_machine_make(const struct inventory *inventory, const struct snapshot *snapshot,
			  const struct policy *policy, place_stranger *stranger, void *context,
			  struct schedule_machine *out, struct err *err);
/*
 * Why not to give out devices, beside what inventory and snapshot say: GPU i, MIG device i of the
 * inventory, or all of them. NULL: nothing is wrong; either array may be NULL.
 */
struct schedule_health {
	const char *const *gpu, *const *mig; /* borrowed, all of these */
	const char *all;
};
void schedule_machine_sicken(struct schedule_machine *machine,
			     const struct schedule_health *health);
void schedule_machine_done(struct schedule_machine *machine);
#define _cleanup_schedule_machine_ __attribute__((cleanup(schedule_machine_done)))
/* Takes over from the machine as it was: when each device was last used, and its shape. */
void schedule_machine_inherit(struct schedule_machine *machine, struct schedule_machine *before);
/* GPUs of the machine; 0: not known. */
uint32_t schedule_machine_gpus(const struct schedule_machine *machine);
/* The device with this UUID, or NULL. Borrowed. */
struct schedule_device *schedule_machine_find(const struct schedule_machine *machine,
					      const char *uuid);
/* Marks the slots of a running job's grant; a device that is gone is ignored. One whose number of
 * slots was another when the job started, so that its slots mean something else, is in use as a
 * whole if any of them is none of today's. */
void schedule_machine_take(struct schedule_machine *machine, const struct launch_grant *grant);
/* Somebody outside of this queue has the token of that slot; `who` in words for the reasons
 * ("job train of bob, pid 4711"). */
void schedule_machine_hold(struct schedule_machine *machine, const char *uuid, uint32_t slot,
			   const char *who);

/*
 * Whether this machine could ever run it: with all devices there are, healthy or not, and nobody
 * else. 0, or -ERANGE with both numbers ("needs 9 GPUs, this machine has 8"), -EINVAL and -ENOENT
 * for ids as place_resolve() has them, and for resources as schedule_pools_check(). Processors,
 * memory and the GPUs of a user are what the machine's rules say.
 */
int schedule_check(const struct schedule_machine *machine, const struct job *job, struct err *err);

struct schedule_decision {
	bool start;
	struct launch_grant *grants; /* freed after the call unless it is taken (set to NULL) */
	size_t grant_count;
	enum job_reason reason; /* why not */
	const char *text; /* for the brackets, "" with `start`: what is missing and who has it;
			     shorter than JOB_REASON_MAX; borrowed during the call */
	bool was_pledged; /* what it got, or will get, was or is pledged to it */
	bool has_turn;	  /* to be handed back in struct job in the next pass, */
	uint64_t pledged_ns, promise_ns; /* and these; 0: there is no pledge */
	bool takes_no_estimates;
	/* In how long it can start if all that runs ends when it is to; SCHEDULE_NEVER: not known.
	 * `opens_is_estimate`: some of that says no more than what such jobs have taken. */
	uint64_t opens_ns;
	bool opens_is_estimate;
	uint64_t place; /* among those that wait, from 1; 0: it starts, or its place was told */
};

/* A job that has devices, or a part of the amounts. The machine knows its slots and pools already.
 */
struct schedule_running {
	uid_t uid;
	uint64_t array_id; /* 0: it is in none */
	uint32_t cpu_milli;
	uint64_t mem_bytes;
	uint64_t left_ns; /* how long it may still run; SCHEDULE_NEVER: not known */
	bool is_estimate; /* that is no limit, but what such jobs have taken */
	bool is_overdue;  /* it has no limit, and runs longer than was estimated when it started */
	int32_t priority;
	uint64_t since_ns;		   /* as now_ns: when it got what it has */
	const struct launch_grant *grants; /* borrowed */
	size_t grant_count;
};

struct schedule_input {
	const struct job *const *jobs; /* borrowed; those that wait, ordered by id */
	size_t count;
	uint64_t now_ns;			/* as due_ns of the jobs */
	const struct schedule_running *running; /* borrowed */
	size_t running_count;
	/* Names the holder of a device for the reasons ("job 12 of alice"; of a shared one all of
	 * them); may be NULL. */
	const char *(*who)(const char *uuid, void *context);
	/* Called for each job, in the order in which they are looked at; and, when a later one was
	 * backfilled, again for those that wait for what it took: with a reason that is still true.
	 */
	void (*decide)(const struct job *job, struct schedule_decision *decision, void *context);
	void *context;
};

/*
 * One pass. Slots, units and amounts of those that start are marked in `machine`. 0 or -ENOMEM:
 * then some were decided and the rest were not.
 */
int schedule_pass(struct schedule_machine *machine, const struct schedule_input *input,
		  struct err *err);

/* From when on something may be pledged to a job of so many of the machine's GPUs, which waits
 * since `waits_since_ns` (below 0: since before the clock began); 0: never. Where `after_ns` is the
 * rules' reserve_after_ns, and the last job of its user to which something was pledged started at
 * `served_ns` (0: there was none): one who has many waiting does not get all that becomes free. */
uint64_t schedule_due_ns(uint64_t after_ns, uint32_t gpus, uint32_t machine_gpus,
			 int64_t waits_since_ns, uint64_t served_ns);

enum { SCHEDULE_PROMISES_MAX = 2 * WANTS_PRIORITY_MAX + 1 }; /* one pledge for each priority */

/* The waiting jobs for which GPUs are reserved: the only ones that the end of a running job is
 * promised to. Zeroed at first. */
struct schedule_promises {
	const struct job *jobs[SCHEDULE_PROMISES_MAX]; /* borrowed */
	size_t count;
	uint64_t now_ns; /* as that of a pass */
	size_t reckoned; /* starts, so far: what it has cost */
};

/* One that starts later, and in how long. */
struct schedule_delay {
	const struct job *job;
	uint64_t at_ns, then_ns;
};

/* Leaves out a job that does not wait, or to which nothing is pledged. */
void schedule_promises_add(struct schedule_promises *promises, const struct job *job);
/* Whether one of them starts later, by a second or more, if running[which] ends in `left_ns`; or by
 * less, but then a second after it was promised to start, or nobody knows when that is. `running`
 * is as it was afterwards. A start is reckoned as if nothing else were started: neither pledges nor
 * what other waiting jobs keep count, behind which it starts later. What people are told is
 * opens_ns of a decision. */
bool schedule_promises_delayed(struct schedule_promises *promises, struct schedule_machine *machine,
			       struct schedule_running *running, size_t count, size_t which,
			       uint64_t left_ns, struct schedule_delay *out);

#endif
