/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of users, for people who look at jobs. The local file is read at once; whoever is not in it
 * may be in a directory on the network, which can take long or never answer: a process of its own
 * (getent) asks there, and until it has answered the number stands for the name. So neither the
 * loop waits, nor does the agent load what the name service brings with it.
 */
#ifndef SLUICE_AGENT_USERS_H
#define SLUICE_AGENT_USERS_H

#include <sys/types.h>

struct child_set;
struct err;
struct loop;
struct users;

enum users_limits {
	USERS_NAME_MAX = 128,  /* bytes with the NUL; whose name is longer has a number */
	USERS_CACHE_MAX = 512, /* remembered; then the oldest is forgotten */
	USERS_ASKING_MAX = 4,  /* processes at a time */
};
#define USERS_FRESH_NS UINT64_C(600000000000) /* then it is looked up again */

struct users_options {
	struct loop *loop;	    /* borrowed */
	struct child_set *children; /* borrowed */
	const char *passwd;	    /* NULL: /etc/passwd */
	const char *getent;	    /* NULL: getent, as $PATH has it */
	/* A name has come for what was told as a number; may be NULL. */
	void (*named)(void *context);
	void *context;
};

/* NULL: -ENOMEM. */
struct users *users_new(const struct users_options *options, struct err *err);
struct users *users_free(struct users *users);
/* The name, or the number while or because there is none. Borrowed: valid until control returns to
 * the loop. */
const char *users_name(struct users *users, uid_t uid);

#endif
