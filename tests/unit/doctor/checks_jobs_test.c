/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/file.h"
#include "tests/unit/doctor/ward.h"

static void closed_nodes(void **state)
{
	(void)state;
	ward_healthy();
	(void)ward_expect("jobs.enforce", DOCTOR_SKIP);
	ward_file("/var/lib/sluice/nodes", "438 0 0 990 nvidia0\n438 0 0 990 nvidia7\n");
	ward_file("/proc/driver/nvidia/params", "ModifyDeviceFiles: 0\nDeviceFileMode: 438\n");
	ward_file("/etc/group", "root:x:0:\n");
	const struct doctor *doctor = ward_run("jobs.enforce");
	assert_int_equal(doctor->count, 2);
	assert_int_equal(doctor->findings[1].status, DOCTOR_INFO);
	assert_non_null(strstr(doctor->findings[1].found, "/etc/group"));
	ward_file("/etc/group", "root:x:0:\nsluice:x:990:\n");
	(void)ward_expect("jobs.enforce", DOCTOR_OK);
	assert_int_equal(ward_run("jobs.enforce")->count, 1);
	ward_file("/proc/driver/nvidia/params", "DeviceFileUID: 0\nModifyDeviceFiles: 1\n");
	assert_non_null(
	    strstr(ward_expect("jobs.enforce", DOCTOR_WARN)->do_, "NVreg_ModifyDeviceFiles=0"));
}

/* Takes device nodes. */
static void open_nodes(void **state)
{
	(void)state;
	char path[FILE_PATH_MAX];
	ward_healthy();
	ward_file("/var/lib/sluice/nodes", "438 0 0 990 nvidia7\n");
	ward_file("/etc/group", "sluice:x:990:\n");
	ward_directory("/dev");
	assert_int_equal(file_path(path, NULL, "%s/dev/nvidia7", unit_top), 0);
	if (mknod(path, S_IFCHR | 0600, makedev(195, 7)) < 0) {
		print_message("skipped: making device nodes takes root\n");
		return;
	}
	assert_int_equal(chmod(path, 0660), 0);
	(void)ward_expect("jobs.enforce", DOCTOR_OK);
	assert_int_equal(chmod(path, 0666), 0);
	assert_non_null(strstr(ward_expect("jobs.enforce", DOCTOR_FAIL)->do_, "--cleanup"));
}

static void sessions(void **state)
{
	(void)state;
	ward_healthy();
	(void)ward_expect("jobs.session", DOCTOR_SKIP);
	ward_directory("/run/systemd/system");
	(void)ward_expect("jobs.session", DOCTOR_OK);
	ward_file("/etc/systemd/logind.conf", "[Login]\n#KillUserProcesses=yes\n");
	(void)ward_expect("jobs.session", DOCTOR_OK);
	ward_file("/etc/systemd/logind.conf", "[Login]\nKillUserProcesses=yes\n");
	ward_file("/var/lib/systemd/linger/alice", "");
	assert_non_null(strstr(ward_expect("jobs.session", DOCTOR_WARN)->found, "1 users"));
	ward_file("/etc/systemd/logind.conf.d/10-site.conf", "[Login]\nKillUserProcesses=no\n");
	(void)ward_expect("jobs.session", DOCTOR_OK);
}

static void isolation(void **state)
{
	(void)state;
	ward_healthy();
	assert_non_null(strstr(ward_expect("jobs.isolation", DOCTOR_WARN)->found, "nothing keeps"));
	ward_file("/sys/kernel/security/lsm", "capability,landlockx,yama\n");
	assert_non_null(strstr(ward_expect("jobs.isolation", DOCTOR_WARN)->found, "nothing keeps"));
	ward_file("/sys/fs/cgroup/cgroup.controllers", "cpu\n");
	(void)ward_expect("jobs.isolation", DOCTOR_INFO);
	ward_file("/sys/kernel/security/lsm", "capability,landlock,yama\n");
	(void)ward_expect("jobs.isolation", DOCTOR_OK);
}

/* The kernel keeps jobs apart on a simulated machine, and its files are not below that root. */
static void isolation_of_a_simulated_machine(void **state)
{
	(void)state;
	ward_healthy();
	ward_options.is_simulated = true;
	(void)ward_expect("jobs.isolation", DOCTOR_SKIP);
}

static void state_directory(void **state)
{
	(void)state;
	ward_healthy();
	(void)ward_expect("jobs.state", DOCTOR_SKIP);
	ward_directory("/var/lib/sluice");
	(void)ward_expect("jobs.state", DOCTOR_OK);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    ward_test(closed_nodes),
	    ward_test(open_nodes),
	    ward_test(sessions),
	    ward_test(isolation),
	    ward_test(isolation_of_a_simulated_machine),
	    ward_test(state_directory),
	};
	return cmocka_run_group_tests_name("doctor/checks_jobs", tests, NULL, NULL);
}
