/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A gRPC server on unix sockets: unary calls and streams, with a cap on everything that a client
 * could make grow, for a connection (here) and for a user (base/account.h). Protocol only: it knows
 * neither GPUs nor jobs. wire/session.h is the part without I/O; here are descriptors, the loop and
 * the clock.
 *
 * All of it belongs to the loop's thread.
 */
#ifndef SLUICE_WIRE_SERVER_H
#define SLUICE_WIRE_SERVER_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "wire/listen.h"
#include "wire/status.h"

struct account;
struct arena;
struct err;
struct loop;
struct wire_call;
struct wire_server;

enum wire_server_limits {
	WIRE_STREAMS_MAX = 100,		   /* of a connection; of a user: base/account.h */
	WIRE_HEADERS_MAX = 8 << 10,	   /* bytes of a header list */
	WIRE_STREAM_OUTPUT_MAX = 64 << 10, /* bytes that wait for a slow reader, then on_writable */
	WIRE_ARENA_FACTOR = 8,		   /* arena of a call: this times request_max ... */
	WIRE_ARENA_MIN = 64 << 10,	   /* ... but at least this */
};

/* Who is at the other end of a unix socket, as the kernel says. */
struct wire_peer {
	pid_t pid;
	uid_t uid;
	gid_t gid;
};

/* One row of a server's table; it ends with a row without a path. */
struct wire_method {
	const char *path; /* "/sluice.v1.Queue/Submit" */
	const ProtobufCMessageDescriptor *request, *reply;
	size_t request_max;  /* bytes; 0: WIRE_REQUEST_MAX of message.h */
	size_t arena_max;    /* bytes of a call's arena; 0: WIRE_ARENA_FACTOR times request_max */
	size_t output_max;   /* of a stream: bytes that wait before another reply is -EAGAIN; 1: the
				one before has to be gone; 0: WIRE_STREAM_OUTPUT_MAX */
	bool client_streams; /* handle() is called with NULL when the call begins (there may be no
				message at all), then for each message; wire_call_on_end() tells of
				the last */
	bool server_streams; /* any number of replies */
	/* A whole request is there. `request` is in the call's arena: valid until the call is
	 * freed (of client streams: until the next one). Answers now or later. */
	void (*handle)(struct wire_call *call, const ProtobufCMessage *request, void *context);
};

struct wire_server_options {
	const struct wire_method *methods; /* borrowed for the server's life */
	void *context;			   /* given to handle() */
	struct account *account;	   /* borrowed; NULL: one of its own */
	size_t connections_max;		   /* of an account of its own; 0: as its table says */
	uint64_t idle_ns;    /* a connection without calls is closed after this; 0: never */
	uint64_t request_ns; /* a request must be whole this long after its headers; 0: 10 s */
};

/* NULL: -ENOMEM. */
struct wire_server *wire_server_new(struct loop *loop, const struct wire_server_options *options,
				    struct err *err);
/* Closes everything at once. */
struct wire_server *wire_server_free(struct wire_server *server);
/*
 * Takes connections from a listening socket (given, in any case: closed with the server). A server
 * may have several. 0 or -ENOMEM.
 */
int wire_server_add_listener(struct wire_server *server, int listen_fd, struct err *err);
/*
 * GOAWAY to everybody, no new connections or calls; `done` (may be NULL) when the running calls
 * have ended, or after `deadline_ns`, when they are cut off.
 */
void wire_server_shutdown(struct wire_server *server, uint64_t deadline_ns,
			  void (*done)(void *context), void *context);
/*
 * The same to those who are connected now, while others are taken as before. When it is called
 * again meanwhile, only the newest `done` is called.
 */
void wire_server_hang_up(struct wire_server *server, uint64_t deadline_ns,
			 void (*done)(void *context), void *context);
/* Counters, for status and tests. */
struct wire_server_counts {
	uint64_t connections, calls, refused_connections, protocol_errors;
	uint64_t evicted_connections; /* of the largest holder, for want of room */
	size_t open_connections, open_calls, output_bytes;
};
void wire_server_count(const struct wire_server *server, struct wire_server_counts *out);

/* --- calls, in handlers --- */

const struct wire_peer *wire_call_peer(const struct wire_call *call);
/* A descriptor of the process that connected (SO_PEERPIDFD, Linux 6.5), the caller's to close:
 * tells it from another one that has its number now. -1: the kernel has none. */
int wire_call_peer_pidfd(const struct wire_call *call);
/* Supplementary groups of the peer (SO_PEERGROUPS); allocated in the call's arena. -errno. */
int wire_call_peer_groups(struct wire_call *call, gid_t **out, size_t *out_count, struct err *err);
/* The call's own memory, borrowed: gone with the call. */
struct arena *wire_call_arena(struct wire_call *call);
/* What the handler wants to find again with the next message of a client stream. NULL at first. */
void wire_call_set_data(struct wire_call *call, void *data);
void *wire_call_data(const struct wire_call *call);
/*
 * Sends a reply; of unary calls the call ends with it, status OK, and must not be used any more.
 * `reply` is encoded before this returns. 0; -EAGAIN (streams): more than the output cap waits,
 * nothing was sent, wire_call_on_writable() tells when to go on; -ENOMEM.
 */
int wire_call_reply(struct wire_call *call, const ProtobufCMessage *reply, struct err *err);
/* Ends the call. It must not be used any more. `message` may be NULL. */
void wire_call_finish(struct wire_call *call, enum wire_status status, const char *message);
/* Ends the call of somebody who does not read: what waits for him is thrown away. It must not be
 * used any more. He sees RESOURCE_EXHAUSTED. */
void wire_call_drop(struct wire_call *call);
/* The same as finish with what an -errno means and the error's text. */
void wire_call_fail(struct wire_call *call, const struct err *err);
/* Told once each time there is room again after -EAGAIN. */
void wire_call_on_writable(struct wire_call *call, void (*writable)(void *context), void *context);
/* Told when the client has cancelled, is gone or its deadline has passed: the call is freed after
 * this returns and must not be used any more. Not called after finish. */
void wire_call_on_cancel(struct wire_call *call, void (*cancelled)(void *context), void *context);
/* Client streams: told after the last message. */
void wire_call_on_end(struct wire_call *call, void (*ended)(void *context), void *context);

#endif
