/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/units/brute.h"

#include <string.h>

static uint64_t random_state;

void random_seed(uint64_t seed)
{
	random_state = seed | 1;
}

uint32_t random_below(uint32_t limit)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (uint32_t)((random_state >> 11) % limit);
}

void shape_set(struct allocator_topology *shape, uint32_t a, uint32_t b, int32_t weight)
{
	shape->weight[a][b] = shape->weight[b][a] = weight;
}

void shape_make(struct allocator_topology *shape, uint32_t gpus, enum shape_kind kind)
{
	memset(shape, 0, sizeof(*shape));
	shape->gpu_count = gpus;
	for (uint32_t a = 0; a < gpus; a++) {
		shape->numa[a] = kind == SHAPE_UNIFORM ? GPU_NUMA_NONE : (int32_t)(a * 2 / gpus);
		for (uint32_t b = 0; b < a; b++) {
			int32_t weight = 30;
			if (kind == SHAPE_RANDOM)
				weight = (int32_t)random_below(700);
			else if (kind == SHAPE_FEW_VALUES)
				weight = (int32_t)random_below(3) * 10;
			else if (kind == SHAPE_DGX2)
				weight = 600 + (a / 2 == b / 2	 ? 50
						: a / 4 == b / 4 ? 40
						: a / 8 == b / 8 ? 30
								 : 10);
			shape_set(shape, a, b, weight);
		}
	}
}

/* The rule of allocator.h, word by word, with sets as masks and no cleverness. */
struct brute {
	const struct allocator_topology *shape;
	uint32_t available, must, size;
	int32_t best_total;
	int32_t sum[1 << BRUTE_MAX]; /* of the weights of a set's pairs */
	bool occurs[1 << BRUTE_MAX]; /* sets that hold `must` in a partition of best_total */
};

static int32_t brute_add_up(const struct allocator_topology *shape, uint32_t set)
{
	int32_t sum = 0;
	for (uint32_t a = 0; a < shape->gpu_count; a++) {
		for (uint32_t b = 0; b < a; b++) {
			if ((set >> a & 1) && (set >> b & 1))
				sum += shape->weight[a][b];
		}
	}
	return sum;
}

/* Cuts `rest` further; `holder` is the set that holds all of must, 0 while there is none. */
static void brute_cut(struct brute *brute, uint32_t rest, int32_t total, uint32_t holder,
		      const uint32_t *sets, uint32_t set_count)
{
	if ((uint32_t)__builtin_popcount(rest) < brute->size) {
		if (brute->must != 0 && holder == 0)
			return;
		total += brute->sum[rest];
		if (total > brute->best_total) {
			brute->best_total = total;
			memset(brute->occurs, 0, sizeof(brute->occurs));
		}
		if (total < brute->best_total)
			return;
		if (brute->must != 0) {
			brute->occurs[holder] = true;
			return;
		}
		for (uint32_t i = 0; i < set_count; i++)
			brute->occurs[sets[i]] = true;
		return;
	}
	for (uint32_t set = rest; set != 0; set = (set - 1) & rest) {
		if ((uint32_t)__builtin_popcount(set) != brute->size)
			continue;
		/* Sets in falling order, so that each partition is met once. */
		if (set_count > 0 && set > sets[set_count - 1])
			continue;
		bool holds = brute->must != 0 && (set & brute->must) == brute->must;
		uint32_t now[BRUTE_MAX + 1];
		memcpy(now, sets, set_count * sizeof(*sets));
		now[set_count] = set;
		brute_cut(brute, rest ^ set, total + brute->sum[set], holds ? set : holder, now,
			  set_count + 1);
	}
}

static uint32_t brute_nodes(const struct allocator_topology *shape, uint32_t set)
{
	uint32_t count = 0;
	for (uint32_t a = 0; a < shape->gpu_count; a++) {
		bool first = set >> a & 1;
		for (uint32_t b = 0; b < a; b++) {
			if ((set >> b & 1) && shape->numa[a] == shape->numa[b])
				first = false;
		}
		count += first;
	}
	return count;
}

/* -1: `a` comes before `b` as a list of rising indices. */
static int brute_list_compare(uint32_t a, uint32_t b)
{
	for (uint32_t i = 0; i < 32; i++) {
		bool in_a = a >> i & 1, in_b = b >> i & 1;
		if (in_a != in_b)
			return in_a ? -1 : 1;
	}
	return 0;
}

uint32_t brute_choose(const struct allocator_topology *shape, uint32_t available, uint32_t must,
		      uint32_t size)
{
	static const uint32_t none[1];
	static struct brute state;
	struct brute *brute = &state;
	brute->shape = shape;
	brute->available = available;
	brute->must = must;
	brute->size = size;
	for (uint32_t set = 0; set < 1u << shape->gpu_count; set++)
		brute->sum[set] = brute_add_up(shape, set);
	brute->best_total = INT32_MIN;
	memset(brute->occurs, 0, sizeof(brute->occurs));
	brute_cut(brute, brute->available, 0, 0, none, 0);
	uint32_t best = 0;
	for (uint32_t set = 1; set < 1u << brute->shape->gpu_count; set++) {
		if (!brute->occurs[set])
			continue;
		int32_t by_sum = 1, by_left = 0;
		int by_nodes = 0, by_list = -1;
		if (best != 0) {
			by_sum = brute->sum[set] - brute->sum[best];
			by_nodes = (int)brute_nodes(brute->shape, best) -
				   (int)brute_nodes(brute->shape, set);
			by_left = brute->sum[brute->available & ~set] -
				  brute->sum[brute->available & ~best];
			by_list = brute_list_compare(set, best);
		}
		if (by_sum > 0 ||
		    (by_sum == 0 &&
		     (by_nodes > 0 ||
		      (by_nodes == 0 && (by_left > 0 || (by_left == 0 && by_list < 0))))))
			best = set;
	}
	return best;
}
