/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "probe/mock_nvml.h"
#include "unit/unit.h"

#define START_US UINT64_C(1700000000000000)

/* A driver that took a sample of `percent[i]` at START_US + at_us[i], and keeps the last 100. */
enum { DRIVER_MAX = 4000, DRIVER_KEEPS = 100 };
static struct {
	uint64_t at_us[DRIVER_MAX];
	uint32_t percent[DRIVER_MAX];
	uint32_t count;
	uint64_t now_us;
	int32_t result;
} driver;

static int32_t driver_samples(nvml_device device, uint32_t type, uint64_t after_us,
			      uint32_t *out_type, uint32_t *count, struct nvml_sample *out)
{
	uint32_t have = 0, first = 0, end = 0;
	assert_int_equal(type, NVML_SAMPLING_GPU_UTILIZATION);
	if (driver.result != NVML_OK)
		return driver.result;
	while (end < driver.count && driver.at_us[end] <= driver.now_us)
		end++;
	if (end > DRIVER_KEEPS)
		first = end - DRIVER_KEEPS;
	while (first < end && driver.at_us[first] <= after_us)
		first++;
	*out_type = NVML_VALUE_UINT;
	have = end - first;
	if (have == 0)
		return NVML_NOT_FOUND;
	if (have > *count) {
		*count = have;
		return NVML_INSUFFICIENT_SIZE;
	}
	for (uint32_t i = 0; i < have; i++)
		out[i] = (struct nvml_sample){.timestamp_us = driver.at_us[first + i],
					      .value = {.ui = driver.percent[first + i]}};
	*count = have;
	return NVML_OK;
}

/* Every `step_us` for `seconds`, with percentages of some seed. */
static void driver_make(uint32_t seed, uint64_t step_us, uint32_t seconds)
{
	driver.count = 0;
	driver.result = NVML_OK;
	for (uint64_t at = step_us; at <= seconds * UINT64_C(1000000); at += step_us) {
		assert_true(driver.count < DRIVER_MAX);
		seed = seed * 1103515245 + 12345;
		driver.at_us[driver.count] = START_US + at;
		driver.percent[driver.count++] = (seed >> 16) % 101;
	}
}

/* The exact busy time between two samples. */
static uint64_t driver_busy(uint64_t from_us, uint64_t to_us)
{
	uint64_t ns = 0;
	for (uint32_t i = 1; i < driver.count; i++) {
		if (driver.at_us[i] > from_us && driver.at_us[i] <= to_us)
			ns += (driver.at_us[i] - driver.at_us[i - 1]) * driver.percent[i] * 10;
	}
	return ns;
}

static void poll_at(uint64_t at_us)
{
	driver.now_us = START_US + at_us;
	mock_sampler.now_ns = at_us * 1000;
	sample_busy(&mock);
}

/* The property: whenever it is asked, and however irregularly, the time is the same to the bit. */
static void test_time_does_not_depend_on_the_polling(void **state)
{
	static const uint64_t steps_us[] = {100000, 166667, 250000, 1000000};
	mock_nvml.fn.samples = driver_samples;
	for (uint32_t seed = 1; seed < 200; seed++) {
		uint64_t step_us = steps_us[seed % 4], at_us = 2000000;
		uint32_t random = seed * 7919;
		memset(&mock_memory, 0, sizeof(mock_memory));
		driver_make(seed, step_us, 60);
		poll_at(at_us);
		assert_int_equal(mock_value(SNAPSHOT_BUSY), 0);
		uint64_t from_us = mock_memory.busy.seen_us;
		while (at_us < 50000000) {
			random = random * 1103515245 + 12345;
			at_us += 1000 + (random >> 8) % 5000000; /* the driver keeps 10 s or more */
			poll_at(at_us);
		}
		assert_int_equal(mock_value(SNAPSHOT_BUSY),
				 driver_busy(from_us, mock_memory.busy.seen_us));
		assert_true(driver.now_us - mock_memory.busy.seen_us < step_us);
	}
}

/* More samples than there was room for. */
static void test_many_samples(void **state)
{
	mock_nvml.fn.samples = driver_samples;
	driver_make(5, 20000, 10);
	poll_at(20000);
	poll_at(1900000);
	assert_int_equal(mock_value(SNAPSHOT_BUSY),
			 driver_busy(START_US + 20000, START_US + 1900000));
}

/* Lost samples are not made up. */
static void test_a_gap(void **state)
{
	mock_nvml.fn.samples = driver_samples;
	driver.result = NVML_OK;
	driver.count = 2;
	driver.at_us[0] = START_US + 1;
	driver.at_us[1] = START_US + 3600000001;
	driver.percent[0] = driver.percent[1] = 100;
	poll_at(2);
	poll_at(3600000002);
	assert_int_equal(mock_value(SNAPSHOT_BUSY), 2 * SECOND_NS);
}

static void test_what_cannot_be_is_left_out(void **state)
{
	struct sample_busy busy = {.seen_us = START_US};
	struct nvml_sample samples[] = {
	    {.timestamp_us = START_US - 5, .value = {.ui = 100}},
	    {.timestamp_us = START_US + 100000, .value = {.ui = 157}},
	    {.timestamp_us = START_US + 200000, .value = {.ui = UINT32_MAX}},
	    {.timestamp_us = START_US + 300000, .value = {.ui = 50}},
	    {.timestamp_us = START_US + 300000, .value = {.ui = 100}}};
	assert_true(sample_busy_take(&busy, samples, 5, NVML_VALUE_UINT, 2 * START_US));
	assert_int_equal(busy.ns, 150000000); /* 0.3 s, of which the last sample tells */
	samples[0].timestamp_us = 12345;
	assert_false(sample_busy_take(&busy, samples, 1, NVML_VALUE_UINT, 2 * START_US));
	samples[0].timestamp_us = UINT64_MAX;
	assert_false(sample_busy_take(&busy, samples, 1, NVML_VALUE_UINT, 2 * START_US));
	assert_int_equal(busy.ns, 150000000);
}

/* No such call: the rate, as long as it was read not long ago. */
static void test_without_samples(void **state)
{
	snapshot_put(mock.out, SNAPSHOT_UTIL_GPU, 40);
	poll_at(1000000);
	poll_at(2000000);
	assert_int_equal(mock_value(SNAPSHOT_BUSY), 400000000);
	poll_at(60000000);
	assert_int_equal(mock_value(SNAPSHOT_BUSY), 400000000);
	poll_at(60500000);
	assert_int_equal(mock_value(SNAPSHOT_BUSY), 600000000);
	snapshot_drop(mock.out, SNAPSHOT_UTIL_GPU);
	poll_at(61000000);
	assert_int_equal(mock_value(SNAPSHOT_BUSY), -1);
}

/* Times that are no times: the rate counts, and not twice when they are times again. */
static void test_samples_without_times(void **state)
{
	mock_nvml.fn.samples = driver_samples;
	driver_make(3, 100000, 20);
	for (uint32_t i = 0; i < driver.count; i++)
		driver.percent[i] = 50;
	snapshot_put(mock.out, SNAPSHOT_UTIL_GPU, 50);
	uint64_t real = driver.at_us[9];
	driver.at_us[9] = 7;
	driver.count = 10;
	poll_at(1000000);
	poll_at(2000000);
	assert_int_equal(mock_value(SNAPSHOT_BUSY), 500000000);
	driver.at_us[9] = real;
	driver.count = 200;
	poll_at(3000000); /* begins anew */
	poll_at(4000000);
	assert_int_equal(mock_value(SNAPSHOT_BUSY), 1000000000);
}

/* Somebody sets the clock: the driver's times jump, the busy time does not. */
static void test_wall_clock_is_set(void **state)
{
	mock_nvml.fn.samples = driver_samples;
	driver_make(3, 100000, 20);
	for (uint32_t i = 0; i < driver.count; i++) {
		driver.percent[i] = 50;
		if (i >= 100) /* ten seconds later it is an hour earlier */
			driver.at_us[i] -= UINT64_C(3600000000);
	}
	mock_sampler.due[SNAPSHOT_FAST] = true;
	for (uint64_t second = 1; second < 20; second++) {
		bool is_before = second < 10;
		uint64_t wall_us = START_US + second * 1000000 - (is_before ? 0 : 3600000000);
		driver.count = (uint32_t)second * 10;
		driver.now_us = UINT64_MAX;
		mock_sampler.now_ns = second * SECOND_NS;
		mock_sampler.unix_ns = (int64_t)wall_us * 1000;
		sample_read(&mock_sampler, 0, NULL, &mock_memory);
	}
	assert_in_range(mock_value(SNAPSHOT_BUSY), 8 * SECOND_NS, 9 * SECOND_NS);
}

static void test_divided_gpu(void **state)
{
	mock_nvml.fn.samples = driver_samples;
	driver_make(3, 100000, 20);
	poll_at(1000000);
	mock.out->mig_count = 1;
	poll_at(2000000);
	assert_int_equal(mock_value(SNAPSHOT_BUSY), -1);
	mock.out->mig_count = 0;
	snapshot_put(mock.out, SNAPSHOT_MIG_MODE, 1);
	poll_at(2000000);
	assert_int_equal(mock_value(SNAPSHOT_BUSY), -1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, mock_setup, mock_teardown)
	const struct CMUnitTest tests[] = {
	    TEST(test_time_does_not_depend_on_the_polling),
	    TEST(test_many_samples),
	    TEST(test_a_gap),
	    TEST(test_what_cannot_be_is_left_out),
	    TEST(test_without_samples),
	    TEST(test_samples_without_times),
	    TEST(test_wall_clock_is_set),
	    TEST(test_divided_gpu),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
