/* SPDX-License-Identifier: Apache-2.0 */
#include "hardware/inventory.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/file.h"
#include "unit/unit.h"

static char *directory;
static struct call_mark mark;
static struct err err;
static struct nvml *nvml;
static struct inventory inventory;
static nvml_device handles[GPU_MAX];

static int setup(void **state)
{
	directory = unit_tmp_new();
	memset(&err, 0, sizeof(err));
	memset(handles, 0, sizeof(handles));
	inventory_init(&inventory);
	setenv("SLUICE_SIM_STATE", "/nonexistent/sim.state", 1);
	unsetenv("FAKE_NVML");
	nvml = NULL;
	return 0;
}

static int teardown(void **state)
{
	inventory_done(&inventory);
	nvml = nvml_close(nvml);
	directory = unit_tmp_free(directory);
	return 0;
}

static void start(const char *kind, const char *behaviour)
{
	char path[4096];
	(void)snprintf(path, sizeof(path), "%s/%s", getenv("FAKE_NVML_DIR"), kind);
	setenv("LD_LIBRARY_PATH", path, 1);
	setenv("FAKE_NVML", behaviour, 1);
	assert_int_equal(nvml_open(directory, &mark, &nvml, &err), 0);
}

static int read_with(const struct inventory_skip *skip, uint32_t count)
{
	struct nvml_caller caller = {.nvml = nvml, .mark = &mark};
	const struct inventory_request request = {
	    .root = directory, .skip = skip, .skip_count = count};
	return inventory_read(&caller, &request, &inventory, handles, &err);
}

/* /proc/driver/nvidia/gpus/0000:NN:00.0/information for buses 1 to `count`. */
static void make_proc(uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		char path[4096], text[512];
		(void)snprintf(path, sizeof(path), "%s/proc/driver/nvidia/gpus/0000:%02x:00.0",
			       directory, i + 1);
		assert_int_equal(file_mkdirs(path, 0755, NULL), 0);
		(void)snprintf(text, sizeof(text),
			       "Model: \t\t Proc GPU\nGPU UUID: \t GPU-51ce51ce-0000-0000-0000-"
			       "%012u\nDevice Minor: \t %u\n",
			       i, i + 40);
		unit_write(unit_path(path, "information"), text);
	}
}

static void test_two(void **state)
{
	start("whole", "gpus=2 mig=3");
	assert_int_equal(read_with(NULL, 0), 0);
	assert_int_equal(inventory.gpu_count, 2);
	assert_true(inventory.simulated);
	assert_string_equal(inventory.driver_version, "570.00.01");
	const struct gpu *gpu = &inventory.gpus[1];
	assert_string_equal(gpu->uuid, "GPU-51ce51ce-0000-0000-0000-000000000001");
	assert_string_equal(gpu->name, "Fake GPU");
	assert_int_equal(gpu->pci.bus, 2);
	assert_int_equal(gpu->minor, 1);
	assert_int_equal(gpu->numa_node, GPU_NUMA_NONE);
	/* what the library does not give is not known, never 0 */
	assert_true(gpu->memory_bytes == GPU_U64_UNKNOWN);
	assert_int_equal(gpu->power_limit_mw, GPU_U32_UNKNOWN);
	assert_int_equal(gpu->cc_major, GPU_U32_UNKNOWN);
	assert_int_equal(inventory.mig_count, 3);
	assert_int_equal(inventory.migs[2].parent, 0);
	assert_int_equal(inventory.migs[2].gi, 9);
	assert_string_equal(inventory.migs[2].profile, "1g.5gb");
	assert_non_null(handles[1]);
}

static void test_sixty_four(void **state)
{
	start("whole", "gpus=64");
	assert_int_equal(read_with(NULL, 0), 0);
	assert_int_equal(inventory.gpu_count, 64);
	assert_string_equal(inventory.gpus[63].uuid, "GPU-51ce51ce-0000-0000-0000-000000000063");
	assert_non_null(handles[63]);
}

static void test_old_library(void **state)
{
	start("old", "gpus=3");
	assert_int_equal(read_with(NULL, 0), 0);
	assert_int_equal(inventory.gpu_count, 3);
	assert_false(inventory.gpus[0].has_pci);
	assert_int_equal(inventory.gpus[2].state, GPU_STATE_OK);
}

/* It is listed, as itself, with what /proc knows; the others are untouched. */
static void test_one_lost(void **state)
{
	make_proc(4);
	start("whole", "gpus=4 uuid:2=15 pci:2=15 name:2=15");
	assert_int_equal(read_with(NULL, 0), 0);
	assert_int_equal(inventory.gpu_count, 4);
	const struct gpu *gpu = &inventory.gpus[2];
	assert_int_equal(gpu->state, GPU_STATE_LOST);
	assert_non_null(strstr(gpu->reason, "fallen off the bus"));
	assert_string_equal(gpu->uuid, "GPU-51ce51ce-0000-0000-0000-000000000002");
	assert_string_equal(gpu->name, "Proc GPU");
	assert_int_equal(gpu->minor, 2);
	assert_int_equal(gpu->pci.bus, 3);
	assert_int_equal(inventory.gpus[3].state, GPU_STATE_OK);
	assert_string_equal(inventory.gpus[3].name, "Fake GPU");
}

static void test_no_handle(void **state)
{
	make_proc(3);
	start("whole", "gpus=3 handle:1=16");
	assert_int_equal(read_with(NULL, 0), 0);
	const struct gpu *gpu = &inventory.gpus[1];
	assert_int_equal(gpu->state, GPU_STATE_RESET_REQUIRED);
	assert_string_equal(gpu->name, "Proc GPU");
	assert_int_equal(gpu->minor, 41);
	assert_null(handles[1]);
	assert_non_null(handles[2]);
}

/* Counted a moment ago, gone now, and the driver does not list it either: it is gone. */
static void test_vanished(void **state)
{
	make_proc(2);
	start("whole", "gpus=3 handle:2=6");
	assert_int_equal(read_with(NULL, 0), 0);
	assert_int_equal(inventory.gpu_count, 2);
	assert_string_equal(inventory.gpus[1].uuid, "GPU-51ce51ce-0000-0000-0000-000000000001");
}

static void test_unknown_error(void **state)
{
	start("whole", "gpus=2 uuid:0=999");
	assert_int_equal(read_with(NULL, 0), 0);
	assert_int_equal(inventory.gpus[0].state, GPU_STATE_ERROR);
	assert_string_equal(inventory.gpus[0].reason, "nvmlDeviceGetUUID: unknown error (999)");
	assert_int_equal(inventory.gpus[1].state, GPU_STATE_OK);
}

/* The skipped GPU hangs on every call: reading it would never end. */
static void test_skip_by_bus(void **state)
{
	make_proc(4);
	start("whole", "gpus=4 handle:1=hang uuid:1=hang pci:1=hang name:1=hang");
	const struct inventory_skip skip = {.index = 1, .bus = "0000:02:00.0"};
	assert_int_equal(read_with(&skip, 1), 0);
	assert_int_equal(inventory.gpu_count, 4);
	assert_int_equal(inventory.gpus[1].state, GPU_STATE_HUNG);
	assert_string_equal(inventory.gpus[1].uuid, "GPU-51ce51ce-0000-0000-0000-000000000001");
	assert_null(handles[1]);
	assert_int_equal(inventory.gpus[2].state, GPU_STATE_OK);
	assert_int_equal(inventory.gpus[2].index, 2);
}

static void test_skip_by_index(void **state)
{
	start("whole", "gpus=3 handle:0=hang");
	const struct inventory_skip skip = {.index = 0, .bus = ""};
	assert_int_equal(read_with(&skip, 1), 0);
	assert_int_equal(inventory.gpu_count, 3);
	uint32_t hung = 0;
	for (uint32_t i = 0; i < 3; i++)
		hung += inventory.gpus[i].state == GPU_STATE_HUNG;
	assert_int_equal(hung, 1);
}

/* The safety net of the tests: a GPU that is not simulated ends everything. */
static void test_real_gpu_is_refused(void **state)
{
	start("whole", "gpus=2 real");
	assert_int_equal(read_with(NULL, 0), -EPERM);
	assert_non_null(strstr(err.text, "GPU-00000000-"));
	assert_int_equal(inventory.gpu_count, 0);
}

static void test_mig_profile(void **state)
{
	char profile[GPU_PROFILE_MAX];
	inventory_mig_profile("NVIDIA A100-SXM4-40GB MIG 1c.3g.20gb", profile);
	assert_string_equal(profile, "1c.3g.20gb");
	inventory_mig_profile("NVIDIA A100", profile);
	assert_string_equal(profile, "");
	inventory_mig_profile("MIG aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", profile);
	assert_int_equal(strlen(profile), GPU_PROFILE_MAX - 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
	    TEST(test_two),	      TEST(test_sixty_four),
	    TEST(test_old_library),   TEST(test_one_lost),
	    TEST(test_no_handle),     TEST(test_vanished),
	    TEST(test_unknown_error), TEST(test_skip_by_bus),
	    TEST(test_skip_by_index), TEST(test_real_gpu_is_refused),
	    TEST(test_mig_profile),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
