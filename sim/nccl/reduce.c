/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/nccl/reduce.h"

#include <string.h>

#include "sim/nccl/api.h"

static uint32_t bits_of(float value)
{
	uint32_t bits;
	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

static float float_of(uint32_t bits)
{
	float value;
	memcpy(&value, &bits, sizeof(value));
	return value;
}

float reduce_from_half(uint16_t half)
{
	uint32_t sign = (uint32_t)(half & 0x8000u) << 16, exponent = (half >> 10) & 31u;
	uint32_t fraction = half & 0x3ffu;

	if (exponent == 31)
		return float_of(sign | 0x7f800000u | fraction << 13);
	if (exponent != 0)
		return float_of(sign | (exponent + 112) << 23 | fraction << 13);

	float value = (float)fraction * 0x1p-24f; /* exact */
	return sign ? -value : value;
}

uint16_t reduce_to_half(float value)
{
	uint32_t bits = bits_of(value), sign = bits >> 16 & 0x8000u, size = bits & 0x7fffffffu;
	if (size > 0x7f800000u)
		return (uint16_t)(sign | 0x7e00u);
	if (size >= 0x477ff000u) /* rounds to more than 65504 */
		return (uint16_t)(sign | 0x7c00u);
	if (size < 0x38800000u) { /* subnormal: adding 0.5 leaves the rounded fraction's bits */
		float shifted = float_of(size) + 0.5f;
		return (uint16_t)(sign | (bits_of(shifted) - 0x3f000000u));
	}

	uint32_t rounded = size + 0xfffu + (size >> 13 & 1u);
	return (uint16_t)(sign | (rounded - 0x38000000u) >> 13);
}

float reduce_from_bfloat(uint16_t value)
{
	return float_of((uint32_t)value << 16);
}

uint16_t reduce_to_bfloat(float value)
{
	uint32_t bits = bits_of(value);
	if ((bits & 0x7fffffffu) > 0x7f800000u)
		return (uint16_t)(bits >> 16 | 0x40u);
	return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

size_t reduce_size(int type)
{
	static const uint8_t size[NCCL_TYPE_COUNT] = {
	    [NCCL_INT8] = 1,	[NCCL_UINT8] = 1,   [NCCL_INT32] = 4,	[NCCL_UINT32] = 4,
	    [NCCL_INT64] = 8,	[NCCL_UINT64] = 8,  [NCCL_FLOAT16] = 2, [NCCL_FLOAT32] = 4,
	    [NCCL_FLOAT64] = 8, [NCCL_BFLOAT16] = 2};
	return type < 0 || type >= NCCL_TYPE_COUNT ? 0 : size[type];
}

/* Integers wrap: `wide` is unsigned and holds the product of two. */
#define REDUCE_ALL(c_type, wide, load, store)                                                      \
	do {                                                                                       \
		c_type *to = into;                                                                 \
		const c_type *other = from;                                                        \
		for (size_t i = 0; i < count; i++) {                                               \
			wide a = load(to[i]), b = load(other[i]);                                  \
			switch (redop) {                                                           \
			case NCCL_PROD:                                                            \
				to[i] = store(a * b);                                              \
				break;                                                             \
			case NCCL_MAX:                                                             \
				to[i] = load(other[i]) > load(to[i]) ? other[i] : to[i];           \
				break;                                                             \
			case NCCL_MIN:                                                             \
				to[i] = load(other[i]) < load(to[i]) ? other[i] : to[i];           \
				break;                                                             \
			default:                                                                   \
				to[i] = store(a + b);                                              \
			}                                                                          \
		}                                                                                  \
	} while (0)
#define REDUCE_PLAIN(value) (value)

/* Signed: summed and multiplied as unsigned, since those wrap; compared as they are. */
#define REDUCE_SIGNED(c_type, u_type)                                                              \
	do {                                                                                       \
		c_type *to = into;                                                                 \
		const c_type *other = from;                                                        \
		for (size_t i = 0; i < count; i++) {                                               \
			uint64_t a = (uint64_t)to[i], b = (uint64_t)other[i];                      \
			if (redop == NCCL_MAX)                                                     \
				to[i] = other[i] > to[i] ? other[i] : to[i];                       \
			else if (redop == NCCL_MIN)                                                \
				to[i] = other[i] < to[i] ? other[i] : to[i];                       \
			else                                                                       \
				to[i] = (c_type)(u_type)(redop == NCCL_PROD ? a * b : a + b);      \
		}                                                                                  \
	} while (0)

void reduce_step(void *into, const void *from, size_t count, int type, int redop)
{
	switch (type) {
	case NCCL_INT8:
		REDUCE_SIGNED(int8_t, uint8_t);
		break;
	case NCCL_UINT8:
		REDUCE_SIGNED(uint8_t, uint8_t);
		break;
	case NCCL_INT32:
		REDUCE_SIGNED(int32_t, uint32_t);
		break;
	case NCCL_UINT32:
		REDUCE_SIGNED(uint32_t, uint32_t);
		break;
	case NCCL_INT64:
		REDUCE_SIGNED(int64_t, uint64_t);
		break;
	case NCCL_UINT64:
		REDUCE_SIGNED(uint64_t, uint64_t);
		break;
	case NCCL_FLOAT16:
		REDUCE_ALL(uint16_t, float, reduce_from_half, reduce_to_half);
		break;
	case NCCL_BFLOAT16:
		REDUCE_ALL(uint16_t, float, reduce_from_bfloat, reduce_to_bfloat);
		break;
	case NCCL_FLOAT32:
		REDUCE_ALL(float, float, REDUCE_PLAIN, REDUCE_PLAIN);
		break;
	case NCCL_FLOAT64:
		REDUCE_ALL(double, double, REDUCE_PLAIN, REDUCE_PLAIN);
		break;
	default:
		break;
	}
}

#define EACH(c_type, expression)                                                                   \
	do {                                                                                       \
		c_type *each = values;                                                             \
		for (size_t i = 0; i < count; i++)                                                 \
			each[i] = (c_type)(expression);                                            \
	} while (0)

void reduce_prepare(void *values, size_t count, int type, int redop, uint32_t ranks)
{
	if (redop != NCCL_AVG)
		return;

	const float part = 1.0f / (float)ranks;

	switch (type) {
	case NCCL_FLOAT16:
		EACH(uint16_t, reduce_to_half(reduce_from_half(each[i]) * part));
		break;
	case NCCL_BFLOAT16:
		EACH(uint16_t, reduce_to_bfloat(reduce_from_bfloat(each[i]) * part));
		break;
	case NCCL_FLOAT32:
		EACH(float, each[i] * part);
		break;
	case NCCL_FLOAT64:
		EACH(double, each[i] * (1.0 / ranks));
		break;
	default:
		break;
	}
}

void reduce_finish(void *values, size_t count, int type, int redop, uint32_t ranks)
{
	if (redop != NCCL_AVG)
		return;

	const int64_t n = ranks;

	switch (type) {
	case NCCL_INT8:
		EACH(int8_t, each[i] / n);
		break;
	case NCCL_UINT8:
		EACH(uint8_t, each[i] / n);
		break;
	case NCCL_INT32:
		EACH(int32_t, each[i] / n);
		break;
	case NCCL_UINT32:
		EACH(uint32_t, each[i] / n);
		break;
	case NCCL_INT64:
		EACH(int64_t, each[i] / n);
		break;
	case NCCL_UINT64:
		EACH(uint64_t, each[i] / (uint64_t)n);
		break;
	default:
		break;
	}
}
