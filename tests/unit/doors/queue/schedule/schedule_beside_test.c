/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs that want adapters beside GPUs. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "unit/doors/queue/schedule/schedule_rig.h"

#define WANTS(i, n, list) ((struct job){.id = (i), .gpus = (n), .resources = (char *)(list)})

/* rdma/near is on the board of GPUs 2 and 3 (of at least 4), rdma/few has two units. */
static void pools(struct schedule_pool *items)
{
	memset(items, 0, 2 * sizeof(*items));
	(void)snprintf(items[0].name, sizeof(items[0].name), "rdma/near");
	(void)snprintf(items[1].name, sizeof(items[1].name), "rdma/few");
	items[0].units = 100;
	items[1].units = 2;
	for (uint32_t i = 0; i < GPU_MAX; i++) {
		items[0].level[i] = i / 2 == 1	 ? GPU_LEVEL_SINGLE
				    : i / 4 == 0 ? GPU_LEVEL_NODE
						 : GPU_LEVEL_SYSTEM;
		items[1].level[i] = GPU_LEVEL_UNKNOWN;
	}
	const struct schedule_pools told = {.items = items, .count = 2};
	schedule_pools_done(&fixture->machine.pools);
	assert_int_equal(schedule_pools_copy(&told, &fixture->machine.pools), 0);
}

static void gpus_are_chosen_near_the_adapter(void **state)
{
	struct schedule_pool items[2];
	gpus(8);
	configure(PLAIN);
	pools(items);
	PASS(WANTS(1, 1, "rdma/near=1"), WANTS(2, 1, "rdma/near=1"), WANTS(3, 2, "rdma/near=1"),
	     WHOLE(4, 1));
	EXPECT("1: GPU 2\n2: GPU 3\n3: GPU 0, GPU 1\n4: GPU 4\n");
	look();
	pools(items);
	/* Three: one beyond the board, and not from the other half of the machine. */
	PASS(WANTS(1, 3, "rdma/near=1"));
	EXPECT("1: GPU 0, GPU 2, GPU 3\n");
	look();
	pools(items);
	PASS(WANTS(1, 1, "rdma/few=1")); /* nobody knows where it is: as without */
	EXPECT("1: GPU 5\n");		 /* one that was not used yet */
}

static void shares_and_mig_devices_are_chosen_near_it_too(void **state)
{
	struct schedule_pool items[2];
	gpus(4);
	configure(SHARED);
	pools(items);
	PASS(SHARE(1, 1, 1, 4), ((struct job){.id = 2,
					      .gpus = 1,
					      .share_numerator = 1,
					      .share_denominator = 4,
					      .resources = (char *)"rdma/near=1"}));
	EXPECT("1: GPU 0 [0]\n2: GPU 2 [0]\n");
}

static void units_of_a_resource_are_given_in_order(void **state)
{
	struct schedule_pool items[2];
	gpus(4);
	configure(PLAIN);
	pools(items);
	PASS(WANTS(1, 0, "rdma/few=1"), WANTS(2, 0, "rdma/few=2"), WANTS(3, 0, "rdma/few=1"),
	     WANTS(4, 0, "rdma/near=1"), WANTS(5, 0, "rdma/few=2"), WHOLE(6, 1), WHOLE(7, 0));
	EXPECT("1: starts\n"
	       "2: WaitingForResource(rdma/few: have 1, need 2)\n"
	       "3: QueueOrder(behind 2)\n"
	       "4: starts\n"
	       "5: QueueOrder(behind 2)\n"
	       "6: GPU 0\n"
	       "7: starts\n");
}

static void a_job_that_waits_for_units_keeps_the_gpus_as_well(void **state)
{
	struct schedule_pool items[2];
	gpus(2);
	configure(PLAIN);
	pools(items);
	schedule_pools_take(&fixture->machine.pools, "rdma/few=2");
	PASS(WANTS(1, 2, "rdma/few=1"), WHOLE(2, 1));
	EXPECT("1: WaitingForResource(rdma/few: have 0, need 1)\n2: QueueOrder(behind 1)\n");
	/* And one that waits for GPUs the units. */
	look();
	pools(items);
	fixture->holder[0] = "job 1 of alice";
	PASS(WHOLE(1, 1), WANTS(2, 2, "rdma/few=2"), WANTS(3, 0, "rdma/few=1"));
	EXPECT("1: GPU 0\n"
	       "2: WaitingForGPU(have 1, need 2; GPU 0: job 1 of alice)\n"
	       "3: QueueOrder(behind 2)\n");
}

static void one_for_which_no_adapter_is_well_keeps_nothing(void **state)
{
	struct schedule_pool items[2];
	gpus(2);
	configure(PLAIN);
	pools(items);
	(void)snprintf(fixture->machine.pools.items[1].problem, SCHEDULE_POOL_TEXT_MAX,
		       "mlx5_0 port 1 is down");
	PASS(WANTS(1, 2, "rdma/few=1,rdma/near=1"), WANTS(2, 2, "rdma/few=1,rdma/near=1"),
	     WANTS(3, 0, "rdma/near=1"), WHOLE(4, 2));
	EXPECT("1: ResourceUnhealthy(rdma/few: mlx5_0 port 1 is down)\n"
	       "2: ResourceUnhealthy(rdma/few: mlx5_0 port 1 is down)\n"
	       "3: starts\n"
	       "4: GPU 0, GPU 1\n");
}

static void what_is_not_there_is_refused_beside_gpus_too(void **state)
{
	struct schedule_pool items[2];
	const struct job none = WANTS(1, 0, "rdma/x=1"), many = WANTS(2, 1, "rdma/few=3"),
			 both = WANTS(3, 9, "rdma/few=2"), fits = WANTS(4, 0, "rdma/few=2");
	gpus(2);
	configure(PLAIN);
	pools(items);
	assert_int_equal(schedule_check(&fixture->machine, &none, NULL), -ERANGE);
	assert_int_equal(schedule_check(&fixture->machine, &many, NULL), -ERANGE);
	assert_int_equal(schedule_check(&fixture->machine, &both, &fixture->err), -ERANGE);
	assert_string_equal(fixture->err.text, "needs 9 GPUs, this machine has 2");
	assert_int_equal(schedule_check(&fixture->machine, &fits, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(gpus_are_chosen_near_the_adapter),
	    TEST(shares_and_mig_devices_are_chosen_near_it_too),
	    TEST(units_of_a_resource_are_given_in_order),
	    TEST(a_job_that_waits_for_units_keeps_the_gpus_as_well),
	    TEST(one_for_which_no_adapter_is_well_keeps_nothing),
	    TEST(what_is_not_there_is_refused_beside_gpus_too),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
