/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a job can be given: a GPU or MIG device, described as the inventory and the last snapshot
 * have it, and found by the name that people give it. Pure: takes no tokens, asks no driver. Knows
 * nothing of jobs or of who waits.
 */
#ifndef SLUICE_JOB_PLACE_H
#define SLUICE_JOB_PLACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hardware/gpu.h"

struct err;
struct snapshot;

enum place_limits {
	PLACE_UNIT_MAX = GPU_MAX * 4, /* GPUs and MIG devices of one machine that are looked at */
	PLACE_LABEL_MAX = 24,
	PLACE_USER_MAX = 33, /* bytes of a user's name with the final NUL */
};

#define PLACE_WHOLE UINT32_MAX

/* One GPU, or one MIG device, that a job may get. */
struct place_unit {
	char uuid[GPU_UUID_MAX];
	char label[PLACE_LABEL_MAX]; /* "GPU 3", "MIG 3:1": as people name it */
	uint32_t index;		     /* NVML's, of the GPU */
	uint32_t gpu;		     /* place in inventory.gpus */
	uint32_t mig;		     /* place in inventory.migs, or PLACE_WHOLE */
	bool healthy;
	char reason[GPU_REASON_MAX]; /* why not */
	uint32_t outsider; /* a process that computes there, as the driver sees it; 0: none */
	char outsider_user[PLACE_USER_MAX]; /* whose it is; "": not known */
};

/* Whose process that is: NULL for one of our own jobs', otherwise a user's name, "" when that is
 * not known. Borrowed until the next call. */
typedef const char *place_stranger(uint32_t pid, void *context);

/*
 * Describes GPU `gpu`, or MIG device `mig` of it (places in the inventory; PLACE_WHOLE for none).
 * It is healthy when both inventory and snapshot (may be NULL) say so. A process for which
 * `stranger` (NULL: for which anything is) is not NULL becomes the outsider.
 */
void place_describe(const struct inventory *inventory, const struct snapshot *snapshot,
		    uint32_t gpu, uint32_t mig, place_stranger *stranger, void *context,
		    struct place_unit *out);

/*
 * What one id names, NVML's index, "3:1" or a UUID: the places in the inventory, `out_mig`
 * PLACE_WHOLE for a GPU. -EINVAL for what cannot be read and for a GPU that is split by MIG,
 * -ENOENT for what is not there.
 */
int place_resolve(const struct inventory *inventory, const char *id, uint32_t *out_gpu,
		  uint32_t *out_mig, struct err *err);

/*
 * The next id of the list at `*list`, which moves behind it and is NULL after the last: 1, or 0
 * when there is none; -EINVAL for an empty list or entry, or one that is too long.
 */
int place_next_id(const char **list, char out[GPU_UUID_MAX], struct err *err);

#endif
