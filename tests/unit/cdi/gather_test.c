/* SPDX-License-Identifier: Apache-2.0 */
#include "cdi/gather.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/file.h"
#include "hardware/minors.h"
#include "tests/unit/cdi/tree.h"
#include "tests/unit/failmalloc.h"
#include "tests/unit/unit.h"

#define V      "580.82.07"
#define MODULE "NVRM version: NVIDIA UNIX x86_64 Kernel Module  "

static void text(const char *path, const char *content)
{
	tree_text(unit_top, path, content);
}

static void library(const char *path, const char *soname)
{
	tree_library(unit_top, path, soname);
}

static void driver(void)
{
	library("/usr/lib64/libcuda.so." V, "libcuda.so.1");
	library("/usr/lib64/libnvidia-ml.so." V, "libnvidia-ml.so.1");
}

static int gather(struct gather *out, struct err *err)
{
	const struct gather_options options = {.root = unit_top};
	return gather_read(&options, out, err);
}

static void test_all_of_it(void **state)
{
	(void)state;
	driver();
	text("/sys/module/nvidia/version", V "\n");
	text("/proc/driver/nvidia/version", MODULE V "  Mon\n");
	text("/proc/driver/nvidia-caps/mig-minors", "gpu0/gi1/access 12\n");
	text("/sys/module/firmware_class/parameters/path", "/opt/fw\n");
	text("/opt/fw/nvidia/" V "/gsp_ga10x.bin", "firmware");
	_cleanup_gather_ struct gather all = {.has_driver = false};
	struct err err = {0};
	if (gather(&all, &err) < 0)
		fail_msg("%s", err.text);
	assert_string_equal(all.kernel_version, V);
	assert_true(all.has_driver);
	assert_int_equal(minors_count(all.minors), 1);
	assert_int_equal(all.driver.file_count, 3);
	assert_string_equal(all.driver.files[2].path, "/opt/fw/nvidia/" V "/gsp_ga10x.bin");
	assert_int_equal(gather_check(&all, V, NULL), 0);
	assert_int_equal(gather_check(&all, "", NULL), 0);
}

static void test_versions_that_differ(void **state)
{
	(void)state;
	driver();
	struct err err = {0};
	_cleanup_gather_ struct gather none = {.has_driver = false}, two = none, old = none;
	assert_int_equal(gather(&none, &err), 0); /* no module is loaded */
	assert_string_equal(none.kernel_version, "");
	assert_int_equal(gather_check(&none, "", &err), -ENXIO);
	assert_non_null(strstr(err.text, "modprobe nvidia"));

	text("/sys/module/nvidia/version", V "\n");
	text("/proc/driver/nvidia/version", MODULE "570.1.2  Mon\n");
	assert_int_equal(gather(&two, &err), 0);
	assert_int_equal(gather_check(&two, "", &err), -ESTALE);
	assert_non_null(strstr(err.text, "570.1.2"));
	two.proc_version[0] = '\0';
	assert_int_equal(gather_check(&two, "570.1.2", &err), -ESTALE);
	assert_non_null(strstr(err.text, "NVML"));

	text("/sys/module/nvidia/version", "590.1\n");
	text("/proc/driver/nvidia/version", MODULE "590.1  Mon\n");
	assert_int_equal(gather(&old, &err), 0);
	assert_int_equal(gather_check(&old, "590.1", &err), -ESTALE);
	assert_non_null(strstr(err.text, "590.1"));
	assert_non_null(strstr(err.text, "reboot"));
}

static void test_nothing_there(void **state)
{
	(void)state;
	struct err err = {0};
	struct gather untouched = {.kernel_version = "as it was"};
	assert_int_equal(gather(&untouched, &err), -ENOENT);
	assert_string_equal(untouched.kernel_version, "as it was");
	const struct gather_options elsewhere = {.root = unit_top, .driver_root = "relative"};
	assert_int_equal(gather_read(&elsewhere, &untouched, &err), -EINVAL);
	const struct gather_options simulated = {.root = "/dev/null"};
	assert_int_equal(gather_read(&simulated, &untouched, &err), -ENOTDIR);
}

static void test_another_directory(void **state)
{
	(void)state;
	library("/opt/driver/libcuda.so." V, "libcuda.so.1");
	library("/opt/driver/libnvidia-ml.so." V, "libnvidia-ml.so.1");
	static const char *const directories[] = {"/opt/driver", "/not/there"};
	struct gather_options options = {.root = unit_top};
	_cleanup_gather_ struct gather all = {.has_driver = false};
	assert_int_equal(gather_read(&options, &all, NULL), -ENOENT);
	options.directories = directories;
	options.directory_count = 2;
	assert_int_equal(gather_read(&options, &all, NULL), 0);
	assert_int_equal(all.driver.file_count, 2);
}

static int gather_again(void *context)
{
	(void)context;
	_cleanup_gather_ struct gather all = {.has_driver = false};
	return gather(&all, NULL);
}

static void test_without_memory(void **state)
{
	(void)state;
	driver();
	text("/proc/driver/nvidia-caps/mig-minors", "gpu0/gi1/access 12\n");
	assert_true(failmalloc_each(gather_again, NULL) > 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_all_of_it, unit_top_setup, unit_top_teardown),
	    cmocka_unit_test_setup_teardown(test_versions_that_differ, unit_top_setup,
					    unit_top_teardown),
	    cmocka_unit_test_setup_teardown(test_nothing_there, unit_top_setup, unit_top_teardown),
	    cmocka_unit_test_setup_teardown(test_another_directory, unit_top_setup,
					    unit_top_teardown),
	    cmocka_unit_test_setup_teardown(test_without_memory, unit_top_setup, unit_top_teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
