/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the parts of the scheduler share: what a job wants, as devices of a machine, and the texts
 * that say why it waits. Knows nothing of the order of jobs. For schedule*.c alone.
 */
#ifndef SLUICE_DOORS_QUEUE_SCHEDULE_INTERNAL_H
#define SLUICE_DOORS_QUEUE_SCHEDULE_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "doors/queue/schedule.h"
#include "units/allocator.h"

/* How the GPUs are connected, with the allocator that has worked it out. */
struct schedule_shape {
	struct allocator_topology topology;
	struct allocator *allocator; /* owned */
};
struct schedule_shape *schedule_shape_free(struct schedule_shape *shape);
/* The machine's own, made or made anew when the GPUs are connected otherwise than they were. */
int schedule_shape_get(struct schedule_machine *machine, struct allocator **out, struct err *err);

/* What a job asks of a machine. */
struct schedule_want {
	size_t needed;	       /* devices */
	const char *resources; /* beside them, as demand.h; borrowed; NULL: none */
	bool listed;	       /* exactly those of `device`, in that order */
	bool shared;	       /* slots of each; else whole devices */
	bool mig;	       /* not listed: MIG devices, because there is nothing else */
	bool ignore_outsiders;
	uint32_t numerator, denominator; /* of a share; denominator 0: one slot */
	size_t count; /* devices that it could use if they were free: in the machine's order, or
			 the user's */
	uint16_t device[PLACE_UNIT_MAX];
};

/*
 * Which devices the job could use. 0; -EINVAL, -ENOENT for ids; -ERANGE, with both numbers, when
 * there are too few or none of them is shared.
 */
int schedule_want_make(const struct schedule_machine *machine, const struct job *job,
		       struct schedule_want *out, struct err *err);
/* Slots of `device` that the job would get: all of them if it wants it whole. */
uint32_t schedule_want_slots(const struct schedule_want *want,
			     const struct schedule_device *device);

/* How a device is for a job. */
enum schedule_use {
	SCHEDULE_FREE,
	SCHEDULE_USED,	   /* ours or another queue's job is on it */
	SCHEDULE_OUTSIDER, /* somebody computes there without a queue */
	SCHEDULE_SICK,
};
enum schedule_use schedule_device_use(const struct schedule_device *device,
				      const struct schedule_want *want);

/* What a reason is written from. */
struct schedule_view {
	const struct schedule_machine *machine;
	const struct schedule_want *want;
	const uint64_t *kept_for; /* of each device: the first waiting job that keeps it; 0: none */
	const uint64_t *given_to; /* of each device: the last job that got it in this pass; or 0 */
	const char *(*who)(const char *uuid, void *context);
	void *context;
};
/* "have 1, need 2; GPU 3: job 12 of alice": all devices that are not to be had. */
void schedule_reason_waiting(const struct schedule_view *view, size_t have,
			     char out[JOB_REASON_MAX]);
/* "GPU 3, pid 4711, bob" or "GPU 3, lost": the devices that are as `use` says; behind both
 * numbers when more than one device is wanted. */
void schedule_reason_outside(const struct schedule_view *view, enum schedule_use use,
			     char out[JOB_REASON_MAX]);

#endif
