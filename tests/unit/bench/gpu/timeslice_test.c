/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/gpu/timeslice.h"

#include <math.h>

#include "unit/unit.h"

static struct timeslice judged(double before, double one, double two, double after)
{
	struct timeslice figures = {.before = before, .one = one, .two = two, .after = after};
	assert_true(timeslice_judge(&figures));
	return figures;
}

static void half_each_passes(void **state)
{
	struct timeslice figures = judged(49.469, 23.557, 23.557, 49.469);
	assert_true(figures.passes && figures.is_model);
	assert_true(fabs(figures.sum - 0.9524) < 0.0001);
	assert_true(judged(100, 44.01, 45, 100).passes);
	assert_true(judged(100, 50.9, 49, 100).passes);
	assert_false(judged(100, 50.9, 49, 100).is_model);
	/* The limits are within it. */
	assert_true(judged(100, 44, 44, 100).passes);
	assert_true(judged(100, 51, 51, 100).passes);
}

static void less_than_half_more_or_unequal_fails(void **state)
{
	assert_false(judged(100, 43.9, 44.1, 100).passes);
	assert_false(judged(100, 51.1, 50.9, 100).passes);
	assert_false(judged(100, 46, 48.1, 100).passes); /* 2.1 apart */
	assert_false(judged(100, 30, 70, 100).passes);
	assert_false(judged(100, 0, 0, 100).passes);
	assert_false(judged(100, NAN, 47, 100).passes);
}

static void both_runs_alone_count(void **state)
{
	/* It became slower by a tenth: the mean is what either is compared with. */
	struct timeslice figures = judged(100, 45, 45, 90);
	assert_true(fabs(figures.alone - 95) < 1e-9);
	assert_true(fabs(figures.ratio[0] - 45.0 / 95) < 1e-9);
	assert_true(fabs(figures.drift - 10.0 / 95) < 1e-9);
}

static void without_a_rate_alone_nothing_is_said(void **state)
{
	struct timeslice figures = {.before = 0, .one = 1, .two = 1, .after = 2};
	assert_false(timeslice_judge(&figures));
	figures = (struct timeslice){.before = NAN, .one = 1, .two = 1, .after = 2};
	assert_false(timeslice_judge(&figures));
}

static void a_t4_is_known_by_its_name(void **state)
{
	assert_true(timeslice_is_t4("Tesla T4") && timeslice_is_t4("NVIDIA T4") &&
		    timeslice_is_t4("T4"));
	assert_false(timeslice_is_t4("NVIDIA H200") || timeslice_is_t4("NVIDIA T400") ||
		     timeslice_is_t4("GT4") || timeslice_is_t4(""));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
	    cmocka_unit_test(half_each_passes),
	    cmocka_unit_test(less_than_half_more_or_unequal_fails),
	    cmocka_unit_test(both_runs_alone_count),
	    cmocka_unit_test(without_a_rate_alone_nothing_is_said),
	    cmocka_unit_test(a_t4_is_known_by_its_name),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
