/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Our gRPC client against a server of peer.proto in another language.
 *
 *   grpc-peer-client SOCKET SERVER-PID
 *
 * Prints "ok NAME" or "FAIL NAME: why" for each case. The last one sends the server SIGTERM.
 */
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/loop.h"
#include "base/parse.h"
#include "conformance/grpc/peer.h"
#include "peer.pb-c.h"
#include "wire/client.h"
#include "wire/message.h"

#define MS     1000000ull
#define SECOND (1000 * MS)

enum client_limits {
	CLIENT_PARALLEL = 300,
	CLIENT_COUNT = 1000,
	CLIENT_PATH_MAX = 108,
};

static const char umlauts[] = "Gr\xc3\xbc\xc3\x9f"
			      "e, \xe4\xb8\x96\xe7\x95\x8c \xf0\x9f\x98\x80";

struct client {
	struct loop *loop;
	struct wire_client *wire;
	struct wire_method methods[PEER_METHODS + 1];
	const char *path;
	pid_t server;
	bool closed;
	char problem[512]; /* of this case; "": none */
};

static void client_problem(struct client *client, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Only the first counts: the others usually follow from it. */
static void client_problem(struct client *client, const char *format, ...)
{
	if (client->problem[0])
		return;
	va_list arguments;
	va_start(arguments, format);
	(void)vsnprintf(client->problem, sizeof(client->problem), format, arguments);
	va_end(arguments);
}

static void client_closed(const struct err *why, void *context)
{
	struct client *client = context;
	client->closed = true;
}

static bool client_connect(struct client *client, const char *path, size_t reply_max)
{
	struct err err = {0};
	struct wire_client_options options = {
	    .reply_max = reply_max, .closed = client_closed, .context = client};
	client->closed = false;
	client->wire = wire_client_new(client->loop, path, &options, &err);
	if (!client->wire)
		client_problem(client, "cannot connect: %s", err.text);
	return client->wire;
}

/* A unary call. The reply, for protobuf_c_message_free_unpacked(), or NULL and what it ended with.
 */
static ProtobufCMessage *client_ask(struct client *client, enum peer_method method,
				    const ProtobufCMessage *request, uint64_t deadline_ns,
				    struct wire_result *out)
{
	struct err err = {0};
	ProtobufCMessage *reply = NULL;
	*out = (struct wire_result){.status = WIRE_UNKNOWN};
	int rc = wire_client_ask(client->wire, client->loop, &client->methods[method], request,
				 deadline_ns, &reply, out, &err);
	if (rc == 0)
		return reply;
	if (out->message[0] == '\0')
		(void)snprintf(out->message, sizeof(out->message), "%s", err.text);
	return NULL;
}

static void expect_status(struct client *client, const struct wire_result *result,
			  enum wire_status wanted)
{
	if (result->status != wanted)
		client_problem(client, "%s (%s) instead of %s",
			       wire_status_to_string(result->status), result->message,
			       wire_status_to_string(wanted));
}

static void expect_say(struct client *client, char *text)
{
	Peer__V1__Text request = PEER__V1__TEXT__INIT;
	request.text = text;
	struct wire_result result;
	ProtobufCMessage *reply = client_ask(client, PEER_SAY, &request.base, 10 * SECOND, &result);
	expect_status(client, &result, WIRE_OK);
	if (reply && strcmp(((Peer__V1__Text *)reply)->text, text) != 0)
		client_problem(client, "said '%s', heard '%s'", text,
			       ((Peer__V1__Text *)reply)->text);
	protobuf_c_message_free_unpacked(reply, NULL);
}

/* --- calls that go on while others do --- */

struct watch {
	struct client *client;
	struct wire_client_call *call;
	const char *text; /* that every reply should have; NULL: any */
	uint32_t messages;
	bool in_order, over;
	struct wire_result result;
};

static void watch_message(const ProtobufCMessage *reply, void *context)
{
	struct watch *watch = context;
	if (reply->descriptor == &peer__v1__blob__descriptor)
		watch->in_order &= ((const Peer__V1__Blob *)reply)->index == watch->messages;
	else if (watch->text && reply->descriptor == &peer__v1__text__descriptor &&
		 strcmp(((const Peer__V1__Text *)reply)->text, watch->text) != 0)
		client_problem(watch->client, "heard '%s' instead of '%s'",
			       ((const Peer__V1__Text *)reply)->text, watch->text);
	watch->messages++;
}

static void watch_end(const struct wire_result *result, void *context)
{
	struct watch *watch = context;
	watch->result = *result;
	watch->over = true;
}

static bool watch_start(struct watch *watch, struct client *client,
			const struct wire_method *method, const ProtobufCMessage *request,
			uint64_t deadline_ns)
{
	*watch = (struct watch){.client = client, .in_order = true};
	struct err err = {0};
	struct wire_client_callbacks callbacks = {
	    .message = watch_message, .end = watch_end, .context = watch};
	watch->call =
	    wire_client_call(client->wire, method, request, deadline_ns, &callbacks, &err);
	if (!watch->call)
		client_problem(client, "cannot call: %s", err.text);
	return watch->call;
}

static bool is_true(const void *flag)
{
	return *(const bool *)flag;
}

static bool has_ten(const void *context)
{
	const struct watch *watch = context;
	return watch->messages >= 10 || watch->over;
}

static void client_wait(struct client *client, const char *what, uint64_t deadline_ns,
			bool (*happened)(const void *context), const void *context)
{
	uint64_t begin = loop_now_ns(client->loop);
	while (!happened(context)) {
		if (loop_now_ns(client->loop) - begin > deadline_ns) {
			client_problem(client, "%s did not happen", what);
			return;
		}
		(void)loop_pass(client->loop, 10 * MS, NULL);
	}
}

static bool client_facts(struct client *client, Peer__V1__FactsReply *out)
{
	Peer__V1__Nothing request = PEER__V1__NOTHING__INIT;
	struct wire_result result;
	ProtobufCMessage *reply =
	    client_ask(client, PEER_FACTS, &request.base, 10 * SECOND, &result);
	expect_status(client, &result, WIRE_OK);
	if (!reply)
		return false;
	*out = *(const Peer__V1__FactsReply *)reply;
	protobuf_c_message_free_unpacked(reply, NULL);
	return true;
}

/* Until so many calls run at the server, and so many were cancelled. */
static void expect_facts(struct client *client, uint32_t running, uint32_t cancelled)
{
	uint64_t begin = loop_now_ns(client->loop);
	Peer__V1__FactsReply facts = PEER__V1__FACTS_REPLY__INIT;
	do {
		if (!client_facts(client, &facts))
			return;
		if (facts.running == running && facts.cancelled == cancelled)
			return;
	} while (loop_now_ns(client->loop) - begin < 10 * SECOND);
	client_problem(client, "%u calls run there and %u were cancelled, instead of %u and %u",
		       facts.running, facts.cancelled, running, cancelled);
}

/* --- the cases --- */

static void case_unary(struct client *client)
{
	expect_say(client, (char *)umlauts);
}

static void case_empty(struct client *client)
{
	expect_say(client, (char[]){""});
}

static void case_many(struct client *client)
{
	for (int i = 0; i < CLIENT_COUNT && !client->problem[0]; i++)
		expect_say(client, (char[]){"again"});
}

static void case_parallel(struct client *client)
{
	static struct watch watches[CLIENT_PARALLEL];
	Peer__V1__Text request = PEER__V1__TEXT__INIT;
	request.text = (char[]){"one of many"};
	for (size_t i = 0; i < CLIENT_PARALLEL; i++) {
		if (!watch_start(&watches[i], client, &client->methods[PEER_SAY], &request.base,
				 20 * SECOND))
			return;
		watches[i].text = request.text;
	}
	for (size_t i = 0; i < CLIENT_PARALLEL; i++) {
		client_wait(client, "the end of a call", 20 * SECOND, is_true, &watches[i].over);
		if (client->problem[0])
			return;
		expect_status(client, &watches[i].result, WIRE_OK);
		if (watches[i].messages != 1)
			client_problem(client, "%u replies to call %zu", watches[i].messages, i);
	}
}

static void expect_count(struct client *client, uint32_t count, uint32_t size)
{
	Peer__V1__CountRequest request = PEER__V1__COUNT_REQUEST__INIT;
	request.count = count;
	request.size = size;
	struct watch watch;
	if (!watch_start(&watch, client, &client->methods[PEER_COUNT], &request.base, 20 * SECOND))
		return;
	client_wait(client, "the end of the stream", 20 * SECOND, is_true, &watch.over);
	expect_status(client, &watch.result, WIRE_OK);
	if (watch.messages != count || !watch.in_order)
		client_problem(client, "%u messages instead of %u%s", watch.messages, count,
			       watch.in_order ? "" : ", not in order");
}

static void case_stream(struct client *client)
{
	expect_count(client, CLIENT_COUNT, 100);
}

static void case_stream_empty(struct client *client)
{
	expect_count(client, 0, 0);
}

static void case_stream_large(struct client *client)
{
	expect_count(client, 100, 100000);
}

static void case_statuses(struct client *client)
{
	char text[] = "100 % falsch: gr\xc3\xb6\xc3\x9f"
		      "er\n\xe6\x9c\xab\tEnde ";
	for (uint32_t code = 1; code <= 16; code++) {
		Peer__V1__FailRequest request = PEER__V1__FAIL_REQUEST__INIT;
		request.code = code;
		request.message = text;
		struct wire_result result;
		ProtobufCMessage *reply =
		    client_ask(client, PEER_FAIL, &request.base, 10 * SECOND, &result);
		expect_status(client, &result, (enum wire_status)code);
		if (strcmp(result.message, text) != 0)
			client_problem(client, "status %u came with the text '%s'", code,
				       result.message);
		protobuf_c_message_free_unpacked(reply, NULL);
	}
}

static void case_status_late(struct client *client)
{
	Peer__V1__FailRequest request = PEER__V1__FAIL_REQUEST__INIT;
	request.code = WIRE_FAILED_PRECONDITION;
	request.message = (char *)umlauts;
	request.after = 3;
	struct watch watch;
	if (!watch_start(&watch, client, &client->methods[PEER_FAIL_LATE], &request.base,
			 10 * SECOND))
		return;
	client_wait(client, "the end of the stream", 20 * SECOND, is_true, &watch.over);
	expect_status(client, &watch.result, WIRE_FAILED_PRECONDITION);
	if (watch.messages != 3 || strcmp(watch.result.message, umlauts) != 0)
		client_problem(client, "%u messages, then '%s'", watch.messages,
			       watch.result.message);
}

static void case_deadline(struct client *client)
{
	Peer__V1__FactsReply before;
	if (!client_facts(client, &before))
		return;
	Peer__V1__SlowRequest request = PEER__V1__SLOW_REQUEST__INIT;
	request.milliseconds = 60000;
	struct wire_result result;
	uint64_t begin = loop_now_ns(client->loop);
	ProtobufCMessage *reply = client_ask(client, PEER_SLOW, &request.base, 200 * MS, &result);
	uint64_t took = loop_now_ns(client->loop) - begin;
	expect_status(client, &result, WIRE_DEADLINE_EXCEEDED);
	if (took < 150 * MS || took > 10 * SECOND)
		client_problem(client, "the deadline of 200 ms came after %llu ms",
			       (unsigned long long)(took / MS));
	protobuf_c_message_free_unpacked(reply, NULL);
	expect_facts(client, before.running, before.cancelled + 1);
}

static void case_cancel(struct client *client)
{
	Peer__V1__FactsReply before;
	if (!client_facts(client, &before))
		return;
	Peer__V1__SlowRequest request = PEER__V1__SLOW_REQUEST__INIT;
	request.milliseconds = 60000;
	struct watch watch;
	if (!watch_start(&watch, client, &client->methods[PEER_SLOW], &request.base, 0))
		return;
	expect_facts(client, before.running + 1, before.cancelled);
	wire_client_cancel(watch.call);
	expect_facts(client, before.running, before.cancelled + 1);
	if (watch.over)
		client_problem(client, "end() was called though the call was cancelled");
}

static void case_cancel_stream(struct client *client)
{
	Peer__V1__FactsReply before;
	if (!client_facts(client, &before))
		return;
	Peer__V1__CountRequest request = PEER__V1__COUNT_REQUEST__INIT;
	request.count = 100000000;
	request.size = 1000;
	struct watch watch;
	if (!watch_start(&watch, client, &client->methods[PEER_COUNT], &request.base, 0))
		return;
	client_wait(client, "the tenth message", 20 * SECOND, has_ten, &watch);
	if (!watch.over)
		wire_client_cancel(watch.call);
	expect_facts(client, before.running, before.cancelled + 1);
}

static void expect_echo(struct client *client, size_t size, enum wire_status wanted)
{
	_cleanup_free_ uint8_t *data = malloc(size);
	if (!data) {
		client_problem(client, "no memory");
		return;
	}
	for (size_t i = 0; i < size; i++)
		data[i] = (uint8_t)(i * 31 >> 3);
	Peer__V1__Blob request = PEER__V1__BLOB__INIT;
	request.data = (ProtobufCBinaryData){.data = data, .len = size};
	struct wire_result result;
	Peer__V1__Blob *reply =
	    (Peer__V1__Blob *)client_ask(client, PEER_ECHO, &request.base, 20 * SECOND, &result);
	expect_status(client, &result, wanted);
	if (reply && (reply->data.len != size || memcmp(reply->data.data, data, size) != 0))
		client_problem(client, "sent %zu bytes, %zu came back or others", size,
			       reply->data.len);
	if (reply)
		protobuf_c_message_free_unpacked(&reply->base, NULL);
}

static void case_large(struct client *client)
{
	expect_echo(client, 4000000, WIRE_OK);
}

/* Over the 4100000 bytes that these servers take: they answer before they have read all. */
static void case_request_over_cap(struct client *client)
{
	expect_echo(client, 4150000, WIRE_RESOURCE_EXHAUSTED);
	expect_say(client, (char[]){"afterwards"});
}

static void case_reply_over_cap(struct client *client)
{
	struct wire_client *kept = client->wire;
	if (client_connect(client, client->path, 100000)) {
		expect_echo(client, 100000 - 10, WIRE_OK);
		expect_echo(client, 100001, WIRE_RESOURCE_EXHAUSTED);
		expect_say(client, (char[]){"afterwards"});
		wire_client_free(client->wire);
	}
	client->wire = kept;
	client->closed = false;
}

static void case_unknown_method(struct client *client)
{
	static const char *const paths[] = {"/peer.v1.Peer/Missing", "/peer.v1.Missing/Say",
					    "/missing"};
	struct wire_method say = client->methods[PEER_SAY];
	for (size_t i = 0; i < array_length(paths); i++) {
		client->methods[PEER_SAY].path = paths[i];
		Peer__V1__Text request = PEER__V1__TEXT__INIT;
		struct wire_result result;
		ProtobufCMessage *reply =
		    client_ask(client, PEER_SAY, &request.base, 10 * SECOND, &result);
		expect_status(client, &result, WIRE_UNIMPLEMENTED);
		protobuf_c_message_free_unpacked(reply, NULL);
	}
	client->methods[PEER_SAY] = say;
	expect_say(client, (char[]){"afterwards"});
}

static void case_peer(struct client *client)
{
	struct wire_peer peer;
	struct err err = {0};
	if (wire_client_peer(client->wire, &peer, &err) < 0)
		client_problem(client, "%s", err.text);
	else if (peer.pid != client->server || peer.uid != getuid())
		client_problem(client, "pid %d of user %u instead of %d", (int)peer.pid, peer.uid,
			       (int)client->server);
}

static void case_nobody(struct client *client)
{
	struct wire_client *kept = client->wire;
	char path[CLIENT_PATH_MAX];
	struct err err = {0};
	struct wire_client_options options = {0};
	(void)snprintf(path, sizeof(path), "%s.not", client->path);
	struct wire_client *wire = wire_client_new(client->loop, path, &options, &err);
	if (wire || err.code != -ENOENT)
		client_problem(client, "no error for a socket that is not there: %s", err.text);
	wire_client_free(wire);
	client->wire = kept;
}

/* The last one. A running call is finished, then the connection goes. */
static void case_shutdown(struct client *client)
{
	Peer__V1__FactsReply before;
	if (!client_facts(client, &before))
		return;
	Peer__V1__SlowRequest request = PEER__V1__SLOW_REQUEST__INIT;
	request.milliseconds = 1000;
	struct watch watch;
	if (!watch_start(&watch, client, &client->methods[PEER_SLOW], &request.base, 20 * SECOND))
		return;
	watch.text = "at last";
	expect_facts(client, before.running + 1, before.cancelled);
	if (kill(client->server, SIGTERM) < 0)
		client_problem(client, "cannot signal the server");
	client_wait(client, "the end of the call", 20 * SECOND, is_true, &watch.over);
	expect_status(client, &watch.result, WIRE_OK);
	client_wait(client, "the end of the connection", 20 * SECOND, is_true, &client->closed);
	struct wire_result result;
	ProtobufCMessage *reply =
	    client_ask(client, PEER_SLOW, &request.base, 10 * SECOND, &result);
	if (reply)
		client_problem(client, "a call on a closed connection was answered");
	protobuf_c_message_free_unpacked(reply, NULL);
}

static const struct {
	const char *name;
	void (*run)(struct client *client);
} cases[] = {
    {"unary", case_unary},
    {"empty message", case_empty},
    {"many calls", case_many},
    {"parallel calls", case_parallel},
    {"stream", case_stream},
    {"empty stream", case_stream_empty},
    {"stream of large messages", case_stream_large},
    {"every status", case_statuses},
    {"status after messages", case_status_late},
    {"deadline", case_deadline},
    {"cancel", case_cancel},
    {"cancel a stream", case_cancel_stream},
    {"large message", case_large},
    {"request over the cap", case_request_over_cap},
    {"reply over the cap", case_reply_over_cap},
    {"unknown method", case_unknown_method},
    {"who is there", case_peer},
    {"nobody there", case_nobody},
    {"shutdown", case_shutdown},
};

int main(int argc, char **argv)
{
	uint64_t pid;
	if (argc != 3 || parse_u64(argv[2], 1, INT32_MAX, &pid) < 0) {
		fprintf(stderr, "usage: %s SOCKET SERVER-PID\n", argv[0]);
		return 64;
	}
	struct client client = {.path = argv[1], .server = (pid_t)pid};
	struct err err = {0};
	peer_methods(client.methods);
	client.loop = loop_new(LOOP_REAL, &err);
	if (!client.loop || !client_connect(&client, argv[1], 0)) {
		fprintf(stderr, "grpc-peer-client: %s%s\n", err.text, client.problem);
		return 1;
	}
	for (size_t i = 0; i < array_length(cases); i++) {
		client.problem[0] = '\0';
		cases[i].run(&client);
		if (client.problem[0])
			printf("FAIL %s: %s\n", cases[i].name, client.problem);
		else
			printf("ok %s\n", cases[i].name);
		fflush(stdout);
	}
	wire_client_free(client.wire);
	loop_free(client.loop);
	return 0;
}
