/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What became of an attempt. One table for the end of a job, for the start of an agent and for a
 * supervisor that was killed; the lock is held while it is decided, so that no supervisor can start
 * behind our back.
 *
 *   lock is busy         a supervisor lives: adopted
 *   result               it has ended: entered
 *   claim, no result     its supervisor was killed: what is left of it is killed as well, and
 *                        when that is gone, it has Failed with its outcome unknown
 *   neither              never started: Pending again
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/child.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/crash.h"
#include "base/log.h"
#include "job/attach.h"
#include "job/control.h"
#include "doors/queue/queue_internal.h"

static struct queue_run *queue_run_of(struct queue_op *op)
{
	return (struct queue_run *)((char *)op - offsetof(struct queue_run, op));
}

/* --- on the storage thread ------------------------------------------------------------------- */

static void queue_end_as(struct job *job, enum job_state state, enum job_reason reason,
			 const char *text, const char *detail)
{
	job->state = state;
	job_set_reason(job, reason, text, detail);
}

/* The worst of it. */
static const char *queue_lost_text(uint32_t lost)
{
	if (lost & JOBDIR_LOST_FULL)
		return "the disk of its log was full";
	return lost & JOBDIR_LOST_CUT ? "what was beyond sluice.jobs.logLimit"
				      : "the copy of --output";
}

/* The job as its result says. */
static void queue_read_end(struct job *job, const struct jobdir_result *result, const char *by)
{
	char number[16];
	(void)snprintf(number, sizeof(number), "%d", result->value);
	job->started_unix_ns = result->started_unix_ns;
	job->ended_unix_ns = result->ended_unix_ns ? result->ended_unix_ns : clock_unix_ns();
	job->killed_leftovers = result->killed_leftovers;

	if (result->isolation[0]) /* what it does not know says nothing */
		(void)isolation_level_from_string(result->isolation, &job->isolation);
	job->has_exit = result->end != JOBDIR_CANCELLED;
	job->exit_code = job->has_exit ? result->exit_code : 0;
	job->signal = 0;
	job->launch_failed =
	    result->end == JOBDIR_LAUNCH_ERROR || jobdir_is_container_error(result);

	switch (result->end) {
	case JOBDIR_EXITED:
		if (result->value == 0 && result->lost)
			queue_end_as(job, JOB_SUCCEEDED, JOB_REASON_OUTPUT_LOST,
				     queue_lost_text(result->lost), NULL);
		else if (result->value == 0)
			queue_end_as(job, JOB_SUCCEEDED, JOB_REASON_NONE, NULL, NULL);
		else if (jobdir_is_container_error(result))
			queue_end_as(job, JOB_FAILED, JOB_REASON_CONTAINER_ERROR, NULL,
				     result->text);
		else
			queue_end_as(job, JOB_FAILED, JOB_REASON_EXIT_CODE, number, NULL);
		break;
	case JOBDIR_SIGNALLED:
		job->signal = (uint32_t)result->value;
		queue_end_as(job, JOB_FAILED, JOB_REASON_SIGNAL, number, NULL);
		break;
	case JOBDIR_LAUNCH_ERROR:
		queue_end_as(job, JOB_FAILED, JOB_REASON_LAUNCH_ERROR, NULL, result->text);
		break;
	case JOBDIR_DEADLINE:
		job->signal = result->value > 0 ? (uint32_t)result->value : 0;
		queue_end_as(job, JOB_FAILED, JOB_REASON_DEADLINE_EXCEEDED, NULL, NULL);
		break;
	case JOBDIR_IDLE:
		job->signal = result->value > 0 ? (uint32_t)result->value : 0;
		queue_end_as(job, JOB_FAILED, JOB_REASON_IDLE, NULL, NULL);
		break;
	case JOBDIR_WORKER:
		queue_end_as(job, JOB_FAILED, JOB_REASON_WORKER_FAILED, NULL, result->text);
		break;
	case JOBDIR_CANCELLED:
		queue_end_as(job, JOB_CANCELLED, JOB_REASON_USER, by, NULL);
		break;
	}

	/* A worker of the command may have been killed, and it gave up for that. */
	if (result->was_oom_killed && job->state == JOB_FAILED &&
	    (result->end == JOBDIR_EXITED || result->end == JOBDIR_SIGNALLED))
		queue_end_as(job, JOB_FAILED, JOB_REASON_OOM_KILLED, NULL, NULL);
	if (result->was_cancelled && result->end != JOBDIR_LAUNCH_ERROR)
		queue_end_as(job, JOB_CANCELLED, JOB_REASON_USER, by, NULL);
}

static bool queue_is_of_other_boot(const struct queue_run *run)
{
	const char *boot_id = run->owner->queue->boot_id;
	return run->claim.boot_id[0] && boot_id[0] && strcmp(run->claim.boot_id, boot_id) != 0;
}

/* Whether it did not end by itself: an orderly shutdown has ended it, and a reboot followed. One
 * that succeeded says itself that it is done. */
static bool queue_went_down(struct queue_run *run, const struct jobdir_result *result)
{
	const struct job *job = &run->ended;
	if (!result->was_terminated || job->state != JOB_FAILED ||
	    (result->end != JOBDIR_EXITED && result->end != JOBDIR_SIGNALLED &&
	     result->end != JOBDIR_WORKER))
		return false;

	return jobdir_read_claim(run->dir_fd, run->attempt, &run->claim, NULL) == 0 &&
	       queue_is_of_other_boot(run);
}

/* The outcome is not known: the supervisor was killed, with what it knew. */
static int queue_inspect_lost(struct queue_run *run, struct err *err)
{
	struct queue *queue = run->owner->queue;
	struct job *job = &run->ended;
	bool other_boot = queue_is_of_other_boot(run);
	if (!other_boot && !run->has_removed) {
		/* Before what is left is killed: podman should know what became of its container.
		 * What cannot be read of it keeps the job from no end. */
		struct err why = {.code = 0};
		if (queue_remove_launch(run, &why) > 0) {
			run->found = QUEUE_FOUND_CONTAINER;
			return 0;
		}

		run->has_removed = true;
	}

	if (!other_boot) {
		const char *instance = run->claim.instance[0] ? run->claim.instance : run->instance;
		char cgroup[JOBDIR_TEXT_MAX];

		memcpy(cgroup, run->claim.cgroup, sizeof(cgroup));
		if (!cgroup[0]) /* the claim cannot be read, or there was none to be had */
			(void)queue_cgroup_path(queue, run, cgroup);

		int left =
		    queue_kill_left(instance, cgroup, run->retry_ns < QUEUE_RETRY_MAX_NS, err);
		if (left < 0)
			return left;
		if (left > 0) {
			run->found = QUEUE_FOUND_LEFTOVER;
			return 0;
		}
	}

	crash_point("queue.lost_is_gone");
	job->ended_unix_ns = clock_unix_ns();
	queue_end_as(job, JOB_FAILED,
		     other_boot ? JOB_REASON_NODE_REBOOTED : JOB_REASON_SUPERVISOR_LOST, NULL,
		     NULL);
	run->found = QUEUE_FOUND_ENDED;

	return 0;
}

static int queue_inspect_free(struct queue_run *run, struct err *err)
{
	struct queue *queue = run->owner->queue;
	struct job *job = &run->ended;
	struct jobdir_result result;
	int rc = jobdir_read_result(run->dir_fd, run->attempt, &result, err);
	if (rc == 0) {
		queue_read_end(job, &result, run->ended_by);
		if (queue_went_down(run, &result)) {
			job->has_exit = false;
			job->exit_code = job->signal = 0;
			queue_end_as(job, JOB_FAILED, JOB_REASON_NODE_REBOOTED, NULL, NULL);
		}

		run->found = QUEUE_FOUND_ENDED;
		return 0;
	}

	if (rc != -ENOENT && rc != -EBADMSG)
		return rc;

	/* A result that cannot be read is the end of an attempt of which nothing is known. */
	int claimed = jobdir_read_claim(run->dir_fd, run->attempt, &run->claim, err);
	if (claimed == 0 || claimed == -EBADMSG || rc == -EBADMSG)
		return queue_inspect_lost(run, err);
	if (claimed != -ENOENT)
		return claimed;

	queue_remove_cgroup(queue, run);
	if (!jobdir_is_cancelled(run->dir_fd)) {
		run->found = QUEUE_FOUND_VOID;
		return store_unstart(queue->store, job->id, run->attempt, err);
	}

	job->started_unix_ns = 0;
	job->ended_unix_ns = clock_unix_ns();
	queue_end_as(job, JOB_CANCELLED, JOB_REASON_USER, run->ended_by, NULL);
	run->found = QUEUE_FOUND_ENDED;

	return 0;
}

static int queue_inspect_work(struct queue_op *op)
{
	struct queue_run *run = queue_run_of(op);
	struct queue *queue = op->queue;

	run->claim = (struct jobdir_claim){.pid = 0};
	if (run->dir_fd < 0) {
		int fd = jobdir_open(queue->state_fd, run->owner->job.id, &op->err);
		if (fd < 0)
			return fd;
		run->dir_fd = fd;
	}

	_cleanup_close_ int lock = jobdir_lock(run->dir_fd, &op->err);
	if (lock == -EBUSY) {
		run->found = QUEUE_FOUND_BUSY;
		int claimed = jobdir_read_claim(run->dir_fd, run->attempt, &run->claim, NULL);
		run->has_claim_now = claimed == 0 || claimed == -EBADMSG;
		run->has_cancel_now = jobdir_is_cancelled(run->dir_fd);
		return 0;
	}

	if (lock < 0)
		return lock;

	crash_point("queue.inspect_locked");
	control_remove(run->dir_fd);
	attach_remove(run->dir_fd);

	int rc = queue_inspect_free(run, &op->err);

	crash_point("queue.inspected");
	if (rc == 0 && run->found == QUEUE_FOUND_ENDED)
		rc = queue_end_attempt(run, &op->err);
	crash_point("queue.end_stored");

	return rc;
}

/* --- on the loop ----------------------------------------------------------------------------- */

void queue_inspect_later(struct queue_run *run)
{
	run->retry_ns = run->retry_ns < QUEUE_RETRY_MIN_NS ? QUEUE_RETRY_MIN_NS : 2 * run->retry_ns;
	if (run->retry_ns > QUEUE_RETRY_MAX_NS)
		run->retry_ns = QUEUE_RETRY_MAX_NS;
	loop_timer_start(run->retry, run->retry_ns);
}

/* Somebody was told that it is cancelled, by an agent that died before its supervisor heard. */
static void queue_adopt_cancel(struct queue_run *run)
{
	if (!run->has_cancel_now || run->cancel_wanted)
		return;
	run->cancel_wanted = run->cancel_durable = true;
	run->cancel_grace_ns = CONTROL_GRACE_OWN;
	queue_job_set_state(run->owner, JOB_STOPPING, JOB_REASON_USER, NULL);
	queue_control_cancel(run); /* or as soon as it is connected */
}

/* A supervisor lives. */
static void queue_adopt(struct queue_run *run)
{
	struct queue_job *job = run->owner;

	queue_adopt_cancel(run);
	/* Its files could not be read for a while; they can be now. */
	if (job->job.state == JOB_STOPPING && job->job.reason == JOB_REASON_STORAGE &&
	    !run->cancel_wanted)
		queue_job_set_state(job, JOB_STARTING, JOB_REASON_NONE, NULL);

	if (run->has_claim_now) {
		run->has_claim = true;
		if (run->cgroup[0] == '\0')
			memcpy(run->cgroup, run->claim.cgroup, sizeof(run->cgroup));
		if (run->claim.pid > 0)
			run->supervisor_pid = run->claim.pid;
		if (job->job.state == JOB_STARTING)
			queue_job_set_state(job, JOB_RUNNING, JOB_REASON_NONE, NULL);
	}

	run->look = false;
	if (run->control_fd >= 0)
		return; /* the end of the connection will tell */
	if (run->child) {
		queue_control_connect(run);
		return;
	}

	queue_control_connect(run);
	if (run->control_fd < 0) {
		run->look = true; /* at the lock, now and then, until it can be talked to */
		queue_inspect_later(run);
	}
}

static void queue_never_started(struct queue_run *run)
{
	struct queue_job *job = run->owner;
	struct queue *queue = job->queue;

	queue_storage_worked(queue);
	if (run->tokens_busy) {
		size_t marked = queue_hold_look(queue, run);
		/* When nobody could be found who has them, it is tried again after a while. */
		queue_put_back(job, JOB_REASON_WAITING_FOR_GPU, run->trouble, NULL, marked == 0);
		return;
	}

	bool tried = run->failed || run->supervisor_pid > 0;
	if (tried)
		log_write(queue->options.log, LOG_LEVEL_WARNING, NULL,
			  "the supervisor of job %" PRIu64 " ended before it started anything%s%s",
			  job->job.id, run->trouble[0] ? ": " : "", run->trouble);

	queue_put_back(job, tried ? JOB_REASON_BACKOFF : JOB_REASON_NONE,
		       tried ? "its supervisor ended too early" : NULL, run->trouble, tried);
}

void queue_finish(struct queue_run *run)
{
	struct queue_job *job = run->owner;
	queue_storage_worked(job->queue);
	queue_fair_ended(job->queue, run, &run->ended);
	struct job ended = run->ended; /* lent to it: it is freed with its run */
	run->ended = (struct job){.id = 0};
	queue_job_ended(job, &ended, &run->array, !run->cancel_durable);
	job_done(&ended);
}

void queue_job_ended(struct queue_job *job, const struct job *ended,
		     const struct store_array *array, bool was_final)
{
	struct queue *queue = job->queue;
	const struct store_array stands = *array; /* may be the run's */

	if (job->run)
		queue_cancel_answer(job->run, 0, ended->state, was_final, NULL);

	/* Looks when it may be forgotten; of workers there is something to be removed now. */
	if (ended->wants.has_ttl || ended->wants.workers > 0)
		queue_keep_soon(queue);
	queue_job_remove(job);
	queue_depend_ended(queue, ended, &stands);
	queue_changed(queue);
	queue_kick(queue);
}

static void queue_inspect_failed(struct queue_run *run, int rc)
{
	struct queue_op *op = &run->op;
	struct queue_job *job = run->owner;
	struct queue *queue = job->queue;

	if (rc == -EALREADY &&
	    job_state_is_final(
		run->ended.state)) { /* entered by an operation that was thought to have failed */
		queue_finish(run);
		return;
	}

	if (rc == -ENOSPC || rc == -EROFS || rc == -EIO || rc == -EDQUOT)
		queue_storage_failed(queue, rc, op->err.text);
	else
		log_write(queue->options.log, LOG_LEVEL_WARNING, NULL, "job %" PRIu64 ": %s",
			  job->job.id, op->err.text);

	queue_job_set_why(job, JOB_STOPPING, JOB_REASON_STORAGE, NULL, op->err.text);
	if (run->retry_ns < QUEUE_RETRY_MAX_NS / 2)
		run->retry_ns = QUEUE_RETRY_MAX_NS / 2;
	queue_inspect_later(run);
}

static void queue_inspect_done(struct queue_op *op, int rc)
{
	struct queue_run *run = queue_run_of(op);
	struct queue_job *job = run->owner;

	run->task = QUEUE_TASK_NONE;
	free(take_ptr(run->text));
	if (job->queue->closing)
		return;
	if (rc < 0) {
		queue_inspect_failed(run, rc);
		return;
	}

	switch (run->found) {
	case QUEUE_FOUND_ENDED:
		queue_finish(run);
		return;
	case QUEUE_FOUND_AGAIN:
		queue_storage_worked(job->queue);
		queue_again(run);
		return;
	case QUEUE_FOUND_VOID:
		queue_never_started(run);
		return;
	case QUEUE_FOUND_LEFTOVER:
		queue_job_set_state(job, JOB_STOPPING, JOB_REASON_SUPERVISOR_LOST,
				    "its supervisor is gone, its processes are being killed");
		queue_inspect_later(run);
		break;
	case QUEUE_FOUND_CONTAINER:
		queue_job_set_state(job, JOB_STOPPING, JOB_REASON_SUPERVISOR_LOST,
				    "its supervisor is gone, its container is being removed");
		queue_remove(run);
		break;
	case QUEUE_FOUND_BUSY:
		queue_adopt(run);
		break;
	}
	queue_step(job);
}

static void queue_inspect(struct queue_run *run)
{
	struct queue_job *job = run->owner;
	struct err err = {.code = 0};

	job_done(&run->ended);
	run->ended = (struct job){.id = 0};

	int rc = job_copy(&job->job, &run->ended);
	if (rc == 0)
		rc = record_format_observations(run->observed, run->observed_count, &run->text,
						&err);
	if (rc < 0) {
		queue_inspect_later(run); /* of memory */
		return;
	}

	run->ended.attempt = run->attempt;
	if (run->isolation[0]) /* what it does not know says nothing */
		(void)isolation_level_from_string(run->isolation, &run->ended.isolation);
	run->ended_reason = run->cancel_reason;
	memcpy(run->ended_by, run->cancel_by, sizeof(run->ended_by));
	queue_run_task(run, QUEUE_TASK_INSPECT, queue_inspect_work, queue_inspect_done);
}

void queue_look(struct queue_run *run)
{
	run->look = true;
	run->retry_ns = 0;
	loop_timer_stop(run->retry);
	queue_step(run->owner);
}

/* The run's timer: whatever was put off. */
void queue_run_retry(void *context)
{
	struct queue_run *run = context;
	if (run->task != QUEUE_TASK_NONE)
		return; /* its end decides */
	if (run->owner->phase == QUEUE_LAUNCHED && !run->look) {
		queue_control_connect(run);
		queue_control_cancel(run);
	}

	queue_step(run->owner);
}

void queue_step(struct queue_job *job)
{
	struct queue_run *run = job->run;
	if (!run || run->task != QUEUE_TASK_NONE || job->queue->closing)
		return;

	if (job->phase == QUEUE_WAITING) {
		if (run->cancel_wanted && !job->is_changing && !loop_timer_is_running(run->retry))
			queue_drop(run);
		return;
	}

	if (job->phase != QUEUE_LAUNCHED)
		return;
	if (run->cancel_wanted && !run->cancel_durable)
		queue_cancel_store(run);
	else if (run->look && !run->remover && !loop_timer_is_running(run->retry))
		queue_inspect(run);
}
