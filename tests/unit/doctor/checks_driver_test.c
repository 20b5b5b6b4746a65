/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "tests/unit/doctor/ward.h"

#define LIBRARIES "/usr/lib/x86_64-linux-gnu"
#define VERSION	  "/proc/driver/nvidia/version"
#define DEVICE	  "/sys/bus/pci/devices/0000:07:00.0/device"

static void unload(void)
{
	ward_remove("/sys/module/nvidia/version");
	ward_remove(VERSION);
}

static void healthy(void **state)
{
	(void)state;
	ward_healthy();
	ward_file("/sys/module/nvidia_uvm/initstate", "live\n");
	ward_file("/lib/firmware/nvidia/580.105.08/gsp_ga10x.bin.zst", "");
	ward_file("/proc/77/comm", "nvidia-persiste\n");
	(void)ward_expect("driver.loaded", DOCTOR_OK);
	(void)ward_expect("driver.match", DOCTOR_OK);
	(void)ward_expect("driver.modules", DOCTOR_INFO); /* nvidia_drm is not there */
	(void)ward_expect("driver.flavour", DOCTOR_OK);
	(void)ward_expect("driver.firmware", DOCTOR_OK);
	(void)ward_expect("driver.persistence", DOCTOR_OK);
	(void)ward_expect("driver.coherent", DOCTOR_SKIP);
}

static void without_module(void **state)
{
	(void)state;
	ward_healthy();
	unload();
	assert_string_equal(ward_expect("driver.loaded", DOCTOR_FAIL)->need, "it loaded");
	static const char *const ids[] = {"driver.match", "driver.modules", "driver.flavour",
					  "driver.firmware", "driver.persistence"};
	for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++)
		(void)ward_expect(ids[i], DOCTOR_SKIP);
}

static void versions(void **state)
{
	(void)state;
	ward_healthy();
	ward_file(LIBRARIES "/libcuda.so.570.86.15", "");
	ward_link(LIBRARIES "/libcuda.so.1", "libcuda.so.570.86.15");
	const struct doctor_finding *finding = ward_expect("driver.match", DOCTOR_FAIL);
	assert_non_null(strstr(finding->found, "two installations"));
	assert_non_null(strstr(finding->found, LIBRARIES "/libcuda.so.570.86.15"));
	assert_non_null(strstr(finding->found, LIBRARIES "/libnvidia-ml.so.580.105.08"));
	ward_link(LIBRARIES "/libnvidia-ml.so.1", "libnvidia-ml.so.570.86.15");
	ward_file(LIBRARIES "/libnvidia-ml.so.570.86.15", "");
	finding = ward_expect("driver.match", DOCTOR_FAIL);
	assert_non_null(strstr(finding->found, "version 570.86.15 in "));
	assert_non_null(strstr(finding->do_, "reboot"));
	/* over links of Debian's alternatives, which are absolute */
	ward_link(LIBRARIES "/libcuda.so.1", "/etc/alternatives/cuda");
	ward_link("/etc/alternatives/cuda", "/usr/lib/nvidia/current/libcuda.so.580.105.08");
	ward_file("/usr/lib/nvidia/current/libcuda.so.580.105.08", "");
	ward_remove(LIBRARIES "/libnvidia-ml.so.1");
	(void)ward_expect("driver.match", DOCTOR_OK);
	ward_remove(LIBRARIES "/libcuda.so.1");
	(void)ward_expect("driver.match", DOCTOR_FAIL);
	ward_file(LIBRARIES "/libcuda.so.1", ""); /* mounted by that name */
	(void)ward_expect("driver.match", DOCTOR_UNKNOWN);
	ward_remove(LIBRARIES "/libcuda.so.1");
}

/* A driver in a container, and another one of the system. */
static void two_roots(void **state)
{
	(void)state;
	ward_healthy();
	ward_link("/run/nvidia/driver/usr/lib64/libcuda.so.1", "libcuda.so.550.54.15");
	ward_file("/run/nvidia/driver/usr/lib64/libcuda.so.550.54.15", "");
	assert_non_null(strstr(ward_expect("driver.match", DOCTOR_FAIL)->found,
			       "/run/nvidia/driver/usr/lib64/libcuda.so.550.54.15"));
}

static void modules(void **state)
{
	(void)state;
	ward_healthy();
	assert_non_null(
	    strstr(ward_expect("driver.modules", DOCTOR_FAIL)->do_, "modprobe nvidia-uvm"));
	ward_directory("/sys/module/nvidia_uvm");
	ward_directory("/sys/module/nvidia_drm");
	ward_directory("/sys/module/nvidia_modeset");
	(void)ward_expect("driver.modules", DOCTOR_OK);
}

static void flavour(void **state)
{
	(void)state;
	ward_healthy();
	ward_file(DEVICE, "0x1db1\n"); /* V100 with the open module */
	assert_non_null(strstr(ward_expect("driver.flavour", DOCTOR_FAIL)->found, "Turing"));
	ward_file(VERSION, "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.105.08  x\n");
	(void)ward_expect("driver.flavour", DOCTOR_OK);
	ward_file(DEVICE, "0x2901\n"); /* B200 with the closed one */
	assert_non_null(strstr(ward_expect("driver.flavour", DOCTOR_FAIL)->found, "Blackwell"));
	ward_gpu("0000:08:00.0", "nvidia");
	ward_link("/sys/bus/pci/devices/0000:07:00.0/driver", "../../../bus/pci/drivers/vfio-pci");
	(void)ward_expect("driver.flavour", DOCTOR_OK); /* a virtual machine's, whatever it is */
	ward_link("/sys/bus/pci/devices/0000:07:00.0/driver", "../../../bus/pci/drivers/nvidia");
	ward_file(DEVICE, "0x2330\n");
	(void)ward_expect("driver.flavour", DOCTOR_OK);
	ward_options.purpose = DOCTOR_FOR_RDMA;
	assert_non_null(strstr(ward_expect("driver.flavour", DOCTOR_WARN)->found, "DMA-BUF"));
	ward_remove(VERSION);
	(void)ward_expect("driver.flavour", DOCTOR_UNKNOWN);
}

static void firmware(void **state)
{
	(void)state;
	ward_healthy();
	(void)ward_expect("driver.firmware", DOCTOR_FAIL);
	ward_file("/lib/firmware/nvidia/570.86.15/gsp_ga10x.bin", "");
	ward_file("/lib/firmware/nvidia/580.105.08/other.bin", "");
	(void)ward_expect("driver.firmware", DOCTOR_FAIL);
	ward_file("/sys/module/firmware_class/parameters/path", "/opt/firmware\n");
	ward_file("/opt/firmware/nvidia/580.105.08/gsp_tu10x.bin", "");
	(void)ward_expect("driver.firmware", DOCTOR_OK);
	ward_remove("/opt/firmware/nvidia/580.105.08/gsp_tu10x.bin");
	ward_file(VERSION, "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.105.08  x\n");
	(void)ward_expect("driver.firmware", DOCTOR_WARN);
	ward_file(DEVICE, "0x1db1\n");
	(void)ward_expect("driver.firmware", DOCTOR_SKIP);
}

static void firmware_of_a_container(void **state)
{
	(void)state;
	ward_healthy();
	ward_remove(LIBRARIES "/libnvidia-ml.so.1");
	ward_file("/run/nvidia/driver/usr/lib64/libnvidia-ml.so.1", "");
	const struct doctor_finding *finding = ward_expect("driver.firmware", DOCTOR_FAIL);
	assert_non_null(strstr(finding->need, "/run/nvidia/driver/lib/firmware"));
	ward_file("/sys/module/firmware_class/parameters/path",
		  "/run/nvidia/driver/lib/firmware\n");
	ward_file("/run/nvidia/driver/lib/firmware/nvidia/580.105.08/gsp_ga10x.bin", "");
	(void)ward_expect("driver.firmware", DOCTOR_OK);
}

static void persistence(void **state)
{
	(void)state;
	ward_healthy();
	(void)ward_expect("driver.persistence", DOCTOR_WARN);
	ward_file("/proc/9/comm", "sluice\n");
	ward_file("/proc/9/cmdline", "sluice");
	(void)ward_expect("driver.persistence", DOCTOR_WARN);
	ward_fifo("/proc/9/cmdline");
	(void)ward_expect("driver.persistence", DOCTOR_WARN);
	ward_file("/proc/10/comm", "Xorg\n");
	ward_link("/proc/10/fd/3", "/dev/nvidiactl");
	(void)ward_expect("driver.persistence", DOCTOR_WARN);
	ward_link("/proc/10/fd/4", "/dev/nvidia0");
	assert_non_null(strstr(ward_expect("driver.persistence", DOCTOR_INFO)->found, "Xorg"));
	ward_file("/proc/8/comm", "nv-hostengine\n");
	(void)ward_expect("driver.persistence", DOCTOR_OK);
}

static void coherent(void **state)
{
	(void)state;
	ward_healthy();
	ward_file(DEVICE, "0x2342\n");
	(void)ward_expect("driver.coherent", DOCTOR_UNKNOWN);
	ward_file("/proc/driver/nvidia/params", "EnableMSI: 1\n");
	(void)ward_expect("driver.coherent", DOCTOR_SKIP);
	ward_file("/proc/driver/nvidia/params", "CoherentGPUMemoryMode: \"\"\n");
	(void)ward_expect("driver.coherent", DOCTOR_WARN);
	ward_file("/proc/driver/nvidia/params", "CoherentGPUMemoryMode: \"driver\"\n");
	(void)ward_expect("driver.coherent", DOCTOR_OK);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    ward_test(healthy),	 ward_test(without_module),
	    ward_test(versions), ward_test(two_roots),
	    ward_test(modules),	 ward_test(flavour),
	    ward_test(firmware), ward_test(firmware_of_a_container),
	    ward_test(coherent), ward_test(persistence),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
