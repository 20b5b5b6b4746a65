/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/collectives/reduce.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "unit/bench/collectives/tree.h"
#include "unit/unit.h"

/* All finite values, infinities and both zeros; of those between, the middles between two. */
static void short_floats_are_rounded_to_nearest_even(void **state)
{
	for (uint32_t bits = 0; bits <= UINT16_MAX; bits++) {
		float half = reduce_from_f16((uint16_t)bits);
		if ((bits & 0x7c00) == 0x7c00 && (bits & 0x3ff)) {
			assert_true(isnan(half));
			assert_int_equal(reduce_to_f16(half) & 0x7fff, 0x7e00);
		} else {
			assert_true((double)half == tree_of_f16((uint16_t)bits));
			assert_int_equal(reduce_to_f16(half), bits);
		}
		float brain = reduce_from_bf16((uint16_t)bits);
		uint32_t wide;
		memcpy(&wide, &brain, sizeof(wide));
		assert_int_equal(wide, bits << 16);
		if (!isnan(brain))
			assert_int_equal(reduce_to_bf16(brain), bits);
		else
			assert_true((reduce_to_bf16(brain) & 0x7fff) > 0x7f80);
	}
	uint64_t random = 1;
	for (int i = 0; i < 2000000; i++) {
		uint32_t bits = (uint32_t)tree_random(&random);
		if (i % 2) /* around the exponents of a half */
			bits = (bits & 0x807fffff) | ((100 + bits % 45) << 23);
		if (i % 4 < 2)
			bits &= 0xfffff000; /* often in the middle between two */
		float value;
		memcpy(&value, &bits, sizeof(value));
		if (isnan(value))
			continue;
		if (reduce_to_f16(value) != tree_to_f16(value))
			fail_msg("%a: %04x is not %04x", (double)value, reduce_to_f16(value),
				 tree_to_f16(value));
		if (reduce_to_bf16(value) != tree_to_bf16(value))
			fail_msg("%a: %04x is not %04x", (double)value, reduce_to_bf16(value),
				 tree_to_bf16(value));
	}
}

enum { COUNT_MAX = 2500, RANKS_MAX = 64 };

/* One call at odd addresses: against the tree, element by element; nothing is written beside. */
static void check_one(const struct reduce *reduce, struct tree_case *one, size_t count,
		      size_t shift, bool in_place)
{
	size_t size = collective_type_size(one->type);
	uint8_t *memory = calloc(one->ranks + 1, COUNT_MAX * 8 + 128);
	assert_non_null(memory);
	const void *sources[RANKS_MAX];
	for (uint32_t rank = 0; rank < one->ranks; rank++) {
		uint8_t *source = memory + rank * (size_t)(COUNT_MAX * 8 + 128) + 64 + shift * size;
		if (shift % 2)
			source++;
		for (size_t i = 0; i < count; i++)
			tree_value(one, rank, i, source + i * size);
		sources[rank] = source;
	}
	uint8_t *out = memory + one->ranks * (size_t)(COUNT_MAX * 8 + 128) + 64 + shift;
	if (in_place)
		out = (uint8_t *)(uintptr_t)sources[one->seed % one->ranks];
	uint8_t before[8], after[8];
	memcpy(before, out - 8, 8);
	memcpy(after, out + count * size, 8);
	reduce_tree(reduce, one->type, one->redop, sources, one->ranks, out, count);
	assert_memory_equal(before, out - 8, 8);
	assert_memory_equal(after, out + count * size, 8);
	for (size_t i = 0; i < count; i++) {
		uint8_t wanted[8];
		tree_expect(one, i, wanted);
		if (memcmp(wanted, out + i * size, size) != 0)
			fail_msg("%s %s of %u ranks, element %zu of %zu is wrong",
				 collective_type_to_string(one->type),
				 collective_redop_to_string(one->redop), one->ranks, i, count);
	}
	free(memory);
}

static void sums_are_those_of_the_tree(void **state)
{
	static const uint32_t ranks[] = {1, 2, 3, 4, 5, 7, 8, 16, 64};
	static const size_t counts[] = {0, 1, 2, 7, 15, 16, 17, 33, 255, 1027};
	uint64_t random = 7;
	for (int isa = 0; isa < REDUCE_ISA_COUNT; isa++) {
		const struct reduce *reduce = reduce_get((enum reduce_isa)isa);
		if (!reduce) {
			print_message("no enum reduce_isa %d on this processor\n", isa);
			continue;
		}
		for (int type = 0; type < COLLECTIVE_TYPE_COUNT; type++)
			for (int redop = 0; redop < COLLECTIVE_REDOP_COUNT; redop++)
				for (size_t r = 0; r < array_length(ranks); r++) {
					struct tree_case one = {.type = (enum collective_type)type,
								.redop =
								    (enum collective_redop)redop,
								.ranks = ranks[r],
								.seed = tree_random(&random)};
					size_t count = counts[one.seed % array_length(counts)];
					if (one.ranks == 64)
						count %= 40;
					check_one(reduce, &one, count, one.seed / 16 % 4,
						  one.seed / 64 % 2);
				}
	}
	assert_ptr_equal(reduce_get(REDUCE_ISA_COUNT), NULL);
	assert_non_null(reduce_best());
}

static void every_count_and_address(void **state)
{
	for (int isa = 0; isa < REDUCE_ISA_COUNT; isa++) {
		const struct reduce *reduce = reduce_get((enum reduce_isa)isa);
		for (int type = 0; reduce && type < COLLECTIVE_TYPE_COUNT; type++)
			for (size_t count = 0; count < 140; count += count < 70 ? 1 : 13) {
				struct tree_case one = {.type = (enum collective_type)type,
							.redop = COLLECTIVE_SUM,
							.ranks = 2 + count % 2,
							.seed = count};
				check_one(reduce, &one, count, count % 5, count % 3 == 0);
			}
	}
}

static void streams_write_what_they_are_given(void **state)
{
	uint8_t from[600], to[600];
	for (size_t i = 0; i < sizeof(from); i++)
		from[i] = (uint8_t)(i * 7 + 1);
	for (size_t bytes = 0; bytes < 400; bytes += 1 + bytes / 20)
		for (size_t shift = 0; shift < 130; shift += 13) {
			memset(to, 0, sizeof(to));
			reduce_stream(to + shift, from + 3, bytes);
			reduce_stream_end();
			assert_memory_equal(to + shift, from + 3, bytes);
			assert_int_equal(to[shift + bytes], 0);
			assert_true(shift == 0 || to[shift - 1] == 0);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(short_floats_are_rounded_to_nearest_even),
	    cmocka_unit_test(sums_are_those_of_the_tree),
	    cmocka_unit_test(every_count_and_address),
	    cmocka_unit_test(streams_write_what_they_are_given),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
