/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/wire/session_fixture.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

const struct wire_method methods[] = {
    {.path = SUBMIT,
     .request = &sluice__v1__submit_request__descriptor,
     .reply = &sluice__v1__submit_reply__descriptor,
     .request_max = REQUEST_MAX},
    {.path = LOGS,
     .request = &sluice__v1__logs_request__descriptor,
     .reply = &sluice__v1__log_chunk__descriptor,
     .request_max = REQUEST_MAX,
     .server_streams = true},
    {.path = UPLOAD,
     .request = &sluice__v1__log_chunk__descriptor,
     .reply = &sluice__v1__submit_reply__descriptor,
     .request_max = REQUEST_MAX,
     .client_streams = true},
    {0},
};

static void note(struct fixture *fixture, const char *text)
{
	assert_int_equal(buf_add_text(&fixture->trace, text), 0);
}

static int on_open(struct session_stream *stream, void *context)
{
	note(context, "open ");
	return 0;
}

/* A request whose key is "hold" is not answered; others are, at once. */
static void on_message(struct session_stream *stream, const ProtobufCMessage *message,
		       void *context)
{
	struct fixture *fixture = context;
	note(fixture, "message ");
	fixture->stream = stream;
	if (fixture->cut_in_message)
		session_cut(fixture->session, -ECONNRESET, "cut in an event");
	if (message->descriptor != &sluice__v1__submit_request__descriptor)
		return;
	const Sluice__V1__SubmitRequest *request = (const void *)message;
	if (strcmp(request->key, "hold") == 0)
		return;
	Sluice__V1__SubmitReply reply = SLUICE__V1__SUBMIT_REPLY__INIT;
	reply.id = 17;
	if (session_stream_reply(stream, &reply.base, NULL) < 0)
		session_stream_finish(stream, WIRE_RESOURCE_EXHAUSTED, "out of memory");
	else
		session_stream_finish(stream, WIRE_OK, NULL);
}

static void on_ended(struct session_stream *stream, void *context)
{
	note(context, "ended ");
}

static void on_writable(struct session_stream *stream, void *context)
{
	note(context, "writable ");
}

static void on_closed(struct session_stream *stream, const struct wire_result *result,
		      void *context)
{
	struct fixture *fixture = context;
	assert_int_equal(
	    buf_printf(&fixture->trace, "closed:%s", wire_status_to_string(result->status)), 0);
	if (result->message[0])
		assert_int_equal(buf_printf(&fixture->trace, "(%s)", result->message), 0);
	note(fixture, " ");
	if (stream == fixture->stream)
		fixture->stream = NULL;
}

const struct session_events events = {on_open, on_message, on_ended, on_writable, on_closed, NULL};

static int make(void **state, enum session_role role)
{
	static struct fixture fixture;
	fixture = (struct fixture){.stream = NULL};
	raw_init(&fixture.raw);
	buf_init(&fixture.trace, 1 << 20);
	struct session_options options = {
	    .role = role, .methods = methods, .events = &events, .context = &fixture};
	fixture.session = session_new(&options, NULL);
	*state = &fixture;
	assert_non_null(fixture.session);
	return 0;
}

int as_server(void **state)
{
	int rc = make(state, SESSION_SERVER);
	raw_preface(&((struct fixture *)*state)->raw);
	return rc;
}

int as_client(void **state)
{
	int rc = make(state, SESSION_CLIENT);
	raw_frame(&((struct fixture *)*state)->raw, NGHTTP2_SETTINGS, 0, 0, "", 0);
	return rc;
}

int tear_down(void **state)
{
	struct fixture *fixture = *state;
	fixture->session = session_free(fixture->session);
	raw_done(&fixture->raw);
	buf_done(&fixture->trace);
	return 0;
}

void drain(struct fixture *fixture)
{
	_cleanup_buf_ struct buf out;
	buf_init(&out, SIZE_MAX / 2);
	(void)session_fill(fixture->session, &out, SIZE_MAX / 4, NULL);
	raw_read(&fixture->raw, out.data, out.length);
}

void pump(struct fixture *fixture)
{
	fixture->err.text[0] = '\0';
	fixture->rc = session_receive(fixture->session, fixture->raw.out.data,
				      fixture->raw.out.length, &fixture->err);
	buf_clear(&fixture->raw.out);
	drain(fixture);
}

void submit(struct fixture *fixture, int32_t id, const char *key, uint8_t flags)
{
	char text[64];
	(void)snprintf(text, sizeof(text), "%s", key);
	Sluice__V1__SubmitRequest request = SLUICE__V1__SUBMIT_REQUEST__INIT;
	request.key = text;
	raw_message(&fixture->raw, flags, id, &request.base);
}

void logs(struct fixture *fixture, int32_t id)
{
	Sluice__V1__LogsRequest request = SLUICE__V1__LOGS_REQUEST__INIT;
	raw_call(&fixture->raw, id, LOGS);
	raw_message(&fixture->raw, RAW_END_STREAM, id, &request.base);
	pump(fixture);
}

void call_with(struct fixture *fixture, int32_t id, const struct raw_field *fields)
{
	raw_headers(&fixture->raw, RAW_END_HEADERS, id, fields);
	submit(fixture, id, "a", RAW_END_STREAM);
	pump(fixture);
}
