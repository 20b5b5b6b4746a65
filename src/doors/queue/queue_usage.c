/* SPDX-License-Identifier: Apache-2.0 */
/* What users and projects have had: read on the storage thread, told on the loop. */
#include <errno.h>
#include <stdlib.h>

#include "doors/queue/queue_internal.h"
#include "doors/queue/store/store_usage.h"

struct queue_usage_op {
	struct queue_op op; /* first */
	uid_t uid;	    /* who asks */
	struct store_usage_window window;
	struct store_usage usage;
	void (*done)(int result, const struct store_usage *usage, const struct err *err,
		     void *context);
	void *context;
};

static int queue_usage_work(struct queue_op *op)
{
	struct queue_usage_op *self = (struct queue_usage_op *)op;
	return store_usage(op->queue->store, &self->window, &self->usage, &op->err);
}

static void queue_usage_done(struct queue_op *op, int rc)
{
	struct queue_usage_op *self = (struct queue_usage_op *)op;
	if (op->queue->closing)
		rc = err_set(&op->err, -ESHUTDOWN, "the agent is ending");
	self->done(rc, &self->usage, rc < 0 ? &op->err : NULL, self->context);
	account_give(op->queue->account, ACCOUNT_QUERIES, self->uid, 1);
	store_usage_done(&self->usage);
	free(self);
}

int queue_usage(struct queue *queue, uid_t uid, const struct store_usage_window *window,
		void (*done)(int result, const struct store_usage *usage, const struct err *err,
			     void *context),
		void *context, struct err *err)
{
	struct queue_usage_op *self = calloc(1, sizeof(*self));
	if (!self)
		return err_set(err, -ENOMEM, "no memory to look for what was used");
	if (account_take(queue->account, ACCOUNT_QUERIES, uid, 1, err) < 0) {
		free(self);
		return err->code = -EAGAIN;
	}

	self->uid = uid;
	self->op.work = queue_usage_work;
	self->op.done = queue_usage_done;
	self->window = *window;
	self->done = done;
	self->context = context;
	queue_op_submit(queue, &self->op);

	return 0;
}
