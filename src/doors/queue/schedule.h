/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who starts next, and on what: devices with their slots and the waiting jobs in their order in,
 * decisions and reasons out. Pure: no clock, no tokens, no driver; the same input gives the same
 * answer. Called by the queue whenever something has changed.
 *
 * The order is that of submission. A job that does not fit keeps those behind it from the devices
 * that it is waiting for (all that it could use), so that wide jobs do not starve; jobs that want
 * other devices, or none, go past. A device is taken whole (all its slots) or in part; parts are
 * shared only with parts.
 */
#ifndef SLUICE_DOORS_QUEUE_SCHEDULE_H
#define SLUICE_DOORS_QUEUE_SCHEDULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "doors/queue/job.h"
#include "doors/queue/launch.h"
#include "doors/queue/place.h"

struct err;
struct inventory;
struct policy;
struct snapshot;

enum schedule_limits {
	SCHEDULE_SLOT_WORDS = (LAUNCH_SLOTS_MAX + 63) / 64,
};

/* A GPU or MIG device that the queue may hand out. */
struct schedule_device {
	struct place_unit unit;		    /* uuid, label, health, outsider: as place.h */
	uint32_t slot_count;		    /* 1: cannot be shared */
	uint64_t used[SCHEDULE_SLOT_WORDS]; /* slots that our jobs have */
	uint32_t used_count;
	bool used_whole;    /* by one job, exclusively */
	uint64_t last_used; /* a counter: least recently used first among equals */
	char holder[NOTE_NAME_MAX +
		    48]; /* somebody else's token is on it: who, in words; "": nobody */
};

struct schedule_machine {
	const struct inventory *inventory; /* borrowed; NULL: the driver does not answer */
	char problem[256];		 /* why there is no inventory, or no device for the queue */
	struct schedule_device *devices; /* owned */
	size_t device_count;
};

/*
 * The devices of the queue's door, all slots free: one for each device that has units in
 * `policy`, with as many slots as it has replicas there. `out` is initialised here. -ENOMEM.
 */
int schedule_machine_make(const struct inventory *inventory, const struct snapshot *snapshot,
			  const struct policy *policy, struct schedule_machine *out,
			  struct err *err);
void schedule_machine_done(struct schedule_machine *machine);
/* Marks the slots of a running job's grant; a device that is gone is ignored. */
void schedule_machine_take(struct schedule_machine *machine, const struct launch_grant *grant);

/*
 * Whether this machine could ever run it: with all devices there are, healthy or not, and nobody
 * else. 0, or -ERANGE with both numbers ("needs 9 GPUs, this machine has 8"), -EINVAL and -ENOENT
 * for ids as place_find() has them.
 */
int schedule_check(const struct schedule_machine *machine, const struct job *job, struct err *err);

struct schedule_decision {
	bool start;
	struct launch_grant *grants; /* owned: schedule_decision_done() */
	size_t grant_count;
	enum job_reason reason;	   /* why not */
	char text[JOB_REASON_MAX]; /* in the brackets; names what is missing and who has it */
};
void schedule_decision_done(struct schedule_decision *decision);

/*
 * One pass over `jobs` (pending ones in their order, borrowed). `who` names the holder of a device
 * for the reasons ("job 12 of alice"); may be NULL. Calls `decide` for each job in order; what it
 * is given is its own. Slots of those that start are marked in `machine`. 0 or -ENOMEM.
 */
int schedule_pass(struct schedule_machine *machine, const struct job *const *jobs, size_t count,
		  const char *(*who)(const char *uuid, void *context),
		  void (*decide)(const struct job *job, struct schedule_decision *decision,
				 void *context),
		  void *context, struct err *err);

#endif
