/* SPDX-License-Identifier: Apache-2.0 */
#include "hardware/callmark.h"

#include <string.h>

#include "unit/unit.h"

static void test_idle_is_never_stuck(void **state)
{
	struct call_mark mark = {.gpu = 0};
	struct call_stuck stuck;
	assert_false(call_mark_is_stuck(&mark, UINT64_MAX - 1, 0, &stuck));
	call_mark_begin(&mark, 3, "0000:07:00.0", "nvmlDeviceGetName", 0);
	call_mark_end(&mark);
	assert_false(call_mark_is_stuck(&mark, UINT64_MAX - 1, 0, &stuck));
	assert_int_equal(mark.count, 1);
}

static void test_stuck_after_the_limit(void **state)
{
	struct call_mark mark = {.gpu = 0};
	struct call_stuck stuck;
	call_mark_begin(&mark, 3, "0000:07:00.0", "nvmlDeviceGetName", 0);
	uint64_t begin = mark.begin_ns;
	assert_false(call_mark_is_stuck(&mark, begin + 99, 100, &stuck));
	assert_true(call_mark_is_stuck(&mark, begin + 100, 100, &stuck));
	assert_int_equal(stuck.gpu, 3);
	assert_string_equal(stuck.bus, "0000:07:00.0");
	assert_string_equal(stuck.function, "nvmlDeviceGetName");
	assert_int_equal(stuck.elapsed_ns, 100);
}

static void test_an_allowance_is_not_a_hang(void **state)
{
	struct call_mark mark = {.gpu = 0};
	struct call_stuck stuck;
	call_mark_begin(&mark, CALL_MARK_NO_GPU, "", "nvmlEventSetWait_v2", 1000);
	uint64_t begin = mark.begin_ns;
	assert_false(call_mark_is_stuck(&mark, begin + 1000000000 + 99, 100, &stuck));
	assert_true(call_mark_is_stuck(&mark, begin + 1000000000 + 100, 100, &stuck));
}

/* The page belongs to a process that runs the driver's code: nothing in it is trusted. */
static void test_a_page_of_garbage(void **state)
{
	struct call_mark mark;
	struct call_stuck stuck;
	memset(&mark, 0xff, sizeof(mark));
	assert_false(call_mark_is_stuck(&mark, 5, 100, &stuck));
	mark.begin_ns = 1;
	mark.allowance_ms = 0;
	assert_true(call_mark_is_stuck(&mark, 1000, 100, &stuck));
	assert_int_equal(strlen(stuck.function), sizeof(stuck.function) - 1);
	assert_int_equal(strlen(stuck.bus), sizeof(stuck.bus) - 1);
}

static void test_long_names_are_cut(void **state)
{
	struct call_mark mark = {.gpu = 0};
	char name[200];
	memset(name, 'a', sizeof(name));
	name[sizeof(name) - 1] = '\0';
	call_mark_begin(&mark, 0, name, name, 0);
	assert_int_equal(strlen(mark.function), CALL_MARK_FUNCTION_MAX - 1);
	assert_int_equal(strlen(mark.bus), CALL_MARK_BUS_MAX - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_idle_is_never_stuck),
	    cmocka_unit_test(test_stuck_after_the_limit),
	    cmocka_unit_test(test_an_allowance_is_not_a_hang),
	    cmocka_unit_test(test_a_page_of_garbage),
	    cmocka_unit_test(test_long_names_are_cut),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
