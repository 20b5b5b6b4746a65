/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a running job that ends later delays one for which GPUs are reserved. */
#include "doors/queue/schedule/schedule.h"

#include "unit/doors/queue/schedule/schedule_rig.h"

#define ALICE 1000
#define BOB   1001

enum { MANY = 10000 };

#define S UINT64_C(1000000000)

/* Two GPUs, of which the jobs end in 40 and in 100 seconds. */
static void two_run(void)
{
	gpus(2);
	configure(PLAIN);
	runs(ALICE, 0, 40 * S, 0, 0);
	runs(ALICE, 1, 100 * S, 0, 0);
}

static bool delays(struct schedule_promises *promises, size_t which, uint64_t left_ns,
		   struct schedule_delay *out)
{
	return schedule_promises_delayed(promises, &fixture->machine, fixture->running,
					 fixture->running_count, which, left_ns, out);
}

static void only_jobs_with_a_pledge_are_reckoned_out(void **state)
{
	struct schedule_promises promises = {.count = 0};
	struct schedule_delay delay;
	struct job due = WHOLE(1, 1);

	two_run();
	due.state = JOB_PENDING;
	due.due_ns = 1;
	for (size_t i = 0; i < MANY; i++)
		schedule_promises_add(&promises, &due);
	assert_false(delays(&promises, 0, 90 * S, &delay));
	assert_int_equal(promises.reckoned, 0);

	struct job pledged = due;

	pledged.id = 2;
	pledged.pledged_ns = 1;
	schedule_promises_add(&promises, &pledged);
	assert_true(delays(&promises, 0, 90 * S, &delay));
	assert_int_equal(promises.reckoned, 2);
	assert_ptr_equal(delay.job, &pledged);
	assert_int_equal(delay.at_ns, 40 * S);
	assert_int_equal(delay.then_ns, 90 * S);
	assert_int_equal(fixture->running[0].left_ns, 40 * S);
}

static void the_one_that_ends_last_delays_a_wide_job(void **state)
{
	struct schedule_promises promises = {.count = 0};
	struct schedule_delay delay;
	struct job wide = WHOLE(1, 2);

	two_run();
	wide.state = JOB_PENDING;
	wide.pledged_ns = 1;
	schedule_promises_add(&promises, &wide);
	assert_false(delays(&promises, 0, 100 * S, &delay));
	assert_true(delays(&promises, 0, 101 * S, &delay));
	assert_true(delays(&promises, 1, 101 * S, &delay));
	assert_int_equal(delay.at_ns, 100 * S);
	assert_int_equal(delay.then_ns, 101 * S);
}

static void less_than_a_second_later_is_as_it_was(void **state)
{
	struct schedule_promises promises = {.now_ns = 5 * S};
	struct schedule_delay delay;
	struct job wide = WHOLE(1, 2);

	two_run();
	wide.state = JOB_PENDING;
	wide.pledged_ns = 1;
	wide.promise_ns = 105 * S;
	schedule_promises_add(&promises, &wide);
	assert_false(delays(&promises, 0, 101 * S - 1, &delay));
	assert_true(delays(&promises, 0, 101 * S, &delay));

	/* By turns: each gains less than a second, until both have gained one. */
	fixture->running[0].left_ns = 101 * S - 1;
	assert_true(delays(&promises, 1, 101 * S, &delay));
	assert_int_equal(delay.at_ns, 101 * S - 1);

	/* It has no moment that it could be held to. */
	wide.promise_ns = SCHEDULE_NEVER;
	assert_false(delays(&promises, 1, 101 * S - 1, &delay));
	assert_true(delays(&promises, 1, 101 * S, &delay));
}

static void nobody_waits_who_has_started_or_wants_no_gpu(void **state)
{
	struct schedule_promises promises = {.count = 0};
	struct job job = WHOLE(1, 1);

	job.pledged_ns = 1;
	job.state = JOB_RUNNING;
	schedule_promises_add(&promises, &job);
	job.state = JOB_PENDING;
	job.gpus = 0;
	schedule_promises_add(&promises, &job);
	assert_int_equal(promises.count, 0);
	job.gpus = 1;
	for (size_t i = 0; i < MANY; i++)
		schedule_promises_add(&promises, &job);
	assert_int_equal(promises.count, SCHEDULE_PROMISES_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(only_jobs_with_a_pledge_are_reckoned_out),
	    TEST(the_one_that_ends_last_delays_a_wide_job),
	    TEST(less_than_a_second_later_is_as_it_was),
	    TEST(nobody_waits_who_has_started_or_wants_no_gpu),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
