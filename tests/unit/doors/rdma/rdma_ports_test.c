/* SPDX-License-Identifier: Apache-2.0 */
/* The clock is the test's; the thread and the files are real. */
#include "doors/rdma/rdma_ports.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/loop.h"
#include "base/storage.h"
#include "hardware/rdma.h"
#include "hardware/rdma_counters.h"
#include "unit/hardware/rdma_tree.h"
#include "unit/unit.h"

enum { DEADLINE_S = 20 };
#define S    UINT64_C(1000000000)
#define MS   UINT64_C(1000000)
#define FILE "sys/class/infiniband/mlx5_0/ports/1/counters/port_xmit_data"

static struct {
	struct loop *loop;
	struct storage *storage;
	struct rdma_ports *ports;
	struct rdma_inventory *inventory;
	unsigned counted;
} scene;

static void on_counted(void *context)
{
	(void)context;
	scene.counted++;
}

static int set_up(void **state)
{
	int rc = unit_top_setup(state);
	memset(&scene, 0, sizeof(scene));
	scene.loop = loop_new(LOOP_FAKE, NULL);
	scene.storage = scene.loop ? storage_new(scene.loop, 4, NULL) : NULL;
	scene.inventory = calloc(1, sizeof(*scene.inventory));
	assert_true(scene.storage && scene.inventory);
	assert_int_equal(rdma_ports_new(scene.loop, unit_top, on_counted, NULL, &scene.ports, NULL),
			 0);
	scene.inventory->device_count = 1;
	strcpy(scene.inventory->device[0].name, "mlx5_0");
	scene.inventory->device[0].port_count = 1;
	scene.inventory->device[0].port[0].number = 1;
	return rc;
}

static int tear_down(void **state)
{
	rdma_ports_stop(scene.ports);
	scene.storage = storage_close(scene.storage);
	scene.ports = rdma_ports_free(scene.ports);
	scene.loop = loop_free(scene.loop);
	free(scene.inventory);
	return unit_top_teardown(state);
}

/* Looks, and waits for the end of what that has begun. */
static uint64_t sent_after_look(void)
{
	uint64_t end_ns = unit_now_ns() + DEADLINE_S * S;
	rdma_ports_look(scene.ports, scene.storage, scene.inventory);
	while (storage_pending(scene.storage) > 0) {
		assert_true(unit_now_ns() < end_ns);
		assert_int_equal(loop_pass(scene.loop, 10 * MS, NULL), 0);
	}
	const struct rdma_counters *counters = rdma_ports_find(scene.ports, "mlx5_0", 1);
	return counters ? counters->value[RDMA_COUNTER_SENT_BYTES] : 0;
}

static void test_counts(void **state)
{
	(void)state;
	rdma_tree_write(unit_top, FILE, "1000\n");
	assert_null(rdma_ports_find(scene.ports, "mlx5_0", 1));
	assert_int_equal(sent_after_look(), 4000);
	assert_int_equal(scene.counted, 1);
	assert_null(rdma_ports_find(scene.ports, "mlx5_0", 2));
	assert_null(rdma_ports_find(scene.ports, "mlx5_1", 1));
	/* Too soon. Who looked is told when it is time. */
	rdma_tree_write(unit_top, FILE, "2000\n");
	assert_int_equal(sent_after_look(), 4000);
	assert_int_equal(scene.counted, 1);
	assert_int_equal(loop_advance(scene.loop, RDMA_PORTS_NS, NULL), 0);
	assert_int_equal(scene.counted, 2);
	assert_int_equal(sent_after_look(), 8000);
	/* Nobody looked since: nobody is told. */
	assert_int_equal(loop_advance(scene.loop, 10 * RDMA_PORTS_NS, NULL), 0);
	assert_int_equal(scene.counted, 3);
	rdma_tree_write(unit_top, FILE, "no number\n");
	assert_true(sent_after_look() == RDMA_COUNTER_UNKNOWN);
}

static void test_nothing_to_read(void **state)
{
	(void)state;
	rdma_ports_look(scene.ports, NULL, scene.inventory);
	rdma_ports_look(scene.ports, scene.storage, NULL);
	assert_int_equal(storage_pending(scene.storage), 0);
	rdma_tree_write(unit_top, FILE, "1000\n");
	assert_int_equal(sent_after_look(), 4000);
	/* The last adapter goes. */
	scene.inventory->device_count = 0;
	assert_int_equal(loop_advance(scene.loop, RDMA_PORTS_NS, NULL), 0);
	assert_int_equal(sent_after_look(), 0);
	rdma_ports_stop(scene.ports);
	scene.inventory->device_count = 1;
	assert_int_equal(loop_advance(scene.loop, RDMA_PORTS_NS, NULL), 0);
	assert_int_equal(sent_after_look(), 0);
}

static void test_more_ports_than_are_kept(void **state)
{
	(void)state;
	scene.inventory->device_count = RDMA_DEVICE_MAX;
	for (uint32_t d = 0; d < RDMA_DEVICE_MAX; d++) {
		strcpy(scene.inventory->device[d].name, "mlx5_1");
		scene.inventory->device[d].port_count = RDMA_PORT_MAX;
	}
	(void)sent_after_look();
	assert_int_equal(scene.counted, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_counts, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(test_nothing_to_read, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(test_more_ports_than_are_kept, set_up, tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
