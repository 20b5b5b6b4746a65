/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Submissions that are under way together, on one connection: the agent takes those that wait for
 * the disk into one transaction. Answered in the order in which they were added, whatever happens
 * to the connection; each has its key, so asking again makes no second job. Knows nothing of where
 * they come from; `sluice run` uses it.
 */
#ifndef SLUICE_CMD_JOBS_RUN_RUN_BATCH_H
#define SLUICE_CMD_JOBS_RUN_RUN_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "sluice.pb-c.h"
#include "wire/status.h"

struct agent_call;
struct run_batch;

enum run_batch_limits {
	RUN_BATCH_MAX = 16, /* under way at once: a user's other programs need calls as well */
	RUN_BATCH_BYTES = 512 << 10, /* of requests; one of any size is */
};

struct run_batch_answer {
	void *context; /* as it was added */
	uint64_t id;   /* of the job; 0: it was refused, and why is in the rest */
	struct wire_result result;
	struct err err;
};

/* NULL: -ENOMEM. `agent` is borrowed; it may be reopened, between two calls of these. */
struct run_batch *run_batch_new(struct agent_call *agent, struct err *err);
/* All were dropped. */
struct run_batch *run_batch_free(struct run_batch *batch);

bool run_batch_has_room(const struct run_batch *batch, const Sluice__V1__SubmitRequest *request);
/* There is room. `request` is borrowed until its answer was dropped. */
void run_batch_add(struct run_batch *batch, const Sluice__V1__SubmitRequest *request,
		   void *context);
/* Those that were added and not dropped. */
size_t run_batch_count(const struct run_batch *batch);
/* The connection has ended with some of them unanswered: run_batch_again() once there is another.
 */
bool run_batch_is_cut(const struct run_batch *batch);
void run_batch_again(struct run_batch *batch);
/* Of the oldest one; NULL: there is none yet. Borrowed until it is dropped. */
const struct run_batch_answer *run_batch_first(const struct run_batch *batch);
/* Forgets the oldest one; whether the agent has accepted one without an answer is not known then.
 * Returns its context. */
void *run_batch_drop(struct run_batch *batch);

#endif
