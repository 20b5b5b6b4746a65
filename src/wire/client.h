/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A gRPC client on a unix socket: unary calls and replies that come as a stream, each with its own
 * deadline (not every server keeps one). Protocol only. All of it belongs to the loop's thread.
 */
#ifndef SLUICE_WIRE_CLIENT_H
#define SLUICE_WIRE_CLIENT_H

#include <protobuf-c/protobuf-c.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/server.h"
#include "wire/status.h"

struct err;
struct loop;
struct wire_client;
struct wire_client_call;

/* What a client calls: the same row as the server's (handle is not used). */
struct wire_client_options {
	size_t reply_max;    /* bytes of a message; 0: 4 MiB */
	uint64_t connect_ns; /* 0: 5 s */
	/* Told when the connection is gone; its calls have ended before, UNAVAILABLE. May be NULL.
	 */
	void (*closed)(const struct err *why, void *context);
	void *context;
};

/* Connects in the background; calls may be made at once. NULL: -ENOENT, -ECONNREFUSED, -EACCES
 * where connect(2) says so at once, -ENAMETOOLONG, -ENOMEM. The path may be longer than an
 * address. */
struct wire_client *wire_client_new(struct loop *loop, const char *path,
				    const struct wire_client_options *options, struct err *err);
/* Cuts off its calls without telling anybody. */
struct wire_client *wire_client_free(struct wire_client *client);
/* Who listens, as the kernel says. */
int wire_client_peer(const struct wire_client *client, struct wire_peer *out, struct err *err);

struct wire_client_callbacks {
	/* A reply. Borrowed: valid until this returns. */
	void (*message)(const ProtobufCMessage *reply, void *context);
	/* Called exactly once, and nothing after it. The call is freed after it returns. */
	void (*end)(const struct wire_result *result, void *context);
	void *context;
};

/*
 * Starts a call. `deadline_ns` from now; 0: none, for streams that are to stay. Also sent as
 * grpc-timeout. NULL: -ENOMEM, -ENOTCONN.
 */
struct wire_client_call *wire_client_call(struct wire_client *client,
					  const struct wire_method *method,
					  const ProtobufCMessage *request, uint64_t deadline_ns,
					  const struct wire_client_callbacks *callbacks,
					  struct err *err);
/* Cancels; end() is not called. */
void wire_client_cancel(struct wire_client_call *call);
/*
 * For programs that do nothing else meanwhile: a unary call on `loop`, which it runs. 0 and the
 * reply (owned: protobuf_c_message_free_unpacked(reply, NULL)); a status other than OK is in
 * `out_result`, and -EREMOTEIO with its message in `err`; -ETIMEDOUT, -ECONNRESET, ...
 */
int wire_client_ask(struct wire_client *client, struct loop *loop, const struct wire_method *method,
		    const ProtobufCMessage *request, uint64_t deadline_ns,
		    ProtobufCMessage **out_reply, struct wire_result *out_result, struct err *err);

#endif
