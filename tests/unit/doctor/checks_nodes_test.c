/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "tests/unit/doctor/ward.h"

static void devices(void)
{
	ward_file("/proc/devices", "Character devices:\n195 nvidia\n509 nvidia-caps\n"
				   "510 nvidia-uvm\n\nBlock devices:\n  7 loop\n");
}

static void simulated_nodes(void **state)
{
	(void)state;
	ward_healthy();
	devices();
	ward_options.is_simulated = true;
	ward_file("/dev/nvidiactl", "");
	ward_file("/dev/nvidia-uvm", "");
	assert_string_equal(ward_expect("driver.nodes", DOCTOR_FAIL)->object, "/dev/nvidia0");
	ward_file("/dev/nvidia0", "");
	(void)ward_expect("driver.nodes", DOCTOR_OK);
	ward_remove("/dev/nvidia0");
	ward_file("/dev/sluice-sim0", "");
	(void)ward_expect("driver.nodes", DOCTOR_OK);
	/* a file is no node of a machine that is not simulated */
	ward_options.is_simulated = false;
	const struct doctor_finding *finding = ward_expect("driver.nodes", DOCTOR_FAIL);
	assert_string_equal(finding->found, "no character device");
	assert_string_equal(finding->do_, "rm /dev/nvidiactl\nnvidia-modprobe -c 255");
}

static void of_mig_devices(void **state)
{
	(void)state;
	ward_healthy();
	devices();
	ward_options.is_simulated = true;
	ward_file("/dev/nvidiactl", "");
	ward_file("/dev/nvidia-uvm", "");
	ward_file("/dev/nvidia0", "");
	ward_file("/proc/driver/nvidia/capabilities/gpu0/mig/gi1/access",
		  "DeviceFileMinor: 12\nDeviceFileMode: 292\nDeviceFileModify: 1\n");
	ward_file("/proc/driver/nvidia/capabilities/gpu0/mig/gi1/ci0/access",
		  "DeviceFileMinor: 13\n");
	ward_file("/dev/nvidia-caps/nvidia-cap12", "");
	const struct doctor_finding *finding = ward_expect("driver.nodes", DOCTOR_FAIL);
	assert_string_equal(finding->object, "/dev/nvidia-caps/nvidia-cap13");
	assert_string_equal(finding->need, "the device 509:13");
	ward_file("/dev/nvidia-caps/nvidia-cap13", "");
	(void)ward_expect("driver.nodes", DOCTOR_OK);
}

static void real_nodes(void **state)
{
	(void)state;
	ward_healthy();
	ward_directory("/dev");
	const char *path = unit_path(unit_top, "dev/nvidiactl");
	if (mknod(path, S_IFCHR | 0666, makedev(195, 255)) < 0 ||
	    mknod(unit_path(unit_top, "dev/nvidia0"), S_IFCHR | 0666, makedev(195, 1)) < 0)
		skip(); /* needs CAP_MKNOD */
	const struct doctor_finding *finding = ward_expect("driver.nodes", DOCTOR_FAIL);
	assert_string_equal(finding->found, "the device 195:1");
	assert_int_equal(unlink(unit_path(unit_top, "dev/nvidia0")), 0);
	assert_int_equal(mknod(unit_path(unit_top, "dev/nvidia0"), S_IFCHR | 0666, makedev(195, 0)),
			 0);
	(void)ward_expect("driver.nodes", DOCTOR_OK);
}

/* --- links ----------------------------------------------------------------------------------- */

static const char *runc_version;

static int ask(const char *program, struct version *out, struct err *err)
{
	(void)err;
	if (strcmp(program, "runc") != 0 || !runc_version)
		return -ENOENT;
	return version_parse(runc_version, strlen(runc_version), out);
}

static void links(void **state)
{
	(void)state;
	ward_healthy();
	ward_options.ask_version = ask;
	runc_version = "1.1.5";
	(void)ward_expect("driver.devchar", DOCTOR_SKIP);
	ward_directory("/run/systemd/system");
	assert_non_null(
	    strstr(ward_expect("driver.devchar", DOCTOR_WARN)->do_, "create-dev-char-symlinks"));
	runc_version = "1.1.7";
	(void)ward_expect("driver.devchar", DOCTOR_OK);
	runc_version = NULL;
	(void)ward_expect("driver.devchar", DOCTOR_SKIP);
	ward_options.ask_version = NULL; /* and no list of packages */
	(void)ward_expect("driver.devchar", DOCTOR_INFO);
	ward_link("/dev/char/195:255", "../nvidiactl");
	(void)ward_expect("driver.devchar", DOCTOR_INFO);
	ward_link("/dev/char/195:0", "../nvidia0");
	(void)ward_expect("driver.devchar", DOCTOR_OK);
}

/* --- references ------------------------------------------------------------------------------ */

static void references(void **state)
{
	(void)state;
	ward_healthy();
	ward_file("/sys/module/nvidia/refcnt", "2\n");
	ward_directory("/sys/module/nvidia/holders/nvidia_uvm");
	ward_directory("/sys/module/nvidia/holders/nvidia_modeset");
	ward_file("/sys/module/nvidia_uvm/refcnt", "0\n");
	ward_options.purpose = DOCTOR_FOR_DRIVER_CONTAINER;
	(void)ward_expect("driver.refs", DOCTOR_OK);
	ward_file("/sys/module/nvidia/refcnt", "7\n");
	assert_non_null(strstr(ward_expect("driver.refs", DOCTOR_FAIL)->found, "5 references"));
	ward_link("/proc/42/fd/3", "/dev/nvidia0");
	ward_link("/proc/42/fd/4", "/tmp/x");
	ward_file("/proc/42/comm", "python\n");
	ward_link("/proc/43/fd/3", "/tmp/x");
	const struct doctor_finding *finding = ward_expect("driver.refs", DOCTOR_FAIL);
	assert_non_null(strstr(finding->found, "42 (python)"));
	assert_null(strstr(finding->found, "43"));
	ward_options.purpose = 0;
	finding = ward_expect("driver.refs", DOCTOR_INFO);
	assert_string_equal(finding->do_, "");
}

static void many_references(void **state)
{
	(void)state;
	ward_healthy();
	for (int pid = 100; pid < 120; pid++) {
		char path[64];
		(void)snprintf(path, sizeof(path), "/proc/%d/fd/3", pid);
		ward_link(path, "/dev/nvidiactl");
	}
	assert_non_null(strstr(ward_expect("driver.refs", DOCTOR_INFO)->found, "and 12 more"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    ward_test(simulated_nodes), ward_test(of_mig_devices), ward_test(real_nodes),
	    ward_test(links),		ward_test(references),	   ward_test(many_references),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
