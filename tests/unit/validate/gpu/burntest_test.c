/* SPDX-License-Identifier: Apache-2.0 */
#include "validate/gpu/burntest.h"

#include <math.h>
#include <string.h>

#include "unit/validate/gpu/fake.h"
#include "unit/unit.h"

static struct check run(const struct fake *wanted, struct fake_sink *sink)
{
	const struct burntest_options options = {.duration_ns = 1000, .fill = 0.9, .seed = 5};
	struct driver driver;
	struct driver_device device;
	struct checks_sink to;
	fake_open(&driver, &device, 1);
	uint64_t free_bytes = wanted->free_bytes > 0 ? wanted->free_bytes : 2 << 20;
	fake = *wanted;
	fake.free_bytes = free_bytes;
	fake.bytes_per_ns = 10;
	fake_sink_init(sink, &to);
	burntest_check(&driver, &device, &options, 0, &to);
	assert_int_equal(sink->checks.count, 1);
	assert_int_equal(fake.held, 0);
	assert_int_equal(fake.contexts, 0);
	return sink->checks.list[0];
}

static void equal_work_gives_equal_bits(void **state)
{
	struct fake_sink sink;
	(void)state;
	struct check check = run(&(struct fake){.fault = FAKE_RIGHT}, &sink);
	assert_int_equal(check.status, CHECK_PASS);
	assert_true(sink.fact != 0 && check.value > 0);
	assert_non_null(strstr(check.reason, "simulated"));
	uint64_t first = sink.fact;
	fake_sink_done(&sink);
	(void)run(&(struct fake){.fault = FAKE_RIGHT}, &sink);
	assert_int_equal(sink.fact, first);
	fake_sink_done(&sink);
}

static void what_is_wrong_is_found(void **state)
{
	static const struct {
		enum fake_fault fault;
		uint32_t at;
		const char *reason;
	} rows[] = {{FAKE_FLIP, 3, "differ from the first in 1 words"},
		    {FAKE_NAN, 3, "1 NaN or infinite"},
		    {FAKE_NAN, 1, "entries of the first result are NaN"},
		    {FAKE_ALWAYS_WRONG, 0, "wrong from the beginning"},
		    {FAKE_NOTHING_DONE, 0, "wrong from the beginning"},
		    {FAKE_COMPARES_ONCE, 0, "no word differs, and yet the sums"}};
	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct fake_sink sink;
		struct check check =
		    run(&(struct fake){.fault = rows[i].fault, .fault_at = rows[i].at}, &sink);
		assert_int_equal(check.status, CHECK_FAIL);
		assert_non_null(strstr(check.reason, rows[i].reason));
		fake_sink_done(&sink);
	}
}

static void a_gpu_that_dies_fails_at_once(void **state)
{
	static const char *const calls[] = {"sl_hgemm", "sl_compare", "cuStreamSynchronize",
					    "cuMemcpyDtoH"};
	(void)state;
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		struct fake_sink sink;
		struct check check = run(
		    &(struct fake){.failing = calls[i], .result = CUDA_UNKNOWN, .after = 1}, &sink);
		assert_int_equal(check.status, CHECK_FAIL);
		fake_sink_done(&sink);
	}
}

static void a_full_gpu_says_nothing(void **state)
{
	struct fake_sink sink;
	(void)state;
	struct check check = run(&(struct fake){.free_bytes = 100000}, &sink);
	assert_int_equal(check.status, CHECK_SKIP);
	fake_sink_done(&sink);
}

/* By the bits' meaning: 1 sign, 5 exponent with bias 15, 10 mantissa. */
static void halves_are_exact(void **state)
{
	(void)state;
	for (int n = -1023; n <= 1023; n++) {
		uint16_t bits = burntest_half(n);
		int exponent = bits >> 10 & 31, mantissa = bits & 0x3ff;
		double value = exponent == 0 ? 0 : ldexp(1024 + mantissa, exponent - 25);
		assert_true(value == fabs(n / 1024.0));
		assert_int_equal(bits >> 15, n < 0);
	}
	for (uint64_t i = 0; i < 10000; i++)
		assert_true(burntest_operand(1, i) >= -1023 && burntest_operand(1, i) <= 1023);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(equal_work_gives_equal_bits),
	    cmocka_unit_test(what_is_wrong_is_found),
	    cmocka_unit_test(a_gpu_that_dies_fails_at_once),
	    cmocka_unit_test(a_full_gpu_says_nothing),
	    cmocka_unit_test(halves_are_exact),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
