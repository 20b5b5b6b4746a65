/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which GPUs a job may have: the inventory and what the user asked for in, a list of candidates
 * out; and of those that turn out to be free, the ones to take. Pure: takes no tokens, asks no
 * driver. Knows nothing of commands or of who waits.
 */
#ifndef SLUICE_DOORS_QUEUE_PLACE_H
#define SLUICE_DOORS_QUEUE_PLACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hardware/gpu.h"

struct err;
struct snapshot;

enum place_limits {
	PLACE_UNIT_MAX = GPU_MAX * 4, /* GPUs and MIG devices of one machine that are looked at */
	PLACE_IDS_MAX = 8192,	      /* bytes of a list of ids */
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

struct place {
	struct place_unit unit[PLACE_UNIT_MAX];
	size_t count;
	size_t needed; /* how many of them the job gets */
};

/*
 * Fills `out` with what the job may have.
 *
 * `ids` NULL: `needed` of the whole GPUs of the machine; of its MIG devices if all its GPUs are
 * split into such. -ERANGE, with both numbers in the text, if there are not that many, healthy or
 * not. Otherwise exactly these: NVML indices, "3:1" for MIG device 1 of GPU 3, and UUIDs,
 * separated by commas. -EINVAL for a list that cannot be read, names something twice, or a GPU
 * that is split by MIG; -ENOENT for what is not there.
 *
 * `snapshot` (may be NULL) tells what computes where: graphics alone does not make a GPU taken, or
 * nobody could use the one that drives the display.
 */
int place_find(const struct inventory *inventory, const struct snapshot *snapshot, const char *ids,
	       size_t needed, struct place *out, struct err *err);

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

/*
 * Chooses place->needed of the units whose `free` is true (as many at least are) and sets their
 * `chosen`: whole GPUs that are best connected and leave the rest well connected, MIG devices of
 * the fullest GPUs. Both arrays have place->count entries. -ENOMEM.
 */
int place_choose(const struct inventory *inventory, const struct place *place, const bool *is_free,
		 bool *chosen, struct err *err);

#endif
