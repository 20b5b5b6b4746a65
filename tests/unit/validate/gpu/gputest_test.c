/* SPDX-License-Identifier: Apache-2.0 */
#include "validate/gpu/gputest.h"

#include <string.h>

#include "base/err.h"
#include "unit/validate/gpu/fake.h"
#include "unit/unit.h"

static void a_pattern_finds_its_place(void **state)
{
	uint32_t words[1000];
	(void)state;
	gputest_fill(words, 1000, 3);
	assert_int_equal(gputest_verify(words, 1000, 3), 1000);
	assert_int_equal(gputest_verify(words, 1000, 4), 0);
	words[777] ^= 1u << 31;
	assert_int_equal(gputest_verify(words, 1000, 3), 777);
}

static void medians(void **state)
{
	double odd[] = {3, 1, 2}, even[] = {4, 1, 3, 2};
	(void)state;
	assert_true(gputest_median(odd, 3) == 2);
	assert_true(gputest_median(even, 4) == 2.5);
}

static void results_in_texts(void **state)
{
	(void)state;
	assert_int_equal(gputest_result_of("x: CUDA_ERROR_NO_DEVICE (100): no device"), 100);
	assert_int_equal(gputest_result_of("CUDA_ERROR_SYSTEM_NOT_READY (802)"), 802);
	assert_int_equal(gputest_result_of("no such file"), 0);
	assert_int_equal(gputest_result_of("CUDA_ERROR_"), 0);
	assert_int_equal(gputest_result_of("CUDA_ERROR_X (99999)"), 0);
	assert_int_equal(gputest_result_of("CUDA_ERROR_X (-1)"), 0);
}

/* As driver_fail() says it. */
static void results_of_our_own_errors(void **state)
{
	struct driver driver;
	struct driver_device device;
	struct err err = {.code = 0};
	struct check check = {.status = CHECK_PASS};
	(void)state;
	fake_open(&driver, &device, 1);
	(void)driver_fail(&driver, CUDA_SYSTEM_NOT_READY, &err, "cuInit");
	assert_int_equal(gputest_result_of(err.text), CUDA_SYSTEM_NOT_READY);
	gputest_failed(&check, &err);
	assert_int_equal(check.status, CHECK_FAIL);
	assert_non_null(strstr(check.hint, "fabricmanager"));
}

static void time_begins_when_all_is_queued(void **state)
{
	struct driver driver;
	struct driver_device device;
	struct gputest test;
	struct err err = {.code = 0};
	double seconds = 0;
	bool was_held = false;
	(void)state;
	fake_open(&driver, &device, 1);
	assert_int_equal(gputest_open(&driver, &device, &test, &err), 0);
	assert_int_equal(fake.copies, 1); /* loaded now, and not behind the hold */
	assert_int_equal(gputest_begin(&test, true, &err), 0);
	fake.now_ns += 5000000;
	assert_int_equal(gputest_end(&test, true, &seconds, &was_held, &err), 0);
	assert_true(seconds > 0.0049 && seconds < 0.0051 && was_held);
	fake.is_late = true;
	assert_int_equal(gputest_begin(&test, false, &err), 0);
	assert_int_equal(gputest_end(&test, false, &seconds, &was_held, &err), 0);
	assert_false(was_held);
	gputest_close(&test);
	assert_int_equal(fake.held, 0);
	assert_int_equal(fake.contexts, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_pattern_finds_its_place),
	    cmocka_unit_test(medians),
	    cmocka_unit_test(results_in_texts),
	    cmocka_unit_test(results_of_our_own_errors),
	    cmocka_unit_test(time_begins_when_all_is_queued),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
