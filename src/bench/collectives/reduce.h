/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The arithmetic of reductions: what the elements of several ranks give together. The order is
 * fixed, so that the bits of a result do not depend on the algorithm, on the kind of memory, on
 * how a message was cut, or on the processor: a balanced binary tree over the ranks,
 *
 *	tree(low, high) = tree(low, middle) op tree(middle, high), middle = low + (high - low + 1) /
 *2
 *
 * element by element. Knows nothing of shared memory. Called by the shared-memory backend.
 *
 *  - Integers wrap; avg divides the wrapped sum, towards zero.
 *  - f16 and bf16: every node of the tree is computed in float and rounded to nearest even; so is
 *    the division of avg.
 *  - min is a < b ? a : b and max a > b ? a : b, with a of the lower ranks: where a float is no
 *    number, or both are zero, the one of the higher ranks is taken.
 *  - Where a result is no number, it is so everywhere, but its other bits may differ.
 */
#ifndef SLUICE_BENCH_COLLECTIVES_REDUCE_H
#define SLUICE_BENCH_COLLECTIVES_REDUCE_H

#include <stddef.h>
#include <stdint.h>

#include "bench/collectives/collective.h"

enum reduce_isa { REDUCE_PLAIN, REDUCE_AVX2, REDUCE_AVX512, REDUCE_ISA_COUNT };

/* Functions for one instruction set. Addresses need not be aligned. */
struct reduce;
/* NULL: this processor, or this build, has no such instructions. REDUCE_PLAIN is always there. */
const struct reduce *reduce_get(enum reduce_isa isa);
/* The widest that is there. */
const struct reduce *reduce_best(void);

/* out[i] = the tree over sources[0..ranks)[i], avg divided by `ranks`. `out` may be one of the
 * sources, but not overlap one otherwise; 1 to COLLECTIVE_RANKS_MAX ranks. */
void reduce_tree(const struct reduce *reduce, enum collective_type type,
		 enum collective_redop redop, const void *const *sources, uint32_t ranks, void *out,
		 size_t count);

/* What avg does with a sum, in place: each of them divided by `ranks`. */
void reduce_divide(const struct reduce *reduce, enum collective_type type, void *values,
		   size_t count, uint32_t ranks);

/* memcpy that leaves the destination out of the caches, for what is larger than they are; complete
 * for other processors only after reduce_stream_end(). */
void reduce_stream(void *to, const void *from, size_t bytes);
void reduce_stream_end(void);

/* IEEE binary16 and bfloat16 as float and back, to nearest even; no number becomes a quiet one. */
float reduce_from_f16(uint16_t bits);
float reduce_from_bf16(uint16_t bits);
uint16_t reduce_to_f16(float value);
uint16_t reduce_to_bf16(float value);

#endif
