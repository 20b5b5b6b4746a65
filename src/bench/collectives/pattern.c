/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/collectives/pattern.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "bench/collectives/element.h"

/* Values are made in blocks of this many, also where fewer are wanted: loops over a constant number
 * become vector instructions. */
enum { BLOCK = 256 };

/* What all the ranks of a reduction have in common in one block. */
struct block {
	uint32_t common[BLOCK]; /* hash of the element */
	uint32_t own[BLOCK];	/* hash of rank and element */
	int32_t value[BLOCK];
};

enum {
	F16_SCALE_LOW = -3,
	F16_SCALE_MASK = 7, /* 2^-3 to 2^4: 2^11 times that is below 65504 */
	WIDE_SCALE_LOW = -16,
	WIDE_SCALE_MASK = 31,
	WIDE_INTEGER_SHIFT = 24, /* what 64-bit integers of averages are shifted by */
	POWER_SPREAD = 7,	 /* of the exponents of 3 in products of integers */
};

static bool is_power_of_2(uint32_t n)
{
	return (n & (n - 1)) == 0;
}

/* Bits of the significand. */
static uint32_t mantissa_bits(enum collective_type type)
{
	switch (type) {
	case COLLECTIVE_F16:
		return 11;
	case COLLECTIVE_BF16:
		return 8;
	case COLLECTIVE_F32:
		return 24;
	default:
		return 53;
	}
}

/* Chooses the hashed numbers so that no sum of some of the ranks' differences is above `most`.
 * Beside each other they cancel, so that at most every second rank counts. */
static void choose_spread(struct pattern *pattern, uint32_t most)
{
	uint32_t ranks = pattern->plan.ranks, terms = ranks / 2 ? ranks / 2 : 1, stride = 1;
	uint32_t spread = 1;

	if (terms > most) {
		while ((ranks + stride - 1) / stride > most)
			stride *= 2;
	} else {
		while (spread <= (UINT32_MAX >> 2) && (uint64_t)terms * (spread * 2 + 1) <= most)
			spread = spread * 2 + 1;
	}

	pattern->spread_mask = spread;
	pattern->stride_mask = stride - 1;
}

static uint32_t log2_floor(uint32_t n)
{
	return 31 - (uint32_t)__builtin_clz(n);
}

/* For averages the target is a multiple of the ranks, and stays below 2^(bits - 1). */
static void choose_average(struct pattern *pattern)
{
	uint32_t ranks = pattern->plan.ranks, below = UINT32_C(1) << (pattern->bits - 1);
	enum collective_type type = pattern->plan.type;

	if (element_is_float(type) && is_power_of_2(ranks)) {
		pattern->divisor = ranks; /* exact for whatever target */
		return;
	}

	pattern->target_by = ranks;
	pattern->target_bits = ranks <= below ? log2_floor(below / ranks) + 1 : 0;

	/* Without negative numbers each rank gives the mask besides. */
	while (element_is_unsigned(type) &&
	       (uint64_t)ranks * pattern->spread_mask > 2 * (uint64_t)below)
		pattern->spread_mask >>= 1;
}

/* Of the numbers that are added up: they are made as integers of 32 bits, one of them the sign. */
static uint32_t integer_bits(enum collective_type type)
{
	if (element_is_float(type))
		return mantissa_bits(type) > 31 ? 31 : mantissa_bits(type);
	size_t size = collective_type_size(type);
	/* Those of 64 bits are stretched afterwards, and must not have wrapped before. */
	return size == 8 ? 30 : (uint32_t)size * 8 - 1;
}

void pattern_init(const struct pattern_plan *plan, const struct collective_shape *shape,
		  struct pattern *out)
{
	*out = (struct pattern){.plan = *plan,
				.shape = *shape,
				.period_mask = UINT64_MAX,
				.target_by = 1,
				.divisor = 1};
	size_t size = collective_type_size(plan->type);

	if (plan->is_periodic)
		out->period_mask = PATTERN_PERIOD_BYTES / size - 1;
	out->bits = integer_bits(plan->type);
	out->target_bits = out->bits;

	if (plan->redop == COLLECTIVE_PROD && element_is_float(plan->type))
		choose_spread(out, plan->type == COLLECTIVE_F16 ? 12 : 100);
	else if (plan->redop == COLLECTIVE_PROD)
		out->spread_mask = POWER_SPREAD;
	else if (plan->redop == COLLECTIVE_SUM && !element_is_float(plan->type) && size < 8)
		out->spread_mask = UINT32_MAX; /* wraps in 32 bits, which all shorter ones keep */
	else
		choose_spread(out, UINT32_C(1) << (out->bits - 1));

	if (plan->redop == COLLECTIVE_AVG)
		choose_average(out);
}

double pattern_tolerance(const struct pattern *pattern)
{
	const struct pattern_plan *plan = &pattern->plan;
	if (!collective_op_reduces(plan->op) || plan->redop != COLLECTIVE_AVG ||
	    !element_is_float(plan->type) || is_power_of_2(plan->ranks))
		return 0;

	/* Each product and each of the ranks - 1 sums is off by at most 2^-mantissa of what is
	 * added up in magnitude, which is at most 1.5 * 2^bits / ranks; 1/ranks itself is rounded.
	 */
	return ldexp(2.25, (int)pattern->bits - (int)mantissa_bits(plan->type));
}

/* Chris Wellons' lowbias32: every bit of the input moves every bit of the output. */
static inline uint32_t mix32(uint32_t x)
{
	x ^= x >> 16;
	x *= UINT32_C(0x21f0aaad);
	x ^= x >> 15;
	x *= UINT32_C(0xd35a2d97);
	x ^= x >> 15;
	return x;
}

static uint32_t key_of(uint64_t seed, uint32_t stream, uint64_t high)
{
	uint64_t x = seed + stream * UINT64_C(0x9e3779b97f4a7c15) + high;
	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return (uint32_t)(x ^ x >> 31);
}

/* Stream 0 is what the ranks have in common, stream r + 1 is rank r's. */
static void hash_block(const struct pattern *pattern, uint32_t stream, uint64_t first,
		       uint32_t out[BLOCK])
{
	uint64_t start = first & pattern->period_mask;
	uint32_t key = key_of(pattern->plan.seed, stream, start >> 32);
	uint32_t low = (uint32_t)start, mask = (uint32_t)pattern->period_mask;
	for (uint32_t i = 0; i < BLOCK; i++)
		out[i] = mix32(((low + i) & mask) + key);
}

/* The rank that has the target. */
static inline uint32_t position_of(uint32_t common, uint32_t ranks)
{
	return ((common >> 16) * ranks) >> 16;
}

static inline int32_t signed_bits(uint32_t common, uint32_t bits)
{
	if (bits == 0)
		return 0;
	uint32_t mixed = common * UINT32_C(0x9e3779b1);
	return (int32_t)(mixed ^ mixed >> 13) >> (32 - bits);
}

/* value[] becomes this rank's hashed number minus that of the next rank. */
static void difference_block(const struct pattern *pattern, uint32_t rank, uint64_t first,
			     struct block *block)
{
	uint32_t ranks = pattern->plan.ranks, next = rank + 1 == ranks ? 0 : rank + 1;
	uint32_t mask = pattern->spread_mask, stride = pattern->stride_mask;
	uint32_t theirs[BLOCK];

	hash_block(pattern, rank + 1, first, block->own);
	hash_block(pattern, next + 1, first, theirs);

	for (uint32_t i = 0; i < BLOCK; i++) {
		uint32_t at = block->common[i] >> 5;
		uint32_t mine = ((at + rank) & stride) == 0 ? block->own[i] & mask : 0;
		uint32_t other = ((at + next) & stride) == 0 ? theirs[i] & mask : 0;
		block->value[i] = (int32_t)(mine - other);
	}
}

/* What makes targets of averages positive where the type has no negative numbers. */
static uint32_t target_offset(const struct pattern *pattern)
{
	bool is_above =
	    pattern->plan.redop == COLLECTIVE_AVG && element_is_unsigned(pattern->plan.type);
	return is_above && pattern->target_bits ? UINT32_C(1) << (pattern->target_bits - 1) : 0;
}

static void add_target(const struct pattern *pattern, uint32_t rank, struct block *block)
{
	uint32_t ranks = pattern->plan.ranks, bits = pattern->target_bits, by = pattern->target_by;
	uint32_t offset = target_offset(pattern);
	for (uint32_t i = 0; i < BLOCK; i++) {
		uint32_t target = ((uint32_t)signed_bits(block->common[i], bits) + offset) * by;
		uint32_t here = position_of(block->common[i], ranks) == rank ? target : 0;
		block->value[i] = (int32_t)((uint32_t)block->value[i] + here);
	}
}

/* Minimum and maximum: the target at one rank, more or less than it at the others. */
static void extreme_block(const struct pattern *pattern, uint32_t rank, uint64_t first,
			  struct block *block)
{
	bool is_min = pattern->plan.redop == COLLECTIVE_MIN;
	uint32_t ranks = pattern->plan.ranks, bits = pattern->bits;
	uint32_t mask = (UINT32_C(1) << (bits - 2)) - 1;

	hash_block(pattern, rank + 1, first, block->own);

	for (uint32_t i = 0; i < BLOCK; i++) {
		int32_t target = signed_bits(block->common[i], bits);
		int32_t away = (int32_t)(1 + (block->own[i] & mask));
		if (position_of(block->common[i], ranks) == rank)
			away = 0;
		block->value[i] = is_min ? target + away : target - away;
	}
}

static inline float float_of_bits(uint32_t bits)
{
	float value;
	memcpy(&value, &bits, sizeof(value));
	return value;
}

static inline uint32_t bits_of_float(float value)
{
	uint32_t bits;
	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

/* Exact: `value` is 0 or a normal number of binary16. */
static inline uint16_t f16_exact(float value)
{
	uint32_t bits = bits_of_float(value), magnitude = bits & 0x7fffffff;
	uint32_t rebased = (magnitude - (UINT32_C(112) << 23)) >> 13;
	return (uint16_t)((bits >> 16 & 0x8000) | (magnitude ? rebased : 0));
}

/* value[] times the element's power of two, divided by `divisor`, in the type. */
static void store_floats(const struct pattern *pattern, const struct block *block, double divisor,
			 uint8_t *out)
{
	enum collective_type type = pattern->plan.type;
	bool is_narrow = type == COLLECTIVE_F16;
	uint32_t mask = is_narrow ? F16_SCALE_MASK : WIDE_SCALE_MASK;
	uint32_t low = (uint32_t)(127 + (is_narrow ? F16_SCALE_LOW : WIDE_SCALE_LOW));
	float by = (float)(1 / divisor);

	if (type == COLLECTIVE_F64) {
		for (uint32_t i = 0; i < BLOCK; i++) {
			float scale = float_of_bits((low + (block->common[i] & mask)) << 23);
			double value = (double)block->value[i] * (double)scale * (double)by;
			memcpy(out + i * sizeof(value), &value, sizeof(value));
		}

		return;
	}

	float values[BLOCK];
	for (uint32_t i = 0; i < BLOCK; i++) {
		float scale = float_of_bits((low + (block->common[i] & mask)) << 23);
		values[i] = (float)block->value[i] * scale * by;
	}

	if (type == COLLECTIVE_F32) {
		memcpy(out, values, sizeof(values));
		return;
	}

	for (uint32_t i = 0; i < BLOCK; i++) {
		uint16_t half =
		    is_narrow ? f16_exact(values[i]) : (uint16_t)(bits_of_float(values[i]) >> 16);
		memcpy(out + i * sizeof(half), &half, sizeof(half));
	}
}

/* 64 bits of a number of 32: the low half, the high half or both are used by turns. */
static inline uint64_t widened(int32_t value, uint32_t common)
{
	return (uint64_t)(int64_t)value << (common & 16 ? 32 : 0);
}

/* Bytes of `wide`, each the low ones of an element. */
static void store_wide(const uint64_t wide[BLOCK], size_t size, uint8_t *out)
{
	if (size == 8) {
		memcpy(out, wide, BLOCK * sizeof(wide[0]));
		return;
	}

	/* The low bytes come first (checked below); lengths that are known become vectors. */
	for (uint32_t i = 0; i < BLOCK && size == 4; i++)
		memcpy(out + i * 4, &wide[i], 4);

	for (uint32_t i = 0; i < BLOCK && size == 2; i++)
		memcpy(out + i * 2, &wide[i], 2);

	for (uint32_t i = 0; i < BLOCK && size == 1; i++)
		out[i] = (uint8_t)wide[i];
}
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "elements are stored little endian");

static void store_narrow(const uint32_t values[BLOCK], size_t size, uint8_t *out)
{
	if (size == 4) {
		memcpy(out, values, BLOCK * sizeof(values[0]));
		return;
	}

	if (size == 2) {
		uint16_t half[BLOCK];
		for (uint32_t i = 0; i < BLOCK; i++)
			half[i] = (uint16_t)values[i];
		memcpy(out, half, sizeof(half));
		return;
	}

	for (uint32_t i = 0; i < BLOCK; i++)
		out[i] = (uint8_t)values[i];
}

/* Order is kept: the smallest number becomes 0 where there are no negative ones. */
static void store_extremes(const struct pattern *pattern, const struct block *block, uint8_t *out)
{
	enum collective_type type = pattern->plan.type;
	size_t size = collective_type_size(type);

	if (element_is_float(type)) {
		store_floats(pattern, block, 1, out);
		return;
	}

	uint64_t flip = element_is_unsigned(type) ? UINT64_C(1) << (size * 8 - 1) : 0;
	uint64_t wide[BLOCK];
	for (uint32_t i = 0; i < BLOCK; i++)
		wide[i] = (size == 8 ? widened(block->value[i], block->common[i])
				     : (uint64_t)(int64_t)block->value[i]) ^
			  flip;

	store_wide(wide, size, out);
}

/* Sums of integers wrap: with 64 bits each number is multiplied by an odd one. */
static void store_sums(const struct pattern *pattern, const struct block *block, uint8_t *out)
{
	size_t size = collective_type_size(pattern->plan.type);
	uint32_t values[BLOCK];

	memcpy(values, block->value, sizeof(values));
	if (size < 8) {
		store_narrow(values, size, out);
		return;
	}

	uint64_t wide[BLOCK];
	for (uint32_t i = 0; i < BLOCK; i++)
		wide[i] = (uint64_t)(int64_t)block->value[i] * UINT64_C(0x9e3779b97f4a7c15);

	store_wide(wide, size, out);
}

static void store_averages(const struct pattern *pattern, const struct block *block,
			   uint32_t offset, uint8_t *out)
{
	size_t size = collective_type_size(pattern->plan.type);
	uint64_t wide[BLOCK];
	for (uint32_t i = 0; i < BLOCK; i++) {
		int64_t value = (int64_t)block->value[i] + offset;
		wide[i] = size == 8 ? (uint64_t)value << WIDE_INTEGER_SHIFT : (uint64_t)value;
	}
	store_wide(wide, size, out);
}

/* 3^n modulo 2^64 for -7 <= n <= 7; those with negative n are the inverse elements. */
static void powers_of_3(uint64_t out[2 * POWER_SPREAD + 1])
{
	const uint64_t inverse = UINT64_C(0xaaaaaaaaaaaaaaab);
	out[POWER_SPREAD] = 1;
	for (int i = 1; i <= POWER_SPREAD; i++) {
		out[POWER_SPREAD + i] = out[POWER_SPREAD + i - 1] * 3;
		out[POWER_SPREAD - i] = out[POWER_SPREAD - i + 1] * inverse;
	}
}

/* A factor of all bits at one rank (`has` says for each element whether it is this one), and
 * powers of 3 that cancel. */
static void store_integer_products(const struct pattern *pattern, const struct block *block,
				   const bool has[BLOCK], uint8_t *out)
{
	uint64_t powers[2 * POWER_SPREAD + 1], wide[BLOCK];
	powers_of_3(powers);
	for (uint32_t i = 0; i < BLOCK; i++) {
		uint64_t factor = block->common[i] * UINT64_C(0x9e3779b97f4a7c15) | 1;
		wide[i] = powers[block->value[i] + POWER_SPREAD] * (has[i] ? factor : 1);
	}
	store_wide(wide, collective_type_size(pattern->plan.type), out);
}

static void store_float_products(const struct pattern *pattern, const struct block *block,
				 const bool has[BLOCK], uint8_t *out)
{
	enum collective_type type = pattern->plan.type;
	uint64_t products[BLOCK];

	for (uint32_t i = 0; i < BLOCK; i++) {
		uint32_t mixed = block->common[i] * UINT32_C(0x9e3779b1);
		uint32_t sign = has[i] ? block->common[i] & 1 : 0;
		uint64_t fraction = has[i] ? mixed : 0; /* of 32 bits */
		int64_t exponent = block->value[i];
		uint64_t bits;

		if (type == COLLECTIVE_F16)
			bits =
			    (uint64_t)sign << 15 | (uint64_t)(exponent + 15) << 10 | fraction >> 22;
		else if (type == COLLECTIVE_BF16)
			bits =
			    (uint64_t)sign << 15 | (uint64_t)(exponent + 127) << 7 | fraction >> 25;
		else if (type == COLLECTIVE_F32)
			bits =
			    (uint64_t)sign << 31 | (uint64_t)(exponent + 127) << 23 | fraction >> 9;
		else
			bits = (uint64_t)sign << 63 | (uint64_t)(exponent + 1023) << 52 |
			       fraction << 20;

		products[i] = bits;
	}

	store_wide(products, collective_type_size(type), out);
}

static void store_products(const struct pattern *pattern, const struct block *block,
			   const bool has[BLOCK], uint8_t *out)
{
	if (element_is_float(pattern->plan.type))
		store_float_products(pattern, block, has, out);
	else
		store_integer_products(pattern, block, has, out);
}

/* What `rank` gives to a reduction. */
static void part_block(const struct pattern *pattern, uint32_t rank, uint64_t first, uint8_t *out)
{
	struct block block;
	hash_block(pattern, 0, first, block.common);

	switch (pattern->plan.redop) {
	case COLLECTIVE_MIN:
	case COLLECTIVE_MAX:
		extreme_block(pattern, rank, first, &block);
		store_extremes(pattern, &block, out);
		return;
	case COLLECTIVE_PROD: {
		bool has[BLOCK];

		difference_block(pattern, rank, first, &block);

		for (uint32_t i = 0; i < BLOCK; i++)
			has[i] = position_of(block.common[i], pattern->plan.ranks) == rank;

		store_products(pattern, &block, has, out);
		return;
	}
	case COLLECTIVE_SUM:
	case COLLECTIVE_AVG:
	case COLLECTIVE_REDOP_COUNT:
		break;
	}
	difference_block(pattern, rank, first, &block);
	add_target(pattern, rank, &block);

	if (element_is_float(pattern->plan.type)) {
		store_floats(pattern, &block, 1, out);
	} else if (pattern->plan.redop == COLLECTIVE_SUM) {
		store_sums(pattern, &block, out);
	} else {
		uint32_t offset =
		    element_is_unsigned(pattern->plan.type) ? pattern->spread_mask : 0;
		store_averages(pattern, &block, offset, out);
	}
}

/* What must come of it: the target, wherever it was. */
static void reduced_block(const struct pattern *pattern, uint64_t first, uint8_t *out)
{
	const struct pattern_plan *plan = &pattern->plan;
	struct block block;

	hash_block(pattern, 0, first, block.common);
	if (plan->redop == COLLECTIVE_PROD) {
		bool has[BLOCK];
		memset(has, true, sizeof(has));
		memset(block.value, 0, sizeof(block.value));
		store_products(pattern, &block, has, out);
		return;
	}

	bool is_extreme = plan->redop == COLLECTIVE_MIN || plan->redop == COLLECTIVE_MAX;
	uint32_t bits = is_extreme ? pattern->bits : pattern->target_bits;
	uint32_t offset = is_extreme ? 0 : target_offset(pattern);

	for (uint32_t i = 0; i < BLOCK; i++)
		block.value[i] = (int32_t)((uint32_t)signed_bits(block.common[i], bits) + offset);

	if (is_extreme)
		store_extremes(pattern, &block, out);
	else if (element_is_float(plan->type))
		store_floats(pattern, &block, pattern->divisor, out);
	else if (plan->redop == COLLECTIVE_SUM)
		store_sums(pattern, &block, out);
	else
		store_averages(pattern, &block,
			       element_is_unsigned(plan->type) ? pattern->spread_mask : 0, out);
}

/* What is only moved: all bits of an element are hashed. */
static void moved_block(const struct pattern *pattern, uint32_t rank, uint64_t first, uint8_t *out)
{
	size_t size = collective_type_size(pattern->plan.type);
	uint32_t own[BLOCK];

	hash_block(pattern, rank + 1, first, own);
	if (size < 8) {
		store_narrow(own, size, out);
		return;
	}

	uint64_t wide[BLOCK];
	for (uint32_t i = 0; i < BLOCK; i++)
		wide[i] = own[i] * UINT64_C(0x9e3779b97f4a7c15) + own[i];

	store_wide(wide, size, out);
}

uint64_t pattern_send_count(const struct pattern *pattern, uint32_t rank)
{
	bool is_from_root =
	    pattern->plan.op == COLLECTIVE_BROADCAST || pattern->plan.op == COLLECTIVE_SCATTER;
	return is_from_root && rank != pattern->plan.root ? 0 : pattern->shape.send_count;
}

uint64_t pattern_receive_count(const struct pattern *pattern, uint32_t rank)
{
	bool is_at_root =
	    pattern->plan.op == COLLECTIVE_REDUCE || pattern->plan.op == COLLECTIVE_GATHER;
	return is_at_root && rank != pattern->plan.root ? 0 : pattern->shape.receive_count;
}

/* Elements that lie beside each other in a result and in what they come from. */
struct segment {
	bool is_reduced;
	uint32_t from; /* the rank */
	uint64_t at;   /* in what it gives */
	uint64_t count;
};

static struct segment segment_of_v(const struct pattern *pattern, uint32_t rank, uint64_t element)
{
	const struct collective_shape *shape = &pattern->shape;
	uint32_t ranks = pattern->plan.ranks;
	struct segment segment = {.count = shape->receive_count - element};

	for (uint32_t from = 0; from < ranks; from++) {
		uint64_t count = collective_v_count(shape, ranks, from, rank);
		if (element >= count) {
			element -= count;
			continue;
		}

		for (uint32_t to = 0; to < rank; to++)
			segment.at += collective_v_count(shape, ranks, from, to);

		segment.from = from;
		segment.at += element;
		segment.count = count - element;
		break;
	}

	return segment;
}

/* Where the elements from `element` of rank's result come from. */
static struct segment segment_of(const struct pattern *pattern, uint32_t rank, uint64_t element)
{
	const struct collective_shape *shape = &pattern->shape;
	uint64_t part = shape->param_count ? shape->param_count : 1;
	struct segment whole = {.at = element, .count = shape->receive_count - element};
	struct segment block = {.from = (uint32_t)(element / part),
				.at = element % part,
				.count = part - element % part};

	switch (pattern->plan.op) {
	case COLLECTIVE_ALL_REDUCE:
	case COLLECTIVE_REDUCE:
		whole.is_reduced = true;
		return whole;
	case COLLECTIVE_REDUCE_SCATTER:
		whole.is_reduced = true;
		whole.at += rank * part;
		return whole;
	case COLLECTIVE_ALL_GATHER:
	case COLLECTIVE_GATHER:
	case COLLECTIVE_HYPERCUBE:
		return block;
	case COLLECTIVE_ALLTOALL:
		block.at += rank * part;
		return block;
	case COLLECTIVE_ALLTOALLV:
		return segment_of_v(pattern, rank, element);
	case COLLECTIVE_SCATTER:
		whole.from = pattern->plan.root;
		whole.at += rank * part;
		return whole;
	case COLLECTIVE_SENDRECV:
		whole.from = rank == 0 ? pattern->plan.ranks - 1 : rank - 1;
		return whole;
	case COLLECTIVE_BROADCAST:
	case COLLECTIVE_OP_COUNT:
		break;
	}
	whole.from = pattern->plan.root;

	return whole;
}

/* How many elements from `first` one block may hold: not beyond what 32 bits count. */
static uint32_t block_count(uint64_t first, uint64_t count)
{
	uint64_t until = (UINT64_C(1) << 32) - (first & UINT32_MAX);
	uint64_t most = until < BLOCK ? until : BLOCK;
	return (uint32_t)(count < most ? count : most);
}

/* One block of what `rank` gives, or must have, from `element` on; returns how many of its elements
 * are that. */
static uint32_t block_of(const struct pattern *pattern, bool is_result, uint32_t rank,
			 uint64_t element, uint64_t count,
			 uint8_t out[BLOCK * COLLECTIVE_ELEMENT_MAX])
{
	struct segment segment = {.from = rank, .at = element, .count = count};
	bool reduces = collective_op_reduces(pattern->plan.op);

	if (is_result)
		segment = segment_of(pattern, rank, element);

	uint32_t made = block_count(segment.at, segment.count < count ? segment.count : count);

	if (segment.is_reduced)
		reduced_block(pattern, segment.at, out);
	else if (reduces)
		part_block(pattern, segment.from, segment.at, out);
	else
		moved_block(pattern, segment.from, segment.at, out);

	return made;
}

static void fill(const struct pattern *pattern, bool is_result, uint32_t rank, uint64_t first,
		 uint64_t count, uint8_t *out)
{
	size_t size = collective_type_size(pattern->plan.type);
	uint8_t made[BLOCK * COLLECTIVE_ELEMENT_MAX];

	while (count > 0) {
		uint32_t n = block_of(pattern, is_result, rank, first, count, made);
		memcpy(out, made, n * size);
		out += n * size;
		first += n;
		count -= n;
	}
}

void pattern_send(const struct pattern *pattern, uint32_t rank, uint64_t first, uint64_t count,
		  void *out)
{
	fill(pattern, false, rank, first, count, out);
}

void pattern_receive(const struct pattern *pattern, uint32_t rank, uint64_t first, uint64_t count,
		     void *out)
{
	fill(pattern, true, rank, first, count, out);
}

/* Whether one element of an average that may have been rounded is near enough. */
static bool is_near(const struct pattern *pattern, double tolerance, uint64_t element,
		    const uint8_t *got, const uint8_t *expected)
{
	enum collective_type type = pattern->plan.type;
	bool is_narrow = type == COLLECTIVE_F16;
	uint32_t common[BLOCK];

	hash_block(pattern, 0, element, common);
	int scale = is_narrow ? F16_SCALE_LOW + (int)(common[0] & F16_SCALE_MASK)
			      : WIDE_SCALE_LOW + (int)(common[0] & WIDE_SCALE_MASK);
	double off = fabs(element_value(type, got) - element_value(type, expected));

	return off <= ldexp(tolerance, scale); /* false for NaN */
}

static uint64_t check(const struct pattern *pattern, bool is_result, uint32_t rank, uint64_t first,
		      uint64_t count, const uint8_t *got, uint64_t *out_element)
{
	size_t size = collective_type_size(pattern->plan.type);
	double tolerance = is_result ? pattern_tolerance(pattern) : 0;
	uint8_t made[BLOCK * COLLECTIVE_ELEMENT_MAX];
	uint64_t wrong = 0;

	while (count > 0) {
		uint32_t n = block_of(pattern, is_result, rank, first, count, made);
		bool is_same = memcmp(got, made, n * size) == 0;

		for (uint32_t i = 0; i < n && !is_same; i++) {
			const uint8_t *mine = got + i * size, *right = made + i * size;
			if (memcmp(mine, right, size) == 0)
				continue;

			uint64_t at = is_result ? segment_of(pattern, rank, first + i).at : first;
			if (tolerance > 0 && is_near(pattern, tolerance, at, mine, right))
				continue;
			if (wrong++ == 0)
				*out_element = first + i;
		}

		got += n * size;
		first += n;
		count -= n;
	}

	return wrong;
}

uint64_t pattern_check_send(const struct pattern *pattern, uint32_t rank, uint64_t first,
			    uint64_t count, const void *got, uint64_t *out_element)
{
	return check(pattern, false, rank, first, count, got, out_element);
}

uint64_t pattern_check_receive(const struct pattern *pattern, uint32_t rank, uint64_t first,
			       uint64_t count, const void *got, uint64_t *out_element)
{
	return check(pattern, true, rank, first, count, got, out_element);
}
