/* SPDX-License-Identifier: Apache-2.0 */
/* A submission on its way: what queue_submit.c and queue_trial.c share. For nobody else. */
#ifndef SLUICE_DOORS_QUEUE_QUEUE_SUBMISSION_H
#define SLUICE_DOORS_QUEUE_QUEUE_SUBMISSION_H

#include "doors/queue/queue_internal.h"

struct queue_submission {
	struct queue_submission *next;
	struct queue *queue; /* borrowed */
	uid_t uid;
	struct queue_job *job;	   /* owned until it is accepted */
	struct queue_job **others; /* owned: the rest of its array, as above */
	size_t other_count;
	uint32_t pending_max;		      /* jobs of this user */
	uint64_t charged_jobs, charged_bytes; /* of the account, until it is accepted */
	bool is_queued;			      /* on the account as one that waits for the disk */
	bool is_guest;			      /* whose jobs leave some of the disk free */
	uint64_t failed; /* it waits for the success of this one, which has failed; 0 */
	char *spec;	 /* owned */
	size_t spec_length;
	bool no_wait, gpus_if_any, is_forgotten, is_dry;
	bool is_trial; /* on the account as one */
	void (*done)(int result, uint64_t id, bool known, const char *reason, const struct err *err,
		     void *context);
	void *context;
	struct err refusal; /* code 0: none. A known key wins. */

	/* The answer, made on the storage thread. */
	int result;
	uint64_t id;
	bool known;
	struct queue_submission *twin; /* the same key, earlier in the batch */
	struct err err;
};

/* Asks what would become of it: answers a dry run, and hands any other in. It is given. */
void queue_submission_try(struct queue *queue, struct queue_submission *submission);

#endif
