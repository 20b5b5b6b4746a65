/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gRPC on one HTTP/2 connection, as client or as server, without any I/O: bytes go in, events and
 * bytes come out. It has no descriptor and no clock, so that a fuzzer can be the peer. Around it:
 * channel.h (the socket), server.h and client.h (calls with deadlines).
 *
 * Events are called from session_receive(), session_fill() and session_cut() and from nowhere else.
 * In an event any function here may be called but the first two and session_free().
 */
#ifndef SLUICE_WIRE_SESSION_H
#define SLUICE_WIRE_SESSION_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "wire/status.h"

struct account;
struct arena;
struct buf;
struct err;
struct session;
struct session_stream;
struct wire_method;

enum session_role { SESSION_SERVER, SESSION_CLIENT };

enum session_limits {
	SESSION_EMPTY_MAX = 64,		/* DATA frames of a stream without data */
	SESSION_RESETS_BURST = 200,	/* streams that a client may cancel at once ... */
	SESSION_RESETS_RATE = 50,	/* ... and per second */
	SESSION_IDLE_RESETS_MAX = 1000, /* of streams that were never opened, in all */
	SESSION_ACKS_MAX = 32,		/* answers to PING and SETTINGS that wait to be sent */
	SESSION_DEFLATE_MAX = 1 << 10,	/* our table of header fields */
	SESSION_MEMORY_MAX = 48 << 20,	/* messages of all calls, with their arenas */
	SESSION_OUTPUT_MAX = 16 << 20,	/* replies that wait, before one more */
};

struct session_events {
	/* Server: headers of a call are there and name a method. 0, or -ENOMEM: the call ends
	 * RESOURCE_EXHAUSTED without another event. */
	int (*open)(struct session_stream *stream, void *context);
	/* A whole message. Server: the request of a unary call comes when the client has sent all,
	 * and is good until the stream is gone; of client streams, and at a client: until this
	 * returns. */
	void (*message)(struct session_stream *stream, const ProtobufCMessage *message,
			void *context);
	/* Server, client streams: nothing comes after the last message. */
	void (*ended)(struct session_stream *stream, void *context);
	/* There is room again after -EAGAIN. */
	void (*writable)(struct session_stream *stream, void *context);
	/* The call is over, and this side did not end it. Its stream is not to be used any more. */
	void (*closed)(struct session_stream *stream, const struct wire_result *result,
		       void *context);
	/* Server: the session was given what others have too much of: account_excess() says who. */
	void (*excess)(void *context);
};

struct session_options {
	enum session_role role;
	const struct wire_method *methods;   /* server: ends with a row without a path. Borrowed */
	size_t reply_max;		     /* client: bytes of a message */
	const struct session_events *events; /* borrowed */
	void *context;			     /* given to the events */
	struct account *account;	     /* server: borrowed; NULL: limits of its own alone */
	uid_t uid;			     /* server: whose share of it the calls take */
};

/* NULL: -ENOMEM. */
struct session *session_new(const struct session_options *options, struct err *err);
struct session *session_free(struct session *session);

/* What the peer sent. 0; -EPROTO: it broke the rules, or -ENOMEM: the connection is to be closed.
 */
int session_receive(struct session *session, const void *data, size_t length, struct err *err);
/* Appends what is to be sent to `out`, about `max` bytes in all. 0; -ENOMEM; -EPROTO: what is in
 * `out` tells the peer what it did wrong, and then the connection is to be closed. */
int session_fill(struct session *session, struct buf *out, size_t max, struct err *err);
/* True: there is nothing more to send or to receive, the connection can be closed. */
bool session_is_over(const struct session *session);
/* The peer has sent its first SETTINGS: it is alive and speaks HTTP/2. */
bool session_is_greeted(const struct session *session);
/* GOAWAY; what runs goes on, nothing new begins. 0 or -ENOMEM. */
int session_shutdown(struct session *session, struct err *err);
/* The connection is gone, and why: ends every call with closed(), and its user is charged for
 * nothing of it any more. Nothing works afterwards. */
void session_cut(struct session *session, int code, const char *why);

/* Gives back the memory of calls that are over, which can be before their streams are: whoever
 * reads nothing keeps those. Not in an event. */
void session_tidy(struct session *session);

size_t session_stream_count(const struct session *session);
/* Bytes of requests and of what was made of them. */
size_t session_memory_bytes(const struct session *session);
/* Bytes of messages that wait to be sent. */
size_t session_output_bytes(const struct session *session);

/* Client: starts a call, with the `user` pointer that belongs to it. NULL: -ENOMEM, -ENOSPC (the
 * request is too large), -ENOTCONN (the session is over). */
struct session_stream *session_call(struct session *session, const struct wire_method *method,
				    const ProtobufCMessage *request, uint64_t timeout_ns,
				    void *user, struct err *err);

/* Server: sends a reply. 0; -EAGAIN: more than the method's output_max waits, or more than its user
 * may have waiting; -ENOBUFS: the same, of others' calls, or more than SESSION_OUTPUT_MAX of this
 * connection's; -ENOSPC: the message is larger than any may be; -ENOMEM. */
int session_stream_reply(struct session_stream *stream, const ProtobufCMessage *reply,
			 struct err *err);
/* Server: ends the call. `message` may be NULL. The stream is not to be used any more. */
void session_stream_finish(struct session_stream *stream, enum wire_status status,
			   const char *message);
/* Server: ends the call at once, with what waits to be sent thrown away: its reader does not read,
 * and would not see a status either. To him it is RESOURCE_EXHAUSTED. Not to be used any more. */
void session_stream_drop(struct session_stream *stream);
/* Client: gives the call up. The stream is not to be used any more. */
void session_stream_cancel(struct session_stream *stream);

const struct wire_method *session_stream_method(const struct session_stream *stream);
/* Server: what the client said in grpc-timeout; UINT64_MAX: nothing. */
uint64_t session_stream_timeout_ns(const struct session_stream *stream);
/* Server: the call's memory, gone with the stream. */
struct arena *session_stream_arena(struct session_stream *stream);
void session_stream_set_user(struct session_stream *stream, void *user);
void *session_stream_user(const struct session_stream *stream);

#endif
