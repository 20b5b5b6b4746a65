/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/stats.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/err.h"
#include "unit/unit.h"

static void assert_near(double got, double wanted, double by)
{
	if (!(fabs(got - wanted) <= by))
		fail_msg("%.12g is not %.12g", got, wanted);
}

static void means_and_medians(void **state)
{
	double values[] = {4, 1, 2}, even[] = {3, 1, 2, 10};
	assert_near(stats_mean(values, 3), 7.0 / 3, 1e-12);
	assert_near(stats_deviation(values, 3), sqrt(7.0 / 3), 1e-12);
	assert_near(stats_median(values, 3), 2, 0);
	assert_near(values[0], 1, 0); /* sorted */
	assert_near(stats_median(even, 4), 2.5, 0);
	assert_near(stats_mean(NULL, 0), 0, 0);
	assert_near(stats_deviation(values, 1), 0, 0);
	assert_near(stats_median(NULL, 0), 0, 0);
}

/* All means of two, by themselves. */
static size_t walsh_brute(const double *sorted, size_t count, double *out)
{
	size_t found = 0;
	for (size_t i = 0; i < count; i++)
		for (size_t j = i; j < count; j++)
			out[found++] = sorted[i] / 2 + sorted[j] / 2;
	stats_sort(out, found);
	return found;
}

static void means_of_two_are_found_without_making_them(void **state)
{
	struct stats_random random = {.state = 7};
	double values[24], all[24 * 25 / 2];
	for (size_t count = 1; count <= array_length(values); count++) {
		for (size_t i = 0; i < count; i++) /* with ties, and both signs */
			values[i] = round(stats_random_normal(&random) * 8) / 4;
		stats_sort(values, count);
		size_t found = walsh_brute(values, count, all);
		for (size_t k = 1; k <= found; k++)
			assert_near(stats_walsh(values, count, k), all[k - 1], 0);
		double middle =
		    found % 2 ? all[found / 2] : all[found / 2 - 1] / 2 + all[found / 2] / 2;
		assert_near(stats_location(values, count), middle, 0);
	}
	const double three[] = {1, 2, 4};
	assert_near(stats_location(three, 3), 2.25, 0);
	assert_near(stats_location(NULL, 0), 0, 0);
}

/* F. Wilcoxon's own table, and closed values: all ranks on one side have a chance of 1/2^n. */
static void bounds_of_the_rank_sum(void **state)
{
	static const struct {
		size_t count;
		double alpha;
		int64_t k;
	} rows[] = {{6, 1.0 / 64, 0}, {6, 0.99 / 64, -1}, {5, 0.025, -1},  {5, 0.05, 0},
		    {6, 0.025, 0},    {10, 0.025, 8},	  {20, 0.025, 52}, {25, 0.025, 89},
		    {50, 0.025, 434}, {50, 0.05, 466},	  {0, 0.5, -1}};
	for (size_t i = 0; i < array_length(rows); i++) {
		int64_t k = -2;
		if (stats_rank_bound(rows[i].count, rows[i].alpha, &k, NULL) == -ENOMEM)
			return;
		assert_int_equal(k, rows[i].k);
	}
	/* Beyond what is counted out the normal distribution goes on where that ends. */
	int64_t exact, normal;
	if (stats_rank_bound(STATS_EXACT_MAX, 0.025, &exact, NULL) < 0 ||
	    stats_rank_bound(STATS_EXACT_MAX + 1, 0.025, &normal, NULL) < 0)
		return;
	double n = STATS_EXACT_MAX, z = 1.959964;
	assert_near((double)exact, n * (n + 1) / 4 - z * sqrt(n * (n + 1) * (2 * n + 1) / 24), 3);
	n++;
	assert_near((double)normal, n * (n + 1) / 4 - z * sqrt(n * (n + 1) * (2 * n + 1) / 24), 3);
}

static void intervals(void **state)
{
	const double six[] = {-1, 0, 1, 2, 3, 10};
	struct stats_interval interval = {7, 7};
	struct err err = {0};
	int result = stats_interval(six, 6, 0.95, &interval, &err);
	if (result == -ENOMEM)
		return;
	assert_int_equal(result, 0); /* k is 0: from the smallest mean to the largest */
	assert_near(interval.low, -1, 0);
	assert_near(interval.high, 10, 0);
	struct stats_interval untouched = {7, 7};
	result = stats_interval(six, 5, 0.95, &untouched, &err);
	assert_true(result == -ERANGE || result == -ENOMEM);
	assert_near(untouched.low, 7, 0);
	result = stats_interval(six, 5, 0.90, &interval, &err);
	assert_true(result == 0 || result == -ENOMEM);
	assert_int_equal(stats_interval(six, STATS_VALUES_MAX + 1, 0.9, &interval, &err), -E2BIG);
}

static void signed_ranks(void **state)
{
	/* By hand: ranks of the sizes 1 to 6, those below 0 are 1 and 2: a sum of 3, and sums of at
	 * most 3 have 1 + 1 + 1 + 2 of 64 ways. */
	const double plain[] = {3, -1, 4, -2, 5, 6}, one_side[] = {1, 2, 3, 4, 5, 6, 0, 0};
	const double zero[] = {0, 0}, tied[] = {1, 1, -1, 1, 1, 1, 1, 1};
	double p = 7;
	if (stats_signed_rank(plain, 6, &p, NULL) < 0)
		return;
	assert_near(p, 10.0 / 64, 1e-12);
	if (stats_signed_rank(one_side, 8, &p, NULL) < 0)
		return;
	assert_near(p, 2.0 / 64, 1e-12); /* zeros do not count */
	if (stats_signed_rank(zero, 2, &p, NULL) < 0)
		return;
	assert_near(p, 1, 0);
	if (stats_signed_rank(tied, 8, &p, NULL) < 0)
		return;
	assert_near(p, 2 * 9.0 / 256, 1e-12); /* ranks of 4.5 each: none or one of 8 is below 0 */
	if (stats_signed_rank(tied + 3, 5, &p, NULL) < 0)
		return;
	assert_near(p, 2.0 / 32, 1e-12); /* five on one side cannot say more */
}

static void trends(void **state)
{
	double up[10], down[10], same[10] = {0};
	for (int i = 0; i < 10; i++) {
		up[i] = i;
		down[i] = -i;
	}
	/* All 45 pairs ascend; the variance is 125; (45 - 1) / 11.18 is 3.9355. */
	assert_near(stats_trend(up, 10), 8.303e-5, 1e-7);
	assert_near(stats_trend(down, 10), 8.303e-5, 1e-7);
	assert_near(stats_trend(same, 10), 1, 0);
	assert_near(stats_trend(up, 3), 1, 0);
	const double ties[] = {1, 1, 2, 2, 3, 3};
	/* 12 pairs ascend; (6*5*17 - 3*2*1*9) / 18 is 25.333; 11 / 5.0332 is 2.1855. */
	assert_near(stats_trend(ties, 6), 0.02885, 1e-5);
}

static void families(void **state)
{
	double p[] = {0.01, 0.04, 0.03, 0.5};
	if (stats_holm(p, 4, NULL) < 0)
		return;
	assert_near(p[0], 0.04, 1e-12);
	assert_near(p[1], 0.09, 1e-12); /* not less than a smaller one */
	assert_near(p[2], 0.09, 1e-12);
	assert_near(p[3], 0.5, 1e-12);
}

static void how_many_pairs(void **state)
{
	assert_int_equal(stats_pairs_one_sided(0.03, 0.01), 59);
	assert_int_equal(stats_pairs_equivalent(0.03, 0.01), 81);
	assert_int_equal(stats_pairs_equivalent(0, 0.01), 6);
	assert_true(stats_pairs_equivalent(1, 0) == SIZE_MAX);
	assert_true(stats_pairs_equivalent(1e30, 1e-9) == SIZE_MAX);
}

static void random_numbers_are_those_of_their_seed(void **state)
{
	/* The first outputs of splitmix64 for the seed 1234567, as its authors' code gives them. */
	static const uint64_t known[] = {UINT64_C(6457827717110365317),
					 UINT64_C(3203168211198807973),
					 UINT64_C(9817491932198370423)};
	struct stats_random random = {.state = 1234567};
	for (size_t i = 0; i < array_length(known); i++)
		assert_true(stats_random_next(&random) == known[i]);
	double sum = 0, squares = 0;
	for (int i = 0; i < 20000; i++) {
		double uniform = stats_random_uniform(&random), x = stats_random_normal(&random);
		assert_true(uniform >= 0 && uniform < 1);
		sum += x;
		squares += x * x;
	}
	assert_near(sum / 20000, 0, 0.03);
	assert_near(squares / 20000, 1, 0.05);
}

/* From tables of the distribution: t of 0.95, 0.975 and 0.995. */
static void students_distribution(void **state)
{
	static const struct {
		double t, freedom, below;
	} rows[] = {
	    {6.313752, 1, 0.95},    {2.919986, 2, 0.95}, {2.228139, 10, 0.975},	 {2.750, 30, 0.995},
	    {1.959966, 1e6, 0.975}, {0, 7, 0.5},	 {-2.228139, 10, 0.025}, {1e9, 3, 1},
	    {-1e9, 3, 0},
	};
	for (size_t i = 0; i < array_length(rows); i++)
		if (fabs(stats_student_below(rows[i].t, rows[i].freedom) - rows[i].below) > 2e-6)
			fail_msg("t %g of %g: %.9f", rows[i].t, rows[i].freedom,
				 stats_student_below(rows[i].t, rows[i].freedom));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(students_distribution),
	    cmocka_unit_test(means_and_medians),
	    cmocka_unit_test(means_of_two_are_found_without_making_them),
	    cmocka_unit_test(bounds_of_the_rank_sum),
	    cmocka_unit_test(intervals),
	    cmocka_unit_test(signed_ranks),
	    cmocka_unit_test(trends),
	    cmocka_unit_test(families),
	    cmocka_unit_test(how_many_pairs),
	    cmocka_unit_test(random_numbers_are_those_of_their_seed),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
