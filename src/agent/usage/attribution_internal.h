/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the parts of attribution share: attribution.c (a sample, what is read beside it),
 * attribution_owner.c (devices; whose a process is), attribution_charge.c (busy time). Nobody else
 * includes this.
 */
#ifndef SLUICE_AGENT_USAGE_ATTRIBUTION_INTERNAL_H
#define SLUICE_AGENT_USAGE_ATTRIBUTION_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/usage/attribution.h"
#include "agent/filewatch.h"
#include "agent/usage/holdings.h"
#include "base/storage.h"
#include "web/view.h"

struct loop_timer;
struct podlog;
struct proctable;
struct proctable_entry;

/* What a GPU had counted in the sample before. */
struct attribution_gpu {
	char uuid[SNAPSHOT_TEXT_MAX];
	uint64_t busy_ns, energy_mj;
	struct holdings_purse purse;
};

struct attribution {
	struct attribution_options options;
	struct proctable *processes; /* owned, all of these */
	struct holdings *holdings;
	struct podlog *names;	 /* NULL: not read yet */
	struct filewatch *watch; /* NULL: there is none */
	struct loop_timer *more; /* runs while processes are unread */
	struct storage_job job;	 /* reads the names */
	struct podlog *read;	 /* what it has read */
	struct filewatch_plan plan;
	bool is_reading, read_again, is_stopping;
	uint64_t names_ns, asked_ns; /* loop time */
	uint64_t taken_ns;	     /* of the last sample that was counted */
	uint64_t lost, lost_total; /* pairs without room: in the last sample, since the beginning */
	uint32_t gpu_count;
	struct attribution_gpu gpu[SNAPSHOT_GPU_MAX];
	struct holding *holding[VIEW_PROCESS_MAX]; /* of each in view.process, while it is filled */
};

/* A device in the view. */
struct place {
	uint32_t gpu, mig; /* mig: SNAPSHOT_U32_ABSENT */
	const char *uuid;  /* borrowed from the snapshot */
};

/* What is gathered of one sample. */
struct gathered {
	struct holding *holding[SNAPSHOT_PROCESS_MAX]; /* of each process of the GPU */
	uint32_t looks;				       /* into /proc that are left */
};

/* Everything that a job or container was given is here from now on. */
void attribution_add_jobs(struct attribution *attribution, const struct view *view);
void attribution_add_pods(struct attribution *attribution, const struct view *view);
/* The device that a process with these instances is on: the MIG device, else the GPU. */
void attribution_place(const struct snapshot *snapshot, uint32_t g, uint32_t gi, uint32_t ci,
		       struct place *out);
/* Who has a process that was read; NULL: nobody, or there is no room for him. `looks`: processes
 * whose ancestors may still be looked at. */
struct holding *attribution_holder(struct attribution *attribution, const struct view *view,
				   struct proctable_entry *entry, const struct place *place,
				   uint32_t *looks);

/* Gives what the GPU did since the sample before to its holders. */
void attribution_charge(struct attribution *attribution, const struct view *view, uint32_t g,
			const struct gathered *gathered);
/* What the next sample is compared with. */
void attribution_remember(struct attribution *attribution, const struct view *view);

#endif
