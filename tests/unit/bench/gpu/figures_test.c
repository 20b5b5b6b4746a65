/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/gpu/figures.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/half.h"
#include "bench/stats.h"
#include "unit/unit.h"

enum { SAMPLES = 100000, SORTED = 1000 };

static void operands_are_random_and_never_alike(void **state)
{
	static uint16_t halves[SAMPLES];
	struct stats_random random = {7};
	double sum = 0, squares = 0;
	figures_fill_halves(halves, SAMPLES, &random);
	for (int i = 0; i < SAMPLES; i++) {
		double value = (double)half_to_float(halves[i]);
		assert_true(fabs(value) <= 1);
		sum += value;
		squares += value * value;
	}
	assert_true(fabs(sum / SAMPLES) < 0.01);
	assert_true(fabs(squares / SAMPLES - 1.0 / 3) < 0.01);
}

static void a_percentile_is_one_of_the_samples(void **state)
{
	double sorted[SORTED];
	for (int i = 0; i < SORTED; i++)
		sorted[i] = i + 1;
	assert_true(figures_percentile(sorted, SORTED, 0.5) == 500);
	assert_true(figures_percentile(sorted, SORTED, 0.99) == 990);
	assert_true(figures_percentile(sorted, SORTED, 0.999) == 999);
	assert_true(figures_percentile(sorted, SORTED, 1) == SORTED);
	assert_true(figures_percentile(sorted, SORTED, 0) == 1);
	assert_true(figures_percentile(sorted, 1, 0.999) == 1);
	assert_true(figures_percentile(sorted, 0, 0.5) == 0);
	/* By counting: at least that share is not larger, and fewer are not larger than the one
	 * before. */
	for (int n = 1; n <= 300; n += 7)
		for (int percent = 1; percent < 100; percent++) {
			double value = figures_percentile(sorted, (size_t)n, percent / 100.0);
			assert_true(value * 100 >= (double)percent * n);
			assert_true((value - 1) * 100 < (double)percent * n);
		}
}

static void arrivals_are_those_of_a_poisson_process(void **state)
{
	struct stats_random random = {42};
	static uint64_t due[SAMPLES * 2];
	double mean = 0, squares = 0, counts[1000] = {0}, count_mean = 0, count_squares = 0;
	/* 1000 s at 100 a second. */
	size_t count = figures_arrivals(&random, 100, UINT64_C(1000000000000), due, SAMPLES * 2);
	assert_in_range(count, 99000, 101000); /* three deviations */
	for (size_t i = 1; i < count; i++) {
		double gap = (double)(due[i] - due[i - 1]) / 1e9;
		mean += gap / (double)(count - 1);
		squares += gap * gap / (double)(count - 1);
	}
	assert_true(fabs(mean - 0.01) < 0.0002);
	assert_true(fabs(squares - mean * mean - 0.0001) < 0.000005); /* exponential: mean^2 */
	for (size_t i = 0; i < count; i++)
		counts[due[i] / 1000000000] += 1;
	for (int i = 0; i < 1000; i++) {
		count_mean += counts[i] / 1000;
		count_squares += counts[i] * counts[i] / 1000;
	}
	/* In a second: mean and variance are equal. */
	assert_true(fabs(count_mean - 100) < 1);
	assert_true(fabs(count_squares - count_mean * count_mean - 100) < 15);
}

static void arrivals_are_repeated_by_their_seed_and_bounded(void **state)
{
	struct stats_random one = {5}, two = {5};
	uint64_t a[10], b[10];
	assert_int_equal(figures_arrivals(&one, 1000, UINT64_MAX / 2, a, 10), 10);
	assert_int_equal(figures_arrivals(&two, 1000, UINT64_MAX / 2, b, 10), 10);
	assert_memory_equal(a, b, sizeof(a));
	assert_int_equal(figures_arrivals(&one, 1000, 0, a, 10), 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
	    cmocka_unit_test(operands_are_random_and_never_alike),
	    cmocka_unit_test(a_percentile_is_one_of_the_samples),
	    cmocka_unit_test(arrivals_are_those_of_a_poisson_process),
	    cmocka_unit_test(arrivals_are_repeated_by_their_seed_and_bounded),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
