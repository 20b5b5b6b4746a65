/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/jobs/run/run_streams.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "unit/unit.h"

static void refuses(const char *path, bool is_replaced, const char *why)
{
	struct err err = {0};
	assert_int_equal(run_streams_check("--report", path, is_replaced, &err), -EINVAL);
	if (!strstr(err.text, path) || !strstr(err.text, "--report") || !strstr(err.text, why))
		fail_msg("'%s' does not say '%s' of %s", err.text, why, path);
}

static void takes(const char *path, bool is_replaced)
{
	struct err err = {0};
	if (run_streams_check("--report", path, is_replaced, &err) != 0)
		fail_msg("%s", err.text);
}

static void test_check(void **state)
{
	(void)state;
	unit_write(unit_path(unit_top, "there"), "text");
	assert_int_equal(symlink("there", unit_path(unit_top, "link")), 0);
	for (int is_replaced = 0; is_replaced < 2; is_replaced++) {
		takes(unit_path(unit_top, "there"), is_replaced);
		takes(unit_path(unit_top, "new"), is_replaced);
		refuses(unit_path(unit_top, "none/new"), is_replaced, "No such file");
		refuses(unit_path(unit_top, "there/new"), is_replaced, "Not a directory");
		refuses(unit_path(unit_top, "link"), is_replaced, "not a plain file");
		refuses(unit_top, is_replaced, "not a plain file");
		refuses("/dev/full", is_replaced, "not a plain file");
		refuses("", is_replaced, "names no file");
	}
	assert_int_equal(chdir(unit_top), 0);
	takes("new", true);
	takes("./new", false);
	assert_int_equal(chdir("/"), 0);
}

static void test_check_permissions(void **state)
{
	(void)state;
	if (geteuid() == 0)
		skip(); /* root may write anywhere; tests/e2e/test_output_cap.py has an ordinary
			   user */
	unit_write(unit_path(unit_top, "there"), "text");
	assert_int_equal(chmod(unit_path(unit_top, "there"), 0444), 0);
	takes(unit_path(unit_top, "there"), true);
	refuses(unit_path(unit_top, "there"), false, "Permission denied");
	assert_int_equal(chmod(unit_top, 0555), 0);
	refuses(unit_path(unit_top, "there"), true, "Permission denied");
	refuses(unit_path(unit_top, "new"), false, "Permission denied");
	assert_int_equal(chmod(unit_top, 0755), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_check, unit_top_setup, unit_top_teardown),
	    cmocka_unit_test_setup_teardown(test_check_permissions, unit_top_setup,
					    unit_top_teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
