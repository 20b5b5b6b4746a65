/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/server.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "unit/wire/server_fixture.h"

static void start_with_preface(struct fixture *fixture, struct peer *peer)
{
	peer_connect(peer, fixture);
	raw_preface(&peer->raw);
}

static void test_unary_call(void **state)
{
	struct fixture *fixture = *state;
	struct peer peer;
	fixture_start(fixture, NULL);
	start_with_preface(fixture, &peer);
	peer_submit(&peer, 1, "a", NULL);
	peer_expect(&peer, fixture, "HEADERS 1 grpc-status=0 end\n");
	struct wire_server_counts counts = fixture_counts(fixture);
	assert_int_equal(counts.calls, 1);
	assert_int_equal(counts.open_calls, 0);
	assert_int_equal(counts.open_connections, 1);
	assert_int_equal(counts.output_bytes, 0);
	peer_done(&peer);
}

static void ask(struct fixture *fixture, const char *key, Sluice__V1__SubmitReply **out)
{
	char text[64];
	(void)snprintf(text, sizeof(text), "%s", key);
	Sluice__V1__SubmitRequest request = SLUICE__V1__SUBMIT_REQUEST__INIT;
	request.key = text;
	struct wire_client *client = wire_client_new(fixture->loop, fixture->path, NULL, NULL);
	assert_non_null(client);
	ProtobufCMessage *reply = NULL;
	int rc = wire_client_ask(client, fixture->loop, &server_methods[METHOD_SUBMIT],
				 &request.base, 0, &reply, NULL, NULL);
	client = wire_client_free(client);
	assert_int_equal(rc, 0);
	*out = (Sluice__V1__SubmitReply *)reply;
}

static void test_peer_is_who_the_kernel_says(void **state)
{
	struct fixture *fixture = *state;
	Sluice__V1__SubmitReply *reply;
	fixture_start(fixture, NULL);
	ask(fixture, "a", &reply);
	assert_int_equal(reply->id, getpid());
	assert_int_equal(reply->gpus, geteuid());
	protobuf_c_message_free_unpacked(&reply->base, NULL);
}

static void test_groups_of_the_peer(void **state)
{
	struct fixture *fixture = *state;
	Sluice__V1__SubmitReply *reply;
	gid_t groups[256];
	char expected[4096];
	int count = getgroups(256, groups);
	assert_true(count >= 0);
	int length = snprintf(expected, sizeof(expected), "%d groups:", count);
	for (int i = 0; i < count; i++)
		length += snprintf(expected + length, sizeof(expected) - (size_t)length, " %u",
				   (unsigned)groups[i]);
	fixture_start(fixture, NULL);
	ask(fixture, "groups", &reply);
	assert_string_equal(reply->reason, expected);
	protobuf_c_message_free_unpacked(&reply->base, NULL);
}

static void test_trap_4_the_server_is_freed_in_a_handler(void **state)
{
	struct fixture *fixture = *state;
	struct peer peers[2];
	fixture_start(fixture, NULL);
	/* Both are ready in the same pass; the first handler frees everything. */
	for (int i = 0; i < 2; i++) {
		start_with_preface(fixture, &peers[i]);
		peer_expect(&peers[i], fixture, "SETTINGS ack");
	}
	for (int i = 0; i < 2; i++) {
		peer_submit(&peers[i], 1, "free", NULL);
		peer_submit(&peers[i], 3, "free", NULL);
		peer_send(&peers[i]);
	}
	for (int i = 0; i < 2; i++)
		peer_expect_closed(&peers[i], fixture);
	assert_null(fixture->server);
	assert_string_equal(buf_text(&fixture->trace), "held cancelled ");
	for (int i = 0; i < 2; i++)
		peer_done(&peers[i]);
}

static void test_trap_4_a_connection_goes_while_others_work(void **state)
{
	struct fixture *fixture = *state;
	fixture_start(fixture, NULL);
	for (int round = 0; round < 20; round++) {
		struct peer leaver, stayer;
		start_with_preface(fixture, &leaver);
		start_with_preface(fixture, &stayer);
		peer_expect(&leaver, fixture, "SETTINGS ack");
		peer_submit(&leaver, 1, "hold", NULL);
		peer_submit(&stayer, 1, "a", NULL);
		peer_send(&leaver);
		peer_send(&stayer);
		peer_done(&leaver); /* hangs up at once */
		peer_expect(&stayer, fixture, "grpc-status=0");
		peer_done(&stayer);
	}
	fixture_run_until(fixture, "cancelled ");
}

static void test_deadline_of_the_call(void **state)
{
	struct fixture *fixture = *state;
	struct peer peer;
	fixture_start(fixture, NULL);
	start_with_preface(fixture, &peer);
	peer_submit(&peer, 1, "hold", "100m");
	peer_submit(&peer, 3, "hold", NULL);
	peer_send(&peer);
	fixture_run_until(fixture, "held held ");
	fixture_advance(fixture, 99 * CLOCK_NS_PER_MS);
	assert_null(strstr(buf_text(&fixture->trace), "cancelled"));
	fixture_advance(fixture, CLOCK_NS_PER_MS);
	fixture_run_until(fixture, "cancelled ");
	peer_expect(&peer, fixture,
		    "HEADERS 1 :status=200 content-type=application/grpc "
		    "grpc-status=4 grpc-message=the deadline of the call has passed");
	/* One without a deadline stays. */
	fixture_advance(fixture, 3600 * CLOCK_NS_PER_S);
	assert_int_equal(fixture_counts(fixture).open_calls, 1);
	peer_done(&peer);
}

/* Slow loris: headers, half a message, and then nothing. */
static void test_half_a_request(void **state)
{
	struct fixture *fixture = *state;
	struct peer peer;
	struct wire_server_options options = {.request_ns = 5 * CLOCK_NS_PER_S};
	fixture_start(fixture, &options);
	start_with_preface(fixture, &peer);
	raw_call(&peer.raw, 1, "/sluice.v1.Queue/Submit");
	raw_data(&peer.raw, 0, 1, "\0\0\0\0\7\x0a\5", 7);
	raw_call(&peer.raw, 3, "/test/Upload");
	raw_data(&peer.raw, 0, 3, "\0\0\0\0\0", 5);
	peer_send(&peer);
	fixture_run_until(fixture, "held ");
	fixture_advance(fixture, 5 * CLOCK_NS_PER_S);
	peer_expect(&peer, fixture,
		    "HEADERS 1 :status=200 content-type=application/grpc "
		    "grpc-status=4 grpc-message=the request did not arrive in time");
	peer_expect(&peer, fixture,
		    "HEADERS 3 :status=200 content-type=application/grpc "
		    "grpc-status=4");
	fixture_run_until(fixture, "cancelled ");
	assert_int_equal(fixture_counts(fixture).open_calls, 0);
	peer_done(&peer);
}

/* Nothing at all, half of the magic, half a frame of SETTINGS. */
static void test_who_does_not_introduce_himself(void **state)
{
	struct fixture *fixture = *state;
	struct peer peers[3];
	fixture_start(fixture, NULL);
	for (size_t i = 0; i < 3; i++) {
		start_with_preface(fixture, &peers[i]);
		peers[i].raw.out.length = 15 * i;
		peer_send(&peers[i]);
	}
	peer_expect(&peers[0], fixture, "SETTINGS\n");
	assert_int_equal(fixture_counts(fixture).open_connections, 3);
	fixture_advance(fixture, 10 * CLOCK_NS_PER_S);
	for (int i = 0; i < 3; i++) {
		peer_expect_closed(&peers[i], fixture);
		peer_done(&peers[i]);
	}
	assert_int_equal(fixture_counts(fixture).open_connections, 0);
	assert_int_equal(fixture_counts(fixture).protocol_errors, 3);
}

static void test_idle_connections_end(void **state)
{
	struct fixture *fixture = *state;
	struct peer peer;
	struct wire_server_options options = {.idle_ns = 60 * CLOCK_NS_PER_S};
	fixture_start(fixture, &options);
	start_with_preface(fixture, &peer);
	peer_submit(&peer, 1, "hold", NULL);
	peer_send(&peer);
	fixture_run_until(fixture, "held ");
	fixture_advance(fixture, 600 * CLOCK_NS_PER_S); /* a call runs */
	assert_non_null(fixture->held);
	wire_call_finish(fixture->held, WIRE_OK, NULL);
	fixture_advance(fixture, 59 * CLOCK_NS_PER_S);
	peer_expect(&peer, fixture, "grpc-status=0");
	assert_false(peer.closed);
	fixture_advance(fixture, CLOCK_NS_PER_S);
	peer_expect_closed(&peer, fixture);
	assert_true(raw_saw(&peer.raw, "GOAWAY 1 code 0"));
	peer_done(&peer);
}

/* A reply that its client never takes does not keep the connection for ever. */
static void test_idle_with_a_reply_that_nobody_takes(void **state)
{
	struct fixture *fixture = *state;
	struct peer peer;
	static const uint8_t no_window[6] = {0, NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE};
	struct wire_server_options options = {.idle_ns = 60 * CLOCK_NS_PER_S};
	fixture_start(fixture, &options);
	peer_connect(&peer, fixture);
	assert_int_equal(buf_add(&peer.raw.out, NGHTTP2_CLIENT_MAGIC, NGHTTP2_CLIENT_MAGIC_LEN), 0);
	raw_frame(&peer.raw, NGHTTP2_SETTINGS, 0, 0, no_window, sizeof(no_window));
	peer_submit(&peer, 1, "a", NULL);
	peer_expect(&peer, fixture, "HEADERS 1 :status=200");
	fixture_advance(fixture, 60 * CLOCK_NS_PER_S);
	peer_expect(&peer, fixture, "GOAWAY 1 code 0");
	assert_int_equal(fixture_counts(fixture).open_connections, 1);
	fixture_advance(fixture, 10 * CLOCK_NS_PER_S);
	peer_expect_closed(&peer, fixture);
	assert_int_equal(fixture_counts(fixture).open_connections, 0);
	peer_done(&peer);
}

static void test_without_a_limit_idle_connections_stay(void **state)
{
	struct fixture *fixture = *state;
	struct peer peer;
	fixture_start(fixture, NULL);
	start_with_preface(fixture, &peer);
	peer_expect(&peer, fixture, "SETTINGS ack");
	fixture_advance(fixture, 86400 * CLOCK_NS_PER_S);
	peer_submit(&peer, 1, "a", NULL);
	peer_expect(&peer, fixture, "grpc-status=0");
	peer_done(&peer);
}

static void test_connections_are_capped(void **state)
{
	struct fixture *fixture = *state;
	struct peer peers[5];
	struct wire_server_options options = {.connections_max = 3};
	fixture_start(fixture, &options);
	for (int i = 0; i < 5; i++)
		start_with_preface(fixture, &peers[i]);
	for (int i = 0; i < 3; i++)
		peer_expect(&peers[i], fixture, "SETTINGS ack");
	for (int i = 3; i < 5; i++)
		peer_expect_closed(&peers[i], fixture);
	assert_int_equal(fixture_counts(fixture).refused_connections, 2);
	assert_int_equal(fixture_counts(fixture).open_connections, 3);
	/* A place that becomes free is given again. */
	peer_done(&peers[0]);
	peer_done(&peers[4]);
	peer_submit(&peers[1], 1, "a", NULL);
	peer_expect(&peers[1], fixture, "grpc-status=0");
	start_with_preface(fixture, &peers[0]);
	peer_expect(&peers[0], fixture, "SETTINGS ack");
	for (int i = 0; i < 4; i++)
		peer_done(&peers[i]);
}

/* Without a descriptor for it a connection waits, and the loop does not spin. */
static void test_no_descriptors(void **state)
{
	struct fixture *fixture = *state;
	struct peer peer;
	struct rlimit old, none;
	fixture_start(fixture, NULL);
	start_with_preface(fixture, &peer);
	_cleanup_close_ int next = dup(peer.fd);
	assert_true(next >= 0);
	(void)close(take_fd(&next));
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	none = old;
	none.rlim_cur = 0;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	for (int i = 0; i < 10; i++)
		(void)loop_pass(fixture->loop, CLOCK_NS_PER_MS, NULL);
	uint64_t refused = fixture_counts(fixture).refused_connections;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	assert_int_equal(refused, 1);
	fixture_advance(fixture, CLOCK_NS_PER_S);
	peer_expect(&peer, fixture, "SETTINGS ack");
	peer_done(&peer);
}

static void test_garbage_is_counted(void **state)
{
	struct fixture *fixture = *state;
	struct peer peer;
	fixture_start(fixture, NULL);
	peer_connect(&peer, fixture);
	assert_int_equal(buf_add_text(&peer.raw.out, "GET / HTTP/1.1\r\n\r\n and so on"), 0);
	peer_expect_closed(&peer, fixture);
	assert_int_equal(fixture_counts(fixture).protocol_errors, 1);
	peer_done(&peer);
	/* HTTP/2 at first, and then no more: he hears why. */
	start_with_preface(fixture, &peer);
	raw_frame(&peer.raw, NGHTTP2_HEADERS, RAW_END_HEADERS, 1, "\xff\xff\xff\xff\xff\xff", 6);
	peer_expect_closed(&peer, fixture);
	assert_true(raw_saw(&peer.raw, "GOAWAY 1 code 9")); /* COMPRESSION_ERROR */
	assert_int_equal(fixture_counts(fixture).protocol_errors, 2);
	peer_done(&peer);
}

static bool is_stuck(void *context)
{
	struct peer *peer = context;
	size_t before = peer->raw.out.length;
	peer_send(peer);
	return peer->raw.out.length > 0 && peer->raw.out.length == before;
}

/* A client that asks and asks and never reads. */
static void test_trap_5_a_client_that_never_reads(void **state)
{
	struct fixture *fixture = *state;
	struct peer peer;
	fixture_start(fixture, NULL);
	start_with_preface(fixture, &peer);
	for (int i = 0; i < 1000; i++) {
		for (int pings = 0; pings < 100; pings++) {
			raw_frame(&peer.raw, NGHTTP2_WINDOW_UPDATE, 0, 0, "\0\0\0\1", 4);
		}
		peer_submit(&peer, 1 + 2 * i, "a", NULL);
	}
	fixture_run(fixture, is_stuck, &peer);
	for (int i = 0; i < 100; i++)
		assert_int_equal(loop_pass(fixture->loop, 0, NULL), 0);
	assert_true(fixture_counts(fixture).output_bytes < 128 << 10);
	assert_true(fixture_counts(fixture).calls < 1000);
	/* Others are served, and when he reads, he is. */
	struct peer other;
	start_with_preface(fixture, &other);
	peer_submit(&other, 1, "a", NULL);
	peer_expect(&other, fixture, "grpc-status=0");
	peer_expect(&peer, fixture, "HEADERS 1999 grpc-status=0");
	peer_done(&other);
	peer_done(&peer);
}

static void test_trap_5_a_stream_nobody_reads(void **state)
{
	struct fixture *fixture = *state;
	struct peer peer;
	Sluice__V1__LogsRequest request = SLUICE__V1__LOGS_REQUEST__INIT;
	fixture->chunks = 1000;
	fixture_start(fixture, NULL);
	start_with_preface(fixture, &peer);
	raw_call(&peer.raw, 1, "/sluice.v1.Queue/Logs");
	raw_message(&peer.raw, RAW_END_STREAM, 1, &request.base);
	peer_expect(&peer, fixture, "DATA 1");
	for (int i = 0; i < 100; i++)
		assert_int_equal(loop_pass(fixture->loop, 0, NULL), 0);
	assert_in_range(fixture->chunks_sent, 12, 15);
	assert_true(fixture_counts(fixture).output_bytes < (64 << 10) + 20000);
	peer_done(&peer);
	fixture_run_until(fixture, "cancelled ");
	assert_int_equal(fixture_counts(fixture).open_calls, 0);
}

/* Reader and window are as fast as can be: still each pass of the loop moves only so much. */
static void test_an_endless_stream_lets_others_work(void **state)
{
	struct fixture *fixture = *state;
	struct peer peer;
	static const uint8_t windows[6] = {
	    0, NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 0x7f, 0xff, 0xff, 0xff};
	static const uint8_t window[4] = {0x70};
	Sluice__V1__LogsRequest request = SLUICE__V1__LOGS_REQUEST__INIT;
	fixture->chunks = SIZE_MAX;
	fixture_start(fixture, NULL);
	peer_connect(&peer, fixture);
	assert_int_equal(buf_add(&peer.raw.out, NGHTTP2_CLIENT_MAGIC, NGHTTP2_CLIENT_MAGIC_LEN), 0);
	raw_frame(&peer.raw, NGHTTP2_SETTINGS, 0, 0, windows, sizeof(windows));
	raw_frame(&peer.raw, NGHTTP2_WINDOW_UPDATE, 0, 0, window, sizeof(window));
	raw_call(&peer.raw, 1, "/sluice.v1.Queue/Logs");
	raw_message(&peer.raw, RAW_END_STREAM, 1, &request.base);
	peer_expect(&peer, fixture, "DATA 1");
	for (int i = 0; i < 20; i++) {
		size_t before = fixture->chunks_sent;
		assert_int_equal(loop_pass(fixture->loop, CLOCK_NS_PER_S, NULL), 0);
		assert_in_range(fixture->chunks_sent - before, 1, 16);
		peer_receive(&peer);
	}
	raw_reset(&peer.raw, 1, NGHTTP2_CANCEL); /* is heard */
	peer_send(&peer);
	fixture_run_until(fixture, "cancelled ");
	peer_done(&peer);
}

#define NOBODY 65534

/* One user's connections are half of all; root's and our own are not counted. */
static void test_room_for_other_users(void **state)
{
	struct fixture *fixture = *state;
	struct peer peers[4];
	struct wire_server_options options = {.connections_max = 4};
	if (geteuid() != 0) {
		print_message("needs root, to be two users\n");
		skip();
	}
	fixture_start(fixture, &options);
	assert_int_equal(chmod(fixture->directory, 0711), 0);
	assert_int_equal(chmod(fixture->path, 0666), 0);
	assert_int_equal(seteuid(NOBODY), 0);
	for (int i = 0; i < 3; i++)
		start_with_preface(fixture, &peers[i]);
	assert_int_equal(seteuid(0), 0);
	start_with_preface(fixture, &peers[3]);
	peer_expect_closed(&peers[2], fixture);
	peer_expect(&peers[0], fixture, "SETTINGS ack");
	peer_expect(&peers[1], fixture, "SETTINGS ack");
	peer_expect(&peers[3], fixture, "SETTINGS ack");
	assert_int_equal(fixture_counts(fixture).refused_connections, 1);
	for (int i = 0; i < 4; i++)
		peer_done(&peers[i]);
}

/* Who breaks the rules keeps the place for a second, and has no other meanwhile. */
static void test_a_place_is_not_had_back_at_once(void **state)
{
	struct fixture *fixture = *state;
	struct peer peers[4];
	struct wire_server_options options = {.connections_max = 4};
	if (geteuid() != 0) {
		print_message("needs root, to be two users\n");
		skip();
	}
	fixture_start(fixture, &options);
	assert_int_equal(chmod(fixture->directory, 0711), 0);
	assert_int_equal(chmod(fixture->path, 0666), 0);
	assert_int_equal(seteuid(NOBODY), 0);
	for (int i = 0; i < 2; i++) {
		peer_connect(&peers[i], fixture);
		assert_int_equal(
		    buf_add_text(&peers[i].raw.out, "GET / HTTP/1.1\r\n\r\n and so on"), 0);
		peer_expect_closed(&peers[i], fixture);
	}
	start_with_preface(fixture, &peers[2]);
	peer_expect_closed(&peers[2], fixture);
	assert_int_equal(fixture_counts(fixture).refused_connections, 1);
	fixture_advance(fixture, CLOCK_NS_PER_S);
	start_with_preface(fixture, &peers[3]);
	assert_int_equal(seteuid(0), 0);
	peer_expect(&peers[3], fixture, "SETTINGS ack");
	for (int i = 0; i < 4; i++)
		peer_done(&peers[i]);
}

static void on_stopped(void *context)
{
	fixture_note(context, "stopped ");
}

static void test_trap_7_shutdown_lets_calls_end(void **state)
{
	struct fixture *fixture = *state;
	struct peer busy, idle, late;
	fixture_start(fixture, NULL);
	start_with_preface(fixture, &busy);
	start_with_preface(fixture, &idle);
	peer_submit(&busy, 1, "hold", NULL);
	peer_send(&busy);
	peer_expect(&idle, fixture, "SETTINGS ack");
	fixture_run_until(fixture, "held ");
	wire_server_shutdown(fixture->server, 30 * CLOCK_NS_PER_S, on_stopped, fixture);
	peer_expect(&busy, fixture, "GOAWAY 1 code 0");
	peer_expect_closed(&idle, fixture);
	assert_true(raw_saw(&idle.raw, "GOAWAY 0 code 0"));
	peer_submit(&busy, 3, "a", NULL); /* not taken any more */
	peer_send(&busy);
	assert_null(strstr(buf_text(&fixture->trace), "stopped"));
	assert_non_null(fixture->held);
	Sluice__V1__SubmitReply reply = SLUICE__V1__SUBMIT_REPLY__INIT;
	assert_int_equal(wire_call_reply(fixture->held, &reply.base, NULL), 0);
	peer_expect_closed(&busy, fixture);
	assert_true(raw_saw(&busy.raw, "HEADERS 1 grpc-status=0 end"));
	assert_false(raw_saw(&busy.raw, "HEADERS 3"));
	fixture_run_until(fixture, "stopped ");
	/* Nobody listens any more. */
	late = (struct peer){.fd = -1};
	raw_init(&late.raw);
	struct err err = {0};
	assert_null(wire_client_new(fixture->loop, fixture->path, NULL, &err));
	assert_int_equal(err.code, -ECONNREFUSED);
	peer_done(&late);
	peer_done(&idle);
	peer_done(&busy);
}

static void test_trap_7_shutdown_has_a_deadline(void **state)
{
	struct fixture *fixture = *state;
	struct peer peer;
	fixture_start(fixture, NULL);
	start_with_preface(fixture, &peer);
	peer_submit(&peer, 1, "hold", NULL);
	peer_send(&peer);
	fixture_run_until(fixture, "held ");
	wire_server_shutdown(fixture->server, 30 * CLOCK_NS_PER_S, on_stopped, fixture);
	fixture_advance(fixture, 29 * CLOCK_NS_PER_S);
	assert_string_equal(buf_text(&fixture->trace), "held ");
	fixture_advance(fixture, CLOCK_NS_PER_S);
	fixture_run_until(fixture, "held cancelled stopped ");
	peer_expect_closed(&peer, fixture);
	peer_done(&peer);
}

static void test_shutdown_without_connections(void **state)
{
	struct fixture *fixture = *state;
	fixture_start(fixture, NULL);
	wire_server_shutdown(fixture->server, 0, on_stopped, fixture);
	fixture_run_until(fixture, "stopped ");
	fixture_advance(fixture, CLOCK_NS_PER_S);
	assert_string_equal(buf_text(&fixture->trace), "stopped ");
}

static void test_hang_up_takes_others_meanwhile(void **state)
{
	struct fixture *fixture = *state;
	struct peer busy, idle, fresh;
	fixture_start(fixture, NULL);
	start_with_preface(fixture, &busy);
	start_with_preface(fixture, &idle);
	peer_submit(&busy, 1, "hold", NULL);
	peer_send(&busy);
	fixture_run_until(fixture, "held ");
	peer_expect(&idle, fixture, "SETTINGS ack");
	wire_server_hang_up(fixture->server, CLOCK_NS_PER_S, on_stopped, fixture);
	peer_expect(&busy, fixture, "GOAWAY 1 code 0");
	peer_expect_closed(&idle, fixture);
	start_with_preface(fixture, &fresh);
	peer_submit(&fresh, 1, "a", NULL);
	peer_expect(&fresh, fixture, "HEADERS 1 grpc-status=0 end");
	assert_string_equal(buf_text(&fixture->trace), "held ");
	fixture_advance(fixture, CLOCK_NS_PER_S);
	fixture_run_until(fixture, "held cancelled stopped ");
	peer_expect_closed(&busy, fixture);
	/* Who came later stays, and is the one that the next time is for. */
	peer_submit(&fresh, 3, "a", NULL);
	peer_expect(&fresh, fixture, "HEADERS 3 grpc-status=0 end");
	wire_server_hang_up(fixture->server, CLOCK_NS_PER_S, NULL, NULL);
	wire_server_hang_up(fixture->server, CLOCK_NS_PER_S, on_stopped, fixture);
	peer_expect_closed(&fresh, fixture);
	fixture_run_until(fixture, "held cancelled stopped stopped ");
	peer_done(&fresh);
	peer_done(&idle);
	peer_done(&busy);
}

static void test_a_stream_with_an_output_cap_of_its_own(void **state)
{
	struct fixture *fixture = *state;
	struct peer peer;
	fixture->chunks = 1000;
	fixture_start(fixture, NULL);
	start_with_preface(fixture, &peer);
	raw_call(&peer.raw, 1, "/test/Sparse");
	Sluice__V1__LogsRequest request = SLUICE__V1__LOGS_REQUEST__INIT;
	raw_message(&peer.raw, RAW_END_STREAM, 1, &request.base);
	/* His window of 65535 bytes takes six of 10,000, and the beginning of the one that waits.
	 */
	peer_expect(&peer, fixture, "DATA 1 ");
	for (int i = 0; i < 50; i++) {
		assert_int_equal(loop_pass(fixture->loop, 0, NULL), 0);
		peer_receive(&peer);
	}
	assert_int_equal(fixture->chunks_sent, 7);
	peer_done(&peer);
}

static void test_client_streams(void **state)
{
	struct fixture *fixture = *state;
	struct peer peer;
	Sluice__V1__LogChunk chunk = SLUICE__V1__LOG_CHUNK__INIT;
	fixture_start(fixture, NULL);
	start_with_preface(fixture, &peer);
	raw_call(&peer.raw, 1, "/test/Upload");
	for (int i = 0; i < 5; i++)
		raw_message(&peer.raw, i == 4 ? RAW_END_STREAM : 0, 1, &chunk.base);
	peer_expect(&peer, fixture, "HEADERS 1 grpc-status=0 end");
	assert_int_equal(fixture->received, 5);
	assert_memory_equal(peer.raw.body.data, "\0\0\0\0\2\x08\5", 7);
	peer_done(&peer);
}

#define fixture_test(name) cmocka_unit_test_setup_teardown(name, fixture_set_up, fixture_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    fixture_test(test_unary_call),
	    fixture_test(test_peer_is_who_the_kernel_says),
	    fixture_test(test_groups_of_the_peer),
	    fixture_test(test_trap_4_the_server_is_freed_in_a_handler),
	    fixture_test(test_trap_4_a_connection_goes_while_others_work),
	    fixture_test(test_deadline_of_the_call),
	    fixture_test(test_half_a_request),
	    fixture_test(test_who_does_not_introduce_himself),
	    fixture_test(test_idle_connections_end),
	    fixture_test(test_idle_with_a_reply_that_nobody_takes),
	    fixture_test(test_without_a_limit_idle_connections_stay),
	    fixture_test(test_connections_are_capped),
	    fixture_test(test_no_descriptors),
	    fixture_test(test_garbage_is_counted),
	    fixture_test(test_trap_5_a_client_that_never_reads),
	    fixture_test(test_trap_5_a_stream_nobody_reads),
	    fixture_test(test_an_endless_stream_lets_others_work),
	    fixture_test(test_room_for_other_users),
	    fixture_test(test_a_place_is_not_had_back_at_once),
	    fixture_test(test_trap_7_shutdown_lets_calls_end),
	    fixture_test(test_trap_7_shutdown_has_a_deadline),
	    fixture_test(test_shutdown_without_connections),
	    fixture_test(test_hang_up_takes_others_meanwhile),
	    fixture_test(test_a_stream_with_an_output_cap_of_its_own),
	    fixture_test(test_client_streams),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
