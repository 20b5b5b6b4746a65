/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections: accepts them, reads requests, writes answers, and sees to it that nobody who is
 * slow, silent or hostile costs more than a fixed amount of memory and time. What is answered is
 * its owner's business. Knows nothing of views and metrics.
 *
 * libevent's own HTTP server (2.1.12) was tried first and left: a head that is too long is answered
 * like any mistake (400), a byte each 0.3 s keeps a connection with a time-out of 2 s open for
 * ever, connections are neither counted nor refused, a NUL byte ends a header field unseen, and a
 * second Host is taken.
 */
#ifndef SLUICE_WEB_SERVER_H
#define SLUICE_WEB_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "web/http.h"

struct chunk;
struct loop;
struct server;

enum web_server_limits {
	SERVER_CONNECTIONS_MAX = 64,
	SERVER_STREAMS_MAX = 32,
	SERVER_REFUSED_MAX = 16, /* that are told so at leisure; more are told and cut off */
	SERVER_IDLE_S = 10,	 /* for a whole head, and between two requests */
	SERVER_ANSWER_S = 30,	 /* for taking an answer */
	SERVER_STALL_S = 30,	 /* a stream of which nothing was taken */
	SERVER_LINGER_S = 2,	 /* for the end of what a refused client still sends */
	/* When all connections are taken, who makes room: whoever asks nothing, or has been
	 * answered and does not leave, for so long; */
	SERVER_EVICT_S = 1,
	/* or has not taken his answer, for as long as Prometheus waits for one. */
	SERVER_EVICT_ANSWER_S = 10,
	/* Bytes of answers that somebody has not taken yet; many who wait for the same count once.
	 * Beyond, whoever takes longest goes. */
	SERVER_HELD_MAX = 4 << 20,
	SERVER_FIELDS_SIZE = 1024,
};

/* What to answer. Zero-initialised by the server. */
struct answer {
	unsigned status;	 /* 0: 500 */
	const char *type;	 /* Content-Type; a constant */
	const char *fields;	 /* more header lines, each with its CRLF; constant; may be NULL */
	const char *policy;	 /* Content-Security-Policy; constant; NULL: nothing is allowed */
	struct chunk *body;	 /* given; may be NULL */
	bool is_gzip;		 /* so is the body */
	bool varies;		 /* the body depends on Accept-Encoding */
	bool is_stream;		 /* the body is only the beginning: stream_next() has the rest */
	uint64_t cursor;	 /* of the stream: for stream_next() */
	char text[ERR_TEXT_MAX]; /* the body if there is none above: a sentence; may be "" */
};

struct server_owner {
	/* Fills `out`. The request is borrowed for the call. */
	void (*answer)(void *context, const struct http_request *request, struct answer *out);
	/* The part of a stream behind `*cursor`, with a reference for the caller, and the cursor
	 * moved on; NULL: nothing yet. */
	struct chunk *(*stream_next)(void *context, uint64_t *cursor);
	/* A reader at `cursor` is so far behind that it is dropped. */
	bool (*stream_is_lost)(void *context, uint64_t cursor);
	void *context;
};

/* Serves what is accepted from `listen_fd` (borrowed, non-blocking). NULL: -ENOMEM. */
struct server *server_new(struct loop *loop, int listen_fd, const struct server_owner *owner,
			  struct err *err);
struct server *server_free(struct server *server);

/* There is more for streams. */
void server_wake_streams(struct server *server);
/* Ends all streams: who may read them has changed. */
void server_end_streams(struct server *server);
/* Accepts nothing more, lets answers finish, ends streams; `done` is called once nothing is left,
 * `deadline_ns` from now at the latest. */
void server_finish(struct server *server, uint64_t deadline_ns, void (*done)(void *context),
		   void *context);

struct server_counts {
	uint32_t connections, streams;
	uint64_t accepted, requests, refused, evicted, dropped;
};
struct server_counts server_counts(const struct server *server);

/* For tests: takes a connected socket as if it had been accepted. Given. */
void server_take(struct server *server, int fd);

#endif
