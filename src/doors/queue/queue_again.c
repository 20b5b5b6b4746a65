/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Final jobs that begin anew: looked up and judged on the storage thread, counted on their user's
 * account as if they were submitted, and reopened in one transaction.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/crash.h"
#include "doors/queue/queue_change.h"

/* --- on the storage thread ------------------------------------------------------------------- */

struct again {
	struct queue_change *change;
	struct err *err;
	size_t seen, live, succeeded;
};

static int again_each(const struct job *job, const char *grants, const char *observations,
		      void *context)
{
	struct again *again = context;
	struct queue_change *change = again->change;

	again->seen++;
	again->live += !job_state_is_final(job->state);
	again->succeeded += job->state == JOB_SUCCEEDED;

	if (job->state != JOB_FAILED && job->state != JOB_CANCELLED)
		return 0;

	if (array_room(&change->jobs, change->count, &change->room, 16) < 0)
		return err_set(again->err, -ENOMEM, "no memory for %zu jobs", change->count + 1);

	int rc = job_copy(job, &change->jobs[change->count]);
	if (rc < 0)
		return err_set(again->err, rc, "no memory for a job");

	change->count++;
	return 0;
}

static int again_find(struct queue_change *change, struct err *err)
{
	struct store *store = change->op.queue->store;
	struct again again = {.change = change, .err = err};
	int rc =
	    change->member_alone ? 0 : store_list_array(store, change->id, again_each, &again, err);
	if (rc == 0 && again.seen == 0)
		rc = store_get(store, change->id, again_each, &again, err);

	if (rc < 0)
		return rc;

	if (change->count == 0)
		return err_set(err, -EINVAL,
			       again.live > 0 ? "job %" PRIu64 " has not ended"
					      : "job %" PRIu64 " has succeeded",
			       change->id);

	const struct job *first = &change->jobs[0];
	if (first->array_id > 0 && !first->wants.array_apart && change->id != first->array_id)
		return err_set(err, -EINVAL,
			       "job %" PRIu64
			       " belongs to an array that succeeds or fails as a whole: retry "
			       "job %" PRIu64,
			       change->id, first->array_id);

	return 0;
}

/* All members of an array that succeeds or fails as a whole, which begins anew as a whole. */
static int again_add_array(struct queue_change *change, const struct job *job, struct err *err)
{
	struct again again = {.change = change, .err = err};
	size_t before = change->count;
	int rc = store_list_array(change->op.queue->store, job->array_id, again_each, &again, err);

	for (size_t i = before; rc == 0 && i < change->count; i++) {
		if (queue_set_has(&change->set, change->jobs[i].id))
			continue;

		struct err why;
		(void)err_set(&why, -EINVAL,
			      "job %" PRIu64
			      " belongs to an array that succeeds or fails as a whole: retry job "
			      "%" PRIu64,
			      job->id, job->array_id);
		while (change->count > before)
			job_done(&change->jobs[--change->count]);
		rc = queue_set_note(change, job->id, &why, err);
	}

	return rc;
}

/* Whether a job that was looked up may begin anew: -errno, and why not. */
static int again_judge(const struct queue_change *change, const struct job *job, struct err *err)
{
	int rc = queue_set_judge(change, job, err);
	if (rc < 0)
		return rc;
	if (!job_state_is_final(job->state))
		return err_set(err, -EINVAL, "job %" PRIu64 " has not ended", job->id);
	if (job->state == JOB_SUCCEEDED)
		return err_set(err, -EINVAL, "job %" PRIu64 " has succeeded", job->id);

	if (change->count > 0 && change->jobs[0].uid != job->uid)
		return err_set(err, -EINVAL,
			       "job %" PRIu64 " is another user's than job %" PRIu64
			       ": the jobs of one user at a time are retried",
			       job->id, change->jobs[0].id);

	return 0;
}

static int again_keep(const struct job *job, const char *grants, const char *observations,
		      void *context)
{
	return job_copy(job, context);
}

/* One job of a set. */
static int again_find_one(struct queue_change *change, uint64_t id, struct err *err)
{
	struct again again = {.change = change, .err = err};
	_cleanup_job_ struct job job = {.id = 0};
	struct err why = {.code = 0};
	int rc = store_get(change->op.queue->store, id, again_keep, &job, &why);
	bool is_known = rc == 0 && job.id == id;

	if (rc < 0 && rc != -ENOENT) {
		*err = why;
		return rc;
	}

	if (!is_known)
		(void)err_set(&why, -ENOENT, "there is no job %" PRIu64, id);
	if (!is_known || again_judge(change, &job, &why) < 0)
		return queue_set_note(change, id, &why, err);

	if (job.array_id == 0 || job.wants.array_apart)
		return again_each(&job, NULL, NULL, &again);

	/* With the first of them all were added. */
	bool is_there = change->count > 0 && change->jobs[change->count - 1].id >= id;
	return is_there ? 0 : again_add_array(change, &job, err);
}

static int again_find_set(struct queue_change *change, struct err *err)
{
	int rc = 0;
	for (size_t i = 0; rc == 0 && i < change->set.count; i++)
		rc = again_find_one(change, change->set.ids[i], err);
	return rc;
}

/* What it has to see succeed has failed: it could only be cancelled again. */
static int again_check(struct queue_change *change, struct err *err)
{
	uint64_t array_id = 0;

	for (size_t i = 0; i < change->count; i++) {
		const struct job *job = &change->jobs[i];
		uint64_t failed = 0;

		if (array_id > 0 && job->array_id == array_id)
			continue; /* all members of an array wait for the same */

		array_id = job->array_id;
		int rc = queue_depend_check(change->op.queue, job, false, &failed, err);
		if (rc < 0)
			return rc;

		if (failed)
			return err_set(err, -EINVAL,
				       "job %" PRIu64 " waits for the success of job %" PRIu64
				       ", which has failed: retry that one first",
				       job->id, failed);
	}

	return 0;
}

/* The same of a set, of which the others begin all the same. What a job waits for may begin with
 * it. */
static int again_check_set(struct queue_change *change, struct err *err)
{
	uint64_t array_id = 0, failed = 0;
	size_t count = change->count;
	int rc = 0;

	change->count = 0;

	for (size_t i = 0; i < count; i++) {
		struct job *job = &change->jobs[i];
		bool is_same = array_id > 0 && job->array_id == array_id;
		struct err why;

		if (rc == 0 && !is_same)
			rc = queue_depend_check(change->op.queue, job, false, &failed, err);

		array_id = job->array_id;
		bool begins = failed == 0 || queue_set_has(&change->set, failed);

		if (rc == 0 && begins) {
			change->jobs[change->count++] = *job;
			continue;
		}

		if (rc == 0) {
			(void)err_set(&why, -EINVAL,
				      "job %" PRIu64 " waits for the success of job %" PRIu64
				      ", which has failed: retry that one first",
				      job->id, failed);
			rc = queue_set_note(change, job->id, &why, err);
		}

		job_done(job);
	}

	return rc;
}

int queue_again_look(struct queue_op *op)
{
	struct queue_change *change = (struct queue_change *)op;
	int rc = change->set.ids ? again_find_set(change, &op->err) : again_find(change, &op->err);
	if (rc == 0)
		rc = change->set.ids ? again_check_set(change, &op->err)
				     : again_check(change, &op->err);
	change->sizes = calloc(change->count + 1, sizeof(*change->sizes));
	if (rc == 0 && !change->sizes)
		rc = err_set(&op->err, -ENOMEM, "no memory for %zu jobs", change->count);

	for (size_t i = 0; rc == 0 && i < change->count; i++) {
		rc = store_spec_bytes(op->queue->store, change->jobs[i].id, &change->sizes[i],
				      &op->err);
		change->all_bytes += change->sizes[i];
	}

	return rc;
}

static int again_work(struct queue_op *op)
{
	struct queue_change *change = (struct queue_change *)op;
	struct queue *queue = op->queue;
	int rc = 0;
	_cleanup_free_ uint64_t *ids = calloc(change->count + 1, sizeof(*ids));
	if (!ids)
		rc = err_set(&op->err, -ENOMEM, "no memory for %zu jobs", change->count);

	for (size_t i = 0; rc == 0 && i < change->count; i++) {
		ids[i] = change->jobs[i].id;
		int fd = jobdir_open(queue->state_fd, ids[i], &op->err);
		if (fd == -ENOENT) /* made when it starts */
			continue;

		_cleanup_close_ int dir_fd = fd;
		rc = fd < 0 ? fd : jobdir_withdraw_cancel(dir_fd, &op->err);
	}

	crash_point("queue.before_reopen");
	if (rc == 0)
		rc = store_reopen(queue->store, ids, change->count, &op->err);
	crash_point("queue.reopened");

	return rc;
}

/* --- on the loop ----------------------------------------------------------------------------- */

static void again_done(struct queue_op *op, int result)
{
	struct queue_change *change = (struct queue_change *)op;
	struct queue *queue = op->queue;

	queue_account_submitted(queue, change->jobs[0].uid, change->count, change->all_bytes);
	if (result < 0 || queue->closing) {
		queue_change_failed(queue, result, op->err.text);
		queue_change_over(change, result < 0 ? result : -ESHUTDOWN, 0, &op->err);
		return;
	}

	struct err err = {.code = 0};
	int rc = queue_reserve(queue, change->count, &err);

	for (size_t i = 0; rc == 0 && i < change->count; i++) {
		struct queue_job *job = queue_job_new(queue, &err);
		if (!job) {
			rc = err.code;
			break;
		}

		struct job *now = &change->jobs[i];
		job->job = *now;
		*now = (struct job){.id = now->id};
		job_set_reason(&job->job, JOB_REASON_NONE, NULL, NULL);
		job->job.state = JOB_PENDING;
		job->job.has_exit = job->job.launch_failed = false;
		job->job.signal = job->job.killed_leftovers = job->job.failed_attempts = 0;
		job->job.started_unix_ns = job->job.ended_unix_ns = 0;
		job->job.not_before_unix_ns = 0;
		job->spec_bytes = change->sizes[i];
		queue_job_add(job);
	}

	queue_changed(queue);
	queue_kick(queue);
	if (rc < 0) /* the store has them: the next start of the agent finds them */
		(void)err_wrap(&err, "begun anew, and started when the agent starts again");
	queue_change_over(change, rc, change->count, &err);
}

/* They count as if they were submitted. */
void queue_again_looked(struct queue_op *op, int rc)
{
	struct queue_change *change = (struct queue_change *)op;
	struct queue *queue = op->queue;

	queue_set_tell(change);

	if (rc < 0)
		queue_change_failed(queue, rc, op->err.text);
	else if (queue->closing)
		rc = err_set(&op->err, -ESHUTDOWN, "the agent is ending");
	else if (change->count == 0) { /* of a set */
		queue_change_over(change, 0, 0, NULL);
		return;
	} else
		rc = queue_account_submit(queue, change->jobs[0].uid, change->count,
					  change->all_bytes, &op->err);

	if (rc < 0) {
		queue_change_over(change, rc, 0, &op->err);
		return;
	}

	op->work = again_work;
	op->done = again_done;
	queue_op_submit(queue, op);
}
