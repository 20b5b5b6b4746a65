/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/channel.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/loop.h"
#include "unit/unit.h"
#include "unit/wire/raw.h"
#include "wire/server.h"
#include "wire/session.h"

struct fixture {
	struct loop *loop;
	struct session *session;
	struct channel *channel;
	int fd; /* the peer's end */
	struct raw raw;
	int closed; /* how often */
	int code;   /* of the reason; 0: none */
};

static int no_open(struct session_stream *stream, void *context)
{
	return -ENOMEM;
}

static const struct session_events events = {.open = no_open};
static const struct wire_method methods[] = {{0}};

static void on_closed(const struct err *why, void *context)
{
	struct fixture *fixture = context;
	fixture->closed++;
	fixture->code = why ? why->code : 0;
	fixture->channel = channel_free(fixture->channel);
}

static int set_up(void **state)
{
	static struct fixture fixture;
	struct session_options options = {
	    .role = SESSION_SERVER, .methods = methods, .events = &events, .context = &fixture};
	int ends[2];
	fixture = (struct fixture){.fd = -1};
	*state = &fixture;
	raw_init(&fixture.raw);
	fixture.loop = loop_new(LOOP_FAKE, NULL);
	assert_non_null(fixture.loop);
	fixture.session = session_new(&options, NULL);
	assert_non_null(fixture.session);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends),
			 0);
	fixture.fd = ends[0];
	fixture.channel =
	    channel_new(fixture.loop, ends[1], fixture.session, on_closed, &fixture, NULL);
	assert_non_null(fixture.channel);
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *fixture = *state;
	fixture->channel = channel_free(fixture->channel);
	if (fixture->fd >= 0)
		(void)close(fixture->fd);
	if (fixture->loop)
		(void)loop_pass(fixture->loop, 0, NULL);
	fixture->session = session_free(fixture->session);
	fixture->loop = loop_free(fixture->loop);
	raw_done(&fixture->raw);
	return 0;
}

static void pass(struct fixture *fixture)
{
	for (int i = 0; i < 3; i++)
		assert_int_equal(loop_pass(fixture->loop, 0, NULL), 0);
}

static size_t say(struct fixture *fixture)
{
	struct buf *out = &fixture->raw.out;
	ssize_t sent = send(fixture->fd, out->data, out->length, MSG_NOSIGNAL);
	if (sent <= 0)
		return 0;
	buf_consume(out, (size_t)sent);
	return (size_t)sent;
}

static void hear(struct fixture *fixture)
{
	char data[4096];
	ssize_t length;
	while ((length = recv(fixture->fd, data, sizeof(data), 0)) > 0)
		raw_read(&fixture->raw, data, (size_t)length);
}

static void test_both_directions(void **state)
{
	struct fixture *fixture = *state;
	raw_preface(&fixture->raw);
	raw_frame(&fixture->raw, NGHTTP2_PING, 0, 0, "12345678", 8);
	(void)say(fixture);
	pass(fixture);
	hear(fixture);
	assert_true(raw_saw(&fixture->raw, "SETTINGS\n"));
	assert_true(raw_saw(&fixture->raw, "PING ack\n"));
	assert_int_equal(channel_output_bytes(fixture->channel), 0);
	assert_int_equal(fixture->closed, 0);
}

/* A call of a method with a long name, which is not there. */
static void ask_in_vain(struct fixture *fixture, int32_t id)
{
	char path[500];
	memset(path, 'x', sizeof(path));
	path[sizeof(path) - 1] = '\0';
	raw_call(&fixture->raw, id, path);
}

/* Who does not read is not read from, until he does. */
static void test_a_peer_that_does_not_read(void **state)
{
	struct fixture *fixture = *state;
	int32_t calls = 0;
	raw_preface(&fixture->raw);
	for (int i = 0; i < 1000; i++) {
		for (int j = 0; j < 20 && fixture->raw.out.length < 10000; j++)
			ask_in_vain(fixture, 1 + 2 * calls++);
		if (say(fixture) == 0)
			break;
		pass(fixture);
	}
	assert_int_equal(fixture->closed, 0);
	assert_true(channel_output_bytes(fixture->channel) > 0);
	assert_true(channel_output_bytes(fixture->channel) < (size_t)2 * CHANNEL_OUTPUT);
	assert_int_equal(say(fixture), 0);
	for (int i = 0; i < 10000; i++) {
		hear(fixture);
		pass(fixture);
		(void)say(fixture);
	}
	assert_int_equal(raw_count(&fixture->raw, "grpc-status=12"), calls);
	assert_int_equal(channel_output_bytes(fixture->channel), 0);
	assert_int_equal(fixture->closed, 0);
}

static void test_hang_up(void **state)
{
	struct fixture *fixture = *state;
	raw_preface(&fixture->raw);
	(void)say(fixture);
	pass(fixture);
	(void)close(fixture->fd);
	fixture->fd = -1;
	pass(fixture);
	assert_int_equal(fixture->closed, 1);
	assert_int_equal(fixture->code, -ECONNRESET);
}

static void test_broken_rules(void **state)
{
	struct fixture *fixture = *state;
	assert_int_equal(buf_add_text(&fixture->raw.out, "no HTTP/2 at all, is it?"), 0);
	(void)say(fixture);
	pass(fixture);
	assert_int_equal(fixture->closed, 1);
	assert_int_equal(fixture->code, -EPROTO);
}

static void test_both_sides_have_ended_it(void **state)
{
	struct fixture *fixture = *state;
	raw_preface(&fixture->raw);
	(void)say(fixture);
	pass(fixture);
	assert_int_equal(session_shutdown(fixture->session, NULL), 0);
	channel_flush(fixture->channel);
	channel_flush(fixture->channel);
	pass(fixture);
	hear(fixture);
	assert_true(raw_saw(&fixture->raw, "GOAWAY 0 code 0"));
	assert_int_equal(fixture->closed, 1);
	assert_int_equal(fixture->code, 0);
}

#define channel_test(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    channel_test(test_both_directions),
	    channel_test(test_a_peer_that_does_not_read),
	    channel_test(test_hang_up),
	    channel_test(test_broken_rules),
	    channel_test(test_both_sides_have_ended_it),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
