/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the ranks put into their buffers, and what must come out: a function of seed, rank and
 * element alone, so that every element of every rank can be compared without asking anybody.
 *
 * Reductions are exact in any order and any grouping, so that there is one right answer, bit by
 * bit. Sums of floating point: each rank's value is an integer times a power of two that all ranks
 * share; the integers are differences of hashed numbers around the ring of ranks, which cancel, and
 * at one hashed rank the target besides; no sum of some of them needs more bits than the type has.
 * Products: one factor with all its bits at a hashed rank, powers of two that cancel at the others.
 * Integers: the same with numbers of full width, which wrap. Averages: the target is divisible by
 * the ranks.
 *
 * One exception: averages of floating point over a number of ranks that is no power of two. A
 * library may multiply by 1/ranks before it adds, as NCCL does, which rounds; there a result passes
 * that lies within the bound of these roundings: pattern_tolerance(). One that adds and then
 * divides has the exact value. With bfloat16 and more than some 20 ranks that bound is as large as
 * what one rank contributes, so that a missing one is not seen there.
 *
 * Pure; knows nothing of buffers, guards and backends.
 */
#ifndef SLUICE_BENCH_COLLECTIVES_PATTERN_H
#define SLUICE_BENCH_COLLECTIVES_PATTERN_H

#include <stddef.h>
#include <stdint.h>

#include "bench/collectives/collective.h"

enum pattern_limits {
	/* Bytes after which data with a period repeat; fits the smallest first-level caches. */
	PATTERN_PERIOD_BYTES = 4096,
};

struct pattern_plan {
	enum collective_op op;
	enum collective_type type;
	enum collective_redop redop; /* not read for operations that do not reduce */
	uint32_t root, ranks;	     /* ranks: 1 to COLLECTIVE_RANKS_MAX */
	uint64_t seed;
	/* Elements repeat after PATTERN_PERIOD_BYTES: data that are cheap to write again between
	 * operations. Else none repeats. */
	bool is_periodic;
};

/* Plain data, made by pattern_init(). */
struct pattern {
	struct pattern_plan plan;
	struct collective_shape shape;
	uint64_t period_mask; /* of an element's index */
	uint32_t bits;	      /* integers of a sum stay within +-2^bits */
	uint32_t spread_mask; /* of the hashed numbers that cancel; 2^k - 1 */
	uint32_t stride_mask; /* only every so many-th rank has one: 2^k - 1 */
	uint32_t target_bits; /* of the signed target; 0: it is 0 */
	uint32_t target_by;   /* what the target is multiplied with: the ranks for averages */
	double divisor;	      /* of the result; the ranks for averages not done by target_by */
};

void pattern_init(const struct pattern_plan *plan, const struct collective_shape *shape,
		  struct pattern *out);

/* How many elements `rank` gives, and how many it must have in the end, 0 where only the root does:
 * broadcast and scatter, reduce and gather. After a broadcast the root has them as well. */
uint64_t pattern_send_count(const struct pattern *pattern, uint32_t rank);
uint64_t pattern_receive_count(const struct pattern *pattern, uint32_t rank);

/* Elements `first` to first + count of what `rank` gives; of what it must have. `out` has room for
 * them, and need not be aligned. */
void pattern_send(const struct pattern *pattern, uint32_t rank, uint64_t first, uint64_t count,
		  void *out);
void pattern_receive(const struct pattern *pattern, uint32_t rank, uint64_t first, uint64_t count,
		     void *out);

/* Compares these elements; how many are wrong. The first of them: *out_element, counted from the
 * beginning of the buffer like `first`, untouched if all are right. */
uint64_t pattern_check_send(const struct pattern *pattern, uint32_t rank, uint64_t first,
			    uint64_t count, const void *got, uint64_t *out_element);
uint64_t pattern_check_receive(const struct pattern *pattern, uint32_t rank, uint64_t first,
			       uint64_t count, const void *got, uint64_t *out_element);

/* How far a result may lie from the expected one, in units of the power of two that its inputs are
 * multiples of; 0 but for the averages above. */
double pattern_tolerance(const struct pattern *pattern);

#endif
