/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/client.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/loop.h"
#include "wire/channel.h"
#include "wire/listen.h"
#include "wire/message.h"
#include "wire/session.h"

enum client_limits {
	CLIENT_CONNECT_S = 5,
	CLIENT_RETRY_MS = 10, /* while the server's queue of connections is full */
};

struct wire_client {
	struct loop *loop; /* borrowed */
	struct wire_client_options options;
	char *path; /* owned */
	struct sockaddr_un address;
	int directory;		  /* owned; that the address goes through, or -1 */
	int fd;			  /* owned; the channel's once there is one; -1: none */
	struct session *session;  /* owned */
	struct channel *channel;  /* owned; NULL: not connected */
	struct loop_timer *timer; /* owned: the next attempt to connect */
	struct loop_timer *limit; /* owned: the server has to speak until then */
	bool over, silent;
	struct loop_task gone;
};

struct wire_client_call {
	struct wire_client *client;    /* borrowed */
	struct session_stream *stream; /* borrowed */
	struct wire_client_callbacks callbacks;
	struct loop_timer *timer; /* owned; NULL: no deadline */
	uint64_t deadline_ns;	  /* loop time; with a timer */
	struct loop_task gone;
};

/* --- calls --- */

static void call_free_memory(void *context)
{
	free(context);
}

static void call_release(struct wire_client_call *call)
{
	call->timer = loop_timer_free(call->timer);
	session_stream_set_user(call->stream, NULL);
	loop_defer(call->client->loop, &call->gone, call_free_memory, call);
}

static void call_on_message(struct session_stream *stream, const ProtobufCMessage *message,
			    void *context)
{
	struct wire_client_call *call = session_stream_user(stream);
	if (call->callbacks.message)
		call->callbacks.message(message, call->callbacks.context);
}

static void call_too_late(const struct session_stream *stream, struct wire_result *out)
{
	*out = (struct wire_result){.status = WIRE_DEADLINE_EXCEEDED, .code = -ETIMEDOUT};
	(void)snprintf(out->message, sizeof(out->message), "no answer to '%s' in time",
		       session_stream_method(stream)->path);
}

/* The server knows the deadline as well. Its CANCEL may be read in the pass of the loop in which
 * the call's timer is due (grpc-go 1.79 resets the stream), and says the same. */
static void call_on_closed(struct session_stream *stream, const struct wire_result *result,
			   void *context)
{
	struct wire_client_call *call = session_stream_user(stream);
	struct wire_result late;

	if (result->status == WIRE_CANCELLED && call->timer &&
	    loop_now_ns(call->client->loop) >= call->deadline_ns) {
		call_too_late(stream, &late);
		result = &late;
	}

	call_release(call);
	if (call->callbacks.end && !call->client->silent)
		call->callbacks.end(result, call->callbacks.context);
}

static const struct session_events client_events = {
    .message = call_on_message,
    .closed = call_on_closed,
};

static void client_flush(struct wire_client *client)
{
	if (client->channel)
		channel_flush(client->channel);
}

static void call_on_timer(void *context)
{
	struct wire_client_call *call = context;
	struct wire_result result;

	call_too_late(call->stream, &result);
	session_stream_cancel(call->stream);
	client_flush(call->client);
	call_release(call);

	if (call->callbacks.end)
		call->callbacks.end(&result, call->callbacks.context);
}

struct wire_client_call *wire_client_call(struct wire_client *client,
					  const struct wire_method *method,
					  const ProtobufCMessage *request, uint64_t deadline_ns,
					  const struct wire_client_callbacks *callbacks,
					  struct err *err)
{
	if (client->over) {
		(void)err_set(err, -ENOTCONN, "the connection to '%s' is closed", client->path);
		return NULL;
	}

	struct wire_client_call *call = calloc(1, sizeof(*call));
	if (!call) {
		(void)err_set(err, -ENOMEM, "out of memory for a call of '%s'", method->path);
		return NULL;
	}

	call->client = client;
	call->callbacks = *callbacks;
	if (deadline_ns > 0)
		call->timer = loop_timer_new(client->loop, call_on_timer, call, err);
	if (deadline_ns == 0 || call->timer)
		call->stream =
		    session_call(client->session, method, request, deadline_ns, call, err);

	if (!call->stream) {
		call->timer = loop_timer_free(call->timer);
		free(call);
		return NULL;
	}

	if (call->timer) {
		call->deadline_ns = clock_after_ns(loop_now_ns(client->loop), deadline_ns);
		loop_timer_start(call->timer, deadline_ns);
	}

	client_flush(client);
	return call;
}

void wire_client_cancel(struct wire_client_call *call)
{
	session_stream_cancel(call->stream);
	client_flush(call->client);
	call_release(call);
}

/* --- the connection --- */

static void client_disconnect(struct wire_client *client)
{
	if (client->channel)
		client->channel = channel_free(client->channel);
	else if (client->fd >= 0)
		(void)close(client->fd);
	client->fd = -1;
}

/* The connection is gone: calls end, then whoever made the client is told. */
static void client_fail(struct wire_client *client, const struct err *why)
{
	if (client->over)
		return;

	client->over = true;
	struct err text = *why;
	(void)err_wrap(&text, "'%s'", client->path);
	loop_timer_stop(client->timer);
	loop_timer_stop(client->limit);
	session_cut(client->session, -ECONNRESET, text.text);
	client_disconnect(client);

	if (client->options.closed && !client->silent) /* it may be freed by the end of a call */
		client->options.closed(&text, client->options.context);
}

static void client_on_closed(const struct err *why, void *context)
{
	const struct err ended = {.code = -ECONNRESET,
				  .text = "the server has ended the connection"};
	client_fail(context, why ? why : &ended);
}

static void client_on_limit(void *context)
{
	struct wire_client *client = context;
	const struct err why = {.code = -ETIMEDOUT, .text = "nobody answers"};
	if (!session_is_greeted(client->session))
		client_fail(client, &why);
}

/* 0: connected or to be tried again; -errno of connect(2). */
static int client_connect(struct wire_client *client, struct err *err)
{
	if (connect(client->fd, (const struct sockaddr *)&client->address,
		    sizeof(client->address)) < 0) {
		int code = -errno;
		if (code == -EAGAIN || code == -EINTR) {
			loop_timer_start(client->timer, CLIENT_RETRY_MS * CLOCK_NS_PER_MS);
			return 0;
		}

		return err_set(err, code, "cannot connect to '%s': %s", client->path,
			       err_describe(code));
	}

	client->channel =
	    channel_new(client->loop, client->fd, client->session, client_on_closed, client, err);
	return client->channel ? 0 : -ENOMEM;
}

static void client_on_retry(void *context)
{
	struct err err = {0};
	if (client_connect(context, &err) < 0)
		client_fail(context, &err);
}

static int client_start(struct wire_client *client, const char *path, struct err *err)
{
	struct session_options options = {
	    .role = SESSION_CLIENT,
	    .reply_max = client->options.reply_max,
	    .events = &client_events,
	    .context = client,
	};

	client->path = strdup(path);
	if (!client->path)
		return err_set(err, -ENOMEM, "out of memory for a client of '%s'", path);

	int rc = wire_unix_address(path, &client->address, &client->directory, err);
	if (rc < 0)
		return rc;

	client->session = session_new(&options, err);
	if (!client->session)
		return -ENOMEM;

	client->timer = loop_timer_new(client->loop, client_on_retry, client, err);
	if (!client->timer)
		return -ENOMEM;

	client->limit = loop_timer_new(client->loop, client_on_limit, client, err);
	if (!client->limit)
		return -ENOMEM;

	client->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (client->fd < 0) {
		rc = -errno;
		return err_set(err, rc, "cannot make a socket: %s", err_describe(rc));
	}

	loop_timer_start(client->limit, client->options.connect_ns);
	return client_connect(client, err);
}

struct wire_client *wire_client_new(struct loop *loop, const char *path,
				    const struct wire_client_options *options, struct err *err)
{
	struct wire_client *client = calloc(1, sizeof(*client));
	if (!client) {
		(void)err_set(err, -ENOMEM, "out of memory for a client of '%s'", path);
		return NULL;
	}

	client->loop = loop;
	client->fd = client->directory = -1;
	if (options)
		client->options = *options;
	if (client->options.connect_ns == 0)
		client->options.connect_ns = CLIENT_CONNECT_S * CLOCK_NS_PER_S;

	if (client_start(client, path, err) < 0)
		return wire_client_free(client);

	return client;
}

static void client_free_memory(void *context)
{
	struct wire_client *client = context;
	client->session = session_free(client->session);
	free(client->path);
	free(client);
}

struct wire_client *wire_client_free(struct wire_client *client)
{
	if (!client)
		return NULL;

	client->over = client->silent = true;
	if (client->session)
		session_cut(client->session, -ECANCELED, "");
	client_disconnect(client);

	if (client->directory >= 0)
		(void)close(client->directory);
	client->timer = loop_timer_free(client->timer);
	client->limit = loop_timer_free(client->limit);
	loop_defer(client->loop, &client->gone, client_free_memory, client);

	return NULL;
}

int wire_client_peer(const struct wire_client *client, struct wire_peer *out, struct err *err)
{
	struct ucred peer;
	socklen_t size = sizeof(peer);

	if (!client->channel)
		return err_set(err, -ENOTCONN, "'%s' is not connected", client->path);

	if (getsockopt(client->fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0) {
		int code = -errno;
		return err_set(err, code, "cannot tell who listens on '%s': %s", client->path,
			       err_describe(code));
	}

	*out = (struct wire_peer){.pid = peer.pid, .uid = peer.uid, .gid = peer.gid};
	return 0;
}

/* --- one call, and nothing else --- */

struct ask {
	struct loop *loop;
	struct wire_result *result;
	ProtobufCMessage *reply; /* owned */
	bool ended, no_memory;
};

/* The reply is the caller's, so it is copied out of the call. */
static void ask_on_message(const ProtobufCMessage *reply, void *context)
{
	struct ask *ask = context;
	struct buf packed;

	buf_init(&packed, SIZE_MAX / 2);
	if (wire_message_encode(reply, &packed, NULL) == 0)
		ask->reply = protobuf_c_message_unpack(
		    reply->descriptor, NULL, packed.length - WIRE_FRAME_HEADER,
		    (const uint8_t *)packed.data + WIRE_FRAME_HEADER);

	buf_done(&packed);
	ask->no_memory = !ask->reply;
}

static void ask_on_end(const struct wire_result *result, void *context)
{
	struct ask *ask = context;
	*ask->result = *result;
	ask->ended = true;
	loop_stop(ask->loop);
}

int wire_client_ask(struct wire_client *client, struct loop *loop, const struct wire_method *method,
		    const ProtobufCMessage *request, uint64_t deadline_ns,
		    ProtobufCMessage **out_reply, struct wire_result *out_result, struct err *err)
{
	struct wire_result result = {.status = WIRE_UNKNOWN};
	struct ask ask = {.loop = loop, .result = &result};
	const struct wire_client_callbacks callbacks = {ask_on_message, ask_on_end, &ask};
	struct wire_client_call *call =
	    wire_client_call(client, method, request, deadline_ns, &callbacks, err);
	if (!call)
		return err ? err->code : -ENOTCONN;

	int rc = 0;
	while (!ask.ended && rc == 0)
		rc = loop_run(loop, err);

	if (!ask.ended)
		wire_client_cancel(call);
	else if (out_result)
		*out_result = result;

	if (rc == 0 && result.status != WIRE_OK)
		rc = err_set(err, result.code ? result.code : -EREMOTEIO, "%s",
			     result.message[0] ? result.message
					       : wire_status_to_string(result.status));
	else if (rc == 0 && ask.no_memory)
		rc = err_set(err, -ENOMEM, "out of memory for the reply to '%s'", method->path);

	if (rc == 0)
		*out_reply = take_ptr(ask.reply);
	if (ask.reply)
		protobuf_c_message_free_unpacked(ask.reply, NULL);

	return rc;
}
