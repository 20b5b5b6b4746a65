/* SPDX-License-Identifier: Apache-2.0 */
/* Processors and memory beside GPUs, and which kind of GPU it has to be. */
#include "doors/queue/schedule/schedule.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unit/doors/queue/schedule/schedule_rig.h"

#include "unit/failmalloc.h"

#define GI	  (UINT64_C(1) << 30)
#define CPU(i, n) ((struct job){.id = (i), .wants.cpu_milli = (n)})
#define MEM(i, n) ((struct job){.id = (i), .wants.mem_bytes = (n)})

static void machine(uint32_t count)
{
	gpus(count);
	configure(PLAIN);
	fixture->shows_turns = true;
	fixture->rules.cpu_milli = 16000;
	fixture->rules.mem_bytes = 64 * GI;
	fixture->machine.rules = &fixture->rules;
}

static void what_is_named_is_counted(void **state)
{
	machine(0);
	PASS(CPU(1, 12000), CPU(2, 4500), WHOLE(3, 0), MEM(4, 60 * GI), MEM(5, 4 * GI + 1));
	EXPECT("1: starts\n"
	       "2: [turn] WaitingForCPU(have 4, need 4.5 of 16)\n"
	       "3: starts\n"
	       "4: starts\n"
	       "5: [turn] WaitingForMemory(have 4Gi, need 4.0Gi of 64Gi)\n");
	look();
	runs(0, -1, SCHEDULE_NEVER, 15500, 64 * GI);
	PASS(CPU(1, 500), CPU(2, 1), MEM(3, 512));
	EXPECT("1: starts\n"
	       "2: [turn] WaitingForCPU(have 0, need 0.001 of 16)\n"
	       "3: [turn] WaitingForMemory(have 0 bytes, need 512 bytes of 64Gi)\n");
}

static void without_rules_nothing_is_counted(void **state)
{
	gpus(0);
	configure(PLAIN);
	PASS(CPU(1, 1000000), MEM(2, UINT64_MAX), CPU(3, UINT32_MAX));
	EXPECT("1: starts\n2: starts\n3: starts\n");
}

static void wide_ones_are_not_starved(void **state)
{
	machine(0);
	runs(0, -1, SCHEDULE_NEVER, 10000, 0);
	PASS(CPU(1, 8000), CPU(2, 1000), MEM(3, GI), CPU(4, 12000));
	EXPECT("1: [turn] WaitingForCPU(have 6, need 8 of 16)\n"
	       "2: QueueOrder(behind 1)\n"
	       "3: starts\n"
	       "4: WaitingForCPU(have 6, need 12 of 16)\n");
}

static void what_ends_before_or_fits_beside_goes_past(void **state)
{
	machine(0);
	runs(0, -1, 100, 10000, 0);
	struct job before = CPU(3, 5000), beside = CPU(4, 1000), again = CPU(5, 1000);
	before.wants.time_ns = 100;
	/* In 100 there are 16, and it wants 15 of them. */
	PASS(CPU(1, 15000), CPU(2, 2000), before, beside, again);
	EXPECT("1: [turn] WaitingForCPU(have 6, need 15 of 16)\n"
	       "2: QueueOrder(behind 1)\n"
	       "3: starts\n"
	       "4: starts\n"
	       "5: WaitingForCPU(have 0, need 1 of 16)\n"
	       "1: [turn] WaitingForCPU(have 0, need 15 of 16)\n"
	       "5: WaitingForCPU(have 0, need 1 of 16)\n");
}

static void who_waits_for_gpus_keeps_no_processors(void **state)
{
	machine(1);
	runs(0, 0, SCHEDULE_NEVER, 4000, 0);
	fixture->holder[0] = "bob";
	struct job gpu = WHOLE(1, 1);
	gpu.wants.cpu_milli = 12000;
	PASS(gpu, CPU(2, 12000), CPU(3, 1000));
	EXPECT("1: WaitingForGPU(have 0, need 1; GPU 0: bob)\n"
	       "2: starts\n"
	       "3: [turn] WaitingForCPU(have 0, need 1 of 16)\n");
}

static void who_waits_for_processors_keeps_as_many_gpus_as_it_wants(void **state)
{
	machine(3);
	runs(0, -1, 100, 10000, 0);
	struct job gpu = WHOLE(1, 1), wide = WHOLE(3, 2), brief = WHOLE(4, 1);
	gpu.wants.cpu_milli = 8000;
	brief.wants.time_ns = 100;
	PASS(gpu, WHOLE(2, 1), wide, brief);
	EXPECT(
	    "1: [turn] WaitingForCPU(have 6, need 8 of 16)\n"
	    "2: GPU 0\n"
	    "3: [turn] WaitingForGPU(have 1, need 2; GPU 0: job 2; GPU 2: kept for job 1)\n"
	    "4: GPU 1\n"
	    "1: [turn] WaitingForCPU(have 6, need 8 of 16)\n"
	    "3: [turn] WaitingForGPU(have 0, need 2; GPU 0: job 2; GPU 1: job 4; GPU 2: kept for "
	    "job 1)\n");
}

static void more_than_there_is_is_refused_and_keeps_nothing(void **state)
{
	machine(1);
	const struct job cpu = CPU(1, 16001), mem = MEM(2, 64 * GI + 1), fits = CPU(3, 16000);
	assert_int_equal(schedule_check(&fixture->machine, &cpu, &fixture->err), -ERANGE);
	assert_string_equal(fixture->err.text, "needs 16.001 processors, jobs can have 16 here");
	assert_int_equal(schedule_check(&fixture->machine, &mem, &fixture->err), -ERANGE);
	assert_string_equal(fixture->err.text, "needs 64.0Gi of memory, jobs can have 64Gi here");
	assert_int_equal(schedule_check(&fixture->machine, &fits, NULL), 0);
	/* There was more when it came. */
	PASS(cpu, mem, fits);
	EXPECT("1: WaitingForCPU(have 16, need 16.001 of 16)\n"
	       "2: WaitingForMemory(have 64Gi, need 64.0Gi of 64Gi)\n"
	       "3: starts\n");
}

/* --- which GPUs ------------------------------------------------------------------------------ */

static struct job kind(uint64_t id, uint32_t count, const char *type, uint64_t memory)
{
	struct job job = WHOLE(id, count);
	job.wants.gpu_type = (char *)type;
	job.wants.gpu_memory_bytes = memory;
	return job;
}

static void two_kinds(void)
{
	gpus(4);
	for (uint32_t i = 0; i < 4; i++) {
		(void)snprintf(fixture->gpus[i].name, sizeof(fixture->gpus[i].name), "NVIDIA %s",
			       i < 2 ? "A100-SXM4-80GB" : "T4");
		fixture->gpus[i].memory_bytes = i < 2 ? 80 * GI : 16 * GI;
	}
	configure(PLAIN);
}

static void product_and_memory_are_what_is_wanted(void **state)
{
	two_kinds();
	PASS(kind(1, 1, "*t4*", 0), kind(2, 1, NULL, 40 * GI), kind(3, 2, "*A100*", 0),
	     kind(4, 1, "NVIDIA T4", 16 * GI));
	EXPECT("1: GPU 2\n"
	       "2: GPU 0\n"
	       "3: WaitingForGPU(have 1, need 2; GPU 0: job 2)\n"
	       "4: GPU 3\n");
}

static void what_is_not_there_is_refused_with_what_is(void **state)
{
	two_kinds();
	const struct {
		struct job job;
		const char *says;
	} cases[] = {
	    {kind(1, 1, "*H100*", 0), "needs 1 GPU like '*H100*', this machine has 0; there is: "
				      "NVIDIA A100-SXM4-80GB (80Gi), NVIDIA T4 (16Gi)"},
	    {kind(1, 3, "*A100*", 40 * GI),
	     "needs 3 GPUs like '*A100*' with 40Gi of memory or more, this machine has 2; there "
	     "is: NVIDIA A100-SXM4-80GB (80Gi), NVIDIA T4 (16Gi)"},
	    {kind(1, 1, NULL, 80 * GI + 1),
	     "needs 1 GPU with 80.0Gi of memory or more, this machine has 0; there is: NVIDIA "
	     "A100-SXM4-80GB (80Gi), NVIDIA T4 (16Gi)"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(schedule_check(&fixture->machine, &cases[i].job, &fixture->err),
				 -ERANGE);
		assert_string_equal(fixture->err.text, cases[i].says);
	}
	struct job named = kind(1, 1, "*A100*", 0);
	named.ids = (char *)"3";
	assert_int_equal(schedule_check(&fixture->machine, &named, &fixture->err), -ERANGE);
	assert_string_equal(fixture->err.text, "GPU 3 is NVIDIA T4, and not one like '*A100*'");
	fixture->gpus[0].memory_bytes = GPU_U64_UNKNOWN;
	const struct job both = kind(1, 2, NULL, 40 * GI);
	assert_int_equal(schedule_check(&fixture->machine, &both, NULL), -ERANGE);
}

static void the_preferred_come_first(void **state)
{
	gpus(4);
	configure(PLAIN);
	(void)snprintf(fixture->rules.prefer, sizeof(fixture->rules.prefer), "3,1");
	struct job own = WHOLE(2, 1);
	own.wants.prefer = (char *)"GPU-00000000,9";
	PASS(WHOLE(1, 1), own, WHOLE(3, 1), WHOLE(4, 1));
	EXPECT("1: GPU 3\n2: GPU 0\n3: GPU 1\n4: GPU 2\n");
	look();
	/* What is preferred and what is well connected to it. */
	(void)snprintf(fixture->rules.prefer, sizeof(fixture->rules.prefer), "2");
	PASS(WHOLE(5, 2), WHOLE(6, 2));
	EXPECT("5: GPU 2, GPU 3\n6: GPU 0, GPU 1\n");
	fixture->machine.rules = NULL;
	assert_int_equal(schedule_check(&fixture->machine, &own, &fixture->err), -ENOENT);
	if (!strstr(fixture->err.text, "--prefer"))
		fail_msg("%s", fixture->err.text);
}

static void shares_go_where_it_is_preferred(void **state)
{
	gpus(3);
	configure(SHARED);
	struct job job = SHARE(2, 1, 1, 4);
	job.wants.prefer = (char *)"2";
	PASS(SHARE(1, 1, 1, 4), job, SHARE(3, 1, 1, 4));
	EXPECT("1: GPU 0 [0]\n2: GPU 2 [0]\n3: GPU 0 [1]\n");
}

static void workers_get_gpus_that_are_near_each_other(void **state)
{
	gpus(8);
	configure(PLAIN);
	/* 1 and 6 are taken: of what is left 0 and 7 are alone. */
	struct job job = WHOLE(2, 6);
	job.wants.launcher = WANTS_LAUNCHER_OPENMPI;
	job.wants.workers = 3;
	job.wants.worker_gpus = 2;
	PASS(IDS(1, "1,6"), job);
	EXPECT("1: GPU 1, GPU 6\n"
	       "2: GPU 2, GPU 3, GPU 4, GPU 5, GPU 0, GPU 7\n");
	job.gpus = 16;
	job.wants.workers = 2;
	job.wants.worker_gpus = 8;
	assert_int_equal(schedule_check(&fixture->machine, &job, &fixture->err), -ERANGE);
	assert_string_equal(fixture->err.text, "needs 2 workers x 8 GPUs, this machine has 8");
}

static void workers_may_share_where_they_say_so(void **state)
{
	gpus(2);
	configure(SHARED);
	struct job job = WHOLE(2, 4);
	job.wants.launcher = WANTS_LAUNCHER_OPENMPI;
	job.wants.workers = 2;
	job.wants.worker_gpus = 2;
	assert_int_equal(schedule_check(&fixture->machine, &job, &fixture->err), -ERANGE);
	assert_string_equal(fixture->err.text, "needs 2 workers x 2 GPUs, this machine has 2");
	job.wants.oversubscribe = true;
	assert_int_equal(schedule_check(&fixture->machine, &job, NULL), 0);
	PASS(SHARE(1, 1, 1, 4), job, SHARE(3, 1, 1, 2), SHARE(4, 2, 1, 4), job);
	EXPECT("1: GPU 0 [0]\n"
	       "2: GPU 0 [1], GPU 1 [0], GPU 0 [2], GPU 1 [1]\n"
	       "3: GPU 1 [2] [3]\n"
	       "4: WaitingForGPU(have 1, need 2; GPU 1: 0 of 4 slots free, job 3)\n"
	       "2: QueueOrder(behind 4)\n");
	/* Where there are enough each has its own. */
	struct job fits = job;
	fits.gpus = 2;
	fits.wants.worker_gpus = 1;
	look();
	PASS(fits);
	EXPECT("2: GPU 0, GPU 1\n");
	const uint32_t wrong[][2] = {{5, 2}, {2, 3}}; /* slots; GPUs of one worker */
	for (size_t i = 0; i < 2; i++) {
		job.wants.workers = wrong[i][0];
		job.wants.worker_gpus = wrong[i][1];
		job.gpus = wrong[i][0] * wrong[i][1];
		assert_int_equal(schedule_check(&fixture->machine, &job, &fixture->err), -ERANGE);
		if (!strstr(fixture->err.text, "this machine has 2 that are shared, and too few"))
			fail_msg("%s", fixture->err.text);
	}
}

static void on_a_gpu_of_an_outsider(void **state)
{
	gpus(2);
	computes(0, 4711);
	computes(1, 4711);
	configure(SHARED);
	struct job share = SHARE(1, 1, 1, 4), whole = WHOLE(2, 2), rude = WHOLE(3, 1),
		   polite = SHARE(4, 1, 1, 4);
	rude.wants.outsiders = WANTS_OUTSIDERS_IGNORE;
	polite.wants.outsiders = WANTS_OUTSIDERS_WAIT;
	fixture->rules.outsiders = RULES_OUTSIDERS_SHARE;
	PASS(share, whole, rude, polite);
	EXPECT("1: GPU 0 [0]\n"
	       "2: GPUInUseByOthers(need 2, only 0 can be had; GPU 0, pid 4711, bob; GPU 1, pid "
	       "4711, bob)\n"
	       "3: GPU 1\n"
	       "4: GPUInUseByOthers(GPU 0, pid 4711, bob; GPU 1, pid 4711, bob)\n");
	look();
	fixture->rules.outsiders = RULES_OUTSIDERS_IGNORE;
	PASS(whole);
	EXPECT("2: GPU 0, GPU 1\n");
}

static int one_pass(void *context)
{
	struct job jobs[] = {kind(1, 2, "*", 0), WHOLE(2, 4), CPU(3, 16000), CPU(4, 1000)};
	jobs[0].wants.priority = 3;
	jobs[0].wants.cpu_milli = 1000;
	int rc = schedule_machine_make(&fixture->inventory, fixture->snapshot, fixture->policy,
				       NULL, NULL, &fixture->machine, NULL);
	if (rc == 0)
		rc = pass(jobs, 4);
	schedule_machine_done(&fixture->machine);
	return rc;
}

static void out_of_memory(void **state)
{
	two_kinds();
	fixture->rules.cpu_milli = 16000;
	schedule_machine_done(&fixture->machine);
	assert_true(failmalloc_each(one_pass, NULL) >= 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(what_is_named_is_counted),
	    TEST(without_rules_nothing_is_counted),
	    TEST(wide_ones_are_not_starved),
	    TEST(what_ends_before_or_fits_beside_goes_past),
	    TEST(who_waits_for_gpus_keeps_no_processors),
	    TEST(who_waits_for_processors_keeps_as_many_gpus_as_it_wants),
	    TEST(more_than_there_is_is_refused_and_keeps_nothing),
	    TEST(product_and_memory_are_what_is_wanted),
	    TEST(what_is_not_there_is_refused_with_what_is),
	    TEST(the_preferred_come_first),
	    TEST(shares_go_where_it_is_preferred),
	    TEST(workers_get_gpus_that_are_near_each_other),
	    TEST(workers_may_share_where_they_say_so),
	    TEST(on_a_gpu_of_an_outsider),
	    TEST(out_of_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
