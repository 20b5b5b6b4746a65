/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The service of peer.proto on our gRPC layer, for clients in other languages.
 *
 *   grpc-peer-server SOCKET [--wrong]
 *
 * Prints "ready" when it listens. SIGTERM: finishes the running calls, then exit 0. With --wrong it
 * gives wrong answers, to see that the clients notice.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/loop.h"
#include "conformance/grpc/peer.h"
#include "peer.pb-c.h"
#include "wire/arena.h"
#include "wire/server.h"

enum server_limits {
	SERVER_RECEIVE_MAX = 4100000, /* as the other servers; the clients know it */
	SERVER_BLOB_MAX = 3 << 20,
	SERVER_SHUTDOWN_SECONDS = 30,
};

struct server {
	struct loop *loop;
	struct wire_server *wire;
	uint32_t running, cancelled;
	bool wrong;
};

/* A call that takes longer than its handler. In its own arena. */
struct work {
	struct server *server;
	struct wire_call *call;
	struct loop_timer *timer; /* Slow */
	uint32_t next, count;	  /* Count */
	Peer__V1__Blob blob;	  /* Count */
	int64_t sum;		  /* Sum */
};

static void server_reply(struct wire_call *call, const ProtobufCMessage *reply)
{
	struct err err = {0};
	if (wire_call_reply(call, reply, &err) < 0)
		wire_call_fail(call, &err);
}

static void server_say(struct wire_call *call, const ProtobufCMessage *request, void *context)
{
	struct server *server = context;
	Peer__V1__Text reply = *(const Peer__V1__Text *)request;
	if (server->wrong)
		reply.text = (char[]){"something else"};
	server_reply(call, &reply.base);
}

static void server_echo(struct wire_call *call, const ProtobufCMessage *request, void *context)
{
	struct server *server = context;
	Peer__V1__Blob reply = *(const Peer__V1__Blob *)request;
	if (server->wrong && reply.data.len > 0)
		reply.data.len--;
	server_reply(call, &reply.base);
}

/* NULL: the call was ended. */
static struct work *server_work(struct server *server, struct wire_call *call)
{
	struct work *work = arena_alloc(wire_call_arena(call), sizeof(*work));
	if (!work) {
		wire_call_finish(call, WIRE_RESOURCE_EXHAUSTED, "no memory for the call");
		return NULL;
	}
	work->server = server;
	work->call = call;
	return work;
}

static void server_is_over(void *context)
{
	struct work *work = context;
	work->server->running--;
	work->timer = loop_timer_free(work->timer);
}

static void server_cancelled(void *context)
{
	struct work *work = context;
	work->server->cancelled++;
	server_is_over(work);
}

static void server_count_more(void *context)
{
	struct work *work = context;
	for (; work->next < work->count; work->next++) {
		struct err err = {0};
		work->blob.index = work->next;
		int rc = wire_call_reply(work->call, &work->blob.base, &err);
		if (rc == -EAGAIN)
			return; /* called again when there is room */
		if (rc < 0) {
			server_is_over(work);
			wire_call_fail(work->call, &err);
			return;
		}
	}
	server_is_over(work);
	wire_call_finish(work->call, WIRE_OK, NULL);
}

static void server_count(struct wire_call *call, const ProtobufCMessage *request, void *context)
{
	struct server *server = context;
	const Peer__V1__CountRequest *wanted = (const Peer__V1__CountRequest *)request;
	struct work *work = server_work(server, call);
	if (!work)
		return;
	peer__v1__blob__init(&work->blob);
	work->blob.data.len = wanted->size;
	if (wanted->size <= SERVER_BLOB_MAX)
		work->blob.data.data = arena_alloc(wire_call_arena(call), wanted->size);
	if (!work->blob.data.data) {
		wire_call_finish(call, WIRE_RESOURCE_EXHAUSTED, "the messages would be too large");
		return;
	}
	work->count = server->wrong && wanted->count > 0 ? wanted->count - 1 : wanted->count;
	server->running++;
	wire_call_on_cancel(call, server_cancelled, work);
	wire_call_on_writable(call, server_count_more, work);
	server_count_more(work);
}

static void server_sum_ended(void *context)
{
	struct work *work = context;
	Peer__V1__Number reply = PEER__V1__NUMBER__INIT;
	reply.value = work->sum + work->server->wrong;
	server_reply(work->call, &reply.base);
}

static void server_sum(struct wire_call *call, const ProtobufCMessage *request, void *context)
{
	struct work *work = wire_call_data(call);
	if (!work) {
		work = server_work(context, call);
		if (!work)
			return;
		wire_call_set_data(call, work);
		wire_call_on_end(call, server_sum_ended, work);
	}
	if (request)
		work->sum += ((const Peer__V1__Number *)request)->value;
}

static void server_chat_ended(void *context)
{
	struct work *work = context;
	wire_call_finish(work->call, WIRE_OK, NULL);
}

static void server_chat(struct wire_call *call, const ProtobufCMessage *request, void *context)
{
	struct server *server = context;
	if (!request) {
		struct work *work = server_work(server, call);
		if (work)
			wire_call_on_end(call, server_chat_ended, work);
		return;
	}
	Peer__V1__Text reply = *(const Peer__V1__Text *)request;
	if (server->wrong)
		reply.text = (char[]){"something else"};
	server_reply(call, &reply.base);
}

static void server_fail(struct wire_call *call, const ProtobufCMessage *request, void *context)
{
	struct server *server = context;
	const Peer__V1__FailRequest *wanted = (const Peer__V1__FailRequest *)request;
	for (uint32_t i = 0; i < wanted->after; i++) {
		Peer__V1__Text reply = PEER__V1__TEXT__INIT;
		reply.text = (char[]){"before"};
		struct err err = {0};
		if (wire_call_reply(call, &reply.base, &err) < 0) {
			wire_call_fail(call, &err);
			return;
		}
	}
	wire_call_finish(call, (enum wire_status)(wanted->code + server->wrong), wanted->message);
}

static void server_slow_done(void *context)
{
	struct work *work = context;
	Peer__V1__Text reply = PEER__V1__TEXT__INIT;
	reply.text = work->server->wrong ? (char[]){"never"} : (char[]){"at last"};
	server_is_over(work);
	server_reply(work->call, &reply.base);
}

static void server_slow(struct wire_call *call, const ProtobufCMessage *request, void *context)
{
	struct server *server = context;
	const Peer__V1__SlowRequest *wanted = (const Peer__V1__SlowRequest *)request;
	struct err err = {0};
	struct work *work = server_work(server, call);
	if (!work)
		return;
	work->timer = loop_timer_new(server->loop, server_slow_done, work, &err);
	if (!work->timer) {
		wire_call_fail(call, &err);
		return;
	}
	server->running++;
	wire_call_on_cancel(call, server_cancelled, work);
	loop_timer_start(work->timer, wanted->milliseconds * 1000000ull);
}

static void server_facts(struct wire_call *call, const ProtobufCMessage *request, void *context)
{
	struct server *server = context;
	Peer__V1__FactsReply reply = PEER__V1__FACTS_REPLY__INIT;
	reply.running = server->running;
	reply.cancelled = server->cancelled;
	server_reply(call, &reply.base);
}

static void server_ended(void *context)
{
	struct server *server = context;
	loop_stop(server->loop);
}

static void server_terminate(void *context)
{
	struct server *server = context;
	wire_server_shutdown(server->wire, SERVER_SHUTDOWN_SECONDS * 1000000000ull, server_ended,
			     server);
}

static int server_start(struct server *server, const char *path, struct wire_method *methods,
			struct err *err)
{
	server->loop = loop_new(LOOP_REAL, err);
	if (!server->loop)
		return err_wrap(err, "making the loop");
	struct wire_server_options options = {.methods = methods, .context = server};
	server->wire = wire_server_new(server->loop, &options, err);
	if (!server->wire)
		return err_wrap(err, "making the server");
	int fd = wire_listen_unix(path, 0600, err);
	if (fd < 0)
		return fd;
	return wire_server_add_listener(server->wire, fd, err);
}

int main(int argc, char **argv)
{
	if (argc < 2 || argc > 3) {
		fprintf(stderr, "usage: %s SOCKET [--wrong]\n", argv[0]);
		return 64;
	}
	struct wire_method methods[PEER_METHODS + 1];
	peer_methods(methods);
	methods[PEER_SAY].handle = server_say;
	methods[PEER_ECHO].handle = server_echo;
	methods[PEER_ECHO].request_max = SERVER_RECEIVE_MAX;
	methods[PEER_COUNT].handle = server_count;
	methods[PEER_SUM].handle = server_sum;
	methods[PEER_CHAT].handle = server_chat;
	methods[PEER_FAIL].handle = server_fail;
	methods[PEER_FAIL_LATE].handle = server_fail;
	methods[PEER_SLOW].handle = server_slow;
	methods[PEER_FACTS].handle = server_facts;

	struct server server = {.wrong = argc == 3 && strcmp(argv[2], "--wrong") == 0};
	struct err err = {0};
	struct loop_signal *terminated = NULL;
	int rc = server_start(&server, argv[1], methods, &err);
	if (rc == 0) {
		terminated = loop_signal_new(server.loop, SIGTERM, server_terminate, &server, &err);
		rc = terminated ? 0 : err.code;
	}
	if (rc == 0) {
		printf("ready\n");
		fflush(stdout);
		rc = loop_run(server.loop, &err);
	}
	if (rc < 0)
		fprintf(stderr, "grpc-peer-server: %s\n", err.text);
	loop_signal_free(terminated);
	wire_server_free(server.wire);
	loop_free(server.loop);
	return rc < 0;
}
