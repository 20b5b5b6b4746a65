/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/session.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/err.h"
#include "wire/server.h"
#include "wire/session_internal.h"

/* --- memory --- */

/* nghttp2's allocations go through here so that a test can let each of them fail. */
static void *session_malloc(size_t size, void *context)
{
	return malloc(size);
}

static void session_release(void *memory, void *context)
{
	free(memory);
}

static void *session_calloc(size_t count, size_t size, void *context)
{
	return calloc(count, size);
}

static void *session_realloc(void *memory, size_t size, void *context)
{
	return realloc(memory, size);
}

int session_charge(struct session *session, enum account_resource resource, uint64_t amount,
		   struct err *err)
{
	uid_t largest;
	int rc = session->account
		     ? account_take(session->account, resource, session->uid, amount, err)
		     : 0;
	if (rc == 0 && session->account && session->events->excess &&
	    account_excess(session->account, resource, &largest))
		session->events->excess(session->context);

	return rc;
}

void session_discharge(struct session *session, enum account_resource resource, uint64_t amount)
{
	if (session->account)
		account_give(session->account, resource, session->uid, amount);
}

int session_take(struct session_stream *stream, size_t bytes, struct err *err)
{
	struct session *session = stream->session;
	if (bytes > SESSION_MEMORY_MAX - session->held)
		return err_set(err, -ENOMEM,
			       "the messages of this connection take too much memory");
	if (session_charge(session, ACCOUNT_MEMORY, bytes, err) < 0)
		return -ENOMEM;

	stream->held += bytes;
	session->held += bytes;
	return 0;
}

void session_give(struct session_stream *stream, size_t bytes)
{
	stream->held -= bytes;
	stream->session->held -= bytes;
	session_discharge(stream->session, ACCOUNT_MEMORY, bytes);
}

void session_output_add(struct session *session, ssize_t bytes)
{
	session->output_bytes += (size_t)bytes;
	if (bytes < 0)
		session_discharge(session, ACCOUNT_OUTPUT, (uint64_t)-bytes);
}

/* --- streams --- */

struct session_stream *session_stream_new(struct session *session, int32_t id)
{
	struct session_stream *stream = calloc(1, sizeof(*stream));
	if (!stream)
		return NULL;

	stream->session = session;
	stream->id = id;
	session_headers_init(&stream->headers);
	stream->next = session->streams;
	stream->link = &session->streams;
	if (stream->next)
		stream->next->link = &stream->next;
	session->streams = stream;
	session->stream_count++;

	return stream;
}

struct session_stream *session_stream_free(struct session_stream *stream)
{
	if (!stream)
		return NULL;

	struct session *session = stream->session;

	*stream->link = stream->next;
	if (stream->next)
		stream->next->link = stream->link;
	session->stream_count--;
	session_output_add(session, -(ssize_t)(stream->output.length - stream->output_sent));
	session_discharge(session, ACCOUNT_BODIES, stream->body_held);
	session_discharge(session, ACCOUNT_STREAMS, stream->counted);
	session_give(stream, stream->held);
	arena_done(&stream->arena);
	arena_done(&stream->scratch);
	buf_done(&stream->body);
	buf_done(&stream->output);
	free(stream->text);
	free(stream);

	return NULL;
}

void session_reset(struct session_stream *stream, uint32_t code)
{
	struct session *session = stream->session;
	if (nghttp2_session_get_stream_local_close(session->h2, stream->id) == 1 &&
	    nghttp2_session_get_stream_remote_close(session->h2, stream->id) == 1)
		return; /* it is just about to close by itself */
	if (nghttp2_submit_rst_stream(session->h2, NGHTTP2_FLAG_NONE, stream->id, code) != 0)
		session->failed = -ENOMEM; /* its only error here: the connection cannot go on */
}

static struct session_stream *session_find(struct session *session, int32_t id)
{
	for (struct session_stream *stream = session->streams; stream; stream = stream->next)
		if (stream->id == id)
			return stream;
	return NULL;
}

/* --- what nghttp2 tells --- */

static int session_go_on(const struct session *session)
{
	return session->dead || session->failed ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
}

static int session_on_begin_headers(nghttp2_session *h2, const nghttp2_frame *frame, void *context)
{
	struct session *session = context;

	if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST)
		return session_go_on(session);

	struct session_stream *stream = session_stream_new(session, frame->hd.stream_id);
	if (!stream)
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;

	(void)nghttp2_session_set_stream_user_data(h2, stream->id, stream);
	return session_go_on(session);
}

static int session_on_header(nghttp2_session *h2, const nghttp2_frame *frame, const uint8_t *name,
			     size_t name_length, const uint8_t *value, size_t value_length,
			     uint8_t flags, void *context)
{
	struct session_stream *stream =
	    nghttp2_session_get_stream_user_data(h2, frame->hd.stream_id);
	if (stream && frame->hd.type == NGHTTP2_HEADERS)
		session_headers_add(stream, name, name_length, value, value_length);
	return session_go_on(context);
}

static int session_on_frame(nghttp2_session *h2, const nghttp2_frame *frame, void *context)
{
	struct session *session = context;
	bool last = frame->hd.flags & NGHTTP2_FLAG_END_STREAM;

	if (frame->hd.type == NGHTTP2_SETTINGS)
		session->greeted = true;
	if (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA)
		return session_go_on(session);

	struct session_stream *stream =
	    nghttp2_session_get_stream_user_data(h2, frame->hd.stream_id);
	if (!stream || stream->over)
		return session_go_on(session);

	if (frame->hd.type == NGHTTP2_HEADERS && session->role == SESSION_CLIENT)
		session_headers_reply(stream, last);
	else if (frame->hd.type == NGHTTP2_HEADERS && !stream->has_headers)
		session_headers_request(stream);
	else if (frame->hd.type == NGHTTP2_DATA && frame->hd.length == 0 && !last &&
		 ++stream->empty_count > SESSION_EMPTY_MAX)
		session->wearing = true;

	if (last && !stream->over)
		session_stream_ended(stream);

	return session_go_on(session);
}

static int session_on_data(nghttp2_session *h2, uint8_t flags, int32_t id, const uint8_t *data,
			   size_t length, void *context)
{
	struct session_stream *stream = nghttp2_session_get_stream_user_data(h2, id);
	if (stream)
		session_stream_data(stream, data, length);
	return session_go_on(context);
}

/* An answer that came before the client had sent all: only now, when END_STREAM is out, is the
 * client told to stop. A RST_STREAM any sooner overtakes the trailers, and it sees INTERNAL. */
static int session_on_sent(nghttp2_session *h2, const nghttp2_frame *frame, void *context)
{
	struct session *session = context;

	if (frame->hd.type == NGHTTP2_GOAWAY && frame->goaway.error_code != NGHTTP2_NO_ERROR)
		session->complained = true;
	if (session->role != SESSION_SERVER || frame->hd.type != NGHTTP2_HEADERS ||
	    !(frame->hd.flags & NGHTTP2_FLAG_END_STREAM))
		return session_go_on(session);

	struct session_stream *stream =
	    nghttp2_session_get_stream_user_data(h2, frame->hd.stream_id);
	if (stream && nghttp2_session_get_stream_remote_close(h2, stream->id) == 0)
		session_reset(stream, NGHTTP2_NO_ERROR);

	return session_go_on(session);
}

/* Status for the code of a RST_STREAM, as the protocol page of gRPC has it. */
static enum wire_status session_status_of_reset(uint32_t code)
{
	switch (code) {
	case NGHTTP2_REFUSED_STREAM:
		return WIRE_UNAVAILABLE;
	case NGHTTP2_CANCEL:
		return WIRE_CANCELLED;
	case NGHTTP2_ENHANCE_YOUR_CALM:
		return WIRE_RESOURCE_EXHAUSTED;
	case NGHTTP2_INADEQUATE_SECURITY:
		return WIRE_PERMISSION_DENIED;
	default:
		return WIRE_INTERNAL;
	}
}

static const char *session_text_of_reset(uint32_t code)
{
	return code == NGHTTP2_REFUSED_STREAM ? "the server takes no more calls on this connection"
					      : nghttp2_http2_strerror(code);
}

/* A request that could not be sent. Where nghttp2 has opened the stream, it tells its end as well;
 * so it does with an answer that could not be sent. */
static int session_on_not_sent(nghttp2_session *h2, const nghttp2_frame *frame, int code,
			       void *context)
{
	struct session *session = context;
	if (session->role != SESSION_CLIENT || frame->hd.type != NGHTTP2_HEADERS ||
	    nghttp2_session_get_stream_user_data(h2, frame->hd.stream_id))
		return session_go_on(session);

	struct session_stream *stream = session_find(session, frame->hd.stream_id);
	if (stream) {
		session_stream_close(stream, WIRE_UNAVAILABLE, -ECONNRESET,
				     session_text_of_reset(NGHTTP2_REFUSED_STREAM));
		stream = session_stream_free(stream);
	}

	return session_go_on(session);
}

static int session_on_close(nghttp2_session *h2, int32_t id, uint32_t code, void *context)
{
	struct session_stream *stream = nghttp2_session_get_stream_user_data(h2, id);
	if (!stream)
		return session_go_on(context);

	session_stream_close(stream, session_status_of_reset(code), -ECONNRESET,
			     session_text_of_reset(code));
	(void)nghttp2_session_set_stream_user_data(h2, id, NULL);
	stream = session_stream_free(stream);

	return session_go_on(context);
}

static int session_on_invalid(nghttp2_session *h2, const nghttp2_frame *frame, int code,
			      void *context)
{
	struct session *session = context;
	session->why = nghttp2_strerror(code);
	return session_go_on(session);
}

/* --- the session --- */

static int session_make(struct session *session, const nghttp2_option *option)
{
	nghttp2_mem memory = {NULL, session_malloc, session_release, session_calloc,
			      session_realloc};
	nghttp2_session_callbacks *callbacks;
	if (nghttp2_session_callbacks_new(&callbacks) != 0)
		return -ENOMEM;

	nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks,
								session_on_begin_headers);
	nghttp2_session_callbacks_set_on_header_callback(callbacks, session_on_header);
	nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, session_on_frame);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, session_on_data);
	nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, session_on_sent);
	nghttp2_session_callbacks_set_on_frame_not_send_callback(callbacks, session_on_not_sent);
	nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, session_on_close);
	nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(callbacks, session_on_invalid);

	int rc =
	    session->role == SESSION_SERVER
		? nghttp2_session_server_new3(&session->h2, callbacks, session, option, &memory)
		: nghttp2_session_client_new3(&session->h2, callbacks, session, option, &memory);
	nghttp2_session_callbacks_del(callbacks);
	if (rc != 0)
		return -ENOMEM;

	/* Without SETTINGS_NO_RFC7540_PRIORITIES: in that mode nghttp2 1.52 frees a DATA frame
	 * twice when memory runs out (failmalloc of tests/unit/wire/server_test.c). */
	const nghttp2_settings_entry settings[] = {
	    {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, WIRE_STREAMS_MAX},
	    {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, WIRE_HEADERS_MAX},
	    {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
	};
	size_t count = array_length(settings) - (session->role == SESSION_SERVER); /* no push */

	return nghttp2_submit_settings(session->h2, NGHTTP2_FLAG_NONE, settings, count) == 0
		   ? 0
		   : -ENOMEM;
}

static int session_init(struct session *session)
{
	nghttp2_option *option;
	if (nghttp2_option_new(&option) != 0)
		return -ENOMEM;

	/* Old kubelets and CSI sidecars send the socket's path as :authority, and nghttp2's check
	 * resets such a stream. What matters of it is checked in session_headers.c. */
	nghttp2_option_set_no_http_messaging(option, 1);
	nghttp2_option_set_no_closed_streams(option, 1);
	nghttp2_option_set_max_outbound_ack(option, SESSION_ACKS_MAX);
	nghttp2_option_set_max_reserved_remote_streams(option, 0);
	nghttp2_option_set_max_deflate_dynamic_table_size(option, SESSION_DEFLATE_MAX);
#ifdef WIRE_HAS_RESET_LIMIT
	nghttp2_option_set_stream_reset_rate_limit(option, SESSION_RESETS_BURST,
						   SESSION_RESETS_RATE);
#endif
	int rc = session_make(session, option);

	nghttp2_option_del(option);
	return rc;
}

struct session *session_new(const struct session_options *options, struct err *err)
{
	struct session *session = calloc(1, sizeof(*session));
	if (session) {
		session->role = options->role;
		session->methods = options->methods;
		session->reply_max = options->reply_max ? options->reply_max : WIRE_REQUEST_MAX;
		session->events = options->events;
		session->context = options->context;
		session->frames.plain = NGHTTP2_CLIENT_MAGIC_LEN;
		session->account = options->account;
		session->uid = options->uid;
	}

	if (!session || session_init(session) < 0) {
		(void)err_set(err, -ENOMEM, "out of memory for an HTTP/2 session");
		return session_free(session);
	}

	return session;
}

struct session *session_free(struct session *session)
{
	if (!session)
		return NULL;

	session->dead = true;
	nghttp2_session_del(session->h2);

	while (session->streams)
		(void)session_stream_free(session->streams);

	free(session);
	return NULL;
}

/* What a return value of nghttp2 means for the session, which is over with it. */
static int session_fatal(struct session *session, int code, struct err *err)
{
	if (session->failed == 0)
		session->failed = code == NGHTTP2_ERR_NOMEM ? -ENOMEM : -EPROTO;
	if (session->failed == -ENOMEM)
		return err_set(err, -ENOMEM, "out of memory for an HTTP/2 connection");
	return err_set(err, -EPROTO, "the peer broke HTTP/2: %s",
		       session->why ? session->why : nghttp2_strerror(code));
}

static int session_pass(struct session *session, const uint8_t *data, size_t length)
{
	if (length == 0 || session->dead || session->failed)
		return 0;
	ssize_t taken = nghttp2_session_mem_recv(session->h2, data, length);
	return taken < 0 ? (int)taken : 0;
}

/* The gRPC C core (1.51 at least) resets a stream whose headers it never sent when a call is
 * cancelled early. To nghttp2 that is an error of the whole connection (RFC 9113, 5.1), and all
 * other calls of that client would end with it. */
static bool session_is_idle_reset(struct session *session)
{
	const uint8_t *id = session->frames.head + 5;
	uint32_t stream =
	    (uint32_t)(id[0] & 0x7f) << 24 | (uint32_t)id[1] << 16 | (uint32_t)id[2] << 8 | id[3];
	int32_t last = nghttp2_session_get_last_proc_stream_id(session->h2);
	return stream % 2 == 1 && stream > (uint32_t)last &&
	       session->frames.idle_resets++ < SESSION_IDLE_RESETS_MAX;
}

/* Hands a client's bytes to nghttp2, but for resets of streams that it never opened. 0, or an error
 * of nghttp2. */
static int session_read(struct session *session, const uint8_t *data, size_t length)
{
	struct session_frames *frames = &session->frames;
	int rc = 0;

	while (length > 0 && rc == 0 && !session->dead && !session->failed) {
		if (frames->plain > 0) {
			size_t part = frames->plain < length ? frames->plain : length;
			rc = session_pass(session, data, part);
			frames->plain -= part;
			data += part;
			length -= part;
			continue;
		}

		frames->head[frames->have++] = *data++;
		length--;
		if (frames->have < SESSION_FRAME_HEAD)
			continue;

		size_t size =
		    (size_t)frames->head[0] << 16 | (size_t)frames->head[1] << 8 | frames->head[2];
		bool is_reset = frames->head[3] == NGHTTP2_RST_STREAM &&
				size == SESSION_RESET_BYTES - SESSION_FRAME_HEAD;

		if (is_reset && frames->have < SESSION_RESET_BYTES)
			continue;
		if (!is_reset || !session_is_idle_reset(session))
			rc = session_pass(session, frames->head, frames->have);
		frames->plain = is_reset ? 0 : size;
		frames->have = 0;
	}

	return rc;
}

int session_receive(struct session *session, const void *data, size_t length, struct err *err)
{
	if (session->dead || session->failed)
		return session_fatal(session, NGHTTP2_ERR_PROTO, err);

	int rc = session->role == SESSION_SERVER ? session_read(session, data, length)
						 : session_pass(session, data, length);

	if (session->dead)
		return 0; /* whoever cut it knows why */
	if (rc < 0 || session->failed)
		return session_fatal(session, rc, err);

	/* Not in the callback that found it: nghttp2 1.52 asserts that no frame is being read then
	 * (corpus wire_session/empty_data_then_more). */
	if (session->wearing)
		session->why = "DATA frames without data";
	if (session->wearing &&
	    nghttp2_session_terminate_session(session->h2, NGHTTP2_ENHANCE_YOUR_CALM) != 0)
		return session_fatal(session, NGHTTP2_ERR_NOMEM, err);

	return 0;
}

int session_fill(struct session *session, struct buf *out, size_t max, struct err *err)
{
	while (!session->dead && !session->failed && out->length < max) {
		const uint8_t *data;
		ssize_t length = nghttp2_session_mem_send(session->h2, &data);

		if (session->dead)
			return 0;
		if (length == 0) /* after GOAWAY with an error the peer has nothing more to say */
			return session->complained ? session_fatal(session, NGHTTP2_ERR_PROTO, err)
						   : 0;
		if (length > 0 && buf_add(out, data, (size_t)length) < 0)
			session->failed = -ENOMEM;
		if (length < 0 || session->failed)
			return session_fatal(session, (int)length, err);
	}

	return session->failed ? session_fatal(session, NGHTTP2_ERR_PROTO, err) : 0;
}

bool session_is_over(const struct session *session)
{
	return session->dead || session->failed ||
	       (!nghttp2_session_want_read(session->h2) &&
		!nghttp2_session_want_write(session->h2));
}

bool session_is_greeted(const struct session *session)
{
	return session->greeted;
}

int session_shutdown(struct session *session, struct err *err)
{
	int32_t last = nghttp2_session_get_last_proc_stream_id(session->h2);
	if (nghttp2_submit_goaway(session->h2, NGHTTP2_FLAG_NONE, last, NGHTTP2_NO_ERROR, NULL,
				  0) == 0)
		return 0;
	session->failed = -ENOMEM;
	return err_set(err, -ENOMEM, "out of memory to end an HTTP/2 connection");
}

/* What its user was charged for is his again, though the memory itself goes with the session. */
static void session_leave_account(struct session *session)
{
	for (struct session_stream *stream = session->streams; stream; stream = stream->next) {
		session_discharge(session, ACCOUNT_BODIES, stream->body_held);
		session_discharge(session, ACCOUNT_STREAMS, stream->counted);
	}
	session_discharge(session, ACCOUNT_MEMORY, session->held);
	session_discharge(session, ACCOUNT_OUTPUT, session->output_bytes);
	session->account = NULL;
}

void session_cut(struct session *session, int code, const char *why)
{
	session->dead = true;
	for (struct session_stream *stream = session->streams; stream;) {
		if (stream->over || !stream->begun) {
			stream = stream->next;
			continue;
		}

		session_stream_close(stream, WIRE_UNAVAILABLE, code, why);
		stream = session->streams; /* an event may have ended others */
	}

	session_leave_account(session);
}

void session_tidy(struct session *session)
{
	for (struct session_stream *stream = session->streams; stream; stream = stream->next) {
		if (!stream->over || stream->held == 0)
			continue;

		session_stream_drop_body(stream);
		stream->request = NULL;
		arena_done(&stream->arena);
		arena_done(&stream->scratch);
		session_give(stream, stream->held);
	}
}

size_t session_stream_count(const struct session *session)
{
	return session->stream_count;
}

size_t session_memory_bytes(const struct session *session)
{
	return session->held;
}

size_t session_output_bytes(const struct session *session)
{
	return session->output_bytes;
}
