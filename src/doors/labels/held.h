/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which inventory the labels are to tell of: what moves labels moves pods, so a hiccup of the
 * driver must not. A GPU that stops answering is counted for a while, MIG devices are believed when
 * their layout stands still, and without a driver the last inventory holds for as long as the
 * configuration says. Pure: the driver's word and the time are given to it.
 */
#ifndef SLUICE_DOORS_LABELS_HELD_H
#define SLUICE_DOORS_LABELS_HELD_H

#include <stdbool.h>
#include <stdint.h>

#include "hardware/gpu.h"

struct err;

/* Until a GPU that does not answer counts no more: this, or three looks if they are closer. */
#define HELD_LOST_NS   UINT64_C(30000000000)
#define HELD_SETTLE_NS UINT64_C(2000000000) /* without a change, and a MIG layout is believed */

struct held {
	struct inventory inventory;
	bool has;		/* an inventory was taken, be it that of no GPU */
	uint64_t lost_since_ns; /* 0: no GPU is missing */
	uint64_t away_since_ns; /* 0: the driver answers */
	uint64_t layout_ns;	/* when the MIG layout was first so; 0: it is that of `inventory` */
	uint64_t layout;	/* a hash of it */
	uint64_t due_ns;
};

/* `now_ns`: the loop's time, not 0. From now on the driver counts as away. */
void held_init(struct held *held, uint64_t now_ns);
void held_done(struct held *held);

/*
 * What the driver says now, which is looked at every `sleep_ns`; NULL: it does not answer, and
 * after `keep_ns` of that there are no GPUs. Returns whether held->inventory was replaced; -ENOMEM,
 * and all is as it was.
 */
int held_look(struct held *held, const struct inventory *now, uint64_t keep_ns, uint64_t sleep_ns,
	      uint64_t now_ns, struct err *err);
/* When held_look() would say something else though the driver says the same; UINT64_MAX: never. */
uint64_t held_due_ns(const struct held *held);

#endif
