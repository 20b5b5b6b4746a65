/* SPDX-License-Identifier: Apache-2.0 */
/* The call Holders: who holds what, through either door. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/doors/door_kubelet.h"
#include "agent/doors/doors.h"
#include "agent/doors/leases.h"
#include "agent/service/service_internal.h"
#include "base/err.h"
#include "doors/kubelet/podresources.h"
#include "units/ledger.h"
#include "wire/arena.h"

/* NULL: no memory. */
static Sluice__V1__Holder *holders_add(struct arena *arena, Sluice__V1__HoldersReply *out)
{
	Sluice__V1__Holder *holder = arena_alloc(arena, sizeof(*holder));
	if (!holder)
		return NULL;
	sluice__v1__holder__init(holder);
	out->holders[out->n_holders++] = holder;
	return holder;
}

static void holders_of_kubelet(const struct service *service, const struct podresources *pods,
			       struct arena *arena, Sluice__V1__HoldersReply *out)
{
	const struct ledger *ledger = leases_ledger(service->options.leases);

	out->problem = answer_text(arena, podresources_problem(pods));
	for (size_t i = 0; i < podresources_count(pods); i++) {
		const struct podresources_holder *at = podresources_at(pods, i);
		/* What is not in the ledger is a device of somebody else's plugin. */
		const struct ledger_lease *lease = ledger_find(ledger, at->unit);
		if (!lease || strcmp(lease->resource, at->resource) != 0)
			continue;

		Sluice__V1__Holder *holder = holders_add(arena, out);
		if (!holder)
			return;

		holder->door = answer_text(arena, policy_door_to_string(POLICY_DOOR_KUBELET));
		holder->unit = answer_text(arena, at->unit);
		holder->resource = answer_text(arena, at->resource);
		holder->name_space = answer_text(arena, at->name_space);
		holder->pod = answer_text(arena, at->pod);
		holder->container = answer_text(arena, at->container);
		holder->since_unix_ns = lease->since_unix_ns;
	}
}

static size_t holders_count_slots(const struct launch_grant *grant)
{
	size_t count = 0;
	for (uint32_t slot = 0; slot < grant->slot_count; slot++)
		count += launch_grant_has(grant, slot);
	return count;
}

/* A job with every slot of a device holds the device; else each slot is a unit of its own. */
static void holders_of_grant(const struct job *job, const struct launch_grant *grant,
			     struct arena *arena, Sluice__V1__HoldersReply *out)
{
	bool is_whole = holders_count_slots(grant) == grant->slot_count;

	for (uint32_t slot = 0; slot < grant->slot_count; slot++) {
		if (!launch_grant_has(grant, slot))
			continue;

		Sluice__V1__Holder *holder = holders_add(arena, out);
		if (!holder)
			return;

		char *unit = is_whole ? arena_copy_valid(arena, grant->uuid)
				      : arena_printf(arena, "%s::%u", grant->uuid, slot);
		if (unit)
			holder->unit = unit;
		holder->door = answer_text(arena, policy_door_to_string(POLICY_DOOR_QUEUE));
		holder->job = job->id;
		holder->since_unix_ns = job->started_unix_ns;

		if (is_whole)
			return;
	}
}

/* Calls with each grant of the jobs that have some. */
static void holders_each(const struct service *service, struct arena *arena,
			 void (*each)(const struct job *job, const struct launch_grant *grant,
				      struct arena *arena, Sluice__V1__HoldersReply *out),
			 Sluice__V1__HoldersReply *out)
{
	const struct queue *queue = service->options.queue;

	for (const struct job *job = queue_first(queue); job; job = queue_next(queue, job)) {
		struct queue_attempt attempt;

		if (job->state == JOB_PENDING)
			continue;

		queue_attempt_of(queue, job, &attempt);

		for (size_t i = 0; i < attempt.grant_count; i++)
			each(job, &attempt.grants[i], arena, out);
	}
}

static void holders_make_room(const struct job *job, const struct launch_grant *grant,
			      struct arena *arena, Sluice__V1__HoldersReply *out)
{
	out->n_holders += holders_count_slots(grant);
}

void service_holders(struct wire_call *call, const ProtobufCMessage *message, void *context)
{
	struct service *service = context;
	struct service_request *request =
	    service_request_new(service, call, SERVICE_CALL, sizeof(*request));
	if (!request)
		return;

	_cleanup_arena_ struct arena arena;
	Sluice__V1__HoldersReply reply = SLUICE__V1__HOLDERS_REPLY__INIT;
	struct err err = {0};

	arena_init(&arena, SERVICE_ARENA_MAX);
	const struct door_kubelet *door = doors_at(service->options.doors, DOOR_KUBELET);
	const struct podresources *pods = door ? door_kubelet_pods(door) : NULL;

	holders_each(service, &arena, holders_make_room, &reply);
	size_t room = reply.n_holders + (pods ? podresources_count(pods) : 0) + 1;

	reply.n_holders = 0;
	reply.holders = arena_alloc(&arena, room * sizeof(*reply.holders));
	if (!reply.holders) {
		(void)err_set(&err, -ENOMEM, "out of memory for the answer");
		service_request_fail(request, &err);
		return;
	}

	if (pods)
		holders_of_kubelet(service, pods, &arena, &reply);
	holders_each(service, &arena, holders_of_grant, &reply);
	service_request_reply(request, &reply.base);
}
