/* SPDX-License-Identifier: Apache-2.0 */
/* Calls about the machine: Status, Watch, Reload. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/answer.h"
#include "agent/cluster/cluster.h"
#include "agent/doors/doors.h"
#include "agent/node.h"
#include "agent/paths.h"
#include "agent/reload.h"
#include "agent/service/service_internal.h"
#include "agent/users.h"
#include "agent/vitals.h"
#include "agent/web/door_web.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/loop.h"
#include "doors/queue/schedule/schedule.h"
#include "hardware/gpu.h"
#include "hardware/snapshot.h"
#include "policy/policy.h"
#include "web/view.h"
#include "wire/arena.h"

enum service_node_limits {
	NODE_PROCESSES_MAX = 1024,
};

static uint64_t service_running(const struct queue *queue)
{
	return queue_count(queue, JOB_STARTING) + queue_count(queue, JOB_RUNNING) +
	       queue_count(queue, JOB_STOPPING);
}

/* --- Status ---------------------------------------------------------------------------------- */

/* NULL: no memory, and the list ends there. */
static Sluice__V1__Process *service_process(struct arena *arena, pid_t pid, const char *role)
{
	Sluice__V1__Process *process = arena_alloc(arena, sizeof(*process));
	if (!process)
		return NULL;
	sluice__v1__process__init(process);
	process->role = answer_text(arena, role);
	process->pid = (uint32_t)pid;
	return process;
}

static void service_status_processes(const struct service *service, struct arena *arena,
				     Sluice__V1__StatusReply *out)
{
	const struct queue *queue = service->options.queue;
	size_t room = 4 + service_running(queue);
	pid_t probe = node_probe_pid(service->options.node);

	if (room > NODE_PROCESSES_MAX)
		room = NODE_PROCESSES_MAX;
	out->processes = arena_alloc(arena, room * sizeof(*out->processes));
	if (!out->processes)
		return;

	out->processes[0] = service_process(arena, getpid(), "agent");
	out->n_processes = out->processes[0] ? 1 : 0;
	if (probe > 0 && out->n_processes == 1) {
		out->processes[1] = service_process(arena, probe, "probe");
		out->n_processes += out->processes[1] != NULL;
	}

	pid_t kube = cluster_pid(service->options.cluster);
	if (kube > 0 && out->n_processes > 0) {
		out->processes[out->n_processes] = service_process(arena, kube, "kube");
		out->n_processes += out->processes[out->n_processes] != NULL;
	}

	pid_t web = door_web_pid(doors_at(service->options.doors, DOOR_WEB));
	if (web > 0 && out->n_processes > 0) {
		out->processes[out->n_processes] = service_process(arena, web, "web");
		out->n_processes += out->processes[out->n_processes] != NULL;
	}

	uint64_t running = service_running(queue); /* of thousands that wait, perhaps */

	for (const struct job *job = queue_first(queue);
	     job && running > 0 && out->n_processes < room; job = queue_next(queue, job)) {
		struct queue_attempt attempt;
		char role[64];

		if (job->state == JOB_PENDING || job->state == JOB_HELD)
			continue;

		running--;
		queue_attempt_of(queue, job, &attempt);
		if (attempt.supervisor_pid <= 0)
			continue;

		(void)snprintf(role, sizeof(role), "supervisor of job %" PRIu64, job->id);
		Sluice__V1__Process *process = service_process(arena, attempt.supervisor_pid, role);
		if (!process)
			return;

		out->processes[out->n_processes++] = process;
	}
}

static void service_warn_claims(const struct service *service, struct arena *arena,
				Sluice__V1__StatusReply *out)
{
	const struct claims *claims = queue_claims(service->options.queue);
	int64_t now_unix_ns = clock_unix_ns();

	for (size_t i = 0; i < claims->count; i++) {
		const struct claim *claim = &claims->items[i];
		bool is_reservation = claim->kind == CLAIM_RESERVATION;
		char said[CLAIM_TEXT_MAX], text[CLAIM_TEXT_MAX + 32];

		if (is_reservation && claim->end_unix_ns <= now_unix_ns)
			continue;

		(void)snprintf(text, sizeof(text), "%s: %s",
			       is_reservation ? "reserved" : "drained", claim_text(claim, said));
		answer_warn(out, arena, text);
	}
}

/* Devices that the configuration has taken from the queue while a job still runs on them: nothing
 * is taken away from a job. */
static void service_warn_draining(const struct service *service, struct arena *arena,
				  Sluice__V1__StatusReply *out)
{
	const struct queue *queue = service->options.queue;
	const struct schedule_machine *machine = queue_machine(queue);
	uint64_t running = machine && machine->inventory ? service_running(queue) : 0;

	for (const struct job *job = queue_first(queue); job && running > 0;
	     job = queue_next(queue, job)) {
		struct queue_attempt attempt;

		if (job->state == JOB_PENDING || job->state == JOB_HELD)
			continue;

		running--;
		queue_attempt_of(queue, job, &attempt);

		for (size_t i = 0; i < attempt.grant_count; i++) {
			char text[192];

			if (schedule_machine_find(machine, attempt.grants[i].uuid))
				continue;

			(void)snprintf(text, sizeof(text),
				       "%s is not the queue's any more: job %" PRIu64
				       " keeps it until it ends",
				       attempt.grants[i].label, job->id);
			answer_warn(out, arena, text);
		}
	}
}

static void service_status_warnings(const struct service *service, struct arena *arena,
				    Sluice__V1__StatusReply *out)
{
	const struct config *config = reload_state(service->options.reload)->config;
	const struct policy *policy = node_policy(service->options.node);

	for (uint32_t i = 0; i < config->warning_count && i < CONFIG_WARNINGS_MAX; i++) {
		char text[320];
		(void)snprintf(text, sizeof(text), "line %" PRIu32 ", column %" PRIu32 ": %s",
			       config->warning[i].line, config->warning[i].column,
			       config->warning[i].text);
		answer_warn(out, arena, text);
	}

	for (uint32_t i = 0; policy && i < policy->warning_count && i < POLICY_WARNINGS_MAX; i++)
		answer_warn(out, arena, policy->warning[i]);

	const struct inventory *inventory = node_inventory(service->options.node);
	if (inventory && *node_problem(service->options.node))
		answer_warn(out, arena, node_problem(service->options.node));

	for (uint32_t i = 0; inventory && i < inventory->gpu_count; i++) {
		const struct gpu *gpu = &inventory->gpus[i];
		char text[320];

		if (gpu->state == GPU_STATE_OK)
			continue;

		(void)snprintf(text, sizeof(text), "GPU %" PRIu32 " is %s: %s", gpu->index,
			       gpu_state_to_string(gpu->state), gpu->reason);
		answer_warn(out, arena, text);
	}
}

void service_status(struct wire_call *call, const ProtobufCMessage *message, void *context)
{
	struct service *service = context;
	struct service_request *request =
	    service_request_new(service, call, SERVICE_CALL, sizeof(*request));
	if (!request)
		return;

	_cleanup_arena_ struct arena arena;
	const struct reload_state *state = reload_state(service->options.reload);
	const struct inventory *inventory = node_inventory(service->options.node);
	Sluice__V1__StatusReply reply = SLUICE__V1__STATUS_REPLY__INIT;
	char version[] = SLUICE_VERSION;

	arena_init(&arena, SERVICE_ARENA_MAX);
	reply.version = version;
	reply.pid = (uint32_t)getpid();
	reply.started_unix_ns = service->options.started_unix_ns;
	reply.state_directory = answer_text(&arena, service->options.paths->state_dir);
	reply.runtime_directory = answer_text(&arena, service->options.paths->runtime_dir);
	reply.configuration = answer_text(&arena, state->path);
	reply.configured_unix_ns = state->read_unix_ns;
	reply.configuration_error = answer_text(&arena, state->error);
	reply.configuration_name = answer_text(&arena, state->name);
	reply.configuration_missing = answer_text(&arena, state->missing);
	reply.driver = answer_text(&arena, inventory ? inventory->driver_version : "");
	reply.driver_error =
	    answer_text(&arena, inventory ? "" : node_problem(service->options.node));
	reply.simulated = inventory && inventory->simulated;

	reply.gpus = inventory ? inventory->gpu_count : 0;
	reply.pending = queue_count(service->options.queue, JOB_PENDING);
	reply.running = service_running(service->options.queue);
	reply.storage_error = answer_text(&arena, service_storage_error(service));
	reply.kubernetes_error = answer_text(&arena, cluster_problem(service->options.cluster));

	service_status_processes(service, &arena, &reply);
	service_status_warnings(service, &arena, &reply);
	doors_status(service->options.doors, &arena, &reply);
	service_warn_draining(service, &arena, &reply);
	service_warn_claims(service, &arena, &reply);
	service_request_reply(request, &reply.base);
}

/* --- Watch ----------------------------------------------------------------------------------- */

struct service_machine_watch {
	struct service_request request;
	struct message_view view;
	bool once;
};

/* The verdicts that `sluice health` and the page show. */
static int service_machine_health(const struct service *service, struct arena *arena,
				  Sluice__V1__Machine *out, struct err *err)
{
	_cleanup_free_ struct vitals_view *vitals = calloc(1, sizeof(*vitals));
	if (!vitals)
		return err_set(err, -ENOMEM, "out of memory for the answer");

	for (size_t at = 0; vitals_at(service->options.vitals, at, vitals); at++) {
		const struct health_verdict *verdict = &vitals->verdict;

		for (size_t i = 0; i < out->n_gpus; i++) {
			Sluice__V1__Gpu *gpu = out->gpus[i];
			if (strcmp(gpu->uuid, vitals->uuid) != 0)
				continue;

			gpu->health = answer_text(arena, health_state_to_string(verdict->state));
			if (verdict->reason_count == 0)
				continue;

			gpu->health_reason = answer_text(arena, verdict->reason[0].text);
			gpu->health_advice = answer_text(arena, verdict->reason[0].advice);
		}
	}

	return 0;
}

/* A MIG device stands behind its GPU, and is claimed with it. */
static void service_machine_claims(const struct service *service, struct arena *arena,
				   Sluice__V1__Machine *out)
{
	unsigned whole = 0;

	for (size_t i = 0; i < out->n_gpus; i++) {
		Sluice__V1__Gpu *gpu = out->gpus[i];
		unsigned how = service_claims_how(service, gpu->uuid, false, arena, &gpu->claim);

		if (!gpu->is_mig)
			whole = how;
		gpu->drained = (how | whole) & CLAIMS_DRAINED;
		gpu->reserved = (how | whole) & CLAIMS_RESERVED;
	}
}

static int service_machine_job(struct service *service, const struct message_view *view,
			       const struct job *job, const struct queue_attempt *attempt,
			       struct arena *arena, Sluice__V1__Machine *out, struct err *err)
{
	Sluice__V1__Job *message = arena_alloc(arena, sizeof(*message));
	if (!message)
		return err_set(err, -ENOMEM, "out of memory for the answer");
	out->jobs[out->n_jobs++] = message;
	return service_job_message(service, view, job, attempt, arena, message, err);
}

static int service_machine_jobs(struct service *service, const struct message_view *view,
				struct arena *arena, Sluice__V1__Machine *out, struct err *err)
{
	const struct queue *queue = service->options.queue;
	size_t pending = 0,
	       room = SERVICE_MACHINE_PENDING + service_running(queue) + service->recent_count;

	out->jobs = arena_alloc(arena, (room + 1) * sizeof(*out->jobs));
	if (!out->jobs)
		return err_set(err, -ENOMEM, "out of memory for the answer");

	int rc = 0;

	/* Waiting ones first, in their order. */
	for (int running = 0; running < 2; running++) {
		for (const struct job *job = queue_first(queue);
		     job && rc == 0 && out->n_jobs < room; job = queue_next(queue, job)) {
			struct queue_attempt attempt;
			bool is_pending = job->state == JOB_PENDING;

			if (is_pending == (running == 1) ||
			    (is_pending && pending++ >= SERVICE_MACHINE_PENDING))
				continue;

			queue_attempt_of(queue, job, &attempt);
			rc = service_machine_job(service, view, job, &attempt, arena, out, err);
		}
	}

	for (size_t i = 0; rc == 0 && i < service->recent_count && out->n_jobs < room; i++)
		rc = service_machine_job(service, view, &service->recent[i], NULL, arena, out, err);

	return rc;
}

static int service_machine_message(struct service *service, const struct message_view *view,
				   struct arena *arena, Sluice__V1__Machine *out, struct err *err)
{
	const struct node *node = service->options.node;
	const struct inventory *inventory = node_inventory(node);
	const struct snapshot *snapshot = node_snapshot(node);

	sluice__v1__machine__init(out);
	out->unix_ns = clock_unix_ns();
	out->simulated = inventory && inventory->simulated;
	out->driver = answer_text(arena, inventory ? inventory->driver_version : "");
	out->driver_error = answer_text(arena, inventory ? "" : node_problem(node));
	out->pending = queue_count(service->options.queue, JOB_PENDING);
	out->running = service_running(service->options.queue);

	uint64_t sampled_ns = 0, now_ns = loop_now_ns(service->options.loop);
	for (uint32_t i = 0; snapshot && i < snapshot->gpu_count; i++)
		if (snapshot->gpu[i].sampled_ns[SNAPSHOT_FAST] > sampled_ns)
			sampled_ns = snapshot->gpu[i].sampled_ns[SNAPSHOT_FAST];

	if (sampled_ns > 0 && now_ns > sampled_ns)
		out->age_ns = now_ns - sampled_ns;
	out->stale = out->age_ns > VIEW_STALE_NS;

	int rc = 0;

	if (snapshot)
		rc = message_from_gpus(snapshot, inventory, queue_machine(service->options.queue),
				       arena, &out->gpus, &out->n_gpus, err);

	if (rc == 0)
		service_machine_claims(service, arena, out);
	if (rc == 0 && service->options.vitals)
		rc = service_machine_health(service, arena, out, err);
	if (rc == 0 && snapshot)
		rc = service_machine_uses(service, view, snapshot, arena, out, err);
	if (rc == 0)
		rc = service_machine_jobs(service, view, arena, out, err);

	return rc;
}

static void service_recent_each(const struct job *job, const struct queue_attempt *attempt,
				void *context)
{
	struct service *service = context;
	if (service->recent_count < SERVICE_MACHINE_FINAL &&
	    job_copy(job, &service->recent[service->recent_count]) == 0)
		service->recent_count++;
}

static void service_recent_tell(void *context)
{
	service_machine_changed(context);
}

static void service_recent_done(int rc, const struct err *err, void *context)
{
	struct service *service = context;
	service->recent_is_asked = false;
	/* Not at once: the question may have come from within a walk over the watchers. */
	loop_defer(service->options.loop, &service->recent_task, service_recent_tell, service);
}

/* Asks for the jobs that ended lately, when some may have. */
static void service_recent_ask(struct service *service)
{
	if (service->recent_is_asked || !service->recent_is_stale || service->is_stopping)
		return;
	if (!service->recent)
		service->recent = calloc(SERVICE_MACHINE_FINAL, sizeof(*service->recent));
	if (!service->recent)
		return;

	while (service->recent_count > 0)
		job_done(&service->recent[--service->recent_count]);

	service->recent_is_stale = false;
	service->recent_is_asked = true;

	const struct queue_query query = {
	    .since_unix_ns = clock_unix_ns() - SERVICE_LATELY_NS,
	    .max = SERVICE_MACHINE_FINAL,
	    .each = service_recent_each,
	    .done = service_recent_done,
	    .context = service,
	};
	queue_query(service->options.queue, &query);
}

void service_watch_machine_update(struct service_request *request)
{
	struct service_machine_watch *watch = (struct service_machine_watch *)request;
	struct service *service = request->service;

	if (!node_is_known(service->options.node) || !service->options.queue)
		return;

	service_recent_ask(service);
	if (service->recent_is_asked)
		return; /* comes back in a moment */

	_cleanup_arena_ struct arena arena;
	Sluice__V1__Machine message;
	struct err err = {0};

	arena_init(&arena, SERVICE_ARENA_MAX);
	int rc = service_machine_message(service, &watch->view, &arena, &message, &err);
	if (rc < 0)
		service_request_fail(request, &err);
	else if (service_request_send(request, &message.base) && watch->once)
		service_request_finish(request, WIRE_OK, NULL);
}

void service_watch_machine(struct wire_call *call, const ProtobufCMessage *message, void *context)
{
	struct service *service = context;
	struct service_machine_watch *watch =
	    service_request_new(service, call, SERVICE_WATCH_MACHINE, sizeof(*watch));
	if (!watch)
		return;

	watch->once = ((const Sluice__V1__WatchRequest *)message)->once;
	watch->view = service_view(service, call, false);
	watch->request.resume = service_watch_machine_update;
	service_watch_machine_update(&watch->request);
}

/* --- Reload ---------------------------------------------------------------------------------- */

static void service_reloaded(int rc, uint32_t changed, const struct err *err, void *context)
{
	struct service_request *request = context;
	if (!service_request_answered(request))
		return;
	if (rc < 0) {
		service_request_fail(request, err);
		return;
	}

	const struct reload_state *state = reload_state(request->service->options.reload);
	const struct config *config = state->config;
	struct arena *arena = wire_call_arena(request->call);
	Sluice__V1__ReloadReply reply = SLUICE__V1__RELOAD_REPLY__INIT;

	reply.changed_resources = changed;
	reply.warnings = arena_alloc(arena, (CONFIG_WARNINGS_MAX + 1) * sizeof(*reply.warnings));
	if (reply.warnings && state->missing[0] != '\0') {
		char text[2 * CHOICE_NAME_MAX];
		(void)snprintf(text, sizeof(text), "specified config %s does not exist",
			       state->missing);
		reply.warnings[reply.n_warnings++] = answer_text(arena, text);
	}

	for (uint32_t i = 0; reply.warnings && i < config->warning_count && i < CONFIG_WARNINGS_MAX;
	     i++) {
		char text[320];
		(void)snprintf(text, sizeof(text), "line %" PRIu32 ", column %" PRIu32 ": %s",
			       config->warning[i].line, config->warning[i].column,
			       config->warning[i].text);
		reply.warnings[reply.n_warnings++] = answer_text(arena, text);
	}

	service_request_reply(request, &reply.base);
}

void service_reload(struct wire_call *call, const ProtobufCMessage *message, void *context)
{
	struct service *service = context;
	struct message_view view = service_view(service, call, false);
	struct service_request *request =
	    service_request_new(service, call, SERVICE_CALL, sizeof(*request));
	if (!request)
		return;

	struct err err = {0};
	int rc = view.is_admin ? 0
			       : err_set(&err, -EPERM,
					 "only root and the agent's own user may have the "
					 "configuration read again");
	if (rc == 0)
		rc = reload_start(service->options.reload, service_reloaded, request, &err);
	if (rc == 0)
		service_request_wait(request);
	else
		service_request_fail(request, &err);
}
