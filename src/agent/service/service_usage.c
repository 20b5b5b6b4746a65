/* SPDX-License-Identifier: Apache-2.0 */
/* Usage: what users and projects have had. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/service/service_internal.h"
#include "agent/users.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/parse.h"
#include "doors/queue/store/store_usage.h"
#include "wire/arena.h"

struct service_usage {
	struct service_request request;
	struct store_usage_window window;
	bool by_project;
	char user[USERS_NAME_MAX]; /* a name; "": everybody, or a number that is in the window */
};

static bool usage_wants(const struct service_usage *usage, const struct store_use *use)
{
	return usage->user[0] == '\0' ||
	       strcmp(users_name(usage->request.service->users, use->uid), usage->user) == 0;
}

static Sluice__V1__Use *usage_row(const struct service_usage *usage, const struct store_use *use,
				  struct arena *arena, Sluice__V1__UsageReply *reply)
{
	for (size_t i = 0; i < reply->n_uses; i++) {
		Sluice__V1__Use *row = reply->uses[i];
		if (usage->by_project ? strcmp(row->project, use->project) == 0
				      : row->uid == (uint32_t)use->uid)
			return row;
	}

	Sluice__V1__Use *row = arena_alloc(arena, sizeof(*row));
	if (!row)
		return NULL;

	sluice__v1__use__init(row);
	if (usage->by_project) {
		row->project = answer_text(arena, use->project);
	} else {
		row->uid = (uint32_t)use->uid;
		row->user = answer_text(arena, users_name(usage->request.service->users, use->uid));
		row->recent_gpu_hours =
		    queue_recent_hours(usage->request.service->options.queue, use->uid);
	}

	reply->uses[reply->n_uses++] = row;
	return row;
}

static int usage_compare(const void *left, const void *right)
{
	const Sluice__V1__Use *a = *(Sluice__V1__Use *const *)left;
	const Sluice__V1__Use *b = *(Sluice__V1__Use *const *)right;
	if (a->gpu_ms != b->gpu_ms)
		return a->gpu_ms > b->gpu_ms ? -1 : 1;
	if (a->wall_ms != b->wall_ms)
		return a->wall_ms > b->wall_ms ? -1 : 1;

	if (a->uid != b->uid)
		return a->uid < b->uid ? -1 : 1;

	return strcmp(a->project, b->project);
}

static int usage_fill(const struct service_usage *usage, const struct store_usage *from,
		      struct arena *arena, Sluice__V1__UsageReply *reply)
{
	reply->uses = arena_alloc(arena, (from->count + 1) * sizeof(*reply->uses));
	for (size_t i = 0; reply->uses && i < from->count; i++) {
		const struct store_use *use = &from->items[i];
		if (!usage_wants(usage, use))
			continue;

		Sluice__V1__Use *row = usage_row(usage, use, arena, reply);
		if (!row)
			return -ENOMEM;

		row->jobs += use->jobs;
		row->failed += use->failed;
		row->wall_ms += use->wall_ms;
		row->gpu_ms += use->gpu_ms;
		row->cpu_ms += use->cpu_ms;
		row->cpu_jobs += use->cpu_jobs;
	}

	if (!reply->uses)
		return -ENOMEM;

	qsort(reply->uses, reply->n_uses, sizeof(*reply->uses), usage_compare);
	reply->since_unix_ns = usage->window.since_unix_ns;
	reply->until_unix_ns = usage->window.until_unix_ns;

	return 0;
}

static void usage_on_read(int rc, const struct store_usage *from, const struct err *err,
			  void *context)
{
	struct service_usage *usage = context;
	Sluice__V1__UsageReply reply = SLUICE__V1__USAGE_REPLY__INIT;
	struct err failure = {0};

	if (!service_request_answered(&usage->request))
		return;

	if (rc < 0)
		failure = *err;
	else if (usage_fill(usage, from, wire_call_arena(usage->request.call), &reply) < 0)
		(void)err_set(
		    &failure, -ENOMEM,
		    "so many users and projects do not fit into one answer: ask for one user");

	if (failure.code < 0)
		service_request_fail(&usage->request, &failure);
	else
		service_request_reply(&usage->request, &reply.base);
}

static int usage_take(struct service_usage *usage, const Sluice__V1__UsageRequest *asked,
		      struct err *err)
{
	uint64_t uid;
	uid_t caller = wire_call_peer(usage->request.call)->uid;

	usage->by_project = asked->by_project;
	usage->window = (struct store_usage_window){
	    .since_unix_ns = asked->since_unix_ns,
	    .until_unix_ns = clock_unix_ns(),
	    .uid = -1,
	};
	if (strlen(asked->user) >= sizeof(usage->user))
		return err_set(err, -EINVAL, "no user has so long a name: '%.40s...'", asked->user);
	if (asked->since_unix_ns < 0)
		return err_set(err, -EINVAL, "a time before 1970 is asked for");

	if (parse_u64(asked->user, 0, UINT32_MAX - 1, &uid) == 0)
		usage->window.uid = (int64_t)uid;
	else
		memcpy(usage->user, asked->user, strlen(asked->user) + 1);

	if (!asked->by_project || service_is_manager(&usage->request))
		return 0;

	/* What a project is called may say what it is about. */
	bool is_own = usage->window.uid == (int64_t)caller ||
		      (usage->user[0] &&
		       strcmp(usage->user, users_name(usage->request.service->users, caller)) == 0);
	if ((usage->window.uid >= 0 || usage->user[0]) && !is_own)
		return err_set(err, -EPERM,
			       "the projects of others are shown to root and the members of "
			       "sluice.jobs.adminGroup");

	usage->window.uid = (int64_t)caller;
	usage->user[0] = '\0';
	return 0;
}

void service_usage(struct wire_call *call, const ProtobufCMessage *message, void *context)
{
	struct service *service = context;
	struct service_usage *usage =
	    service_request_new(service, call, SERVICE_CALL, sizeof(*usage));
	struct err err = {0};

	if (!usage)
		return;

	int rc = usage_take(usage, (const Sluice__V1__UsageRequest *)message, &err);
	if (rc == 0)
		rc = queue_usage(service->options.queue, usage->request.uid, &usage->window,
				 usage_on_read, usage, &err);
	if (rc < 0)
		service_request_fail(&usage->request, &err);
	else
		service_request_wait(&usage->request);
}
