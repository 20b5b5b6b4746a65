/* SPDX-License-Identifier: Apache-2.0 */
#include "hardware/topology.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "unit/unit.h"

static void link_to(struct gpu *gpu, uint32_t peer, uint8_t bus, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		struct gpu_link *link = &gpu->link[gpu->link_count++];
		link->peer = (uint8_t)peer;
		link->remote.bus = bus;
	}
}

static struct gpu gpu_at(uint8_t bus)
{
	struct gpu gpu = {.index = bus, .has_pci = true, .pci = {.bus = bus}};
	return gpu;
}

static void test_direct_links(void **state)
{
	struct gpu a = gpu_at(1), b = gpu_at(2), c = gpu_at(3);
	link_to(&a, GPU_LINK_GPU, 2, 2);
	link_to(&a, GPU_LINK_DOWN, 2, 1);
	link_to(&b, GPU_LINK_GPU, 1, 2);
	assert_int_equal(topology_nvlinks(&a, &b), 2);
	assert_int_equal(topology_nvlinks(&b, &a), 2);
	assert_int_equal(topology_nvlinks(&a, &c), 0);
	/* the other end sees only one of them */
	b.link[1].peer = GPU_LINK_DOWN;
	assert_int_equal(topology_nvlinks(&a, &b), 1);
}

static void test_links_through_switches(void **state)
{
	struct gpu a = gpu_at(1), b = gpu_at(2);
	link_to(&a, GPU_LINK_SWITCH, 0xc4, 6);
	link_to(&a, GPU_LINK_SWITCH, 0xc5, 6);
	link_to(&b, GPU_LINK_SWITCH, 0xc4, 11);
	link_to(&b, GPU_LINK_DOWN, 0, 1);
	assert_int_equal(topology_nvlinks(&a, &b), 11);
	b.has_pci = false;
	assert_int_equal(topology_nvlinks(&a, &b), 0);
}

static void make_device(const char *directory, const char *name, const char *class_,
			const char *target)
{
	char path[4096], to[4096];
	(void)snprintf(path, sizeof(path), "%s/sys/%s", directory, target);
	assert_int_equal(file_mkdirs(path, 0755, NULL), 0);
	unit_write(unit_path(path, "class"), class_);
	unit_write(unit_path(path, "numa_node"), "0\n");
	unit_write(unit_path(path, "local_cpulist"), "0-7\n");
	(void)snprintf(path, sizeof(path), "%s/sys/bus/pci/devices", directory);
	assert_int_equal(file_mkdirs(path, 0755, NULL), 0);
	(void)snprintf(path, sizeof(path), "%s/sys/bus/pci/devices/%s", directory, name);
	(void)snprintf(to, sizeof(to), "../../../%s", target);
	assert_int_equal(symlink(to, path), 0);
}

static void test_matrix(void **state)
{
	char *directory = unit_tmp_new();
	make_device(directory, "0000:03:00.0", "0x030200",
		    "devices/pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:00.0/0000:03:00.0");
	make_device(directory, "0000:04:00.0", "0x030200",
		    "devices/pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:04.0/0000:04:00.0");
	make_device(directory, "0000:05:00.0", "0x020700",
		    "devices/pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:08.0/0000:05:00.0");
	assert_int_equal(file_mkdirs(unit_path(directory, "sys/devices/pci0000:00/0000:00:01.0/"
							  "0000:01:00.0/0000:02:08.0/0000:05:00.0/"
							  "infiniband/mlx5_0"),
				     0755, NULL),
			 0);
	struct gpu gpus[2] = {gpu_at(3), gpu_at(4)};
	struct inventory inventory;
	inventory_init(&inventory);
	inventory.gpus = gpus;
	inventory.gpu_count = 2;
	struct topology *topology = NULL;
	assert_int_equal(topology_read(&inventory, directory, &topology, NULL), 0);
	assert_int_equal(topology->count, 3);
	char cell[TOPOLOGY_CELL_MAX];
	assert_string_equal(topology_cell_to_string(topology, 0, 0, cell), "X");
	assert_string_equal(topology_cell_to_string(topology, 0, 1, cell), "PIX");
	assert_string_equal(topology_cell_to_string(topology, 2, 1, cell), "PIX");
	assert_string_equal(topology->device[2].label, "mlx5_0");
	assert_true(topology->device[2].is_rdma);
	assert_false(topology->device[2].is_simulated);
	assert_string_equal(topology->device[0].cpulist, "0-7");
	assert_int_equal(topology->device[0].numa_node, 0);
	free(topology);

	/* what the driver says goes before what the paths say, and NVLinks before both */
	inventory.level[0][1] = inventory.level[1][0] = GPU_LEVEL_MULTIPLE;
	assert_int_equal(topology_read(&inventory, directory, &topology, NULL), 0);
	assert_string_equal(topology_cell_to_string(topology, 0, 1, cell), "PXB");
	free(topology);
	link_to(&gpus[0], GPU_LINK_SWITCH, 9, 12);
	link_to(&gpus[1], GPU_LINK_SWITCH, 9, 12);
	assert_int_equal(topology_read(&inventory, directory, &topology, NULL), 0);
	assert_string_equal(topology_cell_to_string(topology, 1, 0, cell), "NV12");
	assert_int_equal(topology->cell[1][0].level, GPU_LEVEL_MULTIPLE);
	free(topology);
	unit_tmp_free(directory);
}

static void test_nothing_is_known(void **state)
{
	struct gpu gpus[2] = {gpu_at(3), gpu_at(4)};
	gpus[1].has_pci = false;
	struct inventory inventory;
	inventory_init(&inventory);
	inventory.gpus = gpus;
	inventory.gpu_count = 2;
	struct topology *topology = NULL;
	assert_int_equal(topology_read(&inventory, PCI_NO_ROOT, &topology, NULL), 0);
	char cell[TOPOLOGY_CELL_MAX];
	assert_string_equal(topology_cell_to_string(topology, 0, 1, cell), "?");
	free(topology);
}

/* A GPU in row 0 and four NICs, the first of which has no RDMA device. */
static void test_nearest_adapters(void **state)
{
	static const struct {
		uint8_t level[4];
		uint32_t count, place[4];
	} rows[] = {
	    {{GPU_LEVEL_SINGLE, GPU_LEVEL_MULTIPLE, GPU_LEVEL_SYSTEM, GPU_LEVEL_MULTIPLE},
	     2,
	     {2, 4}},
	    {{GPU_LEVEL_SINGLE, GPU_LEVEL_SYSTEM, GPU_LEVEL_NODE, GPU_LEVEL_SINGLE}, 1, {4}},
	    {{GPU_LEVEL_SINGLE, GPU_LEVEL_UNKNOWN, GPU_LEVEL_UNKNOWN, GPU_LEVEL_SYSTEM}, 1, {4}},
	    {{GPU_LEVEL_SINGLE, GPU_LEVEL_UNKNOWN, GPU_LEVEL_UNKNOWN, GPU_LEVEL_UNKNOWN}, 0, {0}},
	};
	struct topology *topology = calloc(1, sizeof(*topology));
	assert_non_null(topology);
	topology->count = 5;
	for (uint32_t i = 2; i < 5; i++)
		topology->device[i].is_rdma = true;
	for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
		uint32_t found[TOPOLOGY_NIC_MAX];
		for (uint32_t i = 0; i < 4; i++)
			topology->cell[0][i + 1].level = rows[r].level[i];
		assert_int_equal(topology_nearest_rdma(topology, 0, found), rows[r].count);
		for (uint32_t i = 0; i < rows[r].count; i++)
			assert_int_equal(found[i], rows[r].place[i]);
	}
	free(topology);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_direct_links),     cmocka_unit_test(test_links_through_switches),
	    cmocka_unit_test(test_matrix),	     cmocka_unit_test(test_nothing_is_known),
	    cmocka_unit_test(test_nearest_adapters),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
