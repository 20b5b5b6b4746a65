/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Final jobs that begin anew: looked up and judged on the storage thread, counted on their user's
 * account as if they were submitted, and reopened in one transaction.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

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

	if (change->count == change->room) {
		size_t room = change->room ? 2 * change->room : 16;
		struct job *more = reallocarray(change->jobs, room, sizeof(*more));
		if (!more)
			return err_set(again->err, -ENOMEM, "no memory for %zu jobs", room);

		change->jobs = more;
		change->room = room;
	}

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

int queue_again_look(struct queue_op *op)
{
	struct queue_change *change = (struct queue_change *)op;
	int rc = again_find(change, &op->err);
	if (rc == 0)
		rc = again_check(change, &op->err);
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

	if (rc < 0)
		queue_change_failed(queue, rc, op->err.text);
	else if (queue->closing)
		rc = err_set(&op->err, -ESHUTDOWN, "the agent is ending");
	else
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
