/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "tests/unit/doctor/ward.h"
#include "tests/unit/hardware/rdma_tree.h"

#define BDF  "0000:0c:00.0"
#define PORT "sys/class/infiniband/mlx5_0/ports/1/"

static void rig_modules(void)
{
	static const char *const modules[] = {"ib_core", "ib_uverbs", "ib_umad", "rdma_ucm"};
	char path[64];
	for (size_t i = 0; i < 4; i++) {
		(void)snprintf(path, sizeof(path), "sys/module/%s/refcnt", modules[i]);
		rdma_tree_write(unit_top, path, "1\n");
	}
	rdma_tree_write(unit_top, "sys/module/ib_core/parameters/netns_mode", "Y\n");
}

static void rig_adapter(void)
{
	const struct rdma_tree_function function = {.bdf = BDF};
	rdma_tree_function(unit_top, &function);
	rdma_tree_interface(unit_top, BDF, "ib0", "32\n");
	rdma_tree_device(unit_top, BDF, "mlx5_0", 0);
	rdma_tree_port(unit_top, "mlx5_0", 1, "InfiniBand", 0);
	rig_modules();
}

static void test_well(void **state)
{
	static const char *const ids[] = {"rdma.modules", "rdma.netns", "rdma.device", "rdma.port"};
	for (size_t i = 0; i < 4; i++)
		(void)ward_expect(ids[i], DOCTOR_SKIP);
	rig_adapter();
	for (size_t i = 0; i < 4; i++)
		(void)ward_expect(ids[i], DOCTOR_OK);
}

static void test_modules(void **state)
{
	rig_adapter();
	rdma_tree_remove(unit_top, "sys/module/rdma_ucm/refcnt");
	ward_remove("/sys/module/rdma_ucm");
	assert_string_equal(ward_expect("rdma.modules", DOCTOR_WARN)->object, "module rdma_ucm");
	rdma_tree_remove(unit_top, "sys/module/ib_uverbs/refcnt");
	ward_remove("/sys/module/ib_uverbs");
	const struct doctor_finding *finding = ward_expect("rdma.modules", DOCTOR_FAIL);
	assert_string_equal(finding->object, "module ib_uverbs");
	assert_string_equal(finding->do_, "modprobe ib_uverbs\necho ib_uverbs > "
					  "/etc/modules-load.d/ib_uverbs.conf");
}

static void test_half_a_driver(void **state)
{
	const struct rdma_tree_function function = {.bdf = BDF};
	rdma_tree_function(unit_top, &function);
	rig_modules();
	assert_string_equal(ward_expect("rdma.modules", DOCTOR_FAIL)->object, "module mlx5_ib");
	assert_non_null(strstr(ward_expect("rdma.device", DOCTOR_WARN)->found, "no RDMA device"));
}

static void test_netns(void **state)
{
	rig_adapter();
	rdma_tree_write(unit_top, "sys/module/ib_core/parameters/netns_mode", "N\n");
	assert_string_equal(ward_expect("rdma.netns", DOCTOR_FAIL)->found, "mode exclusive");
	/* Said once. */
	(void)ward_expect("rdma.device", DOCTOR_OK);
	rdma_tree_write(unit_top, "sys/module/ib_core/parameters/netns_mode", "?\n");
	(void)ward_expect("rdma.netns", DOCTOR_UNKNOWN);
}

static void test_devices(void **state)
{
	const struct rdma_tree_function bare = {.bdf = "0000:0d:00.0", .driver = ""};
	const struct rdma_tree_function ethernet = {
	    .bdf = "0000:0e:00.0", .vendor = "0x8086\n", .class_ = "0x020000\n", .driver = "igb"};
	rig_adapter();
	rdma_tree_function(unit_top, &ethernet); /* nobody expects RDMA of it */
	assert_string_equal(ward_expect("rdma.device", DOCTOR_OK)->found,
			    "1, of which 1 can be used");
	rdma_tree_function(unit_top, &bare);
	const struct doctor_finding *finding = ward_expect("rdma.device", DOCTOR_WARN);
	assert_string_equal(finding->object, "adapter 0000:0d:00.0");
	assert_string_equal(finding->found, "no driver bound");
}

static void test_none_where_one_is_wanted(void **state)
{
	ward_options.purpose = DOCTOR_FOR_RDMA;
	ward_directory("/sys/bus/pci/devices");
	assert_string_equal(ward_expect("rdma.device", DOCTOR_FAIL)->found, "no RDMA adapter");
}

static void test_ports(void **state)
{
	rig_adapter();
	rdma_tree_write(unit_top, PORT "state", "2: INIT\n");
	const struct doctor_finding *finding = ward_expect("rdma.port", DOCTOR_WARN);
	assert_string_equal(finding->object, "port mlx5_0/1");
	assert_string_equal(finding->found, "state 2: INIT, link 5: LinkUp");
	assert_non_null(strstr(finding->do_, "systemctl start opensm"));
	rdma_tree_write(unit_top, PORT "state", "1: DOWN\n");
	rdma_tree_write(unit_top, PORT "phys_state", "3: Disabled\n");
	assert_string_equal(ward_expect("rdma.port", DOCTOR_WARN)->do_, "ip link set ib0 up");
	rdma_tree_write(unit_top, PORT "phys_state", "2: Polling\n");
	assert_non_null(strstr(ward_expect("rdma.port", DOCTOR_WARN)->do_, "mlxlink -d " BDF));
	rdma_tree_remove(unit_top, PORT "state");
	(void)ward_expect("rdma.port", DOCTOR_UNKNOWN);
}

static void test_a_slow_port(void **state)
{
	const struct rdma_tree_function other = {.bdf = "0000:0d:00.0"};
	rig_adapter();
	rdma_tree_function(unit_top, &other);
	rdma_tree_device(unit_top, other.bdf, "mlx5_1", 1);
	rdma_tree_port(unit_top, "mlx5_1", 1, "InfiniBand", 1);
	(void)ward_expect("rdma.port", DOCTOR_OK);
	rdma_tree_write(unit_top, PORT "rate", "25 Gb/sec (1X EDR)\n");
	const struct doctor_finding *finding = ward_expect("rdma.port", DOCTOR_WARN);
	assert_string_equal(finding->found, "25 Gb/sec (1X EDR)");
	assert_string_equal(finding->need, "100 Gb/sec, as others of its kind have");
}

static void test_software(void **state)
{
	static const char port[] = "sys/class/infiniband/rxe0/ports/1/";
	char path[64];
	ward_directory("/sys/bus/pci/devices");
	rdma_tree_software(unit_top, "rxe0", "eth0", 0);
	rig_modules();
	assert_string_equal(ward_expect("rdma.device", DOCTOR_OK)->found,
			    "1, of which 1 can be used; 1 in software");
	(void)ward_expect("rdma.port", DOCTOR_OK);
	(void)snprintf(path, sizeof(path), "%sstate", port);
	rdma_tree_write(unit_top, path, "1: DOWN\n");
	(void)snprintf(path, sizeof(path), "%sphys_state", port);
	rdma_tree_write(unit_top, path, "3: Disabled\n");
	assert_string_equal(ward_expect("rdma.port", DOCTOR_WARN)->do_, "ip link set eth0 up");
	rdma_tree_write(unit_top, path, "2: Polling\n");
	assert_string_equal(ward_expect("rdma.port", DOCTOR_WARN)->do_,
			    "rdma link show rxe0/1\nip link show eth0");
	rdma_tree_remove(unit_top, "sys/class/infiniband_verbs/uverbs0/ibdev");
	assert_string_equal(ward_expect("rdma.device", DOCTOR_WARN)->object, "adapter rxe0");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    ward_test(test_well),     ward_test(test_modules),
	    ward_test(test_netns),    ward_test(test_half_a_driver),
	    ward_test(test_devices),  ward_test(test_none_where_one_is_wanted),
	    ward_test(test_ports),    ward_test(test_a_slow_port),
	    ward_test(test_software),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
