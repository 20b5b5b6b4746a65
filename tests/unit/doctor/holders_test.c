/* SPDX-License-Identifier: Apache-2.0 */
#include "doctor/holders.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "doctor/rootfs.h"
#include "tests/unit/doctor/ward.h"

static uint64_t rig_memlock(const char *text)
{
	uint64_t bytes = 12345;
	int rc = holders_parse_memlock(text, strlen(text), &bytes);
	assert_int_equal(rc, bytes == 12345 ? -EINVAL : 0);
	return bytes;
}

static void test_limits(void **state)
{
	assert_int_equal(
	    rig_memlock("Max locked memory         8388608              8388608   bytes"), 8388608);
	assert_true(rig_memlock("Max locked memory         unlimited   unlimited  bytes") ==
		    HOLDERS_UNLIMITED);
	assert_int_equal(rig_memlock("Max locked memory 0 0 bytes"), 0);
	assert_int_equal(rig_memlock("Max locked memory"), 12345);
	assert_int_equal(rig_memlock("Max locked memory x"), 12345);
	assert_int_equal(rig_memlock("Max locked memory 99999999999999999999999"), 12345);
	assert_int_equal(rig_memlock("Max open files 1 1"), 12345);
	assert_int_equal(rig_memlock(""), 12345);
}

static uint64_t rig_shm(const char *text)
{
	uint64_t bytes = 12345;
	int rc = holders_parse_shm(text, strlen(text), &bytes);
	assert_int_equal(rc, bytes == 12345 ? -EINVAL : 0);
	return bytes;
}

static void test_mounts(void **state)
{
	assert_int_equal(rig_shm("601 590 0:52 / /dev/shm rw - tmpfs shm rw,size=65536k"),
			 64 << 20);
	assert_int_equal(rig_shm("601 590 0:52 / /dev/shm rw master:1 propagate_from:2 - tmpfs shm "
				 "rw,size=8388608,inode64"),
			 8 << 20);
	assert_int_equal(rig_shm("1 2 0:5 / /dev/shm rw - tmpfs a rw,size=2g"), INT64_C(2) << 30);
	assert_int_equal(rig_shm("1 2 0:5 / /dev/shm rw - tmpfs a size=3m"), 3 << 20);
	assert_true(rig_shm("1 2 0:5 / /dev/shm rw - tmpfs a rw") == HOLDERS_UNLIMITED);
	assert_true(rig_shm("1 2 0:5 / /dev/shm rw - tmpfs a rw,xsize=3m") == HOLDERS_UNLIMITED);
	assert_true(rig_shm("1 2 0:5 / /dev/shm rw - tmpfs a size=99999999999999999999g") ==
		    HOLDERS_UNLIMITED);
	assert_int_equal(rig_shm("1 2 0:5 / /dev/shm2 rw - tmpfs a size=3m"), 12345);
	assert_int_equal(rig_shm("1 2 0:5 / /dev/shm rw - ext4 a size=3m"), 12345);
	assert_int_equal(rig_shm("1 2 0:5 / /dev/shm rw tmpfs"), 12345);
	assert_int_equal(rig_shm(""), 12345);
}

static const char *rig_pod(const char *text)
{
	static char pod[HOLDERS_POD_MAX];
	pod[0] = '\0';
	int rc = holders_parse_pod(text, strlen(text), pod);
	assert_int_equal(rc, *pod ? 0 : -EINVAL);
	return pod;
}

static void test_pods(void **state)
{
	assert_string_equal(
	    rig_pod("0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-"
		    "pod8e5d2f10_0c1b_4c67_9d36_3f6a5b0c7d11.slice/cri-containerd-1.scope"),
	    "8e5d2f10-0c1b-4c67-9d36-3f6a5b0c7d11");
	assert_string_equal(rig_pod("4:memory:/kubepods/pod8e5d2f10-0c1b-4c67-9d36-3f6a5b0c7d11/x"),
			    "8e5d2f10-0c1b-4c67-9d36-3f6a5b0c7d11");
	assert_string_equal(rig_pod("0::/podman/libpod-1"), "");
	assert_string_equal(rig_pod("pod"), "");
}

static void test_processes(void **state)
{
	struct rootfs rootfs;
	struct holders *holders = calloc(1, sizeof(*holders));
	assert_non_null(holders);
	ward_file("/proc/7/comm", "python3\n");
	ward_file("/proc/7/limits", "Limit\nMax locked memory 65536 65536 bytes\n");
	ward_file("/proc/7/status",
		  "Uid:\t1000\t0\t0\t0\nCapEff:\t0000000000004000\nCapBnd:\tff\n");
	ward_file("/proc/7/mountinfo", "1 2 0:5 / /dev/shm rw - tmpfs a size=64m\n"
				       "1 2 0:5 / /dev/shm rw - tmpfs a size=65m\n");
	ward_link("/proc/7/fd/0", "/dev/null");
	ward_link("/proc/7/fd/3", "/dev/nvidia0");
	ward_link("/proc/7/fd/4", "/dev/nvidia63");
	ward_link("/proc/7/fd/5", "/dev/nvidia64");
	ward_link("/proc/7/fd/6", "/dev/nvidia-uvm");
	ward_link("/proc/7/fd/7", "/dev/infiniband/uverbs0");
	ward_file("/proc/8/comm", "nobody\n");
	ward_link("/proc/8/fd/0", "/dev/nvidiactl");
	ward_link("/proc/9/fd/0", "/dev/infiniband/uverbs1");
	ward_file("/proc/x/comm", "none\n");
	assert_int_equal(rootfs_open(unit_top, false, &rootfs, NULL), 0);
	holders_scan(&rootfs, holders);
	rootfs_close(&rootfs);
	assert_int_equal(holders->count, 3);
	assert_int_equal(holders->hidden, 0);
	const struct holder *holder = &holders->holder[0];
	assert_int_equal(holder->pid, 7);
	assert_string_equal(holder->name, "python3");
	assert_true(holder->gpus == ((UINT64_C(1) << 63) | 1));
	assert_true(holder->has_uverbs);
	assert_int_equal(holder->memlock_bytes, 65536);
	assert_int_equal(holder->shm_bytes, 65 << 20);
	assert_int_equal(holder->uid, 1000);
	assert_int_equal(holder->effective, HOLDERS_IPC_LOCK);
	assert_int_equal(holder->bounding, 0xff);
	assert_true(holder->has_driver);
	assert_true(holder->has_uvm);
	/* One without a GPU. */
	assert_true(holders->holder[1].has_driver);
	assert_true(holders->holder[1].gpus == 0);
	assert_false(holders->holder[1].has_uvm);
	/* One that nothing is told of. */
	assert_false(holders->holder[2].has_driver);
	assert_string_equal(holders->holder[2].name, "?");
	assert_true(holders->holder[2].memlock_bytes == HOLDERS_UNKNOWN);
	free(holders);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_limits),
	    cmocka_unit_test(test_mounts),
	    cmocka_unit_test(test_pods),
	    ward_test(test_processes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
