/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/arena.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "unit/failmalloc.h"
#include "unit/unit.h"

static void test_empty_takes_nothing(void **state)
{
	struct arena arena;
	arena_init(&arena, 1000);
	assert_null(arena.blocks);
	assert_int_equal(arena.held, 0);
	arena_done(&arena);
	arena_done(&arena);
}

static void test_is_zeroed_and_aligned_and_apart(void **state)
{
	_cleanup_arena_ struct arena arena;
	arena_init(&arena, 1 << 20);
	char *last = NULL;
	for (size_t size = 0; size < 300; size++) {
		char *data = arena_alloc(&arena, size);
		assert_non_null(data);
		assert_int_equal((uintptr_t)data % _Alignof(max_align_t), 0);
		assert_ptr_not_equal(data, last);
		for (size_t i = 0; i < size; i++)
			assert_int_equal(data[i], 0);
		memset(data, 0xff, size);
		last = data;
	}
	assert_true(arena.used <= arena.held);
	assert_true(arena.held <= arena.max);
}

static void test_cap_counts_what_the_heap_gave(void **state)
{
	for (size_t size = 1; size < 100000; size = size * 3 + 1) {
		_cleanup_arena_ struct arena arena;
		arena_init(&arena, 100000);
		size_t count = 0;
		while (arena_alloc(&arena, size))
			count++;
		assert_true(arena.exhausted);
		assert_true(arena.held <= 100000);
		assert_true(count > 0);
		assert_true(count * size <= 100000);
		/* A quarter of it at most is lost to what did not fit. */
		assert_true(arena.used + size + 16 > 75000);
	}
}

static void test_cap_of_any_size(void **state)
{
	_cleanup_arena_ struct arena none;
	arena_init(&none, 0);
	assert_null(arena_alloc(&none, 0));
	assert_null(arena_alloc(&none, 1));

	_cleanup_arena_ struct arena arena;
	arena_init(&arena, 160);
	assert_non_null(arena_alloc(&arena, 100));
	assert_null(arena_alloc(&arena, 100));
	assert_non_null(arena_alloc(&arena, 48));
	assert_null(arena_alloc(&arena, 1));
}

static void test_sizes_that_overflow(void **state)
{
	_cleanup_arena_ struct arena arena;
	arena_init(&arena, SIZE_MAX);
	assert_null(arena_alloc(&arena, SIZE_MAX));
	assert_true(arena.exhausted);
	arena.exhausted = false;
	assert_null(arena_alloc(&arena, SIZE_MAX - 15));
	assert_true(arena.exhausted);
	assert_null(arena_copy(&arena, "", SIZE_MAX));
	assert_non_null(arena_alloc(&arena, 1));
}

static void test_large_leaves_the_rest_of_a_block(void **state)
{
	_cleanup_arena_ struct arena arena;
	arena_init(&arena, 1 << 20);
	char *first = arena_alloc(&arena, 16);
	assert_non_null(first);
	char *large = arena_alloc(&arena, 100000);
	assert_non_null(large);
	char *second = arena_alloc(&arena, 16);
	assert_ptr_equal(second, first + 16);
}

static void test_copies(void **state)
{
	_cleanup_arena_ struct arena arena;
	arena_init(&arena, 10000);
	char *text = arena_copy_text(&arena, "J\xc3\xbcrgen");
	assert_non_null(text);
	assert_string_equal(text, "J\xc3\xbcrgen");
	char *data = arena_copy(&arena, "a\0b", 3);
	assert_non_null(data);
	assert_memory_equal(data, "a\0b", 3);
	assert_non_null(arena_copy(&arena, NULL, 0));
	char *printed = arena_printf(&arena, "%s-%d", "job", 17);
	assert_non_null(printed);
	assert_string_equal(printed, "job-17");
	assert_null(arena_printf(&arena, "%20000d", 1));
}

static void test_copy_valid(void **state)
{
	_cleanup_arena_ struct arena arena;
	arena_init(&arena, 10000);
	static const struct {
		const char *in, *out;
	} cases[] = {
	    {"", ""},
	    {"python3", "python3"},
	    {"\xc3\xbc", "\xc3\xbc"},
	    {"a\xff"
	     "b",
	     "a\xef\xbf\xbd"
	     "b"},
	    {"\xc3", "\xef\xbf\xbd"},
	    {"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *copy = arena_copy_valid(&arena, cases[i].in);
		assert_non_null(copy);
		assert_string_equal(copy, cases[i].out);
	}
}

static void test_serves_protobuf(void **state)
{
	_cleanup_arena_ struct arena arena;
	arena_init(&arena, 100);
	ProtobufCAllocator *allocator = arena_allocator(&arena);
	char *data = allocator->alloc(allocator->allocator_data, 50);
	assert_non_null(data);
	allocator->free(allocator->allocator_data, data);
	allocator->free(allocator->allocator_data, NULL);
	data[49] = 1; /* not given back before the arena is */
	assert_null(allocator->alloc(allocator->allocator_data, 60));
	assert_true(arena.exhausted);
}

static void test_reset_keeps_a_block(void **state)
{
	_cleanup_arena_ struct arena arena;
	arena_init(&arena, 1 << 20);
	arena_reset(&arena); /* nothing was there */
	assert_int_equal(arena.held, 0);
	char *first = arena_alloc(&arena, 100);
	assert_non_null(first);
	memset(first, 1, 100);
	size_t held = arena.held;
	arena_reset(&arena);
	assert_int_equal(arena.used, 0);
	assert_int_equal(arena.held, held);
	char *again = arena_alloc(&arena, 100);
	assert_ptr_equal(again, first);
	for (size_t i = 0; i < 100; i++)
		assert_int_equal(again[i], 0);

	for (size_t i = 0; i < 100; i++)
		assert_non_null(arena_alloc(&arena, 5000));
	assert_true(arena.held > 5000 * 100);
	arena_reset(&arena);
	assert_true(arena.held > 0 && arena.held <= 64 << 10);

	arena_done(&arena); /* one that is larger than usual does not stay */
	assert_non_null(arena_alloc(&arena, 100 << 10));
	arena_reset(&arena);
	assert_int_equal(arena.held, 0);
}

static int scenario(void *context)
{
	_cleanup_arena_ struct arena arena;
	arena_init(&arena, 1 << 20);
	for (size_t size = 1; size < 10000; size += 500) {
		if (!arena_alloc(&arena, size))
			return -ENOMEM;
	}
	if (!arena_copy_text(&arena, "text") || !arena_printf(&arena, "%d", 1) ||
	    !arena_copy_valid(&arena, "name"))
		return -ENOMEM;
	arena_reset(&arena);
	return arena_alloc(&arena, 1 << 10) ? 0 : -ENOMEM;
}

static void test_no_memory(void **state)
{
	assert_true(failmalloc_each(scenario, NULL) > 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_empty_takes_nothing),
	    cmocka_unit_test(test_is_zeroed_and_aligned_and_apart),
	    cmocka_unit_test(test_cap_counts_what_the_heap_gave),
	    cmocka_unit_test(test_cap_of_any_size),
	    cmocka_unit_test(test_sizes_that_overflow),
	    cmocka_unit_test(test_large_leaves_the_rest_of_a_block),
	    cmocka_unit_test(test_copies),
	    cmocka_unit_test(test_copy_valid),
	    cmocka_unit_test(test_serves_protobuf),
	    cmocka_unit_test(test_reset_keeps_a_block),
	    cmocka_unit_test(test_no_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
