/* SPDX-License-Identifier: Apache-2.0 */
#include "validate/gpu/bandwidth.h"

#include <math.h>
#include <string.h>

#include "validate/gpu/gputest.h"
#include "unit/validate/gpu/fake.h"
#include "unit/unit.h"

enum { BYTES = 32 << 20, SMALL = 131072 };

static struct check run(const struct fake *wanted, const struct bandwidth_options *options,
			struct fake_sink *sink)
{
	struct driver driver;
	struct driver_device device;
	struct checks_sink to;
	fake_open(&driver, &device, 1);
	uint64_t free_bytes = wanted->free_bytes > 0 ? wanted->free_bytes : 4 * options->bytes;
	fake = *wanted;
	fake.free_bytes = free_bytes;
	fake.bytes_per_ns = 10; /* 10 GB/s */
	fake_sink_init(sink, &to);
	bandwidth_check(&driver, &device, options, 0, &to);
	assert_int_equal(sink->checks.count, 1);
	assert_int_equal(fake.held, 0);
	assert_int_equal(fake.contexts, 0);
	return sink->checks.list[0];
}

static void figures_are_what_was_copied(void **state)
{
	const struct bandwidth_options options = {
	    .bytes = SMALL, .root = "/dev/null", .limit = 9, .link = "PCIe 3 x16"};
	struct fake_sink sink;
	(void)state;
	struct check check = run(&(struct fake){.fault = FAKE_RIGHT}, &options, &sink);
	assert_int_equal(check.status, CHECK_PASS);
	assert_true(fabs(check.value - 10) < 0.1);
	assert_false(check.has_limit); /* too small to be judged */
	assert_non_null(strstr(check.reason, "; simulated"));
	assert_int_equal(sink.checks.sample_count, 4 * 2 * BANDWIDTH_REPEATS);
	for (size_t i = 0; i < sink.checks.sample_count; i++)
		assert_true(fabs(sink.checks.samples[i].value - 10) < 0.1);
	fake_sink_done(&sink);
}

static void below_the_limit_is_slow(void **state)
{
	const struct bandwidth_options options = {
	    .bytes = BYTES, .root = "/dev/null", .limit = 11.8, .link = "PCIe 3 x16"};
	struct fake_sink sink;
	(void)state;
	struct check check = run(&(struct fake){.fault = FAKE_RIGHT}, &options, &sink);
	assert_int_equal(check.status, CHECK_SLOW);
	assert_non_null(strstr(check.reason, "PCIe 3 x16"));
	assert_non_null(strstr(check.reason, "; simulated"));
	fake_sink_done(&sink);
}

static void wrong_data_are_found(void **state)
{
	const struct bandwidth_options options = {.bytes = SMALL, .root = "/dev/null"};
	struct fake_sink sink;
	(void)state;
	struct check check = run(&(struct fake){.fault = FAKE_FLIP}, &options, &sink);
	assert_int_equal(check.status, CHECK_FAIL);
	assert_non_null(strstr(check.reason, "gpu_to_host_engine"));
	fake_sink_done(&sink);
	check = run(&(struct fake){.fault = FAKE_NOTHING_DONE}, &options, &sink);
	assert_int_equal(check.status, CHECK_FAIL); /* a kernel that does nothing */
	assert_non_null(strstr(check.reason, "host_to_gpu_kernel"));
	fake_sink_done(&sink);
}

static void a_full_gpu_says_nothing(void **state)
{
	const struct bandwidth_options options = {.bytes = SMALL, .root = "/dev/null"};
	struct fake_sink sink;
	(void)state;
	struct check check = run(&(struct fake){.free_bytes = 1000}, &options, &sink);
	assert_int_equal(check.status, CHECK_SKIP);
	fake_sink_done(&sink);
	check = run(&(struct fake){.free_bytes = 4 * GPUTEST_MIN_BYTES}, &options, &sink);
	assert_int_equal(check.status, CHECK_PASS); /* it takes less */
	fake_sink_done(&sink);
}

static void every_call_can_fail(void **state)
{
	static const char *const calls[] = {
	    "cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync", "cuMemcpyDtoDAsync", "cuMemcpyDtoH",
	    "sl_copy",		 "sl_hold",	      "cuEventSynchronize"};
	const struct bandwidth_options options = {.bytes = SMALL, .root = "/dev/null"};
	(void)state;
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		struct fake_sink sink;
		struct check check = run(
		    &(struct fake){.failing = calls[i], .result = CUDA_LAUNCH_FAILED, .after = 1},
		    &options, &sink);
		assert_int_equal(check.status, CHECK_FAIL);
		fake_sink_done(&sink);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(figures_are_what_was_copied),
	    cmocka_unit_test(below_the_limit_is_slow),
	    cmocka_unit_test(wrong_data_are_found),
	    cmocka_unit_test(a_full_gpu_says_nothing),
	    cmocka_unit_test(every_call_can_fail),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
