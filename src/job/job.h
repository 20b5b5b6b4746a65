/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job as the queue keeps it in memory: what is needed to order it, place it and show it. What it
 * runs lies in the store and is fetched when it starts, so that ten thousand waiting jobs with
 * large environments cost little. Plain data.
 */
#ifndef SLUICE_JOB_JOB_H
#define SLUICE_JOB_JOB_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "job/isolation.h"
#include "job/spec.h"

enum job_limits {
	JOB_KEY_MAX = 37, /* a UUID with its NUL */
	JOB_REASON_MAX = 320,
	JOB_DETAIL_MAX = 768, /* bytes of what only the owner and root see of a reason; cut */
	JOB_WHY_MAX = JOB_REASON_MAX + JOB_DETAIL_MAX + 4,
};

enum job_state {
	JOB_PENDING,
	JOB_HELD,     /* it waits for somebody to release it */
	JOB_STARTING, /* a start is recorded, no claim is known */
	JOB_RUNNING,
	JOB_STOPPING, /* cancelled, or its command has ended and something of it still lives */
	JOB_SUCCEEDED,
	JOB_FAILED,
	JOB_CANCELLED,
};

/* Why it is in that state. */
enum job_reason {
	JOB_REASON_NONE,
	JOB_REASON_WAITING_FOR_GPU,	 /* (have n, need m; holders) */
	JOB_REASON_GPU_IN_USE,		 /* GPUInUseByOthers(gpu, pid, user) */
	JOB_REASON_GPU_UNHEALTHY,	 /* (gpu, cause) */
	JOB_REASON_WAITING_FOR_RESOURCE, /* (name: have n, need m) */
	JOB_REASON_RESOURCE_UNHEALTHY,	 /* (name: cause) */
	JOB_REASON_QUEUE_ORDER,		 /* (behind id) */
	JOB_REASON_DEPENDENCY,		 /* (ids) */
	JOB_REASON_WAITING_FOR_CPU,
	JOB_REASON_WAITING_FOR_MEMORY,
	JOB_REASON_USER_LIMIT,	/* (of what, how much) */
	JOB_REASON_ARRAY_LIMIT, /* as many of its array run as may */
	JOB_REASON_DRAINING,
	JOB_REASON_SUSPENDED,  /* held: its file says so */
	JOB_REASON_NO_MACHINE, /* the driver does not answer, or is not there now */
	JOB_REASON_STORAGE,    /* nothing is started while the store cannot be written */
	JOB_REASON_BACKOFF,    /* it could not be launched for want of something; tried again */
	JOB_REASON_EXIT_CODE,
	JOB_REASON_SIGNAL,
	JOB_REASON_DEADLINE_EXCEEDED,
	JOB_REASON_LAUNCH_ERROR,
	JOB_REASON_SUPERVISOR_LOST, /* outcome unknown */
	JOB_REASON_NODE_REBOOTED,   /* outcome unknown */
	JOB_REASON_USER,	    /* cancelled, or held, by (name) */
	JOB_REASON_OOM_KILLED,
	JOB_REASON_BACKOFF_LIMIT_EXCEEDED,
	JOB_REASON_WORKER_FAILED,     /* (name, text) */
	JOB_REASON_GPU_ERROR,	      /* (xid, gpu) */
	JOB_REASON_IDLE,	      /* its GPUs did nothing for as long as it may be */
	JOB_REASON_DEPENDENCY_FAILED, /* cancelled: (id) */
	JOB_REASON_OUTPUT_LOST,	      /* it succeeded, and its output was not kept: (what, why) */
	JOB_REASON_BEGIN_TIME,	      /* it is not to start before (moment) */
	JOB_REASON_RESERVED,	      /* GPUs that it needs are (name, until) */
	JOB_REASON_CONTAINER_ERROR,   /* its container did not start: (what the runtime said) */
};

/* What the scheduler goes by comes first, its wishes included: as struct wants. */
struct job {
	uint64_t id;
	uid_t uid;
	enum job_state state;
	enum job_reason reason;
	/* What it wants: see struct spec. */
	uint32_t gpus, share_numerator, share_denominator;
	uint32_t gpu_limit; /* GPUs that all running jobs of its user may have, as a group of his
			       says; 0: as the rules say for everybody */
	bool ignore_outsiders;
	bool simulated;		 /* its GPUs are */
	bool has_turn;		 /* while it waits: something is kept free for it, see schedule.h */
	bool takes_no_estimates; /* somebody went past its pledge by an estimate that was wrong */
	bool start_is_estimate;	 /* by what such jobs have taken; else by the limits of what runs */
	char *ids;		 /* owned, NULL: any */
	char *resources;	 /* owned, NULL: none; as demand.h has them */

	/* While it waits, in thousandths of a point (schedule/schedule_score.h): the parts of its
	 * score that are its own, and what its user has had. */
	int64_t own_score, usage_score;
	uint64_t due_ns; /* loop time, while it waits for others: from then on what it waits for may
			    be reserved for it; 0: never */
	/* Loop time, while it waits; 0: there is no pledge (schedule_pledge.h). When it was made,
	 * and by when the job starts; UINT64_MAX: nobody knows. */
	uint64_t pledged_ns, promise_ns;
	uint64_t shut;	      /* while it waits: claims whose GPUs it may not use, see claims.h */
	uint64_t array_id;    /* the first member of its array; 0: it is in none */
	uint64_t estimate_ns; /* how long such jobs of its user take; 0: not known */
	struct wants wants;   /* owned */

	uint64_t place; /* in the order of the last look at all that wait, from 1; 0: none */
	int64_t start_estimate_unix_ns; /* when it can start; 0: not known */
	/* Owned, may be NULL: what stands in the brackets. Everybody sees the first; the second is
	 * for the owner and root alone, for it may name the command, its directory or its files. */
	char *reason_text, *reason_detail;
	uint32_t array_index; /* as wants.array_indices of the first says; the i-th member has the
				 id array_id + i */
	uint32_t attempt;     /* the last one; 0: none yet */
	char key[JOB_KEY_MAX];
	char name[SPEC_NAME_MAX];

	int64_t submitted_unix_ns, started_unix_ns, ended_unix_ns; /* 0: not yet */
	bool has_exit;
	int exit_code;	 /* 128 + n after signal n */
	uint32_t signal; /* that ended it; 0: none */
	uint32_t killed_leftovers;
	enum isolation isolation;   /* the level of the last attempt, once it has ended */
	bool launch_failed;	    /* exit_code is ours: 125, 126 or 127 */
	uint32_t failed_attempts;   /* that ended by their own fault, and count for `retries` */
	int64_t not_before_unix_ns; /* of a retry; 0: at once */
};

void job_done(struct job *job);
#define _cleanup_job_ __attribute__((cleanup(job_done)))
/* A copy with strings of its own. -ENOMEM: `out` is untouched. */
int job_copy(const struct job *job, struct job *out);
/* What stands in the brackets for those who may see all of it: "" where there is nothing. */
void job_why(const struct job *job, char out[JOB_WHY_MAX]);
/* Copies; NULL or "": none. What there is no memory for is left out. */
void job_set_reason(struct job *job, enum job_reason reason, const char *text, const char *detail);
bool job_state_is_final(enum job_state state);
/* "Pending", "Running", ... */
const char *job_state_to_string(enum job_state state);
/* As above and exactly so. -EINVAL. */
int job_state_from_string(const char *text, enum job_state *out);
/* "WaitingForGPU", "ExitCode", ...; "" for none. */
const char *job_reason_to_string(enum job_reason reason);
/* -EINVAL. */
int job_reason_from_string(const char *text, enum job_reason *out);

#endif
