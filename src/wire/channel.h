/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session on a socket: reads, writes, and stops reading while the peer does not read, so that one
 * that only asks costs no memory. Knows nothing of calls; server.c and client.c make channels.
 */
#ifndef SLUICE_WIRE_CHANNEL_H
#define SLUICE_WIRE_CHANNEL_H

#include <stddef.h>

struct channel;
struct err;
struct loop;
struct session;

enum channel_limits {
	CHANNEL_READ = 16 << 10,   /* bytes that are read at a time */
	CHANNEL_OUTPUT = 32 << 10, /* and that wait between session and socket */
	CHANNEL_ROUNDS = 4,	   /* times that it is filled before others have their turn */
};

/*
 * Takes over a connected, non-blocking socket (given, on success only) for a session (borrowed; it
 * is freed after the channel). `closed` is called once, from the loop, when the connection is over:
 * `why` is NULL when both sides had ended it, -EPROTO when the peer broke the rules. NULL: -ENOMEM.
 */
struct channel *channel_new(struct loop *loop, int fd, struct session *session,
			    void (*closed)(const struct err *why, void *context), void *context,
			    struct err *err);
/* Closes the socket. Allowed in any callback. */
struct channel *channel_free(struct channel *channel);
/* The session has something to send: sends it when whoever is running has returned to the loop. */
void channel_flush(struct channel *channel);
/* Bytes that wait for the socket. */
size_t channel_output_bytes(const struct channel *channel);

#endif
