/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/steady.h"

#include <errno.h>

#include "base/err.h"
#include "unit/unit.h"

enum { SAMPLES = 100 };

static void the_beginning_does_not_count(void **state)
{
	double samples[SAMPLES];
	struct steady steady;
	for (int i = 0; i < SAMPLES; i++)
		samples[i] = i < 25 ? 50 - i : 10 + 0.01 * (i % 3);
	if (steady_find(samples, SAMPLES, &steady, NULL) < 0)
		return;
	assert_true(steady.is_steady);
	/* The first ten in a row of which at least half belong to the rest, so that their median is
	 * near that of the rest. */
	assert_in_range(steady.discard, 20, 25);
	assert_true(steady.median > 9.99 && steady.median < 10.03);
}

/* Doubled each time: the medians of ten lie half way between two of them, and that of the fifteen
 * at the end on one. */
static void what_never_settles_is_kept_and_said(void **state)
{
	double samples[30];
	struct steady steady;
	for (int i = 0; i < 30; i++)
		samples[i] = (double)(1 << i);
	if (steady_find(samples, 30, &steady, NULL) < 0)
		return;
	assert_false(steady.is_steady);
	assert_int_equal(steady.discard, 0);
	assert_true(steady.median == 1.5 * (1 << 14));
}

static void few_samples_are_all_kept(void **state)
{
	const double few[] = {5, 1, 3};
	struct steady steady;
	if (steady_find(few, 3, &steady, NULL) < 0)
		return;
	assert_true(steady.is_steady);
	assert_int_equal(steady.discard, 0);
	assert_true(steady.median == 3);
	struct err err = {0};
	assert_int_equal(steady_find(few, 0, &steady, &err), -EINVAL);
	assert_int_equal(steady_find(few, STEADY_SAMPLES_MAX + 1, &steady, &err), -E2BIG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_beginning_does_not_count),
	    cmocka_unit_test(what_never_settles_is_kept_and_said),
	    cmocka_unit_test(few_samples_are_all_kept),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
