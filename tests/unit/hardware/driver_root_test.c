/* SPDX-License-Identifier: Apache-2.0 */
#include "hardware/driver_root.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "unit/unit.h"

#define NAME "libnvidia-ml.so.1"

/* A file below the test's directory, and the directories above it. */
static void put(const char *name)
{
	char path[FILE_PATH_MAX];
	(void)snprintf(path, sizeof(path), "%s", unit_path(unit_top, name));
	*strrchr(path, '/') = '\0';
	assert_int_equal(file_mkdirs(path, 0755, NULL), 0);
	unit_write(unit_path(unit_top, name), "library");
}

/* NULL: it is found nowhere. */
static void expect(const char *name)
{
	char out[FILE_PATH_MAX] = "untouched", real[PATH_MAX];
	bool found = driver_root_find(unit_top, NAME, out);
	assert_int_equal(found, name != NULL);
	if (name)
		assert_non_null(realpath(unit_path(unit_top, name), real));
	assert_string_equal(out, name ? real : "untouched");
}

/* Each is preferred to those that were there before it. */
static void test_order(void **state)
{
	static const char *const files[] = {
	    "driver-root/lib/aarch64-linux-gnu/" NAME,
	    "driver-root/lib64/" NAME,
	    "driver-root/usr/lib/aarch64-linux-gnu/" NAME,
	    "run/nvidia/driver/usr/lib/x86_64-linux-gnu/" NAME,
	    "run/nvidia/driver/usr/lib64/" NAME,
	    "host/lib/x86_64-linux-gnu/" NAME,
	};
	expect(NULL);
	for (size_t i = 0; i < array_length(files); i++) {
		put(files[i]);
		expect(files[i]);
	}
}

/* Debian's alternatives: from /usr/lib to /etc and back, each link as if the root were "/". */
static void test_links_stay_below_the_root(void **state)
{
	put("host/usr/lib/x86_64-linux-gnu/nvidia/current/libnvidia-ml.so.535.261.03");
	put("host/etc/alternatives/else");
	assert_int_equal(
	    symlink("libnvidia-ml.so.535.261.03",
		    unit_path(unit_top, "host/usr/lib/x86_64-linux-gnu/nvidia/current/" NAME)),
	    0);
	assert_int_equal(symlink("/usr/lib/x86_64-linux-gnu/nvidia/current/" NAME,
				 unit_path(unit_top, "host/etc/alternatives/nvidia--" NAME)),
			 0);
	assert_int_equal(symlink("/etc/alternatives/nvidia--" NAME,
				 unit_path(unit_top, "host/usr/lib/x86_64-linux-gnu/" NAME)),
			 0);
	expect("host/usr/lib/x86_64-linux-gnu/nvidia/current/libnvidia-ml.so.535.261.03");
}

static void test_what_is_no_library(void **state)
{
	put("host/usr/lib64/" NAME "/directory");
	expect(NULL);
	assert_int_equal(file_mkdirs(unit_path(unit_top, "host/lib64"), 0755, NULL), 0);
	assert_int_equal(symlink("/nowhere", unit_path(unit_top, "host/lib64/" NAME)), 0);
	expect(NULL);
	/* a root that is a file, before one that has it */
	unit_write(unit_path(unit_top, "run"), "");
	put("driver-root/usr/lib64/" NAME);
	expect("driver-root/usr/lib64/" NAME);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_order, unit_top_setup, unit_top_teardown),
	    cmocka_unit_test_setup_teardown(test_links_stay_below_the_root, unit_top_setup,
					    unit_top_teardown),
	    cmocka_unit_test_setup_teardown(test_what_is_no_library, unit_top_setup,
					    unit_top_teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
