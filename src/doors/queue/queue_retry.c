/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether an attempt that has failed is followed by another one, and when. Decided on the storage
 * thread from what is stored and from the job's files alone, so that an agent that dies here and
 * its successor decide the same.
 *
 * A member of an array that belongs together counts with all others: their failures are one number.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/crash.h"
#include "doors/queue/queue_internal.h"

enum {
	RETRY_LOST_MAX = 6,   /* attempts whose end nobody knows, where `retries` says less */
	RETRY_TEXT_MAX = 128, /* bytes of what is told of the last failure */
	RETRY_LAST_MAX = RETRY_TEXT_MAX + 64,
	RETRY_FIRST_MAX = 56, /* bytes of the first one's name */
	RETRY_BOTH_MAX = RETRY_LAST_MAX + RETRY_FIRST_MAX + 24,
};

#define RETRY_DELAY_NS	   (10 * CLOCK_NS_PER_S)
#define RETRY_DELAY_MAX_NS (360 * CLOCK_NS_PER_S)

/* Before the attempt that follows so many failures. */
static uint64_t retry_delay_ns(const struct job *job, uint64_t failures)
{
	uint64_t delay_ns = job->wants.retry_delay_ns ? job->wants.retry_delay_ns : RETRY_DELAY_NS;
	for (uint64_t i = 1; i < failures && delay_ns < RETRY_DELAY_MAX_NS; i++)
		delay_ns *= 2;
	return delay_ns < RETRY_DELAY_MAX_NS ? delay_ns : RETRY_DELAY_MAX_NS;
}

static bool retry_is_lost(enum job_reason reason)
{
	return reason == JOB_REASON_SUPERVISOR_LOST || reason == JOB_REASON_NODE_REBOOTED;
}

/* Whether such an end may be followed by another attempt at all. */
static bool retry_is_possible(const struct job *ended)
{
	switch (ended->reason) {
	case JOB_REASON_SUPERVISOR_LOST:
	case JOB_REASON_NODE_REBOOTED:
		return ended->wants.retry_lost;
	case JOB_REASON_DEADLINE_EXCEEDED: /* its time is for all attempts */
	case JOB_REASON_IDLE:
		return false;
	default:
		return ended->wants.retries > 0;
	}
}

static bool retry_counts_together(const struct job *job)
{
	return job->array_id > 0 && !job->wants.array_apart;
}

/* `failures`: of the job, or of its array. */
static bool retry_is_allowed(const struct job *ended, uint64_t failures)
{
	uint64_t max = ended->wants.retries;
	if (retry_is_lost(ended->reason) && max < RETRY_LOST_MAX)
		max = RETRY_LOST_MAX;
	return failures <= max;
}

/* "ExitCode (7)". What is behind it stays apart: it may be the owner's alone. */
static void retry_name(enum job_reason reason, const char *text, char out[RETRY_LAST_MAX])
{
	bool has_text = text && text[0];
	(void)snprintf(out, RETRY_LAST_MAX, "%s%s%.*s%s", job_reason_to_string(reason),
		       has_text ? " (" : "", RETRY_TEXT_MAX, has_text ? text : "",
		       has_text ? ")" : "");
}

struct retry_first {
	uint32_t number; /* those before it were before somebody's 'jobs retry' */
	char name[RETRY_LAST_MAX];
};

/* The first attempt that has ended and was not given back. 1 ends the search. */
static int retry_find_first(const struct store_attempt *attempt, void *context)
{
	struct retry_first *first = context;
	if (attempt->number < first->number || attempt->ended_unix_ns == 0 ||
	    attempt->reason == JOB_REASON_NONE)
		return 0;
	retry_name(attempt->reason, attempt->reason_text, first->name);
	return 1;
}

/* "the first: LaunchError, the last: ExitCode (7)": what came later often is another's fault. The
 * first is left out where it was the same, or cannot be read. */
static void retry_name_both(const struct queue_run *run, char out[RETRY_BOTH_MAX])
{
	const struct job *ended = &run->ended;
	uint64_t count = ended->failed_attempts;
	struct retry_first first = {
	    .number = run->attempt >= count ? (uint32_t)(run->attempt - count + 1) : 1};
	char last[RETRY_LAST_MAX];
	int found =
	    store_attempts(run->owner->queue->store, ended->id, retry_find_first, &first, NULL);

	retry_name(ended->reason, ended->reason_text, last);
	bool is_other = found == 1 && strcmp(first.name, last) != 0;

	(void)snprintf(out, RETRY_BOTH_MAX, "%s%.*s%sthe last: %s", is_other ? "the first: " : "",
		       is_other ? RETRY_FIRST_MAX : 0, first.name, is_other ? ", " : "", last);
}

static void retry_set_reason(struct queue_run *run, enum job_reason reason, uint64_t failures)
{
	struct job *ended = &run->ended;
	char text[JOB_REASON_MAX], both[RETRY_BOTH_MAX];
	retry_name_both(run, both);
	(void)snprintf(text, sizeof(text), "%" PRIu64 " failures, %s", failures, both);
	job_set_reason(ended, reason, text, ended->reason_detail);
}

/* What is shown while it waits: for people, who read a clock. */
static void retry_describe(const struct queue_run *run, uint64_t failures, char out[JOB_REASON_MAX])
{
	const struct job *ended = &run->ended;
	time_t at = (time_t)(ended->not_before_unix_ns / (int64_t)CLOCK_NS_PER_S);
	struct tm parts;
	char clock[32] = "?", both[RETRY_BOTH_MAX];

	retry_name_both(run, both);
	if (gmtime_r(&at, &parts))
		(void)strftime(clock, sizeof(clock), "%Y-%m-%dT%H:%M:%SZ", &parts);
	(void)snprintf(out, JOB_REASON_MAX, "until %s; failed %" PRIu64 " of %" PRIu32 " times, %s",
		       clock, failures, ended->wants.retries + 1, both);
}

/* 1: another attempt follows; 0: it is final. */
static int retry_decide(struct queue_run *run, uint64_t *out_failures, struct err *err)
{
	struct store *store = run->owner->queue->store;
	struct job *ended = &run->ended;
	uint64_t failures = ended->failed_attempts;
	int64_t used_ns = 0;
	struct store_array array = {.count = 0};
	int rc = 0;

	if (ended->array_id > 0)
		rc = store_array(store, ended->array_id, &array, err);
	if (rc < 0)
		return rc;
	if (retry_counts_together(ended))
		failures = array.failed_attempts + 1; /* this one is not entered yet */
	*out_failures = failures;

	if (!retry_is_possible(ended) || jobdir_is_cancelled(run->dir_fd))
		return 0;

	/* One of them has found the work done. */
	if (ended->wants.array == WANTS_ARRAY_WORK_QUEUE && array.succeeded > 0)
		return 0;
	if (!retry_is_allowed(ended, failures)) {
		retry_set_reason(run, JOB_REASON_BACKOFF_LIMIT_EXCEEDED, failures);
		return 0;
	}

	if (ended->wants.time_ns == 0)
		return 1;

	rc = store_used(store, ended->id, ended->failed_attempts - 1, &used_ns, err);
	if (rc < 0)
		return rc;
	if (ended->started_unix_ns > 0 && ended->ended_unix_ns > ended->started_unix_ns)
		used_ns += ended->ended_unix_ns - ended->started_unix_ns;
	if ((uint64_t)used_ns < ended->wants.time_ns)
		return 1;

	retry_set_reason(run, JOB_REASON_DEADLINE_EXCEEDED, failures);
	return 0;
}

int queue_end_attempt(struct queue_run *run, struct err *err)
{
	struct store *store = run->owner->queue->store;
	struct job *ended = &run->ended;
	uint64_t failures = 0;
	int again = 0;

	if (ended->state == JOB_CANCELLED && run->ended_reason)
		ended->reason = run->ended_reason;
	if (ended->state == JOB_FAILED) {
		ended->failed_attempts++;
		again = retry_decide(run, &failures, err);
	}

	if (again < 0)
		return again;

	int rc;

	crash_point("queue.end_decided");
	if (again) {
		char text[JOB_REASON_MAX];

		ended->not_before_unix_ns =
		    clock_unix_ns() + (int64_t)retry_delay_ns(ended, failures);
		retry_describe(run, failures, text);

		rc = store_retry(store, ended, text, run->text, err);
		if (rc == 0) {
			job_set_reason(ended, JOB_REASON_BACKOFF, text, ended->reason_detail);
			run->found = QUEUE_FOUND_AGAIN;
		}

		return rc;
	}

	rc = store_end(store, ended, run->text, err);
	/* Else it is judged when the agent starts again. */
	if (rc == 0 && ended->array_id > 0)
		(void)store_array(store, ended->array_id, &run->array, NULL);

	return rc;
}

/* The wall clock may have jumped since: at most the whole delay, and never into the past. */
uint64_t queue_again_at(const struct queue *queue, const struct job *job)
{
	int64_t left_ns = job->not_before_unix_ns - clock_unix_ns();
	if (job->not_before_unix_ns == 0 || left_ns <= 0)
		return 0;

	uint64_t delay_ns = retry_delay_ns(job, job->failed_attempts);

	if (retry_counts_together(job))
		delay_ns = RETRY_DELAY_MAX_NS;

	return clock_after_ns(loop_now_ns(queue->options.loop),
			      (uint64_t)left_ns < delay_ns ? (uint64_t)left_ns : delay_ns);
}

void queue_again(struct queue_run *run)
{
	struct queue_job *job = run->owner;
	struct job *ended = &run->ended;

	queue_fair_ended(job->queue, run, ended);
	job->job.attempt = run->attempt;
	job->job.failed_attempts = ended->failed_attempts;
	job->job.not_before_unix_ns = ended->not_before_unix_ns;
	job->failures = 0;
	job->not_before_ns = queue_again_at(job->queue, &job->job);
	if (job->job.wants.workers > 0) /* of this attempt there is something to be removed */
		queue_keep_soon(job->queue);
	queue_put_back(job, JOB_REASON_BACKOFF, ended->reason_text, ended->reason_detail, false);
}
