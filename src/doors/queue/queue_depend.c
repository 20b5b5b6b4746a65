/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Jobs that wait for others, and members of an array that end together. Whom a job waits for stands
 * in what it wants; that it is over is that the other is not among the jobs in memory any more.
 * What cannot start any more is doomed: marked here, and cancelled by queue_change.c. A job is
 * forgotten only after those that wait for it know how it ended, so that one that is not there has
 * ended well.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "doors/queue/queue_internal.h"

/* Bytes of a list of jobs that is read at each pass: thousands of jobs may each wait for hundreds.
 */
enum { DEPEND_SHORT = 64 };

static int depend_compare_ids(const void *left, const void *right)
{
	uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
	return a < b ? -1 : a > b;
}

/* Whether the job of that number has not ended; of the first of an array: any of its members. */
static bool depend_is_live(const struct queue *queue, uint64_t id)
{
	size_t at = queue_place_of(queue, id);
	if (at >= queue->count)
		return false;
	const struct job *job = &queue->jobs[at]->job;
	return job->id == id || job->array_id == id;
}

bool queue_depends(const struct queue *queue, const struct job *job, char out[JOB_REASON_MAX])
{
	const char *list = job->wants.after;
	struct wants_after after;
	size_t length = 0;

	out[0] = '\0';
	while (wants_next_after(&list, &after, NULL) > 0) {
		if (!depend_is_live(queue, after.id))
			continue;

		int added = snprintf(out + length, JOB_REASON_MAX - length, "%s%" PRIu64,
				     length > 0 ? ", " : "", after.id);
		if (added < 0 || (size_t)added >= JOB_REASON_MAX - length - sizeof(", ...")) {
			(void)snprintf(out + length, JOB_REASON_MAX - length, ", ...");
			return true; /* enough of them are named */
		}

		length += (size_t)added;
	}

	return length > 0;
}

bool queue_depends_still(struct queue_job *job, char out[JOB_REASON_MAX])
{
	const struct queue *queue = job->queue;
	const char *list = job->job.wants.after;
	struct wants_after after;
	bool is_said = job->job.state == JOB_PENDING && job->job.reason == JOB_REASON_DEPENDENCY;

	out[0] = '\0';
	if (is_said && job->waits_for > 0 && depend_is_live(queue, job->waits_for))
		return true;

	job->waits_for = 0;
	bool is_long = strnlen(list, DEPEND_SHORT) == DEPEND_SHORT;
	while (is_long && job->waits_for == 0 && wants_next_after(&list, &after, NULL) > 0)
		if (depend_is_live(queue, after.id))
			job->waits_for = after.id;

	return queue_depends(queue, &job->job, out);
}

static bool depend_array_succeeded(const struct job *member, const struct store_array *array)
{
	if (member->wants.array == WANTS_ARRAY_WORK_QUEUE && array->succeeded > 0)
		return true;
	return array->failed == 0 && array->cancelled == 0;
}

/* Whether the array has failed as a whole. */
static bool queue_array_has_failed(const struct job *member, const struct store_array *array)
{
	if (member->array_id == 0 || member->wants.array_apart || array->failed == 0)
		return false;
	return member->wants.array != WANTS_ARRAY_WORK_QUEUE || array->succeeded == 0;
}

void queue_doom(struct queue_job *job, enum job_reason reason, uint64_t by)
{
	struct queue *queue = job->queue;
	if (job->doom != JOB_REASON_NONE)
		return;
	job->doom = reason;
	job->doom_by = by;
	queue->doomed++;
	queue->depending -= job->job.wants.after != NULL;
}

/* Members of its own array are called as their user knows them: 17.3. */
void queue_doom_text(const struct queue_job *job, char *out, size_t room)
{
	uint64_t array = job->job.array_id;
	if (array > 0 && job->doom_by > array && job->doom_by - array < WANTS_ARRAY_MAX &&
	    job->doom == JOB_REASON_BACKOFF_LIMIT_EXCEEDED)
		(void)snprintf(out, room, "%" PRIu64 ".%" PRIu64, array, job->doom_by - array);
	else
		(void)snprintf(out, room, "%" PRIu64, job->doom_by);
}

/* What runs, or is about to, is cancelled as by anybody. */
void queue_doom_running(struct queue *queue)
{
	for (size_t i = 0; i < queue->count; i++) {
		struct queue_job *job = queue->jobs[i];
		struct queue_run *run = job->run;
		char text[QUEUE_BY_MAX];

		if (job->doom == JOB_REASON_NONE || !run)
			continue;
		if (run->cancel_reason == JOB_REASON_NONE)
			run->cancel_reason = job->doom;
		if (run->cancel_wanted)
			continue;

		queue_doom_text(job, text, sizeof(text));
		queue_cancel(queue, job->job.id, 0, false, 0, text, NULL, NULL);
	}
}

/* Whom its list has wait for the success of one of `failed`, which are in their order; 0: nobody.
 */
static uint64_t depend_failed_of(const struct job *job, const uint64_t *failed, size_t count)
{
	const char *list = job->wants.after;
	struct wants_after after;
	while (wants_next_after(&list, &after, NULL) > 0)
		if (after.has_to_succeed &&
		    bsearch(&after.id, failed, count, sizeof(*failed), depend_compare_ids))
			return after.id;
	return 0;
}

static void depend_doom_waiting(struct queue *queue, const uint64_t *failed, size_t count)
{
	uint64_t array_id = 0, by = 0;

	for (size_t i = 0; i < queue->count && queue->depending > 0; i++) {
		struct queue_job *job = queue->jobs[i];
		if (job->doom != JOB_REASON_NONE || !job->job.wants.after)
			continue;

		/* All members of an array wait for the same. */
		if (array_id == 0 || job->job.array_id != array_id)
			by = depend_failed_of(&job->job, failed, count);
		array_id = job->job.array_id;
		if (by)
			queue_doom(job, JOB_REASON_DEPENDENCY_FAILED, by);
	}
}

/*
 * The job `id`, or the array, has failed: those that wait for its success cannot start. They are
 * looked for before the next pass, for all that have failed until then at once: ten thousand jobs
 * can end together, and as many wait for hundreds each.
 */
static void depend_tell(struct queue *queue, uint64_t id, bool has_succeeded)
{
	if (has_succeeded || queue->depending == 0)
		return;

	if (array_room(&queue->failed, queue->failed_count, &queue->failed_room, 16) < 0) {
		depend_doom_waiting(queue, &id, 1);
		return;
	}

	queue->failed[queue->failed_count++] = id;
	queue_kick(queue);
}

void queue_depend_settle(struct queue *queue)
{
	size_t count = queue->failed_count;
	if (count == 0)
		return;
	qsort(queue->failed, count, sizeof(*queue->failed), depend_compare_ids);
	depend_doom_waiting(queue, queue->failed, count);
	queue->failed_count = queue->failed_room = 0;
	free(take_ptr(queue->failed));
}

/* All members that have not ended. */
static void depend_doom_array(struct queue *queue, uint64_t array_id, uint64_t by)
{
	for (size_t i = queue_place_of(queue, array_id);
	     i < queue->count && queue->jobs[i]->job.array_id == array_id; i++)
		queue_doom(queue->jobs[i], JOB_REASON_BACKOFF_LIMIT_EXCEEDED, by);
}

void queue_depend_ended(struct queue *queue, const struct job *ended,
			const struct store_array *array)
{
	bool is_member = ended->array_id > 0;
	if (!is_member || ended->array_id != ended->id)
		depend_tell(queue, ended->id, ended->state == JOB_SUCCEEDED);

	if (is_member && array->count > 0) {
		if (array->live == 0)
			depend_tell(queue, ended->array_id, depend_array_succeeded(ended, array));
		else if (ended->state == JOB_FAILED && queue_array_has_failed(ended, array))
			depend_doom_array(queue, ended->array_id, ended->id);
	}

	queue_change_doomed(queue);
}

/* --- what is stored -------------------------------------------------------------------------- */

struct depend_found {
	bool is_found, is_final, has_succeeded;
	uint64_t array_id;
	bool is_work_queue;
};

static int depend_found(const struct job *job, const char *grants, const char *observations,
			void *context)
{
	struct depend_found *found = context;
	*found = (struct depend_found){
	    .is_found = true,
	    .is_final = job_state_is_final(job->state),
	    .has_succeeded = job->state == JOB_SUCCEEDED,
	    .array_id = job->array_id,
	    .is_work_queue = job->wants.array == WANTS_ARRAY_WORK_QUEUE,
	};
	return 0;
}

static int depend_look(struct store *store, uint64_t id, struct depend_found *out, struct err *err)
{
	*out = (struct depend_found){.is_found = false};
	int rc = store_get(store, id, depend_found, out, err);
	if (rc == -ENOENT)
		return 0;
	if (rc < 0 || out->array_id != id)
		return rc;

	struct store_array array = {.count = 0};
	const struct job member = {.array_id = id,
				   .wants.array = out->is_work_queue ? WANTS_ARRAY_WORK_QUEUE
								     : WANTS_ARRAY_PLAIN};

	rc = store_array(store, id, &array, err);
	out->is_final = array.live == 0;
	out->has_succeeded = depend_array_succeeded(&member, &array);

	return rc;
}

int queue_depend_check(struct queue *queue, const struct job *job, bool is_new,
		       uint64_t *out_failed, struct err *err)
{
	const char *list = job->wants.after;
	struct wants_after after;
	uint64_t failed = 0;
	int more;

	while ((more = wants_next_after(&list, &after, err)) > 0) {
		struct depend_found found;
		int rc = depend_look(queue->store, after.id, &found, err);
		if (rc < 0)
			return rc;
		if (!found.is_found && is_new)
			return err_set(err, -EINVAL,
				       "there is no job %" PRIu64 " that this one could wait for",
				       after.id);

		if (found.is_found && found.is_final && after.has_to_succeed &&
		    !found.has_succeeded && failed == 0)
			failed = after.id;
	}

	if (more < 0)
		return more;

	*out_failed = failed;
	return 0;
}

int queue_depend_load(struct queue *queue, struct err *err)
{
	uint64_t array_id = 0, failed = 0;

	for (size_t i = 0; i < queue->count; i++) {
		struct queue_job *job = queue->jobs[i];
		bool is_next = array_id > 0 && job->job.array_id == array_id;
		int rc = 0;

		if (!is_next) { /* all members of an array wait for the same */
			failed = 0;
			rc = queue_depend_check(queue, &job->job, false, &failed, err);
		}

		if (rc < 0)
			return err_wrap(err, "looking for whom job %" PRIu64 " waits", job->job.id);
		if (failed && job->phase == QUEUE_WAITING)
			queue_doom(job, JOB_REASON_DEPENDENCY_FAILED, failed);
		array_id = job->job.array_id;
		if (array_id == 0 || is_next)
			continue;

		struct store_array array;
		rc = store_array(queue->store, array_id, &array, err);
		if (rc < 0)
			return rc;
		if (queue_array_has_failed(&job->job, &array))
			depend_doom_array(queue, array_id, array_id);
	}

	return 0;
}
