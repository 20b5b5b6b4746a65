/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/queue/schedule/schedule_estimate.h"

#include "unit/unit.h"

#define SECOND UINT64_C(1000000000)

static void test_nine_in_ten_and_a_quarter(void **state)
{
	struct schedule_history history = {.count = 0};
	for (uint64_t i = 0; i < 4; i++)
		schedule_estimate_add(&history, 8 * SECOND, true);
	assert_int_equal(schedule_estimate_ns(&history), 0);
	schedule_estimate_add(&history, 4 * SECOND, true);
	assert_int_equal(schedule_estimate_ns(&history), 10 * SECOND + 1000000);
	/* Of many the longest does not count, unless it is longer than was estimated. */
	for (uint64_t i = 0; i < 20; i++)
		schedule_estimate_add(&history, 4 * SECOND, true);
	assert_int_equal(schedule_estimate_ns(&history), 5 * SECOND + 1000000);
	schedule_estimate_add(&history, 45 * SECOND / 10, true);
	assert_int_equal(schedule_estimate_ns(&history), 5 * SECOND + 1000000);
}

static void test_one_that_was_wrong_is_not_believed_again(void **state)
{
	struct schedule_history history = {.count = 0};
	for (uint64_t i = 0; i < 16; i++)
		schedule_estimate_add(&history, 4 * SECOND, true);
	schedule_estimate_add(&history, 3 * SECOND,
			      false); /* how long it would have taken is not known */
	assert_int_equal(schedule_estimate_ns(&history), 5 * SECOND + 1000000);
	schedule_estimate_add(&history, 6 * SECOND, false);
	assert_int_equal(schedule_estimate_ns(&history), 0);
	for (uint64_t i = 0; i < 5; i++)
		schedule_estimate_add(&history, 8 * SECOND, true);
	assert_int_equal(schedule_estimate_ns(&history), 10 * SECOND + 1000000);
	schedule_estimate_add(&history, UINT64_MAX, true);
	assert_int_equal(schedule_estimate_ns(&history), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_nine_in_ten_and_a_quarter),
	    cmocka_unit_test(test_one_that_was_wrong_is_not_believed_again),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
