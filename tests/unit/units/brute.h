/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The allocator's rule once more, word by word as allocator.h states it and with no cleverness:
 * every partition is tried. Tests compare the two.
 */
#ifndef TESTS_UNIT_UNITS_BRUTE_H
#define TESTS_UNIT_UNITS_BRUTE_H

#include <stdbool.h>
#include <stdint.h>

#include "units/allocator.h"

enum brute_limits {
	BRUTE_MAX = 12, /* GPUs for which every partition can be tried */
};

enum shape_kind { SHAPE_UNIFORM, SHAPE_RANDOM, SHAPE_FEW_VALUES, SHAPE_DGX2, SHAPE_KINDS };

/* Numbers that depend on the seed alone. */
void random_seed(uint64_t seed);
uint32_t random_below(uint32_t limit);

void shape_set(struct allocator_topology *shape, uint32_t a, uint32_t b, int32_t weight);
void shape_make(struct allocator_topology *shape, uint32_t gpus, enum shape_kind kind);

/* The set that the rule names, as a mask; `must` within `available`, |must| < size < |available|,
 * and at most BRUTE_MAX GPUs. */
uint32_t brute_choose(const struct allocator_topology *shape, uint32_t available, uint32_t must,
		      uint32_t size);

#endif
