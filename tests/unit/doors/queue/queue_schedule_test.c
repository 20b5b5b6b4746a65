/* SPDX-License-Identifier: Apache-2.0 */
/* What a pass is told of the jobs that run: how long they still take, and which take too long. */
#include "doors/queue/queue_internal.h"

#include <string.h>

#include "base/clock.h"
#include "unit/unit.h"

#define MINUTE INT64_C(60000000000)

/* A job that has run for so long, on nothing. */
static struct schedule_running run_for(struct job job, int64_t ran_ns)
{
	struct queue_run run = {.since_ns = 7};
	struct queue_job one = {.job = job, .phase = QUEUE_LAUNCHED, .run = &run}, *jobs[] = {&one};
	struct queue queue = {.jobs = jobs, .count = 1};
	struct schedule_running out = {.cpu_milli = 1};

	one.job.id = 1;
	one.job.started_unix_ns = clock_unix_ns() - ran_ns;
	assert_int_equal(queue_pass_running(&queue, &out), 1);
	assert_int_equal(out.since_ns, 7);
	return out;
}

static void it_is_overdue_once_it_takes_longer_than_was_estimated(void **state)
{
	const struct job estimated = {.state = JOB_RUNNING, .estimate_ns = 10 * MINUTE};

	assert_false(run_for(estimated, 9 * MINUTE).is_overdue);
	assert_true(run_for(estimated, 11 * MINUTE).is_overdue);
	/* The clock was set back: it has not begun. */
	assert_false(run_for(estimated, -11 * MINUTE).is_overdue);
}

static void what_has_a_limit_is_never_overdue(void **state)
{
	const struct job limited = {
	    .state = JOB_RUNNING, .estimate_ns = MINUTE, .wants.time_ns = 20 * MINUTE};
	struct schedule_running runs = run_for(limited, 11 * MINUTE);

	assert_false(runs.is_overdue);
	assert_false(runs.is_estimate);
	assert_in_range(runs.left_ns, 8 * MINUTE, 9 * MINUTE);
	assert_int_equal(run_for(limited, 30 * MINUTE).left_ns, 0);
	assert_false(run_for(limited, 30 * MINUTE).is_overdue);
}

static void what_was_not_estimated_or_does_not_run_yet_is_not_overdue(void **state)
{
	const struct job unknown = {.state = JOB_RUNNING};
	const struct job starting = {.state = JOB_STARTING, .estimate_ns = MINUTE};

	assert_false(run_for(unknown, 1000 * MINUTE).is_overdue);
	assert_int_equal(run_for(unknown, MINUTE).left_ns, SCHEDULE_NEVER);
	/* When it was tried before, and is now once more. */
	assert_false(run_for(starting, 5 * MINUTE).is_overdue);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(it_is_overdue_once_it_takes_longer_than_was_estimated),
	    cmocka_unit_test(what_has_a_limit_is_never_overdue),
	    cmocka_unit_test(what_was_not_estimated_or_does_not_run_yet_is_not_overdue),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
