/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/doctor/ward.h"

#define SECURE_BOOT "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"

/* Four bytes of attributes and the value. */
static void set_secure_boot(int value, size_t size)
{
	const char bytes[] = {6, 0, 0, 0, (char)value};
	ward_file(SECURE_BOOT, "");
	FILE *file = fopen(unit_path(unit_top, &SECURE_BOOT[1]), "we");
	assert_non_null(file);
	assert_int_equal(fwrite(bytes, 1, size, file), size);
	assert_int_equal(fclose(file), 0);
}

static void secure_boot(void **state)
{
	(void)state;
	ward_healthy();
	(void)ward_expect("driver.secureboot", DOCTOR_SKIP);
	set_secure_boot(1, 4);
	(void)ward_expect("driver.secureboot", DOCTOR_UNKNOWN);
	set_secure_boot(0, 5);
	(void)ward_expect("driver.secureboot", DOCTOR_OK);
	set_secure_boot(1, 5);
	ward_file("/sys/module/nvidia/taint", "PO\n");
	(void)ward_expect("driver.secureboot", DOCTOR_OK);
	ward_file("/sys/module/nvidia/taint", "POE\n");
	assert_non_null(strstr(ward_expect("driver.secureboot", DOCTOR_FAIL)->found, "unsigned"));
}

static void secure_boot_without_module(void **state)
{
	(void)state;
	ward_gpu("0000:07:00.0", "vfio-pci");
	set_secure_boot(1, 5);
	(void)ward_expect("driver.secureboot", DOCTOR_SKIP);
	ward_remove("/sys/bus/pci/devices/0000:07:00.0/driver");
	assert_non_null(strstr(ward_expect("driver.secureboot", DOCTOR_FAIL)->found, "not loaded"));
	ward_file("/kmsg", "6,1,2,-;something else was rejected\n"
			   "3,2,3,-;Loading of module with unavailable key is rejected\n");
	assert_non_null(strstr(ward_expect("driver.secureboot", DOCTOR_FAIL)->found, "refused"));
}

static void put_switch(const char *bus)
{
	char path[FILE_PATH_MAX];
	ward_gpu(bus, "nvidia-nvswitch");
	(void)snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/class", bus);
	ward_file(path, "0x068000\n");
}

static int ask(const char *program, struct version *out, struct err *err)
{
	static const char text[] = "Fabric Manager version is : 570.86.15";
	(void)err;
	return strcmp(program, "nv-fabricmanager") == 0 ? version_parse(text, strlen(text), out)
							: -ENOENT;
}

static void fabric(void **state)
{
	(void)state;
	ward_healthy();
	(void)ward_expect("driver.fabric", DOCTOR_SKIP);
	put_switch("0000:85:00.0");
	put_switch("0000:86:00.0");
	assert_non_null(strstr(ward_expect("driver.fabric", DOCTOR_FAIL)->found, "2 NVLink"));
	ward_file("/proc/5/comm", "nv-fabricmanage\n");
	(void)ward_expect("driver.fabric", DOCTOR_OK);
	ward_file("/var/lib/dpkg/status", "Package: nvidia-fabricmanager-580\n"
					  "Status: install ok installed\n"
					  "Version: 580.105.08-1\n");
	(void)ward_expect("driver.fabric", DOCTOR_OK);
	ward_options.ask_version = ask;
	const struct doctor_finding *finding = ward_expect("driver.fabric", DOCTOR_FAIL);
	assert_string_equal(finding->found, "version 570.86.15");
	assert_non_null(strstr(finding->do_, "nvidia-fabricmanager-580=580.105.08-1"));
}

/* NVLink 5: the switches are behind adapters. */
static void bridges(void **state)
{
	(void)state;
	ward_healthy();
	ward_file("/sys/class/infiniband/mlx5_0/device/vpd", "\202\1CX7 VPD\n");
	(void)ward_expect("driver.fabric", DOCTOR_SKIP);
	ward_file("/sys/class/infiniband/mlx5_1/device/vpd", "\202\1x SW_MNG y");
	ward_file("/proc/5/comm", "nv-fabricmanage\n");
	assert_int_equal(doctor_total(ward_run("driver.fabric"), DOCTOR_FAIL), 3);
	ward_directory("/sys/module/mlx5_core");
	ward_directory("/sys/module/ib_umad");
	assert_string_equal(ward_expect("driver.fabric", DOCTOR_FAIL)->object, "nvlsm");
	ward_file("/proc/6/comm", "nvlsm\n");
	(void)ward_expect("driver.fabric", DOCTOR_OK);
}

static void unprivileged(void **state)
{
	(void)state;
	if (geteuid() == 0)
		skip(); /* root may read everything */
	ward_healthy();
	ward_file("/sys/class/infiniband/mlx5_0/device/vpd", "x");
	assert_int_equal(chmod(unit_path(unit_top, "sys/class/infiniband/mlx5_0/device/vpd"), 0),
			 0);
	(void)ward_expect("driver.fabric", DOCTOR_UNKNOWN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    ward_test(secure_boot),  ward_test(secure_boot_without_module),
	    ward_test(fabric),	     ward_test(bridges),
	    ward_test(unprivileged),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
