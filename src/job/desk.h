/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the holder of tokens (or a place in the line) answers those who wait: each visitor is sent
 * the holder's note and then kept connected, so that the end of the connection tells it that the
 * token is free. Nobody has to come to the desk: a visitor whom no one answers hears the same end
 * from the kernel.
 *
 * Has one descriptor to poll and never blocks. Knows nothing of jobs.
 */
#ifndef SLUICE_JOB_DESK_H
#define SLUICE_JOB_DESK_H

#include <stddef.h>
#include <stdint.h>

#include "job/note.h"

struct err;

enum desk_limits {
	DESK_VISITOR_MAX = 128, /* kept connected; a further one replaces the oldest */
};

struct desk {
	int epoll_fd; /* owned */
	struct note note;
	int visitor[DESK_VISITOR_MAX]; /* owned; -1: free */
	size_t oldest;		       /* the next one to be replaced */
};

int desk_init(struct desk *desk, const struct note *note, struct err *err);
void desk_done(struct desk *desk);

/* Answers at this listening socket too. Borrowed: close it only after desk_done(). */
int desk_open_at(struct desk *desk, int listen_fd, struct err *err);

/* Readable when desk_serve() has work. */
int desk_fd(const struct desk *desk);
void desk_serve(struct desk *desk);

#endif
