/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/queue/schedule/schedule_pledge.h"

#include "doors/queue/schedule/schedule_internal.h"
#include "unit/unit.h"

/* A job is pledged GPUs at 100 for 200; it is 120. */
static uint64_t left(bool takes_no_estimates, struct schedule_guest guest)
{
	const struct job job = {
	    .pledged_ns = 100, .promise_ns = 200, .takes_no_estimates = takes_no_estimates};
	const struct schedule_input input = {.now_ns = 120};
	const struct schedule_state state = {.job = &job, .input = &input};
	return schedule_pledge_left(&state, &guest);
}

static void what_it_may_count_on(void **state)
{
	(void)state;
	const struct schedule_guest before = {.since_ns = 100, .left_ns = 300},
				    in_time = {.since_ns = 110, .left_ns = 80},
				    late = {.since_ns = 110, .left_ns = 81},
				    higher = {.since_ns = 110, .left_ns = 81, .priority = 1};

	assert_int_equal(left(false, before), 300);
	assert_int_equal(left(false, in_time), 80);
	assert_true(left(false, late) == SCHEDULE_NEVER);
	assert_int_equal(left(false, higher), 81);
}

static void estimates_once_one_was_wrong(void **state)
{
	(void)state;
	const struct schedule_guest guess = {.since_ns = 110, .left_ns = 80, .is_estimate = true},
				    limit = {.since_ns = 110, .left_ns = 80},
				    before = {.since_ns = 100, .left_ns = 80, .is_estimate = true};

	assert_int_equal(left(false, guess), 80);
	assert_true(left(true, guess) == SCHEDULE_NEVER);
	assert_int_equal(left(true, limit), 80);
	/* The promise was made with it. */
	assert_int_equal(left(true, before), 80);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_it_may_count_on),
	    cmocka_unit_test(estimates_once_one_was_wrong),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
