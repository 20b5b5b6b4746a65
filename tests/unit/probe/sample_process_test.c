/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "probe/mock_nvml.h"
#include "unit/unit.h"

/* Processes with PIDs from 1000 on; the Nth has N KiB and uses use_of(N) percent. */
static struct {
	uint32_t count, graphics;
	uint32_t odd_size; /* what a call with too little room says; 0: what is needed */
	bool unsorted;
	uint32_t calls;
	uint64_t now_us;
	uint32_t busy[8];
	int32_t uses_result;
	struct nvml_process_use extra[8];
	uint32_t extra_count;
} driver;

struct entry {
	uint32_t pid;
	uint64_t memory;
	uint32_t gi, ci;
};

static int32_t give(uint32_t have, uint32_t from, uint32_t *count, struct entry *out)
{
	driver.calls++;
	if (have > *count) {
		*count = driver.odd_size ? driver.odd_size : have;
		return NVML_INSUFFICIENT_SIZE;
	}
	for (uint32_t i = 0; i < have; i++)
		out[i] = (struct entry){.pid = 1000 + from + i,
					.memory = (from + i) * 1024ULL,
					.gi = SNAPSHOT_WHOLE_GPU,
					.ci = SNAPSHOT_WHOLE_GPU};
	*count = have;
	return NVML_OK;
}

static int32_t compute(nvml_device device, uint32_t *count, void *out)
{
	return give(driver.count, 0, count, out);
}

/* The last ones of the others again, with memory that is not told. */
static int32_t graphics(nvml_device device, uint32_t *count, void *out)
{
	int32_t result = give(driver.graphics, driver.count - driver.graphics, count, out);
	for (uint32_t i = 0; result == NVML_OK && i < *count; i++)
		((struct entry *)out)[i].memory = UINT64_MAX;
	return result;
}

static int32_t uses(nvml_device device, struct nvml_process_uses *uses)
{
	uint32_t have = 0;
	assert_int_equal(uses->version, 0x01000018);
	if (driver.uses_result != NVML_OK)
		return driver.uses_result;
	for (uint32_t i = 0; i < 8 && i < driver.count; i++)
		have += driver.busy[i] > 0;
	have += driver.extra_count;
	if (driver.now_us <= uses->seen_us || have == 0)
		return NVML_NOT_FOUND;
	if (have > uses->count) {
		uses->count = have;
		return NVML_INSUFFICIENT_SIZE;
	}
	uses->count = 0;
	for (uint32_t i = 0; i < driver.extra_count; i++)
		uses->entry[uses->count++] = driver.extra[i];
	for (uint32_t i = 0; i < 8 && i < driver.count; i++) {
		if (driver.busy[i] > 0)
			uses->entry[uses->count++] = (struct nvml_process_use){
			    .timestamp_us = driver.now_us, .pid = 1000 + i, .sm = driver.busy[i]};
	}
	return NVML_OK;
}

static int setup(void **state)
{
	memset(&driver, 0, sizeof(driver));
	(void)mock_setup(state);
	driver.now_us = UINT64_C(1700000000000000);
	mock_nvml.fn.compute_processes = compute;
	mock_nvml.fn.graphics_processes = graphics;
	mock_nvml.fn.process_uses = uses;
	snapshot_put(mock.out, SNAPSHOT_MEMORY_TOTAL, INT64_C(1) << 30);
	return 0;
}

static void sample_at(uint64_t second)
{
	mock_sampler.now_ns = (second + 1) * SECOND_NS;
	driver.now_us = UINT64_C(1700000000000000) + second * 1000000;
	sample_processes(&mock);
}

static const struct snapshot_process *process(uint32_t pid)
{
	for (uint32_t i = 0; i < mock.out->process_count; i++) {
		if (mock.out->process[i].pid == pid)
			return &mock.out->process[i];
	}
	fail_msg("process %u is not there", pid);
	return NULL;
}

static void test_union_of_the_lists(void **state)
{
	driver.count = 5;
	driver.graphics = 2;
	sample_at(0);
	assert_int_equal(mock.out->process_count, 5);
	assert_int_equal(mock.out->process_total, 5);
	for (uint32_t i = 0; i < 5; i++) { /* in the driver's order */
		assert_int_equal(mock.out->process[i].pid, 1000 + i);
		assert_int_equal(mock.out->process[i].memory_bytes, i * 1024);
		assert_int_equal(mock.out->process[i].type,
				 SNAPSHOT_PROCESS_COMPUTE |
				     (i >= 3 ? SNAPSHOT_PROCESS_GRAPHICS : 0));
		assert_int_equal(mock.out->process[i].util_sm, 0); /* nothing was seen: idle */
	}
}

/* All are counted, the largest and the busy ones are kept, and a round is a few calls. */
static void test_thousands_of_processes(void **state)
{
	static const uint32_t counts[] = {64, 65, 100, 1000, 8192};
	for (uint32_t i = 0; i < 5; i++) {
		driver.count = counts[i];
		driver.busy[2] = 100;
		sample_at(i);
		assert_int_equal(mock.out->process_total, counts[i]);
		assert_int_equal(mock.out->process_count, SNAPSHOT_PROCESS_MAX);
		assert_int_equal(process(1002)->util_sm, 100);	/* small, and busy */
		assert_non_null(process(1000 + counts[i] - 1)); /* the largest */
		for (uint32_t k = 1; k < mock.out->process_count; k++)
			assert_true(mock.out->process[k].pid > mock.out->process[k - 1].pid);
	}
	driver.calls = 0;
	sample_at(10);
	assert_int_equal(driver.calls, 2); /* the room has stayed */
}

static void test_odd_sizes(void **state)
{
	driver.count = 150;
	driver.odd_size = 100; /* some drivers always say so */
	sample_at(0);
	assert_int_equal(mock.out->process_total, 150);
	(void)mock_teardown(state);
	(void)setup(state);
	driver.count = 100;
	driver.odd_size = 4000;
	sample_at(0);
	assert_int_equal(mock.out->process_total, 100);
	(void)mock_teardown(state);
	(void)setup(state);
	driver.count = 1000000;
	sample_at(0);
	assert_int_equal(mock.out->process_total, 0); /* bounded, and it ended */
	assert_true(mock_sampler.room.size <= 32 * 8192);
}

/* The newest sample counts on, nothing new means idle after a while, garbage is left out. */
static void test_utilization(void **state)
{
	driver.count = 3;
	driver.busy[0] = 70;
	driver.extra[0] =
	    (struct nvml_process_use){.timestamp_us = driver.now_us, .pid = 1001, .sm = 157};
	driver.extra[1] =
	    (struct nvml_process_use){.timestamp_us = UINT64_MAX, .pid = 1001, .sm = 50};
	driver.extra[2] = (struct nvml_process_use){
	    .timestamp_us = driver.now_us - 60000000, .pid = 1001, .sm = 50};
	driver.extra[3] =
	    (struct nvml_process_use){.timestamp_us = driver.now_us, .pid = 4711, .sm = 50};
	driver.extra_count = 4;
	sample_at(0);
	assert_int_equal(process(1000)->util_sm, 70);
	assert_int_equal(process(1001)->util_sm, 0);
	assert_int_equal(process(1002)->util_sm, 0);
	assert_true(mock_memory.uses_seen_us == driver.now_us);
	/* asked again before the driver has a new sample: as before */
	mock_sampler.now_ns += SECOND_NS / 2;
	sample_processes(&mock);
	assert_int_equal(process(1000)->util_sm, 70);
	mock_sampler.now_ns += 2 * SECOND_NS;
	sample_processes(&mock);
	assert_int_equal(process(1000)->util_sm, 0);
	/* several samples of one process: their mean */
	driver.extra_count = 2;
	driver.extra[0] = (struct nvml_process_use){
	    .timestamp_us = driver.now_us + 2500000, .pid = 1000, .sm = 10};
	driver.extra[1] = (struct nvml_process_use){
	    .timestamp_us = driver.now_us + 2600000, .pid = 1000, .sm = 10};
	sample_at(3);
	assert_int_equal(process(1000)->util_sm, 30);
}

static void test_utilization_that_is_not_told(void **state)
{
	driver.count = 2;
	driver.uses_result = NVML_NOT_SUPPORTED;
	sample_at(0);
	assert_int_equal(process(1000)->util_sm, SNAPSHOT_U32_ABSENT);
	assert_int_equal(mock_snapshot.error_count, 0);
	driver.uses_result = NVML_UNKNOWN;
	mock_memory.uses = SAMPLE_UNKNOWN;
	sample_at(1);
	assert_int_equal(process(1000)->util_sm, SNAPSHOT_U32_ABSENT);
	assert_int_equal(mock_snapshot.error_count, 1);
	assert_string_equal(mock_snapshot.error[0].call, "nvmlDeviceGetProcessesUtilizationInfo");
	assert_int_equal(mock_snapshot.error[0].code, NVML_UNKNOWN);
}

/* The same process in two MIG instances is two entries. */
static int32_t in_instances(nvml_device device, uint32_t *count, void *out)
{
	struct entry *entry = out;
	for (uint32_t i = 0; i < 3; i++)
		entry[i] = (struct entry){.pid = 77, .memory = 100 + i, .gi = 1 + i / 2, .ci = 0};
	*count = 3;
	return NVML_OK;
}

static void test_instances(void **state)
{
	driver.uses_result = NVML_NOT_SUPPORTED;
	mock_nvml.fn.compute_processes = in_instances;
	mock_nvml.fn.graphics_processes = NULL;
	sample_at(0);
	assert_int_equal(mock.out->process_count, 2);
	assert_int_equal(mock.out->process[0].memory_bytes, 101); /* twice in one: the larger */
	assert_int_equal(mock.out->process[1].gi, 2);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, mock_teardown)
	const struct CMUnitTest tests[] = {
	    TEST(test_union_of_the_lists), TEST(test_thousands_of_processes),
	    TEST(test_odd_sizes),	   TEST(test_utilization),
	    TEST(test_instances),	   TEST(test_utilization_that_is_not_told),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
