/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "tests/unit/doctor/ward.h"

#define ENFORCE "/sys/fs/selinux/enforce"
#define BOOLEAN "/sys/fs/selinux/booleans/container_use_devices"

static void cgroups(void **state)
{
	(void)state;
	ward_healthy();
	(void)ward_expect("cgroup", DOCTOR_SKIP);
	ward_directory("/sys/fs/cgroup/memory");
	(void)ward_expect("cgroup", DOCTOR_FAIL);
	ward_directory("/sys/fs/cgroup/devices");
	(void)ward_expect("cgroup", DOCTOR_INFO);
	ward_options.purpose = DOCTOR_FOR_AGENT;
	(void)ward_expect("cgroup", DOCTOR_WARN);
	ward_options.purpose = 0;
	ward_directory("/sys/fs/cgroup/unified");
	ward_file("/sys/fs/cgroup/unified/cgroup.procs", "");
	assert_non_null(strstr(ward_expect("cgroup", DOCTOR_INFO)->found, "hybrid"));
	ward_file("/var/lib/dpkg/status",
		  "Package: crun\nStatus: install ok installed\nVersion: 1.8.1-1\n");
	assert_non_null(strstr(ward_expect("cgroup", DOCTOR_WARN)->found, "crun"));
	ward_file("/sys/fs/cgroup/cgroup.controllers", "cpu\n");
	ward_directory("/run/systemd/system");
	assert_string_equal(ward_expect("cgroup", DOCTOR_OK)->found, "version 2, under systemd");
}

static void selinux(void **state)
{
	(void)state;
	ward_healthy();
	(void)ward_expect("selinux.mode", DOCTOR_SKIP);
	(void)ward_expect("selinux.label", DOCTOR_SKIP);
	ward_file(ENFORCE, "0");
	(void)ward_expect("selinux.mode", DOCTOR_OK);
	(void)ward_expect("selinux.label", DOCTOR_SKIP);
	ward_file(ENFORCE, "junk");
	(void)ward_expect("selinux.mode", DOCTOR_UNKNOWN);
	(void)ward_expect("selinux.label", DOCTOR_UNKNOWN);
	ward_file(ENFORCE, "1");
	(void)ward_expect("selinux.mode", DOCTOR_SKIP); /* a workstation without containers */
	ward_directory("/var/lib/kubelet");
	assert_non_null(strstr(ward_expect("selinux.mode", DOCTOR_WARN)->do_, "container-selinux"));
	ward_remove("/var/lib/kubelet");
	/* The reference policy has no boolean for devices: this one tells that it confines
	 * containers. */
	ward_file("/sys/fs/selinux/booleans/container_manage_cgroup", "0 0");
	assert_string_equal(ward_expect("selinux.mode", DOCTOR_WARN)->do_,
			    "semodule -i /usr/share/sluice/selinux/sluice-gpu.cil");
	ward_file(BOOLEAN, "0 0");
	assert_non_null(strstr(ward_expect("selinux.mode", DOCTOR_WARN)->do_,
			       "setsebool -P container_use_devices 1"));
	ward_directory("/var/lib/selinux/targeted/active/modules/400/sluice-gpu");
	(void)ward_expect("selinux.mode", DOCTOR_OK);
	ward_file("/etc/selinux/config", "SELINUX=enforcing\nSELINUXTYPE=default\n");
	(void)ward_expect("selinux.mode", DOCTOR_WARN); /* the store of another policy */
	ward_directory("/var/lib/selinux/default/active/modules/400/sluice-gpu");
	(void)ward_expect("selinux.mode", DOCTOR_OK);
	ward_remove("/etc/selinux/config");
	ward_remove("/var/lib/selinux/targeted/active/modules/400/sluice-gpu");
	ward_file("/sys/fs/selinux/booleans/container_use_xserver_devices", "1 1");
	(void)ward_expect("selinux.mode", DOCTOR_OK);
	ward_remove("/sys/fs/selinux/booleans/container_use_xserver_devices");
	(void)ward_expect("selinux.mode", DOCTOR_WARN);
	ward_file(BOOLEAN, "1 1");
	(void)ward_expect("selinux.mode", DOCTOR_OK);
	(void)ward_expect("selinux.label", DOCTOR_OK);
}

static void label_of_the_agent(void **state)
{
	(void)state;
	static const char cmdline[] = "sluice\0agent";
	ward_healthy();
	ward_file(ENFORCE, "1");
	ward_file("/proc/31/comm", "sluice\n");
	ward_file("/proc/31/attr/current", "system_u:system_r:container_t:s0:c1,c2");
	ward_file("/proc/31/cmdline", "");
	FILE *file = fopen(unit_path(unit_top, "proc/31/cmdline"), "we");
	assert_non_null(file);
	assert_int_equal(fwrite(cmdline, 1, sizeof(cmdline), file), sizeof(cmdline));
	assert_int_equal(fclose(file), 0);
	(void)ward_expect("selinux.label", DOCTOR_WARN);
	ward_file("/etc/os-release", "ID=rhcos\n");
	assert_non_null(strstr(ward_expect("selinux.label", DOCTOR_FAIL)->do_, "oc adm policy"));
	ward_file("/proc/31/attr/current", "system_u:system_r:spc_t:s0");
	(void)ward_expect("selinux.label", DOCTOR_OK);
	ward_file("/proc/31/attr/current", "unconfined");
	(void)ward_expect("selinux.label", DOCTOR_OK);
}

static void label_of_a_node(void **state)
{
	(void)state;
	static const char context[] = "system_u:object_r:device_t:s0";
	ward_healthy();
	ward_file(ENFORCE, "1");
	ward_file("/dev/nvidiactl", "");
	if (setxattr(unit_path(unit_top, "dev/nvidiactl"), "security.selinux", context,
		     sizeof(context), 0) < 0)
		skip(); /* needs CAP_SYS_ADMIN, and a file system that has such attributes */
	const struct doctor_finding *finding = ward_expect("selinux.label", DOCTOR_WARN);
	assert_string_equal(finding->found, "the type device_t");
	assert_string_equal(finding->do_, "restorecon -v /dev/nvidia*");
}

static void openshift(void **state)
{
	(void)state;
	ward_healthy();
	(void)ward_expect("openshift.node", DOCTOR_SKIP);
	ward_file("/etc/os-release", "ID=\"rhcos\"\n");
	(void)ward_expect("openshift.node", DOCTOR_WARN);
	ward_file("/etc/os-release", "ID=\"rhcos\"\nOSTREE_VERSION=\"414.92.202402\"\n");
	assert_non_null(strstr(ward_expect("openshift.node", DOCTOR_INFO)->do_,
			       "driver-toolkit:414.92.202402"));
}

static void the_loopback(void **state)
{
	ward_healthy();
	(void)ward_expect("loopback", DOCTOR_SKIP);
	ward_file("/sys/class/net/lo/flags", "0x9\n");
	assert_string_equal(ward_expect("loopback", DOCTOR_OK)->found, "lo is up");
	ward_file("/sys/class/net/lo/flags", "0x8\n");
	assert_string_equal(ward_expect("loopback", DOCTOR_WARN)->found, "lo is down");
	ward_file("/sys/class/net/lo/flags", "up\n");
	(void)ward_expect("loopback", DOCTOR_SKIP);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    ward_test(cgroups),		ward_test(the_loopback),
	    ward_test(selinux),		ward_test(label_of_the_agent),
	    ward_test(label_of_a_node), ward_test(openshift),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
