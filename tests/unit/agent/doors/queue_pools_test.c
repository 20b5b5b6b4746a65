/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/doors/queue_pools.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/err.h"
#include "doors/queue/schedule/schedule_pool.h"
#include "hardware/gpu.h"
#include "hardware/rdma.h"
#include "policy/rdma.h"
#include "unit/failmalloc.h"
#include "unit/hardware/rdma_tree.h"
#include "unit/unit.h"

/* Two adapters: mlx5_1 behind the switch of GPU 0, mlx5_10 elsewhere; GPU 1 is where nobody knows.
 */
static struct gpu gpus[2];
static struct inventory inventory;
static struct rdma_inventory *adapters; /* owned */
static struct rdma_config_entry entries[2];
static struct rdma_config config;
static struct rdma_policy policy;
static bool is_down[RDMA_FUNCTION_MAX];

static int setup(void **state)
{
	if (unit_top_setup(state) != 0)
		return -1;
	static const struct rdma_tree_function near = {
	    .bdf = "0000:0c:00.0",
	    .above = "pci0000:00/0000:00:01.0/0000:0a:00.0/0000:0b:00.0",
	    .numa = 0,
	    .simulated = true};
	static const struct rdma_tree_function far = {
	    .bdf = "0000:8c:00.0", .above = "pci0000:80/0000:80:01.0", .numa = 1};
	rdma_tree_function(unit_top, &near);
	rdma_tree_device(unit_top, near.bdf, "mlx5_1", 1);
	rdma_tree_port(unit_top, "mlx5_1", 1, "InfiniBand", 1);
	rdma_tree_function(unit_top, &far);
	rdma_tree_device(unit_top, far.bdf, "mlx5_10", 10);
	rdma_tree_port(unit_top, "mlx5_10", 1, "InfiniBand", 10);
	rdma_tree_link(unit_top, "sys/bus/pci/devices/0000:0d:00.0",
		       "../../../devices/pci0000:00/0000:00:01.0/0000:0a:00.0/0000:0e:00.0/"
		       "0000:0d:00.0");
	rdma_tree_write(unit_top,
			"sys/devices/pci0000:00/0000:00:01.0/0000:0a:00.0/0000:0e:00.0/"
			"0000:0d:00.0/numa_node",
			"0\n");
	gpus[0].has_pci = gpus[1].has_pci = true;
	gpus[0].pci = (struct pci_address){.bus = 0x0d};
	gpus[1].pci = (struct pci_address){.bus = 0xdd};
	inventory = (struct inventory){.gpu_count = 2, .gpus = gpus};
	adapters = calloc(1, sizeof(*adapters));
	if (!adapters || rdma_read(unit_top, adapters, NULL) < 0)
		return -1;
	memset(entries, 0, sizeof(entries));
	(void)snprintf(entries[0].prefix, sizeof(entries[0].prefix), "rdma");
	(void)snprintf(entries[0].name, sizeof(entries[0].name), "all");
	entries[0].units = 7;
	entries[0].needs = RDMA_KIND_BIT(RDMA_UVERBS);
	entries[0].health = RDMA_CONFIG_HEALTH_PORT;
	config = (struct rdma_config){.is_set = true, .entries = entries, .count = 1};
	memset(is_down, 0, sizeof(is_down));
	return rdma_policy_make(&config, adapters, &policy, NULL);
}

static int teardown(void **state)
{
	rdma_policy_done(&policy);
	free(adapters);
	return unit_top_teardown(state);
}

static struct queue_pools_source source(void)
{
	return (struct queue_pools_source){.gpus = &inventory,
					   .root = unit_top,
					   .policy = &policy,
					   .adapters = adapters,
					   .is_down = is_down,
					   .problem = ""};
}

static void what_is_well_is_told_with_its_place(void **state)
{
	struct queue_pools_source from = source();
	struct schedule_pools pools;
	assert_int_equal(queue_pools_make(&from, &pools, NULL), 0);
	assert_int_equal(pools.count, 1);
	assert_string_equal(pools.items[0].name, "rdma/all");
	assert_int_equal(pools.items[0].units, 7);
	assert_int_equal(pools.items[0].used, 0);
	assert_string_equal(pools.items[0].problem, "");
	assert_string_equal(pools.items[0].adapters, "mlx5_1,mlx5_10");
	assert_true(pools.items[0].simulated);
	assert_int_equal(pools.items[0].level[0], GPU_LEVEL_SINGLE);
	assert_int_equal(pools.items[0].level[1], GPU_LEVEL_UNKNOWN);
	schedule_pools_done(&pools);
}

static void an_adapter_that_is_down_is_left_out(void **state)
{
	struct queue_pools_source from = source();
	struct schedule_pools pools;
	is_down[0] = true;
	assert_int_equal(queue_pools_make(&from, &pools, NULL), 0);
	assert_string_equal(pools.items[0].adapters, "mlx5_10");
	assert_false(pools.items[0].simulated);
	assert_int_equal(pools.items[0].level[0], GPU_LEVEL_SYSTEM);
	schedule_pools_done(&pools);
	is_down[1] = true;
	assert_int_equal(queue_pools_make(&from, &pools, NULL), 0);
	assert_string_equal(pools.items[0].adapters, "");
	assert_string_not_equal(pools.items[0].problem, "");
	schedule_pools_done(&pools);
}

/* Sixteen of the longest names fill the list to its last byte. */
static void names_are_cut_nowhere(void **state)
{
	struct queue_pools_source from = source();
	struct schedule_pools pools;
	adapters->device_count = 2 * RDMA_OF_FUNCTION_MAX;
	for (uint32_t i = 0; i < adapters->device_count; i++) {
		struct rdma_function *function = &adapters->function[i / RDMA_OF_FUNCTION_MAX];
		char *name = adapters->device[i].name;
		function->device_count = RDMA_OF_FUNCTION_MAX;
		function->devices[i % RDMA_OF_FUNCTION_MAX] = i;
		memset(name, 'a' + (int)i, RDMA_NAME_MAX - 1);
		name[RDMA_NAME_MAX - 1] = '\0';
	}
	assert_int_equal(queue_pools_make(&from, &pools, NULL), 0);
	assert_int_equal(strlen(pools.items[0].adapters), SCHEDULE_POOL_ADAPTERS_MAX - 1);
	schedule_pools_done(&pools);
}

static void without_gpus_or_adapters(void **state)
{
	struct queue_pools_source from = source();
	struct schedule_pools pools;
	from.gpus = NULL;
	assert_int_equal(queue_pools_make(&from, &pools, NULL), 0);
	assert_int_equal(pools.items[0].level[0], GPU_LEVEL_UNKNOWN);
	schedule_pools_done(&pools);
	from.adapters = NULL;
	assert_int_equal(queue_pools_make(&from, &pools, NULL), 0);
	assert_int_equal(pools.count, 0);
	schedule_pools_done(&pools);
	from = source();
	from.problem = "they are the kubelet's";
	assert_int_equal(queue_pools_make(&from, &pools, NULL), 0);
	assert_int_equal(pools.count, 0);
	assert_string_equal(pools.problem, "they are the kubelet's");
	schedule_pools_done(&pools);
}

static int make_once(void *context)
{
	struct queue_pools_source from = source();
	struct schedule_pools pools;
	int rc = queue_pools_make(&from, &pools, NULL);
	schedule_pools_done(&pools);
	return rc;
}

static void without_memory_there_are_none(void **state)
{
	assert_true(failmalloc_each(make_once, NULL) >= 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(what_is_well_is_told_with_its_place, setup, teardown),
	    cmocka_unit_test_setup_teardown(an_adapter_that_is_down_is_left_out, setup, teardown),
	    cmocka_unit_test_setup_teardown(names_are_cut_nowhere, setup, teardown),
	    cmocka_unit_test_setup_teardown(without_gpus_or_adapters, setup, teardown),
	    cmocka_unit_test_setup_teardown(without_memory_there_are_none, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
