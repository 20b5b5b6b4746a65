/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "probe/mock_nvml.h"
#include "unit/unit.h"

static uint64_t rate;

static bool take(struct sample_traffic *traffic, uint64_t raw, bool narrow, uint64_t second)
{
	return sample_traffic_take(traffic, raw, narrow, (second + 1) * SECOND_NS, &rate);
}

static void test_bytes_and_rate(void **state)
{
	struct sample_traffic traffic = {.begun = false};
	assert_false(take(&traffic, 5000, false, 0));
	assert_int_equal(traffic.total, 5000);
	assert_true(take(&traffic, 7000, false, 2));
	assert_int_equal(rate, 1000);
	assert_false(sample_traffic_take(&traffic, 8000, false, 3 * SECOND_NS + 1000, &rate));
	assert_true(take(&traffic, 9000, false, 3)); /* since the last rate */
	assert_int_equal(rate, 2000);
	assert_int_equal(traffic.total, 9000);
}

/* A counter of 32 bits goes round; it is told by its type, or by having been near its end. */
static void test_wrap(void **state)
{
	struct sample_traffic traffic = {.begun = false};
	(void)take(&traffic, 1000, true, 0);
	assert_true(take(&traffic, 500, true, 1));
	assert_int_equal(traffic.total, (UINT64_C(1) << 32) + 500);
	struct sample_traffic wide = {.begun = false};
	(void)take(&wide, UINT64_C(0xfffffff0), false, 0);
	assert_true(take(&wide, 16, false, 1));
	assert_int_equal(rate, 32);
	assert_int_equal(wide.total, (UINT64_C(1) << 32) + 16);
	assert_true(take(&wide, 1016, false, 2));
	assert_int_equal(wide.total, (UINT64_C(1) << 32) + 1016);
}

/* A reset is one: the bytes begin anew, and no rate comes of it. */
static void test_reset(void **state)
{
	struct sample_traffic traffic = {.begun = false};
	(void)take(&traffic, UINT64_C(1) << 40, false, 0);
	assert_false(take(&traffic, 100, false, 1));
	assert_int_equal(traffic.total, 100);
	assert_true(take(&traffic, 1100, false, 2));
	assert_int_equal(rate, 1000);
	struct sample_traffic small = {.begun = false};
	(void)take(&small, 1 << 20, false, 0);
	assert_false(take(&small, 100, false, 1)); /* was nowhere near the end of 32 bits */
	assert_int_equal(small.total, 100);
}

/* A counter that falls is believed when it stays there. */
static void test_counter_that_falls(void **state)
{
	sample_count(&mock, SNAPSHOT_PCIE_REPLAYS, true, 100);
	sample_count(&mock, SNAPSHOT_PCIE_REPLAYS, true, 5);
	assert_int_equal(mock_value(SNAPSHOT_PCIE_REPLAYS), -1);
	sample_count(&mock, SNAPSHOT_PCIE_REPLAYS, true, 101);
	assert_int_equal(mock_value(SNAPSHOT_PCIE_REPLAYS), 101);
	sample_count(&mock, SNAPSHOT_PCIE_REPLAYS, true, 5);
	sample_count(&mock, SNAPSHOT_PCIE_REPLAYS, true, 6);
	assert_int_equal(mock_value(SNAPSHOT_PCIE_REPLAYS), 6);
	sample_count(&mock, SNAPSHOT_PCIE_REPLAYS, false, 7);
	assert_int_equal(mock_value(SNAPSHOT_PCIE_REPLAYS), -1);
}

static void test_what_cannot_be(void **state)
{
	sample_put(&mock, SNAPSHOT_UTIL_GPU, true, 101);
	sample_put_u32(&mock, SNAPSHOT_CLOCK_SM, true, UINT32_MAX);
	sample_put(&mock, SNAPSHOT_POWER, true, 4000000000);
	sample_put(&mock, SNAPSHOT_ENERGY, true, UINT64_MAX);
	sample_put(&mock, SNAPSHOT_PSTATE, true, 32);
	assert_int_equal(mock_value(SNAPSHOT_UTIL_GPU), -1);
	assert_int_equal(mock_value(SNAPSHOT_CLOCK_SM), -1);
	assert_int_equal(mock_value(SNAPSHOT_POWER), -1);
	assert_int_equal(mock_value(SNAPSHOT_ENERGY), -1);
	assert_int_equal(mock_value(SNAPSHOT_PSTATE), -1);
	sample_put(&mock, SNAPSHOT_UTIL_GPU, true, 100);
	assert_int_equal(mock_value(SNAPSHOT_UTIL_GPU), 100);
}

static void test_numbers(void **state)
{
	static const struct {
		uint32_t type;
		union nvml_value value;
		bool ok;
		uint64_t number;
	} rows[] = {
	    {NVML_VALUE_UINT, {.ui = 7}, true, 7},
	    {NVML_VALUE_UINT, {.ui = UINT32_MAX}, false, 0},
	    {NVML_VALUE_ULONGLONG, {.ull = UINT64_C(1) << 40}, true, UINT64_C(1) << 40},
	    {NVML_VALUE_ULONGLONG, {.ull = UINT64_MAX}, false, 0},
	    {NVML_VALUE_ULONG, {.ul = UINT64_MAX}, false, 0},
	    {NVML_VALUE_SINT, {.si = -1}, false, 0},
	    {NVML_VALUE_SLONGLONG, {.sll = -1}, false, 0},
	    {NVML_VALUE_USHORT, {.us = 9}, true, 9},
	    {NVML_VALUE_DOUBLE, {.d = 2.5}, true, 2},
	    {NVML_VALUE_DOUBLE, {.d = -1}, false, 0},
	    {NVML_VALUE_DOUBLE, {.d = 1e300}, false, 0},
	    {77, {.ui = 1}, false, 0},
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint64_t number = 0;
		assert_int_equal(sample_number(rows[i].type, &rows[i].value, &number), rows[i].ok);
		if (rows[i].ok)
			assert_int_equal(number, rows[i].number);
	}
	uint64_t number;
	assert_false(sample_number(NVML_VALUE_DOUBLE, &(union nvml_value){.d = NAN}, &number));
}

/* Links that are there: some up, some down, none after the last one. */
static int32_t link_state(nvml_device device, uint32_t link, uint32_t *out)
{
	if (link >= 6)
		return NVML_INVALID_ARGUMENT;
	if (link == 2)
		return NVML_NOT_SUPPORTED;
	*out = link != 4;
	return NVML_OK;
}

static void test_masks(void **state)
{
	struct sample_fields none = {.count = 0};
	mock_nvml.fn.link_state = link_state;
	sample_links(&mock, &none);
	assert_int_equal(mock_value(SNAPSHOT_NVLINK_THERE), 0x3b);
	assert_int_equal(mock_value(SNAPSHOT_NVLINK_UP), 0x2b);
	assert_int_equal(mock_value(SNAPSHOT_NVLINK_ACTIVE), 4);
	assert_int_equal(mock_value(SNAPSHOT_NVLINK_INACTIVE), 1);
	assert_int_equal(mock_value(SNAPSHOT_NVLINK_ERRORS), -1);
	mock_nvml.fn.link_state = NULL;
	sample_links(&mock, &none);
	assert_int_equal(mock_value(SNAPSHOT_NVLINK_THERE), -1);
	assert_int_equal(mock_value(SNAPSHOT_NVLINK_ACTIVE), -1);
}

static uint64_t link_bytes;
static uint32_t link_silent; /* SNAPSHOT_U32_ABSENT: none */

/* Link N has N + 1 times the bytes. */
static int32_t link_fields(nvml_device device, int32_t count, struct nvml_field_value *field)
{
	for (int32_t i = 0; i < count; i++) {
		bool ok =
		    field[i].id == NVML_FIELD_NVLINK5_TX_BYTES && field[i].scope != link_silent;
		field[i].result = ok ? NVML_OK : NVML_NOT_SUPPORTED;
		field[i].value_type = NVML_VALUE_ULONGLONG;
		field[i].value.ull = link_bytes * (field[i].scope + 1);
	}
	return NVML_OK;
}

static int64_t link_total(uint64_t bytes, uint32_t silent)
{
	const struct sample_fields none = {.count = 0};
	link_bytes = bytes;
	link_silent = silent;
	sample_links(&mock, &none);
	return mock_value(SNAPSHOT_NVLINK_TX_TOTAL);
}

/* A link that goes down takes none of the bytes away that went over it: a counter that falls is
 * taken for one that began anew, and all that is left of it for traffic. */
static void test_a_link_that_goes_down(void **state)
{
	mock_nvml.fn.link_state = link_state; /* 0, 1, 3, 4, 5 */
	mock_nvml.fn.fields = link_fields;
	mock_memory.nvlink5 = SAMPLE_YES;
	assert_int_equal(link_total(1000, SNAPSHOT_U32_ABSENT), 18000);
	assert_int_equal(link_total(2000, SNAPSHOT_U32_ABSENT), 36000);
	assert_int_equal(link_total(2010, 5), 36000); /* who is counted has changed */
	assert_int_equal(link_total(2110, 5), 37200);
	assert_int_equal(link_total(2110, SNAPSHOT_U32_ABSENT), 37200);
	assert_int_equal(link_total(2210, SNAPSHOT_U32_ABSENT), 39000);
	assert_int_equal(link_total(10, SNAPSHOT_U32_ABSENT),
			 -1); /* all anew: once it is doubted */
	assert_int_equal(link_total(20, SNAPSHOT_U32_ABSENT), 360);
	mock_nvml.fn.link_state = NULL;
	mock_nvml.fn.fields = NULL;
}

static uint32_t throughput_calls;

static int32_t throughput(nvml_device device, uint32_t counter, uint32_t *out)
{
	throughput_calls++;
	*out = counter ? 20 : 10;
	return NVML_OK;
}

/* The call that takes 20 ms: only where there is nothing better, and in turn. */
static void test_slow_call_in_turn(void **state)
{
	struct sample_fields none = {.count = 0};
	mock_nvml.fn.pcie_throughput = throughput;
	throughput_calls = 0;
	mock_sampler.pcie_turn = 1;
	sample_pcie_traffic(&mock, &none);
	assert_int_equal(throughput_calls, 0);
	mock_sampler.pcie_turn = 0;
	sample_pcie_traffic(&mock, &none);
	assert_int_equal(throughput_calls, 2);
	assert_int_equal(mock_value(SNAPSHOT_PCIE_TX), 10240);
	mock_sampler.pcie_turn = 1; /* the last rate stands until it is its turn again */
	sample_pcie_traffic(&mock, &none);
	assert_int_equal(mock_value(SNAPSHOT_PCIE_RX), 20480);
	mock_sampler.pcie_turn = 0;
	mock_memory.gpm_supported = SAMPLE_YES;
	sample_pcie_traffic(&mock, &none);
	assert_int_equal(throughput_calls, 2);
}

/* Different failures are counted apart, and there is a cap. */
static void test_errors_are_bounded(void **state)
{
	for (int32_t code = 100; code < 150; code++) {
		assert_false(sample_check(&mock, NVML_FN_power, code));
		assert_false(sample_check(&mock, NVML_FN_power, code));
	}
	assert_int_equal(mock_snapshot.error_count, SNAPSHOT_ERROR_MAX);
	assert_int_equal(mock_snapshot.error[0].count, 2);
	assert_int_equal(mock_snapshot.errors_lost, 2 * (50 - SNAPSHOT_ERROR_MAX));
	assert_int_equal(mock.out->errors, 100);
	static const int32_t absent[] = {NVML_NOT_SUPPORTED, NVML_NO_PERMISSION, NVML_NO_DATA,
					 NVML_FUNCTION_NOT_FOUND};
	for (size_t i = 0; i < sizeof(absent) / sizeof(absent[0]); i++)
		assert_false(sample_check(&mock, NVML_FN_energy, absent[i]));
	assert_int_equal(mock.out->errors, 100);
}

/* --- GPM --- */

static struct {
	uint32_t alive, calls, gi;
	double value;
	int32_t result;
} gpm;
static char gpm_handles[64];

static int32_t gpm_support(nvml_device device, struct nvml_gpm_support *out)
{
	assert_int_equal(out->version, 1);
	out->supported = 1;
	return NVML_OK;
}

static int32_t gpm_alloc(nvml_gpm *out)
{
	*out = (nvml_gpm)(void *)&gpm_handles[gpm.alive++];
	return NVML_OK;
}

static int32_t gpm_free(nvml_gpm sample)
{
	gpm.alive--;
	return NVML_OK;
}

static int32_t gpm_get(nvml_device device, nvml_gpm sample)
{
	return NVML_OK;
}

static int32_t gpm_mig_get(nvml_device device, uint32_t gi, nvml_gpm sample)
{
	gpm.gi |= 1U << gi;
	return NVML_OK;
}

static int32_t gpm_metrics(struct nvml_gpm_metrics *metrics)
{
	assert_int_equal(metrics->version, 1);
	assert_ptr_not_equal(metrics->first, metrics->second);
	gpm.calls++;
	for (uint32_t i = 0; i < metrics->count; i++) {
		metrics->metric[i].result = gpm.result;
		metrics->metric[i].value = gpm.value;
	}
	return NVML_OK;
}

static int64_t gpm_at(uint64_t ms, double value)
{
	gpm.value = value;
	mock_sampler.now_ns = ms * 1000000;
	sample_gpm(&mock);
	return mock_value(SNAPSHOT_ACTIVITY + SNAPSHOT_ACTIVITY_TENSOR);
}

static void test_activity(void **state)
{
	memset(&gpm, 0, sizeof(gpm));
	mock_nvml.fn.gpm_support = gpm_support;
	mock_nvml.fn.gpm_alloc = gpm_alloc;
	mock_nvml.fn.gpm_free = gpm_free;
	mock_nvml.fn.gpm_get = gpm_get;
	mock_nvml.fn.gpm_mig_get = gpm_mig_get;
	mock_nvml.fn.gpm_metrics = gpm_metrics;
	assert_int_equal(gpm_at(1000, 50), -1); /* two samples make a value */
	assert_int_equal(gpm_at(2000, 12.5), 125000);
	assert_int_equal(gpm_at(2050, 80), 125000); /* too soon */
	assert_int_equal(gpm_at(3000, 100.4), 1000000);
	assert_int_equal(gpm_at(4000, -1), -1);
	assert_int_equal(gpm_at(5000, NAN), -1);
	assert_int_equal(gpm_at(6000, 1e9), -1);
	gpm.result = NVML_NOT_SUPPORTED;
	assert_int_equal(gpm_at(7000, 50), -1);
	gpm.result = NVML_OK;
	assert_int_equal(gpm_at(8000, 50), 500000);
	gpm.result = NVML_NO_DATA; /* nothing has moved: as before, for a while */
	assert_int_equal(gpm_at(9000, 70), 500000);
	assert_int_equal(gpm_at(14000, 70), -1);
	assert_int_equal(gpm.alive, 2);
}

/* Once for each GPU instance: its first compute instance has it. */
static void test_activity_of_instances(void **state)
{
	memset(&gpm, 0, sizeof(gpm));
	mock_nvml.fn.gpm_support = gpm_support;
	mock_nvml.fn.gpm_alloc = gpm_alloc;
	mock_nvml.fn.gpm_free = gpm_free;
	mock_nvml.fn.gpm_get = gpm_get;
	mock_nvml.fn.gpm_mig_get = gpm_mig_get;
	mock_nvml.fn.gpm_metrics = gpm_metrics;
	mock.out->mig_count = 3;
	mock.out->mig[0].gi = 3;
	mock.out->mig[1].gi = 3;
	mock.out->mig[2].gi = 7;
	(void)gpm_at(1000, 40);
	(void)gpm_at(2000, 40);
	assert_int_equal(gpm.gi, 1U << 3 | 1U << 7);
	assert_int_equal(gpm.calls, 3);
	assert_int_equal(mock.out->mig[0].activity[SNAPSHOT_ACTIVITY_SM], 400000);
	assert_int_equal(mock.out->mig[1].activity[SNAPSHOT_ACTIVITY_SM], SNAPSHOT_U32_ABSENT);
	assert_int_equal(mock.out->mig[2].activity[SNAPSHOT_ACTIVITY_SM], 400000);
	assert_int_equal(gpm.alive, 6);
	/* other instances: their rows are used again, nothing piles up */
	for (uint32_t gi = 8; gi < 28; gi++) {
		mock.out->mig_count = 1;
		mock.out->mig[0].gi = gi;
		(void)gpm_at(1000 * gi, 40);
	}
	assert_in_range(gpm.alive, 4, 18);
	sample_forget(&mock_caller, &mock_memory);
	assert_int_equal(gpm.alive, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, mock_setup, mock_teardown)
	const struct CMUnitTest tests[] = {
	    TEST(test_bytes_and_rate),
	    TEST(test_wrap),
	    TEST(test_reset),
	    TEST(test_counter_that_falls),
	    TEST(test_what_cannot_be),
	    TEST(test_numbers),
	    TEST(test_masks),
	    TEST(test_a_link_that_goes_down),
	    TEST(test_slow_call_in_turn),
	    TEST(test_errors_are_bounded),
	    TEST(test_activity),
	    TEST(test_activity_of_instances),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
