/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting for GPUs and taking them: all that a job needs at once or none, in the order in which
 * people came, woken by the end of whoever holds what is missing. While it waits it says why.
 *
 * One pass at the front of the line tries every candidate's token. Enough of them: the best are
 * kept. Too few: all are given back, and the next pass comes when a holder is gone. Two that wait
 * can therefore never hold what the other needs.
 *
 * Knows nothing of commands, of how jobs run, or of how the inventory is made (a function brings
 * it). Blocks; made for programs that do nothing else meanwhile.
 */
#ifndef SLUICE_DOORS_QUEUE_ACQUIRE_H
#define SLUICE_DOORS_QUEUE_ACQUIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "doors/queue/note.h"
#include "doors/queue/place.h"
#include "doors/queue/token.h"

struct err;
struct inventory;
struct snapshot;

enum acquire_limits {
	ACQUIRE_TEXT_MAX = 480,	     /* bytes of a reason with its NUL */
	ACQUIRE_REASONS_SHOWN = 6,   /* different ones */
	ACQUIRE_LOOK_FIRST_MS = 300, /* first new look at the driver, doubling ... */
	ACQUIRE_LOOK_LAST_MS = 4000, /* ... up to this */
	ACQUIRE_AHEAD_MS = 2000,     /* between looks whether the one ahead of us was stopped */
	ACQUIRE_NOTE_MS = 200,	     /* how long a holder may take to say who it is */
	ACQUIRE_RETRY_MS = 2,	     /* after a holder that left while we looked, doubling */
	ACQUIRE_NO_WAIT_MS = 500,    /* what --no-wait grants those who are just taking theirs */
};

struct acquire_request {
	const char *ids; /* as place_find() takes it; NULL: any */
	size_t needed;
	bool no_wait;
	bool ignore_outsiders; /* take a GPU on which somebody computes without a token */
	uint64_t timeout_ns;   /* of the wait; 0: none */
	struct note self;
	const struct token_place *place; /* borrowed */

	/* Brings a fresh inventory and snapshot (owned by us then). Called before the first pass
	 * and again after each wait. -errno ends the wait. */
	int (*look)(void *context, struct inventory *out_inventory, struct snapshot **out_snapshot,
		    struct err *err);
	/* Told the reason, one line of plain text, when the wait begins and whenever it changes. */
	void (*tell)(void *context, const char *reason);
	void *context;
};

struct acquire_result {
	struct place_unit unit[PLACE_UNIT_MAX];
	struct token token[PLACE_UNIT_MAX]; /* owned: acquire_release() */
	size_t count;
	uint64_t waited_ns;
	bool waited;
};

/*
 * 0 and `out`. -EBUSY with no_wait when it would have to wait (the text says for what); -ETIMEDOUT;
 * what place_find() and `look` return.
 */
int acquire_units(const struct acquire_request *request, struct acquire_result *out,
		  struct err *err);
void acquire_release(struct acquire_result *result);

#endif
