/* SPDX-License-Identifier: Apache-2.0 */
/* The session as client. */
#include "wire/session.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "unit/wire/session_fixture.h"

static void call_logs(struct fixture *fixture, uint64_t timeout_ns)
{
	Sluice__V1__LogsRequest request = SLUICE__V1__LOGS_REQUEST__INIT;
	request.id = 5;
	fixture->stream =
	    session_call(fixture->session, &methods[1], &request.base, timeout_ns, fixture, NULL);
	assert_non_null(fixture->stream);
	pump(fixture);
}

static void call_submit(struct fixture *fixture)
{
	Sluice__V1__SubmitRequest request = SLUICE__V1__SUBMIT_REQUEST__INIT;
	fixture->stream =
	    session_call(fixture->session, &methods[0], &request.base, 0, fixture, NULL);
	assert_non_null(fixture->stream);
	pump(fixture);
}

static const struct raw_field reply_headers[] = {
    {":status", "200"}, {"content-type", "application/grpc"}, {NULL, NULL}};

static void reply_trailers(struct fixture *fixture, int32_t id, const char *status,
			   const char *message)
{
	const struct raw_field fields[] = {
	    {"grpc-status", status}, {message ? "grpc-message" : NULL, message}, {NULL, NULL}};
	raw_headers(&fixture->raw, RAW_END_HEADERS | RAW_END_STREAM, id, fields);
	pump(fixture);
}

static void test_client_request(void **state)
{
	struct fixture *fixture = *state;
	call_logs(fixture, UINT64_C(1500000000));
	assert_saw(fixture, "HEADERS 1 :method=POST :scheme=http :path=" LOGS
			    " :authority=localhost content-type=application/grpc te=trailers "
			    "grpc-timeout=1500000u\n"
			    "DATA 1 7 end\n");
}

static void test_client_stream_of_replies(void **state)
{
	struct fixture *fixture = *state;
	call_logs(fixture, 0);
	Sluice__V1__LogChunk chunk = SLUICE__V1__LOG_CHUNK__INIT;
	raw_headers(&fixture->raw, RAW_END_HEADERS, 1, reply_headers);
	for (int i = 0; i < 2; i++)
		raw_message(&fixture->raw, 0, 1, &chunk.base);
	reply_trailers(fixture, 1, "9", "no %C3%A4 100%25%");
	assert_trace(fixture, "message message closed:FAILED_PRECONDITION(no \xc3\xa4 100%%) ");
	assert_int_equal(session_stream_count(fixture->session), 0);
}

static void test_client_trailers_only(void **state)
{
	struct fixture *fixture = *state;
	call_submit(fixture);
	const struct raw_field fields[] = {{":status", "200"},
					   {"content-type", "application/grpc"},
					   {"grpc-status", "5"},
					   {"grpc-message", "no job 7"},
					   {NULL, NULL}};
	raw_headers(&fixture->raw, RAW_END_HEADERS | RAW_END_STREAM, 1, fields);
	pump(fixture);
	assert_trace(fixture, "closed:NOT_FOUND(no job 7) ");
}

/* What no server should say, and what the caller hears. */
static void test_client_bad_answers(void **state)
{
	struct fixture *fixture = *state;
	static const struct {
		struct raw_field fields[4];
		uint8_t flags;
		const char *closed;
	} cases[] = {
	    {{{":status", "503"}}, RAW_END_STREAM, "closed:UNAVAILABLE"},
	    {{{":status", "404"}, {"content-type", "text/html"}}, 0, "closed:UNIMPLEMENTED"},
	    {{{":status", "200"}, {"content-type", "text/html"}}, 0, "closed:UNKNOWN"},
	    {{{":status", "abc"}}, 0, "closed:INTERNAL"},
	    {{{"x", "y"}}, 0, "closed:UNKNOWN"},
	    {{{":status", "200"}, {"content-type", "application/grpc"}},
	     RAW_END_STREAM,
	     "closed:UNKNOWN"},
	    {{{":status", "200"}, {"content-type", "application/grpc"}, {"grpc-status", "99"}},
	     RAW_END_STREAM,
	     "closed:UNKNOWN"},
	    {{{":status", "200"}, {"content-type", "application/grpc"}, {"grpc-status", "0"}},
	     RAW_END_STREAM,
	     "closed:UNIMPLEMENTED"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		buf_clear(&fixture->trace);
		call_submit(fixture);
		raw_headers(&fixture->raw, RAW_END_HEADERS | cases[i].flags, (int32_t)(1 + 2 * i),
			    cases[i].fields);
		pump(fixture);
		if (strncmp(buf_text(&fixture->trace), cases[i].closed, strlen(cases[i].closed)) !=
		    0)
			fail_msg("case %zu: %s", i, buf_text(&fixture->trace));
	}
	assert_int_equal(fixture->rc, 0);
}

static void test_client_bad_messages(void **state)
{
	struct fixture *fixture = *state;
	static const uint8_t garbage[] = {0, 0, 0, 0, 2, 0xff, 0xff};
	static const uint8_t compressed[] = {1, 0, 0, 0, 0};
	static const uint8_t large[] = {0, 0xff, 0, 0, 0};
	static const struct {
		const uint8_t *data;
		size_t length;
		const char *closed;
	} cases[] = {{garbage, sizeof(garbage), "closed:INTERNAL"},
		     {compressed, sizeof(compressed), "closed:INTERNAL"},
		     {large, sizeof(large), "closed:RESOURCE_EXHAUSTED"}};
	for (size_t i = 0; i < 3; i++) {
		int32_t id = (int32_t)(1 + 2 * i);
		char reset[32];
		buf_clear(&fixture->trace);
		call_submit(fixture);
		raw_headers(&fixture->raw, RAW_END_HEADERS, id, reply_headers);
		raw_data(&fixture->raw, 0, id, cases[i].data, cases[i].length);
		pump(fixture);
		assert_memory_equal(buf_text(&fixture->trace), cases[i].closed,
				    strlen(cases[i].closed));
		(void)snprintf(reset, sizeof(reset), "RST %d code 8\n", id);
		assert_saw(fixture, reset);
	}
}

static void test_client_cancel(void **state)
{
	struct fixture *fixture = *state;
	call_logs(fixture, 0);
	assert_non_null(fixture->stream);
	session_stream_cancel(fixture->stream);
	drain(fixture);
	assert_saw(fixture, "RST 1 code 8\n");
	/* before it was ever sent */
	Sluice__V1__LogsRequest request = SLUICE__V1__LOGS_REQUEST__INIT;
	struct session_stream *stream =
	    session_call(fixture->session, &methods[1], &request.base, 0, fixture, NULL);
	assert_non_null(stream);
	session_stream_cancel(stream);
	drain(fixture);
	assert_trace(fixture, "");
	assert_int_equal(session_stream_count(fixture->session), 0);
	assert_int_equal(session_output_bytes(fixture->session), 0);
}

static void test_client_reset_by_server(void **state)
{
	struct fixture *fixture = *state;
	call_logs(fixture, 0);
	raw_reset(&fixture->raw, 1, NGHTTP2_REFUSED_STREAM);
	pump(fixture);
	assert_trace(fixture,
		     "closed:UNAVAILABLE(the server takes no more calls on this connection) ");
}

static void test_client_goaway(void **state)
{
	struct fixture *fixture = *state;
	static const uint8_t goaway[] = {0, 0, 0, 1, 0, 0, 0, 0}; /* stream 1 may end */
	call_submit(fixture);
	call_logs(fixture, 0);
	raw_frame(&fixture->raw, NGHTTP2_GOAWAY, 0, 0, goaway, sizeof(goaway));
	pump(fixture);
	assert_trace(fixture,
		     "closed:UNAVAILABLE(the server takes no more calls on this connection) ");
	buf_clear(&fixture->trace);
	Sluice__V1__SubmitReply reply = SLUICE__V1__SUBMIT_REPLY__INIT;
	raw_headers(&fixture->raw, RAW_END_HEADERS, 1, reply_headers);
	raw_message(&fixture->raw, 0, 1, &reply.base);
	reply_trailers(fixture, 1, "0", NULL);
	assert_trace(fixture, "message closed:OK ");
	assert_true(session_is_over(fixture->session));
	Sluice__V1__LogsRequest request = SLUICE__V1__LOGS_REQUEST__INIT;
	struct err err = {0};
	assert_null(session_call(fixture->session, &methods[1], &request.base, 0, NULL, &err));
	assert_int_equal(err.code, -ENOTCONN);
}

/* While something still runs, a new call after GOAWAY is told by an event. */
static void test_client_call_after_goaway(void **state)
{
	struct fixture *fixture = *state;
	static const uint8_t goaway[] = {0, 0, 0, 1, 0, 0, 0, 0};
	call_submit(fixture);
	raw_frame(&fixture->raw, NGHTTP2_GOAWAY, 0, 0, goaway, sizeof(goaway));
	pump(fixture);
	call_logs(fixture, 0);
	assert_trace(fixture,
		     "closed:UNAVAILABLE(the server takes no more calls on this connection) ");
	assert_int_equal(session_stream_count(fixture->session), 1);
}

static void test_client_lost_connection(void **state)
{
	struct fixture *fixture = *state;
	call_submit(fixture);
	call_logs(fixture, 0);
	session_cut(fixture->session, -ECONNRESET, "gone");
	assert_trace(fixture, "closed:UNAVAILABLE(gone) closed:UNAVAILABLE(gone) ");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    client_test(test_client_request),		client_test(test_client_stream_of_replies),
	    client_test(test_client_trailers_only),	client_test(test_client_bad_answers),
	    client_test(test_client_bad_messages),	client_test(test_client_cancel),
	    client_test(test_client_reset_by_server),	client_test(test_client_goaway),
	    client_test(test_client_call_after_goaway), client_test(test_client_lost_connection),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
