/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/giveback.h"

#include <errno.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/loop.h"
#include "base/resident.h"
#include "doors/queue/queue.h"

struct giveback {
	struct queue *const *queue; /* borrowed */
	struct loop_timer *timer;   /* owned */
	uint64_t wait_ns;
	struct resident resident;
};

/* Last, for what has just been done has needed code, too: SQLite's alone is 800 KiB. */
static void giveback_rest(void *context)
{
	const struct giveback *giveback = context;
	resident_give_back_stack();
	resident_give_back(&giveback->resident);
}

static void giveback_on_timer(void *context)
{
	struct giveback *giveback = context;
	queue_give_back(*giveback->queue, giveback_rest, giveback);

	giveback->wait_ns *= 2;
	if (giveback->wait_ns > GIVEBACK_EACH_NS)
		giveback->wait_ns = GIVEBACK_EACH_NS;
	loop_timer_start(giveback->timer, giveback->wait_ns);
}

struct giveback *giveback_new(struct loop *loop, struct queue *const *queue, struct err *err)
{
	struct giveback *giveback = calloc(1, sizeof(*giveback));
	if (!giveback) {
		(void)err_set(err, -ENOMEM, "out of memory for giving memory back");
		return NULL;
	}

	giveback->queue = queue;
	giveback->wait_ns = GIVEBACK_FIRST_NS;
	resident_init(&giveback->resident);

	giveback->timer = loop_timer_new(loop, giveback_on_timer, giveback, err);
	if (!giveback->timer)
		return giveback_free(giveback);

	loop_timer_start(giveback->timer, giveback->wait_ns);
	return giveback;
}

struct giveback *giveback_free(struct giveback *giveback)
{
	if (!giveback)
		return NULL;
	giveback->timer = loop_timer_free(giveback->timer);
	free(giveback);
	return NULL;
}
