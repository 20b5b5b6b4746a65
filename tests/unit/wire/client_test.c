/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/client.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "unit/wire/server_fixture.h"

/* What a client under test is told, in the trace of the fixture. */
struct user {
	struct fixture *fixture;
	struct wire_client *client;
	struct wire_client_call *call; /* the last one; NULL: ended */
	size_t messages;
	bool free_in_end;
};

static void on_message(const ProtobufCMessage *reply, void *context)
{
	struct user *user = context;
	user->messages++;
}

static void on_end(const struct wire_result *result, void *context)
{
	struct user *user = context;
	char text[2048];
	user->call = NULL;
	(void)snprintf(text, sizeof(text), "end:%s:%d(%s) ", wire_status_to_string(result->status),
		       result->code, result->message);
	fixture_note(user->fixture, text);
	if (user->free_in_end)
		user->client = wire_client_free(user->client);
}

static void on_closed(const struct err *why, void *context)
{
	struct user *user = context;
	char text[600];
	(void)snprintf(text, sizeof(text), "closed:%d ", why->code);
	fixture_note(user->fixture, text);
}

static void user_connect(struct user *user, struct fixture *fixture, uint64_t connect_ns)
{
	*user = (struct user){.fixture = fixture};
	struct wire_client_options options = {
	    .closed = on_closed, .context = user, .connect_ns = connect_ns};
	user->client = wire_client_new(fixture->loop, fixture->path, &options, NULL);
	assert_non_null(user->client);
}

static void user_submit(struct user *user, const char *key, uint64_t deadline_ns)
{
	char text[64];
	(void)snprintf(text, sizeof(text), "%s", key);
	Sluice__V1__SubmitRequest request = SLUICE__V1__SUBMIT_REQUEST__INIT;
	request.key = text;
	const struct wire_client_callbacks callbacks = {on_message, on_end, user};
	user->call = wire_client_call(user->client, &server_methods[METHOD_SUBMIT], &request.base,
				      deadline_ns, &callbacks, NULL);
	assert_non_null(user->call);
}

static void user_logs(struct user *user)
{
	Sluice__V1__LogsRequest request = SLUICE__V1__LOGS_REQUEST__INIT;
	const struct wire_client_callbacks callbacks = {on_message, on_end, user};
	user->call = wire_client_call(user->client, &server_methods[METHOD_LOGS], &request.base, 0,
				      &callbacks, NULL);
	assert_non_null(user->call);
}

static void test_unary_call(void **state)
{
	struct fixture *fixture = *state;
	static struct user user; /* outlives a case that fails */
	fixture_start(fixture, NULL);
	user_connect(&user, fixture, 0);
	user_submit(&user, "a", 0);
	user_submit(&user, "b", CLOCK_NS_PER_S);
	fixture_run_until(fixture, "end:OK:0() end:OK:0() ");
	assert_int_equal(user.messages, 2);
	user_submit(&user, "fail", CLOCK_NS_PER_S);
	fixture_run_until(fixture, "end:NOT_FOUND:0(no job 7 \xe2\x82\xac) ");
	struct wire_peer peer;
	assert_int_equal(wire_client_peer(user.client, &peer, NULL), 0);
	assert_int_equal(peer.pid, getpid());
	user.client = wire_client_free(user.client);
}

static void test_a_long_stream(void **state)
{
	struct fixture *fixture = *state;
	static struct user user; /* outlives a case that fails */
	fixture->chunks = 500;	 /* 5 MB: many windows and output caps */
	fixture_start(fixture, NULL);
	user_connect(&user, fixture, 0);
	user_logs(&user);
	fixture_run_until(fixture, "end:OK");
	assert_int_equal(user.messages, 500);
	user.client = wire_client_free(user.client);
}

static void test_trap_6_own_deadline(void **state)
{
	struct fixture *fixture = *state;
	static struct user user; /* outlives a case that fails */
	fixture_start(fixture, NULL);
	/* A server that says nothing: one that only listens. */
	fixture->server = wire_server_free(fixture->server);
	int fd = wire_listen_unix(fixture->path, 0600, NULL);
	assert_true(fd >= 0);
	user_connect(&user, fixture, 0);
	user_submit(&user, "a", 2 * CLOCK_NS_PER_S);
	fixture_advance(fixture, 2 * CLOCK_NS_PER_S - 1);
	assert_string_equal(buf_text(&fixture->trace), "");
	fixture_advance(fixture, 1);
	assert_string_equal(buf_text(&fixture->trace),
			    "end:DEADLINE_EXCEEDED:-110(no answer to '/sluice.v1.Queue/Submit' in "
			    "time) ");
	/* And it never becomes a connection. */
	user_submit(&user, "a", 0);
	fixture_advance(fixture, 3 * CLOCK_NS_PER_S);
	assert_non_null(strstr(buf_text(&fixture->trace), "end:UNAVAILABLE:-104"));
	assert_non_null(strstr(buf_text(&fixture->trace), "nobody answers) closed:-110 "));
	user.client = wire_client_free(user.client);
	(void)close(fd);
}

static void test_the_server_hears_of_the_deadline(void **state)
{
	struct fixture *fixture = *state;
	static struct user user; /* outlives a case that fails */
	fixture_start(fixture, NULL);
	user_connect(&user, fixture, 0);
	user_submit(&user, "hold", CLOCK_NS_PER_S);
	fixture_run_until(fixture, "held ");
	fixture_advance(fixture, CLOCK_NS_PER_S);
	fixture_run_until(fixture, "cancelled ");
	fixture_run_until(fixture, "end:DEADLINE_EXCEEDED");
	user.client = wire_client_free(user.client);
}

static void test_cancel(void **state)
{
	struct fixture *fixture = *state;
	static struct user user; /* outlives a case that fails */
	fixture_start(fixture, NULL);
	user_connect(&user, fixture, 0);
	user_submit(&user, "hold", 0);
	fixture_run_until(fixture, "held ");
	wire_client_cancel(user.call);
	fixture_run_until(fixture, "cancelled ");
	user_submit(&user, "hold", CLOCK_NS_PER_S);
	wire_client_cancel(user.call); /* before anything was sent */
	user_submit(&user, "a", 0);
	fixture_run_until(fixture, "end:OK");
	assert_string_equal(buf_text(&fixture->trace), "held cancelled end:OK:0() ");
	user.client = wire_client_free(user.client);
}

static void test_lost_connection(void **state)
{
	struct fixture *fixture = *state;
	static struct user user; /* outlives a case that fails */
	fixture_start(fixture, NULL);
	user_connect(&user, fixture, 0);
	user_submit(&user, "hold", CLOCK_NS_PER_S);
	fixture_run_until(fixture, "held ");
	fixture->server = wire_server_free(fixture->server);
	fixture_run_until(fixture, "closed:-104 ");
	assert_non_null(strstr(buf_text(&fixture->trace), "end:UNAVAILABLE:-104('"));
	struct err err = {0};
	Sluice__V1__LogsRequest request = SLUICE__V1__LOGS_REQUEST__INIT;
	const struct wire_client_callbacks callbacks = {NULL, NULL, NULL};
	assert_null(wire_client_call(user.client, &server_methods[METHOD_LOGS], &request.base, 0,
				     &callbacks, &err));
	assert_int_equal(err.code, -ENOTCONN);
	struct wire_peer peer;
	assert_int_equal(wire_client_peer(user.client, &peer, NULL), -ENOTCONN);
	user.client = wire_client_free(user.client);
}

static void test_goaway(void **state)
{
	struct fixture *fixture = *state;
	static struct user user; /* outlives a case that fails */
	fixture_start(fixture, NULL);
	user_connect(&user, fixture, 0);
	user_submit(&user, "hold", 0);
	fixture_run_until(fixture, "held ");
	wire_server_shutdown(fixture->server, 10 * CLOCK_NS_PER_S, NULL, NULL);
	for (int i = 0; i < 4; i++)
		assert_int_equal(loop_pass(fixture->loop, CLOCK_NS_PER_MS, NULL), 0);
	user_submit(&user, "a", 0);
	fixture_run_until(fixture, "end:UNAVAILABLE:-104(the server takes no more calls");
	assert_non_null(fixture->held);
	Sluice__V1__SubmitReply reply = SLUICE__V1__SUBMIT_REPLY__INIT;
	assert_int_equal(wire_call_reply(fixture->held, &reply.base, NULL), 0);
	fixture_run_until(fixture, "end:OK:0() closed:-104 ");
	user.client = wire_client_free(user.client);
}

static void test_trap_4_freed_in_its_own_callback(void **state)
{
	struct fixture *fixture = *state;
	static struct user user; /* outlives a case that fails */
	fixture_start(fixture, NULL);
	user_connect(&user, fixture, 0);
	user_submit(&user, "a", CLOCK_NS_PER_S);
	user_submit(&user, "b", CLOCK_NS_PER_S); /* ends without a word */
	user.free_in_end = true;
	fixture_run_until(fixture, "end:OK:0() ");
	for (int i = 0; i < 4; i++)
		assert_int_equal(loop_pass(fixture->loop, CLOCK_NS_PER_MS, NULL), 0);
	assert_string_equal(buf_text(&fixture->trace), "end:OK:0() ");
	assert_null(user.client);
	/* the same when the connection is lost with several calls */
	user_connect(&user, fixture, 0);
	user_submit(&user, "hold", 0);
	user_submit(&user, "hold", 0);
	fixture_run_until(fixture, "held held ");
	user.free_in_end = true;
	fixture->server = wire_server_free(fixture->server);
	fixture_run_until(fixture, "end:UNAVAILABLE");
	assert_null(strstr(buf_text(&fixture->trace), "closed:"));
}

/* More clients than the queue of the listener takes: they come in as it is emptied. */
static void test_full_backlog(void **state)
{
	struct fixture *fixture = *state;
	static struct user users[8];
	fixture_start(fixture, NULL);
	fixture->server = wire_server_free(fixture->server);
	(void)unlink(fixture->path);
	int fd = wire_listen_unix(fixture->path, 0600, NULL);
	assert_true(fd >= 0);
	assert_int_equal(listen(fd, 1), 0);
	for (int i = 0; i < 8; i++) {
		user_connect(&users[i], fixture, 0);
		user_submit(&users[i], "a", 0);
	}
	struct wire_server_options options = {.methods = server_methods, .context = fixture};
	fixture->server = wire_server_new(fixture->loop, &options, NULL);
	assert_non_null(fixture->server);
	assert_int_equal(wire_server_add_listener(fixture->server, fd, NULL), 0);
	for (int i = 0; i < 100; i++)
		fixture_advance(fixture, 10 * CLOCK_NS_PER_MS);
	for (int i = 0; i < 8; i++) {
		assert_int_equal(users[i].messages, 1);
		users[i].client = wire_client_free(users[i].client);
	}
}

static void test_nobody_there(void **state)
{
	struct fixture *fixture = *state;
	struct err err = {0};
	assert_null(wire_client_new(fixture->loop, fixture->path, NULL, &err));
	assert_int_equal(err.code, -ENOENT);
	assert_non_null(strstr(err.text, fixture->path));
	fixture_start(fixture, NULL);
	fixture->server = wire_server_free(fixture->server);
	assert_null(wire_client_new(fixture->loop, fixture->path, NULL, &err));
	assert_int_equal(err.code, -ECONNREFUSED);
	char path[300];
	memset(path, 'x', sizeof(path));
	path[sizeof(path) - 1] = '\0';
	assert_null(wire_client_new(fixture->loop, path, NULL, &err));
	assert_int_equal(err.code, -ENAMETOOLONG);
}

static void test_ask(void **state)
{
	struct fixture *fixture = *state;
	struct wire_result result;
	struct err err = {0};
	fixture_start(fixture, NULL);
	struct wire_client *client = wire_client_new(fixture->loop, fixture->path, NULL, NULL);
	assert_non_null(client);
	char key[] = "a", fail[] = "fail", hold[] = "hold";
	Sluice__V1__SubmitRequest request = SLUICE__V1__SUBMIT_REQUEST__INIT;
	request.key = key;
	ProtobufCMessage *message = NULL;
	const struct wire_method *method = &server_methods[METHOD_SUBMIT];
	assert_int_equal(wire_client_ask(client, fixture->loop, method, &request.base, 0, &message,
					 &result, &err),
			 0);
	assert_int_equal(((Sluice__V1__SubmitReply *)message)->id, getpid());
	protobuf_c_message_free_unpacked(message, NULL);

	request.key = fail;
	message = NULL;
	assert_int_equal(wire_client_ask(client, fixture->loop, method, &request.base, 0, &message,
					 &result, &err),
			 -EREMOTEIO);
	assert_int_equal(result.status, WIRE_NOT_FOUND);
	assert_string_equal(err.text, "no job 7 \xe2\x82\xac");
	assert_null(message);
	client = wire_client_free(client);

	/* A clock that goes: the answer never comes. */
	struct loop *loop = loop_new(LOOP_REAL, NULL);
	assert_non_null(loop);
	request.key = hold;
	client = wire_client_new(loop, fixture->path, NULL, NULL);
	int rc = client ? wire_client_ask(client, loop, method, &request.base, 2 * CLOCK_NS_PER_MS,
					  &message, &result, &err)
			: -ENOMEM;
	client = wire_client_free(client);
	loop = loop_free(loop);
	assert_int_equal(rc, -ETIMEDOUT);
	assert_int_equal(result.status, WIRE_DEADLINE_EXCEEDED);
}

/* A server made by hand that answers with nothing but its own SETTINGS and then garbage. */
static void test_a_server_that_breaks_the_rules(void **state)
{
	struct fixture *fixture = *state;
	static struct user user; /* outlives a case that fails */
	struct raw raw;
	int fd = wire_listen_unix(fixture->path, 0600, NULL);
	assert_true(fd >= 0);
	user_connect(&user, fixture, 0);
	user_submit(&user, "a", 0);
	_cleanup_close_ int connected = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
	assert_true(connected >= 0);
	raw_init(&raw);
	raw_frame(&raw, NGHTTP2_SETTINGS, 0, 0, "", 0);
	raw_frame(&raw, NGHTTP2_HEADERS, RAW_END_HEADERS, 1, "\xff\xff\xff\xff\xff\xff", 6);
	assert_int_equal(write(connected, raw.out.data, raw.out.length), raw.out.length);
	raw_done(&raw);
	fixture_run_until(fixture, "closed:");
	assert_non_null(strstr(buf_text(&fixture->trace), "end:UNAVAILABLE:-104("));
	user.client = wire_client_free(user.client);
	(void)close(fd);
}

#define fixture_test(name) cmocka_unit_test_setup_teardown(name, fixture_set_up, fixture_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    fixture_test(test_unary_call),
	    fixture_test(test_a_long_stream),
	    fixture_test(test_trap_6_own_deadline),
	    fixture_test(test_the_server_hears_of_the_deadline),
	    fixture_test(test_cancel),
	    fixture_test(test_lost_connection),
	    fixture_test(test_goaway),
	    fixture_test(test_trap_4_freed_in_its_own_callback),
	    fixture_test(test_full_backlog),
	    fixture_test(test_nobody_there),
	    fixture_test(test_ask),
	    fixture_test(test_a_server_that_breaks_the_rules),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
