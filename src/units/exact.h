/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The optimal choice of k of up to 16 GPUs, by tables over all subsets. A subset is a 16-bit mask;
 * the number of a GPU is its bit. Only the allocator uses this; the objective is explained there.
 */
#ifndef SLUICE_UNITS_EXACT_H
#define SLUICE_UNITS_EXACT_H

#include <stdint.h>

enum exact_limits {
	EXACT_MAX = 16,
};

struct exact;

/* Tables for `count` GPUs (at most EXACT_MAX). `weight[a][b]` is symmetric; GPUs with equal
 * `node` are on one NUMA node. NULL: no memory. */
struct exact *exact_new(uint32_t count, int32_t (*weight)[EXACT_MAX], const int32_t *node);
struct exact *exact_free(struct exact *exact);

/* The tables for sets of `size`; done by exact_choose() when needed. 0 or -ENOMEM. */
int exact_prepare(struct exact *exact, uint32_t size);

/* The best set of `size` within `available` that holds all of `must`; 0 < size < popcount of
 * `available`, `must` is a subset of `available` and smaller than `size`. 0 or -ENOMEM. */
int exact_choose(struct exact *exact, uint16_t available, uint16_t must, uint32_t size,
		 uint16_t *out_set);

#endif
