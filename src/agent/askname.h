/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One process that asks the name service, which may be a directory elsewhere: getent(1), or a shell
 * around it. It has ten seconds, and the loop does not wait for it. Knows nothing of what is asked
 * for; users.c and groups.c do.
 */
#ifndef SLUICE_AGENT_ASKNAME_H
#define SLUICE_AGENT_ASKNAME_H

#include <stdint.h>

struct child;
struct child_set;
struct err;
struct loop;
struct loop_timer;

enum { ASKNAME_ANSWER_MAX = 4096 };

#define ASKNAME_NS                                                                                 \
	UINT64_C(10000000000) /* then the process is killed, with what it has started              \
			       */

/* Called once the process is gone and its place is free. `text` is valid during the call and may be
 * changed; "": there was no answer. */
typedef void askname_fn(char *text, void *context);

/* A place for one process at a time, which the caller keeps where it is. */
struct askname {
	struct child_set *children;  /* borrowed */
	struct child *child;	     /* owned; NULL: this place is free */
	struct loop_timer *deadline; /* owned */
	int answer_fd;		     /* owned; -1: none */
	askname_fn *answered;
	void *context; /* borrowed */
};

/* -ENOMEM. */
int askname_init(struct askname *ask, struct loop *loop, struct child_set *children,
		 askname_fn *answered, void *context, struct err *err);
/* Kills what still asks, without a call of answered(). Takes one that was zeroed, too. */
void askname_done(struct askname *ask);

/* Starts a program in a place that is free. `path` is looked for in $PATH where it has no '/'.
 * -EMFILE, -ENFILE: not now; -ECHILD: it cannot be started. */
int askname_start(struct askname *ask, const char *path, char *const argv[]);

#endif
