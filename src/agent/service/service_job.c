/* SPDX-License-Identifier: Apache-2.0 */
/* Calls about one job: Submit, Get, Watch, Signal, Cancel. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "agent/paths.h"
#include "agent/jobs/peer_limits.h"
#include "agent/service/service_internal.h"
#include "agent/users.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "job/rights.h"
#include "job/warning.h"
#include "doors/queue/schedule/schedule.h"
#include "wire/arena.h"

/* --- Submit ---------------------------------------------------------------------------------- */

struct service_submission {
	struct service_request request;
	const Sluice__V1__SubmitRequest *message; /* borrowed: of the call */
	uint32_t gpus;
	bool gpus_if_any, dry_run;
};

/* What it gets: told by the job where there is one. */
static uint32_t service_submitted_gpus(const struct service_submission *submission, uint64_t id)
{
	const struct queue *queue = submission->request.service->options.queue;
	const struct job *job = id > 0 ? queue_find(queue, id) : NULL;
	if (job)
		return job->gpus;
	if (submission->gpus_if_any && queue_machine(queue)->device_count == 0)
		return 0;
	return submission->gpus;
}

static void service_submitted(int rc, uint64_t id, bool known, const char *reason,
			      const struct err *err, void *context)
{
	struct service_submission *submission = context;
	if (!service_request_answered(&submission->request))
		return;

	if (rc < 0) {
		struct err failure = *err;
		failure.code = rc;

		/* "not found" is for jobs; here it is a GPU that the request names */
		if (rc == -ENOENT)
			failure.code = -EINVAL;
		if (message_status(rc) == WIRE_ABORTED)
			(void)err_wrap(&failure, "the state in '%s' cannot be written",
				       submission->request.service->options.paths->state_dir);

		service_request_fail(&submission->request, &failure);
		return;
	}

	Sluice__V1__SubmitReply reply = SLUICE__V1__SUBMIT_REPLY__INIT;
	reply.id = id;
	reply.known = known;
	reply.reason =
	    arena_copy_valid(wire_call_arena(submission->request.call), reason ? reason : "");
	if (!reply.reason)
		reply.reason = (char *)protobuf_c_empty_string;
	reply.gpus = service_submitted_gpus(submission, id);
	service_request_reply(&submission->request, &reply.base);
}

/* A process that has ended since cannot be judged: nothing runs with the agent's limits instead. */
int service_caller_rights(struct wire_call *call, struct rights *out, struct err *err)
{
	const struct wire_peer *peer = wire_call_peer(call);
	_cleanup_close_ int pidfd = wire_call_peer_pidfd(call);
	const struct peer_process process = {.pid = peer->pid, .uid = peer->uid, .pidfd = pidfd};

	*out = (struct rights){.gid = peer->gid};
	int rc = wire_call_peer_groups(call, &out->groups, &out->group_count, err);

	return rc < 0 ? err_wrap(err, "asking for your groups")
		      : peer_limits_read(&process, out->limits, err);
}

/* How long it may run: as long as the owner of the machine allows. */
static int service_check_time(const struct service_request *request, struct spec *spec,
			      struct err *err)
{
	uint64_t max_ns = queue_rules(request->service->options.queue)->max_time_ns;

	if (max_ns == 0 || service_is_manager(request))
		return 0;

	if (spec->deadline_ns > max_ns)
		return err_set(err, -EINVAL,
			       "--time: %" PRIu64 " s are more than the %" PRIu64
			       " s that jobs may run here (sluice.jobs.maxTime)",
			       spec->deadline_ns / CLOCK_NS_PER_S, max_ns / CLOCK_NS_PER_S);

	if (spec->deadline_ns == 0)
		spec->deadline_ns = spec->wants.time_ns = max_ns;
	return 0;
}

static int service_submit_spec(struct service_submission *submission, struct spec *out,
			       struct err *err)
{
	struct wire_call *call = submission->request.call;
	const struct wire_peer *peer = wire_call_peer(call);
	const Sluice__V1__SubmitRequest *message = submission->message;
	size_t key_length = strlen(message->key);

	if (!message->spec)
		return err_set(err, -EINVAL, "the request says nothing about what to run");
	if (key_length == 0 || key_length >= JOB_KEY_MAX)
		return err_set(err, -EINVAL, "the key is no UUID: '%.40s'", message->key);

	if (geteuid() != 0 && peer->uid != geteuid())
		return err_set(err, -EPERM,
			       "this agent is %s's and runs nobody else's jobs: use root's, or one "
			       "of your own",
			       users_name(submission->request.service->users, geteuid()));

	struct message_caller caller = {.uid = peer->uid, .gid = peer->gid};
	struct rights rights;
	int rc = service_caller_rights(call, &rights, err);
	if (rc < 0)
		return rc;

	caller.groups = rights.groups;
	caller.group_count = rights.group_count;
	memcpy(caller.limits, rights.limits, sizeof(caller.limits));
	rc = message_to_spec(message->spec, &caller, out, err);
	if (rc == 0)
		rc = service_check_priority(&submission->request, out->wants.priority, err);

	/* Who does not say how long may run as long as the owner of the machine says. */
	if (rc == 0 && out->deadline_ns == 0) {
		out->deadline_ns =
		    queue_rules(submission->request.service->options.queue)->default_time_ns;
		out->wants.time_ns = out->deadline_ns;
	}

	if (rc == 0)
		rc = service_check_time(&submission->request, out, err);

	const struct warning warning = {.signal = out->warn_signal,
					.before_ns = out->warn_before_ns,
					.command_alone = out->warn_alone};

	return rc < 0 ? rc : warning_check(&warning, out->deadline_ns, err);
}

static void service_submit_now(struct service_submission *submission)
{
	struct service *service = submission->request.service;
	const char *trouble = service_storage_error(service);
	_cleanup_spec_ struct spec spec;
	struct err err = {0};

	spec_init(&spec);
	int rc = *trouble ? err_set(&err, -ENOSPC, "%s", trouble)
			  : service_submit_spec(submission, &spec, &err);
	if (rc < 0) {
		service_request_fail(&submission->request, &err);
		return;
	}

	(void)users_name(service->users, spec.uid); /* known by the time somebody looks */
	submission->gpus = spec.gpus;
	submission->gpus_if_any = spec.gpus_if_any;

	const struct queue_submit submit = {
	    .key = submission->message->key,
	    .spec = &spec,
	    .no_wait = submission->message->no_wait,
	    .dry_run = submission->message->dry_run,
	    .done = service_submitted,
	    .context = submission,
	};
	service_request_wait(&submission->request);
	queue_submit(service->options.queue, &submit);
}

void service_submit(struct wire_call *call, const ProtobufCMessage *message, void *context)
{
	struct service_submission *submission =
	    service_request_new(context, call, SERVICE_CALL, sizeof(*submission));
	if (!submission)
		return;
	submission->message = (const Sluice__V1__SubmitRequest *)message;
	service_submit_now(submission);
}

/* --- Get ------------------------------------------------------------------------------------- */

struct service_lookup {
	struct service_request request;
	uint64_t id;
	bool details, is_sent;
	Sluice__V1__Job command; /* command line and directory alone; in the call's arena */
};

static void service_get_reply(struct service_lookup *lookup, const struct job *job,
			      const struct queue_attempt *attempt)
{
	struct wire_call *call = lookup->request.call;
	struct message_view view = service_view(lookup->request.service, call, lookup->details);
	struct queue_standing standing;
	Sluice__V1__Job reply;
	struct err err = {0};

	int rc = service_job_message(lookup->request.service, &view, job, attempt,
				     wire_call_arena(call), &reply, &err);
	if (rc == 0 && lookup->details && message_view_owns(&view, job->uid) &&
	    queue_standing(lookup->request.service->options.queue, job->id, &standing))
		rc = message_add_standing(&standing, wire_call_arena(call), &reply, &err);

	if (rc < 0) {
		service_request_fail(&lookup->request, &err);
		return;
	}

	if (message_view_owns(&view, job->uid)) {
		reply.n_argv = lookup->command.n_argv;
		reply.argv = lookup->command.argv;
		reply.directory = lookup->command.directory;
		reply.image = lookup->command.image;
		reply.warning = lookup->command.warning;
		reply.attempts = lookup->command.attempts;
		reply.n_attempts = lookup->command.n_attempts;
	}

	lookup->is_sent = true;
	service_request_reply(&lookup->request, &reply.base);
}

static void service_get_each(const struct job *job, const struct queue_attempt *attempt,
			     void *context)
{
	struct service_lookup *lookup = context;
	/* The reply frees the request; done() would come after it. */
	if (!lookup->request.call || lookup->is_sent)
		return;
	service_get_reply(lookup, job, attempt);
}

static void service_get_done(int rc, const struct err *err, void *context)
{
	struct service_lookup *lookup = context;
	if (!service_request_answered(&lookup->request))
		return;

	service_fail_lookup(&lookup->request, lookup->id, rc, err);
}

static void service_get_job(struct service_lookup *lookup)
{
	struct queue *queue = lookup->request.service->options.queue;
	const struct job *job = queue_find(queue, lookup->id);
	if (job) {
		struct queue_attempt attempt;
		queue_attempt_of(queue, job, &attempt);
		service_get_reply(lookup, job, &attempt);
		return;
	}

	const struct queue_query query = {.id = lookup->id,
					  .uid = lookup->request.uid,
					  .max = 1,
					  .each = service_get_each,
					  .done = service_get_done,
					  .context = lookup};
	service_request_wait(&lookup->request);
	queue_query(queue, &query);
}

static void service_get_whole(int rc, const struct spec *spec, const struct queue_past *past,
			      size_t past_count, const struct err *err, void *context)
{
	struct service_lookup *lookup = context;
	if (!service_request_answered(&lookup->request))
		return;

	struct err failure = {0};

	if (rc == 0)
		rc = message_add_command(spec, wire_call_arena(lookup->request.call),
					 &lookup->command, &failure);

	struct message_view view =
	    service_view(lookup->request.service, lookup->request.call, true);

	if (rc == 0)
		rc = message_add_attempts(&view, lookup->id, past, past_count,
					  wire_call_arena(lookup->request.call), &lookup->command,
					  &failure);

	/* A job whose command is not to be had is shown without it. */
	if (rc < 0)
		sluice__v1__job__init(&lookup->command);
	service_get_job(lookup);
}

void service_get(struct wire_call *call, const ProtobufCMessage *message, void *context)
{
	const Sluice__V1__JobRequest *request = (const Sluice__V1__JobRequest *)message;
	struct service *service = context;
	struct service_lookup *lookup =
	    service_request_new(service, call, SERVICE_CALL, sizeof(*lookup));
	if (!lookup)
		return;

	lookup->id = request->id;
	lookup->details = request->details;
	sluice__v1__job__init(&lookup->command);

	if (!request->details) {
		service_get_job(lookup);
		return;
	}

	service_request_wait(&lookup->request);
	queue_query_whole(service->options.queue, request->id, lookup->request.uid,
			  service_get_whole, lookup);
}

/* --- Watch ----------------------------------------------------------------------------------- */

struct service_job_watch {
	struct service_request request;
	uint64_t id;
	struct message_view view;
	uint64_t seen; /* a digest of what was sent last; 0: nothing was */
	bool is_final_sent;
};

/* FNV-1a: tells whether anything is different, cheaply, for every watcher at every change. */
static uint64_t service_digest(uint64_t digest, const void *data, size_t length)
{
	const unsigned char *bytes = data;
	for (size_t i = 0; i < length; i++)
		digest = (digest ^ bytes[i]) * UINT64_C(1099511628211);
	return digest;
}

static uint64_t service_digest_job(const struct job *job, const struct queue_attempt *attempt)
{
	const uint64_t values[] = {
	    (uint64_t)job->state,   (uint64_t)job->reason,
	    job->attempt,	    (uint64_t)job->started_unix_ns,
	    (uint64_t)attempt->pid, (uint64_t)attempt->supervisor_pid,
	    attempt->grant_count,   attempt->observed_count,
	    attempt->port,
	};
	uint64_t digest = service_digest(UINT64_C(14695981039346656037), values, sizeof(values));

	if (job->reason_text)
		digest = service_digest(digest, job->reason_text, strlen(job->reason_text));
	if (job->reason_detail)
		digest = service_digest(digest, job->reason_detail, strlen(job->reason_detail));

	return digest ? digest : 1;
}

static bool service_watch_send(struct service_job_watch *watch, const struct job *job,
			       const struct queue_attempt *attempt)
{
	_cleanup_arena_ struct arena arena;
	Sluice__V1__Job message;
	struct err err = {0};

	arena_init(&arena, SERVICE_ARENA_MAX);
	int rc = service_job_message(watch->request.service, &watch->view, job, attempt, &arena,
				     &message, &err);
	if (rc == 0)
		return service_request_send(&watch->request, &message.base);

	service_request_fail(&watch->request, &err);
	return false;
}

static void service_watch_each(const struct job *job, const struct queue_attempt *attempt,
			       void *context)
{
	struct service_job_watch *watch = context;
	if (watch->request.call && !watch->is_final_sent)
		watch->is_final_sent = service_watch_send(watch, job, attempt);
}

static void service_watch_done(int rc, const struct err *err, void *context)
{
	struct service_job_watch *watch = context;
	if (!service_request_answered(&watch->request))
		return;

	if (watch->is_final_sent)
		service_request_finish(&watch->request, WIRE_OK, NULL);
	else if (rc == -EAGAIN)
		service_ask_again(watch->request.service); /* many watch the same job end */
	else if (watch->request.blocked_ns == 0)
		service_fail_lookup(&watch->request, watch->id, rc, err);
	/* else his reading asks again */
}

void service_watch_job_update(struct service_request *request)
{
	struct service_job_watch *watch = (struct service_job_watch *)request;
	struct queue *queue = request->service->options.queue;

	if (request->is_waiting)
		return; /* it is final: the store was asked */

	const struct job *job = queue_find(queue, watch->id);
	if (job) {
		struct queue_attempt attempt;
		queue_attempt_of(queue, job, &attempt);

		uint64_t digest = service_digest_job(job, &attempt);
		/* A reader that is behind gets what is true when he reads again. */
		if (digest != watch->seen && service_watch_send(watch, job, &attempt))
			watch->seen = digest;

		return;
	}

	const struct queue_query query = {.id = watch->id,
					  .uid = request->uid,
					  .max = 1,
					  .each = service_watch_each,
					  .done = service_watch_done,
					  .context = watch};
	service_request_wait(request);
	queue_query(queue, &query);
}

void service_watch_job(struct wire_call *call, const ProtobufCMessage *message, void *context)
{
	const Sluice__V1__JobRequest *request = (const Sluice__V1__JobRequest *)message;
	struct service *service = context;
	struct service_job_watch *watch =
	    service_request_new(service, call, SERVICE_WATCH_JOB, sizeof(*watch));
	if (!watch)
		return;

	watch->id = request->id;
	watch->view = service_view(service, call, request->details);
	watch->request.resume = service_watch_job_update;
	service_watch_job_update(&watch->request);
}

/* --- Signal and Cancel ----------------------------------------------------------------------- */

int service_check_signal(uint32_t signo, struct err *err)
{
	if (signo < 1 || signo > (uint32_t)SIGRTMAX)
		return err_set(err, -EINVAL, "there is no signal %" PRIu32, signo);
	return 0;
}

void service_signal(struct wire_call *call, const ProtobufCMessage *message, void *context)
{
	const Sluice__V1__SignalRequest *asked = (const Sluice__V1__SignalRequest *)message;
	struct service *service = context;
	struct service_request *request =
	    service_request_new(service, call, SERVICE_CALL, sizeof(*request));
	if (!request)
		return;

	const struct job *job = queue_find(service->options.queue, asked->id);
	struct err err = {0};
	int rc = service_check_signal(asked->signal, &err);
	if (rc == 0 && !job)
		rc = err_set(&err, -ESRCH, "job %" PRIu64 " is not there, or has ended", asked->id);

	if (rc == 0)
		rc = service_check_act(request, asked->id, job->uid, &err);
	if (rc == 0)
		rc = queue_signal(service->options.queue, asked->id, (int)asked->signal, &err);
	if (rc < 0) {
		service_request_fail(request, &err);
		return;
	}

	Sluice__V1__SignalReply reply = SLUICE__V1__SIGNAL_REPLY__INIT;
	service_request_reply(request, &reply.base);
}

struct service_cancellation {
	struct service_act act; /* first */
	uint64_t grace_ns;
	uint32_t signo;
	bool has_grace;
};

static void service_cancelled(int rc, enum job_state state, bool was_final, const struct err *err,
			      void *context)
{
	struct service_cancellation *cancellation = context;
	if (!service_request_answered(&cancellation->act.request))
		return;

	if (rc < 0) {
		struct err failure = *err;
		failure.code = rc;
		service_request_fail(&cancellation->act.request, &failure);
		return;
	}

	Sluice__V1__CancelReply reply = SLUICE__V1__CANCEL_REPLY__INIT;
	reply.state = message_from_state(state);
	reply.was_final = was_final;
	service_request_reply(&cancellation->act.request, &reply.base);
}

static void service_array_cancelled(int rc, size_t changed, const struct err *err, void *context)
{
	(void)changed;
	service_cancelled(rc, JOB_CANCELLED, false, err, context);
}

static void service_cancel_now(struct service_act *act)
{
	struct service_cancellation *cancellation = (struct service_cancellation *)act;
	struct service_request *request = &act->request;
	struct service *service = request->service;
	const char *by = users_name(service->users, wire_call_peer(request->call)->uid);

	service_request_wait(request);
	if (!act->member_alone && queue_find_array(service->options.queue, act->id)) {
		queue_cancel_array(service->options.queue, request->uid, act->id,
				   cancellation->signo ? (int)cancellation->signo : SIGTERM,
				   cancellation->has_grace, cancellation->grace_ns, by,
				   service_array_cancelled, cancellation);
		return;
	}

	queue_cancel(service->options.queue, act->id,
		     cancellation->signo ? (int)cancellation->signo : SIGTERM,
		     cancellation->has_grace, cancellation->grace_ns, by, service_cancelled,
		     cancellation);
}

void service_cancel(struct wire_call *call, const ProtobufCMessage *message, void *context)
{
	const Sluice__V1__CancelRequest *asked = (const Sluice__V1__CancelRequest *)message;
	struct service *service = context;
	struct service_cancellation *cancellation =
	    service_request_new(service, call, SERVICE_CALL, sizeof(*cancellation));
	if (!cancellation)
		return;

	cancellation->act.id = asked->id;
	cancellation->act.act = service_cancel_now;
	cancellation->act.member_alone = asked->member_alone;
	cancellation->signo = asked->signal;
	cancellation->has_grace = asked->has_grace;
	cancellation->grace_ns = asked->grace_ns;

	struct err err = {0};
	if (asked->signal > 0 && service_check_signal(asked->signal, &err) < 0) {
		service_request_fail(&cancellation->act.request, &err);
		return;
	}

	service_act_on(&cancellation->act);
}
