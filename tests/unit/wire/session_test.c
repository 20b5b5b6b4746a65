/* SPDX-License-Identifier: Apache-2.0 */
/* The session as server. Tests of the traps carry their numbers. */
#include "wire/session.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/account.h"
#include "unit/failmalloc.h"
#include "unit/wire/session_fixture.h"
#include "wire/arena.h"

static void test_unary(void **state)
{
	struct fixture *fixture = *state;
	raw_call(&fixture->raw, 1, SUBMIT);
	submit(fixture, 1, "a", RAW_END_STREAM);
	pump(fixture);
	assert_trace(fixture, "open message ");
	assert_saw(fixture, "HEADERS 1 :status=200 content-type=application/grpc\n"
			    "DATA 1 7\n"
			    "HEADERS 1 grpc-status=0 end\n");
	assert_not_saw(fixture, "RST");
	assert_int_equal(session_stream_count(fixture->session), 0);
	assert_int_equal(session_output_bytes(fixture->session), 0);
}

/* The same bytes one by one: nothing depends on how they arrive. */
static void test_byte_by_byte(void **state)
{
	struct fixture *fixture = *state;
	raw_call(&fixture->raw, 1, SUBMIT);
	submit(fixture, 1, "a", RAW_END_STREAM);
	for (size_t i = 0; i < fixture->raw.out.length; i++)
		assert_int_equal(
		    session_receive(fixture->session, fixture->raw.out.data + i, 1, NULL), 0);
	drain(fixture);
	assert_trace(fixture, "open message ");
	assert_saw(fixture, "HEADERS 1 grpc-status=0 end\n");
}

static void test_trap_1_authority_may_be_a_path(void **state)
{
	struct fixture *fixture = *state;
	static const char *const authorities[] = {"/run/sluice/socket", "", "%2frun", "a b", NULL};
	for (int i = 0; authorities[i]; i++) {
		const struct raw_field fields[] = {
		    {":method", "POST"},
		    {":scheme", "http"},
		    {":path", SUBMIT},
		    {":authority", authorities[i]},
		    {"content-type", "application/grpc"},
		    {"te", "trailers"},
		    {NULL, NULL},
		};
		call_with(fixture, 1 + 2 * i, fields);
	}
	assert_int_equal(raw_count(&fixture->raw, "grpc-status=0 end"), 4);
	assert_not_saw(fixture, "RST");
}

static void test_trap_1_own_checks_of_headers(void **state)
{
	struct fixture *fixture = *state;
	static const struct {
		struct raw_field fields[6];
		const char *answer;
	} cases[] = {
	    {{{":method", "GET"}, {":path", SUBMIT}, {"content-type", "application/grpc"}},
	     "HEADERS 1 :status=405 end\n"},
	    {{{":method", "POST"}, {":path", SUBMIT}, {"content-type", "text/html"}},
	     "HEADERS 3 :status=415 end\n"},
	    {{{":method", "POST"}, {":path", SUBMIT}, {"content-type", "application/grpc-web"}},
	     "HEADERS 5 :status=415 end\n"},
	    {{{":method", "POST"}, {":path", SUBMIT}}, "HEADERS 7 :status=415 end\n"},
	    {{{":path", SUBMIT}, {"content-type", "application/grpc"}}, "RST 9 code 1\n"},
	    {{{":method", "POST"}, {"content-type", "application/grpc"}}, "RST 11 code 1\n"},
	    {{{":method", "POST"},
	      {":path", SUBMIT},
	      {":path", LOGS},
	      {"content-type", "application/grpc"}},
	     "RST 13 code 1\n"},
	    {{{":method", "POST"},
	      {":path", SUBMIT},
	      {"te", "gzip"},
	      {"content-type", "application/grpc"}},
	     "RST 15 code 1\n"},
	    {{{":method", "POST"},
	      {":path", SUBMIT},
	      {"content-type", "application/grpc+proto; x=y"}},
	     "HEADERS 17 grpc-status=0 end\n"},
	    {{{":method", "POST"}, {":path", SUBMIT}, {"content-type", "application/grpc;x=y"}},
	     "HEADERS 19 grpc-status=0 end\n"},
	    {{{":method", "POST"}, {":path", SUBMIT}, {"content-type", "application/grpc+json"}},
	     "HEADERS 21 :status=415 end\n"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		call_with(fixture, (int32_t)(1 + 2 * i), cases[i].fields);
		assert_saw(fixture, cases[i].answer);
	}
	assert_int_equal(fixture->rc, 0);
}

/* The answer comes before the request has ended: first all of the answer, then the reset. */
static void test_trap_2_reset_only_behind_the_trailers(void **state)
{
	struct fixture *fixture = *state;
	raw_call(&fixture->raw, 1, "/no/such");
	pump(fixture);
	assert_saw(fixture, "HEADERS 1 :status=200 content-type=application/grpc grpc-status=12 "
			    "grpc-message=no such method here end\n"
			    "RST 1 code 0\n");
	assert_int_equal(session_stream_count(fixture->session), 0);
	/* What the client had sent before it knew is taken without a word. */
	submit(fixture, 1, "a", RAW_END_STREAM);
	pump(fixture);
	assert_int_equal(fixture->rc, 0);
}

static void test_trap_2_no_reset_after_a_whole_request(void **state)
{
	struct fixture *fixture = *state;
	raw_call(&fixture->raw, 1, "/no/such");
	submit(fixture, 1, "a", RAW_END_STREAM);
	pump(fixture);
	assert_saw(fixture, "grpc-status=12");
	assert_not_saw(fixture, "RST");
	assert_int_equal(session_stream_count(fixture->session), 0);
}

static int reply_chunk(struct fixture *fixture, size_t size)
{
	static uint8_t bytes[100 << 10];
	Sluice__V1__LogChunk chunk = SLUICE__V1__LOG_CHUNK__INIT;
	chunk.data.data = bytes;
	chunk.data.len = size;
	assert_true(size <= sizeof(bytes));
	assert_non_null(fixture->stream);
	return session_stream_reply(fixture->stream, &chunk.base, NULL);
}

static void test_trap_3_trailers_after_deferred_data(void **state)
{
	struct fixture *fixture = *state;
	logs(fixture, 1);
	assert_non_null(fixture->stream);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(reply_chunk(fixture, 10), 0); /* wakes the stream */
		drain(fixture);
		drain(fixture); /* nothing more: it sleeps */
	}
	session_stream_finish(fixture->stream, WIRE_NOT_FOUND, "50% of \xc3\xa4");
	drain(fixture);
	assert_saw(fixture, "HEADERS 1 :status=200 content-type=application/grpc\n"
			    "DATA 1 17\nDATA 1 17\nDATA 1 17\n");
	assert_saw(fixture, "HEADERS 1 grpc-status=5 grpc-message=50%25 of %C3%A4 end\n");
	assert_int_equal(session_stream_count(fixture->session), 0);
}

/* The end is asked for while data still waits: it stays behind them. */
static void test_trap_3_trailers_behind_waiting_data(void **state)
{
	struct fixture *fixture = *state;
	logs(fixture, 1);
	for (int i = 0; i < 3; i++)
		assert_int_equal(reply_chunk(fixture, 10000), 0);
	session_stream_finish(fixture->stream, WIRE_OK, NULL);
	drain(fixture);
	assert_int_equal(fixture->raw.body.length, 3 * (10000 + 8));
	const char *trace = buf_text(&fixture->raw.trace);
	const char *trailers = strstr(trace, "HEADERS 1 grpc-status=0 end\n");
	assert_non_null(trailers);
	assert_null(strstr(trailers, "DATA"));
}

static void test_trap_4_cut_inside_an_event(void **state)
{
	struct fixture *fixture = *state;
	fixture->cut_in_message = true;
	raw_call(&fixture->raw, 1, SUBMIT);
	submit(fixture, 1, "hold", 0);
	logs(fixture, 3);
	/* Stream 1 has begun and is told; more bytes and events are not looked at. */
	assert_trace(fixture, "open open message closed:UNAVAILABLE(cut in an event) "
			      "closed:UNAVAILABLE(cut in an event) ");
	assert_int_equal(fixture->rc, 0);
	assert_true(session_is_over(fixture->session));
	pump(fixture);
	assert_true(fixture->rc < 0);
}

static void test_trap_5_output_of_a_stream_is_capped(void **state)
{
	struct fixture *fixture = *state;
	logs(fixture, 1);
	int sent = 0;
	while (reply_chunk(fixture, 1000) == 0)
		sent++;
	assert_int_equal(reply_chunk(fixture, 1000), -EAGAIN);
	assert_in_range(session_output_bytes(fixture->session), WIRE_STREAM_OUTPUT_MAX,
			WIRE_STREAM_OUTPUT_MAX + 1100);
	drain(fixture); /* as much as the peer's window of 65535 bytes */
	assert_non_null(strstr(buf_text(&fixture->trace), "writable "));
	assert_in_range(fixture->raw.body.length, 60000, 65535);
	/* Nobody opens the window: it stays at that. */
	while (reply_chunk(fixture, 1000) == 0)
		sent++;
	drain(fixture);
	drain(fixture);
	assert_in_range(fixture->raw.body.length, 60000, 65535);
	assert_in_range(session_output_bytes(fixture->session), WIRE_STREAM_OUTPUT_MAX,
			WIRE_STREAM_OUTPUT_MAX + 1100);
	assert_in_range(sent, 120, 140);
}

static void test_trap_5_a_large_message_goes_out_alone(void **state)
{
	struct fixture *fixture = *state;
	logs(fixture, 1);
	assert_int_equal(reply_chunk(fixture, 100 << 10), 0);
	assert_int_equal(reply_chunk(fixture, 1), -EAGAIN);
}

/* Many streams, each with a large reply, whose client reads none of them. */
static void test_trap_5_output_of_a_connection_is_capped(void **state)
{
	struct fixture *fixture = *state;
	size_t rounds = 0;
	int rc = 0;
	for (int32_t id = 1; id < 2 * WIRE_STREAMS_MAX && rc == 0; id += 2) {
		logs(fixture, id);
		for (rc = 0; rc == 0; rounds++)
			rc = reply_chunk(fixture, 100 << 10);
		rc = rc == -EAGAIN ? 0 : rc;
	}
	assert_int_equal(rc, 0); /* 100 streams of 100 KiB are fine */
	assert_in_range(session_output_bytes(fixture->session), 9 << 20, 11 << 20);
	static uint8_t bytes[4 << 20];
	Sluice__V1__LogChunk chunk = SLUICE__V1__LOG_CHUNK__INIT;
	chunk.data.data = bytes;
	chunk.data.len = sizeof(bytes) - 16;
	for (int32_t id = 1; id < 21 && rc == 0; id += 2) {
		raw_reset(&fixture->raw, id, NGHTTP2_CANCEL);
		logs(fixture, id + 2 * WIRE_STREAMS_MAX);
		assert_non_null(fixture->stream);
		rc = session_stream_reply(fixture->stream, &chunk.base, NULL);
	}
	assert_int_equal(rc, -ENOBUFS);
	assert_in_range(session_output_bytes(fixture->session), SESSION_OUTPUT_MAX,
			SESSION_OUTPUT_MAX + (4 << 20));
}

static void test_trap_5_headers_are_capped(void **state)
{
	struct fixture *fixture = *state;
	static char large[WIRE_HEADERS_MAX];
	memset(large, 'x', sizeof(large) - 1);
	const struct raw_field fields[] = {{":method", "POST"},
					   {":path", SUBMIT},
					   {"content-type", "application/grpc"},
					   {"x", large},
					   {NULL, NULL}};
	call_with(fixture, 1, fields);
	assert_saw(fixture, "grpc-status=8");
	assert_saw(fixture, "header fields are larger");
	assert_trace(fixture, "");
}

static void test_trap_5_streams_are_capped(void **state)
{
	struct fixture *fixture = *state;
	for (int32_t i = 0; i < WIRE_STREAMS_MAX + 5; i++)
		raw_call(&fixture->raw, 1 + 2 * i, SUBMIT);
	pump(fixture);
	assert_int_equal(session_stream_count(fixture->session), WIRE_STREAMS_MAX);
	assert_int_equal(raw_count(&fixture->raw, "code 7\n"), 5); /* REFUSED_STREAM */
	/* With our SETTINGS known it is an error of the connection. */
	raw_frame(&fixture->raw, NGHTTP2_SETTINGS, RAW_ACK, 0, "", 0);
	raw_call(&fixture->raw, 1 + 2 * (WIRE_STREAMS_MAX + 5), SUBMIT);
	pump(fixture);
	assert_saw(fixture, "GOAWAY");
	assert_true(session_is_over(fixture->session));
}

static void test_trap_5_memory_of_messages_is_capped(void **state)
{
	struct fixture *fixture = *state;
	fixture->session = session_free(fixture->session);
	struct account *account = account_new(0, NULL);
	assert_non_null(account);
	account_set_limit(account, ACCOUNT_MEMORY, 3000, 4000, 100);
	struct session_options options = {.role = SESSION_SERVER,
					  .methods = methods,
					  .events = &events,
					  .context = fixture,
					  .account = account,
					  .uid = 1000};
	fixture->session = session_new(&options, NULL);
	assert_non_null(fixture->session);
	uint8_t part[5 + 1000] = {0, 0, 0, 1001 >> 8, 1001 & 255};
	for (int32_t id = 1; id <= 9; id += 2) {
		raw_call(&fixture->raw, id, SUBMIT);
		raw_data(&fixture->raw, 0, id, part, sizeof(part)); /* all but a byte */
	}
	pump(fixture);
	assert_int_equal(account_held(account, ACCOUNT_MEMORY, 1000), 3000);
	assert_int_equal(account_held(account, ACCOUNT_BODIES, 1000), 3000);
	assert_int_equal(raw_count(&fixture->raw, "grpc-status=8"), 2);
	for (int32_t id = 1; id <= 5; id += 2)
		raw_reset(&fixture->raw, id, NGHTTP2_CANCEL);
	pump(fixture);
	assert_int_equal(account_used(account, ACCOUNT_MEMORY), 0);
	assert_int_equal(account_used(account, ACCOUNT_BODIES), 0);
	fixture->session = session_free(fixture->session);
	assert_int_equal(account_used(account, ACCOUNT_STREAMS), 0);
	account = account_free(account);
}

static void test_trap_6_text_that_is_not_utf8(void **state)
{
	struct fixture *fixture = *state;
	static const uint8_t message[] = {0, 0, 0, 0, 4, 0x0a, 2, 0xc3, 0x28};
	raw_call(&fixture->raw, 1, SUBMIT);
	raw_data(&fixture->raw, RAW_END_STREAM, 1, message, sizeof(message));
	pump(fixture);
	assert_saw(fixture, "grpc-status=13");
	assert_saw(fixture, "field 'key'");
}

static void test_trap_7_unknown_method_is_trailers_only(void **state)
{
	struct fixture *fixture = *state;
	raw_call(&fixture->raw, 1, "/sluice.v1.Queue/Nothing");
	submit(fixture, 1, "a", RAW_END_STREAM);
	pump(fixture);
	assert_int_equal(raw_count(&fixture->raw, "HEADERS"), 1);
	assert_saw(fixture, ":status=200 content-type=application/grpc grpc-status=12");
}

static void test_trap_7_compressed(void **state)
{
	struct fixture *fixture = *state;
	static const uint8_t message[] = {1, 0, 0, 0, 0};
	const struct raw_field gzip[] = {{":method", "POST"},
					 {":path", SUBMIT},
					 {"content-type", "application/grpc"},
					 {"grpc-encoding", "gzip"},
					 {NULL, NULL}};
	raw_headers(&fixture->raw, RAW_END_HEADERS, 1, gzip);
	raw_data(&fixture->raw, RAW_END_STREAM, 1, message, sizeof(message));
	pump(fixture);
	assert_int_equal(raw_count(&fixture->raw, "HEADERS"), 1);
	assert_saw(fixture, "HEADERS 1 :status=200 content-type=application/grpc grpc-status=12");
	raw_call(&fixture->raw, 3, SUBMIT); /* and without saying how */
	raw_data(&fixture->raw, RAW_END_STREAM, 3, message, sizeof(message));
	pump(fixture);
	assert_saw(fixture, "HEADERS 3 :status=200 content-type=application/grpc grpc-status=13");
	/* Whoever says gzip and then does not compress is understood. */
	raw_headers(&fixture->raw, RAW_END_HEADERS, 5, gzip);
	submit(fixture, 5, "a", RAW_END_STREAM);
	pump(fixture);
	assert_saw(fixture, "HEADERS 5 grpc-status=0 end");
}

static void test_trap_7_garbage_and_too_large(void **state)
{
	struct fixture *fixture = *state;
	static const uint8_t garbage[] = {0, 0, 0, 0, 2, 0xff, 0xff};
	static const uint8_t large[] = {0, 0, 0, (REQUEST_MAX >> 8), 1};
	static const uint8_t cut[] = {0, 0, 0, 0, 2, 0x0a};
	raw_call(&fixture->raw, 1, SUBMIT);
	raw_data(&fixture->raw, RAW_END_STREAM, 1, garbage, sizeof(garbage));
	raw_call(&fixture->raw, 3, SUBMIT);
	raw_data(&fixture->raw, 0, 3, large, sizeof(large)); /* refused before it is there */
	raw_call(&fixture->raw, 5, SUBMIT);
	raw_data(&fixture->raw, RAW_END_STREAM, 5, cut, sizeof(cut));
	raw_call(&fixture->raw, 7, SUBMIT);
	raw_data(&fixture->raw, RAW_END_STREAM, 7, "", 0);
	raw_call(&fixture->raw, 9, SUBMIT);
	submit(fixture, 9, "a", 0);
	submit(fixture, 9, "a", RAW_END_STREAM);
	pump(fixture);
	assert_saw(fixture, "HEADERS 1 :status=200 content-type=application/grpc grpc-status=13");
	assert_saw(fixture, "HEADERS 3 :status=200 content-type=application/grpc grpc-status=8");
	assert_saw(fixture, "HEADERS 5 :status=200 content-type=application/grpc grpc-status=13");
	assert_saw(fixture, "HEADERS 7 :status=200 content-type=application/grpc grpc-status=12");
	assert_saw(fixture, "HEADERS 9 :status=200 content-type=application/grpc grpc-status=12");
	assert_int_equal(session_stream_count(fixture->session), 0);
}

static void test_trap_7_shutdown(void **state)
{
	struct fixture *fixture = *state;
	raw_call(&fixture->raw, 1, SUBMIT);
	submit(fixture, 1, "hold", RAW_END_STREAM);
	pump(fixture);
	assert_int_equal(session_shutdown(fixture->session, NULL), 0);
	drain(fixture);
	assert_saw(fixture, "GOAWAY 1 code 0\n");
	assert_false(session_is_over(fixture->session));
	raw_call(&fixture->raw, 3, SUBMIT); /* not begun, which the GOAWAY has said */
	submit(fixture, 3, "a", RAW_END_STREAM);
	pump(fixture);
	assert_false(session_is_over(fixture->session));
	assert_non_null(fixture->stream);
	session_stream_finish(fixture->stream, WIRE_OK, NULL);
	drain(fixture);
	assert_saw(fixture, "grpc-status=0 end");
	assert_int_equal(raw_count(&fixture->raw, "HEADERS"), 1);
	assert_true(session_is_over(fixture->session));
}

static void test_timeouts(void **state)
{
	struct fixture *fixture = *state;
	static const struct {
		const char *text;
		uint64_t ns;
	} cases[] = {{"100m", 100000000},	    {"1S", 1000000000},	  {"0n", 0},
		     {"99999999H", UINT64_MAX - 1}, {"2M", 120000000000}, {"7u", 7000}};
	int32_t id = 1;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++, id += 2) {
		const struct raw_field fields[] = {{":method", "POST"},
						   {":path", SUBMIT},
						   {"content-type", "application/grpc"},
						   {"grpc-timeout", cases[i].text},
						   {NULL, NULL}};
		raw_headers(&fixture->raw, RAW_END_HEADERS, id, fields);
		submit(fixture, id, "hold", RAW_END_STREAM);
		pump(fixture);
		assert_non_null(fixture->stream);
		assert_int_equal(session_stream_timeout_ns(fixture->stream), cases[i].ns);
		fixture->stream = NULL;
	}
	static const char *const bad[] = {"", "S", "1", "-1S", "123456789S", "1x", "1 S", "1.5S"};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++, id += 2) {
		const struct raw_field fields[] = {{":method", "POST"},
						   {":path", SUBMIT},
						   {"content-type", "application/grpc"},
						   {"grpc-timeout", bad[i]},
						   {NULL, NULL}};
		call_with(fixture, id, fields);
	}
	assert_int_equal(raw_count(&fixture->raw, "grpc-timeout cannot be read end"),
			 sizeof(bad) / sizeof(bad[0]));
}

static void test_client_stream(void **state)
{
	struct fixture *fixture = *state;
	Sluice__V1__LogChunk chunk = SLUICE__V1__LOG_CHUNK__INIT;
	raw_call(&fixture->raw, 1, UPLOAD);
	for (int i = 0; i < 3; i++)
		raw_message(&fixture->raw, 0, 1, &chunk.base);
	pump(fixture);
	assert_trace(fixture, "open message message message ");
	raw_data(&fixture->raw, RAW_END_STREAM, 1, "", 0);
	pump(fixture);
	assert_trace(fixture, "open message message message ended ");
	Sluice__V1__SubmitReply reply = SLUICE__V1__SUBMIT_REPLY__INIT;
	assert_non_null(fixture->stream);
	assert_int_equal(session_stream_reply(fixture->stream, &reply.base, NULL), 0);
	assert_non_null(fixture->stream);
	session_stream_finish(fixture->stream, WIRE_OK, NULL);
	drain(fixture);
	assert_saw(fixture, "grpc-status=0 end");
}

static void test_a_client_that_cancels(void **state)
{
	struct fixture *fixture = *state;
	logs(fixture, 1);
	raw_reset(&fixture->raw, 1, NGHTTP2_CANCEL);
	pump(fixture);
	assert_non_null(strstr(buf_text(&fixture->trace), "closed:CANCELLED"));
	assert_null(fixture->stream);
	assert_int_equal(session_stream_count(fixture->session), 0);
}

/* A whole conversation of the two roles. */
static int converse(void *context)
{
	struct fixture fixtures[2] = {{.stream = NULL}, {.stream = NULL}};
	struct session *sessions[2] = {NULL, NULL};
	struct buf out;
	buf_init(&out, 1 << 20);
	int rc = 0;
	for (int i = 0; i < 2 && rc == 0; i++) {
		buf_init(&fixtures[i].trace, 0); /* events are not written down */
		struct session_options options = {.role = (enum session_role)i,
						  .methods = methods,
						  .events = context,
						  .context = &fixtures[i]};
		sessions[i] = session_new(&options, NULL);
		rc = sessions[i] ? 0 : -ENOMEM;
	}
	Sluice__V1__SubmitRequest request = SLUICE__V1__SUBMIT_REQUEST__INIT;
	if (rc == 0 && !session_call(sessions[1], &methods[0], &request.base, 1, NULL, NULL))
		rc = -ENOMEM;
	for (int turn = 0; turn < 8 && rc == 0; turn++) {
		rc = session_fill(sessions[turn % 2], &out, FILL, NULL);
		if (rc == 0)
			rc = session_receive(sessions[1 - turn % 2], out.data, out.length, NULL);
		buf_clear(&out);
	}
	for (int i = 0; i < 2; i++)
		sessions[i] = session_free(sessions[i]);
	buf_done(&out);
	/* nghttp2 takes it for an error of the peer when it cannot store a header field. */
	return rc == -EPROTO ? -ENOMEM : rc;
}

static int quiet_open(struct session_stream *stream, void *context)
{
	return arena_alloc(session_stream_arena(stream), 100) ? 0 : -ENOMEM;
}

static void quiet_message(struct session_stream *stream, const ProtobufCMessage *message,
			  void *context)
{
	if (message->descriptor != &sluice__v1__submit_request__descriptor)
		return;
	Sluice__V1__SubmitReply reply = SLUICE__V1__SUBMIT_REPLY__INIT;
	int rc = session_stream_reply(stream, &reply.base, NULL);
	session_stream_finish(stream, rc < 0 ? WIRE_RESOURCE_EXHAUSTED : WIRE_OK, "text");
}

static void quiet_closed(struct session_stream *stream, const struct wire_result *result,
			 void *context)
{
}

static void test_out_of_memory(void **state)
{
	struct session_events quiet = {
	    .open = quiet_open, .message = quiet_message, .closed = quiet_closed};
	assert_true(failmalloc_each(converse, &quiet) > 40);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    server_test(test_unary),
	    server_test(test_byte_by_byte),
	    server_test(test_trap_1_authority_may_be_a_path),
	    server_test(test_trap_1_own_checks_of_headers),
	    server_test(test_trap_2_reset_only_behind_the_trailers),
	    server_test(test_trap_2_no_reset_after_a_whole_request),
	    server_test(test_trap_3_trailers_after_deferred_data),
	    server_test(test_trap_3_trailers_behind_waiting_data),
	    server_test(test_trap_4_cut_inside_an_event),
	    server_test(test_trap_5_output_of_a_stream_is_capped),
	    server_test(test_trap_5_a_large_message_goes_out_alone),
	    server_test(test_trap_5_output_of_a_connection_is_capped),
	    server_test(test_trap_5_headers_are_capped),
	    server_test(test_trap_5_streams_are_capped),
	    server_test(test_trap_5_memory_of_messages_is_capped),
	    server_test(test_trap_6_text_that_is_not_utf8),
	    server_test(test_trap_7_unknown_method_is_trailers_only),
	    server_test(test_trap_7_compressed),
	    server_test(test_trap_7_garbage_and_too_large),
	    server_test(test_trap_7_shutdown),
	    server_test(test_timeouts),
	    server_test(test_client_stream),
	    server_test(test_a_client_that_cancels),
	    cmocka_unit_test(test_out_of_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
