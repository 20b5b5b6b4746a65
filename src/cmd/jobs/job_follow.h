/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job followed to its end: each change of it, its outputs, and what is to be said to it
 * meanwhile. Outlives the agent: what can be read is read on, and the rest goes on with the next
 * one. Knows nothing of terminals, signals or exit codes.
 */
#ifndef SLUICE_CMD_JOBS_JOB_FOLLOW_H
#define SLUICE_CMD_JOBS_JOB_FOLLOW_H

#include <stdbool.h>
#include <stdint.h>

#include "cmd/service/agent_call.h"
#include "sluice.pb-c.h"

struct err;
struct job_follow;

#define JOB_FOLLOW_AGAIN_FIRST_NS UINT64_C(20000000)  /* to the next try, doubling ... */
#define JOB_FOLLOW_AGAIN_LAST_NS  UINT64_C(500000000) /* ... up to this */

enum job_follow_event {
	JOB_FOLLOW_CHANGED, /* the job has news */
	JOB_FOLLOW_AWAY,    /* the agent does not answer */
	JOB_FOLLOW_BACK,    /* it does again */
	JOB_FOLLOW_UNREAD,  /* nobody reads one of the outputs any more */
	JOB_FOLLOW_DONE,    /* final, all of its output is shown; nothing comes after it */
	JOB_FOLLOW_FAILED,  /* it cannot be followed: job_follow_error(); nothing comes after it */
};

struct job_follow_options {
	struct agent_call *agent;      /* borrowed; connected. Nobody else uses it meanwhile */
	struct agent_call_options how; /* to connect again */
	uint64_t id;
	int stdout_fd, stderr_fd; /* borrowed; -1: not wanted */
	uint64_t offset;	  /* from here on, of the first attempt that is met */
	bool is_screen;		  /* of both: see log_follow.h */
	/* Both into stdout_fd, in their order where the files are here and it is known: see
	 * log_pair.h; `tail_lines` of them first, if it is not UINT32_MAX. */
	bool is_merged, is_json;
	uint32_t tail_lines;
	void (*told)(enum job_follow_event event, void *context);
	void *context;
};

/* NULL: -ENOMEM and what wire_client_call() says. */
struct job_follow *job_follow_new(const struct job_follow_options *options, struct err *err);
struct job_follow *job_follow_free(struct job_follow *follow);
/* As it was last heard of; NULL: nothing yet. Borrowed until the next event. */
const Sluice__V1__Job *job_follow_job(const struct job_follow *follow);
/* Something was shown whose order nobody knows. */
bool job_follow_is_unordered(const struct job_follow *follow);
const struct err *job_follow_error(const struct job_follow *follow);

/* Sends a signal to the command, now or when there is an agent. Where there is no command to take
 * it (yet), the job is cancelled. */
void job_follow_signal(struct job_follow *follow, int signo);
/* Cancels; asked again until an agent has said yes. */
void job_follow_cancel(struct job_follow *follow, bool has_grace, uint64_t grace_ns);

#endif
