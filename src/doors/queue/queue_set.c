/* SPDX-License-Identifier: Apache-2.0 */
/* Changes of many jobs in one transaction: which of a set may be changed, and who is told of those
 * that stay as they are. What is done to the others is in queue_change.c and queue_again.c. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "doors/queue/queue_change.h"

static int set_compare(const void *left, const void *right)
{
	uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
	return a < b ? -1 : a > b;
}

bool queue_set_has(const struct queue_set *set, uint64_t id)
{
	return bsearch(&id, set->ids, set->count, sizeof(id), set_compare) != NULL;
}

int queue_set_judge(const struct queue_change *change, const struct job *job, struct err *err)
{
	const struct queue_set *set = &change->set;
	if (!set->is_any && job->uid != set->owner)
		return err_set(err, -EPERM, "job %" PRIu64 " belongs to another user", job->id);
	if (set->states && !(set->states >> job->state & 1))
		return err_set(err, -EBUSY, "job %" PRIu64 " is %s by now", job->id,
			       job_state_to_string(job->state));
	return 0;
}

void queue_set_refuse(const struct queue_change *change, uint64_t id, const struct err *err)
{
	if (change->done) /* else nobody waits */
		change->set.refused(id, err, change->context);
}

struct queue_job *queue_set_job(const struct queue_change *change, size_t i)
{
	uint64_t id = change->set.ids[i];
	struct queue_job *job = queue_job_find(change->op.queue, id);
	struct err why = {.code = 0};
	if (!job)
		(void)err_set(&why, -ESRCH, "job %" PRIu64 " is not there, or has ended", id);
	else if (queue_set_judge(change, &job->job, &why) == 0)
		return job;

	queue_set_refuse(change, id, &why);
	return NULL;
}

int queue_set_note(struct queue_change *change, uint64_t id, const struct err *why, struct err *err)
{
	if (array_room(&change->refusals, change->refusal_count, &change->refusal_room, 16) < 0)
		return err_set(err, -ENOMEM, "no memory for %zu jobs", change->refusal_count + 1);

	change->refusals[change->refusal_count++] =
	    (struct change_refusal){.id = id, .code = why->code, .text = strdup(why->text)};
	return 0;
}

void queue_set_tell(struct queue_change *change)
{
	for (size_t i = 0; i < change->refusal_count; i++) {
		const struct change_refusal *refusal = &change->refusals[i];
		struct err why;

		(void)err_set(&why, refusal->code, "%s", refusal->text ? refusal->text : "refused");
		queue_set_refuse(change, refusal->id, &why);
	}
}

void queue_set_done(struct queue_change *change)
{
	for (size_t i = 0; i < change->refusal_count; i++)
		free(change->refusals[i].text);

	free(take_ptr(change->refusals));
	free((uint64_t *)change->set.ids); /* ours, since set_new() */
}

/* NULL: no memory, and whoever waits was told. */
static struct queue_change *set_new(enum queue_change_kind kind, const struct queue_set *set,
				    const char *by, queue_changed_fn *done, void *context)
{
	struct err err;
	uint64_t *ids = calloc(set->count + 1, sizeof(*ids));
	if (!ids) {
		done(err_set(&err, -ENOMEM, "no memory to change %zu jobs", set->count), 0, &err,
		     context);
		return NULL;
	}

	struct queue_change *change = queue_change_new(kind, 0, true, by, done, context);
	if (!change) {
		free(ids);
		return NULL;
	}

	memcpy(ids, set->ids, set->count * sizeof(*ids));
	change->set = *set;
	change->set.ids = ids;
	return change;
}

void queue_set_edit(struct queue *queue, uid_t uid, const struct queue_set *set,
		    const struct queue_edit *edit, const char *by, queue_changed_fn *done,
		    void *context)
{
	struct queue_change *change = set_new(CHANGE_EDIT, set, by, done, context);
	if (!change)
		return;

	change->edit = *edit;
	change->edit.environment = NULL;
	change->edit.environment_count = 0;
	change->edit.rights = NULL;
	queue_change_submit(queue, change, uid);
}

void queue_set_cancel(struct queue *queue, uid_t uid, const struct queue_set *set, int signo,
		      bool has_grace, uint64_t grace_ns, const char *by, queue_changed_fn *done,
		      void *context)
{
	struct queue_change *change = set_new(CHANGE_CANCEL, set, by, done, context);
	if (!change)
		return;

	change->signo = signo;
	change->has_grace = has_grace;
	change->grace_ns = grace_ns;
	queue_change_submit(queue, change, uid);
}

void queue_set_limit(struct queue *queue, uid_t uid, const struct queue_set *set,
		     const struct queue_limit *limit, queue_changed_fn *done, void *context)
{
	struct queue_change *change = set_new(CHANGE_LIMIT, set, "", done, context);
	if (!change)
		return;

	change->limit = *limit;
	queue_change_submit(queue, change, uid);
}

void queue_set_retry(struct queue *queue, uid_t uid, const struct queue_set *set,
		     queue_changed_fn *done, void *context)
{
	struct queue_change *change = set_new(CHANGE_AGAIN, set, "", done, context);
	if (change)
		queue_change_submit(queue, change, uid);
}
