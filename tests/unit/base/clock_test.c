/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"

#include "unit/unit.h"

static void test_fake_stands_still(void **state)
{
	uint64_t now = 5;
	struct clock clock = {.fake_ns = &now};
	assert_int_equal(clock_now_ns(&clock), 5);
	assert_int_equal(clock_now_ns(&clock), 5);
	now = 7;
	assert_int_equal(clock_now_ns(&clock), 7);
}

static void test_real_is_monotonic(void **state)
{
	struct clock clock = {0};
	uint64_t before = unit_now_ns();
	uint64_t now = clock_now_ns(&clock);
	assert_true(before <= now && now <= unit_now_ns());
}

static void test_after_does_not_wrap(void **state)
{
	assert_int_equal(clock_after_ns(3, 4), 7);
	assert_true(clock_after_ns(3, UINT64_MAX) == UINT64_MAX);
	assert_true(clock_after_ns(UINT64_MAX, 1) == UINT64_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_fake_stands_still),
	    cmocka_unit_test(test_real_is_monotonic),
	    cmocka_unit_test(test_after_does_not_wrap),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
