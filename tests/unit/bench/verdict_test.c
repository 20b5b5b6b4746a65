/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/verdict.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/check.h"
#include "base/err.h"
#include "unit/unit.h"

enum { PAIRS = 40 };

static void assert_near(double got, double wanted, double by)
{
	if (!(fabs(got - wanted) <= by))
		fail_msg("%.12g is not %.12g", got, wanted);
}

static void every_block_has_both_orders(void **state)
{
	size_t begins_with_b = 0;
	for (uint64_t seed = 0; seed < 50; seed++) {
		for (uint64_t block = 0; block < 20; block++) {
			bool runs[VERDICT_BLOCK];
			for (size_t i = 0; i < VERDICT_BLOCK; i++)
				runs[i] = verdict_run_is_b(seed, block * VERDICT_BLOCK + i);
			assert_int_equal(runs[0], runs[3]); /* ABBA or BAAB */
			assert_int_equal(runs[1], runs[2]);
			assert_int_not_equal(runs[0], runs[1]);
			assert_int_equal(verdict_pair_is_ba(seed, block * 2), runs[0]);
			assert_int_equal(verdict_pair_is_ba(seed, block * 2 + 1), runs[2]);
			begins_with_b += runs[0];
		}
	}
	assert_in_range(begins_with_b, 400, 600); /* of 1000, by a coin */
}

/* B is worse by `ratio`, with `noise` in both that is the same on every machine. */
static void make_pairs(struct verdict_pair *pairs, size_t count, double ratio, double noise,
		       double second)
{
	struct stats_random random = {.state = 11};
	for (size_t i = 0; i < count; i++) {
		pairs[i].b_is_first = verdict_pair_is_ba(5, i);
		pairs[i].a = exp(noise * stats_random_normal(&random)) *
			     (pairs[i].b_is_first ? 1 + second : 1);
		pairs[i].b = ratio * exp(noise * stats_random_normal(&random)) *
			     (pairs[i].b_is_first ? 1 : 1 + second);
	}
}

static int judge(double ratio, double noise, double second, size_t count, struct verdict *out)
{
	struct verdict_pair pairs[PAIRS];
	make_pairs(pairs, count, ratio, noise, second);
	struct verdict_question question = {.pairs = pairs, .count = count, .margin = 0.01};
	return verdict_make(&question, out, NULL);
}

static void verdicts(void **state)
{
	static const struct {
		double ratio, noise;
		size_t count;
		enum verdict_kind kind;
	} rows[] = {
	    {1, 0.002, PAIRS, VERDICT_EQUIVALENT},
	    {1.004, 0.001, PAIRS, VERDICT_DIFFERENT_BUT_SMALL},
	    {0.996, 0.001, PAIRS, VERDICT_DIFFERENT_BUT_SMALL},
	    {1.05, 0.002, PAIRS, VERDICT_SLOWER},
	    {0.95, 0.002, PAIRS, VERDICT_FASTER},
	    {1, 0.2, PAIRS, VERDICT_INCONCLUSIVE},
	    {1.01, 0.002, PAIRS, VERDICT_INCONCLUSIVE},
	    {2, 0.001, 6, VERDICT_SLOWER},
	    {2, 0.001, 5, VERDICT_TOO_FEW},
	    {1, 0, 0, VERDICT_TOO_FEW},
	};
	for (size_t i = 0; i < array_length(rows); i++) {
		struct verdict verdict;
		if (judge(rows[i].ratio, rows[i].noise, 0, rows[i].count, &verdict) < 0)
			return;
		assert_string_equal(verdict_to_string(verdict.kind),
				    verdict_to_string(rows[i].kind));
		assert_int_equal(verdict.units, rows[i].count);
	}
	assert_string_equal(verdict_to_string((enum verdict_kind)99), "?");
}

static void figures_beside_the_verdict(void **state)
{
	struct verdict verdict;
	if (judge(1.01, 0.002, 0, PAIRS, &verdict) < 0)
		return;
	assert_near(verdict.estimate, 0.01, 0.001);
	assert_near(verdict.geometric_mean, 0.01, 0.001);
	assert_near(verdict.deviation, 0.002 * M_SQRT2, 0.0006);
	assert_true(verdict.within_95.low < verdict.within_90.low);
	assert_true(verdict.within_90.high < verdict.within_95.high);
	assert_true(verdict.excludes_zero && verdict.p < 0.001);
	assert_false(verdict.by_blocks);
	if (judge(1, 0.02, 0, PAIRS, &verdict) < 0)
		return;
	assert_true(verdict.pairs_one_sided > 20);
	assert_true(verdict.pairs_one_sided < verdict.pairs_equivalent);
}

/* What is said of A and B is the opposite of what is said of B and A, and it does not matter in
 * which units both were measured. */
static void sides_can_be_exchanged(void **state)
{
	struct verdict_pair pairs[PAIRS], other[PAIRS];
	struct verdict_question question = {.pairs = pairs, .count = PAIRS, .margin = 0.01};
	struct verdict there, back, rate;
	make_pairs(pairs, PAIRS, 1.03, 0.01, 0);
	for (size_t i = 0; i < PAIRS; i++)
		other[i] = (struct verdict_pair){pairs[i].b * 1000, pairs[i].a * 1000,
						 !pairs[i].b_is_first};
	if (verdict_make(&question, &there, NULL) < 0)
		return;
	question.pairs = other;
	if (verdict_make(&question, &back, NULL) < 0)
		return;
	assert_near(log1p(there.estimate), -log1p(back.estimate), 1e-9);
	assert_near(log1p(there.within_95.low), -log1p(back.within_95.high), 1e-9);
	question.higher_is_better = true;
	if (verdict_make(&question, &rate, NULL) < 0)
		return;
	assert_near(rate.estimate, there.estimate, 1e-9);
}

/* Who runs second has it worse by 5 %: half of the pairs say +5 %, half -5 %, and blocks say 0. */
static void an_effect_of_the_order_does_not_count(void **state)
{
	struct verdict verdict;
	if (judge(1, 0.001, 0.05, PAIRS, &verdict) < 0)
		return;
	assert_true(verdict.by_blocks);
	assert_int_equal(verdict.units, PAIRS / 2);
	assert_near(verdict.slot_effect, 0.05, 0.002);
	assert_int_equal(verdict.kind, VERDICT_EQUIVALENT);
}

static void a_second_look_makes_intervals_wider(void **state)
{
	struct verdict_pair pairs[PAIRS];
	struct verdict once, twice;
	make_pairs(pairs, PAIRS, 1, 0.01, 0);
	struct verdict_question question = {.pairs = pairs, .count = PAIRS, .margin = 0.01};
	if (verdict_make(&question, &once, NULL) < 0)
		return;
	question.looks = 2;
	if (verdict_make(&question, &twice, NULL) < 0)
		return;
	assert_true(twice.within_95.low < once.within_95.low);
	assert_true(twice.within_95.high > once.within_95.high);
}

static void a_machine_that_cannot_tell(void **state)
{
	struct verdict quiet, noisy, drifted;
	double half_width;
	if (judge(1, 0.002, 0, PAIRS, &quiet) < 0 || judge(1, 0.2, 0, PAIRS, &noisy) < 0 ||
	    judge(1.02, 0.002, 0, PAIRS, &drifted) < 0)
		return;
	assert_false(verdict_calibration_fails(&quiet, 0.01, &half_width));
	assert_true(half_width < 0.01);
	assert_true(verdict_calibration_fails(&noisy, 0.01, &half_width));
	assert_true(half_width > 0.01);
	assert_true(verdict_calibration_fails(&drifted, 0.01, &half_width)); /* A is not A */
}

static void a_drift_is_told(void **state)
{
	struct verdict_pair pairs[PAIRS];
	struct verdict verdict;
	make_pairs(pairs, PAIRS, 1, 0.001, 0);
	for (size_t i = 0; i < PAIRS; i++)
		pairs[i].b *= 1 + 0.01 * (double)i;
	struct verdict_question question = {.pairs = pairs, .count = PAIRS, .margin = 0.01};
	if (verdict_make(&question, &verdict, NULL) < 0)
		return;
	assert_true(verdict.trend_b < 0.001);
	assert_true(verdict.trend_a > 0.001);
}

static void what_cannot_be_compared_is_refused(void **state)
{
	static const double bad[] = {0, -1, NAN, INFINITY};
	for (size_t i = 0; i < array_length(bad); i++) {
		struct verdict_pair pairs[PAIRS];
		struct verdict verdict;
		struct err err = {0};
		make_pairs(pairs, PAIRS, 1, 0, 0);
		pairs[3].b = bad[i];
		struct verdict_question question = {.pairs = pairs, .count = PAIRS, .margin = 0.01};
		assert_int_equal(verdict_make(&question, &verdict, &err), -EINVAL);
		assert_non_null(strstr(err.text, "pair 4"));
		pairs[3].b = 1;
		question.margin = i % 2 ? 0 : 1;
		assert_int_equal(verdict_make(&question, &verdict, &err), -EINVAL);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_block_has_both_orders),
	    cmocka_unit_test(verdicts),
	    cmocka_unit_test(figures_beside_the_verdict),
	    cmocka_unit_test(sides_can_be_exchanged),
	    cmocka_unit_test(an_effect_of_the_order_does_not_count),
	    cmocka_unit_test(a_second_look_makes_intervals_wider),
	    cmocka_unit_test(a_machine_that_cannot_tell),
	    cmocka_unit_test(a_drift_is_told),
	    cmocka_unit_test(what_cannot_be_compared_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
