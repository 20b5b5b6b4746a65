/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/collectives/reduce.h"

#include <stdbool.h>
#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

enum reduce_sizes {
	REDUCE_VECTOR = 64,  /* bytes; the compiler cuts it into what the processor has */
	REDUCE_BLOCK = 2048, /* bytes of a partial sum: all of a tree's lie in the first cache */
	REDUCE_LEVELS = 10,  /* of a tree over COLLECTIVE_RANKS_MAX */
	REDUCE_PAIR_COUNT = COLLECTIVE_MAX + 1,
};

typedef void (*reduce_pair_fn)(void *out, const void *left, const void *right, size_t count);
typedef void (*reduce_divide_fn)(void *values, size_t count, uint32_t by);

struct reduce {
	reduce_pair_fn pair[COLLECTIVE_TYPE_COUNT][REDUCE_PAIR_COUNT];
	reduce_divide_fn divide[COLLECTIVE_TYPE_COUNT];
};

/* Vectors are written with the compilers' own type of them: the same source gives SSE, AVX2,
 * AVX-512 and what other processors have. Arithmetic on them is what it is on one element. */
#define VECTOR(type)  __attribute__((vector_size(REDUCE_VECTOR))) type
#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* Lanes of `a` where the mask is all ones, else of `b`. */
#define PICK(mask, a, b)                                                                           \
	((__typeof__(b))(((mask) & (__typeof__(mask))(a)) | (~(mask) & (__typeof__(mask))(b))))

ALWAYS_INLINE void vector_f16_widen(const void *from, VECTOR(float) * out)
{
	__attribute__((vector_size(REDUCE_VECTOR / 2))) uint16_t half;
	memcpy(&half, from, sizeof(half));
	VECTOR(uint32_t) bits = __builtin_convertvector(half, VECTOR(uint32_t));
	VECTOR(uint32_t) sign = (bits & 0x8000) << 16, size = (bits & 0x7fff) << 13;
	VECTOR(uint32_t) exponent = size & (0x7c00U << 13);
	VECTOR(uint32_t) normal = size + ((127U - 15) << 23);
	VECTOR(uint32_t) special = normal + ((128U - 16) << 23);

	/* Below the smallest normal one: as the distance from it, which floats have exactly. */
	VECTOR(uint32_t) raised = normal + (1U << 23);
	VECTOR(float) subnormal = (VECTOR(float))raised - 0x1p-14F;
	VECTOR(int32_t) is_special = exponent == (0x7c00U << 13), is_subnormal = exponent == 0;
	VECTOR(uint32_t) result = PICK(is_special, special, normal);
	result = PICK(is_subnormal, (VECTOR(uint32_t))subnormal, result);
	*out = (VECTOR(float))(result | sign);
}

ALWAYS_INLINE void vector_f16_narrow(const VECTOR(float) * value, void *out)
{
	VECTOR(uint32_t) bits = (VECTOR(uint32_t)) * value;
	VECTOR(uint32_t) sign = bits & 0x80000000U, size = bits ^ sign;
	VECTOR(uint32_t) odd = (size >> 13) & 1;
	VECTOR(uint32_t) normal = (size - ((127U - 15) << 23) + 0xfff + odd) >> 13;

	/* Added to 0.5, whose last bit is the smallest subnormal one: the processor rounds. */
	VECTOR(float) shifted = (VECTOR(float))size + 0.5F;
	VECTOR(uint32_t) subnormal = (VECTOR(uint32_t))shifted - (126U << 23);
	VECTOR(int32_t) is_small = size < ((127U - 14) << 23);
	VECTOR(int32_t) is_large = size >= ((127U + 16) << 23), is_nan = size > (255U << 23);
	VECTOR(uint32_t) result = PICK(is_small, subnormal, normal);
	result = PICK(is_large, (VECTOR(uint32_t)){0} + 0x7c00, result);
	result = PICK(is_nan, (VECTOR(uint32_t)){0} + 0x7e00, result);
	result |= sign >> 16;
	__attribute__((vector_size(REDUCE_VECTOR / 2))) uint16_t half = __builtin_convertvector(
	    result, __attribute__((vector_size(REDUCE_VECTOR / 2))) uint16_t);
	memcpy(out, &half, sizeof(half));
}

ALWAYS_INLINE void vector_bf16_widen(const void *from, VECTOR(float) * out)
{
	__attribute__((vector_size(REDUCE_VECTOR / 2))) uint16_t half;
	memcpy(&half, from, sizeof(half));
	*out = (VECTOR(float))(__builtin_convertvector(half, VECTOR(uint32_t)) << 16);
}

ALWAYS_INLINE void vector_bf16_narrow(const VECTOR(float) * value, void *out)
{
	VECTOR(uint32_t) bits = (VECTOR(uint32_t)) * value;
	VECTOR(uint32_t) rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
	VECTOR(int32_t) is_nan = (bits & 0x7fffffff) > 0x7f800000;
	VECTOR(uint32_t) result = PICK(is_nan, (bits >> 16) | 0x40, rounded);
	__attribute__((vector_size(REDUCE_VECTOR / 2))) uint16_t half = __builtin_convertvector(
	    result, __attribute__((vector_size(REDUCE_VECTOR / 2))) uint16_t);
	memcpy(out, &half, sizeof(half));
}

#define SUM(a, b)     ((a) + (b))
#define PROD(a, b)    ((a) * (b))
#define MIN(a, b)     PICK((a) < (b), a, b)
#define MAX(a, b)     PICK((a) > (b), a, b)
#define MIN_ONE(a, b) ((a) < (b) ? (a) : (b))
#define MAX_ONE(a, b) ((a) > (b) ? (a) : (b))

/* Two of them an iteration: what is left over is done one by one. */
#define PAIR(target, isa, type, name, OF_VECTORS, OF_ONE)                                          \
	static target void pair_##name##_##type##_##isa(void *out, const void *left,               \
							const void *right, size_t count)           \
	{                                                                                          \
		enum { LANES = REDUCE_VECTOR / sizeof(type) };                                     \
		type *to = out;                                                                    \
		const type *l = left, *r = right;                                                  \
		size_t i = 0;                                                                      \
		for (; i + 2 * LANES <= count; i += 2 * LANES) {                                   \
			VECTOR(type) a0, a1, b0, b1;                                               \
			memcpy(&a0, (const char *)(l + i), REDUCE_VECTOR);                         \
			memcpy(&a1, (const char *)(l + i + LANES), REDUCE_VECTOR);                 \
			memcpy(&b0, (const char *)(r + i), REDUCE_VECTOR);                         \
			memcpy(&b1, (const char *)(r + i + LANES), REDUCE_VECTOR);                 \
			a0 = OF_VECTORS(a0, b0);                                                   \
			a1 = OF_VECTORS(a1, b1);                                                   \
			memcpy((char *)(to + i), &a0, REDUCE_VECTOR);                              \
			memcpy((char *)(to + i + LANES), &a1, REDUCE_VECTOR);                      \
		}                                                                                  \
		for (; i < count; i++) {                                                           \
			type a, b;                                                                 \
			memcpy(&a, (const char *)(l + i), sizeof(a));                              \
			memcpy(&b, (const char *)(r + i), sizeof(b));                              \
			a = (type)OF_ONE(a, b);                                                    \
			memcpy((char *)(to + i), &a, sizeof(a));                                   \
		}                                                                                  \
	}

/* The two short floats, as float; the rest of a message is filled up with zeros. */
#define PAIR_SHORT(target, isa, type, name, OF_VECTORS)                                            \
	static target void pair_##name##_##type##_##isa(void *out, const void *left,               \
							const void *right, size_t count)           \
	{                                                                                          \
		enum { LANES = REDUCE_VECTOR / sizeof(float) };                                    \
		const char *l = left, *r = right;                                                  \
		char *to = out;                                                                    \
		VECTOR(float) a, b;                                                                \
		for (; count >= LANES; count -= LANES) {                                           \
			vector_##type##_widen(l, &a);                                              \
			vector_##type##_widen(r, &b);                                              \
			a = OF_VECTORS(a, b);                                                      \
			vector_##type##_narrow(&a, to);                                            \
			l += REDUCE_VECTOR / 2;                                                    \
			r += REDUCE_VECTOR / 2;                                                    \
			to += REDUCE_VECTOR / 2;                                                   \
		}                                                                                  \
		if (count > 0) {                                                                   \
			uint16_t rest[2][LANES] = {{0}};                                           \
			memcpy(rest[0], l, count * sizeof(uint16_t));                              \
			memcpy(rest[1], r, count * sizeof(uint16_t));                              \
			vector_##type##_widen(rest[0], &a);                                        \
			vector_##type##_widen(rest[1], &b);                                        \
			a = OF_VECTORS(a, b);                                                      \
			vector_##type##_narrow(&a, rest[0]);                                       \
			memcpy(to, rest[0], count * sizeof(uint16_t));                             \
		}                                                                                  \
	}

#define DIVIDE(target, isa, type)                                                                  \
	static target void divide_##type##_##isa(void *values, size_t count, uint32_t by)          \
	{                                                                                          \
		char *at = values;                                                                 \
		for (size_t i = 0; i < count; i++, at += sizeof(type)) {                           \
			type value;                                                                \
			memcpy(&value, at, sizeof(value));                                         \
			value = (type)(value / (type)by);                                          \
			memcpy(at, &value, sizeof(value));                                         \
		}                                                                                  \
	}

/* 1024 ranks do not fit into an 8-bit integer: what is divided is wider than that. */
#define DIVIDE_WIDE(target, isa, type, wide)                                                       \
	static target void divide_##type##_##isa(void *values, size_t count, uint32_t by)          \
	{                                                                                          \
		type *at = values; /* of one byte: always aligned */                               \
		for (size_t i = 0; i < count; i++)                                                 \
			at[i] = (type)(at[i] / (wide)by);                                          \
	}

#define DIVIDE_SHORT(target, isa, type)                                                            \
	static target void divide_##type##_##isa(void *values, size_t count, uint32_t by)          \
	{                                                                                          \
		enum { LANES = REDUCE_VECTOR / sizeof(float) };                                    \
		char *at = values;                                                                 \
		while (count > 0) {                                                                \
			size_t now = count < LANES ? count : LANES;                                \
			uint16_t part[LANES] = {0};                                                \
			VECTOR(float) value;                                                       \
			memcpy(part, at, now * sizeof(part[0]));                                   \
			vector_##type##_widen(part, &value);                                       \
			value /= (float)by;                                                        \
			vector_##type##_narrow(&value, part);                                      \
			memcpy(at, part, now * sizeof(part[0]));                                   \
			at += now * sizeof(part[0]);                                               \
			count -= now;                                                              \
		}                                                                                  \
	}

#define ALL_OF(target, isa, type)                                                                  \
	PAIR(target, isa, type, sum, SUM, SUM)                                                     \
	PAIR(target, isa, type, prod, PROD, PROD)                                                  \
	PAIR(target, isa, type, min, MIN, MIN_ONE)                                                 \
	PAIR(target, isa, type, max, MAX, MAX_ONE)

#define ALL_OF_SHORT(target, isa, type)                                                            \
	PAIR_SHORT(target, isa, type, sum, SUM)                                                    \
	PAIR_SHORT(target, isa, type, prod, PROD)                                                  \
	PAIR_SHORT(target, isa, type, min, MIN)                                                    \
	PAIR_SHORT(target, isa, type, max, MAX)                                                    \
	DIVIDE_SHORT(target, isa, type)

/* Wrapping integers are unsigned ones; only their comparisons and quotients have a sign. */
#define ROW(isa, type, wrapping)                                                                   \
	{                                                                                          \
		pair_sum_##wrapping##_##isa, pair_prod_##wrapping##_##isa,                         \
		    pair_min_##type##_##isa, pair_max_##type##_##isa                               \
	}

#define KERNELS(target, isa)                                                                       \
	ALL_OF(target, isa, uint8_t)                                                               \
	ALL_OF(target, isa, uint32_t)                                                              \
	ALL_OF(target, isa, uint64_t)                                                              \
	ALL_OF(target, isa, float)                                                                 \
	ALL_OF(target, isa, double)                                                                \
	PAIR(target, isa, int8_t, min, MIN, MIN_ONE)                                               \
	PAIR(target, isa, int8_t, max, MAX, MAX_ONE)                                               \
	PAIR(target, isa, int32_t, min, MIN, MIN_ONE)                                              \
	PAIR(target, isa, int32_t, max, MAX, MAX_ONE)                                              \
	PAIR(target, isa, int64_t, min, MIN, MIN_ONE)                                              \
	PAIR(target, isa, int64_t, max, MAX, MAX_ONE)                                              \
	ALL_OF_SHORT(target, isa, f16)                                                             \
	ALL_OF_SHORT(target, isa, bf16)                                                            \
	DIVIDE_WIDE(target, isa, int8_t, int32_t)                                                  \
	DIVIDE_WIDE(target, isa, uint8_t, uint32_t)                                                \
	DIVIDE(target, isa, int32_t)                                                               \
	DIVIDE(target, isa, uint32_t)                                                              \
	DIVIDE(target, isa, int64_t)                                                               \
	DIVIDE(target, isa, uint64_t)                                                              \
	DIVIDE(target, isa, float)                                                                 \
	DIVIDE(target, isa, double)                                                                \
	static const struct reduce reduce_##isa = {                                                \
	    .pair = {[COLLECTIVE_I8] = ROW(isa, int8_t, uint8_t),                                  \
		     [COLLECTIVE_U8] = ROW(isa, uint8_t, uint8_t),                                 \
		     [COLLECTIVE_I32] = ROW(isa, int32_t, uint32_t),                               \
		     [COLLECTIVE_U32] = ROW(isa, uint32_t, uint32_t),                              \
		     [COLLECTIVE_I64] = ROW(isa, int64_t, uint64_t),                               \
		     [COLLECTIVE_U64] = ROW(isa, uint64_t, uint64_t),                              \
		     [COLLECTIVE_F16] = ROW(isa, f16, f16),                                        \
		     [COLLECTIVE_BF16] = ROW(isa, bf16, bf16),                                     \
		     [COLLECTIVE_F32] = ROW(isa, float, float),                                    \
		     [COLLECTIVE_F64] = ROW(isa, double, double)},                                 \
	    .divide = {[COLLECTIVE_I8] = divide_int8_t_##isa,                                      \
		       [COLLECTIVE_U8] = divide_uint8_t_##isa,                                     \
		       [COLLECTIVE_I32] = divide_int32_t_##isa,                                    \
		       [COLLECTIVE_U32] = divide_uint32_t_##isa,                                   \
		       [COLLECTIVE_I64] = divide_int64_t_##isa,                                    \
		       [COLLECTIVE_U64] = divide_uint64_t_##isa,                                   \
		       [COLLECTIVE_F16] = divide_f16_##isa,                                        \
		       [COLLECTIVE_BF16] = divide_bf16_##isa,                                      \
		       [COLLECTIVE_F32] = divide_float_##isa,                                      \
		       [COLLECTIVE_F64] = divide_double_##isa}};

KERNELS(, plain)
#if defined(__x86_64__)
KERNELS(__attribute__((target("avx2"))), avx2)
KERNELS(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl"))), avx512)
#endif

const struct reduce *reduce_get(enum reduce_isa isa)
{
	switch (isa) {
	case REDUCE_PLAIN:
		return &reduce_plain;
#if defined(__x86_64__)
	case REDUCE_AVX2:
		return __builtin_cpu_supports("avx2") ? &reduce_avx2 : NULL;
	case REDUCE_AVX512:
		return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
			       __builtin_cpu_supports("avx512dq") &&
			       __builtin_cpu_supports("avx512vl")
			   ? &reduce_avx512
			   : NULL;
#endif
	default:
		return NULL;
	}
}

const struct reduce *reduce_best(void)
{
	for (int isa = REDUCE_ISA_COUNT - 1; isa > REDUCE_PLAIN; isa--) {
		const struct reduce *found = reduce_get((enum reduce_isa)isa);
		if (found)
			return found;
	}
	return &reduce_plain;
}

/* One block of the tree over [low, high), which has more than one rank. */
struct reduce_walk {
	const void *const *sources;
	size_t offset, count; /* bytes into the sources, elements of the block */
	reduce_pair_fn pair;
	uint8_t (*scratch)[REDUCE_BLOCK]; /* one for each level */
};

static const void *reduce_node(const struct reduce_walk *walk, uint32_t low, uint32_t high,
			       uint8_t *into, uint32_t level)
{
	if (high - low == 1)
		return (const uint8_t *)walk->sources[low] + walk->offset;
	uint32_t middle = low + (high - low + 1) / 2;
	const void *left = reduce_node(walk, low, middle, into, level + 1);
	const void *right = reduce_node(walk, middle, high, walk->scratch[level], level + 1);
	walk->pair(into, left, right, walk->count);
	return into;
}

void reduce_tree(const struct reduce *reduce, enum collective_type type,
		 enum collective_redop redop, const void *const *sources, uint32_t ranks, void *out,
		 size_t count)
{
	bool is_average = redop == COLLECTIVE_AVG;
	reduce_pair_fn pair = reduce->pair[type][is_average ? COLLECTIVE_SUM : redop];

	size_t size = collective_type_size(type);

	if (ranks == 1) {
		if (out != sources[0])
			memcpy(out, sources[0], count * size);
		return; /* a sum divided by 1 */
	}

	if (ranks == 2) {
		pair(out, sources[0], sources[1], count);
		if (is_average)
			reduce->divide[type](out, count, ranks);
		return;
	}

	uint8_t left_sum[REDUCE_BLOCK] __attribute__((aligned(64)));
	uint8_t right_sum[REDUCE_BLOCK] __attribute__((aligned(64)));
	uint8_t scratch[REDUCE_LEVELS][REDUCE_BLOCK] __attribute__((aligned(64)));

	uint32_t middle = (ranks + 1) / 2;

	for (size_t done = 0; done < count; done += REDUCE_BLOCK / size) {
		size_t now = count - done;
		if (now > REDUCE_BLOCK / size)
			now = REDUCE_BLOCK / size;

		struct reduce_walk walk = {.sources = sources,
					   .offset = done * size,
					   .count = now,
					   .pair = pair,
					   .scratch = scratch};
		const void *left = reduce_node(&walk, 0, middle, left_sum, 0);
		const void *right = reduce_node(&walk, middle, ranks, right_sum, 0);
		uint8_t *to = (uint8_t *)out + done * size;

		pair(to, left, right, now); /* only now: `out` may be a source of both */
		if (is_average)
			reduce->divide[type](to, now, ranks);
	}
}

void reduce_divide(const struct reduce *reduce, enum collective_type type, void *values,
		   size_t count, uint32_t ranks)
{
	reduce->divide[type](values, count, ranks);
}

void reduce_stream(void *to, const void *from, size_t bytes)
{
#if defined(__SSE2__)
	size_t head = (size_t)(-(uintptr_t)to & 63);
	if (bytes >= head + 64) {
		memcpy(to, from, head);
		char *out = (char *)to + head;
		const char *in = (const char *)from + head;

		bytes -= head;
		for (; bytes >= 64; bytes -= 64, in += 64, out += 64) {
			__m128i a = _mm_loadu_si128((const __m128i *)(const void *)in);
			__m128i b = _mm_loadu_si128((const __m128i *)(const void *)(in + 16));
			__m128i c = _mm_loadu_si128((const __m128i *)(const void *)(in + 32));
			__m128i d = _mm_loadu_si128((const __m128i *)(const void *)(in + 48));
			_mm_stream_si128((__m128i *)(void *)out, a);
			_mm_stream_si128((__m128i *)(void *)(out + 16), b);
			_mm_stream_si128((__m128i *)(void *)(out + 32), c);
			_mm_stream_si128((__m128i *)(void *)(out + 48), d);
		}

		to = out;
		from = in;
	}
#endif
	memcpy(to, from, bytes);
}

void reduce_stream_end(void)
{
#if defined(__SSE2__)
	_mm_sfence(); /* such stores are not ordered by a release */
#endif
}

float reduce_from_f16(uint16_t bits)
{
	uint16_t in[REDUCE_VECTOR / sizeof(float)] = {bits};
	VECTOR(float) out;
	vector_f16_widen(in, &out);
	return out[0];
}

float reduce_from_bf16(uint16_t bits)
{
	uint16_t in[REDUCE_VECTOR / sizeof(float)] = {bits};
	VECTOR(float) out;
	vector_bf16_widen(in, &out);
	return out[0];
}

uint16_t reduce_to_f16(float value)
{
	uint16_t out[REDUCE_VECTOR / sizeof(float)];
	VECTOR(float) in = {value};
	vector_f16_narrow(&in, out);
	return out[0];
}

uint16_t reduce_to_bf16(float value)
{
	uint16_t out[REDUCE_VECTOR / sizeof(float)];
	VECTOR(float) in = {value};
	vector_bf16_narrow(&in, out);
	return out[0];
}
