/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/queue/schedule/schedule_pool.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "unit/failmalloc.h"
#include "unit/unit.h"

static struct schedule_pool items[3];
static struct schedule_pools pools;

static int setup(void **state)
{
	memset(items, 0, sizeof(items));
	pools = (struct schedule_pools){.items = items, .count = 3};
	static const char *const names[] = {"rdma/a", "rdma/b", "rdma/c"};
	static const char *const adapters[] = {"mlx5_1,mlx5_10", "mlx5_10", ""};
	for (size_t i = 0; i < 3; i++) {
		(void)snprintf(items[i].name, sizeof(items[i].name), "%s", names[i]);
		(void)snprintf(items[i].adapters, sizeof(items[i].adapters), "%s", adapters[i]);
		items[i].units = 10;
		memset(items[i].level, GPU_LEVEL_UNKNOWN, sizeof(items[i].level));
	}
	(void)snprintf(items[2].problem, sizeof(items[2].problem), "no port is up");
	items[1].simulated = true;
	items[0].level[1] = GPU_LEVEL_SYSTEM;
	items[1].level[1] = GPU_LEVEL_SINGLE;
	return 0;
}

static void units_are_counted(void **state)
{
	char text[SCHEDULE_POOL_TEXT_MAX];
	size_t place;
	schedule_pools_take(&pools, "rdma/a=8,rdma/x=1");
	assert_int_equal(items[0].used, 8);
	assert_int_equal(schedule_pools_look(&pools, "rdma/a=2,rdma/b=10", &place, text),
			 SCHEDULE_POOL_FREE);
	assert_int_equal(place, 3);
	assert_string_equal(text, "");
	assert_int_equal(schedule_pools_look(&pools, NULL, &place, text), SCHEDULE_POOL_FREE);
	assert_int_equal(schedule_pools_look(&pools, "rdma/a=3,rdma/b=1", &place, text),
			 SCHEDULE_POOL_USED);
	assert_int_equal(place, 0);
	assert_string_equal(text, "rdma/a: have 2, need 3");
	items[1].used = 10; /* the first is named */
	assert_int_equal(schedule_pools_look(&pools, "rdma/a=3,rdma/b=1", &place, text),
			 SCHEDULE_POOL_USED);
	assert_int_equal(place, 0);
	/* More than there are by now, as after another configuration. */
	items[0].used = 12;
	assert_int_equal(schedule_pools_look(&pools, "rdma/a=1", &place, text), SCHEDULE_POOL_USED);
	assert_string_equal(text, "rdma/a: have 0, need 1");
}

static void a_pool_without_an_adapter_that_is_well(void **state)
{
	char text[SCHEDULE_POOL_TEXT_MAX];
	size_t place;
	schedule_pools_take(&pools, "rdma/a=10");
	assert_int_equal(schedule_pools_look(&pools, "rdma/a=1,rdma/c=1", &place, text),
			 SCHEDULE_POOL_SICK);
	assert_int_equal(place, 2);
	assert_string_equal(text, "rdma/c: no port is up");
	assert_int_equal(schedule_pools_look(&pools, "rdma/x=1", &place, text), SCHEDULE_POOL_SICK);
	assert_string_equal(text, "rdma/x: it is not in the configuration any more");
	assert_int_equal(schedule_pools_look(&pools, "rdma/b=11", &place, text),
			 SCHEDULE_POOL_SICK);
	assert_string_equal(text, "rdma/b: there are fewer units now");
	(void)snprintf(pools.problem, sizeof(pools.problem), "they are the kubelet's");
	assert_int_equal(schedule_pools_look(&pools, "rdma/x=1", &place, text), SCHEDULE_POOL_SICK);
	assert_string_equal(text, "rdma/x: they are the kubelet's");
}

static void what_can_never_be_is_refused(void **state)
{
	struct err err = {0};
	assert_int_equal(schedule_pools_check(&pools, "rdma/a=10,rdma/c=1", &err), 0);
	assert_int_equal(schedule_pools_check(&pools, NULL, &err), 0);
	assert_int_equal(schedule_pools_check(&pools, "rdma/a=11", &err), -ERANGE);
	assert_string_equal(err.text, "needs 11 of 'rdma/a', this machine has 10");
	assert_int_equal(schedule_pools_check(&pools, "rdma/x=1", &err), -ERANGE);
	assert_string_equal(err.text, "this machine has no resource 'rdma/x' for jobs: it has "
				      "rdma/a, rdma/b, rdma/c");
	pools.count = 0;
	(void)snprintf(pools.problem, sizeof(pools.problem), "they are the kubelet's");
	assert_int_equal(schedule_pools_check(&pools, "rdma/a=1", &err), -ERANGE);
	assert_string_equal(err.text,
			    "this machine has no resource 'rdma/a' for jobs: they are the "
			    "kubelet's");
}

/* The agent has just started: nobody is refused for what may come. */
static void what_is_not_read_yet_is_waited_for(void **state)
{
	char text[SCHEDULE_POOL_TEXT_MAX];
	size_t place;
	pools.count = 0;
	pools.is_unknown = true;
	(void)snprintf(pools.problem, sizeof(pools.problem), "not read yet");
	assert_int_equal(schedule_pools_check(&pools, "rdma/a=1", NULL), 0);
	assert_int_equal(schedule_pools_check(&pools, "rdma/a", NULL), -EINVAL);
	assert_int_equal(schedule_pools_look(&pools, "rdma/a=1", &place, text), SCHEDULE_POOL_SICK);
	assert_string_equal(text, "rdma/a: not read yet");
}

static void the_nearest_adapter_counts(void **state)
{
	assert_int_equal(schedule_pools_level(&pools, "rdma/a=1", 1), GPU_LEVEL_SYSTEM);
	assert_int_equal(schedule_pools_level(&pools, "rdma/a=1,rdma/b=1", 1), GPU_LEVEL_SINGLE);
	assert_int_equal(schedule_pools_level(&pools, "rdma/a=1,rdma/b=1", 0), GPU_LEVEL_UNKNOWN);
	assert_int_equal(schedule_pools_level(&pools, "rdma/a=1", GPU_MAX), GPU_LEVEL_UNKNOWN);
}

static void adapters_are_named_once(void **state)
{
	struct buf out;
	bool simulated = true;
	buf_init(&out, 64);
	assert_int_equal(schedule_pools_adapters(&pools, "rdma/a=1,rdma/b=1", &out, &simulated), 0);
	assert_string_equal(buf_text(&out), "mlx5_1,mlx5_10");
	assert_true(simulated);
	buf_done(&out);
	buf_init(&out, 64);
	assert_int_equal(schedule_pools_adapters(&pools, "rdma/a=1", &out, &simulated), 0);
	assert_false(simulated);
	buf_done(&out);
	buf_init(&out, 8);
	assert_int_equal(schedule_pools_adapters(&pools, "rdma/a=1", &out, &simulated), -ENOSPC);
	buf_done(&out);
}

static void copies_and_differences(void **state)
{
	struct schedule_pools copy;
	assert_int_equal(schedule_pools_copy(&pools, &copy), 0);
	assert_false(schedule_pools_differ(&pools, &copy));
	copy.items[0].used = 3;
	assert_false(schedule_pools_differ(&pools, &copy));
	copy.items[0].level[7] = GPU_LEVEL_NODE;
	assert_true(schedule_pools_differ(&pools, &copy));
	copy.items[0].level[7] = GPU_LEVEL_UNKNOWN;
	copy.items[1].problem[0] = 'x';
	assert_true(schedule_pools_differ(&pools, &copy));
	schedule_pools_done(&copy);
	assert_true(schedule_pools_differ(&pools, &copy));
	pools.count = 0;
	assert_int_equal(schedule_pools_copy(&pools, &copy), 0);
	assert_false(schedule_pools_differ(&pools, &copy));
	copy.problem[0] = 'x';
	assert_true(schedule_pools_differ(&pools, &copy));
}

static int copy_once(void *context)
{
	struct schedule_pools copy;
	int rc = schedule_pools_copy(&pools, &copy);
	assert_int_equal(copy.count, rc == 0 ? 3 : 0);
	schedule_pools_done(&copy);
	return rc;
}

static void without_memory_nothing_is_copied(void **state)
{
	assert_int_equal(failmalloc_each(copy_once, NULL), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup(units_are_counted, setup),
	    cmocka_unit_test_setup(a_pool_without_an_adapter_that_is_well, setup),
	    cmocka_unit_test_setup(what_can_never_be_is_refused, setup),
	    cmocka_unit_test_setup(what_is_not_read_yet_is_waited_for, setup),
	    cmocka_unit_test_setup(the_nearest_adapter_counts, setup),
	    cmocka_unit_test_setup(adapters_are_named_once, setup),
	    cmocka_unit_test_setup(copies_and_differences, setup),
	    cmocka_unit_test_setup(without_memory_nothing_is_copied, setup),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
