/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The answer of gpunodes.h to the last plan, for whoever starts many jobs in a row that get the
 * same: reading the files takes milliseconds. It is read again for another plan, when one of the
 * directories that nodes appear in has changed, and after GPUNODES_CACHE_NS in any case. What
 * appears within that time is denied all the same: the ranges have the numbers that it can get.
 */
#ifndef SLUICE_HARDWARE_GPUNODES_CACHE_H
#define SLUICE_HARDWARE_GPUNODES_CACHE_H

#include <stdbool.h>
#include <time.h>

#include "hardware/gpunodes.h"

enum gpunodes_cache_limits { GPUNODES_CACHE_STAMPS = 3 };

#define GPUNODES_CACHE_NS UINT64_C(1000000000)

/* Of a directory, as it was. */
struct gpunodes_stamp {
	uint64_t device, inode;
	struct timespec changed; /* zero: it is not there */
};

/* Zero-initialised. */
struct gpunodes_cache {
	bool is_filled;
	uint64_t until_ns;
	char *root;		       /* owned */
	struct gpunodes_plan plan;     /* owned: what was asked */
	struct gpunodes_range *ranges; /* owned: and answered */
	size_t count;
	uint32_t unknown;
	struct gpunodes_stamp stamps[GPUNODES_CACHE_STAMPS];
};

void gpunodes_cache_done(struct gpunodes_cache *cache);

/* The ranges of gpunodes_ranges() (borrowed: until the next call), and of how many devices the
 * nodes are not known. `now_ns`: CLOCK_MONOTONIC. -ENOMEM, -E2BIG. */
int gpunodes_cache_find(struct gpunodes_cache *cache, const struct gpunodes_plan *plan,
			const char *root, uint64_t now_ns, const struct gpunodes_range **out,
			size_t *out_count, uint32_t *out_unknown, struct err *err);

#endif
