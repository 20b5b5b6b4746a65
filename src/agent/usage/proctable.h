/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is known of the processes on the GPUs: name, user, and what they belong to. Read from /proc
 * once for each process, told from a later one with the same number by its start time, and a few at
 * a time, so that thousands of them stop nobody. Knows nothing of GPUs.
 */
#ifndef SLUICE_AGENT_USAGE_PROCTABLE_H
#define SLUICE_AGENT_USAGE_PROCTABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hardware/belonging.h"

struct err;
struct proctable;

enum proctable_limits {
	PROCTABLE_MAX = 8192, /* processes; for others there is no entry */
	PROCTABLE_SLICE = 16, /* read in one go: about half a millisecond */
	PROCTABLE_NAME_MAX = 16,
};

enum proctable_state {
	PROCTABLE_UNREAD, /* nobody has looked yet */
	PROCTABLE_READ,
	PROCTABLE_HIDDEN, /* it is gone, or this user may not see it, or it is in another PID
			     namespace's /proc */
};

struct proctable_entry {
	uint32_t pid, uid;
	uint64_t start; /* clock ticks since boot */
	enum proctable_state state;
	char name[PROCTABLE_NAME_MAX]; /* any bytes but NUL; "" */
	struct belonging belonging;
	/* The caller's own; all of them 0 for a new process. */
	uint64_t job;
	uint32_t job_looks, asks;
	bool is_counted;
	bool is_wanted; /* the table's own */
};

/* `proc`: NULL for "/proc". -ENOMEM. */
int proctable_new(const char *proc, struct proctable **out, struct err *err);
struct proctable *proctable_free(struct proctable *table);

/* A round: what is wanted in it stays in the table, all else is forgotten at its end. */
void proctable_begin(struct proctable *table);
/* The entry of a process, new and unread perhaps. NULL: no room, no memory. Borrowed until
 * proctable_end(). */
struct proctable_entry *proctable_want(struct proctable *table, uint32_t pid);
void proctable_end(struct proctable *table);

/*
 * Reads up to `max` processes: those that nobody has read, then one after the other those that were
 * read before, for their number may be somebody else's by now. Returns how many are still unread.
 */
size_t proctable_read(struct proctable *table, size_t max);

/* NULL: not in it. Borrowed until the next proctable_end(). */
struct proctable_entry *proctable_find(const struct proctable *table, uint32_t pid);

#endif
