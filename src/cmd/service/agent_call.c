/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/service/agent_call.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/paths.h"
#include "base/err.h"
#include "base/loop.h"
#include "cmd/service/agent_start.h"
#include "sluice.pb-c.h"

#define AGENT_CALL_WAIT_NS UINT64_C(1000000000) /* of one pass of the loop */

#define ROW(service, name, asked, told, streams)                                                   \
	{                                                                                          \
		.path = "/sluice.v1." service "/" name,                                            \
		.request = &sluice__v1__##asked##__descriptor,                                     \
		.reply = &sluice__v1__##told##__descriptor, .server_streams = (streams),           \
	}

static const struct wire_method agent_call_methods[] = {
    [AGENT_SUBMIT] = ROW("Queue", "Submit", submit_request, submit_reply, false),
    [AGENT_LIST] = ROW("Queue", "List", list_request, list_reply, true),
    [AGENT_GET] = ROW("Queue", "Get", job_request, job, false),
    [AGENT_WATCH_JOB] = ROW("Queue", "Watch", job_request, job, true),
    [AGENT_SIGNAL] = ROW("Queue", "Signal", signal_request, signal_reply, false),
    [AGENT_CANCEL] = ROW("Queue", "Cancel", cancel_request, cancel_reply, false),
    [AGENT_CHANGE] = ROW("Queue", "Change", change_request, change_reply, false),
    [AGENT_ACT] = ROW("Queue", "Act", act_request, act_reply, false),
    [AGENT_DRAIN] = ROW("Queue", "Drain", drain_request, drain_reply, false),
    [AGENT_CLAIM] = ROW("Queue", "Claim", claim_request, claim_reply, false),
    [AGENT_CLAIMS] = ROW("Queue", "ListClaims", claims_request, claims, false),
    [AGENT_COLLECT] = ROW("Queue", "Collect", collect_request, collect_reply, false),
    [AGENT_USAGE] = ROW("Queue", "Usage", usage_request, usage_reply, false),
    [AGENT_LOGS] = ROW("Queue", "Logs", logs_request, log_chunk, true),
    [AGENT_STATUS] = ROW("Node", "Status", status_request, status_reply, false),
    [AGENT_WATCH_MACHINE] = ROW("Node", "Watch", watch_request, machine, true),
    [AGENT_RELOAD] = ROW("Node", "Reload", reload_request, reload_reply, false),
    [AGENT_HOLDERS] = ROW("Node", "Holders", holders_request, holders_reply, false),
    [AGENT_HEALTH] = ROW("Node", "Health", health_request, health_reply, false),
    [AGENT_CLEAR_HEALTH] =
	ROW("Node", "ClearHealth", clear_health_request, clear_health_reply, false),
    [AGENT_RELEASE] = ROW("Node", "Release", release_request, release_reply, false),
};

const struct wire_method *agent_call_method(enum agent_call_method method)
{
	return &agent_call_methods[method];
}

enum cmd_exit agent_call_exit_of_status(enum wire_status status)
{
	switch (status) {
	case WIRE_OK:
		return CMD_EXIT_OK;
	case WIRE_INVALID_ARGUMENT:
	case WIRE_NOT_FOUND:
	case WIRE_OUT_OF_RANGE:
		return CMD_EXIT_USAGE;
	case WIRE_ALREADY_EXISTS:
		return CMD_EXIT_DATA;
	case WIRE_UNAVAILABLE:
	case WIRE_UNIMPLEMENTED:
		return CMD_EXIT_UNAVAILABLE;
	case WIRE_ABORTED:
		return CMD_EXIT_CANNOT_WRITE;
	case WIRE_RESOURCE_EXHAUSTED:
		return CMD_EXIT_WOULD_WAIT;
	case WIRE_PERMISSION_DENIED:
	case WIRE_UNAUTHENTICATED:
		return CMD_EXIT_NOT_PERMITTED;
	case WIRE_FAILED_PRECONDITION:
		return CMD_EXIT_IMPOSSIBLE;
	case WIRE_DEADLINE_EXCEEDED:
		return CMD_EXIT_DEADLINE;
	case WIRE_CANCELLED:
	case WIRE_UNKNOWN:
	case WIRE_INTERNAL:
	case WIRE_DATA_LOSS:
		return CMD_EXIT_FAILED;
	}

	return CMD_EXIT_FAILED;
}

enum cmd_exit agent_call_exit_code(const struct agent_call *agent, int rc)
{
	switch (rc) {
	case -EREMOTEIO:
		return agent_call_exit_of_status(agent->result.status);
	case -ENAMETOOLONG: /* of the socket that was named */
		return CMD_EXIT_USAGE;
	case -ECONNREFUSED:
	case -ECONNRESET:
	case -ENOTCONN:
	case -EPIPE:
	case -ENOENT:
		return CMD_EXIT_UNAVAILABLE;
	case -EACCES:
	case -EPERM:
		return CMD_EXIT_NOT_PERMITTED;
	case -ENOSPC:
	case -EDQUOT:
	case -EFBIG:
	case -EBADF: /* an output that was closed */
	case -EROFS:
	case -ENOTDIR:
		return CMD_EXIT_CANNOT_WRITE;
	case -ETIMEDOUT:
		return CMD_EXIT_DEADLINE;
	default:
		return CMD_EXIT_FAILED;
	}
}

/* --- finding it ------------------------------------------------------------------------------- */

static bool agent_call_may_start(const struct agent_call *agent,
				 const struct agent_call_options *options)
{
	bool is_unnamed = !options->socket || strcmp(options->socket, AGENT_PATHS_OWN) == 0;
	bool may =
	    options->may_start || (options->may_wake && is_unnamed && agent_paths_is_on_demand());
	return may && (!agent->was_connected ||
		       loop_now_ns(agent->loop) - agent->lost_ns >= AGENT_CALL_START_AFTER_NS);
}

static void agent_call_lost(struct agent_call *agent)
{
	agent->was_connected = true;
	agent->lost_ns = loop_now_ns(agent->loop);
}

int agent_call_reopen(struct agent_call *agent, const struct agent_call_options *options,
		      struct err *err)
{
	if (agent->client)
		agent_call_lost(agent);
	agent->client = wire_client_free(agent->client);

	int rc = agent_paths_client(options->socket, agent->socket, err);
	agent->is_away = rc == -ECONNREFUSED && !options->socket && agent_paths_machine_has_agent();
	if (agent->is_away) {
		return err_set(err, rc,
			       "the machine's agent does not answer: whoever administers it can "
			       "say why ('systemctl status sluice')");
	} else if (rc == -ECONNREFUSED && agent_call_may_start(agent, options)) {
		rc = agent_start(options->socket, options->path, AGENT_CALL_START_NS, err);
		if (rc == 0)
			rc = agent_paths_client(options->socket, agent->socket, err);
	} else if (rc == -ECONNREFUSED) {
		return err_set(err, rc,
			       "no agent answers at '%s': start one with 'sluice agent', or as a "
			       "service",
			       agent->socket);
	}

	if (rc < 0)
		return rc;

	const struct wire_client_options how = {.closed = options->closed,
						.context = options->context};
	struct err local = {0};

	agent->client = wire_client_new(agent->loop, agent->socket, &how, &local);
	if (agent->client)
		return 0;

	/* It has died since it was looked for. */
	if (local.code == -ECONNREFUSED || local.code == -ENOENT)
		agent_call_lost(agent);

	return err_set(err, local.code, "%s", local.text);
}

int agent_call_open(struct agent_call *out, const struct agent_call_options *options,
		    struct err *err)
{
	*out = AGENT_CALL_NONE;
	out->loop = loop_new(LOOP_REAL, err);
	if (!out->loop)
		return err ? err->code : -ENOMEM;
	return agent_call_reopen(out, options, err);
}

void agent_call_close(struct agent_call *agent)
{
	agent->client = wire_client_free(agent->client);
	agent->loop = loop_free(agent->loop);
}

/* --- asking it -------------------------------------------------------------------------------- */

int agent_call_ask(struct agent_call *agent, enum agent_call_method method,
		   const ProtobufCMessage *request, ProtobufCMessage **out_reply, struct err *err)
{
	ProtobufCMessage *reply = NULL;

	agent->result = (struct wire_result){.status = WIRE_UNAVAILABLE};
	if (!agent->client)
		return err_set(err, -ENOTCONN, "not connected to the agent at '%s'", agent->socket);

	int rc = wire_client_ask(agent->client, agent->loop, &agent_call_methods[method], request,
				 AGENT_CALL_DEADLINE_NS, &reply, &agent->result, err);
	if (rc == 0 && out_reply)
		*out_reply = take_ptr(reply);
	agent_call_free(reply);

	return rc;
}

void agent_call_free(void *message)
{
	if (message)
		protobuf_c_message_free_unpacked(message, NULL);
}

struct agent_call_stream {
	bool (*each)(const ProtobufCMessage *reply, void *context);
	void *context;
	struct wire_result result;
	bool ended, enough;
};

static void agent_call_on_message(const ProtobufCMessage *reply, void *context)
{
	struct agent_call_stream *stream = context;
	if (!stream->enough)
		stream->enough = !stream->each(reply, stream->context);
}

static void agent_call_on_end(const struct wire_result *result, void *context)
{
	struct agent_call_stream *stream = context;
	stream->result = *result;
	stream->ended = true;
}

int agent_call_follow(struct agent_call *agent, enum agent_call_method method,
		      const ProtobufCMessage *request, uint64_t deadline_ns,
		      bool (*each)(const ProtobufCMessage *reply, void *context), void *context,
		      struct err *err)
{
	struct agent_call_stream stream = {.each = each, .context = context};
	const struct wire_client_callbacks callbacks = {
	    .message = agent_call_on_message, .end = agent_call_on_end, .context = &stream};

	agent->result = (struct wire_result){.status = WIRE_UNAVAILABLE};
	if (!agent->client)
		return err_set(err, -ENOTCONN, "not connected to the agent at '%s'", agent->socket);

	struct err local = {0};
	struct wire_client_call *call = wire_client_call(agent->client, &agent_call_methods[method],
							 request, deadline_ns, &callbacks, &local);
	if (!call)
		return err_set(err, local.code, "%s", local.text);

	int rc = 0;
	while (rc == 0 && !stream.ended && !stream.enough)
		rc = loop_pass(agent->loop, AGENT_CALL_WAIT_NS, err);

	if (!stream.ended)
		wire_client_cancel(call);
	if (rc < 0)
		return rc;

	agent->result = stream.ended ? stream.result : (struct wire_result){.status = WIRE_OK};
	if (stream.enough || stream.result.status == WIRE_OK)
		return 0;

	return err_set(err, -EREMOTEIO, "%s",
		       stream.result.message[0] ? stream.result.message
						: wire_status_to_string(stream.result.status));
}
