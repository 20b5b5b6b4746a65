/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cancelling, in every state. What was never started is ended in the store; of what may run, the
 * file `cancel` is made durable before anybody is told, and then its supervisor hears of it.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/crash.h"
#include "doors/queue/queue_internal.h"

static struct queue_run *queue_run_of(struct queue_op *op)
{
	return (struct queue_run *)((char *)op - offsetof(struct queue_run, op));
}

void queue_cancel_answer(struct queue_run *run, int result, enum job_state state, bool was_final,
			 const struct err *err)
{
	while (run->callers) {
		struct queue_caller *caller = run->callers;
		run->callers = caller->next;
		if (caller->done)
			caller->done(result, state, was_final, err, caller->context);
		free(caller);
	}
}

/* Of what may run: the file, before anybody is told. */

static int queue_cancel_work(struct queue_op *op)
{
	struct queue_run *run = queue_run_of(op);
	if (run->dir_fd < 0) {
		int fd = jobdir_open(op->queue->state_fd, run->owner->job.id, &op->err);
		if (fd < 0)
			return fd;
		run->dir_fd = fd;
	}

	int rc = jobdir_request_cancel(run->dir_fd, &op->err);
	crash_point("queue.cancel_requested");
	return rc;
}

/* While the file was written nobody tried to reach a supervisor that did not listen yet. */
static void queue_cancel_tell(struct queue_run *run)
{
	if (!run->look)
		queue_control_connect(run);
	queue_control_cancel(run);
}

static void queue_cancel_done(struct queue_op *op, int rc)
{
	struct queue_run *run = queue_run_of(op);
	struct queue_job *job = run->owner;

	run->task = QUEUE_TASK_NONE;
	if (job->queue->closing)
		return;

	if (rc < 0) {
		if (rc == -ENOSPC || rc == -EROFS || rc == -EIO || rc == -EDQUOT)
			queue_storage_failed(job->queue, rc, op->err.text);
		run->cancel_wanted = false;
		if (!run->look)
			queue_control_connect(run);

		/* It cannot be promised, but who asks for it wants it to end. */
		if (queue_control_send(run, CONTROL_CANCEL, run->cancel_signo, run->cancel_grace_ns,
				       NULL) == 0)
			(void)err_wrap(&op->err,
				       "its processes are told to end, but that job %" PRIu64
				       " is cancelled cannot be written down",
				       job->job.id);

		queue_cancel_answer(run, rc, job->job.state, false, &op->err);
		queue_step(job);
		return;
	}

	run->cancel_durable = true;
	queue_job_set_state(job, JOB_STOPPING,
			    run->cancel_reason ? run->cancel_reason : JOB_REASON_USER,
			    run->cancel_by);
	queue_cancel_answer(run, 0, job->job.state, false, NULL);
	queue_cancel_tell(run);
	queue_step(job);
}

void queue_cancel_store(struct queue_run *run)
{
	queue_run_task(run, QUEUE_TASK_CANCEL, queue_cancel_work, queue_cancel_done);
}

/* What was never started. */

static int queue_drop_work(struct queue_op *op)
{
	struct queue_run *run = queue_run_of(op);
	int rc = 0, fd = jobdir_open(op->queue->state_fd, run->ended.id, &op->err);
	_cleanup_close_ int dir_fd = fd;

	if (fd >= 0)
		rc = jobdir_request_cancel(dir_fd, &op->err);
	else if (fd != -ENOENT || run->ended.array_id == 0)
		rc = fd; /* a member of an array has none before it starts */

	crash_point("queue.drop_requested");
	if (rc == 0)
		rc = store_end(op->queue->store, &run->ended, NULL, &op->err);
	crash_point("queue.drop_stored");

	rc = rc == -EALREADY ? 0 : rc;
	if (rc == 0 && run->ended.array_id > 0)
		rc = store_array(op->queue->store, run->ended.array_id, &run->array, &op->err);

	return rc;
}

static void queue_drop_done(struct queue_op *op, int rc)
{
	struct queue_run *run = queue_run_of(op);
	struct queue_job *job = run->owner;
	struct queue *queue = job->queue;

	run->task = QUEUE_TASK_NONE;
	if (queue->closing)
		return;

	if (rc == 0) {
		run->cancel_durable = true;
		queue_finish(run);
		return;
	}

	if (rc == -ENOSPC || rc == -EROFS || rc == -EIO || rc == -EDQUOT)
		queue_storage_failed(queue, rc, op->err.text);
	queue_cancel_answer(run, rc, job->job.state, false, &op->err);
	job->run = queue_run_free(run);
	queue_kick(queue);
}

void queue_drop(struct queue_run *run)
{
	struct queue_job *job = run->owner;

	job_done(&run->ended);
	run->ended = (struct job){.id = 0};
	if (job_copy(&job->job, &run->ended) < 0) {
		struct err err;
		(void)err_set(&err, -ENOMEM, "no memory to cancel job %" PRIu64, job->job.id);
		queue_cancel_answer(run, -ENOMEM, job->job.state, false, &err);
		job->run = queue_run_free(run);
		return;
	}

	run->ended.state = JOB_CANCELLED;
	job_set_reason(&run->ended, run->cancel_reason ? run->cancel_reason : JOB_REASON_USER,
		       run->cancel_by, NULL);
	run->ended.started_unix_ns = 0;
	run->ended.ended_unix_ns = clock_unix_ns();
	queue_run_task(run, QUEUE_TASK_DROP, queue_drop_work, queue_drop_done);
}

/* A job that is not in memory is final, or was never there. */

struct queue_final {
	struct queue_caller caller;
	enum job_state state;
	bool found;
};

static void queue_final_each(const struct job *job, const struct queue_attempt *attempt,
			     void *context)
{
	struct queue_final *final = context;
	final->state = job->state;
	final->found = true;
}

static void queue_final_done(int rc, const struct err *err, void *context)
{
	struct queue_final *final = context;
	if (final->caller.done)
		final->caller.done(final->found ? 0 : rc, final->state, final->found, err,
				   final->caller.context);
	free(final);
}

static int queue_cancel_final(struct queue *queue, uint64_t id, const struct queue_caller *caller,
			      struct err *err)
{
	struct queue_final *final = calloc(1, sizeof(*final));
	if (!final)
		return err_set(err, -ENOMEM, "no memory to look for job %" PRIu64, id);

	final->caller = *caller;
	const struct queue_query query = {
	    .id = id, .each = queue_final_each, .done = queue_final_done, .context = final};
	queue_query(queue, &query);

	return 0;
}

void queue_cancel(struct queue *queue, uint64_t id, int signo, bool has_grace, uint64_t grace_ns,
		  const char *by,
		  void (*done)(int result, enum job_state state, bool was_final,
			       const struct err *err, void *context),
		  void *context)
{
	const struct queue_caller given = {.done = done, .context = context};
	struct queue_job *job = queue_job_find(queue, id);
	struct err err;

	if (!job) {
		if (queue_cancel_final(queue, id, &given, &err) < 0 && done)
			done(-ENOMEM, JOB_PENDING, false, &err, context);
		return;
	}

	struct queue_caller *caller = calloc(1, sizeof(*caller));
	struct queue_run *run = job->run;

	if (caller && !run)
		run = queue_run_new(job, &err);

	if (!caller || !run) {
		free(caller);
		(void)err_set(&err, -ENOMEM, "no memory to cancel job %" PRIu64, id);
		if (done)
			done(-ENOMEM, job->job.state, false, &err, context);
		return;
	}

	*caller = given;
	caller->next = run->callers;
	run->callers = caller;

	/* A second one may be harder: it is told again. */
	run->cancel_sent = false;
	run->cancel_wanted = true;
	run->cancel_signo = signo;
	run->cancel_grace_ns = has_grace ? grace_ns : CONTROL_GRACE_OWN;
	if (!run->cancel_by[0])
		(void)snprintf(run->cancel_by, sizeof(run->cancel_by), "%s", by ? by : "");

	if (run->cancel_durable) {
		queue_cancel_answer(run, 0, job->job.state, false, NULL);
		queue_control_cancel(run);
		return;
	}

	queue_step(job);
}

static void queue_final_forget(struct queue_query *query, void *context)
{
	struct queue_final *final = query->done == queue_final_done ? query->context : NULL;
	if (final && final->caller.context == context)
		final->caller.done = NULL;
}

void queue_cancel_forget(struct queue *queue, void *context)
{
	for (size_t i = 0; i < queue->count; i++) {
		struct queue_run *run = queue->jobs[i]->run;
		for (struct queue_caller *at = run ? run->callers : NULL; at; at = at->next) {
			if (at->context == context)
				at->done = NULL;
		}
	}

	queue_query_each(queue, queue_final_forget, context);
}
