/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changing jobs that wait: held, released, of another priority or environment, cancelled because of
 * others; and final ones that begin anew (queue_again.c). One change after the other, each one
 * transaction: a job is told of it when it is durable. While that is under way nothing else is done
 * with the jobs that it is about, so that none of them starts as what it was.
 */
#include "doors/queue/queue_change.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/crash.h"
#include "base/log.h"
#include "doors/queue/queue_internal.h"

static void change_clear(struct queue_change *change)
{
	for (size_t i = 0; i < change->count; i++)
		job_done(&change->jobs[i]);

	free(take_ptr(change->jobs));
	free(take_ptr(change->rows));
	free(take_ptr(change->arrays));
	free(take_ptr(change->spec));
	free(take_ptr(change->sizes));
	change->count = change->room = 0;
}

static struct queue_change *change_free(struct queue_change *change)
{
	if (!change)
		return NULL;
	if (change->is_counted)
		account_give(change->op.queue->account, ACCOUNT_CHANGES, change->uid, 1);
	change_clear(change);

	for (size_t i = 0; change->environment && i < change->edit.environment_count; i++)
		free(change->environment[i]);

	free(change->environment);
	rights_done(&change->rights);
	queue_set_done(change);
	free(change);

	return NULL;
}

static void change_next(struct queue *queue);

void queue_change_over(struct queue_change *change, int rc, size_t changed, const struct err *err)
{
	struct queue *queue = change->op.queue;
	queue->changes = change->next;
	if (!queue->changes)
		queue->changes_end = &queue->changes;
	if (change->done)
		change->done(rc, changed, rc < 0 ? err : NULL, change->context);
	(void)change_free(change);
	change_next(queue);
}

int queue_change_room(struct queue_change *change, size_t room, struct err *err)
{
	change->jobs = calloc(room + 1, sizeof(*change->jobs));
	change->rows = calloc(room + 1, sizeof(*change->rows));
	change->arrays = calloc(room + 1, sizeof(*change->arrays));
	change->room = room;
	if (!change->jobs || !change->rows || !change->arrays)
		return err_set(err, -ENOMEM, "no memory to change %zu jobs", room);
	return 0;
}

/* A copy of the job, to be made what it is to become; NULL: no memory. */
struct job *queue_change_add(struct queue_change *change, const struct job *job, struct err *err)
{
	struct job *copy = &change->jobs[change->count];
	if (change->count >= change->room || job_copy(job, copy) < 0) {
		(void)err_set(err, -ENOMEM, "no memory to change job %" PRIu64, job->id);
		return NULL;
	}
	change->rows[change->count++].job = copy;
	return copy;
}

/* --- on the storage thread ------------------------------------------------------------------- */

static bool change_same_variable(const char *a, const char *b)
{
	size_t length = strcspn(a, "=");
	return strncmp(a, b, length) == 0 && b[length] == '=';
}

static int change_set_variable(struct spec *spec, const char *text, struct err *err)
{
	bool has_image = spec->image[0] != '\0';
	char **list = has_image ? spec->image_environment : spec->environment;
	size_t count = has_image ? spec->image_environment_count : spec->environment_count;

	for (size_t i = 0; i < count; i++) {
		if (!change_same_variable(text, list[i]))
			continue;

		char *copy = strdup(text);
		if (!copy)
			return err_set(err, -ENOMEM, "no memory for a variable");

		free(list[i]);
		list[i] = copy;
		return 0;
	}

	return has_image ? spec_add_image_variable(spec, text, err)
			 : spec_add_variable(spec, text, err);
}

/* What the job, or all members of the array, run from now on. */
static int change_make_spec(struct queue_change *change, struct err *err)
{
	_cleanup_free_ char *bytes = NULL;
	size_t length = 0;
	_cleanup_spec_ struct spec spec;

	spec_init(&spec);
	struct store *store = change->op.queue->store;
	int rc = store_spec(store, change->jobs[0].id, &bytes, &length, err);
	if (rc == 0)
		rc = spec_parse(bytes, length, &spec, err);

	for (size_t i = 0; rc == 0 && i < change->edit.environment_count; i++)
		rc = change_set_variable(&spec, change->environment[i], err);

	if (rc == 0 && change->has_rights)
		rc = rights_lower(&spec, &change->rights, err);
	if (rc == 0)
		rc = spec_check(&spec, err);
	if (rc == 0)
		rc = spec_format(&spec, &change->spec, &change->spec_length, err);
	change->rows[0].spec = change->spec;
	change->rows[0].spec_length = change->spec_length;

	return rc;
}

static int change_work(struct queue_op *op)
{
	struct queue_change *change = (struct queue_change *)op;
	struct store *store = op->queue->store;
	int rc = 0;

	if (change->edit.environment_count > 0)
		rc = change_make_spec(change, &op->err);
	crash_point("queue.before_change");
	if (rc == 0)
		rc = store_change(store, change->rows, change->count, &op->err);
	crash_point("queue.change_stored");

	for (size_t i = 0; rc == 0 && i < change->count; i++) {
		const struct job *job = &change->jobs[i];
		bool is_same = i > 0 && job->array_id == change->jobs[i - 1].array_id;

		if (job->array_id == 0 || !job_state_is_final(job->state))
			continue;
		if (is_same)
			change->arrays[i] = change->arrays[i - 1];
		else /* else it is judged when the agent starts again */
			(void)store_array(store, job->array_id, &change->arrays[i], NULL);
	}

	return rc;
}

/* --- on the loop ----------------------------------------------------------------------------- */

void queue_change_failed(struct queue *queue, int rc, const char *text)
{
	if (rc == -ENOSPC || rc == -EROFS || rc == -EIO || rc == -EDQUOT)
		queue_storage_failed(queue, rc, text);
}

/* One of the jobs is what it was to become. */
static void change_apply(struct queue *queue, struct job *now, const struct store_array *array)
{
	struct queue_job *job = queue_job_find(queue, now->id);
	if (!job)
		return;

	job->is_changing = false;
	if (job_state_is_final(now->state)) {
		queue_job_ended(job, now, array, true);
		return;
	}

	struct wants wants = job->job.wants;
	job->job.wants = now->wants;
	now->wants = wants;
	queue_job_set_why(job, now->state, now->reason, now->reason_text, now->reason_detail);
	queue_step(job);
}

/* A cancel of an array is over when the last of its members is. */
static void change_cancel_over(struct queue_change *change)
{
	if (change->is_stored && change->running == 0)
		queue_change_over(change, change->result, change->cancelled, &change->failure);
}

static void change_done(struct queue_op *op, int rc)
{
	struct queue_change *change = (struct queue_change *)op;
	struct queue *queue = op->queue;
	size_t count = change->count;

	for (size_t i = 0; i < count; i++) {
		struct queue_job *job = queue_job_find(queue, change->jobs[i].id);
		if (job)
			job->is_changing = false;
	}

	if (queue->closing) {
		change->is_stored = true;
		change->result = err_set(&change->failure, -ESHUTDOWN, "the agent is ending");
		change_cancel_over(change); /* else when those that run are answered */
		return;
	}

	if (rc == 0) {
		struct queue_job *first = queue_job_find(queue, change->jobs[0].id);

		queue_storage_worked(queue);
		if (change->spec && first)
			queue_account_bytes(first, change->spec_length);

		for (size_t i = 0; i < count; i++) {
			struct queue_job *job = queue_job_find(queue, change->jobs[i].id);
			if (change->kind != CHANGE_LIMIT)
				change_apply(queue, &change->jobs[i], &change->arrays[i]);
			else if (job)
				queue_limit_apply(job, change->jobs[i].wants.time_ns);
		}
	} else {
		queue_change_failed(queue, rc, op->err.text);

		for (size_t i = 0; i < count; i++) {
			struct queue_job *job = queue_job_find(queue, change->jobs[i].id);
			if (job)
				queue_step(job); /* somebody may have cancelled it */
		}

		if (change->kind == CHANGE_DOOM && rc != -ENOSPC && rc != -EROFS)
			log_write(queue->options.log, LOG_LEVEL_WARNING, NULL,
				  "cancelling jobs: %s", op->err.text);
	}

	if (rc < 0 && change->kind == CHANGE_DOOM) /* a pass would try it again at once */
		loop_timer_start(queue->backoff_timer, QUEUE_RETRY_MAX_NS);
	else
		queue_kick(queue);

	if (change->kind == CHANGE_CANCEL) {
		change->is_stored = true;
		change->cancelled += rc == 0 ? count : 0;
		change->result = rc < 0 ? rc : change->result;
		change->failure = rc < 0 ? op->err : change->failure;
		change_cancel_over(change);

		return;
	}

	queue_change_over(change, rc, count, &op->err);
}

/* Why a job cannot be changed now; 0 when it can. */
static int change_refusal(const struct queue_change *change, const struct queue_job *job,
			  struct err *err)
{
	if (job->phase != QUEUE_WAITING || job->run)
		return err_set(err, -EBUSY,
			       "job %" PRIu64 " is %s: only one that waits can be changed",
			       job->job.id, job_state_to_string(job->job.state));

	if (job->doom != JOB_REASON_NONE)
		return err_set(err, -EBUSY, "job %" PRIu64 " is being cancelled", job->job.id);
	if (change->edit.environment_count > 0 && job->job.attempt > 0)
		return err_set(err, -EBUSY,
			       "job %" PRIu64 " has been started already: its variables stay",
			       job->job.id);

	return 0;
}

static void change_edit_job(const struct queue_change *change, struct job *job)
{
	const struct queue_edit *edit = &change->edit;
	if (edit->has_priority)
		job->wants.priority = edit->priority;

	if (edit->has_begin) {
		job->wants.begin_unix_ns = edit->begin_unix_ns;
		if (job->reason == JOB_REASON_BEGIN_TIME)
			job_set_reason(job, JOB_REASON_NONE, NULL, NULL);
	}

	if (edit->hold == QUEUE_EDIT_HOLD && job->state != JOB_HELD) {
		job->wants.hold = WANTS_HOLD_USER;
		job->state = JOB_HELD;
		job_set_reason(job, JOB_REASON_USER, change->by, NULL);
	} else if (edit->hold == QUEUE_EDIT_RELEASE && job->state == JOB_HELD) {
		job->wants.hold = WANTS_HOLD_NONE;
		job->state = JOB_PENDING;
		job_set_reason(job, JOB_REASON_NONE, NULL, NULL);
	}
}

void queue_change_span(const struct queue_change *change, size_t *out_first, size_t *out_end)
{
	const struct queue *queue = change->op.queue;
	size_t first = queue_place_of(queue, change->id), end = first;
	while (end < queue->count &&
	       (queue->jobs[end]->job.id == change->id ||
		(!change->member_alone && queue->jobs[end]->job.array_id == change->id)))
		end++;

	*out_first = first;
	*out_end = end;
}

/* Those of a set that can be changed. */
static int change_edit_set(struct queue_change *change, struct err *err)
{
	int rc = queue_change_room(change, change->set.count, err);

	for (size_t i = 0; rc == 0 && i < change->set.count; i++) {
		struct err refusal = {.code = 0};
		struct queue_job *job = queue_set_job(change, i);
		if (!job)
			continue;

		if (change_refusal(change, job, &refusal) < 0) {
			queue_set_refuse(change, job->job.id, &refusal);
			continue;
		}

		struct job *copy = queue_change_add(change, &job->job, err);
		if (copy)
			change_edit_job(change, copy);
		rc = copy ? 0 : -ENOMEM;
	}

	return rc;
}

static int change_edit_begin(struct queue_change *change, struct err *err)
{
	if (change->set.ids)
		return change_edit_set(change, err);

	struct queue *queue = change->op.queue;
	size_t first, end;

	queue_change_span(change, &first, &end);

	int rc = queue_change_room(change, end - first, err);
	struct err refusal = {.code = 0};
	size_t refused = 0;

	for (size_t i = first; rc == 0 && i < end; i++) {
		struct queue_job *job = queue->jobs[i];
		if (change_refusal(change, job, &refusal) < 0) {
			refused++;
			continue;
		}

		struct job *copy = queue_change_add(change, &job->job, err);
		if (copy)
			change_edit_job(change, copy);
		rc = copy ? 0 : -ENOMEM;
	}

	if (rc < 0)
		return rc;
	if (first == end)
		return err_set(err, -ESRCH, "job %" PRIu64 " is not there, or has ended",
			       change->id);
	if (change->count == 0) {
		*err = refusal;
		return refusal.code;
	}

	uint64_t more = 0;
	for (size_t i = 0; i < change->edit.environment_count; i++)
		more += strlen(change->environment[i]);

	if (more > 0 && account_check(queue->account, ACCOUNT_PENDING_BYTES, change->jobs[0].uid,
				      more, err) < 0)
		return queue_account_refusal(err);

	/* An array has one environment. */
	const struct job *job = &change->jobs[0];
	if (change->edit.environment_count > 0 && job->array_id > 0 &&
	    (refused > 0 || change->count < job->wants.array_count))
		return err_set(err, -EBUSY,
			       "the variables of an array are set for all of it, and before "
			       "any of it starts");

	return 0;
}

static int change_doom_begin(struct queue_change *change, struct err *err)
{
	struct queue *queue = change->op.queue;
	int rc = queue_change_room(change, queue->doomed, err);

	for (size_t i = 0; rc == 0 && i < queue->count; i++) {
		struct queue_job *job = queue->jobs[i];
		char text[32];

		if (job->doom == JOB_REASON_NONE || job->phase != QUEUE_WAITING || job->run)
			continue;

		struct job *copy = queue_change_add(change, &job->job, err);
		if (!copy)
			return -ENOMEM;

		queue_doom_text(job, text, sizeof(text));
		copy->state = JOB_CANCELLED;
		copy->started_unix_ns = 0;
		copy->ended_unix_ns = clock_unix_ns();
		job_set_reason(copy, job->doom, job->doom_by ? text : change->by, NULL);
	}

	return rc;
}

static void change_cancelled(int rc, enum job_state state, bool was_final, const struct err *err,
			     void *context)
{
	struct queue_change *change = context;
	change->running--;
	change->cancelled += rc == 0;

	if (rc < 0) {
		change->result = rc;
		if (err)
			change->failure = *err;
	}

	change_cancel_over(change);
}

/* What waits ends in one transaction; what runs is told one by one. */
static int change_cancel_begin(struct queue_change *change, struct err *err)
{
	struct queue *queue = change->op.queue;
	size_t first = change->set.ids ? 0 : queue_place_of(queue, change->id);
	size_t end = change->set.ids ? change->set.count : first;
	while (!change->set.ids && end < queue->count &&
	       queue->jobs[end]->job.array_id == change->id)
		end++;

	int rc = queue_change_room(change, end - first, err);

	change->running = 1; /* none of them is the last before all have begun */
	for (size_t i = first; rc == 0 && i < end; i++) {
		struct queue_job *job = change->set.ids ? queue_set_job(change, i) : queue->jobs[i];
		if (!job)
			continue;

		if (job->phase != QUEUE_WAITING || job->run) {
			change->running++;
			queue_cancel(queue, job->job.id, change->signo, change->has_grace,
				     change->grace_ns, change->by, change_cancelled, change);
			continue;
		}

		struct job *copy = queue_change_add(change, &job->job, err);
		if (!copy) {
			rc = -ENOMEM;
			break;
		}

		copy->state = JOB_CANCELLED;
		copy->started_unix_ns = 0;
		copy->ended_unix_ns = clock_unix_ns();
		job_set_reason(copy, JOB_REASON_USER, change->by, NULL);
	}

	change->running--;
	return rc;
}

/* Puts first the first of another user than the last one's, if there is one. */
static void change_turn(struct queue *queue)
{
	struct queue_change **at = &queue->changes, *change;
	while (*at && account_owner(queue->account, (*at)->uid) == queue->change_owner)
		at = &(*at)->next;

	if (*at && at != &queue->changes) {
		change = *at;
		*at = change->next;
		if (queue->changes_end == &change->next)
			queue->changes_end = at;
		change->next = queue->changes;
		queue->changes = change;
	}

	queue->change_owner = account_owner(queue->account, queue->changes->uid);
}

/* Begins the next, if none is under way. */
static void change_next(struct queue *queue)
{
	if (queue->changes && !queue->changes->op.work && !queue->closing)
		change_turn(queue);

	struct queue_change *change = queue->changes;
	if (!change || change->op.work || queue->closing)
		return;

	struct err err = {.code = 0};
	int rc = 0;

	change->op.queue = queue;
	change->op.work = change->kind == CHANGE_AGAIN ? queue_again_look : change_work;
	change->op.done = change->kind == CHANGE_AGAIN ? queue_again_looked : change_done;
	if (change->kind == CHANGE_EDIT)
		rc = change_edit_begin(change, &err);
	else if (change->kind == CHANGE_DOOM)
		rc = change_doom_begin(change, &err);
	else if (change->kind == CHANGE_CANCEL)
		rc = change_cancel_begin(change, &err);
	else if (change->kind == CHANGE_LIMIT)
		rc = queue_limit_begin(change, &err);

	if (change->kind == CHANGE_CANCEL && (rc < 0 || change->count == 0)) {
		change->is_stored = true;
		change->result = rc < 0 ? rc : change->result;
		change->failure = rc < 0 ? err : change->failure;
		change_clear(change);
		change_cancel_over(change);

		return;
	}

	if (rc < 0 || (change->kind != CHANGE_AGAIN && change->count == 0)) {
		queue_change_over(change, rc, 0, &err);
		return;
	}

	for (size_t i = 0; i < change->count; i++)
		queue_job_find(queue, change->jobs[i].id)->is_changing = true;

	queue_op_submit(queue, &change->op);
}

/* Of the user `uid`, who has so many waiting at most. */
void queue_change_submit(struct queue *queue, struct queue_change *change, uid_t uid)
{
	struct err err = {.code = 0};
	bool is_asked = change->kind != CHANGE_DOOM;

	change->op.queue = queue;
	change->uid = uid;

	if (is_asked && account_take(queue->account, ACCOUNT_CHANGES, uid, 1, &err) < 0) {
		change->done(queue_account_refusal(&err), 0, &err, change->context);
		(void)change_free(change);
		return;
	}

	change->is_counted = is_asked;
	*queue->changes_end = change;
	queue->changes_end = &change->next;
	if (queue->changes == change)
		change_next(queue);
}

struct queue_change *queue_change_new(enum queue_change_kind kind, uint64_t id, bool member_alone,
				      const char *by, queue_changed_fn *done, void *context)
{
	struct queue_change *change = calloc(1, sizeof(*change));
	struct err err;

	if (!change && done)
		done(err_set(&err, -ENOMEM, "no memory to change job %" PRIu64, id), 0, &err,
		     context);
	if (!change)
		return NULL;

	change->kind = kind;
	change->id = id;
	change->member_alone = member_alone;
	change->done = done;
	change->context = context;
	(void)snprintf(change->by, sizeof(change->by), "%s", by ? by : "");

	return change;
}

static int change_copy_edit(struct queue_change *change, const struct queue_edit *edit)
{
	change->edit = *edit;
	change->edit.environment = NULL;
	change->edit.environment_count = 0;
	change->edit.rights = NULL;
	if (edit->rights && rights_copy(edit->rights, &change->rights) < 0)
		return -ENOMEM;

	change->has_rights = edit->rights != NULL;
	change->environment = calloc(edit->environment_count + 1, sizeof(char *));
	if (!change->environment)
		return -ENOMEM;

	for (size_t i = 0; i < edit->environment_count; i++) {
		change->environment[i] = strdup(edit->environment[i]);
		if (!change->environment[i])
			return -ENOMEM;
		change->edit.environment_count++;
	}

	return 0;
}

void queue_edit(struct queue *queue, uid_t uid, uint64_t id, bool member_alone,
		const struct queue_edit *edit, const char *by, queue_changed_fn *done,
		void *context)
{
	struct queue_change *change =
	    queue_change_new(CHANGE_EDIT, id, member_alone, by, done, context);
	struct err err;

	if (!change)
		return;
	if (change_copy_edit(change, edit) == 0) {
		queue_change_submit(queue, change, uid);
		return;
	}

	(void)change_free(change);
	done(err_set(&err, -ENOMEM, "no memory to change job %" PRIu64, id), 0, &err, context);
}

void queue_limit_change(struct queue *queue, uid_t uid, uint64_t id, bool member_alone,
			const struct queue_limit *limit, queue_changed_fn *done, void *context)
{
	struct queue_change *change =
	    queue_change_new(CHANGE_LIMIT, id, member_alone, "", done, context);
	if (!change)
		return;
	change->limit = *limit;
	queue_change_submit(queue, change, uid);
}

void queue_cancel_array(struct queue *queue, uid_t uid, uint64_t array_id, int signo,
			bool has_grace, uint64_t grace_ns, const char *by, queue_changed_fn *done,
			void *context)
{
	struct queue_change *change =
	    queue_change_new(CHANGE_CANCEL, array_id, false, by, done, context);
	if (!change)
		return;
	change->signo = signo;
	change->has_grace = has_grace;
	change->grace_ns = grace_ns;
	queue_change_submit(queue, change, uid);
}

void queue_retry(struct queue *queue, uid_t uid, uint64_t id, bool member_alone,
		 queue_changed_fn *done, void *context)
{
	struct queue_change *change =
	    queue_change_new(CHANGE_AGAIN, id, member_alone, "", done, context);
	if (change)
		queue_change_submit(queue, change, uid);
}

void queue_change_doomed(struct queue *queue)
{
	/* Each failure has a pass made: what cannot be written is tried again after the pause. */
	if (queue->doomed == 0 || queue->closing || queue->storage_paused)
		return;

	queue_doom_running(queue);

	for (const struct queue_change *at = queue->changes; at; at = at->next)
		if (at->kind == CHANGE_DOOM && !at->op.work)
			return; /* it will find them */

	struct queue_change *change = queue_change_new(CHANGE_DOOM, 0, false, "", NULL, NULL);
	if (change)
		queue_change_submit(queue, change, 0);
	else /* looks again */
		loop_timer_start(queue->backoff_timer, QUEUE_RETRY_MAX_NS);
}

void queue_change_forget(struct queue *queue, void *context)
{
	for (struct queue_change *at = queue->changes; at; at = at->next)
		if (at->context == context)
			at->done = NULL;
}

void queue_change_init(struct queue *queue)
{
	queue->changes_end = &queue->changes;
}

/* The end of the agent: those that were not begun are refused. */
void queue_change_clear(struct queue *queue)
{
	struct err err;

	while (queue->changes) {
		struct queue_change *change = queue->changes;
		queue->changes = change->next;

		if (change->done)
			change->done(err_set(&err, -ESHUTDOWN, "the agent is ending"), 0, &err,
				     change->context);

		(void)change_free(change);
	}

	queue->changes_end = &queue->changes;
}
