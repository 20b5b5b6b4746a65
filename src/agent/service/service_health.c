/* SPDX-License-Identifier: Apache-2.0 */
/* Calls about the GPUs' health: Health, ClearHealth, Release. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/doors/door_kubelet.h"
#include "agent/doors/doors.h"
#include "agent/node.h"
#include "agent/service/service_internal.h"
#include "agent/usage/driver_users.h"
#include "agent/vitals.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/file.h"
#include "base/loop.h"
#include "base/storage.h"
#include "doors/kubelet/injection.h"
#include "doors/queue/claim/claims.h"
#include "hardware/gpu.h"
#include "hardware/health_marks.h"
#include "hardware/pci.h"
#include "hardware/snapshot.h"
#include "wire/arena.h"

#define HEALTH_RELEASE_MAX_NS (UINT64_C(7) * 24 * 3600 * CLOCK_NS_PER_S)
#define HEALTH_PROBE_END_NS   (2 * CLOCK_NS_PER_S)  /* that its probe may take to end */
#define HEALTH_PROBE_LOOK_NS  (5 * CLOCK_NS_PER_MS) /* between looks whether it has */

/* --- Health ---------------------------------------------------------------------------------- */

static int service_health_gpus(const struct service *service, struct arena *arena,
			       Sluice__V1__HealthReply *out, struct err *err)
{
	_cleanup_free_ struct vitals_view *view = calloc(1, sizeof(*view));

	out->gpus = arena_alloc(arena, HEALTH_MARKS_GPU_MAX * sizeof(*out->gpus));
	if (!view || !out->gpus)
		return err_set(err, -ENOMEM, "out of memory for the answer");

	for (size_t i = 0; vitals_at(service->options.vitals, i, view); i++) {
		if (!view->here && view->verdict.state != HEALTH_UNHEALTHY)
			continue; /* gone, and nothing is known against it */

		int rc = message_from_health(view, arena, &out->gpus[out->n_gpus], err);
		if (rc < 0)
			return rc;

		Sluice__V1__GpuHealth *gpu = out->gpus[out->n_gpus++];
		unsigned how = service_claims_how(service, gpu->uuid, true, arena, &gpu->claim);

		gpu->drained = how & CLAIMS_DRAINED;
		gpu->reserved = how & CLAIMS_RESERVED;
	}

	return 0;
}

static void service_health_machine(const struct service *service, struct arena *arena,
				   Sluice__V1__HealthReply *out)
{
	const struct node *node = service->options.node;
	const struct inventory *inventory = node_inventory(node);
	const struct door_kubelet *door = doors_at(service->options.doors, DOOR_KUBELET);
	const struct injection *injection = door ? door_kubelet_injection(door) : NULL;
	uint64_t until_ns = node_released_until_ns(node);
	uint64_t now_ns = loop_now_ns(service->options.loop);

	out->simulated = inventory && inventory->simulated;
	out->driver = answer_text(arena, inventory ? inventory->driver_version : "");
	out->driver_error = answer_text(arena, inventory ? "" : node_problem(node));
	out->kernel_log_error =
	    answer_text(arena, vitals_kernel_log_error(service->options.vitals));

	if (injection) {
		out->injection =
		    answer_text(arena, injection_way_to_string(injection_now(injection)));
		out->injection_reason = answer_text(arena, injection_reason(injection));
	}

	if (until_ns != 0)
		out->released_until_unix_ns =
		    clock_unix_ns() + (until_ns > now_ns ? (int64_t)(until_ns - now_ns) : 0);
}

void service_health(struct wire_call *call, const ProtobufCMessage *message, void *context)
{
	struct service *service = context;
	struct service_request *request =
	    service_request_new(service, call, SERVICE_CALL, sizeof(*request));
	if (!request)
		return;

	_cleanup_arena_ struct arena arena;
	Sluice__V1__HealthReply reply = SLUICE__V1__HEALTH_REPLY__INIT;
	struct err err = {0};

	arena_init(&arena, SERVICE_ARENA_MAX);
	service_health_machine(service, &arena, &reply);

	if (service_health_gpus(service, &arena, &reply, &err) == 0)
		service_request_reply(request, &reply.base);
	else
		service_request_fail(request, &err);
}

/* --- ClearHealth ----------------------------------------------------------------------------- */

static int service_health_allow(const struct service *service, const struct wire_call *call,
				const char *what, struct err *err)
{
	struct message_view view = service_view(service, call, false);
	return view.is_admin
		   ? 0
		   : err_set(err, -EPERM, "only root and the agent's own user may %s", what);
}

void service_clear_health(struct wire_call *call, const ProtobufCMessage *message, void *context)
{
	struct service *service = context;
	const Sluice__V1__ClearHealthRequest *asked = (const void *)message;
	struct err err = {0};
	int rc = service_health_allow(service, call, "forget what is held against a GPU", &err);
	struct service_request *request =
	    service_request_new(service, call, SERVICE_CALL, sizeof(*request));
	if (!request)
		return;

	Sluice__V1__ClearHealthReply reply = SLUICE__V1__CLEAR_HEALTH_REPLY__INIT;

	if (rc == 0)
		rc = vitals_clear(service->options.vitals, asked->gpu, &reply.gpus, &err);
	if (rc == 0)
		service_request_reply(request, &reply.base);
	else
		service_request_fail(request, &err);
}

/* --- Release --------------------------------------------------------------------------------- */

struct service_release {
	struct service_request request;
	struct loop_timer *look; /* owned; until the probe has ended */
	uint64_t until_ns;	 /* loop time; then it is named among the others */
	struct storage_job job;
	char dev[FILE_PATH_MAX];
	struct driver_user user[DRIVER_USERS_MAX];
	size_t user_count;
};

static void service_release_done(struct service_request *request)
{
	struct service_release *release = (struct service_release *)request;
	(void)loop_timer_free(release->look);
}

static void service_release_reply(void *context, int rc)
{
	struct service_release *release = context;
	if (!service_request_answered(&release->request))
		return;

	struct arena *arena = wire_call_arena(release->request.call);
	Sluice__V1__ReleaseReply reply = SLUICE__V1__RELEASE_REPLY__INIT;

	reply.holders = arena_alloc(arena, (release->user_count + 1) * sizeof(*reply.holders));
	for (size_t i = 0; reply.holders && i < release->user_count; i++) {
		const struct driver_user *user = &release->user[i];
		char text[160];
		(void)snprintf(text, sizeof(text), "process %d (%s): %s", (int)user->pid,
			       user->name[0] ? user->name : "?", user->node);
		reply.holders[reply.n_holders++] = answer_text(arena, text);
	}

	service_request_reply(&release->request, &reply.base);
}

static int service_release_find(void *context)
{
	struct service_release *release = context;
	release->user_count = driver_users_find("/proc", release->dev, release->user);
	return 0;
}

/* The caller may have gone meanwhile: then the request is freed with its answer. */
static void service_release_on_look(void *context)
{
	struct service_release *release = context;
	struct service *service = release->request.service;
	struct err err = {0};

	if (!node_probe_is_gone(service->options.node) &&
	    loop_now_ns(service->options.loop) < release->until_ns) {
		loop_timer_start(release->look, HEALTH_PROBE_LOOK_NS);
		return;
	}

	release->job = (struct storage_job){
	    .work = service_release_find, .done = service_release_reply, .context = release};
	if (storage_submit(service->options.storage, &release->job, &err) == 0) {
		service_request_wait(&release->request);
		return;
	}

	if (service_request_answered(&release->request))
		service_request_fail(&release->request, &err);
}

void service_release(struct wire_call *call, const ProtobufCMessage *message, void *context)
{
	struct service *service = context;
	const Sluice__V1__ReleaseRequest *asked = (const void *)message;
	struct err err = {0};
	int rc = service_health_allow(service, call, "let go of the driver", &err);
	struct service_release *release =
	    service_request_new(service, call, SERVICE_CALL, sizeof(*release));
	if (!release)
		return;

	release->request.release = service_release_done;
	if (rc == 0 && asked->ns > HEALTH_RELEASE_MAX_NS)
		rc = err_set(&err, -EINVAL, "the driver is released for a week at most");
	if (rc == 0)
		rc = file_path(release->dev, &err, "%s/dev", pci_root());

	if (rc == 0) {
		release->look =
		    loop_timer_new(service->options.loop, service_release_on_look, release, &err);
		rc = release->look ? 0 : -ENOMEM;
	}

	if (rc < 0) {
		service_request_fail(&release->request, &err);
		return;
	}

	node_release(service->options.node, asked->ns);
	if (asked->ns == 0) {
		Sluice__V1__ReleaseReply reply = SLUICE__V1__RELEASE_REPLY__INIT;
		service_request_reply(&release->request, &reply.base);
		return;
	}

	release->until_ns = loop_now_ns(service->options.loop) + HEALTH_PROBE_END_NS;
	service_release_on_look(release);
}
