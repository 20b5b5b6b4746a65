/* SPDX-License-Identifier: Apache-2.0 */
#include "units/exact.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

enum exact_internals {
	EXACT_TABLE_MIN = 2,	     /* sizes for which best[] is needed: 1 is trivial, */
	EXACT_TABLE_MAX = 7,	     /* from 8 on a partition has at most two full sets */
	EXACT_REMAINDERS_MAX = 1820, /* C(16, 4), the most there are for any size */
	EXACT_PATTERNS_MAX = 210,    /* C(10, 4), likewise with one set taken out */
};

struct exact {
	uint32_t count;
	int32_t *sum;	/* owned; by mask */
	uint16_t *rank; /* owned; place of a mask among those with as many bits */
	uint32_t class_size[EXACT_MAX + 1]; /* masks with that many bits */
	/* best[k]: the largest total of cutting a mask of a multiple of k bits into sets of k */
	int32_t *best[EXACT_TABLE_MAX + 1]; /* owned */
	uint32_t class_offset[EXACT_TABLE_MAX + 1][EXACT_MAX + 1];
	uint16_t node_bit[EXACT_MAX]; /* one bit per NUMA node */
};

/* All subsets of `take` elements of a mask, in the order of their lists of elements. */
struct subsets {
	uint16_t element[EXACT_MAX];
	uint32_t count, take;
	uint32_t place[EXACT_MAX];
	uint16_t set;
};

static uint32_t bits(uint32_t mask)
{
	return (uint32_t)__builtin_popcount(mask);
}

/* The first subset. False when there is none. */
static bool subsets_first(struct subsets *subsets, uint16_t mask, uint32_t take)
{
	subsets->count = 0;
	for (uint32_t rest = mask; rest != 0; rest &= rest - 1)
		subsets->element[subsets->count++] = (uint16_t)(rest & -rest);

	subsets->take = take;
	subsets->set = 0;
	if (take > subsets->count)
		return false;

	for (uint32_t i = 0; i < take; i++) {
		subsets->place[i] = i;
		subsets->set |= subsets->element[i];
	}

	return true;
}

static bool subsets_next(struct subsets *subsets)
{
	uint32_t i = subsets->take;
	while (i > 0 && subsets->place[i - 1] == subsets->count - subsets->take + i - 1) {
		i--;
		subsets->set ^= subsets->element[subsets->place[i]];
	}

	if (i == 0)
		return false;

	subsets->set ^= subsets->element[subsets->place[i - 1]];
	subsets->place[i - 1]++;
	subsets->set |= subsets->element[subsets->place[i - 1]];

	for (; i < subsets->take; i++) {
		subsets->place[i] = subsets->place[i - 1] + 1;
		subsets->set |= subsets->element[subsets->place[i]];
	}

	return true;
}

struct exact *exact_new(uint32_t count, int32_t (*weight)[EXACT_MAX], const int32_t *node)
{
	struct exact *exact = calloc(1, sizeof(*exact));
	if (!exact)
		return NULL;

	size_t masks = (size_t)1 << count;

	exact->count = count;
	exact->sum = calloc(masks, sizeof(*exact->sum));
	exact->rank = calloc(masks, sizeof(*exact->rank));
	if (!exact->sum || !exact->rank)
		return exact_free(exact);

	for (uint32_t mask = 1; mask < masks; mask++) {
		uint32_t low = (uint32_t)__builtin_ctz(mask);
		uint32_t rest = mask & (mask - 1);
		int32_t sum = exact->sum[rest];

		for (uint32_t other = rest; other != 0; other &= other - 1)
			sum += weight[low][__builtin_ctz(other)];

		exact->sum[mask] = sum;
	}

	for (uint32_t mask = 0; mask < masks; mask++)
		exact->rank[mask] = (uint16_t)exact->class_size[bits(mask)]++;

	for (uint32_t i = 0; i < count; i++) {
		uint32_t first = 0;
		while (node[first] != node[i])
			first++;
		exact->node_bit[i] = (uint16_t)(1u << first);
	}

	return exact;
}

struct exact *exact_free(struct exact *exact)
{
	if (!exact)
		return NULL;

	for (uint32_t k = 0; k <= EXACT_TABLE_MAX; k++)
		free(exact->best[k]);

	free(exact->sum);
	free(exact->rank);
	free(exact);

	return NULL;
}

static int32_t *exact_best(const struct exact *exact, uint32_t size, uint16_t mask)
{
	return &exact->best[size][exact->class_offset[size][bits(mask)] + exact->rank[mask]];
}

/* One entry from those of smaller masks: the lowest GPU is in some set; try each such set. */
static int32_t exact_best_of(const struct exact *exact, uint32_t size, uint16_t mask)
{
	uint16_t low = (uint16_t)(mask & -mask);
	int32_t best = INT32_MIN;
	struct subsets others;

	for (bool more = subsets_first(&others, mask ^ low, size - 1); more;
	     more = subsets_next(&others)) {
		uint16_t set = others.set | low;
		int32_t total = exact->sum[set] + *exact_best(exact, size, mask ^ set);
		if (total > best)
			best = total;
	}

	return best;
}

int exact_prepare(struct exact *exact, uint32_t size)
{
	if (size < EXACT_TABLE_MIN || size > EXACT_TABLE_MAX || exact->best[size])
		return 0;

	uint32_t entries = 0;
	for (uint32_t count = 0; count <= exact->count; count += size) {
		exact->class_offset[size][count] = entries;
		entries += exact->class_size[count];
	}

	int32_t *best = calloc(entries, sizeof(*best));
	if (!best)
		return -ENOMEM;

	exact->best[size] = best;
	/* A mask is larger than each of its subsets, so those are done before it. */
	for (uint32_t mask = 1; mask < (1u << exact->count); mask++) {
		if (bits(mask) % size == 0)
			*exact_best(exact, size, (uint16_t)mask) =
			    exact_best_of(exact, size, (uint16_t)mask);
	}

	return 0;
}

/* What is being looked for, and the best so far. */
struct search {
	const struct exact *exact;
	uint16_t available;
	uint32_t size;
	int32_t total; /* of the best partition so far */
	bool found;
	uint16_t set;
};

static uint32_t exact_nodes(const struct exact *exact, uint16_t set)
{
	uint16_t nodes = 0;
	for (uint32_t rest = set; rest != 0; rest &= rest - 1)
		nodes |= exact->node_bit[__builtin_ctz(rest)];
	return bits(nodes);
}

/* Whether `set` beats the best so far among sets of equal total. */
static bool search_prefers(const struct search *search, uint16_t set)
{
	if (!search->found)
		return true;

	const struct exact *exact = search->exact;
	if (exact->sum[set] != exact->sum[search->set])
		return exact->sum[set] > exact->sum[search->set];

	uint32_t nodes = exact_nodes(exact, set), best_nodes = exact_nodes(exact, search->set);
	if (nodes != best_nodes)
		return nodes < best_nodes;

	int32_t left = exact->sum[search->available ^ set];
	int32_t best_left = exact->sum[search->available ^ search->set];

	if (left != best_left)
		return left > best_left;

	uint32_t differ = (uint32_t)(set ^ search->set);
	return (set & (differ & -differ)) != 0; /* has the lowest GPU in which they differ */
}

static void search_offer(struct search *search, uint16_t set, int32_t total)
{
	if (search->found && total < search->total)
		return;
	if (search->found && total > search->total)
		search->found = false;

	if (search_prefers(search, set)) {
		search->found = true;
		search->total = total;
		search->set = set;
	}
}

/* At most two parts: the set, and all that is left. Also size 1, where every set is as good. */
static void search_two_parts(struct search *search, uint16_t must)
{
	struct subsets more;
	uint32_t take = search->size - bits(must);

	for (bool go = subsets_first(&more, search->available ^ must, take); go;
	     go = subsets_next(&more)) {
		uint16_t set = more.set | must;
		int32_t total = search->exact->sum[set];
		total += search->exact->sum[search->available ^ set];
		search_offer(search, set, search->size == 1 ? 0 : total);
	}
}

/* The subsets of some size of a set of `count` elements, as masks over the elements' places. */
struct patterns {
	uint32_t count; /* elements */
	uint32_t pattern_count;
	uint16_t pattern[EXACT_PATTERNS_MAX];
};

static void patterns_make(struct patterns *patterns, uint32_t count, uint32_t take)
{
	struct subsets places;
	patterns->count = count;
	patterns->pattern_count = 0;
	for (bool go = subsets_first(&places, (uint16_t)((1u << count) - 1), take); go;
	     go = subsets_next(&places))
		patterns->pattern[patterns->pattern_count++] = places.set;
}

/* expand[p]: the elements of `from`, lowest first, at the places that are set in p. */
static uint32_t patterns_expand(uint32_t from, uint32_t places, uint16_t *expand)
{
	expand[0] = 0;
	for (uint32_t place = 0; place < places; place++, from &= from - 1) {
		uint32_t half = 1u << place;
		for (uint32_t p = 0; p < half; p++)
			expand[half + p] = (uint16_t)(expand[p] | (from & -from));
	}
	return from;
}

/* The largest total of cutting `mask` into sets and a remainder. This is the innermost loop of the
 * slowest questions, so each remainder costs a few loads: its elements come from two small tables.
 */
static int32_t exact_left(const struct search *search, uint16_t mask,
			  const struct patterns *remainders)
{
	const struct exact *exact = search->exact;
	uint16_t low[1 << (EXACT_MAX / 2)], high[1 << (EXACT_MAX / 2)];
	uint32_t low_places = remainders->count / 2;
	uint32_t rest = patterns_expand(mask, low_places, low);

	(void)patterns_expand(rest, remainders->count - low_places, high);
	uint32_t low_mask = (1u << low_places) - 1;

	bool one_set = remainders->count < 2 * search->size;
	int32_t best = INT32_MIN;

	for (uint32_t i = 0; i < remainders->pattern_count; i++) {
		uint32_t pattern = remainders->pattern[i];
		uint16_t remainder = low[pattern & low_mask] | high[pattern >> low_places];
		uint16_t sets = mask ^ remainder;
		int32_t total = exact->sum[remainder];

		total += one_set ? exact->sum[sets] : *exact_best(exact, search->size, sets);
		if (total > best)
			best = total;
	}

	return best;
}

/* Several that must be in one set: every such set with the best cut of what it leaves. */
static void search_joint(struct search *search, uint16_t must)
{
	struct patterns remainders;
	uint32_t left = bits(search->available) - search->size;

	patterns_make(&remainders, left, left % search->size);

	struct subsets more;
	uint32_t take = search->size - bits(must);

	for (bool go = subsets_first(&more, search->available ^ must, take); go;
	     go = subsets_next(&more)) {
		uint16_t set = more.set | must;
		search_offer(search, set,
			     search->exact->sum[set] +
				 exact_left(search, search->available ^ set, &remainders));
	}
}

struct remainders {
	uint32_t count;
	uint16_t set[EXACT_REMAINDERS_MAX];
};

/* The remainders of the best partitions, and their total. With at most one GPU that must be in, any
 * partition that does not leave it over has a set that holds it. */
static int32_t exact_remainders(const struct search *search, uint16_t must, struct remainders *out)
{
	const struct exact *exact = search->exact;
	int32_t best = INT32_MIN;
	struct subsets remainder;
	uint32_t left_over = bits(search->available) % search->size;

	for (bool go = subsets_first(&remainder, search->available ^ must, left_over); go;
	     go = subsets_next(&remainder)) {
		uint16_t full = search->available ^ remainder.set;
		int32_t total = exact->sum[remainder.set] + *exact_best(exact, search->size, full);
		if (total < best)
			continue;
		if (total > best)
			out->count = 0;
		best = total;
		out->set[out->count++] = remainder.set;
	}

	return best;
}

static bool exact_occurs(const struct search *search, uint16_t set,
			 const struct remainders *remainders)
{
	const struct exact *exact = search->exact;

	for (uint32_t i = 0; i < remainders->count; i++) {
		uint16_t remainder = remainders->set[i];
		if (remainder & set)
			continue;

		int32_t total =
		    exact->sum[set] + exact->sum[remainder] +
		    *exact_best(exact, search->size, search->available ^ remainder ^ set);
		if (total == search->total)
			return true;
	}

	return false;
}

static void search_separate(struct search *search, uint16_t must)
{
	struct remainders remainders = {.count = 0};
	search->total = exact_remainders(search, must, &remainders);

	struct subsets more;
	uint32_t take = search->size - bits(must);

	for (bool go = subsets_first(&more, search->available ^ must, take); go;
	     go = subsets_next(&more)) {
		uint16_t set = more.set | must;
		if (search_prefers(search, set) && exact_occurs(search, set, &remainders)) {
			search->found = true;
			search->set = set;
		}
	}
}

int exact_choose(struct exact *exact, uint16_t available, uint16_t must, uint32_t size,
		 uint16_t *out_set)
{
	struct search search = {.exact = exact, .available = available, .size = size};

	if (size == 1 || 2 * size >= bits(available)) {
		search_two_parts(&search, must);
	} else {
		int rc = exact_prepare(exact, size);
		if (rc < 0)
			return rc;
		if (bits(must) >= 2)
			search_joint(&search, must);
		else
			search_separate(&search, must);
	}

	*out_set = search.set;
	return 0;
}
