/* SPDX-License-Identifier: Apache-2.0 */
#include "web/server.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/loop.h"
#include "unit/unit.h"
#include "web/chunk.h"

#define S CLOCK_NS_PER_S

enum { BIG = 4 << 20 };

struct fixture {
	struct loop *loop;
	struct server *server;
	uint64_t parts; /* that a stream has */
	bool is_lost, is_done;
	struct chunk *shared;	/* owned; the body of /shared */
	uint32_t asked, modest; /* requests; which of them was the one for /modest */
	char got[8192];
};

static struct chunk *big(void)
{
	struct chunk *chunk = chunk_new(BIG, NULL);
	if (chunk && buf_reserve(&chunk->buf, BIG) == 0) {
		memset(chunk->buf.data, 'b', BIG);
		chunk->buf.length = BIG;
	}
	return chunk;
}

static void answer(void *context, const struct http_request *request, struct answer *out)
{
	struct fixture *fixture = context;
	fixture->asked++;
	if (http_text_is(&request->path, "/modest"))
		fixture->modest = fixture->asked;
	out->status = 200;
	if (http_text_is(&request->path, "/stream")) {
		out->is_stream = true;
	} else if (http_text_is(&request->path, "/big")) {
		out->body = big();
	} else if (http_text_is(&request->path, "/shared")) {
		if (!fixture->shared)
			fixture->shared = big();
		if (fixture->shared)
			out->body = chunk_ref(fixture->shared);
	} else {
		(void)snprintf(out->text, sizeof(out->text), "%.*s", (int)request->path.length,
			       request->path.data);
	}
}

static struct chunk *stream_next(void *context, uint64_t *cursor)
{
	const struct fixture *fixture = context;
	if (*cursor >= fixture->parts)
		return NULL;
	struct chunk *chunk = chunk_new(100, NULL);
	(*cursor)++;
	if (chunk && buf_add_text(&chunk->buf, "part\n") < 0)
		chunk = chunk_unref(chunk);
	return chunk;
}

static bool stream_is_lost(void *context, uint64_t cursor)
{
	return ((const struct fixture *)context)->is_lost;
}

static void on_done(void *context)
{
	((struct fixture *)context)->is_done = true;
}

static struct fixture *make(void)
{
	struct fixture *fixture = calloc(1, sizeof(*fixture));
	assert_non_null(fixture);
	const struct server_owner owner = {answer, stream_next, stream_is_lost, fixture};
	fixture->loop = loop_new(LOOP_FAKE, NULL);
	fixture->server = server_new(fixture->loop, -1, &owner, NULL);
	assert_non_null(fixture->server);
	return fixture;
}

static void done(struct fixture *fixture)
{
	server_free(fixture->server);
	loop_free(fixture->loop);
	chunk_unref(fixture->shared);
	free(fixture);
}

/* A client; its end. */
static int join(struct fixture *fixture)
{
	int pair[2];
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair),
			 0);
	server_take(fixture->server, pair[0]);
	return pair[1];
}

static void turn(struct fixture *fixture)
{
	for (int i = 0; i < 4; i++)
		assert_int_equal(loop_pass(fixture->loop, 0, NULL), 0);
}

static void say(struct fixture *fixture, int fd, const char *text)
{
	(void)!send(fd, text, strlen(text), MSG_NOSIGNAL);
	turn(fixture);
}

/* What has come, as text; "-" if nothing has, "end" if no more will. */
static const char *hear(struct fixture *fixture, int fd)
{
	turn(fixture);
	ssize_t got = recv(fd, fixture->got, sizeof(fixture->got) - 1, MSG_DONTWAIT);
	if (got < 0)
		return errno == EAGAIN ? "-" : "end";
	fixture->got[got] = '\0';
	return got == 0 ? "end" : fixture->got;
}

static void advance(struct fixture *fixture, uint64_t ns)
{
	assert_int_equal(loop_advance(fixture->loop, ns, NULL), 0);
}

#define HAS(text, word) assert_non_null(strstr((text), (word)))

static const char request[] = "GET /a HTTP/1.1\r\nHost: x\r\n\r\n";

static void test_answers(void **state)
{
	struct fixture *fixture = make();
	int fd = join(fixture);
	say(fixture, fd, "GET /a HTT");
	assert_string_equal(hear(fixture, fd), "-");
	say(fixture, fd, "P/1.1\r\nHost: x\r\n\r\nGET /b HTTP/1.1\r\nHost: x\r\n\r\nGET");
	HAS(hear(fixture, fd), "\r\n\r\n/a\nHTTP/1.1 200 OK");
	HAS(fixture->got, "\r\n\r\n/b\n");
	say(fixture, fd, " /c HTTP/1.0\r\n\r\n");
	HAS(hear(fixture, fd), "Connection: close\r\n\r\n/c\n");
	assert_string_equal(hear(fixture, fd), "end");
	assert_int_equal(server_counts(fixture->server).requests, 3);
	(void)close(fd);
	turn(fixture);
	assert_int_equal(server_counts(fixture->server).connections, 0);
	done(fixture);
}

/* Of the answer to HEAD: what the one to GET has, and that the connection stays, if it does. */
static void test_fields(void **state)
{
	struct fixture *fixture = make();
	int fd = join(fixture), old = join(fixture);
	say(fixture, fd, "HEAD /stream HTTP/1.1\r\nHost: x\r\n\r\n");
	HAS(hear(fixture, fd), "200 OK");
	assert_null(strstr(fixture->got, "Content-Length"));
	say(fixture, fd, request);
	HAS(hear(fixture, fd), "\r\n\r\n/a\n");
	assert_null(strstr(fixture->got, "Connection:"));
	say(fixture, old, "GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
	HAS(hear(fixture, old), "\r\nConnection: keep-alive\r\n");
	assert_string_equal(hear(fixture, old), "-");
	(void)close(fd);
	(void)close(old);
	done(fixture);
}

/* Who asks much at once does not keep the others waiting until he has all. */
static void test_turns(void **state)
{
	enum { ASKED = 50 };
	struct fixture *fixture = make();
	int greedy = join(fixture), modest = join(fixture);
	for (int i = 0; i < ASKED; i++)
		(void)!send(greedy, request, sizeof(request) - 1, MSG_NOSIGNAL);
	say(fixture, modest, "GET /modest HTTP/1.1\r\nHost: x\r\n\r\n");
	HAS(hear(fixture, modest), "\r\n\r\n/modest\n");
	HAS(hear(fixture, greedy), "\r\n\r\n/a\n");
	assert_in_range(fixture->modest, 1, ASKED / 2);
	for (int i = 0; i < ASKED && fixture->asked < ASKED + 1; i++)
		turn(fixture);
	assert_int_equal(fixture->asked, ASKED + 1);
	(void)close(greedy);
	(void)close(modest);
	done(fixture);
}

static void test_time_for_a_head(void **state)
{
	struct fixture *fixture = make();
	int silent = join(fixture), slow = join(fixture), kept = join(fixture);
	say(fixture, kept, request);
	HAS(hear(fixture, kept), "200 OK");
	for (int i = 0; i < 9; i++) {
		say(fixture, slow, "G");
		advance(fixture, S);
		assert_string_equal(hear(fixture, slow), "-");
	}
	advance(fixture, 2 * S);
	assert_string_equal(hear(fixture, silent), "end");
	assert_string_equal(hear(fixture, kept), "end");
	HAS(hear(fixture, slow), "HTTP/1.1 408 ");
	assert_string_equal(hear(fixture, slow), "end");
	/* who does not close is closed, and may have said as much as he likes meanwhile */
	say(fixture, slow, "more and more");
	assert_int_equal(server_counts(fixture->server).connections, 1);
	advance(fixture, 3 * S);
	assert_int_equal(server_counts(fixture->server).connections, 0);
	(void)close(silent);
	(void)close(slow);
	(void)close(kept);
	done(fixture);
}

static void test_time_for_an_answer(void **state)
{
	struct fixture *fixture = make();
	int fd = join(fixture);
	say(fixture, fd, "GET /big HTTP/1.1\r\nHost: x\r\n\r\n");
	for (int i = 0; i < SERVER_ANSWER_S - 1; i++) {
		HAS(hear(fixture, fd), "b"); /* a little each second is not enough */
		advance(fixture, S);
	}
	assert_int_equal(server_counts(fixture->server).connections, 1);
	advance(fixture, 2 * S);
	assert_int_equal(server_counts(fixture->server).connections, 0);
	assert_int_equal(server_counts(fixture->server).dropped, 1);
	(void)close(fd);
	done(fixture);
}

/* Each holds an answer of its own that it does not take: only as much as there is room for. */
static void test_held(void **state)
{
	struct fixture *fixture = make();
	int fds[5];
	for (size_t i = 0; i < 5; i++) {
		fds[i] = join(fixture);
		say(fixture, fds[i], "GET /big HTTP/1.1\r\nHost: x\r\n\r\n");
		advance(fixture, S / 10);
		assert_in_range(server_counts(fixture->server).connections, 1,
				SERVER_HELD_MAX / BIG);
	}
	assert_int_equal(server_counts(fixture->server).dropped, 5 - SERVER_HELD_MAX / BIG);
	HAS(hear(fixture, fds[4]), "200 OK"); /* the newest is still there */
	for (size_t i = 0; i < 5; i++)
		(void)close(fds[i]);
	done(fixture);
}

static void test_too_many(void **state)
{
	struct fixture *fixture = make();
	int fds[SERVER_CONNECTIONS_MAX + SERVER_REFUSED_MAX + 2];
	size_t count = sizeof(fds) / sizeof(fds[0]);
	for (size_t i = 0; i < SERVER_CONNECTIONS_MAX; i++)
		fds[i] = join(fixture);
	for (size_t i = SERVER_CONNECTIONS_MAX; i < count; i++) {
		fds[i] = join(fixture);
		HAS(hear(fixture, fds[i]), "HTTP/1.1 503 ");
		HAS(fixture->got, "Retry-After: 1\r\n");
		assert_string_equal(hear(fixture, fds[i]), "end");
	}
	assert_int_equal(server_counts(fixture->server).connections, SERVER_CONNECTIONS_MAX);
	/* After a second the one that has waited longest makes room. */
	advance(fixture, S);
	int late = join(fixture);
	say(fixture, late, request);
	HAS(hear(fixture, late), "200 OK");
	assert_string_equal(hear(fixture, fds[0]), "end");
	assert_string_equal(hear(fixture, fds[1]), "-");
	assert_int_equal(server_counts(fixture->server).evicted, 1);
	for (size_t i = 0; i < count; i++)
		(void)close(fds[i]);
	(void)close(late);
	turn(fixture);
	assert_int_equal(server_counts(fixture->server).connections, 0);
	done(fixture);
}

/* All are taken by who asks and does not take the answer, or does not leave. */
static void test_too_many_that_take_nothing(void **state)
{
	struct fixture *fixture = make();
	int fds[SERVER_CONNECTIONS_MAX];
	for (size_t i = 0; i < SERVER_CONNECTIONS_MAX; i++) {
		fds[i] = join(fixture);
		say(fixture, fds[i],
		    i == 3 ? "GET /bye HTTP/1.0\r\n\r\n"
			   : "GET /shared HTTP/1.1\r\nHost: x\r\n\r\n");
	}
	int early = join(fixture);
	HAS(hear(fixture, early), "HTTP/1.1 503 ");
	advance(fixture, S);
	int next = join(fixture);
	say(fixture, next, "GET /shared HTTP/1.1\r\nHost: x\r\n\r\n");
	HAS(hear(fixture, next), "200 OK");
	assert_int_equal(server_counts(fixture->server).evicted, 1); /* number 3 */
	advance(fixture, (SERVER_EVICT_ANSWER_S - 1) * S);
	int late = join(fixture);
	say(fixture, late, request);
	HAS(hear(fixture, late), "200 OK");
	assert_int_equal(server_counts(fixture->server).evicted, 2);
	assert_int_equal(server_counts(fixture->server).dropped, 0);
	for (size_t i = 0; i < SERVER_CONNECTIONS_MAX; i++)
		(void)close(fds[i]);
	(void)close(early);
	(void)close(next);
	(void)close(late);
	turn(fixture);
	done(fixture);
}

static void test_stream(void **state)
{
	struct fixture *fixture = make();
	int fd = join(fixture), silent = join(fixture);
	say(fixture, fd, "GET /stream HTTP/1.1\r\nHost: x\r\n\r\n");
	say(fixture, silent, "GET /stream HTTP/1.1\r\nHost: x\r\n\r\n");
	assert_null(strstr(hear(fixture, fd), "Content-Length"));
	assert_int_equal(server_counts(fixture->server).streams, 2);
	for (int i = 0; i < 40; i++) { /* longer than any other deadline */
		fixture->parts++;
		server_wake_streams(fixture->server);
		assert_string_equal(hear(fixture, fd), "part\n");
		advance(fixture, S);
	}
	(void)close(fd);
	turn(fixture);
	assert_int_equal(server_counts(fixture->server).streams, 1);
	fixture->is_lost = true;
	server_wake_streams(fixture->server);
	assert_int_equal(server_counts(fixture->server).streams, 0);
	assert_int_equal(server_counts(fixture->server).dropped, 1);
	(void)close(silent);
	done(fixture);
}

/* Nobody takes anything: the kernel's buffer is full, and after a while the reader is gone. */
static void test_stalled_stream(void **state)
{
	struct fixture *fixture = make();
	int fd = join(fixture);
	say(fixture, fd, "GET /stream HTTP/1.1\r\nHost: x\r\n\r\n");
	fixture->parts = 1 << 20;
	server_wake_streams(fixture->server);
	assert_int_equal(server_counts(fixture->server).streams, 1);
	advance(fixture, (SERVER_STALL_S + 1) * S);
	assert_int_equal(server_counts(fixture->server).streams, 0);
	(void)close(fd);
	done(fixture);
}

static void test_end_of_streams(void **state)
{
	struct fixture *fixture = make();
	int fd = join(fixture), other = join(fixture);
	say(fixture, fd, "GET /stream HTTP/1.1\r\nHost: x\r\n\r\n");
	HAS(hear(fixture, fd), "200 OK");
	server_end_streams(fixture->server);
	assert_string_equal(hear(fixture, fd), "end");
	say(fixture, other, request);
	HAS(hear(fixture, other), "200 OK");
	(void)close(fd);
	(void)close(other);
	done(fixture);
}

static void test_finish(void **state)
{
	struct fixture *fixture = make();
	int idle = join(fixture), busy = join(fixture);
	say(fixture, busy, "GET /big HTTP/1.1\r\nHost: x\r\n\r\n");
	server_finish(fixture->server, S, on_done, fixture);
	assert_string_equal(hear(fixture, idle), "end");
	advance(fixture, S / 2);
	assert_false(fixture->is_done); /* an answer is on its way */
	advance(fixture, S);
	assert_true(fixture->is_done);
	(void)close(idle);
	(void)close(busy);
	done(fixture);
}

static void test_finish_at_once(void **state)
{
	struct fixture *fixture = make();
	server_finish(fixture->server, S, on_done, fixture);
	advance(fixture, 1);
	assert_true(fixture->is_done);
	done(fixture);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_answers),
	    cmocka_unit_test(test_fields),
	    cmocka_unit_test(test_turns),
	    cmocka_unit_test(test_time_for_a_head),
	    cmocka_unit_test(test_time_for_an_answer),
	    cmocka_unit_test(test_too_many),
	    cmocka_unit_test(test_too_many_that_take_nothing),
	    cmocka_unit_test(test_held),
	    cmocka_unit_test(test_stream),
	    cmocka_unit_test(test_stalled_stream),
	    cmocka_unit_test(test_end_of_streams),
	    cmocka_unit_test(test_finish),
	    cmocka_unit_test(test_finish_at_once),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
