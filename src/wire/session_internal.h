/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the parts of the session share: session.c (the connection), session_stream.c (messages of a
 * call) and session_headers.c (its headers). For nobody else.
 */
#ifndef SLUICE_WIRE_SESSION_INTERNAL_H
#define SLUICE_WIRE_SESSION_INTERNAL_H

#include <nghttp2/nghttp2.h>

#include "base/account.h"
#include "base/buf.h"
#include "wire/arena.h"
#include "wire/message.h"
#include "wire/session.h"

enum session_seen {
	SESSION_SEEN_METHOD = 1 << 0,
	SESSION_SEEN_PATH = 1 << 1,
	SESSION_SEEN_TYPE = 1 << 2,
};

/* What the header fields of a call said. */
struct session_headers {
	size_t bytes;	     /* of the header list, as SETTINGS_MAX_HEADER_LIST_SIZE counts */
	unsigned seen;	     /* of enum session_seen */
	bool malformed;	     /* against HTTP/2: the stream is reset */
	bool is_post;	     /* server */
	bool is_grpc;	     /* content-type */
	bool other_encoding; /* grpc-encoding that is not identity */
	bool bad_timeout;
	uint64_t timeout_ns;  /* UINT64_MAX: none */
	unsigned http_status; /* client: 0: none yet */
	int grpc_status;      /* client: -1: none yet */
};

struct session_stream {
	struct session *session; /* borrowed */
	struct session_stream *next, **link;
	int32_t id;
	void *user;
	const struct wire_method *method; /* borrowed */
	struct session_headers headers;

	bool begun;	   /* server: open() said yes; client: always */
	bool over;	   /* nothing is told to the user any more, nor taken from him */
	bool has_headers;  /* of the peer, whole */
	bool headers_sent; /* server */
	bool deferred;	   /* the data callback had nothing */
	bool blocked;	   /* the user was told -EAGAIN */
	bool counted;	   /* in the account */

	struct arena arena;   /* server: of the call */
	struct arena scratch; /* one message at a time: client streams, replies */
	struct wire_frames frames;
	struct buf body;
	size_t held, body_held; /* bytes of ACCOUNT_MEMORY that the stream has, of them for body */
	size_t message_count, empty_count;
	const ProtobufCMessage *request; /* server: waits for the end of the client's side */

	struct buf output;
	size_t output_sent; /* of output */
	enum wire_status status;
	char *text; /* owned; server: message of the status, encoded; client: as it came */
};

enum session_frame_limits {
	SESSION_FRAME_HEAD = 9,	  /* RFC 9113, 4.1 */
	SESSION_RESET_BYTES = 13, /* of a whole RST_STREAM, 6.4 */
};

/* Where in the bytes of a client its frames begin. */
struct session_frames {
	size_t plain; /* bytes that are the preface or a frame's content, to be passed on */
	uint8_t head[SESSION_RESET_BYTES];
	size_t have; /* bytes of it */
	unsigned idle_resets;
};

struct session {
	nghttp2_session *h2; /* owned */
	struct session_frames frames;
	enum session_role role;
	const struct wire_method *methods;
	size_t reply_max;
	const struct session_events *events;
	void *context;
	struct session_stream *streams; /* owned */
	size_t stream_count, output_bytes;
	struct account *account; /* borrowed; NULL: none */
	uid_t uid;
	size_t held;
	bool dead;	       /* cut: no more events */
	bool greeted, wearing; /* the peer: has spoken; wears us out within the rules */
	bool complained;       /* GOAWAY has told the peer of its error */
	int failed;	       /* -errno that ends the session */
	const char *why;       /* what the peer did wrong; static text */
};

/* session.c */
struct session_stream *session_stream_new(struct session *session, int32_t id);
struct session_stream *session_stream_free(struct session_stream *stream);
/* Takes bytes of the limits. 0, or -ENOMEM with the limit that is reached. */
int session_take(struct session_stream *stream, size_t bytes, struct err *err);
void session_give(struct session_stream *stream, size_t bytes);
/* Of the user's account; 0 where there is none. As account_take(). */
int session_charge(struct session *session, enum account_resource resource, uint64_t amount,
		   struct err *err);
void session_discharge(struct session *session, enum account_resource resource, uint64_t amount);
void session_reset(struct session_stream *stream, uint32_t code);
/* So many bytes more, or fewer, of replies wait to be sent. */
void session_output_add(struct session *session, ssize_t bytes);

/* session_headers.c */
void session_headers_init(struct session_headers *headers);
void session_headers_add(struct session_stream *stream, const uint8_t *name, size_t name_length,
			 const uint8_t *value, size_t value_length);
/* Server: the headers of a request are there. */
void session_headers_request(struct session_stream *stream);
/* Client: a block of headers is there; `last`: with the end of the stream. */
void session_headers_reply(struct session_stream *stream, bool last);
/* 0 or an error of nghttp2. */
int session_headers_send_reply(struct session_stream *stream, const nghttp2_data_provider *data);
int session_headers_send_trailers(struct session_stream *stream);
int session_headers_send_status_only(struct session_stream *stream);
/* The stream's id, or an error of nghttp2. */
int32_t session_headers_send_request(struct session_stream *stream, uint64_t timeout_ns,
				     const nghttp2_data_provider *data);

/* session_stream.c */
/* Ends the call and tells its user. Server: answers; client: gives the call up. */
void session_stream_fail(struct session_stream *stream, enum wire_status status,
			 const char *message);
/* Tells the user that the call is over. */
void session_stream_close(struct session_stream *stream, enum wire_status status, int code,
			  const char *message);
/* What was read of a request is not wanted any more. */
void session_stream_drop_body(struct session_stream *stream);
void session_stream_data(struct session_stream *stream, const uint8_t *data, size_t length);
/* The peer has sent all. */
void session_stream_ended(struct session_stream *stream);

#endif
