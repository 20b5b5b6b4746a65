/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of validate share. Nobody else includes this. */
#ifndef SLUICE_VALIDATE_VALIDATE_INTERNAL_H
#define SLUICE_VALIDATE_VALIDATE_INTERNAL_H

#include "validate/apart.h"
#include "validate/gpu/bandwidth.h"
#include "validate/gpu/burntest.h"
#include "validate/gpu/gputest.h"
#include "validate/gpu/p2p.h"
#include "validate/grant.h"
#include "validate/validate.h"

/* A device in sight. */
struct validate_device {
	struct driver_device device;
	/* CUDA_VISIBLE_DEVICES with which it is seen: a driver shows one MIG device at a time. ""
	 * as it is. */
	char view[GPU_UUID_MAX];
	const struct gpu *gpu;	      /* or the GPU that it is a part of; NULL: not known */
	const struct mig_device *mig; /* NULL: a whole GPU, or not known */
	struct bandwidth_options bandwidth;
	char link[32];
	bool has_hash;
	uint64_t hash; /* of the stress */
};

/* What a check in a process of its own is doing. */
struct validate_now {
	bool is_checking;
	struct check check;
	uint64_t place;
};

/* What was seen of a GPU while it worked. */
struct validate_heat {
	int64_t throttle, temperature, power; /* bits; degrees C, mW: the most */
};

struct validate {
	const struct validate_plan *plan;
	struct checks *out;
	struct grant grant;
	struct validate_state before;
	bool has_before;
	char why_not[ERR_TEXT_MAX]; /* it could not be asked */
	struct validate_device devices[DRIVER_DEVICES_MAX];
	uint32_t count;
	bool is_simulated;
	int cuda_version;
	char library[256]; /* that was opened, links resolved; "" */
	struct p2p_options p2p;
	/* Of what runs now: */
	struct validate_now now[APART_JOBS_MAX];
	const char *view;			       /* that is looked at */
	uint32_t from, end;			       /* devices of this process */
	struct validate_heat heat[DRIVER_DEVICES_MAX]; /* of the stress */
	bool has_looked;			       /* in the middle of it */
};

static inline bool validate_wants(const struct validate *self, enum validate_what what)
{
	return (self->plan->mask >> what & 1) != 0;
}

/* --- validate.c --- */
/* Runs one process; -ECANCELED: a signal came. `job` says how it ended. */
int validate_apart(struct validate *self, struct apart_job *jobs, uint32_t count,
		   void (*tick)(void *context, uint64_t elapsed_ns), struct err *err);
/* Adds the FAIL of a job that did not end as it should, by what it was doing; `name` and `target`
 * where it was doing nothing yet. */
void validate_blame(struct validate *self, const struct apart_job *job, uint32_t number,
		    const char *name, const char *target);

/* --- validate_devices.c: what is in sight, driver and versions --- */
int validate_find_devices(struct validate *self, struct err *err);

/* --- validate_gpu.c: work on devices --- */
int validate_gpus(struct validate *self, enum validate_what what, struct err *err);
int validate_stress(struct validate *self, struct err *err);
int validate_metrics(struct validate *self, struct err *err);

/* --- validate_collectives.c --- */
int validate_collectives(struct validate *self, struct err *err);

/* --- validate_machine.c: what is around them --- */
int validate_isolation(struct validate *self, struct err *err);
void validate_settings(struct validate *self);
void validate_shm(struct validate *self);
void validate_memlock(struct validate *self);
/* What the counters say afterwards. */
void validate_counters(struct validate *self);

#endif
