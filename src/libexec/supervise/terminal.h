/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The terminal of a job that asked for one: what the job shows there goes into its output, and to
 * everybody of its user's who sits at it; what they type goes to the job. It is there whether
 * anybody sits at it or not, so a job whose user went away goes on. Knows nothing of what is shown.
 */
#ifndef SLUICE_LIBEXEC_SUPERVISE_TERMINAL_H
#define SLUICE_LIBEXEC_SUPERVISE_TERMINAL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/clock.h"
#include "job/attach.h"

struct err;
struct launch;
struct relay;

enum terminal_limits {
	TERMINAL_VISITORS_MAX = 4, /* at a time; one more takes the place of the oldest */
	TERMINAL_ROWS = 24,	   /* until somebody says how large his is */
	TERMINAL_COLUMNS = 80,
	TERMINAL_REPLAY_BYTES = 32 << 10, /* that a visitor is shown of what was before */
};
/* A visitor who takes nothing for so long, and holds up the job, is sent away. */
#define TERMINAL_PATIENCE_NS (10 * CLOCK_NS_PER_S)

struct terminal_visitor {
	int fd;	       /* owned; -1: nobody */
	size_t length; /* of what he is still to be sent */
	char packet[ATTACH_PACKET_MAX];
};

struct terminal {
	int events_fd;			    /* owned; epoll; -1: the job has none */
	int timer_fd, master_fd, listen_fd; /* owned */
	struct relay *relay;		    /* borrowed: where it is stored */
	uid_t uid;			    /* the job's user, whose it is */
	struct terminal_visitor *visitors;  /* owned */
	size_t next;
	uint64_t timer_ns;   /* what the timer is set to; 0: it is not */
	bool is_watched;     /* the job's side of it is in the set */
	bool is_closed;	     /* nobody of the job has it open */
	bool waits_for_copy; /* the copy of the output, which is full, is in the set */
	/* What was typed and has no room yet. */
	char typed[ATTACH_DATA_MAX];
	size_t typed_length;
	/* Called when something was typed or shown. NULL. */
	void (*used)(void *context);
	void *context;
};

#define TERMINAL_NONE                                                                              \
	((struct terminal){.events_fd = -1, .timer_fd = -1, .master_fd = -1, .listen_fd = -1})

/* Makes it, and the socket in the job's directory `job_fd`. What is shown goes into `relay` (its
 * in_fd stays -1). *out_fd: the job's side of it (the caller's), which belongs to the job's user.
 * -errno: nothing is there. */
int terminal_open(struct terminal *terminal, int job_fd, const struct launch *launch,
		  struct relay *relay, int *out_fd, struct err *err);
/* When events_fd can be read. */
void terminal_serve(struct terminal *terminal);
/* Nobody of the job lives: takes what is left, sends all away, removes the socket. */
void terminal_done(struct terminal *terminal, int job_fd);

#endif
