/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/service/service.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "agent/paths.h"
#include "agent/service/service_internal.h"
#include "agent/users.h"
#include "base/account.h"
#include "base/check.h"
#include "base/err.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/storage.h"
#include "doors/queue/rules.h"
#include "wire/arena.h"

/* What is submitted or changed can be large; all else names a job, a user, a state. */
#define LARGE_ROW(service_, name, request_, reply_, streams, handler)                              \
	{                                                                                          \
		.path = "/sluice.v1." service_ "/" name,                                           \
		.request = &sluice__v1__##request_##__descriptor,                                  \
		.reply = &sluice__v1__##reply_##__descriptor, .server_streams = (streams),         \
		.request_max = SERVICE_SUBMIT_MAX, .handle = (handler),                            \
	}

#define ROW(service_, name, request_, reply_, streams, handler)                                    \
	{                                                                                          \
		.path = "/sluice.v1." service_ "/" name,                                           \
		.request = &sluice__v1__##request_##__descriptor,                                  \
		.reply = &sluice__v1__##reply_##__descriptor, .server_streams = (streams),         \
		.request_max = SERVICE_REQUEST_MAX, .arena_max = SERVICE_REPLY_MAX,                \
		.handle = (handler),                                                               \
	}

static const struct wire_method service_methods[] = {
    LARGE_ROW("Queue", "Submit", submit_request, submit_reply, false, service_submit),
    ROW("Queue", "List", list_request, list_reply, true, service_list),
    ROW("Queue", "Get", job_request, job, false, service_get),
    ROW("Queue", "Watch", job_request, job, true, service_watch_job),
    ROW("Queue", "Signal", signal_request, signal_reply, false, service_signal),
    ROW("Queue", "Cancel", cancel_request, cancel_reply, false, service_cancel),
    LARGE_ROW("Queue", "Change", change_request, change_reply, false, service_change),
    LARGE_ROW("Queue", "Act", act_request, act_reply, false, service_act_many),
    ROW("Queue", "Drain", drain_request, drain_reply, false, service_drain),
    ROW("Queue", "Claim", claim_request, claim_reply, false, service_claim),
    ROW("Queue", "ListClaims", claims_request, claims, false, service_claims),
    ROW("Queue", "Collect", collect_request, collect_reply, false, service_collect),
    ROW("Queue", "Usage", usage_request, usage_reply, false, service_usage),
    ROW("Queue", "Logs", logs_request, log_chunk, true, service_logs),
    ROW("Node", "Status", status_request, status_reply, false, service_status),
    ROW("Node", "Watch", watch_request, machine, true, service_watch_machine),
    ROW("Node", "Reload", reload_request, reload_reply, false, service_reload),
    ROW("Node", "Holders", holders_request, holders_reply, false, service_holders),
    ROW("Node", "Health", health_request, health_reply, false, service_health),
    ROW("Node", "ClearHealth", clear_health_request, clear_health_reply, false,
	service_clear_health),
    ROW("Node", "Release", release_request, release_reply, false, service_release),
    {.path = NULL},
};

/* Those of a SERVICE_CALL are counted with the streams. */
static const enum account_resource service_kind_resource[SERVICE_KIND_COUNT] = {
    [SERVICE_CALL] = ACCOUNT_RESOURCE_COUNT,
    [SERVICE_WATCH_JOB] = ACCOUNT_JOB_WATCHES,
    [SERVICE_WATCH_MACHINE] = ACCOUNT_MACHINE_WATCHES,
    [SERVICE_LIST] = ACCOUNT_LISTS,
    [SERVICE_LOGS] = ACCOUNT_LOGS,
};

/* --- requests -------------------------------------------------------------------------------- */

static void service_on_evict(void *context);

/* Of the account. Where others had to make room for it, they go as soon as nobody looks. */
static int service_charge(struct service *service, enum account_resource resource, uid_t uid,
			  uint64_t amount, struct err *err)
{
	uid_t largest;
	int rc = account_take(service->options.account, resource, uid, amount, err);
	if (rc == 0 && account_excess(service->options.account, resource, &largest))
		loop_defer(service->options.loop, &service->evict_task, service_on_evict, service);
	return rc;
}

int service_request_keep(struct service_request *request, uint64_t amount, struct err *err)
{
	struct service *service = request->service;
	uint64_t before = request->list_bytes;
	int rc = 0;

	if (amount > before)
		rc =
		    service_charge(service, ACCOUNT_LIST_BYTES, request->uid, amount - before, err);
	else
		account_give(service->options.account, ACCOUNT_LIST_BYTES, request->uid,
			     before - amount);

	if (rc == 0)
		request->list_bytes = amount;

	return rc;
}

/* Nobody waits for it any more: it is on no account. */
static void service_request_leave(struct service_request *request)
{
	(void)service_request_keep(request, 0, NULL);
	if (request->is_counted)
		account_give(request->service->options.account,
			     service_kind_resource[request->kind], request->uid, 1);
	request->is_counted = false;
	request->call = NULL;
}

static void service_request_free(struct service_request *request)
{
	if (request->release)
		request->release(request);
	*request->link = request->next;
	if (request->next)
		request->next->link = request->link;
	request->service->count[request->kind]--;
	service_request_leave(request);
	free(request);
}

static void service_request_gone(void *context)
{
	struct service_request *request = context;
	service_request_leave(request);
	if (!request->is_waiting)
		service_request_free(request);
}

void *service_request_new(struct service *service, struct wire_call *call, enum service_kind kind,
			  size_t size)
{
	service->last_call_ns = loop_now_ns(service->options.loop);
	if (service->is_stopping) {
		wire_call_finish(call, WIRE_UNAVAILABLE, "the agent is stopping");
		return NULL;
	}

	uid_t uid = wire_call_peer(call)->uid;
	enum account_resource resource = service_kind_resource[kind];
	struct err err = {0};

	if (kind != SERVICE_CALL && service_charge(service, resource, uid, 1, &err) < 0) {
		wire_call_finish(call, WIRE_RESOURCE_EXHAUSTED, err.text);
		return NULL;
	}

	struct service_request *request = calloc(1, size);
	if (!request) {
		if (kind != SERVICE_CALL)
			account_give(service->options.account, resource, uid, 1);
		wire_call_finish(call, WIRE_RESOURCE_EXHAUSTED, "the agent is out of memory");
		return NULL;
	}

	request->uid = uid;
	request->is_counted = kind != SERVICE_CALL;
	request->service = service;
	request->call = call;
	request->kind = kind;
	request->next = service->requests;
	request->link = &service->requests;
	if (request->next)
		request->next->link = &request->next;
	service->requests = request;
	service->count[kind]++;
	wire_call_on_cancel(call, service_request_gone, request);

	return request;
}

void service_request_wait(struct service_request *request)
{
	request->is_waiting = true;
}

bool service_request_answered(struct service_request *request)
{
	request->is_waiting = false;
	if (request->call)
		return true;
	service_request_free(request);
	return false;
}

void service_request_finish(struct service_request *request, enum wire_status status,
			    const char *message)
{
	if (request->call)
		wire_call_finish(request->call, status, message);
	service_request_leave(request);
	if (!request->is_waiting)
		service_request_free(request);
}

void service_request_fail(struct service_request *request, const struct err *err)
{
	service_request_finish(request, message_status(err->code), err->text);
}

void service_request_reply(struct service_request *request, const ProtobufCMessage *reply)
{
	struct err err = {0};

	if (!request->call) {
		service_request_finish(request, WIRE_OK, NULL);
	} else if (wire_call_reply(request->call, reply, &err) < 0) {
		service_request_fail(request, &err);
	} else {
		request->call = NULL;
		service_request_finish(request, WIRE_OK, NULL);
	}
}

/* The newest call by which the largest holder has some of it. False: there is none. */
static bool service_evict(struct service *service, enum account_resource resource, uid_t owner)
{
	for (struct service_request *at = service->requests; at; at = at->next) {
		bool is_kind = service_kind_resource[at->kind] == resource ||
			       (resource == ACCOUNT_LIST_BYTES && at->list_bytes > 0);
		if (!at->call || !is_kind ||
		    account_owner(service->options.account, at->uid) != owner)
			continue;

		service_request_finish(at, WIRE_RESOURCE_EXHAUSTED,
				       "others need it, and nobody has more such calls than you: "
				       "end some");
		return true;
	}

	return false;
}

static void service_on_evict(void *context)
{
	static const enum account_resource resources[] = {ACCOUNT_JOB_WATCHES,
							  ACCOUNT_MACHINE_WATCHES, ACCOUNT_LISTS,
							  ACCOUNT_LIST_BYTES, ACCOUNT_LOGS};
	struct service *service = context;
	uid_t owner;

	for (size_t i = 0; i < array_length(resources); i++)
		while (account_excess(service->options.account, resources[i], &owner) &&
		       service_evict(service, resources[i], owner))
			;
}

/* --- readers that do not read ---------------------------------------------------------------- */

static void service_on_writable(void *context)
{
	struct service_request *request = context;
	request->blocked_ns = 0;
	request->resume(request);
}

static void service_on_stall(void *context)
{
	struct service *service = context;
	uint64_t now_ns = loop_now_ns(service->options.loop);
	bool any = false;

	for (struct service_request *at = service->requests, *next; at; at = next) {
		next = at->next;
		if (at->blocked_ns == 0 || !at->call)
			continue;
		if (now_ns - at->blocked_ns < SERVICE_STALL_NS) {
			any = true;
			continue;
		}

		const struct wire_peer *peer = wire_call_peer(at->call);
		log_write(service->options.log, LOG_LEVEL_NOTICE, NULL,
			  "process %d of uid %u does not read what it asked for: dropped",
			  (int)peer->pid, (unsigned)peer->uid);
		wire_call_drop(at->call);
		at->call = NULL;
		service_request_finish(at, WIRE_OK, NULL);
	}

	if (any)
		loop_timer_start(service->stall, SERVICE_STALL_NS / 6);
}

bool service_request_send(struct service_request *request, const ProtobufCMessage *reply)
{
	struct service *service = request->service;
	struct err err = {0};
	int rc = wire_call_reply(request->call, reply, &err);
	if (rc == 0)
		return true;

	if (rc != -EAGAIN) {
		service_request_fail(request, &err);
		return false;
	}

	request->blocked_ns = loop_now_ns(service->options.loop);
	wire_call_on_writable(request->call, service_on_writable, request);
	if (!loop_timer_is_running(service->stall))
		loop_timer_start(service->stall, SERVICE_STALL_NS / 6);

	return false;
}

/* --- who asks -------------------------------------------------------------------------------- */

struct message_view service_view(const struct service *service, const struct wire_call *call,
				 bool details)
{
	uid_t uid = wire_call_peer(call)->uid;
	return (struct message_view){
	    .viewer = uid,
	    .is_admin = uid == 0 || uid == geteuid(),
	    .details = details,
	    .state_dir = service->options.paths->state_dir,
	};
}

bool service_is_manager(const struct service_request *request)
{
	const struct queue_rules *rules = queue_rules(request->service->options.queue);
	const struct wire_peer *peer = wire_call_peer(request->call);
	gid_t *groups;
	size_t count = 0;

	if (peer->uid == 0 || peer->uid == geteuid())
		return true;
	if (!rules->has_admin_group)
		return false;

	/* Of the process that asks, not of the database: it does not wait, and a group that
	 * somebody was put into counts when he has logged in with it, as everywhere. */
	if (wire_call_peer_groups(request->call, &groups, &count, NULL) < 0)
		return false;

	bool is_member = peer->gid == rules->admin_group;
	for (size_t i = 0; i < count; i++)
		is_member |= groups[i] == rules->admin_group;

	return is_member;
}

int service_check_act(const struct service_request *request, uint64_t id, uid_t uid,
		      struct err *err)
{
	if (wire_call_peer(request->call)->uid == uid || service_is_manager(request))
		return 0;
	return err_set(err, -EPERM, "job %" PRIu64 " belongs to %s", id,
		       users_name(request->service->users, uid));
}

int service_check_priority(const struct service_request *request, int32_t priority, struct err *err)
{
	if (priority <= 0 || service_is_manager(request))
		return 0;
	return err_set(err, -EPERM,
		       "priority %" PRId32 ": above 0 is for root and the members of "
		       "sluice.jobs.adminGroup; 0 down to -100 put a job behind your others",
		       priority);
}

int service_job_message(struct service *service, const struct message_view *view,
			const struct job *job, const struct queue_attempt *attempt,
			struct arena *arena, Sluice__V1__Job *out, struct err *err)
{
	return message_from_job(view, job, users_name(service->users, job->uid), attempt, arena,
				out, err);
}

/* --- changes --------------------------------------------------------------------------------- */

/* Updating one request may free it, but no other. */
static void service_tell(struct service *service, enum service_kind kind,
			 void (*update)(struct service_request *request))
{
	if (service->count[kind] == 0)
		return;
	for (struct service_request *at = service->requests, *next; at; at = next) {
		next = at->next;
		if (at->kind == kind && at->call && at->blocked_ns == 0)
			update(at);
	}
}

void service_jobs_changed(struct service *service)
{
	service->recent_is_stale = true;
	service_tell(service, SERVICE_WATCH_JOB, service_watch_job_update);
}

static void service_on_again(void *context)
{
	struct service *service = context;
	service_tell(service, SERVICE_WATCH_JOB, service_watch_job_update);
}

void service_ask_again(struct service *service)
{
	if (!loop_timer_is_running(service->again))
		loop_timer_start(service->again, SERVICE_AGAIN_NS);
}

void service_machine_changed(struct service *service)
{
	service_tell(service, SERVICE_WATCH_MACHINE, service_watch_machine_update);
}

/* --- its life -------------------------------------------------------------------------------- */

int service_new(const struct service_options *options, int listen_fd, struct service **out,
		struct err *err)
{
	struct service *service = calloc(1, sizeof(*service));
	if (!service) {
		(void)close(listen_fd);
		return err_set(err, -ENOMEM, "out of memory for the agent's calls");
	}

	const struct users_options users = {.loop = options->loop, .children = options->children};
	const struct wire_server_options server = {
	    .methods = service_methods,
	    .context = service,
	    .idle_ns = SERVICE_IDLE_NS,
	    .account = options->account,
	};

	service->options = *options;
	service->recent_is_stale = true;
	service->last_call_ns = loop_now_ns(options->loop);
	service->stall = loop_timer_new(options->loop, service_on_stall, service, err);
	if (service->stall)
		service->again = loop_timer_new(options->loop, service_on_again, service, err);

	if (service->again)
		service->users = users_new(&users, err);
	if (service->users)
		service->server = wire_server_new(options->loop, &server, err);

	if (!service->server) {
		(void)close(listen_fd);
		(void)service_free(service);
		return -ENOMEM;
	}

	int rc = wire_server_add_listener(service->server, listen_fd, err);
	if (rc < 0) {
		(void)service_free(service);
		return rc;
	}

	*out = service;
	return 0;
}

int service_listen(struct service *service, int listen_fd, struct err *err)
{
	return wire_server_add_listener(service->server, listen_fd, err);
}

struct service *service_free(struct service *service)
{
	if (!service)
		return NULL;

	service->server = wire_server_free(service->server);
	loop_cancel(service->options.loop, &service->recent_task);
	loop_cancel(service->options.loop, &service->evict_task);

	while (service->requests) {
		service->requests->call = NULL;
		service_request_free(service->requests);
	}

	for (size_t i = 0; i < service->recent_count; i++)
		job_done(&service->recent[i]);

	free(service->recent);
	(void)users_free(service->users);
	(void)loop_timer_free(service->stall);
	(void)loop_timer_free(service->again);
	free(service);

	return NULL;
}

void service_stop(struct service *service, uint64_t deadline_ns, void (*done)(void *context),
		  void *context)
{
	service->is_stopping = true;
	for (struct service_request *at = service->requests, *next; at; at = next) {
		next = at->next;
		if (at->kind != SERVICE_CALL)
			service_request_finish(at, WIRE_UNAVAILABLE, "the agent is stopping");
	}
	wire_server_shutdown(service->server, deadline_ns, done, context);
}

bool service_is_busy(const struct service *service)
{
	struct wire_server_counts counts;
	wire_server_count(service->server, &counts);
	return counts.open_calls > 0;
}

uint64_t service_last_call_ns(const struct service *service)
{
	return service->last_call_ns;
}

const char *service_storage_error(struct service *service)
{
	const char *error = queue_storage_error(service->options.queue);
	uint64_t busy_ns = storage_busy_ns(service->options.storage);
	if (busy_ns < SERVICE_STUCK_NS)
		return error;

	(void)snprintf(service->storage_error, sizeof(service->storage_error),
		       "the disk of '%.128s' has not answered for %" PRIu64
		       " s: nothing is accepted",
		       service->options.paths->state_dir, busy_ns / 1000000000);
	return service->storage_error;
}
