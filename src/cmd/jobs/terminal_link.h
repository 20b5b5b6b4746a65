/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This process's terminal, lent to a job's: what is typed goes there, what the job shows comes
 * here, until the job ends or Ctrl-] is typed twice. Ours is as it was before when it is given
 * back. Knows nothing of agents.
 */
#ifndef SLUICE_CMD_JOBS_TERMINAL_LINK_H
#define SLUICE_CMD_JOBS_TERMINAL_LINK_H

#include <stdbool.h>
#include <stddef.h>

struct err;
struct loop;
struct terminal_link;

#define TERMINAL_LINK_KEY '\x1d' /* Ctrl-] */

enum terminal_link_event {
	TERMINAL_LINK_CLOSED,	/* the other side hung up */
	TERMINAL_LINK_DETACHED, /* whoever sits here wants to leave */
	TERMINAL_LINK_UNREAD,	/* nobody reads our output any more */
};

struct terminal_link_options {
	struct loop *loop;	 /* borrowed */
	const char *stdout_path; /* of the job: the socket lies beside it; borrowed for the call */
	int in_fd, out_fd;	 /* borrowed */
	/* Nothing comes after it but terminal_link_free(), which must not be called here. */
	void (*told)(enum terminal_link_event event, void *context);
	void *context;
};

/* NULL: -ENOENT, -ECONNREFUSED: that job has no terminal (any more); -EACCES; -ENOMEM. */
struct terminal_link *terminal_link_new(const struct terminal_link_options *options,
					struct err *err);
/* Whether anything came: who is let in by nobody, as the job has just ended, has seen nothing. */
bool terminal_link_has_shown(const struct terminal_link *link);
struct terminal_link *terminal_link_free(struct terminal_link *link);

/* Whether the job of that output still has a terminal: one that is closed nevertheless was given to
 * somebody else. */
bool terminal_link_is_there(const char *stdout_path);

/* Of what was typed: what is for the job (`out`, with room for `length` + 1). `*held`: a first
 * Ctrl-] was typed, and what follows is not known. True: it was the second. Pure. */
bool terminal_link_keys(bool *held, const char *typed, size_t length, char *out,
			size_t *out_length);

#endif
