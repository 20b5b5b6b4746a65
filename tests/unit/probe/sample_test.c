/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/sample.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "hardware/inventory.h"
#include "unit/unit.h"

static struct nvml *nvml;
static struct call_mark mark;
static struct inventory inventory;
static nvml_device handles[GPU_MAX];
static struct snapshot snapshot;
#define gpu snapshot.gpu[0]
static struct sampler sampler;
static struct sample_memory memory;
static const bool all[SNAPSHOT_CLASS_COUNT] = {true, true, true};

static int setup(void **state)
{
	nvml = NULL;
	inventory_init(&inventory);
	memset(&snapshot, 0, sizeof(snapshot));
	memset(&sampler, 0, sizeof(sampler));
	memset(&memory, 0, sizeof(memory));
	return 0;
}

static int teardown(void **state)
{
	inventory_done(&inventory);
	sampler_done(&sampler);
	nvml = nvml_close(nvml);
	return 0;
}

static void start(const char *behaviour)
{
	char path[4096];
	struct err err;
	(void)snprintf(path, sizeof(path), "%s/whole", getenv("FAKE_NVML_DIR"));
	setenv("LD_LIBRARY_PATH", path, 1);
	setenv("SLUICE_SIM_STATE", "/nonexistent/state", 1);
	setenv("FAKE_NVML", behaviour, 1);
	assert_int_equal(nvml_open("/nonexistent", &mark, &nvml, &err), 0);
	struct nvml_caller caller = {.nvml = nvml, .mark = &mark};
	const struct inventory_request request = {.root = "/nonexistent"};
	assert_int_equal(inventory_read(&caller, &request, &inventory, handles, &err), 0);
	sample_identify(&inventory, 0, &gpu);
}

static void sample(const bool due[SNAPSHOT_CLASS_COUNT])
{
	struct nvml_caller caller = {.nvml = nvml, .mark = &mark};
	sampler.caller = &caller;
	sampler.snapshot = &snapshot;
	memcpy(sampler.due, due, sizeof(sampler.due));
	sampler.now_ns = 77;
	sample_read(&sampler, 0, handles[0], &memory);
	assert_int_equal(mark.begin_ns, 0);
}

static void test_what_is_there(void **state)
{
	int64_t value;
	start("gpus=1 mig=2");
	assert_string_equal(gpu.bus, "0000:01:00.0");
	assert_int_equal(gpu.mig_count, 2);
	assert_string_equal(gpu.mig[1].profile, "1g.5gb");
	sample(all);
	assert_true(snapshot_get(&gpu, SNAPSHOT_POWER, &value));
	assert_int_equal(value, 1000);
	assert_true(snapshot_get(&gpu, SNAPSHOT_ENERGY, &value));
	assert_int_equal(gpu.sampled_ns[SNAPSHOT_SLOW], 77);
}

/* The library has no such function: the reading is absent, and nothing counts as an error. */
static void test_what_is_not_there(void **state)
{
	int64_t value;
	start("gpus=1");
	sample(all);
	static const uint32_t missing[] = {SNAPSHOT_UTIL_GPU,	 SNAPSHOT_TEMPERATURE,
					   SNAPSHOT_CLOCK_SM,	 SNAPSHOT_ECC_MODE,
					   SNAPSHOT_PCIE_TX,	 SNAPSHOT_NVLINK_ACTIVE,
					   SNAPSHOT_MEMORY_USED, SNAPSHOT_RECOVERY_ACTION};
	for (size_t i = 0; i < sizeof(missing) / sizeof(missing[0]); i++)
		assert_false(snapshot_get(&gpu, missing[i], &value));
	assert_int_equal(gpu.errors, 0);
}

static void test_a_value_that_goes_away(void **state)
{
	int64_t value;
	start("gpus=1");
	sample(all);
	assert_true(snapshot_get(&gpu, SNAPSHOT_POWER, &value));
	setenv("FAKE_NVML", "gpus=1 power:0=3", 1);
	sample(all);
	assert_false(snapshot_get(&gpu, SNAPSHOT_POWER, &value));
	assert_int_equal(gpu.errors, 0);
	setenv("FAKE_NVML", "gpus=1 power:0=999", 1);
	sample(all);
	assert_int_equal(gpu.errors, 1);
	assert_int_equal(gpu.state, GPU_STATE_OK);
}

/* Entries of 16 bytes, and a memory that the driver does not tell. */
static void test_old_process_list(void **state)
{
	start("gpus=1");
	sample(all);
	assert_int_equal(gpu.process_count, 2);
	assert_int_equal(gpu.process[0].pid, 4242);
	assert_int_equal(gpu.process[0].memory_bytes, 1 << 20);
	assert_int_equal(gpu.process[0].gi, SNAPSHOT_WHOLE_GPU);
	assert_int_equal(gpu.process[0].type, SNAPSHOT_PROCESS_COMPUTE);
	assert_int_equal(gpu.process[1].pid, 4243);
	assert_true(gpu.process[1].memory_bytes == SNAPSHOT_U64_ABSENT);
	assert_int_equal(gpu.process[0].util_sm, SNAPSHOT_U32_ABSENT);
}

static void test_lost_in_the_middle(void **state)
{
	start("gpus=1");
	sample(all);
	setenv("FAKE_NVML", "gpus=1 power:0=15", 1);
	sample(all);
	assert_int_equal(gpu.state, GPU_STATE_LOST);
	assert_non_null(strstr(gpu.reason, "nvmlDeviceGetPowerUsage"));
	for (uint32_t i = 0; i < SNAPSHOT_PRESENT_WORDS; i++)
		assert_int_equal(gpu.present[i], 0);
	assert_int_equal(gpu.process_count, 0);
}

static void test_only_what_is_due(void **state)
{
	static const bool none[SNAPSHOT_CLASS_COUNT] = {false, true, true};
	int64_t value;
	start("gpus=1");
	sample(none);
	assert_false(snapshot_get(&gpu, SNAPSHOT_POWER, &value));
	assert_int_equal(gpu.sampled_ns[SNAPSHOT_FAST], 0);
	assert_int_equal(gpu.sampled_ns[SNAPSHOT_MEDIUM], 77);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
	    TEST(test_what_is_there),	       TEST(test_what_is_not_there),
	    TEST(test_a_value_that_goes_away), TEST(test_old_process_list),
	    TEST(test_lost_in_the_middle),     TEST(test_only_what_is_due),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
