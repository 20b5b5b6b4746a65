/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that change what the queue has: Change (hold, release, priority, variables, retry), Drain
 * and Collect. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "agent/service/service_internal.h"
#include "agent/users.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/text.h"
#include "job/rights.h"

enum { CHANGE_VARIABLES_MAX = 1024 };

struct service_changing {
	struct service_act act;			/* first */
	const Sluice__V1__ChangeRequest *asked; /* borrowed: of the call */
};

static void service_changed(int rc, size_t changed, const struct err *err, void *context)
{
	struct service_changing *changing = context;
	if (!service_request_answered(&changing->act.request))
		return;

	if (rc < 0) {
		struct err failure = *err;
		failure.code = rc;
		service_request_fail(&changing->act.request, &failure);
		return;
	}

	Sluice__V1__ChangeReply reply = SLUICE__V1__CHANGE_REPLY__INIT;
	reply.changed = (uint32_t)changed;
	service_request_reply(&changing->act.request, &reply.base);
}

/* The variables as texts, in `out` (to be freed with what it points to). */
static int service_change_variables(const Sluice__V1__ChangeRequest *asked, char ***out,
				    struct err *err)
{
	size_t count = asked->n_environment;
	if (count > CHANGE_VARIABLES_MAX)
		return err_set(err, -EINVAL, "%zu variables are too many: at most %d", count,
			       CHANGE_VARIABLES_MAX);

	char **texts = calloc(count + 1, sizeof(*texts));
	int rc = texts ? 0 : err_set(err, -ENOMEM, "no memory for %zu variables", count);

	for (size_t i = 0; rc == 0 && i < count; i++) {
		const ProtobufCBinaryData *from = &asked->environment[i];
		const char *equals = from->len > 0 ? memchr(from->data, '=', from->len) : NULL;
		if (!equals || equals == (const char *)from->data ||
		    memchr(from->data, '\0', from->len))
			rc = err_set(err, -EINVAL, "variable %zu is not NAME=VALUE", i + 1);
		else if (!(texts[i] = text_copy(from->data, from->len)))
			rc = err_set(err, -ENOMEM, "no memory for %zu variables", count);
	}

	*out = texts;
	return rc;
}

static void service_change_edit(struct service_changing *changing, const char *by)
{
	const Sluice__V1__ChangeRequest *asked = changing->asked;
	struct err err = {0};
	char **variables = NULL;
	struct rights rights;
	bool is_root = wire_call_peer(changing->act.request.call)->uid == 0;
	struct message_view view =
	    service_view(changing->act.request.service, changing->act.request.call, false);
	int rc = service_change_variables(asked, &variables, &err);
	/* By a variable (LD_PRELOAD) one becomes the job's user: not for administrators. */
	if (rc == 0 && asked->n_environment > 0 && !message_view_owns(&view, changing->act.uid))
		rc = err_set(&err, -EPERM,
			     "the environment of job %" PRIu64 " is its owner's to change",
			     asked->id);

	/* And whoever did would have the rights of the process that submitted it. */
	if (rc == 0 && asked->n_environment > 0 && !is_root)
		rc = service_caller_rights(changing->act.request.call, &rights, &err);
	if (rc == 0 && asked->has_priority)
		rc = service_check_priority(&changing->act.request, asked->priority, &err);
	if (rc == 0 && asked->has_priority &&
	    (asked->priority < -WANTS_PRIORITY_MAX || asked->priority > WANTS_PRIORITY_MAX))
		rc = err_set(&err, -EINVAL, "priority %" PRId32 ": it can be -%d to %d",
			     asked->priority, WANTS_PRIORITY_MAX, WANTS_PRIORITY_MAX);
	if (rc == 0 && asked->begin_unix_ns > INT64_MAX)
		rc = err_set(&err, -EINVAL, "job %" PRIu64 " cannot begin in %" PRIu64 " ns",
			     asked->id, asked->begin_unix_ns);

	if (rc < 0) {
		service_request_fail(&changing->act.request, &err);
	} else {
		const struct queue_edit edit = {
		    .hold = asked->hold	     ? QUEUE_EDIT_HOLD
			    : asked->release ? QUEUE_EDIT_RELEASE
					     : QUEUE_EDIT_NONE,
		    .has_priority = asked->has_priority,
		    .priority = asked->priority,
		    .has_begin = asked->has_begin,
		    .begin_unix_ns = asked->begin_unix_ns,
		    .environment = (const char *const *)variables,
		    .environment_count = asked->n_environment,
		    .rights = asked->n_environment > 0 && !is_root ? &rights : NULL,
		};

		service_request_wait(&changing->act.request);
		queue_edit(changing->act.request.service->options.queue, changing->act.request.uid,
			   asked->id, asked->member_alone, &edit, by, service_changed, changing);
	}

	for (size_t i = 0; variables && variables[i]; i++)
		free(variables[i]);

	free(variables);
}

int service_limit_take(const Sluice__V1__ChangeRequest *asked, bool is_manager,
		       struct queue_limit *out, struct err *err)
{
	*out = (struct queue_limit){.ns = asked->limit_ns, .is_manager = is_manager};

	if (asked->hold || asked->release || asked->has_priority || asked->has_begin ||
	    asked->n_environment > 0 || asked->retry)
		return err_set(
		    err, -EINVAL,
		    "a limit is changed by itself: leave out what else is to be changed");
	if (asked->limit_ns == 0 || asked->limit_ns > INT64_MAX)
		return err_set(err, -EINVAL, "a limit of %" PRIu64 " ns is none", asked->limit_ns);

	switch (asked->limit) {
	case SLUICE__V1__LIMIT_CHANGE__LIMIT_SET:
		out->how = QUEUE_LIMIT_SET;
		return 0;
	case SLUICE__V1__LIMIT_CHANGE__LIMIT_MORE:
		out->how = QUEUE_LIMIT_MORE;
		return 0;
	case SLUICE__V1__LIMIT_CHANGE__LIMIT_LESS:
		out->how = QUEUE_LIMIT_LESS;
		return 0;
	default:
		return err_set(err, -EINVAL, "the service knows no change %d of a limit",
			       (int)asked->limit);
	}
}

static void service_change_limit(struct service_changing *changing)
{
	struct service_request *request = &changing->act.request;
	const Sluice__V1__ChangeRequest *asked = changing->asked;
	struct queue_limit limit;
	struct err err = {0};

	if (service_limit_take(asked, service_is_manager(request), &limit, &err) < 0) {
		(void)err_wrap(&err, "job %" PRIu64, asked->id);
		service_request_fail(request, &err);
		return;
	}

	service_request_wait(request);
	queue_limit_change(request->service->options.queue, request->uid, asked->id,
			   asked->member_alone, &limit, service_changed, changing);
}

static void service_change_now(struct service_act *act)
{
	struct service_changing *changing = (struct service_changing *)act;
	struct service_request *request = &act->request;
	const Sluice__V1__ChangeRequest *asked = changing->asked;

	if (asked->limit != SLUICE__V1__LIMIT_CHANGE__LIMIT_KEEP) {
		service_change_limit(changing);
		return;
	}

	if (asked->retry) {
		service_request_wait(request);
		queue_retry(request->service->options.queue, request->uid, asked->id,
			    asked->member_alone, service_changed, changing);
		return;
	}

	service_change_edit(
	    changing, users_name(request->service->users, wire_call_peer(request->call)->uid));
}

void service_change(struct wire_call *call, const ProtobufCMessage *message, void *context)
{
	struct service *service = context;
	struct service_changing *changing =
	    service_request_new(service, call, SERVICE_CALL, sizeof(*changing));
	if (!changing)
		return;

	const Sluice__V1__ChangeRequest *asked = (const Sluice__V1__ChangeRequest *)message;
	changing->asked = asked;
	changing->act.id = asked->id;
	changing->act.member_alone = asked->member_alone;
	changing->act.act = service_change_now;
	service_act_on(&changing->act);
}

/* --- the queue as a whole -------------------------------------------------------------------- */

struct service_request *service_manage(struct service *service, struct wire_call *call, size_t size,
				       const char *what)
{
	struct service_request *request = service_request_new(service, call, SERVICE_CALL, size);
	struct err err = {0};

	if (!request || service_is_manager(request))
		return request;

	(void)err_set(&err, -EPERM, "%s is for root and the members of sluice.jobs.adminGroup",
		      what);
	service_request_fail(request, &err);
	return NULL;
}

static void service_drained(int rc, const struct err *err, void *context)
{
	struct service_request *request = context;
	if (!service_request_answered(request))
		return;

	Sluice__V1__DrainReply reply = SLUICE__V1__DRAIN_REPLY__INIT;

	if (rc < 0)
		service_request_fail(request, err);
	else
		service_request_reply(request, &reply.base);
}

void service_drain(struct wire_call *call, const ProtobufCMessage *message, void *context)
{
	struct service *service = context;
	struct service_request *request =
	    service_manage(service, call, sizeof(*request), "draining the queue");
	if (!request)
		return;

	service_request_wait(request);
	queue_drain(service->options.queue,
		    ((const Sluice__V1__DrainRequest *)message)->is_draining, service_drained,
		    request);
}

static void service_collected(int rc, size_t changed, const struct err *err, void *context)
{
	struct service_request *request = context;
	if (!service_request_answered(request))
		return;

	Sluice__V1__CollectReply reply = SLUICE__V1__COLLECT_REPLY__INIT;
	reply.forgotten = changed;

	if (rc < 0)
		service_request_fail(request, err);
	else
		service_request_reply(request, &reply.base);
}

void service_collect(struct wire_call *call, const ProtobufCMessage *message, void *context)
{
	struct service *service = context;
	struct service_request *request =
	    service_manage(service, call, sizeof(*request), "forgetting jobs");
	if (!request)
		return;
	service_request_wait(request);
	queue_collect(service->options.queue, service_collected, request);
}
