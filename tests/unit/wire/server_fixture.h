/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server of ours on a unix socket with methods that do what a test wants, and ways to talk to it:
 * our client, and a peer made by hand. One loop with a clock that only the test moves.
 */
#ifndef TESTS_UNIT_WIRE_SERVER_FIXTURE_H
#define TESTS_UNIT_WIRE_SERVER_FIXTURE_H

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/loop.h"
#include "sluice.pb-c.h"
#include "unit/unit.h"
#include "unit/wire/raw.h"
#include "wire/client.h"
#include "wire/server.h"

enum { DEADLINE_S = 20 };

/* Rows of the table. Submit's key says what is done: "hold" (kept in `held`), "free" (the server is
 * freed), "groups" (the peer's groups as reason), "fail" (NOT_FOUND), else an answer at once.
 * Sparse is Logs where one chunk at a time may wait. */
enum { METHOD_SUBMIT, METHOD_LOGS, METHOD_UPLOAD, METHOD_SPARSE, METHOD_MISSING };
extern const struct wire_method server_methods[];

struct fixture {
	char *directory;
	char path[100];
	struct loop *loop;
	struct wire_server *server;
	struct wire_call *held;	    /* the last one; NULL: cancelled */
	struct buf trace;	    /* "cancelled ", "message ", "end:OK " ... */
	size_t chunks, chunks_sent; /* of Logs: how many of 10,000 bytes are wanted */
	size_t received;
};

/* A connection of a peer made by hand. */
struct peer {
	int fd;
	struct raw raw;
	bool closed; /* by the server */
};

/* `options` may be NULL. */
void fixture_start(struct fixture *fixture, const struct wire_server_options *options);
int fixture_set_up(void **state);
int fixture_tear_down(void **state);
void fixture_note(struct fixture *fixture, const char *text);
struct wire_server_counts fixture_counts(const struct fixture *fixture);
/* Passes of the loop until the condition holds; fails the test after DEADLINE_S. */
void fixture_run(struct fixture *fixture, bool (*done)(void *context), void *context);
void fixture_run_until(struct fixture *fixture, const char *trace);
/* Moves the clock. */
void fixture_advance(struct fixture *fixture, uint64_t ns);

void peer_connect(struct peer *peer, struct fixture *fixture);
void peer_done(struct peer *peer);
/* Sends what it has to say; does not wait. */
void peer_send(struct peer *peer);
/* Reads what is there. */
void peer_receive(struct peer *peer);
/* Sends, and runs until the peer has seen the text. */
void peer_expect(struct peer *peer, struct fixture *fixture, const char *text);
void peer_expect_closed(struct peer *peer, struct fixture *fixture);
void peer_submit(struct peer *peer, int32_t id, const char *key, const char *timeout);

#endif
