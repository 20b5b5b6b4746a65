/* SPDX-License-Identifier: Apache-2.0 */
#include "validate/gpu/vectoradd.h"

#include <string.h>

#include "unit/validate/gpu/fake.h"
#include "unit/unit.h"

static enum check_status run(struct fake_sink *sink)
{
	struct driver driver;
	struct driver_device device;
	struct checks_sink to;
	struct fake wanted = fake;
	fake_open(&driver, &device, 1);
	wanted.free_bytes = fake.free_bytes;
	wanted.bytes_per_ns = fake.bytes_per_ns;
	fake = wanted;
	fake_sink_init(sink, &to);
	vectoradd_check(&driver, &device, 0, &to);
	assert_int_equal(sink->checks.count, 1);
	assert_int_equal(fake.held, 0);
	assert_int_equal(fake.contexts, 0);
	return sink->checks.list[0].status;
}

static void all_sums_are_right(void **state)
{
	struct fake_sink sink;
	(void)state;
	fake = (struct fake){.fault = FAKE_RIGHT};
	assert_int_equal(run(&sink), CHECK_PASS);
	assert_true(sink.has_passed);
	assert_string_equal(sink.last_note, "Done");
	assert_string_equal(sink.checks.list[0].target, "GPU-51ce51ce-0000-0000-0000-000000000000");
	fake_sink_done(&sink);
}

static void one_wrong_bit_is_found(void **state)
{
	static const enum fake_fault faults[] = {FAKE_FLIP, FAKE_NAN, FAKE_NOTHING_DONE};
	(void)state;
	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
		struct fake_sink sink;
		fake = (struct fake){.fault = faults[i], .fault_at = 1};
		assert_int_equal(run(&sink), CHECK_FAIL);
		assert_false(sink.has_passed);
		assert_true(sink.checks.list[0].value >= 1);
		fake_sink_done(&sink);
	}
}

static void an_error_comes_with_its_hint(void **state)
{
	static const struct {
		const char *call;
		uint32_t result;
		const char *hint;
	} rows[] = {{"cuDevicePrimaryCtxRetain", CUDA_DEVICE_UNAVAILABLE, "exclusive"},
		    {"cuDevicePrimaryCtxRetain", CUDA_SYSTEM_NOT_READY, "fabricmanager"},
		    {"cuMemAlloc", CUDA_OUT_OF_MEMORY, "memory"},
		    {"sl_vadd", CUDA_LAUNCH_FAILED, NULL},
		    {"cuStreamSynchronize", CUDA_LAUNCH_FAILED, NULL},
		    {"cuModuleLoadDataEx", CUDA_UNSUPPORTED_PTX_VERSION, NULL}};
	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct fake_sink sink;
		fake = (struct fake){.failing = rows[i].call, .result = rows[i].result};
		assert_int_equal(run(&sink), CHECK_FAIL);
		if (rows[i].hint)
			assert_non_null(strstr(sink.checks.list[0].hint, rows[i].hint));
		fake_sink_done(&sink);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(all_sums_are_right),
	    cmocka_unit_test(one_wrong_bit_is_found),
	    cmocka_unit_test(an_error_comes_with_its_hint),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
