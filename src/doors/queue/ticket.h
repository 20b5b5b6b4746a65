/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The line in front of the tokens, for those who start jobs without a daemon: who came first is
 * served first. A ticket is an abstract unix socket "\0sluice/queue/<number>/<wants>": the kernel
 * keeps it exactly as long as its process, so nobody dead ever stands in the line, and users who
 * share no directory stand in the same one. `wants` is the set of units that the waiter would
 * take; only those who want a common unit wait for each other.
 *
 * The line is about order only. That no token is given twice is token.h's.
 *
 * Knows nothing of jobs or inventories. Abstract names belong to a network namespace: waiters in
 * different ones do not queue with each other.
 */
#ifndef SLUICE_DOORS_QUEUE_TICKET_H
#define SLUICE_DOORS_QUEUE_TICKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "doors/queue/note.h"
#include "doors/queue/token.h"

struct err;

enum ticket_limits {
	TICKET_LINE_MAX = 4096, /* waiters of one machine that are looked at */
};

/* A set of units as 128 bits; each unit sets one. Two different units may share a bit: then two
 * waiters queue who need not, never the other way round. */
struct ticket_wants {
	uint64_t bits[2];
};

void ticket_want(struct ticket_wants *wants, const char *unit);
bool ticket_wants_overlap(const struct ticket_wants *a, const struct ticket_wants *b);

struct ticket {
	int fd; /* owned; listening */
	uint64_t number;
	struct ticket_wants wants;
};

#define TICKET_NONE ((struct ticket){.fd = -1})

/* Joins the end of the line. */
int ticket_take(const struct token_place *place, const struct ticket_wants *wants,
		struct ticket *out, struct err *err);
void ticket_release(struct ticket *ticket);
#define _cleanup_ticket_ __attribute__((cleanup(ticket_release)))

/*
 * The waiter directly before us that wants something we want: a descriptor (caller's) that hangs
 * up when it leaves the line, and who it is; `out_ahead` counts all who are before us. Whoever is
 * stopped (Ctrl-Z) or cannot be connected to is passed over, so look again now and then: being
 * stopped wakes nobody.
 * -ENOENT when nobody is before us: it is our turn.
 */
int ticket_watch(const struct token_place *place, const struct ticket *ticket,
		 struct note *out_holder, size_t *out_ahead, struct err *err);

/*
 * One line of /proc/net/unix: true and the number and wants when it is a ticket of this machine
 * (`machine` as in struct token_place) on which somebody listens. Pure.
 */
bool ticket_parse(const char *line, size_t length, const char *machine, uint64_t *out_number,
		  struct ticket_wants *out_wants);

#endif
