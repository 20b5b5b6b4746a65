/* SPDX-License-Identifier: Apache-2.0 */
/* Calls about what is drained and reserved: Claim and Claims. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "agent/node.h"
#include "agent/service/service_internal.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "hardware/snapshot.h"

#define SERVICE_CLAIM_LEAD_NS (24 * 3600 * CLOCK_NS_PER_S)

unsigned service_claims_how(const struct service *service, const char *uuid, bool with_parts,
			    struct arena *arena, char **out_text)
{
	const struct claims *claims =
	    service->options.queue ? queue_claims(service->options.queue) : NULL;
	const struct snapshot_gpu *gpu = NULL;
	char text[CLAIM_TEXT_MAX];
	uint64_t parts = 0;

	if (!claims || claims->count == 0)
		return 0;

	if (with_parts)
		gpu = snapshot_find(node_snapshot(service->options.node), uuid);
	for (uint32_t i = 0; gpu && i < gpu->mig_count; i++)
		parts |= claims_of_gpu(claims, gpu->mig[i].uuid);

	unsigned how =
	    claims_how(claims, claims_of_gpu(claims, uuid), parts, clock_unix_ns(), text);
	*out_text = answer_text(arena, text);
	return how;
}

static void service_claimed(int rc, const struct claim *claim, const struct err *err, void *context)
{
	struct service_request *request = context;
	if (!service_request_answered(request))
		return;

	if (rc < 0) {
		struct err failure = *err;
		failure.code = rc;
		service_request_fail(request, &failure);
		return;
	}

	Sluice__V1__ClaimReply reply = SLUICE__V1__CLAIM_REPLY__INIT;
	Sluice__V1__Claim message = SLUICE__V1__CLAIM__INIT;
	char text[CLAIM_TEXT_MAX];

	message.kind = claim->kind;
	message.name = (char *)claim->name;
	message.begin_unix_ns = claim->begin_unix_ns;
	message.end_unix_ns = claim->end_unix_ns;
	reply.claim = &message;
	reply.text = (char *)claim_text(claim, text);
	service_request_reply(request, &reply.base);
}

static int service_claim_text(const char *from, char *out, size_t room, const char *what,
			      struct err *err)
{
	if (strlen(from) >= room)
		return err_set(err, -EINVAL, "%s '%.40s...' is longer than %zu bytes", what, from,
			       room - 1);
	memcpy(out, from, strlen(from) + 1);
	return 0;
}

static int service_claim_take(const Sluice__V1__Claim *from, struct claim *out, struct err *err)
{
	int64_t now_unix_ns = clock_unix_ns();

	*out =
	    (struct claim){.kind = (enum claim_kind)from->kind,
			   .has_uid = from->has_user,
			   .uid = from->uid,
			   .has_gid = from->has_group,
			   .gid = from->gid,
			   .begin_unix_ns = from->begin_unix_ns ? from->begin_unix_ns : now_unix_ns,
			   .end_unix_ns = from->end_unix_ns,
			   .lead_ns = from->lead_ns ? from->lead_ns : SERVICE_CLAIM_LEAD_NS};
	if (from->kind < CLAIM_DRAIN_GPUS || from->kind > CLAIM_RESERVATION)
		return err_set(err, -EINVAL, "the service knows no claim of kind %" PRIu32,
			       from->kind);

	int rc = service_claim_text(from->name, out->name, CLAIM_NAME_MAX, "the name", err);
	if (rc == 0)
		rc = service_claim_text(from->who, out->who, CLAIM_NAME_MAX, "the name", err);
	if (rc == 0)
		rc = service_claim_text(from->reason, out->reason, CLAIM_REASON_MAX, "the reason",
					err);
	return rc;
}

void service_claim(struct wire_call *call, const ProtobufCMessage *message, void *context)
{
	const Sluice__V1__ClaimRequest *asked = (const Sluice__V1__ClaimRequest *)message;
	struct service *service = context;
	struct service_request *request =
	    service_manage(service, call, sizeof(*request), "draining and reserving GPUs");
	struct err err = {0};

	if (!request)
		return;

	_cleanup_free_ struct queue_claim *claim = calloc(1, sizeof(*claim));
	int rc = claim ? 0 : err_set(&err, -ENOMEM, "no memory for a reservation");
	if (rc == 0 && !asked->claim)
		rc = err_set(&err, -EINVAL, "the request says nothing of what to drain or reserve");
	if (rc == 0)
		rc = service_claim_take(asked->claim, &claim->claim, &err);

	if (rc < 0) {
		service_request_fail(request, &err);
		return;
	}

	claim->what = asked->remove ? QUEUE_CLAIM_REMOVE : QUEUE_CLAIM_ADD;
	claim->ids = *asked->gpu_ids ? asked->gpu_ids : NULL;
	claim->gpus = asked->gpus;
	service_request_wait(request);
	queue_claim(service->options.queue, claim, service_claimed, request);
}

void service_claims(struct wire_call *call, const ProtobufCMessage *message, void *context)
{
	struct service *service = context;
	struct service_request *request =
	    service_request_new(service, call, SERVICE_CALL, sizeof(*request));
	_cleanup_free_ char *bytes = NULL;
	struct claims now = {.items = NULL};
	struct err err = {0};
	size_t length = 0;

	if (!request)
		return;

	/* Those that are over are none. */
	int rc = claims_copy(queue_claims(service->options.queue), clock_unix_ns(), &now);
	if (rc == 0)
		rc = claims_format(&now, &bytes, &length);
	Sluice__V1__Claims *reply =
	    rc == 0 ? sluice__v1__claims__unpack(NULL, length, (const uint8_t *)bytes) : NULL;

	claims_done(&now);
	if (reply) {
		service_request_reply(request, &reply->base);
		sluice__v1__claims__free_unpacked(reply, NULL);
		return;
	}

	(void)err_set(&err, -ENOMEM, "no memory for what is drained and reserved");
	service_request_fail(request, &err);
}
