/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/collectives/room.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/file.h"
#include "unit/unit.h"

static char root[] = "/tmp/sluice-room-XXXXXX";

static void put(const char *directory, const char *name, const char *text)
{
	char path[FILE_PATH_MAX];
	struct err err = {0};
	assert_int_equal(file_path(path, &err, "%s%s", root, directory), 0);
	assert_int_equal(file_mkdirs(path, 0755, &err), 0);
	assert_int_equal(file_path(path, &err, "%s%s/%s", root, directory, name), 0);
	assert_int_equal(file_write_atomic(path, text, strlen(text), 0644, &err), 0);
}

static void available_memory_is_read(void **state)
{
	uint64_t bytes = 7;
	const char text[] = "MemTotal: 4 kB\nMemAvailable:    1024 kB\nOther: 3 kB\n";
	assert_int_equal(room_parse_available(text, strlen(text), &bytes), 0);
	assert_int_equal(bytes, 1 << 20);
	bytes = 7;
	static const char *const wrong[] = {"", "MemFree: 3 kB\n", "MemAvailable: \n",
					    "MemAvailable: 99999999999999999999 kB\n",
					    "MemAvailable: 18446744073709551615 kB\n"};
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_int_equal(room_parse_available(wrong[i], strlen(wrong[i]), &bytes),
				 -EBADMSG);
	assert_int_equal(bytes, 7);
}

static void the_tightest_limit_counts(void **state)
{
	struct room room;
	room_find("/nonexistent", &room);
	assert_int_equal(room.bytes, UINT64_MAX);
	put("/proc", "meminfo", "MemAvailable: 8192 kB\n");
	room_find(root, &room);
	assert_int_equal(room.bytes, 8 << 20);
	assert_string_equal(room.limit, "MemAvailable of /proc/meminfo");
	/* the group itself has no limit, the one above has 4 MiB of which 3 are used, 1 as cache */
	put("/proc/self", "cgroup", "1:name=systemd:/x\n0::/pod/job\n");
	put("/sys/fs/cgroup/pod/job", "memory.max", "max\n");
	put("/sys/fs/cgroup/pod", "memory.max", "4194304\n");
	put("/sys/fs/cgroup/pod", "memory.current", "3145728\n");
	put("/sys/fs/cgroup/pod", "memory.stat", "anon 2097152\ninactive_file 1048576\n");
	room_find(root, &room);
	assert_int_equal(room.bytes, 2 << 20);
	assert_string_equal(room.limit, "memory.max of /sys/fs/cgroup/pod");
	/* more is used than there may be */
	put("/sys/fs/cgroup", "memory.max", "10\n");
	put("/sys/fs/cgroup", "memory.current", "4000\n");
	room_find(root, &room);
	assert_int_equal(room.bytes, 0);
}

static void version_1_counts_as_well(void **state)
{
	struct room room;
	put("/proc", "meminfo", "MemAvailable: 8192 kB\n");
	put("/proc/self", "cgroup", "9:memory:/old\n4:cpu,memory_not:/old\n");
	put("/sys/fs/cgroup/memory/old", "memory.limit_in_bytes", "1048576\n");
	put("/sys/fs/cgroup/memory/old", "memory.usage_in_bytes", "524288\n");
	put("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "9223372036854771712\n");
	room_find(root, &room);
	assert_int_equal(room.bytes, 512 << 10);
}

static int make_root(void **state)
{
	return mkdtemp(root) ? 0 : -1;
}

static int remove_root(void **state)
{
	char command[128];
	(void)snprintf(command, sizeof(command), "rm -r '%s'", root);
	return system(command); /* the directory of this test's own */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(available_memory_is_read),
	    cmocka_unit_test(the_tightest_limit_counts),
	    cmocka_unit_test(version_1_counts_as_well),
	};
	return cmocka_run_group_tests(tests, make_root, remove_root);
}
