/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"

#include <string.h>

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

static void test_real_clocks(void **state)
{
	uint64_t real = clock_real_ns(), boot = clock_boot_ns(), process = clock_process_ns();
	uint64_t thread = clock_thread_ns();
	char text[CLOCK_UTC_TEXT];
	assert_true(real > 0 && boot >= real);
	assert_true(clock_real_ns() >= real);
	assert_true(clock_now_ns(&(struct clock){0}) >= real);
	assert_true(clock_thread_ns() >= thread && clock_process_ns() >= process);
	assert_true(clock_process_ns() < real); /* since the machine was started */
	int64_t unix_s = clock_unix_s();
	assert_true(unix_s > 1700000000);
	assert_in_range(clock_unix_ns() / (int64_t)CLOCK_NS_PER_S - unix_s, 0, 60);
	clock_utc_text(text);
	assert_int_equal(strlen(text), 20);
	assert_int_equal(text[10], 'T');
	assert_int_equal(text[19], 'Z');
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_fake_stands_still),
	    cmocka_unit_test(test_real_is_monotonic),
	    cmocka_unit_test(test_real_clocks),
	    cmocka_unit_test(test_after_does_not_wrap),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
