/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/collectives/pattern.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "bench/collectives/element.h"
#include "bench/stats.h"
#include "bench/half.h"
#include "unit/bench/collectives/plain.h"
#include "unit/unit.h"

enum { RANKS_MAX = 64, ELEMENTS = 160, BYTES = ELEMENTS * COLLECTIVE_ELEMENT_MAX };

static struct pattern made(enum collective_op op, enum collective_type type,
			   enum collective_redop redop, uint32_t ranks, uint64_t bytes)
{
	struct pattern_plan plan = {
	    .op = op, .type = type, .redop = redop, .root = ranks / 2, .ranks = ranks, .seed = 77};
	struct collective_shape shape;
	struct pattern pattern;
	collective_shape(op, type, bytes, ranks, &shape);
	pattern_init(&plan, &shape, &pattern);
	return pattern;
}

/* Adds the parts up along a random binary tree: any two of those that are left, again and again. */
static void reduce_in_random_order(struct stats_random *random, const struct pattern *pattern,
				   const uint8_t *parts, uint8_t *out)
{
	enum collective_type type = pattern->plan.type;
	enum collective_redop redop = pattern->plan.redop;
	size_t size = collective_type_size(type);
	uint8_t left[RANKS_MAX][COLLECTIVE_ELEMENT_MAX];
	uint32_t count = pattern->plan.ranks;
	for (uint32_t r = 0; r < count; r++)
		memcpy(left[r], parts + r * BYTES, size);
	while (count > 1) {
		uint32_t a = (uint32_t)(stats_random_next(random) % count);
		uint32_t b = (uint32_t)(stats_random_next(random) % (count - 1));
		b += b >= a;
		plain_combine(type, redop, left[a], left[b]);
		memcpy(left[b], left[count - 1], size);
		if (a == count - 1)
			memcpy(left[b], left[a], size);
		count--;
	}
	if (redop == COLLECTIVE_AVG)
		plain_divide(type, pattern->plan.ranks, left[0]);
	memcpy(out, left[0], size);
}

static void one_reduction(struct stats_random *random, uint8_t *parts, enum collective_type type,
			  enum collective_redop redop, uint32_t ranks, uint32_t orders)
{
	size_t size = collective_type_size(type);
	struct pattern pattern = made(COLLECTIVE_ALL_REDUCE, type, redop, ranks, ELEMENTS * size);
	uint8_t expected[BYTES], got[COLLECTIVE_ELEMENT_MAX];
	for (uint32_t r = 0; r < ranks; r++)
		pattern_send(&pattern, r, 0, ELEMENTS, parts + r * BYTES);
	pattern_receive(&pattern, 0, 0, ELEMENTS, expected);
	for (uint32_t i = 0; i < ELEMENTS; i++)
		for (uint32_t order = 0; order < orders; order++) {
			reduce_in_random_order(random, &pattern, parts + i * size, got);
			if (memcmp(got, expected + i * size, size) == 0)
				continue;
			char is[ELEMENT_TEXT_MAX], must[ELEMENT_TEXT_MAX];
			element_print(type, got, is);
			element_print(type, expected + i * size, must);
			fail_msg("%s %s over %u ranks, element %u: %s, not %s",
				 collective_type_to_string(type), collective_redop_to_string(redop),
				 ranks, i, is, must);
		}
}

static void reductions_have_the_same_bits_in_any_order(void **state)
{
	static const uint32_t ranks[] = {1, 2, 3, 4, 5, 7, 8, 16, 64};
	struct stats_random random = {.state = 5};
	uint8_t *parts = malloc((size_t)RANKS_MAX * BYTES);
	assert_non_null(parts);
	for (int type = 0; type < COLLECTIVE_TYPE_COUNT; type++)
		for (int redop = 0; redop < COLLECTIVE_REDOP_COUNT; redop++)
			for (size_t n = 0; n < array_length(ranks); n++)
				one_reduction(&random, parts, (enum collective_type)type,
					      (enum collective_redop)redop, ranks[n],
					      ranks[n] == 7 ? 100 : 4);
	free(parts);
}

/* A library that multiplies by 1/ranks first rounds; one that leaves out a rank is wrong. */
static void averages_may_be_rounded_but_not_wrong(void **state)
{
	static const enum collective_type types[] = {COLLECTIVE_F16, COLLECTIVE_BF16,
						     COLLECTIVE_F32, COLLECTIVE_F64};
	uint8_t part[BYTES], sum[BYTES], short_of_one[BYTES];
	for (size_t t = 0; t < array_length(types); t++)
		for (uint32_t ranks = 2; ranks <= RANKS_MAX; ranks++) {
			enum collective_type type = types[t];
			size_t size = collective_type_size(type);
			struct pattern pattern = made(COLLECTIVE_ALL_REDUCE, type, COLLECTIVE_AVG,
						      ranks, ELEMENTS * size);
			memset(sum, 0, sizeof(sum));
			for (uint32_t r = 0; r < ranks; r++) {
				pattern_send(&pattern, r, 0, ELEMENTS, part);
				memcpy(short_of_one, sum, sizeof(sum));
				for (uint32_t i = 0; i < ELEMENTS; i++) {
					uint8_t *element = part + i * size;
					double by = 1.0 / ranks;
					if (type != COLLECTIVE_F64)
						by = (double)(float)by;
					double scaled = element_value(type, element) * by;
					uint8_t wide[COLLECTIVE_ELEMENT_MAX];
					memcpy(wide, &scaled, sizeof(scaled));
					float single = (float)scaled;
					uint16_t half = type == COLLECTIVE_F16
							    ? half_from_float(single)
							    : element_bf16_from_f32(single);
					memcpy(element,
					       size == 8   ? (void *)wide
					       : size == 4 ? (void *)&single
							   : (void *)&half,
					       size);
					plain_combine(type, COLLECTIVE_SUM, sum + i * size,
						      element);
				}
			}
			uint64_t at = 0;
			uint64_t wrong = pattern_check_receive(&pattern, 0, 0, ELEMENTS, sum, &at);
			if (wrong != 0)
				fail_msg("%s over %u ranks: %u wrong, the first %u",
					 collective_type_to_string(type), ranks, (unsigned)wrong,
					 (unsigned)at);
			bool is_exact = (ranks & (ranks - 1)) == 0;
			assert_int_equal(is_exact, pattern_tolerance(&pattern) == 0);
			/* A 20th of eight bits is within what they may be rounded. */
			if (type != COLLECTIVE_BF16 || is_exact || ranks < 20)
				assert_int_not_equal(pattern_check_receive(&pattern, 0, 0, ELEMENTS,
									   short_of_one, &at),
						     0);
		}
}

static void one_move(enum collective_op op, enum collective_type type, uint32_t ranks)
{
	enum { ROOM = 4096 };
	const void *sent[8];
	uint8_t received[ROOM + 1], expected[ROOM + 1];
	struct pattern pattern = made(op, type, COLLECTIVE_SUM, ranks, 3000);
	struct backend_call call = {
	    .op = op, .type = type, .root = pattern.plan.root, .shape = &pattern.shape};
	for (uint32_t r = 0; r < ranks; r++) {
		uint8_t *source = calloc(1, ROOM);
		assert_non_null(source);
		assert_true(pattern.shape.bytes <= ROOM);
		pattern_send(&pattern, r, 0, pattern_send_count(&pattern, r), source);
		sent[r] = source;
	}
	for (uint32_t r = 0; r < ranks; r++) {
		uint64_t count = pattern_receive_count(&pattern, r), at = 0;
		if (count == 0)
			continue;
		memset(received, 0xa5, sizeof(received));
		memset(expected, 0xa5, sizeof(expected));
		plain_result(&call, sent, ranks, r, received);
		pattern_receive(&pattern, r, 0, count, expected);
		assert_memory_equal(received, expected, sizeof(received));
		assert_int_equal(pattern_check_receive(&pattern, r, 0, count, received, &at), 0);
		/* in pieces that begin anywhere */
		for (uint64_t first = 0; first < count; first += 37) {
			uint64_t some = count - first < 61 ? count - first : 61;
			const uint8_t *piece = received + first * collective_type_size(type);
			assert_int_equal(
			    pattern_check_receive(&pattern, r, first, some, piece, &at), 0);
		}
	}
	for (uint32_t r = 0; r < ranks; r++)
		free((void *)(uintptr_t)sent[r]);
}

static void what_is_moved_comes_where_it_belongs(void **state)
{
	for (int op = 0; op < COLLECTIVE_OP_COUNT; op++)
		for (int type = 0; type < COLLECTIVE_TYPE_COUNT; type++)
			for (uint32_t ranks = 1; ranks <= 8; ranks++)
				if (!collective_op_reduces((enum collective_op)op))
					one_move((enum collective_op)op, (enum collective_type)type,
						 ranks);
	/* a result of a reduce_scatter is that of an all_reduce, in parts */
	struct pattern scattered =
	    made(COLLECTIVE_REDUCE_SCATTER, COLLECTIVE_F32, COLLECTIVE_SUM, 4, 1024);
	struct pattern whole = made(COLLECTIVE_ALL_REDUCE, COLLECTIVE_F32, COLLECTIVE_SUM, 4, 1024);
	float parts[256], all[256];
	for (uint32_t r = 0; r < 4; r++)
		pattern_receive(&scattered, r, 0, 64, parts + r * 64);
	pattern_receive(&whole, 0, 0, 256, all);
	assert_memory_equal(parts, all, sizeof(all));
}

static void one_wrong_element_is_found(void **state)
{
	struct pattern pattern =
	    made(COLLECTIVE_ALL_REDUCE, COLLECTIVE_F32, COLLECTIVE_SUM, 3, 4 * 1000);
	float all[1000];
	uint64_t at = 7;
	pattern_receive(&pattern, 1, 0, 1000, all);
	assert_int_equal(pattern_check_receive(&pattern, 1, 0, 1000, all, &at), 0);
	assert_int_equal(at, 7);
	for (uint32_t i = 0; i < 1000; i += 111) {
		float right = all[i];
		all[i] = nextafterf(right, INFINITY);
		assert_int_equal(pattern_check_receive(&pattern, 1, 0, 1000, all, &at), 1);
		assert_int_equal(at, i);
		assert_int_equal(pattern_check_receive(&pattern, 1, 0, 1000 - i / 2, all, &at),
				 i < 1000 - i / 2);
		all[i] = NAN;
		assert_int_equal(pattern_check_receive(&pattern, 1, 0, 1000, all, &at), 1);
		all[i] = right;
	}
	/* Another seed has other data, and so has another rank. */
	struct pattern other = pattern;
	other.plan.seed++;
	assert_true(pattern_check_receive(&other, 1, 0, 1000, all, &at) > 990);
	pattern_send(&pattern, 1, 0, 1000, all);
	assert_int_equal(pattern_check_send(&pattern, 1, 0, 1000, all, &at), 0);
	assert_true(pattern_check_send(&pattern, 2, 0, 1000, all, &at) > 990);
	assert_true(pattern_check_receive(&pattern, 2, 0, 1000, all, &at) > 990);
}

/* Far elements are not those near the beginning, and a block does not wrap with 32 bits. */
static void large_buffers_do_not_repeat(void **state)
{
	struct pattern pattern =
	    made(COLLECTIVE_ALL_REDUCE, COLLECTIVE_I32, COLLECTIVE_SUM, 2, UINT64_C(1) << 40);
	int32_t near[300], far[300], one;
	uint64_t edge = UINT64_C(1) << 32, at;
	pattern_send(&pattern, 0, 0, 300, near);
	pattern_send(&pattern, 0, edge - 100, 300, far);
	assert_memory_not_equal(near, far + 100, 200 * sizeof(int32_t));
	for (uint32_t i = 0; i < 300; i += 50) {
		pattern_send(&pattern, 0, edge - 100 + i, 1, &one);
		assert_int_equal(one, far[i]);
	}
	assert_int_equal(pattern_check_send(&pattern, 0, edge - 100, 300, far, &at), 0);
}

static void periodic_data_repeat(void **state)
{
	struct pattern_plan plan = {
	    .op = COLLECTIVE_ALL_REDUCE, .type = COLLECTIVE_F16, .ranks = 3, .is_periodic = true};
	struct collective_shape shape;
	struct pattern pattern;
	enum { COUNT = 3 * PATTERN_PERIOD_BYTES / 2 + 11 };
	uint16_t data[COUNT];
	collective_shape(plan.op, plan.type, sizeof(data), plan.ranks, &shape);
	pattern_init(&plan, &shape, &pattern);
	pattern_send(&pattern, 1, 0, COUNT, data);
	for (uint32_t i = PATTERN_PERIOD_BYTES / 2; i < COUNT; i++)
		assert_int_equal(data[i], data[i - PATTERN_PERIOD_BYTES / 2]);
	assert_int_not_equal(data[0], data[1]);
	pattern_receive(&pattern, 1, 5, COUNT - 5, data);
	assert_int_equal(data[0], data[PATTERN_PERIOD_BYTES / 2]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(reductions_have_the_same_bits_in_any_order),
	    cmocka_unit_test(averages_may_be_rounded_but_not_wrong),
	    cmocka_unit_test(what_is_moved_comes_where_it_belongs),
	    cmocka_unit_test(one_wrong_element_is_found),
	    cmocka_unit_test(large_buffers_do_not_repeat),
	    cmocka_unit_test(periodic_data_repeat),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
