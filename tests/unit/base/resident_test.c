/* SPDX-License-Identifier: Apache-2.0 */
#include "base/resident.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "unit/unit.h"

enum { TABLE_PAGES = 64, PAGE = 4096 };
/* In the program's read-only part, far from what the test itself touches at its end. */
static const unsigned char table[TABLE_PAGES * PAGE] = {[0] = 1, [32 * PAGE] = 7};
/* Relocated, and read-only afterwards: the loader has written to it. */
static const char *const names[] = {"zero", "one", "two"};
static int written = 5;

/* Which pages are mapped afterwards is the kernel's affair: it may map a large folio as a whole. */
static int given_back;

int __real_madvise(void *at, size_t size, int advice);
int __wrap_madvise(void *at, size_t size, int advice);
int __wrap_madvise(void *at, size_t size, int advice)
{
	const unsigned char *begin = at, *middle = &table[32 * PAGE];
	if (advice == MADV_DONTNEED && middle >= begin && middle < begin + size)
		given_back++;
	return __real_madvise(at, size, advice);
}

/* A call that needs much and returns: 64 pages of which nobody knows any more. */
static uintptr_t __attribute__((noinline)) go_deep(void)
{
	volatile unsigned char room[64 * PAGE];
	for (size_t i = 0; i < sizeof(room); i += PAGE)
		room[i] = 1;

	return (uintptr_t)&room[32 * PAGE] & ~(uintptr_t)(PAGE - 1);
}

static bool is_resident(uintptr_t page)
{
	uint64_t entry = 0;
	FILE *map = fopen("/proc/self/pagemap", "re");
	assert_non_null(map);
	assert_int_equal(fseek(map, (long)(page / PAGE * sizeof(entry)), SEEK_SET), 0);
	assert_int_equal(fread(&entry, sizeof(entry), 1, map), 1);
	assert_int_equal(fclose(map), 0);
	return entry >> 63;
}

static void check_stack(void)
{
	volatile int kept = 5;
	uintptr_t page = go_deep();
	assert_true(is_resident(page));
	resident_give_back_stack();
	assert_false(is_resident(page));
	assert_int_equal(kept, 5);

	for (int i = 0; i < 3; i++) {
		assert_int_equal(go_deep(), page);
		resident_give_back_stack();
	}
}

static void *check_stack_of_thread(void *context)
{
	check_stack();
	return context;
}

static void test_what_a_deep_call_leaves_on_the_stack_is_given_back(void **state)
{
	(void)state;
	check_stack();

	/* One with less below it than would be given back. */
	pthread_attr_t attributes;
	pthread_t thread;
	assert_int_equal(pthread_attr_init(&attributes), 0);
	assert_int_equal(pthread_attr_setstacksize(&attributes, 512 << 10), 0);
	assert_int_equal(pthread_create(&thread, &attributes, check_stack_of_thread, NULL), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(pthread_attr_destroy(&attributes), 0);
}

static bool is_in(const struct resident *resident, const void *address)
{
	for (uint32_t i = 0; i < resident->count; i++) {
		const char *at = resident->range[i].at;
		if ((const char *)address >= at &&
		    (const char *)address < at + resident->range[i].size)
			return true;
	}
	return false;
}

static void test_code_and_constants_are_given_back_and_come_again(void **state)
{
	struct resident resident;
	(void)state;
	resident_init(&resident);
	const volatile unsigned char *middle = &table[32 * PAGE];
	assert_int_equal(*middle, 7);
	resident_give_back(&resident);
	assert_int_equal(given_back, 1);
	assert_int_equal(*middle, 7);
}

static void test_what_may_have_been_written_is_left_alone(void **state)
{
	struct resident resident;
	(void)state;
	resident_init(&resident);
	assert_true(resident.count >= 4); /* the program and libc, two parts of each */
	written = 6;
	const char *const volatile *relocated = names;
	char *heap = strdup("heap");
	assert_false(is_in(&resident, names));
	assert_false(is_in(&resident, &written));
	assert_false(is_in(&resident, heap));
	assert_false(is_in(&resident, &resident));
	for (int i = 0; i < 3; i++)
		resident_give_back(&resident);
	assert_string_equal(relocated[2], "two");
	assert_string_equal(heap, "heap");
	assert_int_equal(written, 6);
	free(heap);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_code_and_constants_are_given_back_and_come_again),
	    cmocka_unit_test(test_what_may_have_been_written_is_left_alone),
	    cmocka_unit_test(test_what_a_deep_call_leaves_on_the_stack_is_given_back),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
