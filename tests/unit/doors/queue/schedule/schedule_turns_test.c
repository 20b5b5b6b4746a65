/* SPDX-License-Identifier: Apache-2.0 */
/* Whose turn it is, and what is kept for whom. */
#include "doors/queue/schedule/schedule.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unit/doors/queue/schedule/schedule_rig.h"

#define ALICE 1000
#define BOB   1001

#define JOB(i, user, n, ...) ((struct job){.id = (i), .uid = (user), .gpus = (n), __VA_ARGS__})

static void higher_priority_comes_first(void **state)
{
	gpus(1);
	configure(PLAIN);
	PASS(JOB(1, ALICE, 1), JOB(2, ALICE, 1, .wants.priority = 5),
	     JOB(3, BOB, 1, .wants.priority = -5));
	EXPECT("2: GPU 0\n"
	       "1: WaitingForGPU(have 0, need 1; GPU 0: job 2)\n"
	       "3: QueueOrder(behind 1)\n");
}

static void priority_takes_what_is_kept_for_others(void **state)
{
	gpus(2);
	configure(PLAIN);
	runs(BOB, 1, SCHEDULE_NEVER, 0, 0);
	fixture->holder[1] = "job 9 of bob";
	PASS(JOB(1, ALICE, 2, .has_turn = true), JOB(2, BOB, 1, .wants.priority = 1));
	EXPECT("2: GPU 0\n"
	       "1: WaitingForGPU(have 0, need 2; GPU 0: job 2; GPU 1: job 9 of bob)\n");
}

static void users_with_fewer_gpus_come_first(void **state)
{
	gpus(4);
	configure(PLAIN);
	runs(ALICE, 0, SCHEDULE_NEVER, 0, 0);
	fixture->holder[0] = "job 9 of alice";
	PASS(JOB(1, ALICE, 1), JOB(2, ALICE, 1), JOB(3, ALICE, 1), JOB(4, BOB, 1), JOB(5, BOB, 1),
	     JOB(6, BOB, 0));
	EXPECT(
	    "4: GPU 1\n"
	    "1: GPU 2\n" /* both have one, and she came first */
	    "5: GPU 3\n"
	    "2: WaitingForGPU(have 0, need 1; GPU 0: job 9 of alice; GPU 1: job 4; GPU 2: job 1; "
	    "GPU 3: job 5)\n"
	    "3: QueueOrder(behind 2)\n"
	    "6: starts\n");
}

static void who_has_a_turn_is_not_passed_by_those_who_have_less(void **state)
{
	gpus(2);
	configure(PLAIN);
	runs(ALICE, 0, SCHEDULE_NEVER, 0, 0);
	fixture->holder[0] = "job 9 of alice";
	/* For want of a turn bob's jobs, one by one, would keep it waiting for ever. */
	PASS(JOB(1, ALICE, 2), JOB(2, BOB, 1));
	EXPECT("2: GPU 1\n"
	       "1: WaitingForGPU(have 0, need 2; GPU 0: job 9 of alice; GPU 1: job 2)\n");
	look();
	fixture->running_count = 0;
	runs(ALICE, 0, SCHEDULE_NEVER, 0, 0);
	PASS(JOB(1, ALICE, 2));
	EXPECT("1: [turn] WaitingForGPU(have 1, need 2; GPU 0: job 9 of alice)\n");
	PASS(JOB(3, BOB, 1), JOB(4, ALICE, 2, .has_turn = true));
	EXPECT("4: [turn] WaitingForGPU(have 1, need 2; GPU 0: job 9 of alice)\n"
	       "3: QueueOrder(behind 4)\n");
}

static void what_is_due_is_not_passed_by_those_who_have_less(void **state)
{
	gpus(4);
	configure(PLAIN);
	fixture->now_ns = 100;
	runs(ALICE, 0, SCHEDULE_NEVER, 0, 0);
	fixture->holder[0] = "job 9 of alice";
	/* Not yet; now; of those that are due the oldest; of a higher priority others come before.
	 */
	PASS(JOB(1, ALICE, 3, .due_ns = 101), JOB(2, BOB, 1));
	EXPECT("2: GPU 1\n"
	       "1: [turn] WaitingForGPU(have 2, need 3; GPU 0: job 9 of alice; GPU 1: job 2)\n");
	look();
	fixture->running_count = 0;
	runs(ALICE, 0, SCHEDULE_NEVER, 0, 0);
	PASS(JOB(1, ALICE, 4, .due_ns = 100), JOB(2, BOB, 1), JOB(3, BOB, 1, .wants.priority = 1));
	EXPECT("3: GPU 1\n"
	       "1: [turn] WaitingForGPU(reserved, have 2, need 4; GPU 0: job 9 of alice; GPU 1: "
	       "job 3)\n"
	       "2: QueueOrder(behind 1, for which GPUs are reserved)\n");
	look();
	fixture->running_count = 0;
	runs(ALICE, 0, SCHEDULE_NEVER, 0, 0);
	PASS(JOB(1, ALICE, 3, .due_ns = 90), JOB(2, BOB, 2, .due_ns = 80), JOB(3, BOB, 1));
	EXPECT("1: GPU 1, GPU 2, GPU 3\n"
	       "2: WaitingForGPU(have 0, need 2; GPU 0: job 9 of alice; GPU 1, 2, 3: job 1)\n"
	       "3: QueueOrder(behind 2)\n");
}

/* Wide jobs that are due one after the other would keep it waiting for ever. */
static void one_gpu_is_reserved_as_well(void **state)
{
	gpus(2);
	configure(PLAIN);
	fixture->now_ns = 100;
	runs(ALICE, 0, SCHEDULE_NEVER, 0, 0);
	runs(ALICE, 1, SCHEDULE_NEVER, 0, 0);
	fixture->holder[0] = fixture->holder[1] = "job 9 of alice";
	PASS(JOB(1, ALICE, 1, .due_ns = 100), JOB(2, BOB, 2, .due_ns = 1), JOB(3, BOB, 1));
	EXPECT("1: WaitingForGPU(reserved, have 0, need 1; GPU 0, 1: job 9 of alice)\n"
	       "2: QueueOrder(behind 1, for which a GPU is reserved)\n"
	       "3: QueueOrder(behind 1, for which a GPU is reserved)\n");
	/* One that has a pledge keeps it, and nobody else gets one meanwhile. */
	PASS(JOB(1, ALICE, 1, .due_ns = 100), JOB(2, BOB, 2, .pledged_ns = 90, .promise_ns = 95),
	     JOB(3, BOB, 1));
	EXPECT("2: WaitingForGPU(reserved, have 0, need 2; GPU 0, 1: job 9 of alice)\n"
	       "3: QueueOrder(behind 2, for which GPUs are reserved)\n"
	       "1: QueueOrder(behind 2, for which GPUs are reserved)\n");
}

/* The pledge lasts while it waits for something beside GPUs. */
static void what_is_beside_gpus_is_reserved_as_well(void **state)
{
	gpus(2);
	configure(PLAIN);
	fixture->rules.cpu_milli = 4000;
	fixture->shows_pledges = true;
	fixture->now_ns = 100;
	runs(ALICE, -1, SCHEDULE_NEVER, 3000, 0);
	PASS(JOB(1, BOB, 1), JOB(2, ALICE, 0, .due_ns = 1, .wants.cpu_milli = 2000),
	     JOB(3, BOB, 1, .wants.cpu_milli = 1000));
	EXPECT("2: [turn] [pledged at 100] WaitingForCPU(reserved, have 1, need 2 of 4)\n"
	       "1: GPU 0\n"
	       "3: QueueOrder(behind 2, which comes first)\n");
	PASS(JOB(2, ALICE, 1, .pledged_ns = 90, .promise_ns = 95, .wants.cpu_milli = 2000),
	     JOB(3, BOB, 1));
	EXPECT("2: [turn] [pledged at 90] WaitingForCPU(reserved, have 1, need 2 of 4)\n"
	       "3: WaitingForGPU(have 0, need 1; GPU 0: in use; GPU 1: reserved for job 2)\n");
}

/* One of the GPUs that it waits for fails: it waits for another, and keeps its place. */
static void a_pledge_moves_to_another_gpu(void **state)
{
	gpus(3);
	configure(PLAIN);
	fixture->rules.reserve_after_ns = 1000;
	fixture->shows_pledges = fixture->shows_places = true;
	fixture->now_ns = 100;
	runs(ALICE, 0, 50, 0, 0);
	runs(ALICE, 1, 70, 0, 0);
	fixture->holder[0] = "job 8";
	fixture->holder[1] = "job 9";
	PASS(JOB(1, BOB, 2, .due_ns = 1), JOB(2, ALICE, 1));
	EXPECT("1: [turn] [pledged at 100] [#1 in 50] WaitingForGPU(reserved, have 1, need 2; GPU "
	       "0: job 8; GPU 1: job 9)\n"
	       "2: [#2 in 50] WaitingForGPU(have 0, need 1; GPU 0: job 8; GPU 1: job 9; GPU 2: "
	       "reserved for job 1)\n");
	fixture->machine.devices[0].unit.healthy = false;
	(void)snprintf(fixture->machine.devices[0].unit.reason, GPU_REASON_MAX, "lost");
	PASS(JOB(1, BOB, 2, .pledged_ns = 100, .promise_ns = 150));
	EXPECT("1: [turn] [pledged at 100] [#1 in 70] WaitingForGPU(reserved, have 1, need 2; GPU "
	       "0: unhealthy, lost; GPU 1: job 9)\n");
}

/* 0 is never; after so long a wide one, much later a narrow one, and neither soon after another of
 * its user's. */
static void when_jobs_are_due(void **state)
{
	const uint64_t ten = 600;

	assert_int_equal(schedule_due_ns(0, 2, 8, 5, 0), 0);
	assert_int_equal(schedule_due_ns(0, 1, 8, 5, 0), 0);
	assert_int_equal(schedule_due_ns(ten, 4, 8, 1000, 0), 1600);
	assert_int_equal(schedule_due_ns(ten, 1, 8, 1000, 0), 1000 + SCHEDULE_NARROW_TIMES * ten);
	assert_int_equal(schedule_due_ns(ten, 0, 8, 1000, 0), 1000 + SCHEDULE_NARROW_TIMES * ten);
	assert_int_equal(schedule_due_ns(ten, 8, 8, 1000, 500), 1600);
	assert_int_equal(schedule_due_ns(ten, 8, 8, 1000, 5000), 5600);
	/* Fewer than half of the GPUs; of two one is not wide, and what there is is not known. */
	assert_int_equal(schedule_due_ns(ten, 2, 8, 1000, 0), 1000 + SCHEDULE_MIDDLE_TIMES * ten);
	assert_int_equal(schedule_due_ns(ten, 3, 8, 1000, 0), 1000 + SCHEDULE_MIDDLE_TIMES * ten);
	assert_int_equal(schedule_due_ns(ten, 3, 7, 1000, 0), 1000 + SCHEDULE_MIDDLE_TIMES * ten);
	assert_int_equal(schedule_due_ns(ten, 2, 3, 1000, 0), 1600);
	assert_int_equal(schedule_due_ns(ten, 1, 2, 1000, 0), 1000 + SCHEDULE_NARROW_TIMES * ten);
	assert_int_equal(schedule_due_ns(ten, 2, 0, 1000, 0), 1600);
	/* Its user's others do not put it off for ever. */
	assert_int_equal(schedule_due_ns(ten, 1, 8, 1000, 5000),
			 1000 + SCHEDULE_NARROW_TIMES * ten);
	assert_int_equal(schedule_due_ns(ten, 1, 8, 1000, 50000), 50600);
	/* It waited before the machine was up. */
	assert_int_equal(schedule_due_ns(ten, 4, 8, -700, 0), 1);
	assert_int_equal(schedule_due_ns(ten, 4, 8, -100, 0), 500);
	assert_int_equal(schedule_due_ns(UINT64_MAX, 1, 8, 0, 0),
			 SCHEDULE_AFTER_MAX_NS * SCHEDULE_NARROW_TIMES);
	assert_in_range(schedule_due_ns(UINT64_MAX, 1, 8, INT64_MAX / 4, INT64_MAX / 4),
			INT64_MAX / 4, INT64_MAX);
}

static void the_shortest_first_where_the_owner_says_so(void **state)
{
	gpus(1);
	configure(PLAIN);
	fixture->rules.order = RULES_ORDER_SHORTEST;
	PASS(JOB(1, ALICE, 1), JOB(2, ALICE, 1, .wants.time_ns = 10),
	     JOB(3, BOB, 1, .wants.time_ns = 5), JOB(4, BOB, 1, .wants.priority = -1));
	EXPECT("3: GPU 0\n"
	       "2: WaitingForGPU(have 0, need 1; GPU 0: job 3)\n"
	       "1: QueueOrder(behind 2)\n"
	       "4: QueueOrder(behind 2)\n");
}

/* --- limits ---------------------------------------------------------------------------------- */

static void a_user_at_his_limit_keeps_nobody_from_anything(void **state)
{
	gpus(4);
	configure(PLAIN);
	fixture->rules.limit.gpus = 2;
	runs(ALICE, 0, SCHEDULE_NEVER, 0, 0);
	PASS(JOB(1, ALICE, 2), JOB(2, ALICE, 1), JOB(3, ALICE, 1), JOB(4, ALICE, 0), JOB(5, BOB, 2),
	     JOB(6, BOB, 1));
	EXPECT("5: GPU 2, GPU 3\n"
	       "1: UserLimit(the user has 1 GPU, needs 2 more, may have 2)\n"
	       "2: GPU 1\n"
	       "3: UserLimit(the user has 2 GPUs, needs 1 more, may have 2)\n"
	       "4: starts\n"
	       "6: UserLimit(the user has 2 GPUs, needs 1 more, may have 2)\n");
}

static void a_group_may_have_more(void **state)
{
	gpus(4);
	configure(PLAIN);
	fixture->rules.limit.gpus = 1;
	PASS(JOB(1, ALICE, 1, .gpu_limit = 3), JOB(2, ALICE, 2, .gpu_limit = 3));
	EXPECT("1: GPU 0\n2: GPU 2, GPU 3\n");
	const struct job wide = JOB(1, ALICE, 2), more = JOB(1, ALICE, 2, .gpu_limit = 3);
	assert_int_equal(schedule_check(&fixture->machine, &wide, &fixture->err), -ERANGE);
	assert_string_equal(fixture->err.text, "needs 2 GPUs, a user may have 1 at a time "
					       "(sluice.jobs.limits in the configuration)");
	assert_int_equal(schedule_check(&fixture->machine, &more, NULL), 0);
}

static void an_array_runs_as_many_as_it_may(void **state)
{
	gpus(4);
	configure(PLAIN);
	runs(ALICE, 0, SCHEDULE_NEVER, 0, 0);
	fixture->running[0].array_id = 7;
	PASS(JOB(8, ALICE, 1, .array_id = 7, .wants.array_parallel = 2),
	     JOB(9, ALICE, 1, .array_id = 7, .wants.array_parallel = 2),
	     JOB(10, ALICE, 0, .array_id = 10, .wants.array_parallel = 1),
	     JOB(11, ALICE, 0, .array_id = 10, .wants.array_parallel = 1), JOB(12, ALICE, 1));
	EXPECT("8: GPU 1\n"
	       "9: ArrayLimit(2 of array 7 run, as many as may)\n"
	       "10: starts\n"
	       "11: ArrayLimit(1 of array 10 run, as many as may)\n"
	       "12: GPU 2\n");
}

/* --- backfill -------------------------------------------------------------------------------- */

static void what_ends_in_time_is_backfilled(void **state)
{
	gpus(4);
	configure(PLAIN);
	runs(ALICE, 0, 100, 0, 0);
	runs(ALICE, 1, 50, 0, 0);
	fixture->holder[0] = "job 8 of alice";
	fixture->holder[1] = "job 9 of alice";
	/* It can start in 100. */
	PASS(JOB(1, BOB, 4), JOB(2, BOB, 1), JOB(3, BOB, 1, .wants.time_ns = 101),
	     JOB(4, BOB, 1, .wants.time_ns = 100), JOB(5, BOB, 2, .wants.time_ns = 10),
	     JOB(6, BOB, 1, .wants.time_ns = 99));
	EXPECT("1: [turn] WaitingForGPU(have 2, need 4; GPU 0: job 8 of alice; GPU 1: job 9 of "
	       "alice)\n"
	       "2: QueueOrder(behind 1)\n"
	       "3: QueueOrder(behind 1)\n"
	       "4: GPU 2\n"
	       "5: [turn] WaitingForGPU(have 1, need 2; GPU 0: job 8 of alice; GPU 1: job 9 of "
	       "alice; GPU 2: job 4)\n"
	       "6: WaitingForGPU(have 0, need 1; GPU 0: job 8 of alice; GPU 1: job 9 of alice; "
	       "GPU 2: job 4; GPU 3: kept for job 5)\n"
	       "1: [turn] WaitingForGPU(have 1, need 4; GPU 0: job 8 of alice; GPU 1: job 9 of "
	       "alice; GPU 2: job 4)\n"
	       "5: [turn] WaitingForGPU(have 1, need 2; GPU 0: job 8 of alice; GPU 1: job 9 of "
	       "alice; GPU 2: job 4)\n"
	       "6: WaitingForGPU(have 0, need 1; GPU 0: job 8 of alice; GPU 1: job 9 of alice; "
	       "GPU 2: job 4; GPU 3: kept for job 5)\n");
}

static void nothing_is_backfilled_past_a_job_of_which_nobody_knows_the_end(void **state)
{
	gpus(3);
	configure(PLAIN);
	runs(ALICE, 0, 100, 0, 0);
	runs(ALICE, 1, SCHEDULE_NEVER, 0, 0);
	fixture->holder[0] = fixture->holder[1] = "alice";
	PASS(JOB(1, BOB, 3), JOB(2, BOB, 1, .wants.time_ns = 1));
	EXPECT("1: [turn] WaitingForGPU(have 1, need 3; GPU 0, 1: alice)\n"
	       "2: QueueOrder(behind 1)\n");
	/* Two are enough for this one, and of those the end is known. */
	PASS(JOB(1, BOB, 2), JOB(2, BOB, 1, .wants.time_ns = 101),
	     JOB(3, BOB, 1, .wants.time_ns = 100));
	EXPECT("1: [turn] WaitingForGPU(have 1, need 2; GPU 0, 1: alice)\n"
	       "2: WaitingForGPU(have 0, need 1; GPU 0, 1: alice; GPU 2: kept for job 1)\n"
	       "3: GPU 2\n"
	       "1: [turn] WaitingForGPU(have 0, need 2; GPU 0, 1: alice; GPU 2: job 3)\n"
	       "2: WaitingForGPU(have 0, need 1; GPU 0, 1: alice; GPU 2: job 3)\n");
}

static void what_should_be_over_may_end_at_any_moment(void **state)
{
	gpus(2);
	configure(PLAIN);
	runs(ALICE, 0, 0, 0, 0);
	fixture->holder[0] = "alice";
	PASS(JOB(1, BOB, 2), JOB(2, BOB, 1, .wants.time_ns = 1));
	EXPECT("1: [turn] WaitingForGPU(have 1, need 2; GPU 0: alice)\n"
	       "2: QueueOrder(behind 1)\n");
}

static void what_others_hold_never_ends(void **state)
{
	gpus(2);
	configure(SHARED);
	fixture->shows_turns = true;
	schedule_machine_hold(&fixture->machine, "GPU-00000000", 2, "eve");
	PASS(JOB(1, BOB, 2), JOB(2, BOB, 1, .wants.time_ns = 1));
	EXPECT("1: [turn] WaitingForGPU(have 1, need 2; GPU 0: eve)\n"
	       "2: QueueOrder(behind 1)\n");
}

static void shares_are_backfilled_as_well(void **state)
{
	gpus(1);
	configure(SHARED);
	PASS(SHARE(1, 1, 1, 4));
	EXPECT("1: GPU 0 [0]\n");
	fixture->running[0] = (struct schedule_running){
	    .left_ns = 40, .grants = fixture->running_grants, .grant_count = 1};
	fixture->running_grants[0] = (struct launch_grant){.slot_count = 4, .slots = {1}};
	memcpy(fixture->running_grants[0].uuid, "GPU-00000000", sizeof("GPU-00000000"));
	fixture->running_count = 1;
	fixture->holder[0] = "job 1";
	struct job long_one = SHARE(3, 1, 1, 4), short_one = SHARE(4, 1, 1, 4);
	long_one.wants.time_ns = 41;
	short_one.wants.time_ns = 40;
	PASS(WHOLE(2, 1), long_one, short_one);
	EXPECT("2: WaitingForGPU(have 0, need 1; GPU 0: job 1)\n"
	       "3: QueueOrder(behind 2)\n"
	       "4: GPU 0 [1]\n"
	       "2: WaitingForGPU(have 0, need 1; GPU 0: job 1)\n");
}

static void the_earliest_of_those_that_keep_it_counts(void **state)
{
	gpus(3);
	configure(PLAIN);
	runs(ALICE, 0, 100, 0, 0);
	runs(ALICE, 1, 30, 0, 0);
	fixture->holder[0] = fixture->holder[1] = "alice";
	/* The first is to start in 100. The second would end before, and could start in 30. */
	struct job second = IDS(2, "1,2");
	second.wants.time_ns = 70;
	PASS(IDS(1, "0,2"), second, JOB(3, BOB, 1, .wants.time_ns = 31),
	     JOB(4, BOB, 1, .wants.time_ns = 30));
	EXPECT("1: [turn] WaitingForGPU(have 1, need 2; GPU 0: alice)\n"
	       "2: [turn] WaitingForGPU(have 1, need 2; GPU 1: alice)\n"
	       "3: WaitingForGPU(have 0, need 1; GPU 0, 1: alice; GPU 2: kept for job 2)\n"
	       "4: GPU 2\n"
	       "1: [turn] WaitingForGPU(have 0, need 2; GPU 0: alice; GPU 2: job 4)\n"
	       "2: [turn] WaitingForGPU(have 0, need 2; GPU 1: alice; GPU 2: job 4)\n"
	       "3: WaitingForGPU(have 0, need 1; GPU 0, 1: alice; GPU 2: job 4)\n");
}

static void who_is_behind_does_not_start_before(void **state)
{
	gpus(3);
	configure(PLAIN);
	runs(ALICE, 0, 100, 0, 0);
	fixture->holder[0] = "alice";
	/* The second could start now if it were not for the first: that shuts nothing. */
	PASS(JOB(1, BOB, 3), JOB(2, BOB, 2), JOB(3, BOB, 1, .wants.time_ns = 101),
	     JOB(4, BOB, 1, .wants.time_ns = 100));
	EXPECT("1: [turn] WaitingForGPU(have 2, need 3; GPU 0: alice)\n"
	       "2: QueueOrder(behind 1)\n"
	       "3: QueueOrder(behind 1)\n"
	       "4: GPU 1\n"
	       "1: [turn] WaitingForGPU(have 1, need 3; GPU 0: alice; GPU 1: job 4)\n");
}

/* GPUs 0 and 1 end together, so the first job leaves one idle. The second one wants that as well:
 * it keeps it only where it could not have it pledged later. */
static void one_reservation_at_a_time_where_wide_jobs_are_pledged(void **state)
{
	gpus(4);
	configure(PLAIN);
	runs(ALICE, 0, 100, 0, 0);
	runs(ALICE, 1, 100, 0, 0);
	fixture->holder[0] = fixture->holder[1] = "alice";
	PASS(JOB(1, BOB, 3), JOB(2, BOB, 4), JOB(3, BOB, 1));
	EXPECT("1: [turn] WaitingForGPU(have 2, need 3; GPU 0, 1: alice)\n"
	       "2: QueueOrder(behind 1)\n"
	       "3: QueueOrder(behind 2)\n");

	fixture->rules.reserve_after_ns = 1000;
	PASS(JOB(1, BOB, 3), JOB(2, BOB, 4), JOB(3, BOB, 1));
	EXPECT("1: [turn] WaitingForGPU(have 2, need 3; GPU 0, 1: alice)\n"
	       "2: QueueOrder(behind 1)\n"
	       "3: GPU 2\n"
	       "1: [turn] WaitingForGPU(have 1, need 3; GPU 0, 1: alice; GPU 2: job 3)\n");
}

/* What keeps nothing has no turn: it would come before all others for ever. */
static void who_keeps_nothing_has_no_turn(void **state)
{
	gpus(4);
	configure(PLAIN);
	runs(ALICE, 0, 100, 0, 0);
	runs(ALICE, 1, SCHEDULE_NEVER, 0, 0);
	fixture->holder[0] = fixture->holder[1] = "alice";
	PASS(IDS(1, "0"), JOB(2, BOB, 3), JOB(3, BOB, 1));
	EXPECT("1: WaitingForGPU(have 0, need 1; GPU 0: alice)\n"
	       "2: [turn] WaitingForGPU(have 2, need 3; GPU 0, 1: alice)\n"
	       "3: WaitingForGPU(have 0, need 1; GPU 0, 1: alice; GPU 2, 3: kept for job 2)\n");

	fixture->rules.reserve_after_ns = 1000;
	PASS(IDS(1, "0"), JOB(2, BOB, 3), JOB(3, BOB, 1));
	EXPECT("1: WaitingForGPU(have 0, need 1; GPU 0: alice)\n"
	       "2: WaitingForGPU(have 2, need 3; GPU 0, 1: alice)\n"
	       "3: GPU 2\n"
	       "1: WaitingForGPU(have 0, need 1; GPU 0: alice)\n"
	       "2: WaitingForGPU(have 1, need 3; GPU 0, 1: alice; GPU 2: job 3)\n");
}

/* Those that start have none; the first that waits for a device knows when, if what runs says so.
 */
static void who_waits_has_a_place(void **state)
{
	gpus(3);
	configure(PLAIN);
	fixture->shows_places = true;
	runs(BOB, 0, 100, 0, 0);
	runs(BOB, 1, SCHEDULE_NEVER, 0, 0);
	fixture->holder[0] = "job 8";
	fixture->holder[1] = "job 9";
	PASS(JOB(1, ALICE, 1), JOB(2, ALICE, 1), JOB(3, ALICE, 1), JOB(4, ALICE, 3));
	EXPECT(
	    "1: GPU 2\n"
	    "2: [#1 in 100] WaitingForGPU(have 0, need 1; GPU 0: job 8; GPU 1: job 9; GPU 2: job "
	    "1)\n"
	    "3: [#2] QueueOrder(behind 2)\n"
	    "4: [#3] QueueOrder(behind 2)\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(higher_priority_comes_first),
	    TEST(priority_takes_what_is_kept_for_others),
	    TEST(users_with_fewer_gpus_come_first),
	    TEST(who_has_a_turn_is_not_passed_by_those_who_have_less),
	    TEST(what_is_due_is_not_passed_by_those_who_have_less),
	    TEST(one_gpu_is_reserved_as_well),
	    TEST(what_is_beside_gpus_is_reserved_as_well),
	    TEST(a_pledge_moves_to_another_gpu),
	    TEST(when_jobs_are_due),
	    TEST(the_shortest_first_where_the_owner_says_so),
	    TEST(a_user_at_his_limit_keeps_nobody_from_anything),
	    TEST(a_group_may_have_more),
	    TEST(an_array_runs_as_many_as_it_may),
	    TEST(what_ends_in_time_is_backfilled),
	    TEST(nothing_is_backfilled_past_a_job_of_which_nobody_knows_the_end),
	    TEST(what_should_be_over_may_end_at_any_moment),
	    TEST(what_others_hold_never_ends),
	    TEST(shares_are_backfilled_as_well),
	    TEST(the_earliest_of_those_that_keep_it_counts),
	    TEST(who_is_behind_does_not_start_before),
	    TEST(one_reservation_at_a_time_where_wide_jobs_are_pledged),
	    TEST(who_keeps_nothing_has_no_turn),
	    TEST(who_waits_has_a_place),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
