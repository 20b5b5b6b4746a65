/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is different between two inventories of one machine. Pure: two inventories in, a list out.
 */
#ifndef SLUICE_HARDWARE_CHANGE_H
#define SLUICE_HARDWARE_CHANGE_H

#include <stdint.h>

#include "hardware/gpu.h"

enum change_limits { CHANGE_MAX = 4 * GPU_MAX + 1 };

enum change_kind {
	CHANGE_GPU_ADDED,
	CHANGE_GPU_REMOVED,
	CHANGE_GPU_STATE, /* ok, lost, hung ... */
	CHANGE_MIG,	  /* the MIG devices or the MIG mode of a GPU */
	CHANGE_DRIVER,	  /* another driver or library version */
};

struct change {
	enum change_kind kind;
	char uuid[GPU_UUID_MAX]; /* of the GPU; "" when it is not known, and for CHANGE_DRIVER */
	char bus[PCI_TEXT_MAX];
	uint32_t state; /* enum gpu_state, for CHANGE_GPU_STATE and CHANGE_GPU_ADDED */
};

/*
 * Fills `out` (CHANGE_MAX entries) and returns how many. Also carries the MIG generations of
 * `before` over to `after`, and begins a new one for each GPU whose MIG devices differ. A GPU that
 * has no UUID at the moment is recognised by its PCI address, and one that has neither by its
 * index, unless the indexes of others have moved.
 */
uint32_t change_find(const struct inventory *before, struct inventory *after, struct change *out);

/*
 * Completes GPUs of `after` that do not answer with what was known of them: name, memory, MIG
 * devices and so on are still true; state, reason and index are the new ones. Call it before
 * change_find(). -ENOMEM: `after` is as it was, but for the GPUs.
 */
int change_remember(const struct inventory *before, struct inventory *after);

#endif
