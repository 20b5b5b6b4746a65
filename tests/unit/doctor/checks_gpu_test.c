/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "tests/unit/doctor/ward.h"

static void no_gpu_is_no_fault(void **state)
{
	(void)state;
	(void)ward_expect("gpu.pci", DOCTOR_SKIP);
	ward_directory("/sys/bus/pci/devices");
	(void)ward_expect("gpu.pci", DOCTOR_SKIP);
	(void)ward_expect("driver.bound", DOCTOR_SKIP);
	(void)ward_expect("driver.loaded", DOCTOR_SKIP);
}

static void healthy(void **state)
{
	(void)state;
	ward_healthy();
	(void)ward_expect("gpu.pci", DOCTOR_OK);
	(void)ward_expect("driver.bound", DOCTOR_OK);
	(void)ward_expect("driver.loaded", DOCTOR_OK);
}

static void bound(void **state)
{
	(void)state;
	ward_healthy();
	ward_gpu("0000:08:00.0", "nouveau");
	const struct doctor_finding *finding = ward_expect("driver.bound", DOCTOR_FAIL);
	assert_string_equal(finding->object, "GPU 0000:08:00.0");
	assert_non_null(strstr(finding->found, "nouveau"));
	ward_link("/sys/bus/pci/devices/0000:08:00.0/driver", "../../drivers/vfio-pci");
	(void)ward_expect("driver.bound", DOCTOR_INFO);
	ward_remove("/sys/bus/pci/devices/0000:08:00.0/driver");
	finding = ward_expect("driver.bound", DOCTOR_FAIL);
	assert_non_null(strstr(finding->do_, "/sys/bus/pci/drivers/nvidia/bind"));
	ward_link("/sys/bus/pci/devices/0000:08:00.0/driver", "../../drivers/snd_hda");
	(void)ward_expect("driver.bound", DOCTOR_FAIL);
}

static void loaded(void **state)
{
	(void)state;
	ward_gpu("0000:07:00.0", "");
	(void)ward_expect("driver.loaded", DOCTOR_FAIL);
	ward_link("/sys/bus/pci/devices/0000:07:00.0/driver", "../../drivers/vfio-pci");
	(void)ward_expect("driver.loaded", DOCTOR_SKIP);
}

static void numa(void **state)
{
	(void)state;
	ward_healthy();
	(void)ward_expect("mem.numa", DOCTOR_SKIP);
	ward_file("/sys/devices/system/node/online", "0\n");
	(void)ward_expect("mem.numa", DOCTOR_SKIP);
	ward_file("/sys/devices/system/node/online", "0-1\n");
	(void)ward_expect("mem.numa", DOCTOR_OK);
	ward_file("/sys/bus/pci/devices/0000:07:00.0/numa_node", "-1\n");
	assert_non_null(strstr(ward_expect("mem.numa", DOCTOR_WARN)->found, "1 of 1"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    ward_test(no_gpu_is_no_fault),
	    ward_test(healthy),
	    ward_test(bound),
	    ward_test(loaded),
	    ward_test(numa),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
