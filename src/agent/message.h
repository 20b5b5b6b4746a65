/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between the queue's and the machine's plain structs and the messages of proto/sluice.proto. Also
 * decides what of a job another user gets to see. Pure: no I/O; all memory is the call's arena.
 */
#ifndef SLUICE_AGENT_MESSAGE_H
#define SLUICE_AGENT_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "job/job.h"
#include "sluice.pb-c.h"
#include "wire/status.h"

struct arena;
struct err;
struct inventory;
struct job;
struct queue_attempt;
struct queue_past;
struct queue_standing;
struct schedule_machine;
struct snapshot;
struct spec;
struct vitals_view;

/* Who looks at a job, and at how much of it. */
struct message_view {
	uid_t viewer;
	bool is_admin; /* root, or whoever the agent runs as */
	bool details;  /* command, processes, paths, observations: if it is the viewer's own */
	const char *state_dir; /* for the paths */
};

/* Whether the viewer may see all of this user's job, signal and cancel it. */
bool message_view_owns(const struct message_view *view, uid_t uid);

/*
 * Fills `out` (initialised here) with a job. `user` is the name of its user; `attempt`
 * may be NULL. Others get to see id, user, state, reason, GPUs and times, nothing else. -ENOMEM.
 */
int message_from_job(const struct message_view *view, const struct job *job, const char *user,
		     const struct queue_attempt *attempt, struct arena *arena, Sluice__V1__Job *out,
		     struct err *err);
Sluice__V1__JobState message_from_state(enum job_state state);
/* -EINVAL: not a state of a job. */
int message_to_state(Sluice__V1__JobState message, enum job_state *out);
/* The attempts that are over, for those who may see them. -ENOMEM. */
int message_add_attempts(const struct message_view *view, uint64_t id,
			 const struct queue_past *past, size_t count, struct arena *arena,
			 Sluice__V1__Job *out, struct err *err);
/* What a waiting job has for itself, for those who may see it. -ENOMEM. */
int message_add_standing(const struct queue_standing *standing, struct arena *arena,
			 Sluice__V1__Job *out, struct err *err);
/* Command line and directory, for those who may see them. -ENOMEM. */
int message_add_command(const struct spec *spec, struct arena *arena, Sluice__V1__Job *out,
			struct err *err);

/* A caller, as the kernel says. */
struct message_caller {
	uid_t uid;
	gid_t gid;
	const gid_t *groups; /* borrowed */
	size_t group_count;
	/* Of each resource, in their order: peer_limits.h. The message may lower them. */
	struct spec_limit limits[SPEC_LIMITS_MAX];
};
/*
 * What somebody wants to run, as this caller. `out` is initialised here; spec_done(). -EINVAL: a
 * text with a NUL byte, a number that does not fit; -E2BIG: too many or too long; -ENOMEM. Whether
 * it makes sense is spec_check()'s business.
 */
int message_to_spec(const Sluice__V1__JobSpec *message, const struct message_caller *caller,
		    struct spec *out, struct err *err);

/*
 * The GPUs and MIG devices of a snapshot, with what the queue has on them. `inventory` and `queue`
 * may be NULL. -ENOMEM.
 */
int message_from_gpus(const struct snapshot *snapshot, const struct inventory *inventory,
		      const struct schedule_machine *queue, struct arena *arena,
		      Sluice__V1__Gpu ***out, size_t *out_count, struct err *err);

/* The verdict on a GPU, and what it rests on. `*out` is in `arena`. -ENOMEM. */
int message_from_health(const struct vitals_view *view, struct arena *arena,
			Sluice__V1__GpuHealth **out, struct err *err);

/* The status that an error of the queue has for its callers. */
enum wire_status message_status(int code);

#endif
