/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/jobgroup.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/file.h"
#include "unit/unit.h"

static int setup(void **state)
{
	*state = unit_tmp_new();
	return 0;
}

static int teardown(void **state)
{
	*state = unit_tmp_free(*state);
	return 0;
}

static void test_roots_lies_at_the_top(void **state)
{
	const char *const mounts[] = {"/nonexistent", *state, NULL};
	const struct jobgroup_places places = {
	    .mounts = mounts, .self = "/nonexistent", .any_file_system = true};
	char one[JOBGROUP_PATH_MAX], other[JOBGROUP_PATH_MAX];
	struct err err = {0};
	assert_int_equal(jobgroup_make("/a", true, &places, one, &err), 0);
	assert_memory_equal(one, *state, strlen(*state));
	assert_ptr_equal(strrchr(one, '/'), one + strlen(*state));
	assert_int_equal(jobgroup_make("/b", true, &places, other, &err), 0);
	assert_string_not_equal(one, other);
	assert_int_equal(jobgroup_make("/a", true, &places, other, &err), 0); /* there already */
	assert_string_equal(one, other);
	jobgroup_remove(one);
	assert_false(file_exists(one));
	jobgroup_remove("");
}

static void test_a_users_lies_in_his_own(void **state)
{
	const char *const mounts[] = {*state, NULL};
	const struct jobgroup_places places = {
	    .mounts = mounts, .self = unit_path(*state, "self"), .any_file_system = true};
	char path[JOBGROUP_PATH_MAX], wanted[FILE_PATH_MAX];
	struct err err = {0};
	assert_int_equal(jobgroup_make("/a", false, &places, path, &err), -ENOENT);
	unit_write(places.self, "12:memory:/x\n0::/user.slice/app\n");
	assert_int_equal(jobgroup_make("/a", false, &places, path, &err), -ENOENT);
	assert_int_equal(file_path(wanted, &err, "%s/user.slice/app", (const char *)*state), 0);
	assert_int_equal(file_mkdirs(wanted, 0755, &err), 0);
	assert_int_equal(jobgroup_make("/a", false, &places, path, &err), 0);
	assert_memory_equal(path, wanted, strlen(wanted));
	unit_write(places.self, "12:memory:/x\n");
	assert_int_equal(jobgroup_make("/a", false, &places, path, &err), -ENOENT);
}

static void test_a_machine_without(void **state)
{
	const char *const mounts[] = {*state, NULL};
	const struct jobgroup_places places = {.mounts = mounts, .self = "/proc/self/cgroup"};
	char path[JOBGROUP_PATH_MAX];
	struct err err = {0};
	assert_int_equal(jobgroup_make("/a", true, &places, path, &err), -ENOENT);
	assert_non_null(strstr(err.text, "cgroup v2"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_roots_lies_at_the_top, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_a_users_lies_in_his_own, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_a_machine_without, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
