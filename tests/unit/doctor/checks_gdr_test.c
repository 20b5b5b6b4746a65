/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "tests/unit/doctor/ward.h"
#include "tests/unit/hardware/rdma_tree.h"

#define GPU	"0000:07:00.0"
#define BDF	"0000:0c:00.0"
#define BRIDGES "pci0000:00/0000:00:01.0/0000:02:00.0"

static void rig_version(bool is_open)
{
	ward_file("/proc/driver/nvidia/version",
		  is_open ? "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.105.08\n"
			  : "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.105.08\n");
}

/* A GPU and an adapter, each below a port of one switch. */
static void rig_machine(void)
{
	static const struct {
		const char *name, *text;
	} files[] = {{"vendor", "0x10de\n"},
		     {"device", "0x2330\n"},
		     {"class", "0x030200\n"},
		     {"numa_node", "0\n"}};
	const struct rdma_tree_function function = {.bdf = BDF, .above = BRIDGES "/0000:03:04.0"};
	char path[160];
	for (size_t i = 0; i < 4; i++) {
		(void)snprintf(path, sizeof(path),
			       "sys/devices/" BRIDGES "/0000:03:00.0/" GPU "/%s", files[i].name);
		rdma_tree_write(unit_top, path, files[i].text);
	}
	rdma_tree_link(unit_top, "sys/bus/pci/devices/" GPU,
		       "../../../devices/" BRIDGES "/0000:03:00.0/" GPU);
	rdma_tree_function(unit_top, &function);
	rdma_tree_device(unit_top, BDF, "mlx5_0", 0);
	rdma_tree_port(unit_top, "mlx5_0", 1, "InfiniBand", 0);
	rig_version(true);
	ward_file("/proc/sys/kernel/osrelease", "6.1.0-18-amd64\n");
}

static void test_paths(void **state)
{
	rig_machine();
	(void)ward_expect("gdr.path", DOCTOR_OK);
	(void)ward_expect("gdr.modules", DOCTOR_OK);
	ward_directory("/sys/module/nvidia_peermem");
	(void)ward_expect("gdr.path", DOCTOR_INFO); /* not registered, and not needed */
	rig_version(false);
	assert_string_equal(ward_expect("gdr.path", DOCTOR_FAIL)->found,
			    "nvidia_peermem loaded, and not registered with ib_core");
	(void)ward_expect("gdr.modules", DOCTOR_OK);
	ward_file("/sys/kernel/mm/memory_peers/nv_mem_nc/version", "1.0-0\n");
	(void)ward_expect("gdr.path", DOCTOR_OK);
	ward_remove("/sys/module/nvidia_peermem");
	ward_remove("/sys/kernel/mm/memory_peers/nv_mem_nc/version");
	(void)ward_expect("gdr.path", DOCTOR_WARN);
	(void)ward_expect("gdr.modules", DOCTOR_WARN);
	ward_options.purpose = DOCTOR_FOR_RDMA;
	(void)ward_expect("gdr.path", DOCTOR_FAIL);
	ward_remove("/proc/driver/nvidia/version");
	(void)ward_expect("gdr.path", DOCTOR_SKIP);
}

static void test_kernels(void **state)
{
	static const struct {
		const char *release;
		bool is_new;
	} rows[] = {{"5.12.0\n", true},	 {"5.11.22-x\n", false}, {"4.18.0-513.el8\n", false},
		    {"6.0-rc1\n", true}, {"5\n", false},	 {"x.y\n", false}};
	rig_machine();
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		ward_file("/proc/sys/kernel/osrelease", rows[i].release);
		(void)ward_expect("gdr.path", rows[i].is_new ? DOCTOR_OK : DOCTOR_WARN);
	}
}

static void test_ofed(void **state)
{
	rig_machine();
	assert_string_equal(ward_expect("gdr.ofed", DOCTOR_OK)->found, "the kernel's own");
	ward_directory("/run/mellanox/drivers");
	(void)ward_expect("gdr.ofed", DOCTOR_FAIL);
	ward_file("/run/mellanox/drivers/.driver-ready", "");
	ward_file("/sys/module/mlx5_core/version", "24.10-1.1.4\n");
	assert_string_equal(ward_expect("gdr.ofed", DOCTOR_OK)->found, "OFED 24.10-1.1.4");
}

static void test_distances(void **state)
{
	rig_machine();
	(void)ward_expect("gdr.distance", DOCTOR_OK);
	ward_remove("/sys/bus/pci/devices/" BDF);
	const struct rdma_tree_function far = {
	    .bdf = "0000:8c:00.0", .above = "pci0000:80/0000:80:01.0", .numa = 1};
	rdma_tree_function(unit_top, &far);
	rdma_tree_device(unit_top, far.bdf, "mlx5_0", 0);
	assert_string_equal(ward_expect("gdr.distance", DOCTOR_WARN)->found,
			    "SYS to the nearest adapter mlx5_0");
	/* Below the same host bridge, as in workstations. */
	ward_remove("/sys/bus/pci/devices/0000:8c:00.0");
	const struct rdma_tree_function near = {.bdf = "0000:1c:00.0",
						.above = "pci0000:00/0000:00:02.0"};
	rdma_tree_function(unit_top, &near);
	rdma_tree_device(unit_top, near.bdf, "mlx5_0", 0);
	assert_string_equal(ward_expect("gdr.distance", DOCTOR_INFO)->found,
			    "PHB to the nearest adapter mlx5_0");
	ward_options.purpose = DOCTOR_FOR_RDMA;
	(void)ward_expect("gdr.distance", DOCTOR_WARN);
}

/* A downstream port's configuration space, with ACS. */
static void rig_bridge(const char *bdf, unsigned char control)
{
	unsigned char config[4096] = {0};
	char path[160];
	config[0x06] = 0x10;
	config[0x34] = 0x40;
	memcpy(config + 0x40, "\x10\0\x62\0", 4);
	memcpy(config + 0x100, "\x0d\0\x01\0\x1f\0", 6);
	config[0x106] = control;
	(void)snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/config", bdf);
	ward_file(path, "");
	FILE *file = fopen(unit_path(unit_top, path + 1), "we");
	assert_non_null(file);
	assert_int_equal(fwrite(config, sizeof(config), 1, file), 1);
	assert_int_equal(fclose(file), 0);
}

static void test_acs(void **state)
{
	rig_machine();
	(void)ward_expect("gdr.acs", DOCTOR_UNKNOWN);
	rig_bridge("0000:03:00.0", 0);
	rig_bridge("0000:03:04.0", 0);
	(void)ward_expect("gdr.acs", DOCTOR_OK);
	rig_bridge("0000:03:04.0", 0x1d);
	const struct doctor_finding *finding = ward_expect("gdr.acs", DOCTOR_WARN);
	assert_string_equal(finding->object, "bridge 0000:03:04.0");
	assert_string_equal(finding->do_,
			    "setpci -s 0000:03:04.0 ECAP_ACS+0x6.w=0000   # again after each boot");
	ward_file("/proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu hypervisor lahf_lm\n");
	finding = ward_expect("gdr.acs", DOCTOR_WARN);
	assert_non_null(strstr(finding->do_, "ATS_ENABLED"));
}

static void test_iommu(void **state)
{
	rig_machine();
	(void)ward_expect("gdr.iommu", DOCTOR_OK);
	ward_file("/sys/kernel/iommu_groups/5/type", "DMA-FQ\n");
	rdma_tree_link(unit_top, "sys/bus/pci/devices/" BDF "/iommu_group",
		       "../../../../../../kernel/iommu_groups/5");
	assert_non_null(strstr(ward_expect("gdr.iommu", DOCTOR_WARN)->do_, "iommu=pt"));
	ward_file("/sys/kernel/iommu_groups/5/type", "identity\n");
	(void)ward_expect("gdr.iommu", DOCTOR_OK);
}

/* By way of the processor no memory of a GPU is reached. */
static void test_software(void **state)
{
	static const char *const ids[] = {"gdr.path", "gdr.distance", "gdr.acs", "gdr.iommu"};
	rig_machine();
	rdma_tree_software(unit_top, "rxe0", "eth0", 1);
	rdma_tree_link(unit_top, "sys/bus/pci/devices/0000:00:00.0/iommu_group",
		       "../../../../../../kernel/iommu_groups/5");
	ward_file("/sys/kernel/iommu_groups/5/type", "DMA-FQ\n");
	(void)ward_expect("gdr.iommu", DOCTOR_OK); /* of nothing at the address 0 */
	rdma_tree_remove(unit_top, "sys/bus/pci/devices/" BDF);
	for (size_t i = 0; i < 4; i++)
		assert_string_equal(ward_expect(ids[i], DOCTOR_SKIP)->found,
				    "no RDMA device but in software");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    ward_test(test_paths),     ward_test(test_kernels), ward_test(test_ofed),
	    ward_test(test_distances), ward_test(test_acs),	ward_test(test_iommu),
	    ward_test(test_software),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
