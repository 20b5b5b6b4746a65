/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/queue/schedule/schedule.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "unit/doors/queue/schedule/schedule_rig.h"
#include "unit/failmalloc.h"

/* --- order ----------------------------------------------------------------------------------- */

static void jobs_start_in_their_order_until_nothing_is_left(void **state)
{
	gpus(4);
	configure(PLAIN);
	fixture->holder[0] = fixture->holder[1] = "job 1 of alice";
	fixture->holder[2] = fixture->holder[3] = "job 2 of bob";
	PASS(WHOLE(1, 2), WHOLE(2, 2), WHOLE(3, 1), WHOLE(4, 1));
	EXPECT(
	    "1: GPU 0, GPU 1\n"
	    "2: GPU 2, GPU 3\n"
	    "3: WaitingForGPU(have 0, need 1; GPU 0, 1: job 1 of alice; GPU 2, 3: job 2 of bob)\n"
	    "4: QueueOrder(behind 3)\n");
}

static void a_wide_job_keeps_those_behind_it_from_what_it_waits_for(void **state)
{
	gpus(2);
	configure(PLAIN);
	PASS(WHOLE(12, 1));
	EXPECT("12: GPU 0\n");
	fixture->holder[0] = "job 12 of alice";
	PASS(WHOLE(17, 2), WHOLE(18, 1), WHOLE(19, 1), WHOLE(20, 2));
	EXPECT("17: WaitingForGPU(have 1, need 2; GPU 0: job 12 of alice)\n"
	       "18: QueueOrder(behind 17)\n"
	       "19: QueueOrder(behind 17)\n"
	       "20: QueueOrder(behind 17)\n");
}

static void jobs_that_want_other_gpus_go_past(void **state)
{
	gpus(4);
	configure(PLAIN);
	fixture->holder[1] = "job 1 of alice";
	PASS(IDS(1, "1"), IDS(2, "0,1"), IDS(3, "0"), IDS(4, "2"), WHOLE(5, 1), WHOLE(6, 1));
	EXPECT("1: GPU 1\n"
	       "2: WaitingForGPU(have 1, need 2; GPU 1: job 1 of alice)\n"
	       "3: QueueOrder(behind 2)\n"
	       "4: GPU 2\n"
	       "5: GPU 3\n"
	       "6: WaitingForGPU(have 0, need 1; GPU 0: kept for job 2; GPU 1: job 1 of alice; GPU "
	       "2: job 4; GPU 3: job 5)\n");
}

static void cpu_jobs_never_wait(void **state)
{
	gpus(1);
	configure(PLAIN);
	PASS(WHOLE(1, 1), WHOLE(2, 1), WHOLE(3, 0), WHOLE(4, 1), WHOLE(5, 0));
	EXPECT("1: GPU 0\n"
	       "2: WaitingForGPU(have 0, need 1; GPU 0: job 1)\n"
	       "3: starts\n"
	       "4: QueueOrder(behind 2)\n"
	       "5: starts\n");
}

static void without_a_driver_only_cpu_jobs_run(void **state)
{
	assert_int_equal(
	    schedule_machine_make(NULL, NULL, NULL, NULL, NULL, &fixture->machine, NULL), 0);
	PASS(WHOLE(1, 1), WHOLE(2, 0), WHOLE(3, 1), IDS(4, "0"));
	EXPECT("1: NoMachine(the NVIDIA driver does not answer)\n"
	       "2: starts\n"
	       "3: NoMachine(the NVIDIA driver does not answer)\n"
	       "4: NoMachine(the NVIDIA driver does not answer)\n");
	const struct job job = WHOLE(1, 2), cpu = WHOLE(2, 0);
	assert_int_equal(schedule_check(&fixture->machine, &job, &fixture->err), -ERANGE);
	assert_string_equal(fixture->err.text,
			    "needs 2 GPUs, there are 0: the NVIDIA driver does not answer");
	assert_int_equal(schedule_check(&fixture->machine, &cpu, NULL), 0);
}

/* --- which device ---------------------------------------------------------------------------- */

static void the_best_connected_are_chosen_and_the_rest_stays_so(void **state)
{
	gpus(4);
	configure(PLAIN);
	PASS(IDS(1, "2"), WHOLE(2, 2), WHOLE(3, 1));
	EXPECT("1: GPU 2\n2: GPU 0, GPU 1\n3: GPU 3\n");
	look();
	PASS(IDS(1, "2"), WHOLE(2, 1)); /* the neighbour of the one that is taken */
	EXPECT("1: GPU 2\n2: GPU 3\n");
}

static void the_least_recently_used_is_next(void **state)
{
	gpus(4);
	configure(PLAIN);
	PASS(WHOLE(1, 2));
	EXPECT("1: GPU 0, GPU 1\n");
	look(); /* it has ended */
	PASS(WHOLE(2, 2));
	EXPECT("2: GPU 2, GPU 3\n");
	look();
	PASS(WHOLE(3, 2));
	EXPECT("3: GPU 0, GPU 1\n");
	look();
	PASS(WHOLE(4, 1), WHOLE(5, 1));
	EXPECT("4: GPU 2\n5: GPU 3\n");
}

static void many_gpus_are_chosen_as_well_and_their_shape_is_kept(void **state)
{
	gpus(16);
	configure(PLAIN);
	PASS(IDS(1, "0"), WHOLE(2, 4), WHOLE(3, 1));
	EXPECT("1: GPU 0\n"
	       "2: GPU 4, GPU 5, GPU 6, GPU 7\n"
	       "3: GPU 1\n");
	const struct schedule_shape *shape = fixture->machine.shape;
	assert_non_null(shape);
	look();
	assert_ptr_equal(fixture->machine.shape, shape);
	PASS(WHOLE(4, 2), WHOLE(5, 1));
	EXPECT("4: GPU 0, GPU 1\n"
	       "5: GPU 2\n"); /* of one, the least recently used */
	assert_ptr_equal(fixture->machine.shape, shape);
	/* One that is lost is connected to nothing. */
	fixture->gpus[5].state = GPU_STATE_LOST;
	look();
	PASS(IDS(6, "0,1,2,3,8"), WHOLE(7, 2));
	EXPECT("6: GPU 0, GPU 1, GPU 2, GPU 3, GPU 8\n"
	       "7: GPU 6, GPU 7\n");
}

static void ids_are_granted_in_the_users_order(void **state)
{
	gpus(4);
	configure(PLAIN);
	PASS(IDS(1, "3,GPU-00000001"));
	EXPECT("1: GPU 3, GPU 1\n");
}

/* --- shares ---------------------------------------------------------------------------------- */

static void shares_fill_the_smallest_hole_first(void **state)
{
	gpus(2);
	configure(SHARED);
	PASS(SHARE(1, 1, 1, 4), SHARE(2, 1, 1, 2), SHARE(3, 1, 1, 4), SHARE(4, 1, 1, 4));
	EXPECT("1: GPU 0 [0]\n"
	       "2: GPU 0 [1] [2]\n"
	       "3: GPU 0 [3]\n"
	       "4: GPU 1 [0]\n");
}

static void a_share_is_rounded_up_to_slots(void **state)
{
	gpus(1);
	configure(SHARED);
	PASS(SHARE(1, 1, 1, UINT32_MAX), SHARE(2, 1, 1, 0), SHARE(3, 1, 1, 3));
	EXPECT("1: GPU 0 [0]\n2: GPU 0 [1]\n3: GPU 0 [2] [3]\n");
}

static void shares_of_several_gpus_are_of_different_ones(void **state)
{
	gpus(2);
	configure(SHARED);
	fixture->holder[0] = "jobs 1, 2 of alice";
	fixture->holder[1] = "job 1 of alice";
	PASS(SHARE(1, 2, 3, 4), SHARE(2, 1, 1, 4), SHARE(3, 2, 1, 4));
	EXPECT("1: GPU 0 [0] [1] [2], GPU 1 [0] [1] [2]\n"
	       "2: GPU 0 [3]\n"
	       "3: WaitingForGPU(have 1, need 2; GPU 0: 0 of 4 slots free, jobs 1, 2 of alice)\n");
}

static void whole_jobs_and_shares_do_not_mix(void **state)
{
	gpus(2);
	configure(SHARED);
	fixture->holder[0] = "job 1 of alice";
	fixture->holder[1] = "job 2 of bob";
	PASS(SHARE(1, 1, 1, 4), WHOLE(2, 1), WHOLE(3, 1), SHARE(4, 1, 1, 4));
	EXPECT("1: GPU 0 [0]\n"
	       "2: GPU 1\n"
	       "3: WaitingForGPU(have 0, need 1; GPU 0: job 1 of alice; GPU 1: job 2 of bob)\n"
	       "4: QueueOrder(behind 3)\n");
	look();
	fixture->holder[0] = "job 5 of alice";
	PASS(WHOLE(5, 2), SHARE(6, 1, 1, 4));
	EXPECT("5: GPU 0, GPU 1\n"
	       "6: WaitingForGPU(have 0, need 1; GPU 0: job 5 of alice; GPU 1: job 2 of bob)\n");
}

static void whole_jobs_leave_the_shared_gpus_to_shares(void **state)
{
	gpus(4);
	configure(PARTLY);
	PASS(WHOLE(1, 1), WHOLE(2, 1), SHARE(3, 1, 1, 4), WHOLE(4, 1));
	EXPECT("1: GPU 2\n"
	       "2: GPU 3\n"
	       "3: GPU 0 [0]\n"
	       "4: GPU 1\n");
	look();
	PASS(WHOLE(5, 3));
	EXPECT("5: GPU 0, GPU 2, GPU 3\n");
}

static void a_waiting_share_does_not_keep_gpus_that_it_could_not_use(void **state)
{
	gpus(4);
	configure(PARTLY);
	PASS(SHARE(1, 2, 1, 1), SHARE(2, 1, 1, 4), WHOLE(3, 2), WHOLE(4, 1));
	EXPECT("1: GPU 0, GPU 1\n"
	       "2: WaitingForGPU(have 0, need 1; GPU 0, 1: 0 of 4 slots free, job 1)\n"
	       "3: GPU 2, GPU 3\n"
	       "4: WaitingForGPU(have 0, need 1; GPU 0, 1: job 1; GPU 2, 3: job 3)\n");
}

/* --- MIG ------------------------------------------------------------------------------------- */

static void a_split_gpu_is_never_granted_whole(void **state)
{
	gpus(2);
	split(0, 2);
	configure(PLAIN); /* the strategy `none`: the policy shows GPU 0 as one device */
	assert_int_equal(fixture->machine.device_count, 3);
	PASS(WHOLE(1, 1), WHOLE(2, 1), IDS(3, "0:1"), IDS(4, "0"));
	EXPECT("1: GPU 1\n"
	       "2: WaitingForGPU(have 0, need 1; GPU 1: job 1)\n"
	       "3: MIG 0:1\n"
	       "4: NoMachine(GPU 0 is split into MIG devices and is not given as a whole: name one "
	       "of them (0:0))\n");
	const struct job two = WHOLE(1, 2), whole = IDS(2, "0");
	assert_int_equal(schedule_check(&fixture->machine, &two, &fixture->err), -ERANGE);
	assert_string_equal(fixture->err.text, "needs 2 GPUs, this machine has 1 (and 2 MIG "
					       "devices, which --gpu-ids can name)");
	assert_int_equal(schedule_check(&fixture->machine, &whole, &fixture->err), -EINVAL);
}

static void where_all_gpus_are_split_their_parts_are_given(void **state)
{
	gpus(2);
	split(0, 2);
	split(1, 2);
	configure("version: v1\nflags: {migStrategy: mixed}\n");
	PASS(IDS(1, "1:1"), WHOLE(2, 1), WHOLE(3, 2), WHOLE(4, 1));
	EXPECT("1: MIG 1:1\n"
	       "2: MIG 1:0\n"
	       "3: MIG 0:0, MIG 0:1\n"
	       "4: WaitingForGPU(have 0, need 1; MIG 0:0, 0:1: job 3; MIG 1:0: job 2; MIG 1:1: job "
	       "1)\n");
	const struct job job = WHOLE(1, 5);
	assert_int_equal(schedule_check(&fixture->machine, &job, &fixture->err), -ERANGE);
	assert_string_equal(fixture->err.text,
			    "needs 5 GPUs, this machine has 4 MIG devices and no whole GPU");
}

static void an_outsider_on_one_mig_device_leaves_the_others(void **state)
{
	gpus(1);
	split(0, 2);
	struct snapshot_gpu *now = &fixture->snapshot->gpu[0];
	now->process_count = 1;
	now->process[0] =
	    (struct snapshot_process){.pid = 4711, .type = SNAPSHOT_PROCESS_COMPUTE, .gi = 1};
	configure(PLAIN);
	PASS(WHOLE(1, 1), WHOLE(2, 2));
	EXPECT("1: MIG 0:1\n"
	       "2: GPUInUseByOthers(need 2, only 1 can be had; MIG 0:0, pid 4711, bob)\n");
}

/* --- what keeps a device from everybody ------------------------------------------------------- */

static void sick_gpus_are_not_granted_and_named(void **state)
{
	gpus(2);
	fixture->gpus[0].state = GPU_STATE_LOST;
	(void)snprintf(fixture->gpus[0].reason, GPU_REASON_MAX, "it fell off the bus");
	configure(PLAIN);
	PASS(WHOLE(1, 2), IDS(2, "0"), WHOLE(3, 1), WHOLE(4, 1), WHOLE(5, 2));
	EXPECT("1: GPUUnhealthy(need 2, only 1 can be had; GPU 0, it fell off the bus)\n"
	       "2: GPUUnhealthy(GPU 0, it fell off the bus)\n"
	       "3: GPU 1\n"
	       "4: WaitingForGPU(have 0, need 1; GPU 0: unhealthy, it fell off the bus; GPU 1: job "
	       "3)\n"
	       "5: GPUUnhealthy(need 2, only 1 can be had; GPU 0, it fell off the bus)\n");
	const struct job job = WHOLE(1, 2);
	assert_int_equal(schedule_check(&fixture->machine, &job, NULL), 0); /* it may recover */
}

static void what_the_snapshot_knows_counts(void **state)
{
	gpus(2);
	fixture->snapshot->gpu[1].state = GPU_STATE_HUNG;
	configure(PLAIN);
	PASS(IDS(1, "1"));
	EXPECT("1: GPUUnhealthy(GPU 1, hung)\n");
}

static void outsiders_are_waited_for(void **state)
{
	gpus(4);
	computes(3, 4711);
	computes(2, 4712);
	computes(1, 99); /* of one of our jobs */
	configure(PLAIN);
	struct job ignores = IDS(4, "3");
	ignores.ignore_outsiders = true;
	PASS(IDS(1, "3"), IDS(2, "3,2"), WHOLE(3, 3), ignores, WHOLE(5, 2), WHOLE(6, 1));
	EXPECT("1: GPUInUseByOthers(GPU 3, pid 4711, bob)\n"
	       "2: GPUInUseByOthers(need 2, only 0 can be had; GPU 3, pid 4711, bob; GPU 2, pid "
	       "4712)\n"
	       "3: GPUInUseByOthers(need 3, only 2 can be had; GPU 2, pid 4712; GPU 3, pid 4711, "
	       "bob)\n"
	       "4: GPU 3\n"
	       "5: GPU 0, GPU 1\n"
	       "6: WaitingForGPU(have 0, need 1; GPU 0, 1: job 5; GPU 2: pid 4712; GPU 3: pid 4711 "
	       "of bob)\n");
}

static void without_a_callback_everybody_is_a_stranger(void **state)
{
	gpus(1);
	computes(0, 99);
	configure(PLAIN);
	schedule_machine_done(&fixture->machine);
	assert_int_equal(schedule_machine_make(&fixture->inventory, fixture->snapshot,
					       fixture->policy, NULL, NULL, &fixture->machine,
					       NULL),
			 0);
	PASS(WHOLE(1, 1));
	EXPECT("1: GPUInUseByOthers(GPU 0, pid 99)\n");
}

static void a_wait_for_repair_keeps_nobody_else(void **state)
{
	gpus(4);
	fixture->gpus[0].state = GPU_STATE_RESET_REQUIRED;
	configure(PLAIN);
	PASS(WHOLE(1, 4), WHOLE(2, 3), WHOLE(3, 1));
	EXPECT("1: GPUUnhealthy(need 4, only 3 can be had; GPU 0, reset required)\n"
	       "2: GPU 1, GPU 2, GPU 3\n"
	       "3: WaitingForGPU(have 0, need 1; GPU 0: unhealthy, reset required; GPU 1, 2, 3: "
	       "job 2)\n");
}

static void what_another_queue_holds_is_in_use(void **state)
{
	gpus(2);
	configure(SHARED);
	(void)snprintf(fixture->machine.devices[0].holder, SCHEDULE_HOLDER_MAX,
		       "job train of bob, pid 7");
	schedule_machine_hold(&fixture->machine, "GPU-00000001", 0, "job nb of carol, pid 8");
	schedule_machine_hold(&fixture->machine, "GPU-00000001", 4, "nobody: there is no slot 4");
	schedule_machine_hold(&fixture->machine, "GPU-somewhere-else", 0, "nobody");
	PASS(SHARE(1, 1, 3, 4), SHARE(2, 1, 1, 4), WHOLE(3, 1));
	EXPECT("1: GPU 1 [1] [2] [3]\n"
	       "2: WaitingForGPU(have 0, need 1; GPU 0: job train of bob, pid 7; GPU 1: 0 of 4 "
	       "slots free, job 1 and job nb of carol, pid 8)\n"
	       "3: QueueOrder(behind 2)\n");
}

/* --- running jobs ---------------------------------------------------------------------------- */

static struct launch_grant granted(uint32_t gpu, uint32_t slot_count, uint64_t slots)
{
	struct launch_grant grant = {.slot_count = slot_count, .slots = {slots}};
	(void)snprintf(grant.uuid, sizeof(grant.uuid), "GPU-%08x", gpu);
	return grant;
}

static void slots_of_running_jobs_are_taken(void **state)
{
	gpus(3);
	configure(SHARED);
	const struct launch_grant grants[] = {granted(0, 4, 0x5), granted(1, 4, 0xf),
					      granted(9, 4, 0xf)};
	for (size_t i = 0; i < 3; i++)
		schedule_machine_take(&fixture->machine, &grants[i]);
	assert_true(fixture->machine.devices[1].used_whole);
	PASS(SHARE(1, 1, 1, 2), SHARE(2, 1, 1, 4), IDS(3, "1"));
	EXPECT("1: GPU 0 [1] [3]\n"
	       "2: GPU 2 [0]\n"
	       "3: WaitingForGPU(have 0, need 1; GPU 1: in use)\n");
}

static void a_job_from_before_a_change_of_slots_keeps_its_device(void **state)
{
	gpus(4);
	configure(SHARED);
	const struct launch_grant grants[] = {
	    granted(0, 1, 0x1),	 /* whole, when there was one slot */
	    granted(1, 8, 0x20), /* a slot that there is no more */
	    granted(2, 8, 0x2),	 /* one that there is */
	};
	for (size_t i = 0; i < 3; i++)
		schedule_machine_take(&fixture->machine, &grants[i]);
	assert_true(fixture->machine.devices[0].used_whole);
	assert_true(fixture->machine.devices[1].used_whole);
	assert_int_equal(fixture->machine.devices[2].used_count, 1);
	PASS(SHARE(1, 1, 3, 4), WHOLE(2, 1), SHARE(3, 1, 1, 4));
	EXPECT("1: GPU 2 [0] [2] [3]\n"
	       "2: GPU 3\n"
	       "3: WaitingForGPU(have 0, need 1; GPU 0, 1: in use; GPU 2: 0 of 4 slots free, job "
	       "1; GPU 3: job 2)\n");
}

static void a_gpu_that_went_away_is_said(void **state)
{
	gpus(2);
	configure(PLAIN);
	PASS(IDS(1, "3"), IDS(2, "GPU-00000007"), WHOLE(3, 3), WHOLE(4, 3), WHOLE(5, 2));
	EXPECT("1: NoMachine(this machine has no GPU '3': `sluice devices` shows what it has)\n"
	       "2: NoMachine(this machine has no GPU 'GPU-00000007': `sluice devices` shows what "
	       "it has)\n"
	       "3: NoMachine(needs 3 GPUs, this machine has 2)\n"
	       "4: NoMachine(needs 3 GPUs, this machine has 2)\n"
	       "5: GPU 0, GPU 1\n");
}

static void a_long_list_of_holders_is_cut_and_says_so(void **state)
{
	gpus(8);
	configure(PLAIN);
	char names[8][48];
	for (int i = 0; i < 8; i++) {
		(void)snprintf(names[i], sizeof(names[i]),
			       "job %d of somebody-with-a-long-name-1234", i + 1);
		fixture->holder[i] = names[i];
	}
	PASS(WHOLE(1, 8), WHOLE(2, 1));
	const char *end = strstr(fixture->out, "; ...)\n");
	assert_non_null(end);
	assert_string_equal(end, "; ...)\n");
	assert_null(strstr(fixture->out, "job 7"));
	assert_non_null(strstr(fixture->out, "GPU 5: job 6 of somebody-with-a-long-name-1234"));
}

/* --- what can never run ---------------------------------------------------------------------- */

static void check(struct job job, int result, const char *text)
{
	fixture->err.text[0] = '\0';
	assert_int_equal(schedule_check(&fixture->machine, &job, &fixture->err), result);
	assert_string_equal(fixture->err.text, text);
}

static void impossible_jobs_are_refused_with_both_numbers(void **state)
{
	gpus(8);
	configure(PLAIN);
	check(WHOLE(1, 8), 0, "");
	check(WHOLE(1, 9), -ERANGE, "needs 9 GPUs, this machine has 8");
	check(SHARE(1, 1, 1, 4), -ERANGE,
	      "no GPU of this machine is shared: sharing.timeSlicing in the configuration makes "
	      "slots");
	check(IDS(1, "0,0"), -EINVAL, "GPU 0 is named twice");
	check(IDS(1, "0,,1"), -EINVAL, "the list of GPUs has an entry that is empty: ',1'");
	check(IDS(1, "11"), -ENOENT,
	      "this machine has no GPU '11': `sluice devices` shows what it has");
	configure(PARTLY);
	check(SHARE(1, 2, 1, 2), 0, "");
	check(SHARE(1, 3, 1, 2), -ERANGE,
	      "needs shares of 3 GPUs, this machine has 2 that are shared (sharing.timeSlicing in "
	      "the configuration)");
	struct job job = IDS(1, "0,2");
	job.share_numerator = job.share_denominator = 1;
	check(job, -ERANGE,
	      "GPU 2 is not shared: sharing.timeSlicing in the configuration makes slots");
}

static void gpus_of_the_kubelet_are_not_the_queues(void **state)
{
	gpus(4);
	configure_for(PLAIN, true);
	look();
	check(WHOLE(1, 1), -ERANGE,
	      "needs 1 GPU, there are 0: all GPUs of this machine belong to the kubelet; "
	      "sluice.doors.queue.devices in the configuration gives some of them to jobs");
	configure("version: v1\nsluice: {doors: {queue: {devices: [2, 3]}}}\n");
	check(WHOLE(1, 2), 0, "");
	check(WHOLE(1, 3), -ERANGE,
	      "needs 3 GPUs, the queue has 2 of the 4 of this machine (sluice.doors.queue.devices "
	      "in the configuration says which)");
	check(
	    IDS(1, "1"), -ENOENT,
	    "GPU '1' is not the queue's to give: sluice.doors.queue.devices and sluice.devices in "
	    "the configuration say which are");
}

static void a_machine_without_devices_says_why(void **state)
{
	gpus(0);
	configure(PLAIN);
	assert_string_equal(fixture->machine.problem, "this machine has no NVIDIA GPU");
	gpus(2);
	split(0, 1);
	configure("version: v1\nflags: {migStrategy: single}\n");
	assert_non_null(strstr(fixture->machine.problem, "same migEnabled value"));
	configure("version: v1\nsluice: {devices: {exclude: [\"name:*\"]}}\n");
	assert_non_null(strstr(fixture->machine.problem, "sluice.doors.queue.devices"));
}

static void a_device_has_no_more_slots_than_a_job_can_be_granted(void **state)
{
	gpus(1);
	configure(
	    "version: v1\nsharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: "
	    "1024}]}}\n");
	assert_int_equal(fixture->machine.devices[0].slot_count, LAUNCH_SLOTS_MAX);
	PASS(WHOLE(1, 1));
	EXPECT("1: GPU 0\n");
	assert_int_equal(fixture->machine.devices[0].used_count, LAUNCH_SLOTS_MAX);
}

static int scenario(void *context)
{
	struct schedule_machine machine;
	int result = schedule_machine_make(&fixture->inventory, fixture->snapshot, fixture->policy,
					   stranger, fixture, &machine, NULL);
	if (result < 0)
		return result;
	schedule_machine_done(&fixture->machine);
	fixture->machine = machine;
	const struct job jobs[] = {WHOLE(1, 2), SHARE(2, 1, 1, 2), IDS(3, "0"),
				   WHOLE(4, 9), WHOLE(5, 1),	   WHOLE(6, 0)};
	result = pass(jobs, sizeof(jobs) / sizeof(jobs[0]));
	schedule_machine_done(&fixture->machine);
	return result;
}

static void no_memory_is_an_ordinary_error(void **state)
{
	gpus(9); /* so many that their shape is kept */
	configure(SHARED);
	assert_true(failmalloc_each(scenario, NULL) > 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(jobs_start_in_their_order_until_nothing_is_left),
	    TEST(a_wide_job_keeps_those_behind_it_from_what_it_waits_for),
	    TEST(jobs_that_want_other_gpus_go_past),
	    TEST(cpu_jobs_never_wait),
	    TEST(without_a_driver_only_cpu_jobs_run),
	    TEST(the_best_connected_are_chosen_and_the_rest_stays_so),
	    TEST(the_least_recently_used_is_next),
	    TEST(many_gpus_are_chosen_as_well_and_their_shape_is_kept),
	    TEST(ids_are_granted_in_the_users_order),
	    TEST(shares_fill_the_smallest_hole_first),
	    TEST(a_share_is_rounded_up_to_slots),
	    TEST(shares_of_several_gpus_are_of_different_ones),
	    TEST(whole_jobs_and_shares_do_not_mix),
	    TEST(whole_jobs_leave_the_shared_gpus_to_shares),
	    TEST(a_waiting_share_does_not_keep_gpus_that_it_could_not_use),
	    TEST(a_split_gpu_is_never_granted_whole),
	    TEST(where_all_gpus_are_split_their_parts_are_given),
	    TEST(an_outsider_on_one_mig_device_leaves_the_others),
	    TEST(sick_gpus_are_not_granted_and_named),
	    TEST(what_the_snapshot_knows_counts),
	    TEST(outsiders_are_waited_for),
	    TEST(without_a_callback_everybody_is_a_stranger),
	    TEST(a_wait_for_repair_keeps_nobody_else),
	    TEST(what_another_queue_holds_is_in_use),
	    TEST(slots_of_running_jobs_are_taken),
	    TEST(a_job_from_before_a_change_of_slots_keeps_its_device),
	    TEST(a_gpu_that_went_away_is_said),
	    TEST(a_long_list_of_holders_is_cut_and_says_so),
	    TEST(impossible_jobs_are_refused_with_both_numbers),
	    TEST(gpus_of_the_kubelet_are_not_the_queues),
	    TEST(a_machine_without_devices_says_why),
	    TEST(a_device_has_no_more_slots_than_a_job_can_be_granted),
	    TEST(no_memory_is_an_ordinary_error),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
