/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a peer sends to an HTTP/2 session, as client or as server. The first byte says which (bit 0)
 * and in pieces of how many bytes the rest arrives (the others; 0: at once).
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/account.h"
#include "base/buf.h"
#include "sluice.pb-c.h"
#include "wire/arena.h"
#include "wire/message.h"
#include "wire/server.h"
#include "wire/session.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { FUZZ_FILL = 32 << 10, FUZZ_CALLS = 3 };

static const struct wire_method methods[] = {
    {.path = "/sluice.v1.Queue/Submit",
     .request = &sluice__v1__submit_request__descriptor,
     .reply = &sluice__v1__submit_reply__descriptor},
    {.path = "/sluice.v1.Queue/Logs",
     .request = &sluice__v1__logs_request__descriptor,
     .reply = &sluice__v1__log_chunk__descriptor,
     .request_max = 64,
     .server_streams = true},
    {.path = "/test/Upload",
     .request = &sluice__v1__log_chunk__descriptor,
     .reply = &sluice__v1__submit_reply__descriptor,
     .client_streams = true},
    {0},
};

struct fuzz {
	size_t open; /* calls that have begun and not ended */
};

static int on_open(struct session_stream *stream, void *context)
{
	struct fuzz *fuzz = context;
	if (!arena_alloc(session_stream_arena(stream), 64))
		return -1;
	fuzz->open++;
	session_stream_set_user(stream, fuzz);
	return 0;
}

/* Ends it here, so that closed() must not be called. */
static void finish(struct session_stream *stream, enum wire_status status, const char *message)
{
	struct fuzz *fuzz = session_stream_user(stream);
	fuzz->open--;
	session_stream_set_user(stream, NULL);
	session_stream_finish(stream, status, message);
}

/* Replies until the stream takes no more. */
static void on_writable(struct session_stream *stream, void *context)
{
	static uint8_t bytes[20000];
	Sluice__V1__LogChunk chunk = SLUICE__V1__LOG_CHUNK__INIT;
	chunk.data.data = bytes;
	chunk.data.len = sizeof(bytes);
	for (int i = 0; i < 8; i++)
		if (session_stream_reply(stream, &chunk.base, NULL) < 0)
			return;
	finish(stream, WIRE_ABORTED, "enough: \xc3\xa4%");
}

static void on_message(struct session_stream *stream, const ProtobufCMessage *message,
		       void *context)
{
	if (!session_stream_user(stream))
		abort(); /* after its end */
	if (protobuf_c_message_check(message) == 0)
		abort();
	const struct wire_method *method = session_stream_method(stream);
	if (message->descriptor != method->request || method->client_streams)
		return;
	if (method->server_streams) {
		on_writable(stream, context);
		return;
	}
	const Sluice__V1__SubmitRequest *request = (const void *)message;
	Sluice__V1__SubmitReply reply = SLUICE__V1__SUBMIT_REPLY__INIT;
	reply.reason = request->key;
	if (request->no_wait)
		return; /* never answered */
	if (session_stream_reply(stream, &reply.base, NULL) < 0)
		finish(stream, WIRE_RESOURCE_EXHAUSTED, NULL);
	else
		finish(stream, WIRE_OK, NULL);
}

static void on_ended(struct session_stream *stream, void *context)
{
	finish(stream, WIRE_UNIMPLEMENTED, "");
}

static void on_closed(struct session_stream *stream, const struct wire_result *result,
		      void *context)
{
	struct fuzz *fuzz = session_stream_user(stream);
	if (!fuzz)
		abort(); /* told twice, or after its end */
	session_stream_set_user(stream, NULL);
	fuzz->open--;
}

static const struct session_events events = {on_open,	  on_message, on_ended,
					     on_writable, on_closed,  NULL};

static void start_calls(struct session *session, struct fuzz *fuzz)
{
	Sluice__V1__SubmitRequest submit = SLUICE__V1__SUBMIT_REQUEST__INIT;
	Sluice__V1__LogsRequest logs = SLUICE__V1__LOGS_REQUEST__INIT;
	for (int i = 0; i < FUZZ_CALLS; i++) {
		const ProtobufCMessage *request = i == 0 ? &submit.base : &logs.base;
		if (!session_call(session, &methods[i > 0], request, 1000, fuzz, NULL))
			abort();
		fuzz->open++;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0)
		return 0;
	struct fuzz fuzz = {0};
	struct account *account = account_new(0, NULL);
	if (!account)
		abort();
	account_set_limit(account, ACCOUNT_MEMORY, 1 << 20, 2 << 20, 1);
	struct session_options options = {.role = data[0] & 1 ? SESSION_CLIENT : SESSION_SERVER,
					  .methods = methods,
					  .reply_max = 4096,
					  .events = &events,
					  .context = &fuzz,
					  .account = account,
					  .uid = 1000};
	struct session *session = session_new(&options, NULL);
	struct buf out;
	buf_init(&out, SIZE_MAX / 2);
	if (!session)
		abort();
	if (options.role == SESSION_CLIENT)
		start_calls(session, &fuzz);
	size_t piece = data[0] >> 1 ? data[0] >> 1 : size;
	int rc = session_fill(session, &out, FUZZ_FILL, NULL);
	for (size_t at = 1; at < size && rc == 0; at += piece) {
		size_t length = size - at < piece ? size - at : piece;
		rc = session_receive(session, data + at, length, NULL);
		buf_clear(&out);
		if (rc == 0)
			rc = session_fill(session, &out, FUZZ_FILL, NULL);
		if (session_output_bytes(session) >
		    WIRE_STREAMS_MAX * (WIRE_STREAM_OUTPUT_MAX + (size_t)WIRE_REQUEST_MAX))
			abort();
		if (session_stream_count(session) > WIRE_STREAMS_MAX + FUZZ_CALLS)
			abort();
	}
	session_cut(session, -1, "the end");
	if (fuzz.open != 0)
		abort(); /* somebody was not told */
	session = session_free(session);
	for (int i = 0; i < ACCOUNT_RESOURCE_COUNT; i++)
		if (account_used(account, (enum account_resource)i) != 0)
			abort();
	account = account_free(account);
	buf_done(&out);
	return 0;
}
