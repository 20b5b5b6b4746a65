/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/usage/driver_users.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "unit/unit.h"

static char *tmp;
static struct driver_user users[DRIVER_USERS_MAX];

static int setup(void **state)
{
	tmp = unit_tmp_new();
	return 0;
}

static int teardown(void **state)
{
	tmp = unit_tmp_free(tmp);
	return 0;
}

static void process(const char *pid, const char *name, const char *first, const char *second)
{
	char path[FILE_PATH_MAX];
	assert_int_equal(file_path(path, NULL, "%s/%s/fd", tmp, pid), 0);
	assert_int_equal(file_mkdirs(path, 0755, NULL), 0);
	const char *const targets[] = {first, second};
	for (int i = 0; i < 2; i++) {
		assert_int_equal(file_path(path, NULL, "%s/%s/fd/%d", tmp, pid, i), 0);
		assert_int_equal(symlink(targets[i], path), 0);
	}
	assert_int_equal(file_path(path, NULL, "%s/%s/comm", tmp, pid), 0);
	unit_write(path, name);
}

static void test_who_has_a_node_open(void **state)
{
	process("17", "python3\n", "/dev/null", "/dev/nvidia0");
	process("18", "bash\n", "/dev/null", "/home/x/dev/nvidia0");
	process("19", "trainer-with-a-name-that-is-longer-than-any\n", "/dev/nvidia-uvm",
		"/dev/nvidiactl");
	process("sys", "no process\n", "/dev/nvidia0", "/dev/nvidia0");
	size_t count = driver_users_find(tmp, "/dev", users);
	assert_int_equal(count, 2);
	const struct driver_user *first = &users[users[0].pid != 17];
	assert_int_equal(first->pid, 17);
	assert_string_equal(first->name, "python3");
	assert_string_equal(first->node, "/dev/nvidia0");
	assert_int_equal(strlen(users[users[0].pid == 17].name), DRIVER_USERS_NAME_MAX - 1);
}

static void test_simulated_nodes(void **state)
{
	process("17", "python3\n", "/tmp/machine/dev/nvidia1", "/dev/nvidia0");
	assert_int_equal(driver_users_find(tmp, "/tmp/machine/dev", users), 1);
	assert_string_equal(users[0].node, "/dev/nvidia1");
}

static void test_many(void **state)
{
	char pid[16];
	for (int i = 0; i < DRIVER_USERS_MAX + 3; i++) {
		(void)snprintf(pid, sizeof(pid), "%d", 100 + i);
		process(pid, "x\n", "/dev/nvidiactl", "/dev/null");
	}
	assert_int_equal(driver_users_find(tmp, "/dev", users), DRIVER_USERS_MAX);
}

static void test_no_proc(void **state)
{
	assert_int_equal(driver_users_find(unit_path(tmp, "none"), "/dev", users), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
	    TEST(test_who_has_a_node_open),
	    TEST(test_simulated_nodes),
	    TEST(test_many),
	    TEST(test_no_proc),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
