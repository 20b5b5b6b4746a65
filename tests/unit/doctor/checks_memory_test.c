/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "tests/unit/doctor/ward.h"
#include "tests/unit/hardware/rdma_tree.h"

static void rig_adapter(void)
{
	const struct rdma_tree_function function = {.bdf = "0000:0c:00.0"};
	rdma_tree_function(unit_top, &function);
	rdma_tree_device(unit_top, function.bdf, "mlx5_0", 0);
}

static void test_runtimes(void **state)
{
	(void)ward_expect("rdma.memlock", DOCTOR_SKIP);
	rig_adapter();
	(void)ward_expect("rdma.memlock", DOCTOR_SKIP);
	ward_file("/proc/9/comm", "containerd\n");
	(void)ward_expect("rdma.memlock", DOCTOR_UNKNOWN);
	ward_file("/proc/9/limits", "Max locked memory 67108864 67108864 bytes\n");
	(void)ward_expect("rdma.memlock", DOCTOR_OK);
	ward_file("/proc/9/limits", "Max locked memory 67108863 67108863 bytes\n");
	const struct doctor_finding *finding = ward_expect("rdma.memlock", DOCTOR_WARN);
	assert_string_equal(finding->found, "63 MiB");
	assert_non_null(strstr(finding->do_, "/etc/systemd/system/containerd.service.d"));
	/* Set, and the daemon was started before. */
	ward_file("/usr/lib/systemd/system/containerd.service", "[Service]\nLimitMEMLOCK=65536\n");
	ward_file("/etc/systemd/system/containerd.service.d/memlock.conf",
		  "[Service]\nLimitMEMLOCK=infinity\n");
	finding = ward_expect("rdma.memlock", DOCTOR_WARN);
	assert_string_equal(finding->found, "63 MiB, LimitMEMLOCK=infinity");
	assert_string_equal(finding->do_, "systemctl daemon-reload\nsystemctl restart containerd");
	ward_file("/etc/sluice/config.yaml", "sluice:\n  # memlock: no\n  rdma:\n"
					     "    - memlock: unlimited\n");
	(void)ward_expect("rdma.memlock", DOCTOR_OK);
	ward_file("/etc/sluice/config.yaml", "sluice:\n  # memlock: no\n");
	(void)ward_expect("rdma.memlock", DOCTOR_WARN);
}

static void rig_command(const char *path, const char *words, size_t length)
{
	ward_file(path, "");
	FILE *file = fopen(unit_path(unit_top, path + 1), "we");
	assert_non_null(file);
	assert_int_equal(fwrite(words, length, 1, file), 1);
	assert_int_equal(fclose(file), 0);
}

static void test_the_service(void **state)
{
	rig_adapter();
	ward_file("/proc/8/comm", "sluice\n");
	rig_command("/proc/8/cmdline", "sluice\0doctor", 14);
	ward_file("/proc/9/comm", "sluice\n");
	rig_command("/proc/9/cmdline", "/usr/bin/sluice\0agent", 22);
	ward_file("/proc/9/limits", "Max locked memory 8388608 8388608 bytes\n");
	assert_string_equal(ward_expect("rdma.memlock", DOCTOR_WARN)->object,
			    "locked memory of sluice (pid 9)");
	/* On a node of a cluster it gives its limit to nobody. */
	ward_directory("/var/lib/kubelet/device-plugins");
	(void)ward_expect("rdma.memlock", DOCTOR_SKIP);
	ward_remove("/var/lib/kubelet/device-plugins");
	rig_command("/proc/9/cmdline", "sluice", 6);
	(void)ward_expect("rdma.memlock", DOCTOR_SKIP);
}

static void test_fallback(void **state)
{
	(void)ward_expect("memlock", DOCTOR_SKIP);
	ward_file("/proc/7/comm", "python3\n");
	ward_file("/proc/7/limits", "Max locked memory 8388608 8388608 bytes\n");
	ward_file("/proc/7/status", "Uid:\t1000\nCapEff:\t0\nCapBnd:\t00000000a80425fb\n");
	ward_link("/proc/7/fd/7", "/dev/infiniband/uverbs0");
	const struct doctor_finding *finding = ward_expect("memlock", DOCTOR_WARN);
	assert_string_equal(finding->object, "process 7 (python3)");
	assert_string_equal(finding->found, "an RDMA adapter open, and 8 MiB of locked memory");
	/* In the order in which they are to be thought of. */
	const char *root = strstr(finding->do_, "runAsUser: 0");
	const char *unit = strstr(finding->do_, "LimitMEMLOCK=infinity");
	const char *ours = strstr(finding->do_, "memlock: unlimited");
	assert_true(root && unit && ours && root < unit && unit < ours);
	assert_null(strstr(finding->do_, "..."));
	/* A pod's IPC_LOCK, for a user other than root. */
	ward_file("/proc/7/status", "Uid:\t1000\nCapEff:\t0\nCapBnd:\t00000000a80425fb\n");
	ward_file("/proc/7/cgroup", "0::/kubepods/pod8e5d2f10-0c1b-4c67-9d36-3f6a5b0c7d11/x\n");
	finding = ward_expect("memlock", DOCTOR_WARN);
	assert_null(strstr(finding->found, "IPC_LOCK"));
	ward_file("/proc/7/status", "Uid:\t1000\nCapEff:\t0\nCapBnd:\t0000000000004000\n");
	finding = ward_expect("memlock", DOCTOR_WARN);
	assert_non_null(strstr(finding->found, "IPC_LOCK was given to a user other than root"));
	assert_string_equal(finding->object,
			    "process 7 (python3) of pod 8e5d2f10-0c1b-4c67-9d36-3f6a5b0c7d11");
	/* Root of a user name space of its own. */
	ward_file("/proc/7/status", "Uid:\t0\nCapEff:\t0\nCapBnd:\t0000000000004000\n");
	assert_null(strstr(ward_expect("memlock", DOCTOR_WARN)->found, "IPC_LOCK"));
	/* In effect. */
	ward_file("/proc/7/status", "Uid:\t0\nCapEff:\t0000000000004000\nCapBnd:\t4000\n");
	(void)ward_expect("memlock", DOCTOR_OK);
	ward_file("/proc/7/status", "Uid:\t1000\n");
	ward_file("/proc/7/limits", "Max locked memory unlimited unlimited bytes\n");
	(void)ward_expect("memlock", DOCTOR_OK);
}

static void test_shm(void **state)
{
	(void)ward_expect("shm", DOCTOR_SKIP);
	ward_file("/proc/7/comm", "python3\n");
	ward_file("/proc/7/mountinfo", "1 2 0:5 / /dev/shm rw - tmpfs shm rw,size=65536k\n");
	ward_link("/proc/7/fd/3", "/dev/nvidia0");
	ward_link("/proc/7/fd/4", "/dev/nvidia0");
	ward_link("/proc/7/fd/6", "/dev/nvidia-uvm");
	(void)ward_expect("shm", DOCTOR_OK); /* one GPU has nobody to share with */
	ward_link("/proc/7/fd/5", "/dev/nvidia1");
	const struct doctor_finding *finding = ward_expect("shm", DOCTOR_WARN);
	assert_string_equal(finding->found, "2 GPUs, and a /dev/shm of 64 MiB");
	assert_int_equal(ward_run("shm")->count, 1); /* and not that there was nothing to see */
	/* Monitoring: all GPUs open, and no CUDA. */
	ward_remove("/proc/7/fd/6");
	(void)ward_expect("shm", DOCTOR_SKIP);
	ward_link("/proc/7/fd/6", "/dev/nvidia-uvm");
	ward_file("/proc/7/mountinfo", "1 2 0:5 / /dev/shm rw - tmpfs shm rw,size=8g\n");
	(void)ward_expect("shm", DOCTOR_OK);
	ward_remove("/proc/7/mountinfo");
	(void)ward_expect("shm", DOCTOR_OK); /* not told: nothing is claimed */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    ward_test(test_runtimes),
	    ward_test(test_the_service),
	    ward_test(test_fallback),
	    ward_test(test_shm),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
