/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/labels/held.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"

enum { HELD_LOOKS = 3 };

void held_init(struct held *held, uint64_t now_ns)
{
	*held = (struct held){.away_since_ns = now_ns, .due_ns = UINT64_MAX};
	inventory_init(&held->inventory);
}

void held_done(struct held *held)
{
	inventory_done(&held->inventory);
}

uint64_t held_due_ns(const struct held *held)
{
	return held->due_ns;
}

/* Whether a GPU that was well is not now. */
static bool held_lost_one(const struct inventory *before, const struct inventory *now)
{
	for (uint32_t i = 0; i < before->gpu_count; i++) {
		const struct gpu *gpu = &before->gpus[i];
		if (gpu->state != GPU_STATE_OK || gpu->uuid[0] == '\0')
			continue;

		const struct gpu *same = inventory_find_gpu(now, gpu->uuid);
		if (!same || same->state != GPU_STATE_OK)
			return true;
	}

	return false;
}

static uint64_t held_mix(uint64_t hash, const void *data, size_t length)
{
	const unsigned char *at = data;
	for (size_t i = 0; i < length; i++)
		hash = (hash ^ at[i]) * UINT64_C(0x100000001b3); /* FNV-1a */
	return hash;
}

/* Of what the labels tell about MIG. */
static uint64_t held_layout(const struct inventory *inventory)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);
	for (uint32_t i = 0; i < inventory->gpu_count; i++) {
		const struct gpu *gpu = &inventory->gpus[i];
		if (gpu->mig_current == GPU_MIG_ENABLED)
			hash = held_mix(hash, gpu->uuid, strlen(gpu->uuid));
	}

	for (uint32_t i = 0; i < inventory->mig_count; i++) {
		const struct mig_device *mig = &inventory->migs[i];
		hash = held_mix(hash, mig->uuid, strlen(mig->uuid));
		hash = held_mix(hash, mig->profile, strlen(mig->profile));
	}

	return hash;
}

static int held_take(struct held *held, const struct inventory *now, struct err *err)
{
	struct inventory copy;
	inventory_init(&copy);
	if (now && inventory_copy(now, &copy) < 0)
		return err_set(err, -ENOMEM, "out of memory for labels");

	inventory_done(&held->inventory);
	held->inventory = copy;
	held->has = true;
	held->lost_since_ns = held->layout_ns = 0;
	held->layout = held_layout(&copy);

	return 1;
}

/* Whether it is to be waited for longer. */
static bool held_waits(struct held *held, uint64_t *since_ns, uint64_t for_ns, uint64_t now_ns)
{
	if (*since_ns == 0)
		*since_ns = now_ns;

	uint64_t end_ns = clock_after_ns(*since_ns, for_ns);
	if (now_ns >= end_ns)
		return false;
	if (end_ns < held->due_ns)
		held->due_ns = end_ns;

	return true;
}

int held_look(struct held *held, const struct inventory *now, uint64_t keep_ns, uint64_t sleep_ns,
	      uint64_t now_ns, struct err *err)
{
	uint64_t lost_ns =
	    sleep_ns < HELD_LOST_NS / HELD_LOOKS ? sleep_ns * HELD_LOOKS : HELD_LOST_NS;

	held->due_ns = UINT64_MAX;
	if (!now) {
		bool is_empty = held->has && held->inventory.gpu_count == 0;
		if (is_empty || held_waits(held, &held->away_since_ns, keep_ns, now_ns))
			return 0;
		return held_take(held, NULL, err);
	}

	held->away_since_ns = 0;
	if (!held->has || held->inventory.gpu_count == 0)
		return held_take(held, now, err);
	if (!held_lost_one(&held->inventory, now))
		held->lost_since_ns = 0;
	else if (held_waits(held, &held->lost_since_ns, lost_ns, now_ns))
		return 0;

	uint64_t layout = held_layout(now);
	if (layout == held_layout(&held->inventory)) {
		held->layout = layout;
		return held_take(held, now, err);
	}

	if (layout != held->layout) {
		held->layout = layout;
		held->layout_ns = 0;
	}

	return held_waits(held, &held->layout_ns, HELD_SETTLE_NS, now_ns)
		   ? 0
		   : held_take(held, now, err);
}
