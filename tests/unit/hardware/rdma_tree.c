/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/hardware/rdma_tree.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "unit/unit.h"

#define assert_path(out, ...) assert_int_equal(file_path(out, NULL, __VA_ARGS__), 0)

static void make_parent(const char *path)
{
	char parent[FILE_PATH_MAX];
	assert_path(parent, "%s", path);
	*strrchr(parent, '/') = '\0';
	assert_int_equal(file_mkdirs(parent, 0755, NULL), 0);
}

void rdma_tree_write(const char *root, const char *path, const char *text)
{
	const char *whole = unit_path(root, path);
	make_parent(whole);
	unit_write(whole, text);
}

void rdma_tree_remove(const char *root, const char *path)
{
	assert_int_equal(unlink(unit_path(root, path)), 0);
}

void rdma_tree_link(const char *root, const char *path, const char *target)
{
	const char *whole = unit_path(root, path);
	make_parent(whole);
	if (unlink(whole) < 0)
		assert_int_equal(errno, ENOENT);
	assert_int_equal(symlink(target, whole), 0);
}

static void write_at(const char *root, const char *dir, const char *name, const char *text)
{
	char path[FILE_PATH_MAX];
	assert_path(path, "%s/%s", dir, name);
	rdma_tree_write(root, path, text);
}

void rdma_tree_function(const char *root, const struct rdma_tree_function *function)
{
	char dir[FILE_PATH_MAX], link[FILE_PATH_MAX], target[FILE_PATH_MAX], text[32];
	assert_path(dir, "sys/devices/%s/%s", function->above ? function->above : "pci0000:00",
		    function->bdf);
	write_at(root, dir, "class", function->class_ ? function->class_ : "0x020700\n");
	write_at(root, dir, "vendor", function->vendor ? function->vendor : "0x15b3\n");
	write_at(root, dir, "device", function->device ? function->device : "0x1017\n");
	write_at(root, dir, "subsystem_device", function->simulated ? "0x51ce\n" : "0x0007\n");
	(void)snprintf(text, sizeof(text), "%d\n", function->numa);
	write_at(root, dir, "numa_node", text);
	const char *driver = function->driver ? function->driver : "mlx5_core";
	assert_path(link, "%s/driver", dir);
	assert_path(target, "../../../../bus/pci/drivers/%s", driver);
	if (driver[0] != '\0')
		rdma_tree_link(root, link, target);
	assert_path(link, "sys/bus/pci/devices/%s", function->bdf);
	assert_path(target, "../../../%s", dir + strlen("sys/"));
	rdma_tree_link(root, link, target);
}

void rdma_tree_interface(const char *root, const char *bdf, const char *name, const char *type)
{
	char path[FILE_PATH_MAX];
	assert_path(path, "sys/bus/pci/devices/%s/net/%s/mtu", bdf, name);
	rdma_tree_write(root, path, "1500\n");
	assert_path(path, "sys/class/net/%s/type", name);
	rdma_tree_write(root, path, type);
}

void rdma_tree_node(const char *root, const char *class_, const char *name, const char *ibdev,
		    const char *port)
{
	char dir[FILE_PATH_MAX], path[FILE_PATH_MAX];
	assert_path(dir, "sys/class/%s/%s", class_, name);
	write_at(root, dir, "ibdev", ibdev);
	write_at(root, dir, "dev", RDMA_TREE_DEV "\n");
	if (port)
		write_at(root, dir, "port", port);
	assert_path(path, "dev/infiniband/%s", name);
	rdma_tree_link(root, path, "/dev/null");
}

void rdma_tree_device(const char *root, const char *bdf, const char *name, unsigned number)
{
	char path[FILE_PATH_MAX];
	assert_path(path, "sys/bus/pci/devices/%s/infiniband/%s/node_type", bdf, name);
	rdma_tree_write(root, path, "1: CA\n");
	assert_path(path, "sys/class/infiniband/%s/fw_ver", name);
	rdma_tree_write(root, path, "20.35.1012\n");
	assert_path(path, "uverbs%u", number);
	rdma_tree_node(root, "infiniband_verbs", path, name, NULL);
}

void rdma_tree_software(const char *root, const char *name, const char *interface, unsigned number)
{
	char dir[FILE_PATH_MAX], path[FILE_PATH_MAX], target[FILE_PATH_MAX], text[32];
	assert_path(dir, "sys/devices/virtual/infiniband/%s", name);
	assert_path(path, "sys/class/infiniband/%s", name);
	assert_path(target, "../../%s", dir + strlen("sys/"));
	rdma_tree_link(root, path, target);
	(void)snprintf(text, sizeof(text), "%s\n", interface);
	write_at(root, dir, "parent", text);
	write_at(root, dir, "fw_ver", "\n");
	write_at(root, dir, "node_desc", "rxe\n");
	write_at(root, dir, "node_guid", "5054:00ff:fe00:0001\n");
	write_at(root, dir, "ports/1/state", "4: ACTIVE\n");
	write_at(root, dir, "ports/1/phys_state", "5: LinkUp\n");
	write_at(root, dir, "ports/1/rate", "2.5 Gb/sec (1X SDR)\n");
	write_at(root, dir, "ports/1/link_layer", "Ethernet\n");
	write_at(root, dir, "ports/1/gid_attrs/ndevs/0", text);
	assert_path(path, "sys/class/net/%s/type", interface);
	rdma_tree_write(root, path, "1\n");
	assert_path(path, "uverbs%u", number);
	rdma_tree_node(root, "infiniband_verbs", path, name, NULL);
}

void rdma_tree_port(const char *root, const char *device, unsigned port, const char *layer,
		    unsigned number)
{
	char dir[FILE_PATH_MAX], name[32], text[32];
	assert_path(dir, "sys/class/infiniband/%s/ports/%u", device, port);
	write_at(root, dir, "state", "4: ACTIVE\n");
	write_at(root, dir, "phys_state", "5: LinkUp\n");
	write_at(root, dir, "rate", "100 Gb/sec (4X EDR)\n");
	(void)snprintf(text, sizeof(text), "%s\n", layer);
	write_at(root, dir, "link_layer", text);
	(void)snprintf(text, sizeof(text), "%u\n", port);
	(void)snprintf(name, sizeof(name), "umad%u", number);
	rdma_tree_node(root, "infiniband_mad", name, device, text);
	(void)snprintf(name, sizeof(name), "issm%u", number);
	if (strcmp(layer, "InfiniBand") == 0)
		rdma_tree_node(root, "infiniband_mad", name, device, text);
}
