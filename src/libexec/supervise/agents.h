/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agents that are connected to a supervisor: each is told what is true of the job, the new one
 * all of it again, and may send messages. Never blocks; an agent that does not read, sends garbage
 * or is another user is dropped, and comes back if it wants. Knows nothing of what messages mean.
 */
#ifndef SLUICE_LIBEXEC_SUPERVISE_AGENTS_H
#define SLUICE_LIBEXEC_SUPERVISE_AGENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "job/control.h"

struct pollfd;

enum agents_limits {
	AGENTS_KINDS = CONTROL_PORT - CONTROL_HELLO + 1,
	AGENTS_POLL_MAX = CONTROL_AGENTS_MAX + 1,
};

struct agents {
	int listen_fd;		     /* owned */
	int fds[CONTROL_AGENTS_MAX]; /* owned; -1: free */
	size_t next;		     /* the one that is dropped when there are too many */
	bool is_true[AGENTS_KINDS];
	struct control_message said[AGENTS_KINDS];
};

/* Given `listen_fd`, of control_listen(). */
void agents_init(struct agents *agents, int listen_fd);
void agents_done(struct agents *agents);

/* Tells all, and each that comes later until agents_unsay(). `text` may be NULL. */
void agents_say(struct agents *agents, enum control_kind kind, int64_t value, uint64_t extra,
		const char *text);
void agents_unsay(struct agents *agents, enum control_kind kind);
size_t agents_count(const struct agents *agents);

/* Fills `out` (AGENTS_POLL_MAX of them) with what to wait for. */
void agents_poll(const struct agents *agents, struct pollfd *out);
/*
 * After poll(): lets new ones in, and calls `hear` with each message that came. Nobody else than
 * root and the user of this process is heard.
 */
void agents_serve(struct agents *agents, const struct pollfd *polled,
		  void (*hear)(const struct control_message *message, void *context),
		  void *context);

#endif
