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

/* What an answer is made of. */
struct holders_answer {
	const struct ledger *ledger;
	const struct podresources *pods; /* NULL: there is no kubelet */
	struct arena *arena;
	Sluice__V1__HoldersReply *out;
};

/* NULL: no memory. */
static Sluice__V1__Holder *holders_add(struct holders_answer *holders,
				       const struct ledger_lease *lease)
{
	Sluice__V1__Holder *holder = arena_alloc(holders->arena, sizeof(*holder));
	if (!holder)
		return NULL;

	sluice__v1__holder__init(holder);
	holder->door = answer_text(holders->arena, policy_door_to_string(lease->door));
	holder->unit = answer_text(holders->arena, lease->unit);
	holder->resource = answer_text(holders->arena, lease->resource);
	holder->job = lease->job;
	holder->since_unix_ns = lease->since_unix_ns;
	holders->out->holders[holders->out->n_holders++] = holder;

	return holder;
}

/* "NAMESPACE/POD/CONTAINER", or words. */
static void holders_name(const struct holders_answer *holders, const char *text,
			 Sluice__V1__Holder *out)
{
	const char *slash = strchr(text, '/'), *second = slash ? strchr(slash + 1, '/') : NULL;
	if (!second)
		return;

	out->name_space = arena_printf(holders->arena, "%.*s", (int)(slash - text), text);
	out->pod = arena_printf(holders->arena, "%.*s", (int)(second - slash - 1), slash + 1);
	out->container = answer_text(holders->arena, second + 1);
}

/* All containers of the pod that have it; of one that is not listed the ledger's word. */
static void holders_of_kubelet(struct holders_answer *holders, const struct ledger_lease *lease)
{
	size_t count = holders->pods ? podresources_count(holders->pods) : 0;
	bool is_listed = false;

	for (size_t i = 0; i < count; i++) {
		const struct podresources_holder *at = podresources_at(holders->pods, i);
		if (strcmp(at->unit, lease->unit) != 0 ||
		    strcmp(at->resource, lease->resource) != 0)
			continue;

		Sluice__V1__Holder *holder = holders_add(holders, lease);
		if (!holder)
			return;

		holder->name_space = answer_text(holders->arena, at->name_space);
		holder->pod = answer_text(holders->arena, at->pod);
		holder->container = answer_text(holders->arena, at->container);
		is_listed = true;
	}

	Sluice__V1__Holder *holder = is_listed ? NULL : holders_add(holders, lease);
	if (holder)
		holders_name(holders, lease->holder, holder);
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
	struct holders_answer holders = {.ledger = leases_ledger(service->options.leases),
					 .pods = pods,
					 .arena = &arena,
					 .out = &reply};
	size_t room = ledger_count(holders.ledger) + (pods ? podresources_count(pods) : 0) + 1;

	reply.holders = arena_alloc(&arena, room * sizeof(*reply.holders));
	if (!reply.holders) {
		(void)err_set(&err, -ENOMEM, "out of memory for the answer");
		service_request_fail(request, &err);
		return;
	}

	reply.problem = answer_text(&arena, pods ? podresources_problem(pods) : "");

	for (size_t i = 0; i < ledger_count(holders.ledger); i++) {
		const struct ledger_lease *lease = ledger_at(holders.ledger, i);
		if (lease->door == POLICY_DOOR_KUBELET)
			holders_of_kubelet(&holders, lease);
		else
			(void)holders_add(&holders, lease);
	}

	const struct message_view view = service_view(service, call, false);
	if (service_outside(service, &view, &arena, &reply.outside, &reply.n_outside, &err) < 0) {
		service_request_fail(request, &err);
		return;
	}

	service_request_reply(request, &reply.base);
}
