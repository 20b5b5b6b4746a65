/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/gpu/meter.h"

#include <math.h>

#include "base/clock.h"
#include "unit/unit.h"

enum { SECONDS_MAX = 32 };

struct seen {
	struct meter_second second[SECONDS_MAX];
	uint32_t count;
};

static void note(const struct meter_second *second, void *context)
{
	struct seen *seen = context;
	seen->second[seen->count++] = *second;
}

static bool near(double a, double b)
{
	return fabs(a - b) < 1e-9;
}

static void only_the_middle_counts(void **state)
{
	struct seen seen = {0};
	struct meter meter;
	uint64_t start = 7 * CLOCK_NS_PER_S + 5;
	/* Ten seconds with two at each end; slow at first, twice as fast in the middle. */
	meter_init(&meter, start, 10 * CLOCK_NS_PER_S, 2 * CLOCK_NS_PER_S, note, &seen);
	for (uint64_t ms = 1; ms <= 10000; ms++)
		meter_add(&meter, start + ms * CLOCK_NS_PER_MS, ms > 2000 && ms <= 8000 ? 2 : 1,
			  CLOCK_NS_PER_MS / 2);
	assert_true(near(meter_rate(&meter), 2000));
	assert_int_equal(seen.count, 10);
	assert_false(seen.second[1].counts);
	assert_true(seen.second[2].counts && seen.second[7].counts);
	assert_false(seen.second[8].counts);
	assert_true(near(seen.second[0].units, 1000) && near(seen.second[2].units, 2000));
	assert_int_equal(seen.second[3].gpu_ns, CLOCK_NS_PER_S / 2);
	assert_int_equal(meter.counted, 6);
	assert_true(near(meter.rate_min, 2000) && near(meter.rate_max, 2000));
}

static void a_second_ends_in_the_middle_of_a_kernel(void **state)
{
	struct seen seen = {0};
	struct meter meter;
	meter_init(&meter, 0, 3 * CLOCK_NS_PER_S, CLOCK_NS_PER_S, note, &seen);
	/* One every 0.7 s. */
	for (uint64_t i = 1; i <= 5; i++)
		meter_add(&meter, i * 700 * CLOCK_NS_PER_MS, 1, 0);
	assert_int_equal(seen.count, 3);
	for (uint32_t i = 0; i < 3; i++)
		assert_true(near(seen.second[i].units, 1 / 0.7));
	assert_true(near(meter_rate(&meter), 1 / 0.7));
}

static void one_that_takes_many_seconds_is_in_all_of_them(void **state)
{
	struct seen seen = {0};
	struct meter meter;
	meter_init(&meter, 0, 10 * CLOCK_NS_PER_S, CLOCK_NS_PER_S, note, &seen);
	meter_add(&meter, 20 * CLOCK_NS_PER_S, 40, 0);
	assert_int_equal(seen.count, 20);
	assert_true(near(seen.second[4].units, 2));
	assert_true(near(meter_rate(&meter), 2));
}

static void without_completions_there_is_no_rate(void **state)
{
	struct meter meter;
	meter_init(&meter, 0, 10 * CLOCK_NS_PER_S, CLOCK_NS_PER_S, NULL, NULL);
	assert_true(near(meter_rate(&meter), 0));
	meter_add(&meter, CLOCK_NS_PER_MS, 1, 0); /* nothing of what counts */
	assert_true(near(meter_rate(&meter), 0));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
	    cmocka_unit_test(only_the_middle_counts),
	    cmocka_unit_test(a_second_ends_in_the_middle_of_a_kernel),
	    cmocka_unit_test(one_that_takes_many_seconds_is_in_all_of_them),
	    cmocka_unit_test(without_completions_there_is_no_rate),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
