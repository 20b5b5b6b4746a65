/* SPDX-License-Identifier: Apache-2.0 */
/* The session with peers that break the rules, or wear it out within them. */
#include "wire/session.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "unit/wire/session_fixture.h"

static void expect_broken(struct fixture *fixture, const char *why)
{
	assert_true(session_is_over(fixture->session));
	if (fixture->rc < 0) {
		assert_int_equal(fixture->rc, -EPROTO);
		assert_non_null(strstr(fixture->err.text, why));
	}
}

static void test_garbage(void **state)
{
	struct fixture *fixture = *state;
	buf_clear(&fixture->raw.out);
	assert_int_equal(buf_add_text(&fixture->raw.out, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"), 0);
	pump(fixture);
	expect_broken(fixture, "magic");
	assert_int_equal(fixture->rc, -EPROTO);
	pump(fixture); /* and once more */
	assert_int_equal(fixture->rc, -EPROTO);
}

static void test_rapid_reset(void **state)
{
#ifdef WIRE_HAS_RESET_LIMIT
	struct fixture *fixture = *state;
	int32_t id = 1;
	for (; id < 3000 && !raw_saw(&fixture->raw, "GOAWAY"); id += 2) {
		raw_call(&fixture->raw, id, SUBMIT);
		raw_reset(&fixture->raw, id, NGHTTP2_CANCEL);
		pump(fixture);
	}
	assert_in_range(id / 2, SESSION_RESETS_BURST, SESSION_RESETS_BURST + 60);
	expect_broken(fixture, "");
	assert_int_equal(session_stream_count(fixture->session), 0);
#else
	print_message("this nghttp2 has no limit of resets\n");
	skip();
#endif
}

/* The gRPC C core does so when a call is cancelled before its headers went out. */
static void test_resets_of_streams_never_opened(void **state)
{
	struct fixture *fixture = *state;
	raw_reset(&fixture->raw, 1, NGHTTP2_CANCEL);
	raw_call(&fixture->raw, 3, SUBMIT);
	submit(fixture, 3, "a", RAW_END_STREAM);
	pump(fixture);
	assert_saw(fixture, "HEADERS 3 grpc-status=0 end");
	assert_false(session_is_over(fixture->session));
	for (int i = 0; i <= SESSION_IDLE_RESETS_MAX; i++)
		raw_reset(&fixture->raw, 99, NGHTTP2_CANCEL);
	pump(fixture);
	expect_broken(fixture, "");
}

static void test_floods(void **state)
{
	struct fixture *fixture = *state;
	pump(fixture);
	for (int i = 0; i <= SESSION_ACKS_MAX + 1; i++) /* in one go, with no answer taken */
		raw_frame(&fixture->raw, NGHTTP2_PING, 0, 0, "12345678", 8);
	pump(fixture);
	assert_int_equal(fixture->rc, -EPROTO);
	expect_broken(fixture, "Flooding");
}

static void test_settings_flood(void **state)
{
	struct fixture *fixture = *state;
	for (int i = 0; i <= SESSION_ACKS_MAX + 1; i++)
		raw_frame(&fixture->raw, NGHTTP2_SETTINGS, 0, 0, "", 0);
	pump(fixture);
	assert_int_equal(fixture->rc, -EPROTO);
}

/* Many PINGs are nothing bad as long as the answers are read. */
static void test_pings_that_are_read(void **state)
{
	struct fixture *fixture = *state;
	for (int i = 0; i < 2000; i++) {
		raw_frame(&fixture->raw, NGHTTP2_PING, 0, 0, "12345678", 8);
		pump(fixture);
		assert_int_equal(fixture->rc, 0);
	}
	assert_int_equal(raw_count(&fixture->raw, "PING ack"), 2000);
}

static void test_empty_data_flood(void **state)
{
	struct fixture *fixture = *state;
	raw_call(&fixture->raw, 1, SUBMIT);
	for (int i = 0; i <= SESSION_EMPTY_MAX; i++)
		raw_data(&fixture->raw, 0, 1, "", 0);
	pump(fixture);
	assert_saw(fixture, "code 11\n"); /* ENHANCE_YOUR_CALM */
	expect_broken(fixture, "");
}

static void test_continuation_flood(void **state)
{
	struct fixture *fixture = *state;
	raw_frame(&fixture->raw, NGHTTP2_HEADERS, 0, 1, "", 0);
	for (int i = 0; i < 100; i++)
		raw_frame(&fixture->raw, NGHTTP2_CONTINUATION, 0, 1, "\0\1a\1b", 5);
	pump(fixture);
	assert_true(fixture->rc < 0 || session_is_over(fixture->session));
	assert_trace(fixture, "");
}

/* A field of 4 KiB that the table repeats with one byte each. */
static void test_hpack_bomb(void **state)
{
	struct fixture *fixture = *state;
	static uint8_t block[16000];
	size_t length = 0;
	block[length++] = 0x40; /* into the table */
	block[length++] = 1;
	block[length++] = 'x';
	block[length++] = 0x7f; /* 4000 bytes */
	block[length++] = (uint8_t)((4000 - 127) & 127) | 128;
	block[length++] = (uint8_t)((4000 - 127) >> 7);
	memset(block + length, 'y', 4000);
	length += 4000;
	memset(block + length, 0x80 | 62, sizeof(block) - length);
	raw_frame(&fixture->raw, NGHTTP2_HEADERS, RAW_END_HEADERS, 1, block, sizeof(block));
	pump(fixture);
	assert_saw(fixture, "grpc-status=8");
	assert_int_equal(fixture->rc, 0);
}

static void test_frames_out_of_place(void **state)
{
	struct fixture *fixture = *state;
	raw_call(&fixture->raw, 1, SUBMIT);
	pump(fixture);
	/* trailers of the client, with fields that would otherwise mean something */
	const struct raw_field fields[] = {{":path", LOGS}, {"grpc-timeout", "x"}, {NULL, NULL}};
	submit(fixture, 1, "a", 0);
	raw_headers(&fixture->raw, RAW_END_HEADERS | RAW_END_STREAM, 1, fields);
	pump(fixture);
	assert_saw(fixture, "HEADERS 1 grpc-status=0 end");
	/* after the end, and on a stream that was never opened */
	submit(fixture, 1, "a", RAW_END_STREAM);
	pump(fixture);
	raw_data(&fixture->raw, 0, 99, "x", 1);
	pump(fixture);
	expect_broken(fixture, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    server_test(test_garbage),
	    server_test(test_rapid_reset),
	    server_test(test_resets_of_streams_never_opened),
	    server_test(test_floods),
	    server_test(test_settings_flood),
	    server_test(test_pings_that_are_read),
	    server_test(test_empty_data_flood),
	    server_test(test_continuation_flood),
	    server_test(test_hpack_bomb),
	    server_test(test_frames_out_of_place),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
