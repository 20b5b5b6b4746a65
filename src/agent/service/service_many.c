/* SPDX-License-Identifier: Apache-2.0 */
/* Act: one thing done to many jobs, in one transaction of the queue. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "agent/service/service_internal.h"
#include "agent/users.h"
#include "base/cleanup.h"
#include "base/err.h"

enum {
	MANY_IDS_MAX = 10000,
	MANY_REFUSALS_MAX = 1000, /* that are told; of the others only how many */
};

struct service_many {
	struct service_request request;	  /* first */
	struct queue_set set;		  /* its `ids` are owned */
	struct queue_limit limit;	  /* when that is asked for */
	Sluice__V1__ActRefusal *refusals; /* owned, with their texts */
	size_t refusal_count;
	uint64_t refused;
};

static void many_release(struct service_request *request)
{
	struct service_many *many = (struct service_many *)request;

	for (size_t i = 0; i < many->refusal_count; i++)
		if (many->refusals[i].text != protobuf_c_empty_string)
			free(many->refusals[i].text);

	free(many->refusals);
	free((uint64_t *)many->set.ids);
}

static void many_refused(uint64_t id, const struct err *err, void *context)
{
	struct service_many *many = context;

	many->refused++;
	if (many->refusal_count == MANY_REFUSALS_MAX)
		return;
	if (!many->refusals)
		many->refusals = calloc(MANY_REFUSALS_MAX, sizeof(*many->refusals));
	if (!many->refusals)
		return; /* counted all the same */

	Sluice__V1__ActRefusal *refusal = &many->refusals[many->refusal_count++];
	char *text = strdup(err->text);

	sluice__v1__act_refusal__init(refusal);
	refusal->id = id;
	refusal->status = message_status(err->code);
	if (text)
		refusal->text = text;
}

static void many_done(int rc, size_t changed, const struct err *err, void *context)
{
	struct service_many *many = context;
	if (!service_request_answered(&many->request))
		return;

	if (rc < 0) {
		struct err failure = *err;
		failure.code = rc;
		service_request_fail(&many->request, &failure);
		return;
	}

	Sluice__V1__ActReply reply = SLUICE__V1__ACT_REPLY__INIT;
	_cleanup_free_ Sluice__V1__ActRefusal **list =
	    calloc(many->refusal_count + 1, sizeof(*list));

	for (size_t i = 0; list && i < many->refusal_count; i++)
		list[i] = &many->refusals[i];

	reply.changed = changed;
	reply.refused = many->refused;
	reply.refusals = list;
	reply.n_refusals = list ? many->refusal_count : 0;
	service_request_reply(&many->request, &reply.base);
}

static int many_compare(const void *left, const void *right)
{
	uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
	return a < b ? -1 : a > b;
}

static int many_take_jobs(struct service_many *many, const Sluice__V1__ActRequest *asked,
			  struct err *err)
{
	struct queue_set *set = &many->set;
	if (asked->n_ids == 0 || asked->n_ids > MANY_IDS_MAX)
		return err_set(err, -EINVAL, "%zu jobs at once: it can be 1 to %d", asked->n_ids,
			       MANY_IDS_MAX);

	uint64_t *ids = calloc(asked->n_ids, sizeof(*ids));
	if (!ids)
		return err_set(err, -ENOMEM, "no memory for %zu jobs", asked->n_ids);

	set->ids = ids;
	memcpy(ids, asked->ids, asked->n_ids * sizeof(*ids));
	qsort(ids, asked->n_ids, sizeof(*ids), many_compare);
	for (size_t i = 0; i < asked->n_ids; i++)
		if (i == 0 || ids[i] != ids[i - 1])
			ids[set->count++] = ids[i];

	for (size_t i = 0; i < asked->n_states; i++) {
		enum job_state state;
		if (message_to_state(asked->states[i], &state) < 0)
			return err_set(err, -EINVAL, "there is no state %d of a job",
				       (int)asked->states[i]);
		set->states |= UINT32_C(1) << state;
	}

	set->owner = wire_call_peer(many->request.call)->uid;
	set->is_any = service_is_manager(&many->request);
	set->refused = many_refused;

	return 0;
}

/* What is to be done with each. */
static int many_check(struct service_many *many, const Sluice__V1__ActRequest *asked,
		      struct err *err)
{
	const Sluice__V1__ChangeRequest *change = asked->change;
	if (!asked->cancel == !change)
		return err_set(err, -EINVAL, "many jobs are either cancelled or changed");
	if (asked->cancel)
		return asked->cancel->signal > 0 ? service_check_signal(asked->cancel->signal, err)
						 : 0;

	if (change->n_environment > 0)
		return err_set(err, -EINVAL, "variables are set for one job or array at a time");
	if (change->limit != SLUICE__V1__LIMIT_CHANGE__LIMIT_KEEP)
		return service_limit_take(change, many->set.is_any, &many->limit, err);
	if (!change->retry && !change->hold && !change->release && !change->has_priority &&
	    !change->has_begin)
		return err_set(err, -EINVAL, "nothing to change");
	if (change->begin_unix_ns > INT64_MAX)
		return err_set(err, -EINVAL, "jobs cannot begin in %" PRIu64 " ns",
			       change->begin_unix_ns);
	if (!change->has_priority)
		return 0;

	if (change->priority < -WANTS_PRIORITY_MAX || change->priority > WANTS_PRIORITY_MAX)
		return err_set(err, -EINVAL, "priority %" PRId32 ": it can be -%d to %d",
			       change->priority, WANTS_PRIORITY_MAX, WANTS_PRIORITY_MAX);

	return service_check_priority(&many->request, change->priority, err);
}

static void many_begin(struct service_many *many, const Sluice__V1__ActRequest *asked)
{
	struct service_request *request = &many->request;
	struct service *service = request->service;
	struct queue *queue = service->options.queue;
	const char *by = users_name(service->users, many->set.owner);
	const Sluice__V1__CancelRequest *cancel = asked->cancel;
	const Sluice__V1__ChangeRequest *change = asked->change;

	service_request_wait(request);
	if (cancel) {
		queue_set_cancel(queue, request->uid, &many->set,
				 cancel->signal ? (int)cancel->signal : SIGTERM, cancel->has_grace,
				 cancel->grace_ns, by, many_done, many);
	} else if (change->limit != SLUICE__V1__LIMIT_CHANGE__LIMIT_KEEP) {
		queue_set_limit(queue, request->uid, &many->set, &many->limit, many_done, many);
	} else if (change->retry) {
		queue_set_retry(queue, request->uid, &many->set, many_done, many);
	} else {
		const struct queue_edit edit = {
		    .hold = change->hold      ? QUEUE_EDIT_HOLD
			    : change->release ? QUEUE_EDIT_RELEASE
					      : QUEUE_EDIT_NONE,
		    .has_priority = change->has_priority,
		    .priority = change->priority,
		    .has_begin = change->has_begin,
		    .begin_unix_ns = change->begin_unix_ns,
		};

		queue_set_edit(queue, request->uid, &many->set, &edit, by, many_done, many);
	}
}

void service_act_many(struct wire_call *call, const ProtobufCMessage *message, void *context)
{
	const Sluice__V1__ActRequest *asked = (const Sluice__V1__ActRequest *)message;
	struct service_many *many = service_request_new(context, call, SERVICE_CALL, sizeof(*many));
	if (!many)
		return;

	many->request.release = many_release;

	struct err err = {0};
	int rc = many_take_jobs(many, asked, &err);
	if (rc == 0)
		rc = many_check(many, asked, &err);

	if (rc < 0)
		service_request_fail(&many->request, &err);
	else
		many_begin(many, asked);
}
