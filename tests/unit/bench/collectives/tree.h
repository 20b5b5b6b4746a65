/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a reduction must give, computed the long way: one element after the other, by recursion over
 * the ranks, and short floats by double arithmetic. Shares no code with what is tested. Used by the
 * tests of the sums and of the shared-memory backend.
 */
#ifndef TESTS_UNIT_BENCH_COLLECTIVES_TREE_H
#define TESTS_UNIT_BENCH_COLLECTIVES_TREE_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "bench/collectives/collective.h"

struct tree_case {
	enum collective_type type;
	enum collective_redop redop;
	uint32_t ranks;
	uint64_t seed;
};

/* splitmix64 */
static inline uint64_t tree_random(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15;
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return z ^ (z >> 31);
}

static inline double tree_of_f16(uint16_t bits)
{
	int exponent = (bits >> 10) & 31, mantissa = bits & 0x3ff;
	double size = exponent == 31  ? (double)INFINITY
		      : exponent == 0 ? ldexp(mantissa, -24)
				      : ldexp(1024 + mantissa, exponent - 25);
	return bits & 0x8000 ? -size : size;
}

/* A multiple of the distance between two neighbours: rint() rounds to even. */
static inline uint16_t tree_to_f16(double value)
{
	uint16_t sign = signbit(value) ? 0x8000 : 0;
	double size = fabs(value);
	if (isinf(size) || size == 0)
		return sign | (size == 0 ? 0 : 0x7c00);
	int exponent = ilogb(size) < -14 ? -14 : ilogb(size);
	double steps = rint(ldexp(size, 10 - exponent));
	double bits = steps + (exponent + 14) * 1024.0;
	return sign | (bits >= 0x7c00 ? 0x7c00 : (uint16_t)bits);
}

static inline uint16_t tree_to_bf16(float value)
{
	uint32_t bits;
	memcpy(&bits, &value, sizeof(bits));
	uint32_t rest = bits & 0xffff, above = bits >> 16;
	if (rest > 0x8000 || (rest == 0x8000 && above % 2))
		above++;
	return (uint16_t)above;
}

static inline float tree_short(enum collective_type type, uint64_t bits)
{
	uint32_t wide = (uint32_t)bits << 16;
	float value;
	memcpy(&value, &wide, sizeof(value));
	return type == COLLECTIVE_F16 ? (float)tree_of_f16((uint16_t)bits) : value;
}

/* The element's bits. Floats are of sizes at which the order of additions shows in the last bit,
 * and never so large that a product of many overflows: infinity less infinity is no number, which
 * has no fixed bits. */
static inline uint64_t tree_bits(const struct tree_case *one, uint32_t rank, uint64_t index)
{
	uint64_t state = one->seed + rank * 0x10001 + index * 0x100000001, bits;
	bits = tree_random(&state);
	if (bits % 61 == 0 && collective_type_size(one->type) > 1)
		return 0;
	uint64_t sign = bits >> 63;
	switch (one->type) {
	case COLLECTIVE_F16:
		return sign << 15 |
		       (bits % 29 == 0 ? bits & 0x3ff
				       : (13 + bits / 1024 % 3) << 10 | (bits & 0x3ff));
	case COLLECTIVE_BF16:
		return sign << 15 | (126 + bits / 128 % 3) << 7 | (bits & 0x7f);
	case COLLECTIVE_F32:
		return sign << 31 | (126 + (bits >> 24) % 3) << 23 | (bits & 0x7fffff);
	case COLLECTIVE_F64:
		return sign << 63 | (1022 + (bits >> 53) % 3) << 52 | (bits & 0xfffffffffffff);
	default:
		return bits;
	}
}

static inline void tree_put(enum collective_type type, uint64_t bits, void *out)
{
	uint8_t one = (uint8_t)bits;
	uint16_t two = (uint16_t)bits;
	uint32_t four = (uint32_t)bits;
	size_t size = collective_type_size(type);
	memcpy(out,
	       size == 1   ? (void *)&one
	       : size == 2 ? (void *)&two
	       : size == 4 ? (void *)&four
			   : (void *)&bits,
	       size);
}

static inline void tree_value(const struct tree_case *one, uint32_t rank, uint64_t index, void *out)
{
	tree_put(one->type, tree_bits(one, rank, index), out);
}

#define TREE_NODE(type_of, l, r, redop)                                                            \
	((redop) == COLLECTIVE_PROD  ? (type_of)((l) * (r))                                        \
	 : (redop) == COLLECTIVE_MIN ? ((l) < (r) ? (l) : (r))                                     \
	 : (redop) == COLLECTIVE_MAX ? ((l) > (r) ? (l) : (r))                                     \
				     : (type_of)((l) + (r)))

static inline uint64_t tree_float_node(enum collective_type type, enum collective_redop redop,
				       uint64_t left, uint64_t right)
{
	if (type == COLLECTIVE_F64) {
		double l, r;
		memcpy(&l, &left, sizeof(l));
		memcpy(&r, &right, sizeof(r));
		l = TREE_NODE(double, l, r, redop);
		memcpy(&left, &l, sizeof(l));
		return left;
	}
	if (type == COLLECTIVE_F32) {
		uint32_t bits[2] = {(uint32_t)left, (uint32_t)right};
		float l, r;
		memcpy(&l, &bits[0], sizeof(l));
		memcpy(&r, &bits[1], sizeof(r));
		l = TREE_NODE(float, l, r, redop);
		memcpy(&bits[0], &l, sizeof(l));
		return bits[0];
	}
	float l = tree_short(type, left), r = tree_short(type, right);
	l = TREE_NODE(float, l, r, redop);
	return type == COLLECTIVE_F16 ? tree_to_f16((double)l) : tree_to_bf16(l);
}

static inline uint64_t tree_node(enum collective_type type, enum collective_redop redop,
				 uint64_t left, uint64_t right)
{
	switch (type) {
	case COLLECTIVE_I8: {
		int8_t l = (int8_t)left, r = (int8_t)right;
		return (uint64_t)TREE_NODE(int8_t, l, r, redop);
	}
	case COLLECTIVE_U8: {
		uint8_t l = (uint8_t)left, r = (uint8_t)right;
		return (uint64_t)TREE_NODE(uint8_t, l, r, redop);
	}
	case COLLECTIVE_I32: { /* wraps: which is defined of unsigned ones */
		int32_t l = (int32_t)left, r = (int32_t)right;
		if (redop == COLLECTIVE_MIN || redop == COLLECTIVE_MAX)
			return (uint64_t)TREE_NODE(int32_t, l, r, redop);
		return (uint32_t)TREE_NODE(uint32_t, (uint32_t)l, (uint32_t)r, redop);
	}
	case COLLECTIVE_U32: {
		uint32_t l = (uint32_t)left, r = (uint32_t)right;
		return TREE_NODE(uint32_t, l, r, redop);
	}
	case COLLECTIVE_I64: {
		int64_t l = (int64_t)left, r = (int64_t)right;
		if (redop == COLLECTIVE_MIN || redop == COLLECTIVE_MAX)
			return (uint64_t)TREE_NODE(int64_t, l, r, redop);
		return TREE_NODE(uint64_t, left, right, redop);
	}
	case COLLECTIVE_U64:
		return TREE_NODE(uint64_t, left, right, redop);
	default:
		return tree_float_node(type, redop, left, right);
	}
}

static inline uint64_t tree_over(const struct tree_case *one, uint32_t low, uint32_t high,
				 uint64_t index)
{
	if (high - low == 1)
		return tree_bits(one, low, index);
	uint32_t middle = low + (high - low + 1) / 2;
	return tree_node(one->type, one->redop, tree_over(one, low, middle, index),
			 tree_over(one, middle, high, index));
}

static inline uint64_t tree_divided(const struct tree_case *one, uint64_t bits)
{
	uint32_t part = (uint32_t)bits;
	float single;
	double wide;
	switch (one->type) {
	case COLLECTIVE_I8:
		return (uint64_t)((int8_t)bits / (int)one->ranks);
	case COLLECTIVE_U8:
		return (uint8_t)bits / one->ranks;
	case COLLECTIVE_I32:
		return (uint64_t)((int32_t)bits / (int32_t)one->ranks);
	case COLLECTIVE_U32:
		return (uint32_t)bits / one->ranks;
	case COLLECTIVE_I64:
		return (uint64_t)((int64_t)bits / (int64_t)one->ranks);
	case COLLECTIVE_U64:
		return bits / one->ranks;
	case COLLECTIVE_F32:
		memcpy(&single, &part, sizeof(single));
		single /= (float)one->ranks;
		memcpy(&part, &single, sizeof(part));
		return part;
	case COLLECTIVE_F64:
		memcpy(&wide, &bits, sizeof(wide));
		wide /= one->ranks;
		memcpy(&bits, &wide, sizeof(bits));
		return bits;
	default:
		single = tree_short(one->type, bits) / (float)one->ranks;
		return one->type == COLLECTIVE_F16 ? tree_to_f16((double)single)
						   : tree_to_bf16(single);
	}
}

/* Element `index` of the reduction over all ranks. */
static inline void tree_expect(const struct tree_case *one, uint64_t index, void *out)
{
	uint64_t bits = tree_over(one, 0, one->ranks, index);
	if (one->redop == COLLECTIVE_AVG && one->ranks > 1)
		bits = tree_divided(one, bits);
	tree_put(one->type, bits, out);
}

#endif
