/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/wire/server_fixture.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "wire/arena.h"
#include "wire/listen.h"

enum { CHUNK = 10000 };

static void on_cancelled(void *context)
{
	struct fixture *fixture = context;
	fixture->held = NULL;
	fixture_note(fixture, "cancelled ");
}

static void hold(struct fixture *fixture, struct wire_call *call)
{
	fixture->held = call;
	wire_call_on_cancel(call, on_cancelled, fixture);
	fixture_note(fixture, "held ");
}

static char *groups_text(struct wire_call *call, struct err *err)
{
	gid_t *groups;
	size_t count;
	if (wire_call_peer_groups(call, &groups, &count, err) < 0)
		return NULL;
	char *text = arena_printf(wire_call_arena(call), "%zu groups:", count);
	for (size_t i = 0; i < count && text; i++)
		text = arena_printf(wire_call_arena(call), "%s %u", text, (unsigned)groups[i]);
	return text;
}

static void on_submit(struct wire_call *call, const ProtobufCMessage *message, void *context)
{
	struct fixture *fixture = context;
	const Sluice__V1__SubmitRequest *request = (const void *)message;
	Sluice__V1__SubmitReply reply = SLUICE__V1__SUBMIT_REPLY__INIT;
	struct err err = {0};
	if (strcmp(request->key, "hold") == 0) {
		hold(fixture, call);
		return;
	}
	if (strcmp(request->key, "free") == 0) {
		hold(fixture, call);
		fixture->server = wire_server_free(fixture->server);
		return;
	}
	if (strcmp(request->key, "fail") == 0) {
		(void)err_set(&err, -ENOENT, "no job 7 \xe2\x82\xac");
		wire_call_fail(call, &err);
		return;
	}
	const struct wire_peer *peer = wire_call_peer(call);
	reply.id = (uint64_t)peer->pid;
	reply.gpus = peer->uid;
	if (strcmp(request->key, "groups") == 0)
		reply.reason = groups_text(call, &err);
	if (!reply.reason || wire_call_reply(call, &reply.base, &err) < 0)
		wire_call_fail(call, &err);
}

/* `chunks` of them, as fast as they are taken. */
static void on_writable(void *context)
{
	static uint8_t bytes[CHUNK];
	struct fixture *fixture = context;
	Sluice__V1__LogChunk chunk = SLUICE__V1__LOG_CHUNK__INIT;
	chunk.data.data = bytes;
	chunk.data.len = sizeof(bytes);
	while (fixture->chunks_sent < fixture->chunks) {
		struct err err = {0};
		int rc = wire_call_reply(fixture->held, &chunk.base, &err);
		if (rc == -EAGAIN)
			return;
		if (rc < 0) {
			wire_call_fail(fixture->held, &err);
			return;
		}
		fixture->chunks_sent++;
	}
	wire_call_finish(fixture->held, WIRE_OK, NULL);
	fixture->held = NULL;
}

static void on_logs(struct wire_call *call, const ProtobufCMessage *message, void *context)
{
	hold(context, call);
	wire_call_on_writable(call, on_writable, context);
	on_writable(context);
}

static void on_upload_end(void *context)
{
	struct fixture *fixture = context;
	Sluice__V1__SubmitReply reply = SLUICE__V1__SUBMIT_REPLY__INIT;
	reply.id = fixture->received;
	if (wire_call_reply(fixture->held, &reply.base, NULL) < 0)
		wire_call_finish(fixture->held, WIRE_INTERNAL, "no reply");
	fixture->held = NULL;
}

static void on_upload(struct wire_call *call, const ProtobufCMessage *message, void *context)
{
	struct fixture *fixture = context;
	if (message) {
		fixture->received++;
		return;
	}
	hold(fixture, call);
	wire_call_on_end(call, on_upload_end, fixture);
}

const struct wire_method server_methods[] = {
    [METHOD_SUBMIT] = {.path = "/sluice.v1.Queue/Submit",
		       .request = &sluice__v1__submit_request__descriptor,
		       .reply = &sluice__v1__submit_reply__descriptor,
		       .handle = on_submit},
    [METHOD_LOGS] = {.path = "/sluice.v1.Queue/Logs",
		     .request = &sluice__v1__logs_request__descriptor,
		     .reply = &sluice__v1__log_chunk__descriptor,
		     .server_streams = true,
		     .handle = on_logs},
    [METHOD_UPLOAD] = {.path = "/test/Upload",
		       .request = &sluice__v1__log_chunk__descriptor,
		       .reply = &sluice__v1__submit_reply__descriptor,
		       .client_streams = true,
		       .handle = on_upload},
    [METHOD_SPARSE] = {.path = "/test/Sparse",
		       .request = &sluice__v1__logs_request__descriptor,
		       .reply = &sluice__v1__log_chunk__descriptor,
		       .output_max = 1,
		       .server_streams = true,
		       .handle = on_logs},
    [METHOD_MISSING] = {0},
};

void fixture_start(struct fixture *fixture, const struct wire_server_options *options)
{
	struct wire_server_options own = options ? *options : (struct wire_server_options){0};
	own.methods = server_methods;
	own.context = fixture;
	fixture->server = wire_server_free(fixture->server);
	(void)unlink(fixture->path);
	fixture->server = wire_server_new(fixture->loop, &own, NULL);
	assert_non_null(fixture->server);
	int fd = wire_listen_unix(fixture->path, 0600, NULL);
	assert_true(fd >= 0);
	assert_int_equal(wire_server_add_listener(fixture->server, fd, NULL), 0);
}

int fixture_set_up(void **state)
{
	static struct fixture fixture;
	fixture = (struct fixture){.directory = unit_tmp_new()};
	buf_init(&fixture.trace, 1 << 20);
	(void)snprintf(fixture.path, sizeof(fixture.path), "%s/socket", fixture.directory);
	fixture.loop = loop_new(LOOP_FAKE, NULL);
	*state = &fixture;
	assert_non_null(fixture.loop);
	return 0;
}

int fixture_tear_down(void **state)
{
	struct fixture *fixture = *state;
	fixture->server = wire_server_free(fixture->server);
	fixture->loop = loop_free(fixture->loop);
	buf_done(&fixture->trace);
	fixture->directory = unit_tmp_free(fixture->directory);
	return 0;
}

void fixture_note(struct fixture *fixture, const char *text)
{
	assert_int_equal(buf_add_text(&fixture->trace, text), 0);
}

struct wire_server_counts fixture_counts(const struct fixture *fixture)
{
	struct wire_server_counts counts;
	wire_server_count(fixture->server, &counts);
	return counts;
}

void fixture_run(struct fixture *fixture, bool (*done)(void *context), void *context)
{
	/* With an allocation that fails, what a test waits for may never come. */
	uint64_t limit = getenv("FAILMALLOC_AT") ? CLOCK_NS_PER_S / 5 : DEADLINE_S * CLOCK_NS_PER_S;
	uint64_t deadline = unit_now_ns() + limit;
	while (!done(context)) {
		if (unit_now_ns() > deadline)
			fail_msg("not within %d s; trace: %s", DEADLINE_S,
				 buf_text(&fixture->trace));
		assert_int_equal(loop_pass(fixture->loop, CLOCK_NS_PER_MS, NULL), 0);
	}
}

struct wanted {
	struct fixture *fixture;
	const char *trace;
};

static bool has_trace(void *context)
{
	const struct wanted *wanted = context;
	return strstr(buf_text(&wanted->fixture->trace), wanted->trace) != NULL;
}

void fixture_run_until(struct fixture *fixture, const char *trace)
{
	struct wanted wanted = {fixture, trace};
	fixture_run(fixture, has_trace, &wanted);
}

void fixture_advance(struct fixture *fixture, uint64_t ns)
{
	assert_int_equal(loop_advance(fixture->loop, ns, NULL), 0);
}

/* --- the peer made by hand --- */

void peer_connect(struct peer *peer, struct fixture *fixture)
{
	struct sockaddr_un address;
	*peer = (struct peer){.fd = -1};
	raw_init(&peer->raw);
	int directory = -1;
	assert_int_equal(wire_unix_address(fixture->path, &address, &directory, NULL), 0);
	peer->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	assert_true(peer->fd >= 0);
	assert_int_equal(connect(peer->fd, (const struct sockaddr *)&address, sizeof(address)), 0);
	if (directory >= 0)
		(void)close(directory);
}

void peer_done(struct peer *peer)
{
	if (peer->fd >= 0)
		(void)close(peer->fd);
	raw_done(&peer->raw);
}

void peer_send(struct peer *peer)
{
	struct buf *out = &peer->raw.out;
	ssize_t sent = send(peer->fd, out->data, out->length, MSG_NOSIGNAL);
	if (sent > 0)
		buf_consume(out, (size_t)sent);
}

void peer_receive(struct peer *peer)
{
	uint8_t data[4096];
	for (;;) {
		ssize_t length = recv(peer->fd, data, sizeof(data), 0);
		if (length < 0 && errno == EAGAIN)
			return;
		if (length <= 0) {
			peer->closed = true;
			return;
		}
		raw_read(&peer->raw, data, (size_t)length);
	}
}

struct expected {
	struct peer *peer;
	const char *text; /* NULL: that it is closed */
};

static bool is_expected(void *context)
{
	const struct expected *expected = context;
	if (expected->peer->raw.out.length > 0)
		peer_send(expected->peer);
	peer_receive(expected->peer);
	return expected->text ? raw_saw(&expected->peer->raw, expected->text)
			      : expected->peer->closed;
}

void peer_expect(struct peer *peer, struct fixture *fixture, const char *text)
{
	struct expected expected = {peer, text};
	fixture_run(fixture, is_expected, &expected);
}

void peer_expect_closed(struct peer *peer, struct fixture *fixture)
{
	peer_expect(peer, fixture, NULL);
}

void peer_submit(struct peer *peer, int32_t id, const char *key, const char *timeout)
{
	char text[64];
	(void)snprintf(text, sizeof(text), "%s", key);
	const struct raw_field fields[] = {{":method", "POST"},
					   {":path", "/sluice.v1.Queue/Submit"},
					   {"content-type", "application/grpc"},
					   {timeout ? "grpc-timeout" : NULL, timeout},
					   {NULL, NULL}};
	Sluice__V1__SubmitRequest request = SLUICE__V1__SUBMIT_REQUEST__INIT;
	request.key = text;
	raw_headers(&peer->raw, RAW_END_HEADERS, id, fields);
	raw_message(&peer->raw, RAW_END_STREAM, id, &request.base);
}
