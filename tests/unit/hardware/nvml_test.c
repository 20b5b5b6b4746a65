/* SPDX-License-Identifier: Apache-2.0 */
#include "hardware/nvml.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "unit/unit.h"

static char *directory;
static struct call_mark mark;
static struct err err;

static int setup(void **state)
{
	directory = unit_tmp_new();
	memset(&mark, 0, sizeof(mark));
	memset(&err, 0, sizeof(err));
	unsetenv("FAKE_NVML");
	unsetenv("SLUICE_SIM_PROFILE");
	/* Everything here is about a simulated machine: no test may load the driver of this one. */
	setenv("SLUICE_SIM_STATE", "/nonexistent/sim.state", 1);
	return 0;
}

static int teardown(void **state)
{
	directory = unit_tmp_free(directory);
	return 0;
}

static void use(const char *kind)
{
	char path[4096];
	(void)snprintf(path, sizeof(path), "%s/%s", getenv("FAKE_NVML_DIR"), kind);
	setenv("LD_LIBRARY_PATH", path, 1);
}

static int try_open(void)
{
	struct nvml *nvml = NULL;
	int rc = nvml_open(directory, &mark, &nvml, &err);
	nvml_close(nvml);
	assert_int_equal(mark.begin_ns, 0); /* no mark is left behind */
	return rc;
}

static void test_whole(void **state)
{
	struct nvml *nvml = NULL;
	use("whole");
	assert_int_equal(nvml_open(directory, &mark, &nvml, &err), 0);
	assert_string_equal(nvml->driver_version, "570.00.01");
	assert_string_equal(nvml->nvml_version, "12.570.00.01");
	assert_non_null(strstr(nvml->path, "/fake/whole/libnvidia-ml.so.1"));
	assert_int_equal(nvml->variant[NVML_FN_count], 0);
	assert_int_equal(nvml->variant[NVML_FN_by_index], 0);
	assert_int_equal(nvml->variant[NVML_FN_compute_processes], 2);
	struct nvml_caller caller = {.nvml = nvml, .mark = &mark};
	uint32_t count = 0;
	assert_int_equal(NVML_CALL(&caller, count, &count), NVML_OK);
	assert_int_equal(count, 2);
	nvml_close(nvml);
	assert_null(nvml_close(NULL));
}

/* A driver of long ago: plain names only, and many functions not there at all. */
static void test_old_names(void **state)
{
	struct nvml *nvml = NULL;
	use("old");
	assert_int_equal(nvml_open(directory, &mark, &nvml, &err), 0);
	assert_int_equal(nvml->variant[NVML_FN_count], 1);
	assert_int_equal(nvml->variant[NVML_FN_pci_info], 255);
	struct nvml_caller caller = {.nvml = nvml, .mark = &mark};
	struct nvml_pci_info pci;
	uint64_t calls = mark.count;
	assert_int_equal(NVML_CALL(&caller, pci_info, NULL, &pci), NVML_FUNCTION_NOT_FOUND);
	assert_int_equal(mark.count, calls);
	nvml_close(nvml);
}

static void test_missing_symbol(void **state)
{
	use("broken");
	assert_int_equal(try_open(), -ELIBBAD);
	assert_non_null(strstr(err.text, "nvmlDeviceGetUUID"));
	assert_non_null(strstr(err.text, "half installed"));
}

static void test_no_library(void **state)
{
	setenv("LD_LIBRARY_PATH", directory, 1);
	assert_int_equal(try_open(), -ENODEV);
	assert_non_null(strstr(err.text, "sluice sim exec"));
	unsetenv("LD_LIBRARY_PATH");
	assert_int_equal(try_open(), -ENODEV);
}

static void test_not_elf(void **state)
{
	unit_write(unit_path(directory, "libnvidia-ml.so.1"), "this is no library");
	setenv("LD_LIBRARY_PATH", directory, 1);
	assert_int_equal(try_open(), -ELIBBAD);
	assert_non_null(strstr(err.text, "half installed"));
	assert_non_null(strstr(err.text, directory));
}

static void test_link_to_nothing(void **state)
{
	assert_int_equal(symlink("libnvidia-ml.so.570", unit_path(directory, "libnvidia-ml.so.1")),
			 0);
	setenv("LD_LIBRARY_PATH", directory, 1);
	assert_int_equal(try_open(), -EPERM); /* not the simulator's */
	assert_non_null(strstr(err.text, "is not the simulator's"));
}

/* The rule that lets tests run on machines with GPUs: the system's driver is never loaded. */
static void test_system_library_is_refused(void **state)
{
	if (access("/usr/lib/x86_64-linux-gnu/libm.so.6", R_OK) != 0)
		skip();
	assert_int_equal(symlink("/usr/lib/x86_64-linux-gnu/libm.so.6",
				 unit_path(directory, "libnvidia-ml.so.1")),
			 0);
	setenv("LD_LIBRARY_PATH", directory, 1);
	assert_int_equal(try_open(), -EPERM);
	assert_int_equal(mark.gpu, CALL_MARK_NO_GPU);
}

static void test_init_errors(void **state)
{
	static const struct {
		const char *behaviour;
		int code;
		const char *says;
	} cases[] = {
	    {"init=9", -ENODEV, "sluice sim start"},   {"init=4", -EACCES, "/dev/nvidiactl"},
	    {"init=12", -ELIBBAD, "half installed"},   {"init=18", -ELIBBAD, "library 570.00.01"},
	    {"init=999", -EIO, "unknown error (999)"}, {"init=28", -ENODEV, "no GPU"},
	};
	use("whole");
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		setenv("FAKE_NVML", cases[i].behaviour, 1);
		assert_int_equal(try_open(), cases[i].code);
		if (!strstr(err.text, cases[i].says))
			fail_msg("%s: '%s' is not in '%s'", cases[i].behaviour, cases[i].says,
				 err.text);
	}
}

static void test_mismatch_names_both_versions(void **state)
{
	use("whole");
	setenv("FAKE_NVML", "init=18", 1);
	char path[4096];
	(void)snprintf(path, sizeof(path), "mkdir -p %s/sys/module/nvidia", directory);
	assert_int_equal(system(path), 0);
	unit_write(unit_path(directory, "sys/module/nvidia/version"), "535.104.05\n");
	assert_int_equal(try_open(), -ELIBBAD);
	assert_non_null(strstr(err.text, "library 570.00.01"));
	assert_non_null(strstr(err.text, "kernel module 535.104.05"));
}

static void test_process_entries(void **state)
{
	assert_int_equal(nvml_process_entry_bytes(0, "580.1"), 24);
	assert_int_equal(nvml_process_entry_bytes(1, "535.54.03"), 24);
	assert_int_equal(nvml_process_entry_bytes(2, "535.54.03"), 16);
	assert_int_equal(nvml_process_entry_bytes(0, "535.54.03"), 32);
	assert_int_equal(nvml_process_entry_bytes(0, "535.98"), 24);
	assert_int_equal(nvml_process_entry_bytes(0, "535.104.05"), 24);
	assert_int_equal(nvml_process_entry_bytes(0, ""), 24);
	assert_int_equal(nvml_process_entry_bytes(0, "535."), 24);
}

/* Sizes and places as a compiler gives them for nvml.h of CUDA 13. */
static void test_layouts(void **state)
{
	assert_int_equal(sizeof(struct nvml_pci_info), 68);
	assert_int_equal(offsetof(struct nvml_pci_info, domain), 16);
	assert_int_equal(offsetof(struct nvml_pci_info, bus_id), 36);
	assert_int_equal(sizeof(struct nvml_memory), 24);
	assert_int_equal(offsetof(struct nvml_memory, free), 8);
	assert_int_equal(sizeof(struct nvml_memory_v2), 40);
	assert_int_equal(offsetof(struct nvml_memory_v2, used), 32);
	assert_int_equal(NVML_STRUCT_WORD(struct nvml_memory_v2, 2), 0x02000028);
	assert_int_equal(sizeof(struct nvml_bar1), 24);
	assert_int_equal(sizeof(struct nvml_utilization), 8);
	assert_int_equal(sizeof(struct nvml_event_data), 32);
	assert_int_equal(offsetof(struct nvml_event_data, gi), 24);
	assert_int_equal(sizeof(struct nvml_field_value), 40);
	assert_int_equal(offsetof(struct nvml_field_value, value), 32);
	assert_int_equal(sizeof(struct nvml_attributes), 40);
	assert_int_equal(offsetof(struct nvml_attributes, memory_mib), 32);
	assert_int_equal(sizeof(struct nvml_process_sample), 32);
	assert_int_equal(sizeof(struct nvml_violation), 16);
	assert_int_equal(sizeof(struct nvml_temperature), 12);
	assert_int_equal(NVML_STRUCT_WORD(struct nvml_temperature, 1), 0x0100000c);
}

static void test_words(void **state)
{
	assert_string_equal(nvml_function_to_string(NVML_FN_count), "nvmlDeviceGetCount_v2");
	assert_string_equal(nvml_function_to_string(NVML_FN_COUNT), "unknown");
	assert_string_equal(nvml_return_to_string(NVML_GPU_IS_LOST), "the GPU is lost");
	assert_true(nvml_return_is_absent(NVML_NOT_SUPPORTED));
	assert_true(nvml_return_is_absent(NVML_NO_DATA));
	assert_false(nvml_return_is_absent(NVML_GPU_IS_LOST));
	assert_false(nvml_return_is_absent(NVML_UNKNOWN));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
	    TEST(test_whole),
	    TEST(test_old_names),
	    TEST(test_missing_symbol),
	    TEST(test_no_library),
	    TEST(test_not_elf),
	    TEST(test_link_to_nothing),
	    TEST(test_system_library_is_refused),
	    TEST(test_init_errors),
	    TEST(test_mismatch_names_both_versions),
	    TEST(test_process_entries),
	    TEST(test_layouts),
	    TEST(test_words),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
