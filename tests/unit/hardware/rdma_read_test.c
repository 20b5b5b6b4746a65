/* SPDX-License-Identifier: Apache-2.0 */
#include "hardware/rdma.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "unit/hardware/rdma_tree.h"
#include "unit/unit.h"

/* Reads the tree of the test. Freed by the caller. */
static struct rdma_inventory *read_tree(void)
{
	struct rdma_inventory *inventory = calloc(1, sizeof(*inventory));
	struct err err = {.code = 0};
	assert_non_null(inventory);
	assert_int_equal(rdma_read(unit_top, inventory, &err), 0);
	return inventory;
}

/* A function with one InfiniBand device of one port; all its numbers are `number`. */
static void add_adapter(unsigned number)
{
	char bdf[16], device[16], interface[16];
	(void)snprintf(bdf, sizeof(bdf), "0000:%02x:00.0", number + 0x10);
	(void)snprintf(device, sizeof(device), "mlx5_%u", number);
	(void)snprintf(interface, sizeof(interface), "ib%u", number);
	rdma_tree_function(unit_top, &(struct rdma_tree_function){.bdf = bdf});
	rdma_tree_interface(unit_top, bdf, interface, "32\n");
	rdma_tree_device(unit_top, bdf, device, number);
	rdma_tree_port(unit_top, device, 1, "InfiniBand", number);
}

static const struct rdma_node *find_node(const struct rdma_device *device, const char *path)
{
	for (uint32_t i = 0; device && i < device->node_count; i++)
		if (strcmp(device->node[i].path, path) == 0)
			return &device->node[i];
	return NULL;
}

static void test_one_adapter(void **state)
{
	rdma_tree_function(unit_top,
			   &(struct rdma_tree_function){
			       .bdf = "0000:0c:00.0",
			       .above = "pci0000:00/0000:00:01.0/0000:0a:00.0/0000:0b:04.0",
			       .numa = 3});
	rdma_tree_interface(unit_top, "0000:0c:00.0", "ib0", "32\n");
	rdma_tree_device(unit_top, "0000:0c:00.0", "mlx5_0", 0);
	rdma_tree_port(unit_top, "mlx5_0", 1, "InfiniBand", 0);
	rdma_tree_write(unit_top, "sys/module/ib_core/parameters/netns_mode", "Y\n");
	rdma_tree_write(unit_top, "sys/module/ib_uverbs/initstate", "live\n");
	rdma_tree_link(unit_top, "dev/infiniband/rdma_cm", "/dev/null");
	struct rdma_inventory *inventory = read_tree();
	assert_int_equal(inventory->function_count, 1);
	const struct rdma_function *function = &inventory->function[0];
	assert_int_equal(function->vendor, 0x15b3);
	assert_int_equal(function->device, 0x1017);
	assert_int_equal(function->class_, 0x020700);
	assert_string_equal(function->driver, "mlx5_core");
	assert_int_equal(function->numa_node, 3);
	assert_false(function->simulated);
	assert_true(function->has_path);
	assert_int_equal(function->path.depth, 4);
	assert_int_equal(function->interface_count, 1);
	assert_string_equal(function->interface[0].name, "ib0");
	assert_int_equal(function->interface[0].link_type, RDMA_LINK_INFINIBAND);
	assert_int_equal(function->reason_count, 0);
	assert_int_equal(function->device_count, 1);
	const struct rdma_device *device = &inventory->device[function->devices[0]];
	assert_string_equal(device->name, "mlx5_0");
	assert_string_equal(device->fw_ver, "20.35.1012");
	assert_int_equal(device->port_count, 1);
	assert_int_equal(device->port[0].rate_mbit, 100000);
	assert_string_equal(device->port[0].state_text, "4: ACTIVE");
	assert_true(rdma_function_is_up(inventory, function));
	assert_int_equal(device->node_count, 3);
	assert_string_equal(device->node[0].path, "/dev/infiniband/uverbs0");
	assert_string_equal(device->node[1].path, "/dev/infiniband/umad0");
	assert_string_equal(device->node[2].path, "/dev/infiniband/issm0");
	assert_int_equal(device->node[0].state, RDMA_NODE_OK);
	assert_int_equal(device->node[0].major, 1);
	assert_int_equal(device->node[0].minor, 3);
	assert_int_equal(device->node[0].mode, 0666);
	assert_int_equal(device->node[2].port, 1);
	assert_int_equal(inventory->netns, RDMA_NETNS_SHARED);
	assert_true(inventory->has_ib_core && inventory->has_ib_uverbs);
	assert_false(inventory->has_rdma_ucm);
	assert_int_equal(inventory->rdma_cm.state, RDMA_NODE_OK);
	free(inventory);
}

static void test_nothing(void **state)
{
	struct rdma_inventory *inventory = read_tree();
	assert_int_equal(inventory->function_count, 0);
	assert_int_equal(inventory->device_count, 0);
	assert_int_equal(inventory->rdma_cm.state, RDMA_NODE_MISSING);
	assert_int_equal(rdma_read(PCI_NO_ROOT, inventory, NULL), 0);
	assert_int_equal(inventory->function_count, 0);
	free(inventory);
}

static void test_names_that_start_alike(void **state)
{
	add_adapter(1);
	add_adapter(10);
	struct rdma_inventory *inventory = read_tree();
	const struct rdma_device *one = rdma_find_device(inventory, "mlx5_1"),
				 *ten = rdma_find_device(inventory, "mlx5_10");
	assert_int_equal(one->node_count, 3);
	assert_int_equal(ten->node_count, 3);
	assert_non_null(find_node(one, "/dev/infiniband/uverbs1"));
	assert_non_null(find_node(ten, "/dev/infiniband/uverbs10"));
	free(inventory);
}

/* The kernel ends the file with a line end; upstream's plugin met kernels that do not. */
static void test_line_ends_of_names(void **state)
{
	add_adapter(1);
	static const char *const texts[] = {"mlx5_1", "mlx5_1\n", "mlx5_1 \n"};
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		rdma_tree_write(unit_top, "sys/class/infiniband_verbs/uverbs1/ibdev", texts[i]);
		struct rdma_inventory *inventory = read_tree();
		assert_int_equal(inventory->device[0].node_count, 3);
		free(inventory);
	}
	static const char *const others[] = {"", "\n", "mlx5_", "mlx5_11", " mlx5_1"};
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		rdma_tree_write(unit_top, "sys/class/infiniband_verbs/uverbs1/ibdev", others[i]);
		struct rdma_inventory *inventory = read_tree();
		assert_int_equal(inventory->device[0].node_count, 2);
		assert_int_equal(inventory->function[0].reason_count, 1);
		assert_int_equal(inventory->function[0].reason[0].code, RDMA_REASON_NO_NODE);
		assert_string_equal(inventory->function[0].reason[0].subject, "uverbs");
		free(inventory);
	}
}

static void test_two_ports(void **state)
{
	add_adapter(0);
	rdma_tree_port(unit_top, "mlx5_0", 2, "InfiniBand", 1);
	struct rdma_inventory *inventory = read_tree();
	const struct rdma_device *device = &inventory->device[0];
	assert_int_equal(device->port_count, 2);
	assert_int_equal(device->port[1].number, 2);
	assert_int_equal(device->node_count, 5);
	assert_string_equal(device->node[1].path, "/dev/infiniband/umad0");
	assert_string_equal(device->node[2].path, "/dev/infiniband/umad1");
	assert_int_equal(device->node[2].port, 2);
	assert_string_equal(device->node[4].path, "/dev/infiniband/issm1");
	free(inventory);
	/* one port that is up is enough */
	rdma_tree_write(unit_top, "sys/class/infiniband/mlx5_0/ports/1/state", "1: DOWN\n");
	inventory = read_tree();
	assert_false(rdma_port_is_up(&inventory->device[0].port[0]));
	assert_true(rdma_device_is_up(&inventory->device[0]));
	free(inventory);
	rdma_tree_write(unit_top, "sys/class/infiniband/mlx5_0/ports/2/phys_state", "2: Polling\n");
	inventory = read_tree();
	assert_false(rdma_function_is_up(inventory, &inventory->function[0]));
	free(inventory);
}

static void test_roce_has_no_issm(void **state)
{
	rdma_tree_function(
	    unit_top, &(struct rdma_tree_function){.bdf = "0000:0c:00.0", .class_ = "0x020000\n"});
	rdma_tree_interface(unit_top, "0000:0c:00.0", "enp12s0", "1\n");
	rdma_tree_device(unit_top, "0000:0c:00.0", "mlx5_0", 0);
	rdma_tree_port(unit_top, "mlx5_0", 1, "Ethernet", 0);
	struct rdma_inventory *inventory = read_tree();
	const struct rdma_function *function = &inventory->function[0];
	struct rdma_reason reason[RDMA_REASON_MAX];
	assert_int_equal(function->interface[0].link_type, RDMA_LINK_ETHER);
	assert_int_equal(function->reason_count, 0);
	assert_int_equal(inventory->device[0].node_count, 2);
	uint32_t all = RDMA_KIND_BIT(RDMA_UVERBS) | RDMA_KIND_BIT(RDMA_UMAD);
	assert_int_equal(rdma_reasons(inventory, function, all, reason), 0);
	all |= RDMA_KIND_BIT(RDMA_ISSM);
	assert_int_equal(rdma_reasons(inventory, function, all, reason), 1);
	assert_int_equal(reason[0].code, RDMA_REASON_NO_NODE);
	assert_string_equal(reason[0].subject, "issm");
	free(inventory);
}

static void test_functions_that_lack_something(void **state)
{
	/* no driver */
	rdma_tree_function(unit_top,
			   &(struct rdma_tree_function){.bdf = "0000:01:00.0", .driver = ""});
	/* a driver, no net, no infiniband */
	rdma_tree_function(unit_top, &(struct rdma_tree_function){.bdf = "0000:02:00.0"});
	/* an RDMA device, no net */
	rdma_tree_function(unit_top, &(struct rdma_tree_function){.bdf = "0000:03:00.0"});
	rdma_tree_device(unit_top, "0000:03:00.0", "mlx5_0", 0);
	/* no network card: a bridge and an accelerator fall out */
	rdma_tree_function(
	    unit_top, &(struct rdma_tree_function){.bdf = "0000:04:00.0", .class_ = "0x060400\n"});
	rdma_tree_function(
	    unit_top, &(struct rdma_tree_function){.bdf = "0000:05:00.0", .class_ = "0x120000\n"});
	struct rdma_inventory *inventory = read_tree();
	assert_int_equal(inventory->function_count, 3);
	assert_int_equal(inventory->function[0].reason[0].code, RDMA_REASON_NO_DRIVER);
	assert_int_equal(inventory->function[0].reason_count, 1);
	assert_int_equal(inventory->function[1].reason[0].code, RDMA_REASON_NO_DEVICE);
	assert_int_equal(inventory->function[1].interface_count, 0);
	assert_int_equal(inventory->function[2].reason_count, 0);
	assert_int_equal(inventory->function[2].interface_count, 0);
	assert_int_equal(inventory->device[0].port_count, 0);
	assert_false(rdma_function_is_up(inventory, &inventory->function[2]));
	free(inventory);
}

static void test_two_interfaces(void **state)
{
	add_adapter(0);
	rdma_tree_interface(unit_top, "0000:10:00.0", "ib10", "32\n");
	rdma_tree_interface(unit_top, "0000:10:00.0", "ib2", "32\n");
	/* longer than an interface's name can be: not one */
	rdma_tree_write(unit_top, "sys/bus/pci/devices/0000:10:00.0/net/a123456789012345/mtu", "1");
	struct rdma_inventory *inventory = read_tree();
	const struct rdma_function *function = &inventory->function[0];
	assert_int_equal(function->interface_count, 3);
	assert_string_equal(function->interface[0].name, "ib0");
	assert_string_equal(function->interface[1].name, "ib2");
	assert_string_equal(function->interface[2].name, "ib10");
	free(inventory);
}

static void test_one_device_behind_two_functions(void **state)
{
	add_adapter(0);
	rdma_tree_function(unit_top, &(struct rdma_tree_function){.bdf = "0000:11:00.0"});
	rdma_tree_write(unit_top, "sys/bus/pci/devices/0000:11:00.0/infiniband/mlx5_0/node_type",
			"1: CA\n");
	struct rdma_inventory *inventory = read_tree();
	assert_int_equal(inventory->function_count, 2);
	assert_int_equal(inventory->device_count, 1);
	assert_int_equal(inventory->function[1].devices[0], 0);
	assert_int_equal(inventory->device[0].node_count, 3);
	free(inventory);
}

static void test_nodes_that_are_wrong(void **state)
{
	struct rdma_reason reason[RDMA_REASON_MAX];
	add_adapter(0);
	struct rdma_inventory *inventory;
	static const char *const numbers[] = {"1:5\n", "", "1\n", "231:3\n"};
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		rdma_tree_write(unit_top, "sys/class/infiniband_verbs/uverbs0/dev", numbers[i]);
		inventory = read_tree();
		assert_int_equal(inventory->device[0].node[0].state, RDMA_NODE_WRONG);
		free(inventory);
	}
	inventory = read_tree();
	assert_int_equal(inventory->function[0].reason_count, 1);
	assert_int_equal(inventory->function[0].reason[0].code, RDMA_REASON_NODE_WRONG);
	assert_string_equal(inventory->function[0].reason[0].subject, "/dev/infiniband/uverbs0");
	assert_false(rdma_node_is_usable(&inventory->device[0].node[0]));
	free(inventory);

	rdma_tree_remove(unit_top, "dev/infiniband/uverbs0");
	inventory = read_tree();
	assert_int_equal(inventory->function[0].reason[0].code, RDMA_REASON_NODE_MISSING);
	assert_int_equal(inventory->device[0].node[0].mode, RDMA_UNKNOWN);
	assert_int_equal(inventory->rdma_cm.state, RDMA_NODE_MISSING);
	assert_int_equal(
	    rdma_reasons(inventory, &inventory->function[0], RDMA_KIND_BIT(RDMA_CM), reason), 1);
	assert_string_equal(reason[0].subject, "/dev/infiniband/rdma_cm");
	free(inventory);

	/* a plain file is no node; in place of a simulated adapter's it is */
	rdma_tree_write(unit_top, "dev/infiniband/uverbs0", "");
	inventory = read_tree();
	assert_int_equal(inventory->function[0].reason[0].code, RDMA_REASON_NODE_WRONG);
	free(inventory);
	rdma_tree_write(unit_top, "sys/bus/pci/devices/0000:10:00.0/subsystem_device", "0x51ce\n");
	inventory = read_tree();
	assert_true(inventory->function[0].simulated);
	assert_int_equal(inventory->function[0].reason_count, 0);
	assert_int_equal(inventory->device[0].node[0].state, RDMA_NODE_STAND_IN);
	free(inventory);
}

static void test_netns(void **state)
{
	add_adapter(0);
	rdma_tree_write(unit_top, "sys/module/ib_core/parameters/netns_mode", "N\n");
	struct rdma_inventory *inventory = read_tree();
	assert_int_equal(inventory->netns, RDMA_NETNS_EXCLUSIVE);
	assert_int_equal(inventory->function[0].reason[0].code, RDMA_REASON_NETNS);
	free(inventory);
	/* a kernel that has no other mode */
	rdma_tree_remove(unit_top, "sys/module/ib_core/parameters/netns_mode");
	inventory = read_tree();
	assert_int_equal(inventory->netns, RDMA_NETNS_SHARED);
	free(inventory);
}

static void test_cm_is_there_once(void **state)
{
	for (unsigned i = 0; i < 4; i++)
		add_adapter(i);
	rdma_tree_link(unit_top, "dev/infiniband/rdma_cm", "/dev/null");
	rdma_tree_write(unit_top, "sys/class/misc/rdma_cm/dev", RDMA_TREE_DEV "\n");
	struct rdma_inventory *inventory = read_tree();
	assert_int_equal(inventory->rdma_cm.state, RDMA_NODE_OK);
	for (uint32_t d = 0; d < inventory->device_count; d++)
		assert_null(find_node(&inventory->device[d], "/dev/infiniband/rdma_cm"));
	free(inventory);
	rdma_tree_write(unit_top, "sys/class/misc/rdma_cm/dev", "10:122\n");
	inventory = read_tree();
	assert_int_equal(inventory->rdma_cm.state, RDMA_NODE_WRONG);
	free(inventory);
}

static void test_slower_than_its_siblings(void **state)
{
	for (unsigned i = 0; i < 3; i++)
		add_adapter(i);
	rdma_tree_write(unit_top, "sys/class/infiniband/mlx5_1/ports/1/rate",
			"50 Gb/sec (2X EDR)\n");
	rdma_tree_write(unit_top, "sys/class/infiniband/mlx5_2/ports/1/state", "1: DOWN\n");
	/* another model is no sibling */
	rdma_tree_function(
	    unit_top, &(struct rdma_tree_function){.bdf = "0000:20:00.0", .device = "0x1021\n"});
	rdma_tree_device(unit_top, "0000:20:00.0", "mlx5_9", 9);
	rdma_tree_port(unit_top, "mlx5_9", 1, "InfiniBand", 9);
	rdma_tree_write(unit_top, "sys/class/infiniband/mlx5_9/ports/1/rate",
			"400 Gb/sec (4X NDR)\n");
	struct rdma_inventory *inventory = read_tree();
	static const uint32_t wanted[] = {100000, 100000, RDMA_UNKNOWN, 400000};
	for (uint32_t i = 0; i < 4; i++) {
		const struct rdma_function *function = &inventory->function[i];
		assert_int_equal(
		    rdma_port_expected_mbit(inventory, function,
					    &inventory->device[function->devices[0]].port[0]),
		    wanted[i]);
	}
	free(inventory);
}

/* Everything that is read, made unreadable or nonsense one by one: it costs its own fact only. */
static void test_each_file_costs_its_own_fact(void **state)
{
	static const char *const paths[] = {
	    "sys/bus/pci/devices/0000:10:00.0/vendor",
	    "sys/bus/pci/devices/0000:10:00.0/numa_node",
	    "sys/class/net/ib0/type",
	    "sys/class/infiniband/mlx5_0/fw_ver",
	    "sys/class/infiniband/mlx5_0/ports/1/rate",
	    "sys/class/infiniband/mlx5_0/ports/1/state",
	    "sys/class/infiniband/mlx5_0/ports/1/link_layer",
	    "sys/class/infiniband_mad/umad0/port",
	    "sys/class/infiniband_mad/umad0/dev",
	};
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		char huge[3 * PCI_FILE_MAX];
		add_adapter(0);
		memset(huge, '7', sizeof(huge) - 1);
		huge[sizeof(huge) - 1] = '\0';
		for (int how = 0; how < 4; how++) {
			rdma_tree_remove(unit_top, paths[i]);
			const char *path = unit_path(unit_top, paths[i]);
			if (how == 0)
				rdma_tree_write(unit_top, paths[i], huge);
			else if (how == 1)
				assert_int_equal(mkfifo(path, 0600), 0);
			else if (how == 2)
				rdma_tree_link(unit_top, paths[i], path);
			else
				rdma_tree_write(unit_top, paths[i], "\377\001 nonsense");
			struct rdma_inventory *inventory = read_tree();
			assert_int_equal(inventory->function_count, 1);
			assert_int_equal(inventory->device_count, 1);
			assert_int_equal(inventory->device[0].node_count, 3);
			assert_int_equal(inventory->device[0].node[0].state, RDMA_NODE_OK);
			free(inventory);
		}
		rdma_tree_remove(unit_top, paths[i]);
	}
}

/* Not even the beginning of a file that is too long is taken for what it says. */
static void test_a_long_file(void **state)
{
	char text[PCI_FILE_MAX + 2];
	add_adapter(0);
	memset(text, '7', sizeof(text));
	for (size_t length = PCI_FILE_MAX; length <= PCI_FILE_MAX + 1; length++) {
		text[length] = '\0';
		rdma_tree_write(unit_top, "sys/class/infiniband/mlx5_0/fw_ver", text);
		text[length] = '7';
		struct rdma_inventory *inventory = read_tree();
		assert_int_equal(inventory->device[0].fw_ver[0], length > PCI_FILE_MAX ? 0 : '7');
		free(inventory);
	}
}

static void test_more_than_fits(void **state)
{
	char bdf[16], name[32];
	add_adapter(0);
	for (unsigned i = 0; i < RDMA_INTERFACE_MAX + 40; i++) {
		(void)snprintf(name, sizeof(name), "rep%u", 200 - i);
		rdma_tree_interface(unit_top, "0000:10:00.0", name, "1\n");
	}
	struct rdma_inventory *inventory = read_tree();
	assert_true(inventory->truncated);
	assert_int_equal(inventory->function[0].interface_count, RDMA_INTERFACE_MAX);
	/* the lowest are kept, whatever order the directory has */
	assert_string_equal(inventory->function[0].interface[0].name, "ib0");
	assert_string_equal(inventory->function[0].interface[1].name, "rep97");
	free(inventory);
	for (unsigned i = 0; i < RDMA_FUNCTION_MAX + 8; i++) {
		(void)snprintf(bdf, sizeof(bdf), "%04x:%02x:00.0", 1 + i / 256, i % 256);
		char path[64];
		(void)snprintf(path, sizeof(path), "sys/bus/pci/devices/%s/class", bdf);
		rdma_tree_write(unit_top, path, "0x020000\n");
	}
	inventory = read_tree();
	assert_true(inventory->truncated);
	assert_int_equal(inventory->function_count, RDMA_FUNCTION_MAX);
	free(inventory);
}

static const struct rdma_function *function_at(const struct rdma_inventory *inventory,
					       const struct pci_address *address)
{
	for (uint32_t i = 0; i < inventory->function_count; i++)
		if (!inventory->function[i].is_software &&
		    pci_address_compare(&inventory->function[i].address, address) == 0)
			return &inventory->function[i];
	return NULL;
}

static void test_distance(void **state)
{
	static const struct {
		const char *bdf, *above;
		int numa;
		enum gpu_level level;
	} rows[] = {
	    {"0000:05:00.0", "pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:08.0", 0,
	     GPU_LEVEL_SINGLE},
	    {"0000:07:00.0", "pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:0c.0/0000:06:00.0", 0,
	     GPU_LEVEL_MULTIPLE},
	    {"0000:0a:00.0", "pci0000:00/0000:00:02.0", 0, GPU_LEVEL_HOSTBRIDGE},
	    {"0000:41:00.0", "pci0000:40/0000:40:01.0", 0, GPU_LEVEL_NODE},
	    {"0000:81:00.0", "pci0000:80/0000:80:01.0", 1, GPU_LEVEL_SYSTEM},
	};
	struct pci_device gpu;
	rdma_tree_function(unit_top,
			   &(struct rdma_tree_function){
			       .bdf = "0000:03:00.0",
			       .class_ = "0x030200\n",
			       .above = "pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:00.0"});
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		rdma_tree_function(unit_top, &(struct rdma_tree_function){.bdf = rows[i].bdf,
									  .above = rows[i].above,
									  .numa = rows[i].numa});
	const struct pci_address address = {.bus = 3};
	assert_int_equal(pci_read_device(unit_top, &address, &gpu, NULL), 0);
	struct rdma_inventory *inventory = read_tree();
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct pci_address where;
		assert_int_equal(pci_parse_address(rows[i].bdf, strlen(rows[i].bdf), &where), 0);
		const struct rdma_function *function = function_at(inventory, &where);
		assert_int_equal(rdma_distance(&gpu, function), rows[i].level);
	}
	gpu.has_path = false;
	assert_int_equal(rdma_distance(&gpu, &inventory->function[0]), GPU_LEVEL_UNKNOWN);
	free(inventory);
}

/* What was said of a device stays the same when unrelated functions come. */
static void test_strangers_change_nothing(void **state)
{
	for (unsigned i = 0; i < 4; i++)
		add_adapter(i);
	struct rdma_inventory *before = read_tree(), *again = read_tree();
	assert_true(rdma_is_same(before, again));
	rdma_tree_function(
	    unit_top, &(struct rdma_tree_function){.bdf = "0000:02:00.0", .class_ = "0x010802\n"});
	rdma_tree_function(
	    unit_top, &(struct rdma_tree_function){.bdf = "0001:00:00.0", .class_ = "0x030200\n"});
	rdma_tree_node(unit_top, "infiniband_verbs", "uverbs77", "irdma0\n", NULL);
	free(again);
	again = read_tree();
	assert_true(rdma_is_same(before, again));
	/* a network card is seen, and leaves the others as they were */
	rdma_tree_function(unit_top, &(struct rdma_tree_function){.bdf = "0001:01:00.0"});
	free(again);
	again = read_tree();
	assert_false(rdma_is_same(before, again));
	again->function_count--;
	assert_true(rdma_is_same(before, again));
	free(again);
	free(before);
}

static void test_every_change_is_seen(void **state)
{
	static const char *const changes[][2] = {
	    {"sys/bus/pci/devices/0000:10:00.0/numa_node", "1\n"},
	    {"sys/bus/pci/devices/0000:10:00.0/device", "0x1021\n"},
	    {"sys/class/net/ib0/type", "1\n"},
	    {"sys/class/infiniband/mlx5_0/fw_ver", "20.36.1\n"},
	    {"sys/class/infiniband/mlx5_0/ports/1/state", "1: DOWN\n"},
	    {"sys/class/infiniband/mlx5_0/ports/1/rate", "50 Gb/sec (2X EDR)\n"},
	    {"sys/class/infiniband/mlx5_0/ports/2/rate", "50 Gb/sec (2X EDR)\n"},
	    {"sys/class/infiniband_mad/umad0/dev", "231:0\n"},
	    {"sys/class/infiniband_mad/umad0/port", "2\n"},
	    {"sys/module/rdma_ucm/initstate", "live\n"},
	    {"dev/infiniband/rdma_cm", ""},
	};
	add_adapter(0);
	struct rdma_inventory *before = read_tree();
	for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
		rdma_tree_write(unit_top, changes[i][0], changes[i][1]);
		struct rdma_inventory *after = read_tree();
		if (rdma_is_same(before, after))
			fail_msg("%s: not seen", changes[i][0]);
		free(before);
		before = after;
	}
	free(before);
}

/* Without descriptors the reading fails; it never says less than there is. */
static void test_no_descriptors(void **state)
{
	struct rlimit before, few;
	struct err err = {.code = 0};
	uint32_t failed = 0, good = 0;
	add_adapter(0);
	add_adapter(1);
	struct rdma_inventory *wanted = read_tree(), *found = read_tree();
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	int next = dup(STDERR_FILENO);
	assert_true(next >= 0);
	assert_int_equal(close(next), 0);
	few = before;
	for (rlim_t spare = 0; spare < 12; spare++) {
		few.rlim_cur = (rlim_t)next + spare;
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
		int rc = rdma_read(unit_top, found, &err);
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
		if (rc < 0) {
			assert_int_equal(rc, -EMFILE);
			assert_string_not_equal(err.text, "");
			failed++;
		} else {
			assert_true(rdma_is_same(wanted, found));
			good++;
		}
	}
	assert_true(failed >= 2 && good >= 2);
	free(wanted);
	free(found);
}

/* What the kernel makes of an interface, which may lie on a card or on nothing at all. */
static void test_software(void **state)
{
	char name[RDMA_NAME_MAX];
	rdma_tree_function(unit_top, &(struct rdma_tree_function){.bdf = "0000:00:03.0",
								  .class_ = "0x020000\n",
								  .vendor = "0x1af4\n",
								  .driver = "virtio-pci"});
	rdma_tree_interface(unit_top, "0000:00:03.0", "eth0", "1\n");
	rdma_tree_software(unit_top, "rxe10", "eth0", 1);
	rdma_tree_software(unit_top, "rxe2", "veth0", 0);
	struct rdma_inventory *inventory = read_tree();
	assert_int_equal(inventory->function_count, 3);
	assert_int_equal(inventory->device_count, 2);
	assert_false(inventory->function[0].is_software);
	assert_int_equal(inventory->function[0].reason[0].code, RDMA_REASON_NO_DEVICE);
	const struct rdma_function *function = &inventory->function[1];
	assert_true(function->is_software);
	assert_false(function->simulated || function->has_path);
	assert_int_equal(function->vendor | function->device | function->class_, 0);
	assert_int_equal(function->numa_node, GPU_NUMA_NONE);
	assert_string_equal(function->driver, "rdma_rxe");
	assert_int_equal(function->interface_count, 1);
	assert_string_equal(function->interface[0].name, "veth0");
	assert_int_equal(function->interface[0].link_type, RDMA_LINK_ETHER);
	assert_int_equal(function->reason_count, 0);
	assert_string_equal(rdma_function_name(inventory, function, name), "rxe2");
	assert_string_equal(rdma_function_name(inventory, &inventory->function[0], name),
			    "0000:00:03.0");
	assert_string_equal(rdma_function_name(inventory, &inventory->function[2], name), "rxe10");
	const struct rdma_device *device = &inventory->device[function->devices[0]];
	assert_int_equal(device->node_count, 1);
	assert_string_equal(device->node[0].path, "/dev/infiniband/uverbs0");
	assert_true(rdma_function_is_up(inventory, function));
	/* Its rate is that of the interface: none is slower than it should be. */
	assert_int_equal(rdma_port_expected_mbit(inventory, function, &device->port[0]),
			 RDMA_UNKNOWN);
	rdma_tree_remove(unit_top, "sys/class/infiniband_verbs/uverbs0/ibdev");
	struct rdma_inventory *later = read_tree();
	assert_false(rdma_is_same(inventory, later));
	assert_int_equal(later->function[1].reason[0].code, RDMA_REASON_NO_NODE);
	free(later);
	free(inventory);
}

/* The interface, where the driver has no file of its own for it, and where nothing says it. */
static void test_software_of_other_drivers(void **state)
{
	static const char dir[] = "sys/devices/virtual/infiniband/siw0/";
	char path[128];
	rdma_tree_software(unit_top, "siw0", "eth7", 0);
	(void)snprintf(path, sizeof(path), "%sparent", dir);
	rdma_tree_remove(unit_top, path);
	struct rdma_inventory *inventory = read_tree();
	assert_string_equal(inventory->function[0].driver, "");
	assert_string_equal(inventory->function[0].interface[0].name, "eth7");
	assert_int_equal(inventory->function[0].reason_count, 0);
	free(inventory);
	(void)snprintf(path, sizeof(path), "%sports/1/gid_attrs/ndevs/0", dir);
	static const char *const texts[] = {"", "\n", "..\n", "a/b\n", "sixteen-letters0\n"};
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		rdma_tree_write(unit_top, path, texts[i]);
		inventory = read_tree();
		assert_int_equal(inventory->function_count, 1);
		assert_int_equal(inventory->function[0].interface_count, 0);
		free(inventory);
	}
}

/* What has a parent that is no network card is not made in software: a part of a function. */
static void test_parts_of_functions(void **state)
{
	rdma_tree_software(unit_top, "mlx5_2", "eth0", 0);
	rdma_tree_link(unit_top, "sys/class/infiniband/mlx5_2",
		       "../../devices/pci0000:00/0000:00:01.0/mlx5_core.sf.2/infiniband/mlx5_2");
	struct rdma_inventory *inventory = read_tree();
	assert_int_equal(inventory->function_count, 0);
	free(inventory);
}

#define in_tree(test) cmocka_unit_test_setup_teardown(test, unit_top_setup, unit_top_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    in_tree(test_one_adapter),
	    in_tree(test_nothing),
	    in_tree(test_names_that_start_alike),
	    in_tree(test_line_ends_of_names),
	    in_tree(test_two_ports),
	    in_tree(test_roce_has_no_issm),
	    in_tree(test_functions_that_lack_something),
	    in_tree(test_two_interfaces),
	    in_tree(test_one_device_behind_two_functions),
	    in_tree(test_nodes_that_are_wrong),
	    in_tree(test_netns),
	    in_tree(test_cm_is_there_once),
	    in_tree(test_slower_than_its_siblings),
	    in_tree(test_each_file_costs_its_own_fact),
	    in_tree(test_a_long_file),
	    in_tree(test_more_than_fits),
	    in_tree(test_distance),
	    in_tree(test_strangers_change_nothing),
	    in_tree(test_every_change_is_seen),
	    in_tree(test_no_descriptors),
	    in_tree(test_software),
	    in_tree(test_software_of_other_drivers),
	    in_tree(test_parts_of_functions),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
