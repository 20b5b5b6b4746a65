/* SPDX-License-Identifier: Apache-2.0 */
/* A server and a client of ours on a real unix socket, in one loop. */
#include "wire/server.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/loop.h"
#include "sluice.pb-c.h"
#include "unit/failmalloc.h"
#include "unit/unit.h"
#include "wire/arena.h"
#include "wire/client.h"

enum { DEADLINE_S = 10 };

struct fixture {
	char *directory;
	const char *path;
	struct loop *loop;
	struct wire_server *server;
	struct wire_client *client;
};

static void on_submit(struct wire_call *call, const ProtobufCMessage *message, void *context)
{
	const Sluice__V1__SubmitRequest *request = (const void *)message;
	Sluice__V1__SubmitReply reply = SLUICE__V1__SUBMIT_REPLY__INIT;
	reply.id = 17;
	reply.reason = arena_printf(wire_call_arena(call), "key %s of %u", request->key,
				    (unsigned)wire_call_peer(call)->uid);
	struct err err = {0};
	if (wire_call_reply(call, &reply.base, &err) < 0)
		wire_call_fail(call, &err);
}

static const struct wire_method methods[] = {
    {.path = "/sluice.v1.Queue/Submit",
     .request = &sluice__v1__submit_request__descriptor,
     .reply = &sluice__v1__submit_reply__descriptor,
     .handle = on_submit},
    {0},
};

static int set_up(void **state)
{
	static struct fixture fixture;
	fixture = (struct fixture){.directory = unit_tmp_new()};
	fixture.path = unit_path(fixture.directory, "socket");
	fixture.loop = loop_new(LOOP_FAKE, NULL);
	assert_non_null(fixture.loop);
	struct wire_server_options options = {.methods = methods, .context = &fixture};
	fixture.server = wire_server_new(fixture.loop, &options, NULL);
	assert_non_null(fixture.server);
	int fd = wire_listen_unix(fixture.path, 0600, NULL);
	assert_true(fd >= 0);
	assert_int_equal(wire_server_add_listener(fixture.server, fd, NULL), 0);
	fixture.client = wire_client_new(fixture.loop, fixture.path, NULL, NULL);
	assert_non_null(fixture.client);
	*state = &fixture;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *fixture = *state;
	fixture->client = wire_client_free(fixture->client);
	fixture->server = wire_server_free(fixture->server);
	fixture->loop = loop_free(fixture->loop);
	fixture->directory = unit_tmp_free(fixture->directory);
	return 0;
}

static void test_unary_call(void **state)
{
	struct fixture *fixture = *state;
	Sluice__V1__SubmitRequest request = SLUICE__V1__SUBMIT_REQUEST__INIT;
	char key[] = "abc";
	request.key = key;
	ProtobufCMessage *message = NULL;
	struct wire_result result;
	struct err err = {0};
	for (int i = 0; i < 3; i++) {
		int rc = wire_client_ask(fixture->client, fixture->loop, &methods[0], &request.base,
					 0, &message, &result, &err);
		assert_string_equal(err.text, "");
		assert_int_equal(rc, 0);
		const Sluice__V1__SubmitReply *reply = (const void *)message;
		assert_int_equal(reply->id, 17);
		assert_memory_equal(reply->reason, "key abc of ", 11);
		protobuf_c_message_free_unpacked(message, NULL);
	}
	struct wire_server_counts counts;
	wire_server_count(fixture->server, &counts);
	assert_int_equal(counts.calls, 3);
	assert_int_equal(counts.open_calls, 0);
	assert_int_equal(counts.open_connections, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_unary_call, set_up, tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
