/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Accepting jobs. What is submitted while one transaction runs becomes the next, so that any number
 * of clients share the disk's time. A key that is known gets the job that it made before anything
 * else is looked at: a client that repeats itself may do so however the machine has changed.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/crash.h"
#include "doors/queue/queue_submission.h"
#include "hardware/gpu.h"
#include "job/indices.h"

enum accept_limits {
	ACCEPT_TRIES_MAX = 4096,	/* numbers that are passed over for one job */
	ACCEPT_RESERVE_PART = 20,	/* one part of so many of the disk is left free, */
	ACCEPT_RESERVE_MAX = 512 << 20, /* but no more bytes than these */
};

struct queue_accept {
	struct queue_op op; /* first */
	bool is_running;
	struct queue_submission *batch[STORE_BATCH_MAX];
	size_t count;
	size_t job_count;	   /* of the batch: each member of an array is one */
	struct store_accept *rows; /* owned while it runs; room for those */
	size_t row_count;
	uint64_t next_id;
	int failed; /* what the store said, for all */
};

static struct queue_submission *queue_submission_free(struct queue_submission *submission)
{
	struct queue *queue = submission->queue;
	queue_account_submitted(queue, submission->uid, submission->charged_jobs,
				submission->charged_bytes);
	if (submission->is_trial)
		account_give(queue->account, ACCOUNT_TRIALS, submission->uid, 1);

	if (submission->is_queued) {
		account_give(queue->account, ACCOUNT_SUBMISSIONS, submission->uid, 1);
		account_give(queue->account, ACCOUNT_SUBMISSION_BYTES, submission->uid,
			     submission->spec_length);
	}

	(void)queue_job_free(submission->job);

	for (size_t i = 0; i < submission->other_count; i++)
		(void)queue_job_free(submission->others[i]);

	free(submission->others);
	free(submission->spec);
	free(submission);

	return NULL;
}

static void queue_submission_answer(struct queue_submission *submission)
{
	if (submission->is_forgotten)
		return;
	submission->done(submission->result, submission->id, submission->known, "",
			 submission->result < 0 ? &submission->err : NULL, submission->context);
}

/* --- on the storage thread ------------------------------------------------------------------- */

static int queue_accept_compare(struct queue_submission *submission, const char *bytes,
				size_t length, uint64_t id)
{
	_cleanup_spec_ struct spec before;
	_cleanup_spec_ struct spec now;

	spec_init(&before);
	spec_init(&now);

	struct err *err = &submission->err;
	int rc = spec_parse(bytes, length, &before, err);
	if (rc == 0)
		rc = spec_parse(submission->spec, submission->spec_length, &now, err);
	if (rc < 0)
		return err_wrap(err, "comparing with job %" PRIu64, id);

	if (!spec_is_equal(&before, &now))
		return err_set(err, -EEXIST,
			       "the key %s has made job %" PRIu64
			       " already, and that is another one: use a new key for a new job",
			       submission->job->job.key, id);

	submission->id = id;
	submission->known = true;
	return 0;
}

/* 1: the key is new. Otherwise the answer's result. */
static int queue_accept_known(struct queue_accept *accept, size_t place)
{
	struct queue_submission *submission = accept->batch[place];
	const struct job *job = &submission->job->job;
	struct store *store = accept->op.queue->store;
	uint64_t id = 0;
	int rc = store_find_key(store, job->uid, job->key, &id, &submission->err);
	if (rc == 0) {
		_cleanup_free_ char *bytes = NULL;
		size_t length = 0;
		rc = store_spec(store, id, &bytes, &length, &submission->err);
		return rc < 0 ? rc : queue_accept_compare(submission, bytes, length, id);
	}

	if (rc != -ENOENT)
		return rc;

	for (size_t i = 0; i < place; i++) {
		struct queue_submission *other = accept->batch[i];
		if (other->result == 0 && !other->known && !other->twin &&
		    other->job->job.uid == job->uid && strcmp(other->job->job.key, job->key) == 0) {
			submission->twin = other;
			return queue_accept_compare(submission, other->spec, other->spec_length,
						    other->id);
		}
	}

	return 1;
}

/* An array has its numbers in a row: they begin behind all directories that may be anybody's. The
 * members get theirs when they start. */
static int queue_accept_array(struct queue_accept *accept, struct queue_submission *submission)
{
	_cleanup_free_ uint64_t *ids = NULL;
	size_t count = 0;
	int rc = jobdir_list(accept->op.queue->state_fd, &ids, &count, NULL, &submission->err);
	if (rc < 0 && rc != -ENOENT)
		return rc;

	if (rc == 0 && count > 0 && ids[count - 1] >= accept->next_id)
		accept->next_id = ids[count - 1] + 1;

	return 0;
}

static void queue_accept_members(struct queue_accept *accept, struct queue_submission *submission)
{
	uint64_t id = submission->id;

	if (submission->job->job.wants.array_count == 0)
		return;

	submission->job->job.array_id = id;
	for (size_t i = 0; i < submission->other_count; i++) {
		struct job *job = &submission->others[i]->job;
		job->id = id + i + 1;
		job->array_id = id;

		/* No client can have this one. */
		(void)snprintf(job->key, sizeof(job->key), "#%" PRIu64 ".%zu", id,
			       i + 1); /* fits */
		accept->rows[accept->row_count++] = (struct store_accept){.job = job};
	}

	accept->next_id = id + 1 + submission->other_count;
}

static int queue_accept_directory(struct queue_accept *accept, struct queue_submission *submission)
{
	int state_fd = accept->op.queue->state_fd;
	uint64_t id = accept->next_id;
	int rc = jobdir_create(state_fd, id, submission->job->job.uid, &submission->err);

	for (int i = 0; rc == -EEXIST && i < ACCEPT_TRIES_MAX; i++) {
		/* Left by an agent that died before it was accepted: nobody was told of it. But one
		 * in which something ran is a job of a database that is gone: not to be touched. */
		if (!queue_directory_is_void(state_fd, id, false))
			id++;
		else if ((rc = jobdir_remove(state_fd, id, &submission->err)) < 0)
			return rc;

		rc = jobdir_create(state_fd, id, submission->job->job.uid, &submission->err);
	}

	if (rc < 0)
		return rc;

	accept->next_id = id + 1;
	submission->id = submission->job->job.id = id;
	return 0;
}

/* Users leave some of the disk free: what runs has to be entered when it ends. */
static int queue_accept_room(struct queue_accept *accept, struct queue_submission *submission)
{
	struct statvfs disk;

	/* Who does not say how large it is says nothing. */
	if (!submission->is_guest || fstatvfs(accept->op.queue->state_fd, &disk) < 0 ||
	    disk.f_blocks == 0)
		return 0; /* what cannot be written says so */

	uint64_t block = disk.f_frsize, all = disk.f_blocks * block, left = disk.f_bavail * block;
	uint64_t reserve = all / ACCEPT_RESERVE_PART;

	if (reserve > ACCEPT_RESERVE_MAX)
		reserve = ACCEPT_RESERVE_MAX;
	if (left >= reserve && left - reserve >= submission->spec_length)
		return 0;

	return err_set(&submission->err, -EDQUOT,
		       "the disk of '%s' has %" PRIu64 " MiB left, and %" PRIu64
		       " MiB are kept for the jobs that are there: free some of it",
		       accept->op.queue->state_dir, left >> 20, reserve >> 20);
}

static void queue_accept_one(struct queue_accept *accept, size_t place)
{
	struct queue_submission *submission = accept->batch[place];
	submission->result = queue_accept_known(accept, place);
	if (submission->result <= 0)
		return;

	submission->result = 0;
	if (submission->refusal.code < 0) {
		submission->err = submission->refusal;
		submission->result = submission->refusal.code;
		return;
	}

	submission->result = queue_accept_room(accept, submission);
	if (submission->result == 0)
		submission->result =
		    queue_depend_check(accept->op.queue, &submission->job->job, true,
				       &submission->failed, &submission->err);

	if (submission->result == 0 && submission->other_count > 0)
		submission->result = queue_accept_array(accept, submission);
	if (submission->result == 0)
		submission->result = queue_accept_directory(accept, submission);
	crash_point("queue.directory_made");

	if (submission->result < 0)
		return;

	accept->rows[accept->row_count++] = (struct store_accept){
	    .job = &submission->job->job,
	    .spec = submission->spec,
	    .spec_length = submission->spec_length,
	};
	queue_accept_members(accept, submission);
}

/* None of them was accepted. */
static void queue_accept_undo(struct queue_accept *accept, int rc, const struct err *err)
{
	for (size_t i = 0; i < accept->count; i++) {
		struct queue_submission *submission = accept->batch[i];
		if (submission->result < 0 || submission->known || submission->twin)
			continue;

		/* After EIO nobody knows what is on the disk: should the row be there, the job
		 * needs its directory; should it not, the next start removes it. */
		if (rc != -EIO)
			(void)jobdir_remove(accept->op.queue->state_fd, submission->id, NULL);
		submission->result = rc;
		submission->err = *err;
	}

	accept->failed = rc;
}

static int queue_accept_work(struct queue_op *op)
{
	struct queue_accept *accept = (struct queue_accept *)op;
	uint64_t first_id = accept->next_id;

	accept->row_count = 0;
	accept->failed = 0;
	for (size_t i = 0; i < accept->count; i++)
		queue_accept_one(accept, i);

	if (accept->row_count > 0) {
		int rc = jobdir_sync(op->queue->state_fd, &op->err);

		crash_point("queue.directories_durable");
		if (rc == 0)
			rc = store_accept(op->queue->store, accept->rows, accept->row_count,
					  &op->err);

		crash_point("queue.accepted");
		if (rc < 0) {
			accept->next_id = first_id;
			queue_accept_undo(accept, rc, &op->err);
		}
	}

	for (size_t i = 0; i < accept->count; i++) {
		struct queue_submission *submission = accept->batch[i];
		if (submission->twin && submission->twin->result < 0) {
			submission->result = submission->twin->result;
			submission->err = submission->twin->err;
		}
	}

	return 0;
}

/* --- on the loop ----------------------------------------------------------------------------- */

/* There is room for them. */
static void queue_submission_add(struct queue_submission *submission)
{
	struct queue_job *first = submission->job;
	first->spec_bytes = submission->spec_length;
	queue_job_add(take_ptr(submission->job));

	if (submission->failed)
		queue_doom(first, JOB_REASON_DEPENDENCY_FAILED, submission->failed);

	for (size_t i = 0; i < submission->other_count; i++) {
		queue_job_add(submission->others[i]);
		if (submission->failed)
			queue_doom(submission->others[i], JOB_REASON_DEPENDENCY_FAILED,
				   submission->failed);
	}

	submission->other_count = 0;
}

static void queue_accept_done(struct queue_op *op, int rc)
{
	struct queue_accept *accept = (struct queue_accept *)op;
	struct queue *queue = op->queue;

	accept->is_running = false;
	queue->next_id = accept->next_id;

	size_t count = accept->count;
	bool any = false;
	int failed = accept->failed;

	for (size_t i = 0; i < count; i++) {
		struct queue_submission *submission = accept->batch[i];
		if (submission->result == -ENOSPC || submission->result == -EROFS)
			failed = submission->result;
		if (submission->result == 0 && !submission->known) {
			queue_submission_add(submission);
			any = true;
		}
	}

	free(take_ptr(accept->rows));
	if (any) {
		queue_storage_worked(queue);
		queue_change_doomed(queue);
		queue_kick(queue);
		queue_changed(queue);
	}

	if (failed < 0)
		for (size_t i = 0; i < count; i++) {
			if (accept->batch[i]->result == failed &&
			    accept->batch[i]->refusal.code == 0) {
				queue_storage_failed(queue, failed, accept->batch[i]->err.text);
				break;
			}
		}

	for (size_t i = 0; i < count; i++) {
		queue_submission_answer(accept->batch[i]);
		accept->batch[i] = queue_submission_free(accept->batch[i]);
	}

	accept->count = accept->job_count = 0;
	queue_submit_next(queue);
}

static int queue_submission_check(struct queue *queue, struct queue_submission *submission);

/* The other members of an array, which are like the first. */
static int queue_submission_expand(struct queue *queue, struct queue_submission *submission)
{
	struct err *err = &submission->refusal;
	struct job *first = &submission->job->job;
	uint32_t count = first->wants.array_count;
	const char *indices = first->wants.array_indices;

	first->array_index = count > 0 ? indices_at(indices, 0) : 0;
	if (count <= 1)
		return 0;

	submission->others = calloc(count, sizeof(*submission->others));
	if (!submission->others)
		return err_set(err, -ENOMEM, "no memory for %" PRIu32 " jobs", count);

	for (uint32_t i = 1; i < count; i++) {
		struct queue_job *job = queue_job_new(queue, err);
		if (!job)
			return -ENOMEM;

		submission->others[submission->other_count++] = job;
		if (job_copy(first, &job->job) < 0)
			return err_set(err, -ENOMEM, "no memory for %" PRIu32 " jobs", count);

		job->job.array_index = indices_at(indices, i);
		free(take_ptr(job->job.wants.array_indices)); /* the first has them for all */
	}

	return 0;
}

/* How many jobs a submission is. */
static size_t queue_submission_jobs(const struct queue_submission *submission)
{
	uint32_t count = submission->job->job.wants.array_count;
	return count > 0 ? count : 1;
}

/* Room for the batch, or all of it is refused. */
static void queue_accept_reserve(struct queue *queue, struct queue_accept *accept)
{
	struct err err;
	int rc = queue_reserve(queue, accept->job_count, &err);

	accept->rows = calloc(accept->job_count, sizeof(*accept->rows));
	if (rc == 0 && !accept->rows)
		rc = err_set(&err, -ENOMEM, "no memory for %zu jobs", accept->job_count);

	for (size_t i = 0; rc < 0 && i < accept->count; i++)
		if (accept->batch[i]->refusal.code == 0)
			accept->batch[i]->refusal = err;
}

/* Takes the next batch, as far as it can be judged by now. */
void queue_submit_next(struct queue *queue)
{
	struct queue_accept *accept = queue->accept;
	if (accept->is_running || accept->count > 0 || !queue->has_machine || queue->closing)
		return;

	while (queue->submissions && accept->count < STORE_BATCH_MAX) {
		struct queue_submission *submission = queue->submissions;
		if (accept->job_count + queue_submission_jobs(submission) > STORE_ROWS_MAX)
			break;

		queue->submissions = submission->next;
		if (!queue->submissions)
			queue->submissions_end = &queue->submissions;
		if (submission->refusal.code == 0 && queue_submission_check(queue, submission) == 0)
			(void)queue_submission_expand(queue, submission);
		accept->job_count += queue_submission_jobs(submission);
		accept->batch[accept->count++] = submission;
	}

	if (accept->count == 0)
		return;

	queue_accept_reserve(queue, accept);
	accept->op.work = queue_accept_work;
	accept->op.done = queue_accept_done;
	accept->next_id = queue->next_id;
	accept->is_running = true;
	queue_op_submit(queue, &accept->op);
}

/* What the machine says of it: fills `refusal`. */
static int queue_submission_judge(struct queue *queue, struct queue_submission *submission)
{
	struct job *job = &submission->job->job;
	struct err *err = &submission->refusal;

	if (queue->is_stale)
		(void)queue_machine_make(queue);
	if (queue->is_stale)
		return err_set(err, -ENOMEM, "no memory to look at the machine");
	if (submission->gpus_if_any && (!queue->inventory || queue->machine.device_count == 0 ||
					queue->inventory->gpu_count == 0))
		job->gpus = 0;

	job->simulated = job->gpus > 0 && queue->inventory && queue->inventory->simulated;
	if (queue->storage_broken)
		return err_set(err, -EIO, "%s", queue->storage_error);

	job->gpu_limit = queue_member_limit(queue, job->uid);
	return schedule_check(&queue->machine, job, err);
}

/* The same, and what its user has of the queue. */
static int queue_submission_check(struct queue *queue, struct queue_submission *submission)
{
	struct job *job = &submission->job->job;
	struct err *err = &submission->refusal;
	int rc = queue_submission_judge(queue, submission);
	if (rc < 0)
		return rc;

	uint64_t pending = account_held(queue->account, ACCOUNT_PENDING, job->uid);
	size_t jobs = queue_submission_jobs(submission);
	if (pending + jobs > submission->pending_max)
		return err_set(err, -EDQUOT,
			       "%" PRIu64 " jobs of this user are waiting already, of %" PRIu32
			       " that may: more are accepted when some have started",
			       pending, submission->pending_max);

	rc = queue_account_submit(queue, job->uid, jobs, submission->spec_length, err);
	if (rc < 0)
		return rc;

	submission->charged_jobs = jobs;
	submission->charged_bytes = submission->spec_length;
	return 0;
}

static int queue_submission_fill(struct queue_submission *submission,
				 const struct queue_submit *submit, struct err *err)
{
	const struct spec *spec = submit->spec;
	struct job *job = &submission->job->job;
	size_t key_length = submit->key ? strlen(submit->key) : 0;
	if (!submit->dry_run &&
	    (key_length == 0 || key_length >= sizeof(job->key) || submit->key[0] == '#'))
		return err_set(err, -EINVAL, "a job needs a key of 1 to %zu bytes, a UUID",
			       sizeof(job->key) - 1);

	memcpy(job->key, submit->key ? submit->key : "", key_length + 1);
	memcpy(job->name, spec->name, sizeof(job->name));
	job->uid = spec->uid;
	job->state = JOB_PENDING;
	job->gpus = spec->gpus;
	job->share_numerator = spec->share_numerator;
	job->share_denominator = spec->share_denominator;
	job->ignore_outsiders = spec->ignore_outsiders;
	job->submitted_unix_ns = clock_unix_ns();
	submission->gpus_if_any = spec->gpus_if_any;
	if (queue_member_note(submission->job->queue, spec) < 0)
		return err_set(err, -ENOMEM, "no memory for a job");

	submission->pending_max = queue_rules_pending(&submission->job->queue->rules, spec);
	if (spec->wants.hold != WANTS_HOLD_NONE) {
		job->state = JOB_HELD;
		job->reason = spec->wants.hold == WANTS_HOLD_SUSPENDED ? JOB_REASON_SUSPENDED
								       : JOB_REASON_USER;
	}

	submission->no_wait = submit->no_wait;
	submission->done = submit->done;
	submission->context = submit->context;

	int copied = wants_copy(&spec->wants, &job->wants);
	if (copied < 0 || (spec->ids[0] && !(job->ids = strdup(spec->ids))) ||
	    (spec->resources[0] && !(job->resources = strdup(spec->resources))))
		return err_set(err, -ENOMEM, "no memory for a job");

	return spec_format(spec, &submission->spec, &submission->spec_length, err);
}

/* One more that waits for the disk, or for the machine. */
static int queue_submission_queue(struct queue_submission *submission, struct err *err)
{
	struct account *account = submission->queue->account;
	uid_t uid = submission->uid;
	int rc = account_take(account, ACCOUNT_SUBMISSIONS, uid, 1, err);
	if (rc < 0)
		return queue_account_refusal(err);

	rc = account_take(account, ACCOUNT_SUBMISSION_BYTES, uid, submission->spec_length, err);
	if (rc < 0) {
		account_give(account, ACCOUNT_SUBMISSIONS, uid, 1);
		return queue_account_refusal(err);
	}

	submission->is_queued = true;
	bool is_trial = submission->is_dry || submission->no_wait;
	if (is_trial && account_take(account, ACCOUNT_TRIALS, uid, 1, err) < 0)
		return queue_account_refusal(err);

	submission->is_trial = is_trial;
	return 0;
}

static struct queue_submission *
queue_submission_new(struct queue *queue, const struct queue_submit *submit, struct err *err)
{
	if (queue->closing) {
		(void)err_set(err, -ESHUTDOWN, "the agent is ending");
		return NULL;
	}

	if (spec_check(submit->spec, err) < 0)
		return NULL;

	struct queue_submission *submission = calloc(1, sizeof(*submission));
	if (!submission || !(submission->job = queue_job_new(queue, err))) {
		free(submission);
		(void)err_set(err, -ENOMEM, "no memory for a job");
		return NULL;
	}

	submission->queue = queue;
	submission->uid = submit->spec->uid;
	submission->is_dry = submit->dry_run;
	submission->is_guest = !account_is_privileged(queue->account, submission->uid);
	if (queue_submission_fill(submission, submit, err) < 0 ||
	    queue_submission_queue(submission, err) < 0)
		return queue_submission_free(submission);

	return submission;
}

/* Accepts nothing: what would happen. */
static void queue_submit_dry(struct queue *queue, struct queue_submission *submission)
{
	char reason[QUEUE_REASON_MAX] = "";
	struct err *err = &submission->refusal;
	bool starts = true;
	struct job *job = &submission->job->job;
	int rc = queue_submission_check(queue, submission);

	job->id = UINT64_MAX;
	if (rc == 0)
		rc = queue_try(queue, job, &starts, reason, err);
	if (!submission->is_forgotten)
		submission->done(rc, 0, false, rc == 0 ? reason : "", rc < 0 ? err : NULL,
				 submission->context);

	(void)queue_submission_free(submission);
}

static void queue_submit_add(struct queue *queue, struct queue_submission *submission)
{
	*queue->submissions_end = submission;
	queue->submissions_end = &submission->next;
	queue_submit_next(queue);
}

void queue_submission_try(struct queue *queue, struct queue_submission *submission)
{
	if (submission->is_dry) {
		queue_submit_dry(queue, submission);
		return;
	}

	struct job *job = &submission->job->job;
	struct err *err = &submission->refusal;
	char reason[QUEUE_REASON_MAX];
	bool starts = true;
	int rc = queue_submission_judge(queue, submission);

	job->id = UINT64_MAX; /* behind all others */
	if (rc == 0)
		rc = queue_try(queue, job, &starts, reason, err);
	job->id = 0;

	if (rc == 0 && !starts)
		(void)err_set(err, -EAGAIN, "it would have to wait: %s", reason);
	account_give(queue->account, ACCOUNT_TRIALS, submission->uid, 1);
	submission->is_trial = false;
	queue_submit_add(queue, submission);
}

void queue_submit(struct queue *queue, const struct queue_submit *submit)
{
	struct err err = {.code = 0};
	struct queue_submission *submission = queue_submission_new(queue, submit, &err);
	if (!submission) {
		submit->done(err.code, 0, false, "", &err, submit->context);
		return;
	}

	if (submission->is_trial) {
		queue_trial_add(queue, submission);
		return;
	}

	queue_submit_add(queue, submission);
}

void queue_submit_forget(struct queue *queue, void *context)
{
	for (struct queue_submission *at = queue->submissions; at; at = at->next) {
		if (at->context == context)
			at->is_forgotten = true;
	}

	for (struct queue_submission *at = queue->trials; at; at = at->next) {
		if (at->context == context)
			at->is_forgotten = true;
	}

	for (size_t i = 0; i < queue->accept->count; i++) {
		if (queue->accept->batch[i] && queue->accept->batch[i]->context == context)
			queue->accept->batch[i]->is_forgotten = true;
	}
}

int queue_submit_init(struct queue *queue, struct err *err)
{
	queue->submissions_end = &queue->submissions;
	queue->trials_end = &queue->trials;
	queue->accept = calloc(1, sizeof(*queue->accept));
	return queue->accept ? 0 : err_set(err, -ENOMEM, "no memory for the queue");
}

/* The end of the agent: those that were not handed in yet are refused. */
void queue_submit_clear(struct queue *queue)
{
	*queue->submissions_end = queue->trials;
	queue->trials = NULL;
	while (queue->submissions) {
		struct queue_submission *submission = queue->submissions;
		queue->submissions = submission->next;
		submission->result = err_set(&submission->err, -ESHUTDOWN, "the agent is ending");
		queue_submission_answer(submission);
		(void)queue_submission_free(submission);
	}

	queue->submissions_end = &queue->submissions;
	free(queue->accept->rows);
	free(take_ptr(queue->accept));
}
