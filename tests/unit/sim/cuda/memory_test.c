/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda/memory.h"

#include <string.h>

#include "unit/unit.h"

static struct memory memory;

static int setup(void **state)
{
	(void)state;
	return memory_init(&memory, UINT64_C(80) << 30);
}

static int teardown(void **state)
{
	(void)state;
	memory_done(&memory);
	return 0;
}

static void test_all_of_it_can_be_given_out_and_costs_nothing(void **state)
{
	uint64_t all = memory_take(&memory, UINT64_C(80) << 30);
	unsigned char *last;

	(void)state;
	assert_true(all != 0);
	assert_int_equal(memory_take(&memory, 1), 0);
	last = memory_at(&memory, all + (UINT64_C(80) << 30) - 1, 1);
	assert_non_null(last);
	*last = 7;
	assert_int_equal(*(unsigned char *)memory_at(&memory, all + (UINT64_C(80) << 30) - 1, 1),
			 7);
	assert_true(memory_give(&memory, all));
	assert_int_equal(memory.held_bytes, 0);
}

static void test_small_pieces_share_a_block(void **state)
{
	uint64_t one = memory_take(&memory, 100), two = memory_take(&memory, 4096);

	(void)state;
	assert_int_equal(memory.held_bytes, MEMORY_BLOCK_BYTES);
	assert_int_equal(two - one, MEMORY_ALIGN);
	assert_int_equal(memory_would_hold(&memory, 1 << 20), MEMORY_BLOCK_BYTES);
	assert_int_equal(memory_would_hold(&memory, 3 << 20), 3 * MEMORY_BLOCK_BYTES);
	assert_true(memory_give(&memory, one));
	assert_int_equal(memory.held_bytes, MEMORY_BLOCK_BYTES);
	assert_int_equal(memory_take(&memory, 512), one); /* first fit */
	assert_true(memory_give(&memory, one));
	assert_true(memory_give(&memory, two));
	assert_int_equal(memory.held_bytes, 0);
}

static void test_only_what_was_given_out_can_be_reached(void **state)
{
	uint64_t one = memory_take(&memory, 100), two = memory_take(&memory, 100);

	(void)state;
	assert_non_null(memory_at(&memory, one, 100));
	assert_non_null(memory_at(&memory, one + 99, 1));
	assert_null(memory_at(&memory, one, 101));
	assert_null(memory_at(&memory, one + 100, 1));
	assert_null(memory_at(&memory, one, UINT64_MAX));
	assert_null(memory_at(&memory, 0, 1));
	assert_false(memory_give(&memory, one + 1));
	assert_true(memory_give(&memory, one));
	assert_false(memory_give(&memory, one));
	assert_null(memory_at(&memory, one, 1));
	assert_true(memory_give(&memory, two));
}

static void test_what_is_given_out_again_is_empty(void **state)
{
	uint64_t address = memory_take(&memory, 4 << 20);
	unsigned char *bytes = memory_at(&memory, address, 4 << 20);

	(void)state;
	memset(bytes, 0xff, 4 << 20);
	assert_true(memory_give(&memory, address));
	address = memory_take(&memory, 4 << 20);
	bytes = memory_at(&memory, address, 4 << 20);
	assert_int_equal(bytes[0], 0);
	assert_int_equal(bytes[(4 << 20) - 1], 0);
}

/* Against a count of the blocks that hold anything. */
static void test_held_bytes_are_those_of_the_blocks_in_use(void **state)
{
	enum { PIECES = 64, BLOCKS = 200 };
	struct {
		uint64_t address, bytes;
	} piece[PIECES] = {{0, 0}};
	uint32_t random = 1;

	(void)state;
	for (uint32_t round = 0; round < 5000; round++) {
		random = random * 1664525 + 1013904223;
		uint32_t at = random >> 8 & (PIECES - 1);
		uint64_t asked = (random >> 16) % 7 == 0 ? (random >> 14) * 8 : (random >> 18) + 1;
		bool used[BLOCKS * 4] = {false};
		uint64_t held = 0;

		if (piece[at].address) {
			assert_true(memory_give(&memory, piece[at].address));
			piece[at].address = 0;
		} else {
			uint64_t would = memory_would_hold(&memory, asked);

			piece[at].address = memory_take(&memory, asked);
			piece[at].bytes = asked;
			assert_true(piece[at].address != 0);
			assert_int_equal(memory.held_bytes, would);
		}
		for (uint32_t i = 0; i < PIECES; i++) {
			uint64_t from = piece[i].address - (uint64_t)(uintptr_t)memory.view;

			if (!piece[i].address)
				continue;
			for (uint64_t b = from / MEMORY_BLOCK_BYTES;
			     b <= (from + piece[i].bytes - 1) / MEMORY_BLOCK_BYTES; b++) {
				assert_true(b < BLOCKS * 4);
				used[b] = true;
			}
		}
		for (uint32_t b = 0; b < BLOCKS * 4; b++)
			held += used[b] ? MEMORY_BLOCK_BYTES : 0;
		assert_int_equal(memory.held_bytes, held);
	}
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
	    CASE(test_all_of_it_can_be_given_out_and_costs_nothing),
	    CASE(test_small_pieces_share_a_block),
	    CASE(test_only_what_was_given_out_can_be_reached),
	    CASE(test_what_is_given_out_again_is_empty),
	    CASE(test_held_bytes_are_those_of_the_blocks_in_use),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
