/* SPDX-License-Identifier: Apache-2.0 */
/* What the owner of the machine has told the queue: its rules, and whether it starts anything. */
#include <errno.h>
#include <stdlib.h>

#include "base/crash.h"
#include "base/err.h"
#include "doors/queue/queue_internal.h"

struct queue_draining {
	struct queue_op op; /* first */
	bool is_draining;
	void (*done)(int result, const struct err *err, void *context);
	void *context;
};

void queue_set_rules(struct queue *queue, const struct queue_rules *rules)
{
	queue->rules = *rules;
	queue->has_rules = true;
	queue_fair_settle(queue);
	queue_account_rules(queue);
	queue_kick(queue);
	queue_changed(queue);
}

const struct queue_rules *queue_rules(const struct queue *queue)
{
	return &queue->rules;
}

bool queue_is_draining(const struct queue *queue)
{
	return queue->is_drained || queue->rules.is_draining;
}

static bool queue_rules_is_in(const struct spec *spec, gid_t group)
{
	if (spec->gid == group)
		return true;
	for (size_t i = 0; i < spec->group_count; i++)
		if (spec->groups[i] == group)
			return true;
	return false;
}

uint32_t queue_rules_pending(const struct queue_rules *rules, const struct spec *spec)
{
	uint32_t most = 0;
	bool is_in_one = false;

	for (size_t i = 0; i < rules->group_count; i++) {
		const struct rules_group *group = &rules->groups[i];
		if (!queue_rules_is_in(spec, group->group))
			continue;

		uint32_t limit = group->limit.pending ? group->limit.pending : QUEUE_PENDING_MAX;
		most = limit > most ? limit : most;
		is_in_one = true;
	}

	if (is_in_one)
		return most;

	return rules->limit.pending ? rules->limit.pending : QUEUE_PENDING_MAX;
}

static int queue_drain_work(struct queue_op *op)
{
	struct queue_draining *draining = (struct queue_draining *)op;
	crash_point("queue.before_drain");
	int rc = store_set_draining(op->queue->store, draining->is_draining, &op->err);
	crash_point("queue.drain_stored");
	return rc;
}

static void queue_drain_done(struct queue_op *op, int rc)
{
	struct queue_draining *draining = (struct queue_draining *)op;
	struct queue *queue = op->queue;

	if (rc == 0) {
		queue->is_drained = draining->is_draining;
		queue_storage_worked(queue);
		queue_kick(queue);
		queue_changed(queue);
	} else if (rc == -ENOSPC || rc == -EROFS || rc == -EIO || rc == -EDQUOT) {
		queue_storage_failed(queue, rc, op->err.text);
	}

	if (draining->done)
		draining->done(rc, rc < 0 ? &op->err : NULL, draining->context);
	free(draining);
}

void queue_drain(struct queue *queue, bool is_draining,
		 void (*done)(int result, const struct err *err, void *context), void *context)
{
	struct err err = {.code = 0};
	struct queue_draining *draining = calloc(1, sizeof(*draining));
	if (!draining) {
		done(err_set(&err, -ENOMEM, "no memory to tell the queue"), &err, context);
		return;
	}

	draining->is_draining = is_draining;
	draining->done = done;
	draining->context = context;
	draining->op.work = queue_drain_work;
	draining->op.done = queue_drain_done;
	queue_op_submit(queue, &draining->op);
}
