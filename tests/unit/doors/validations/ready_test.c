/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/validations/ready.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "hardware/gpu.h"
#include "unit/unit.h"

static void test_driver_text(void **state)
{
	(void)state;
	static const struct {
		struct ready_driver driver;
		const char *text;
	} rows[] = {
	    {{.is_host = true},
	     "IS_HOST_DRIVER=true\n"
	     "NVIDIA_DRIVER_ROOT=/\n"
	     "DRIVER_ROOT_CTR_PATH=/host\n"
	     "NVIDIA_DEV_ROOT=/\n"
	     "DEV_ROOT_CTR_PATH=/host\n"},
	    {{.is_host = false, .has_dev_dir = true},
	     "IS_HOST_DRIVER=false\n"
	     "NVIDIA_DRIVER_ROOT=/run/nvidia/driver\n"
	     "DRIVER_ROOT_CTR_PATH=/driver-root\n"
	     "NVIDIA_DEV_ROOT=/run/nvidia/driver\n"
	     "DEV_ROOT_CTR_PATH=/driver-root\n"},
	    {{.is_host = false, .has_dev_dir = false},
	     "IS_HOST_DRIVER=false\n"
	     "NVIDIA_DRIVER_ROOT=/run/nvidia/driver\n"
	     "DRIVER_ROOT_CTR_PATH=/driver-root\n"
	     "NVIDIA_DEV_ROOT=/\n"
	     "DEV_ROOT_CTR_PATH=/host\n"},
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		char text[READY_TEXT_MAX];
		assert_int_equal(ready_driver_text(&rows[i].driver, text), strlen(rows[i].text));
		assert_string_equal(text, rows[i].text);
	}
}

static void test_names(void **state)
{
	(void)state;
	assert_string_equal(ready_name(READY_DRIVER), "driver-ready");
	assert_string_equal(ready_name(READY_TOOLKIT), "toolkit-ready");
	assert_string_equal(ready_name(READY_PLUGIN), "plugin-ready");
	assert_string_equal(ready_name(READY_PEERMEM), "nvidia-peermem-ready");
	assert_string_equal(ready_name(READY_GDRCOPY), "gdrcopy-ready");
	assert_string_equal(ready_name(READY_NVIDIA_FS), "nvidia-fs-ready");
	assert_string_equal(ready_name(READY_MOFED), "mofed-ready");
	assert_string_equal(ready_name(READY_COUNT), "unknown");
}

/* --- a machine of files ------------------------------------------------------------------------
 */

static struct gpu gpus[2];
static struct inventory inventory;

static void put(const char *path, const char *text)
{
	char full[FILE_PATH_MAX], parent[FILE_PATH_MAX];
	assert_int_equal(file_path(full, NULL, "%s/%s", unit_top, path), 0);
	(void)snprintf(parent, sizeof(parent), "%s", full);
	*strrchr(parent, '/') = '\0';
	assert_int_equal(file_mkdirs(parent, 0755, NULL), 0);
	unit_write(full, text);
}

static void take(const char *path)
{
	assert_int_equal(unlink(unit_path(unit_top, path)), 0);
}

static int setup(void **state)
{
	(void)unit_top_setup(state);
	gpus[0] = (struct gpu){.minor = 0};
	gpus[1] = (struct gpu){.minor = 3};
	inventory = (struct inventory){.gpu_count = 2, .gpus = gpus};
	(void)snprintf(inventory.driver_version, sizeof(inventory.driver_version), "580.82.07");
	(void)snprintf(inventory.library_path, sizeof(inventory.library_path),
		       "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.580.82.07");
	put("sys/module/nvidia/version", "580.82.07\n");
	put("dev/nvidiactl", "");
	put("dev/nvidia0", "");
	put("dev/nvidia3", "");
	return 0;
}

static struct ready_fact facts[READY_COUNT];
static struct ready_driver driver;

static enum ready_state look(void)
{
	const struct ready_question question = {.root = unit_top,
						.inventory = inventory.gpus ? &inventory : NULL};
	ready_look(&question, facts, &driver);
	return facts[READY_DRIVER].state;
}

static void test_a_driver(void **state)
{
	(void)state;
	assert_int_equal(look(), READY_YES);
	assert_true(driver.is_host);
	assert_string_equal(facts[READY_DRIVER].why, "");
	take("dev/nvidia3");
	assert_int_equal(look(), READY_NO);
	assert_non_null(strstr(facts[READY_DRIVER].why, "/dev/nvidia3"));
	gpus[1].state = GPU_STATE_LOST; /* the other one is enough */
	assert_int_equal(look(), READY_YES);
	gpus[0].state = GPU_STATE_LOST;
	assert_int_equal(look(), READY_NO);
	assert_non_null(strstr(facts[READY_DRIVER].why, "no GPU is well"));
	inventory.gpu_count = 0;
	assert_int_equal(look(), READY_NO);
	assert_non_null(strstr(facts[READY_DRIVER].why, "the driver has no GPU"));
	take("dev/nvidiactl");
	assert_int_equal(look(), READY_NO);
	assert_non_null(strstr(facts[READY_DRIVER].why, "/dev/nvidiactl"));
	inventory.gpus = NULL;
	assert_int_equal(look(), READY_NO);
	assert_non_null(strstr(facts[READY_DRIVER].why, "does not answer"));
}

static void test_two_versions(void **state)
{
	(void)state;
	put("sys/module/nvidia/version", "570.1\n");
	assert_int_equal(look(), READY_NO);
	assert_non_null(strstr(facts[READY_DRIVER].why,
			       "the kernel module is 570.1 and its library 580.82.07"));
	put("sys/module/nvidia/version", "580.82.07\n");
	(void)snprintf(inventory.library_path, sizeof(inventory.library_path),
		       "/usr/lib64/libnvidia-ml.so.570.1");
	assert_int_equal(look(), READY_NO);
	(void)snprintf(inventory.library_path, sizeof(inventory.library_path),
		       "/usr/lib64/libnvidia-ml.so.1");
	assert_int_equal(look(), READY_YES);
	take("sys/module/nvidia/version");
	assert_int_equal(look(), READY_NO);
	assert_non_null(strstr(facts[READY_DRIVER].why, "no NVIDIA kernel module"));
}

static void test_a_driver_container(void **state)
{
	(void)state;
	put("run/nvidia/driver/usr/lib64/libnvidia-ml.so.1", "");
	assert_int_equal(look(), READY_YES);
	assert_false(driver.is_host || driver.has_dev_dir);
	take("dev/nvidiactl");
	assert_int_equal(look(), READY_NO);
	put("run/nvidia/driver/dev/nvidiactl", "");
	assert_int_equal(look(), READY_YES);
	assert_true(driver.has_dev_dir);
	/* On the real machine the library that was loaded says it, or who has mounted it. */
	struct ready_question question = {.root = "", .inventory = &inventory};
	ready_look(&question, facts, &driver);
	assert_true(driver.is_host);
	(void)snprintf(inventory.library_path, sizeof(inventory.library_path),
		       "/run/nvidia/driver/usr/lib64/libnvidia-ml.so.580.82.07");
	ready_look(&question, facts, &driver);
	assert_false(driver.is_host);
	(void)snprintf(inventory.library_path, sizeof(inventory.library_path),
		       "/driver-root/usr/lib64/libnvidia-ml.so.580.82.07");
	ready_look(&question, facts, &driver);
	assert_true(driver.is_host);
	question.driver_root = "/run/nvidia/driver";
	ready_look(&question, facts, &driver);
	assert_false(driver.is_host);
}

static void test_modules(void **state)
{
	(void)state;
	static const struct {
		const char *path;
		enum ready_what what;
	} rows[] = {
	    {"sys/module/nvidia_peermem/refcnt", READY_PEERMEM},
	    {"sys/module/gdrdrv/refcnt", READY_GDRCOPY},
	    {"sys/module/nvidia_fs/refcnt", READY_NVIDIA_FS},
	    {"sys/module/mlx5_core/refcnt", READY_MOFED},
	    {"run/mellanox/drivers/.driver-ready", READY_MOFED},
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		char path[FILE_PATH_MAX];
		(void)look();
		assert_int_equal(facts[rows[i].what].state, READY_NO);
		assert_non_null(strstr(facts[rows[i].what].why, "is not loaded"));
		put(rows[i].path, "");
		(void)look();
		assert_int_equal(facts[rows[i].what].state, READY_YES);
		take(rows[i].path);
		(void)snprintf(path, sizeof(path), "%s/%s", unit_top, rows[i].path);
		*strrchr(path, '/') = '\0';
		assert_int_equal(rmdir(path), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_driver_text),
	    cmocka_unit_test(test_names),
	    cmocka_unit_test_setup_teardown(test_a_driver, setup, unit_top_teardown),
	    cmocka_unit_test_setup_teardown(test_two_versions, setup, unit_top_teardown),
	    cmocka_unit_test_setup_teardown(test_a_driver_container, setup, unit_top_teardown),
	    cmocka_unit_test_setup_teardown(test_modules, setup, unit_top_teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
