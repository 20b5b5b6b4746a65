/* SPDX-License-Identifier: Apache-2.0 */
/* The messages of a call: taken from DATA frames, and given to them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "wire/server.h"
#include "wire/session_internal.h"

/* --- ends --- */

void session_stream_close(struct session_stream *stream, enum wire_status status, int code,
			  const char *message)
{
	struct session *session = stream->session;
	bool told = stream->begun && !stream->over;

	stream->over = true;
	if (!told)
		return;

	struct wire_result result = {.status = status, .code = code};
	(void)snprintf(result.message, sizeof(result.message), "%s", message);
	session->events->closed(stream, &result, session->context);
}

void session_stream_drop_body(struct session_stream *stream)
{
	session_discharge(stream->session, ACCOUNT_BODIES, stream->body_held);
	session_give(stream, stream->body_held);
	stream->body_held = 0;
	buf_done(&stream->body);
	wire_frames_init(&stream->frames, stream->body.max, &stream->body);
}

/* The status is all that is still to be sent, behind replies that wait. */
void session_stream_finish(struct session_stream *stream, enum wire_status status,
			   const char *message)
{
	char encoded[WIRE_MESSAGE_ENCODED_MAX];
	int rc = 0;

	stream->over = true;
	stream->status = status;
	session_stream_drop_body(stream);

	if (message && *message) {
		(void)wire_status_encode(message, encoded);
		stream->text = strdup(encoded); /* without memory: the status alone */
	}

	if (!stream->headers_sent) {
		rc = session_headers_send_status_only(stream);
	} else if (stream->deferred) {
		stream->deferred = false;
		rc = nghttp2_session_resume_data(stream->session->h2, stream->id);
	}

	if (rc != 0)
		session_reset(stream, NGHTTP2_INTERNAL_ERROR);
}

void session_stream_drop(struct session_stream *stream)
{
	stream->over = true;
	session_reset(stream, NGHTTP2_ENHANCE_YOUR_CALM);
}

void session_stream_cancel(struct session_stream *stream)
{
	stream->over = true;
	session_reset(stream, NGHTTP2_CANCEL);
}

void session_stream_fail(struct session_stream *stream, enum wire_status status,
			 const char *message)
{
	bool begun = stream->begun;
	if (stream->session->role == SESSION_SERVER)
		session_stream_finish(stream, status, message);
	else
		session_stream_cancel(stream);
	stream->over = !begun; /* so that its user is told */
	session_stream_close(stream, status, 0, message);
}

/* --- what comes in --- */

/* The status for an error of wire_frames_feed() or wire_message_decode(). */
static void session_stream_refuse(struct session_stream *stream, int code, const struct err *err)
{
	enum wire_status status = WIRE_INTERNAL;
	if (code == -EMSGSIZE || code == -ENOMEM || code == -ENOSPC)
		status = WIRE_RESOURCE_EXHAUSTED;
	else if (code == -EOPNOTSUPP && stream->headers.other_encoding)
		status = WIRE_UNIMPLEMENTED;
	session_stream_fail(stream, status, err->text);
}

static bool session_stream_is_sequence(const struct session_stream *stream)
{
	return stream->session->role == SESSION_SERVER ? stream->method->client_streams
						       : stream->method->server_streams;
}

/* Bytes that a message may become. */
static size_t session_memory_left(const struct session *session)
{
	uint64_t left = SESSION_MEMORY_MAX - session->held;
	uint64_t own =
	    session->account ? account_left(session->account, ACCOUNT_MEMORY, session->uid) : left;
	return (size_t)(own < left ? own : left);
}

/* One whole message is in stream->body. */
static void session_stream_message(struct session_stream *stream)
{
	struct session *session = stream->session;
	struct err err = {0};
	ProtobufCMessage *message;
	bool server = session->role == SESSION_SERVER,
	     sequence = session_stream_is_sequence(stream);
	if (++stream->message_count > 1 && !sequence) {
		session_stream_fail(stream, WIRE_UNIMPLEMENTED,
				    "more than one message in a unary call");
		return;
	}

	struct arena *arena = server && !sequence ? &stream->arena : &stream->scratch;
	/* No more is allocated for it than would be kept. */
	size_t max = arena->max, left = session_memory_left(session);

	arena->max = left < max ? left : max;
	int rc = wire_message_decode(server ? stream->method->request : stream->method->reply,
				     stream->body.data, stream->body.length, arena, &message, &err);
	size_t held = arena->used;

	if (rc == 0 || (arena->exhausted && left < max))
		rc = session_take(stream, rc == 0 ? held : left + 1, &err);
	arena->max = max;

	if (rc < 0) {
		session_stream_refuse(stream, rc, &err);
		return;
	}

	session_stream_drop_body(stream);
	if (server && !sequence) {
		stream->request = message; /* until the client has sent all */
		return;
	}

	session->events->message(stream, message, session->context);
	arena_done(arena);
	arena_init(arena, max);
	session_give(stream, held);
}

/* So much more of the body has come. 0 or -ENOMEM. */
static int session_stream_keep(struct session_stream *stream, size_t more, struct err *err)
{
	if (session_charge(stream->session, ACCOUNT_BODIES, more, err) < 0)
		return -ENOMEM;

	int rc = session_take(stream, more, err);
	if (rc < 0)
		session_discharge(stream->session, ACCOUNT_BODIES, more);
	else
		stream->body_held += more;

	return rc;
}

void session_stream_data(struct session_stream *stream, const uint8_t *data, size_t length)
{
	if (stream->session->role == SESSION_CLIENT && !stream->over && !stream->has_headers)
		session_stream_fail(stream, WIRE_INTERNAL, "the server sent data before headers");

	while (length > 0 && !stream->over) {
		struct err err = {0};
		bool whole = false;
		ssize_t taken = wire_frames_feed(&stream->frames, data, length, &whole, &err);
		size_t more = stream->body.length - stream->body_held;
		int rc = taken < 0 ? (int)taken : session_stream_keep(stream, more, &err);
		if (rc < 0) {
			session_stream_refuse(stream, rc, &err);
			return;
		}

		data += taken;
		length -= (size_t)taken;
		if (whole)
			session_stream_message(stream);
	}
}

static void session_stream_ended_server(struct session_stream *stream)
{
	struct session *session = stream->session;

	if (wire_frames_are_cut(&stream->frames))
		session_stream_fail(stream, WIRE_INTERNAL, "the request ends within a message");
	else if (stream->method->client_streams)
		session->events->ended(stream, session->context);
	else if (!stream->request)
		session_stream_fail(stream, WIRE_UNIMPLEMENTED, "no message in a unary call");
	else
		session->events->message(stream, stream->request, session->context);
}

static void session_stream_ended_client(struct session_stream *stream)
{
	struct session *session = stream->session;
	char text[WIRE_MESSAGE_MAX] = "";
	int status = stream->headers.grpc_status;

	if (stream->text)
		(void)wire_status_decode(stream->text, strlen(stream->text), text);

	if (status < 0)
		session_stream_fail(stream, WIRE_UNKNOWN,
				    "the server ended the call without a status");
	else if (status == WIRE_OK && wire_frames_are_cut(&stream->frames))
		session_stream_fail(stream, WIRE_INTERNAL, "the reply ends within a message");
	else if (status == WIRE_OK && stream->message_count != 1 && !stream->method->server_streams)
		session_stream_fail(stream, WIRE_UNIMPLEMENTED, "no reply to a unary call");
	else
		session_stream_close(stream, (enum wire_status)status, 0, text);

	if (nghttp2_session_get_stream_local_close(session->h2, stream->id) == 0)
		session_reset(stream, NGHTTP2_CANCEL); /* it wants no more of the request */
}

void session_stream_ended(struct session_stream *stream)
{
	if (stream->session->role == SESSION_SERVER)
		session_stream_ended_server(stream);
	else
		session_stream_ended_client(stream);
}

/* --- what goes out --- */

static size_t session_stream_waiting(const struct session_stream *stream)
{
	return stream->output.length - stream->output_sent;
}

/* Bytes that may wait before another reply is too much. */
static size_t session_stream_output_max(const struct session_stream *stream)
{
	return stream->method->output_max > 0 ? stream->method->output_max : WIRE_STREAM_OUTPUT_MAX;
}

/* nghttp2 wants DATA: of what waits, as much as fits. */
static ssize_t session_on_read(nghttp2_session *h2, int32_t id, uint8_t *out, size_t length,
			       uint32_t *flags, nghttp2_data_source *source, void *context)
{
	struct session_stream *stream = source->ptr;
	struct session *session = stream->session;
	size_t waiting = session_stream_waiting(stream);

	if (session->dead)
		return NGHTTP2_ERR_CALLBACK_FAILURE;
	if (length > waiting)
		length = waiting;
	if (length > 0)
		memcpy(out, stream->output.data + stream->output_sent, length);
	stream->output_sent += length;
	session_output_add(session, -(ssize_t)length);

	if (stream->output_sent == stream->output.length) {
		buf_done(&stream->output); /* streams that stay should not keep it */
		stream->output_sent = 0;
	}

	if (stream->blocked && !stream->over &&
	    session_stream_waiting(stream) <= session_stream_output_max(stream) / 2) {
		stream->blocked = false;
		session->events->writable(stream, session->context);
	}

	if (session_stream_waiting(stream) > 0)
		return (ssize_t)length;

	bool server = session->role == SESSION_SERVER;
	if (server && !stream->over && length == 0) {
		stream->deferred = true;
		return NGHTTP2_ERR_DEFERRED;
	}

	if (server && !stream->over)
		return (ssize_t)length;

	/* The end. The trailers are asked for here: any sooner they would overtake the data. */
	*flags |= NGHTTP2_DATA_FLAG_EOF;
	if (server) {
		*flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
		if (session_headers_send_trailers(stream) != 0)
			return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	}

	return (ssize_t)length;
}

static nghttp2_data_provider session_stream_provider(struct session_stream *stream)
{
	return (nghttp2_data_provider){.source.ptr = stream, .read_callback = session_on_read};
}

/* Appends a message to what waits. What was sent is dropped when it is the larger part, so that a
 * large message is not moved with every frame. */
static int session_stream_add(struct session_stream *stream, const ProtobufCMessage *message,
			      struct err *err)
{
	if (stream->output_sent > session_stream_waiting(stream)) {
		buf_consume(&stream->output, stream->output_sent);
		stream->output_sent = 0;
	}

	size_t before = stream->output.length;
	int rc = wire_message_encode(message, &stream->output, err);
	if (rc < 0)
		return rc;

	size_t more = stream->output.length - before;
	if (session_charge(stream->session, ACCOUNT_OUTPUT, more, err) < 0) {
		stream->output.length = before;
		return -ENOBUFS;
	}

	session_output_add(stream->session, (ssize_t)more);
	return 0;
}

int session_stream_reply(struct session_stream *stream, const ProtobufCMessage *reply,
			 struct err *err)
{
	if (session_stream_waiting(stream) >= session_stream_output_max(stream)) {
		stream->blocked = true;
		return err_set(err, -EAGAIN, "the client reads '%s' too slowly",
			       stream->method->path);
	}

	if (stream->session->output_bytes >= SESSION_OUTPUT_MAX)
		return err_set(err, -ENOBUFS, "the client reads none of its replies");

	size_t before = stream->session->output_bytes;
	int rc = session_stream_add(stream, reply, err);
	/* Who has read a part of it is asked again. */
	if (rc == -ENOBUFS && stream->method->server_streams &&
	    session_stream_waiting(stream) > 0) {
		stream->blocked = true;
		return -EAGAIN;
	}

	if (rc < 0)
		return rc;

	if (!stream->headers_sent) {
		nghttp2_data_provider data = session_stream_provider(stream);
		rc = session_headers_send_reply(stream, &data);
		stream->headers_sent = rc == 0;
	} else if (stream->deferred) {
		rc = nghttp2_session_resume_data(stream->session->h2, stream->id);
		stream->deferred = rc != 0;
	}

	if (rc != 0) { /* nothing was sent, so that it may be tried again */
		size_t more = stream->session->output_bytes - before;
		stream->output.length -= more;
		session_output_add(stream->session, -(ssize_t)more);
	}

	return rc == 0 ? 0 : err_set(err, -ENOMEM, "out of memory for a reply");
}

struct session_stream *session_call(struct session *session, const struct wire_method *method,
				    const ProtobufCMessage *request, uint64_t timeout_ns,
				    void *user, struct err *err)
{
	if (session_is_over(session)) {
		(void)err_set(err, -ENOTCONN, "the connection is closed");
		return NULL;
	}

	struct session_stream *stream = session_stream_new(session, 0);
	if (!stream) {
		(void)err_set(err, -ENOMEM, "out of memory for a call of '%s'", method->path);
		return NULL;
	}

	stream->method = method;
	stream->user = user;
	stream->begun = true;
	arena_init(&stream->scratch, WIRE_ARENA_FACTOR * session->reply_max);
	buf_init(&stream->body, session->reply_max);
	wire_frames_init(&stream->frames, session->reply_max, &stream->body);
	buf_init(&stream->output, WIRE_FRAME_HEADER + WIRE_REQUEST_MAX);
	nghttp2_data_provider data = session_stream_provider(stream);

	if (session_stream_add(stream, request, err) < 0)
		return session_stream_free(stream);

	stream->id = session_headers_send_request(stream, timeout_ns, &data);
	if (stream->id < 0) {
		(void)err_set(err, stream->id == NGHTTP2_ERR_NOMEM ? -ENOMEM : -ENOTCONN,
			      "cannot call '%s': %s", method->path, nghttp2_strerror(stream->id));
		return session_stream_free(stream);
	}

	return stream;
}

/* --- what the user asks --- */

const struct wire_method *session_stream_method(const struct session_stream *stream)
{
	return stream->method;
}

uint64_t session_stream_timeout_ns(const struct session_stream *stream)
{
	return stream->headers.timeout_ns;
}

struct arena *session_stream_arena(struct session_stream *stream)
{
	return &stream->arena;
}

void session_stream_set_user(struct session_stream *stream, void *user)
{
	stream->user = user;
}

void *session_stream_user(const struct session_stream *stream)
{
	return stream->user;
}
