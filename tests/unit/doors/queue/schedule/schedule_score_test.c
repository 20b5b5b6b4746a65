/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/queue/schedule/schedule_score.h"

#include <stdint.h>

#include "unit/unit.h"

#define HOUR  UINT64_C(3600000000000)
#define DAY   (24 * HOUR)
#define POINT SCHEDULE_SCORE_POINT

static struct schedule_score score_of(const struct rules_weights *weights,
				      struct schedule_facts facts)
{
	struct schedule_score score;
	schedule_score_make(weights, &facts, &score);
	return score;
}

#define SCORE(...) score_of(NULL, (struct schedule_facts){__VA_ARGS__})

static void test_parts(void **state)
{
	struct schedule_score score = SCORE(.waited_ns = 90 * HOUR / 60, .gpus = 4, .priority = -2,
					    .usage_hours = 16, .machine_gpus = 8);
	assert_int_equal(score.age, 150 * POINT);
	assert_int_equal(score.size, 150 * POINT);
	assert_int_equal(score.priority, -200000 * POINT);
	assert_int_equal(score.usage, 40 * POINT);
	assert_int_equal(schedule_score_total(&score), (150 + 150 - 200000 - 40) * POINT);
	const struct rules_weights weights = {.age = 1, .size = 2, .priority = 3, .usage = 4};
	score = score_of(
	    &weights,
	    (struct schedule_facts){
		.waited_ns = HOUR, .gpus = 2, .priority = 1, .usage_hours = 1, .machine_gpus = 1});
	assert_int_equal(schedule_score_total(&score), (1 + 2 + 3 - 4) * POINT);
	score = SCORE(.gpus = 0);
	assert_int_equal(schedule_score_total(&score), 0);
	assert_int_equal(schedule_score_gpu(NULL, 8), 2500);
	assert_int_equal(schedule_score_gpu(NULL, 0), 20 * POINT);
}

/* Whatever comes: no part runs over. */
static void test_absurd(void **state)
{
	const struct rules_weights most = {1000000, 1000000, 1000000, 1000000};
	struct schedule_score score =
	    score_of(&most, (struct schedule_facts){.waited_ns = UINT64_MAX,
						    .gpus = UINT32_MAX,
						    .priority = 100,
						    .usage_hours = 1e300});
	assert_true(score.age > 0 && score.size > 0 && score.usage > 0);
	assert_true(schedule_score_total(&score) < INT64_MAX / 2);
	assert_true(schedule_score_total(&score) > INT64_MIN / 2);
	assert_int_equal(score_of(&most, (struct schedule_facts){.usage_hours = -1}).usage, 0);
}

/* Who waits long enough comes first, however much they have had. */
static void test_nobody_starves(void **state)
{
	/* The whole machine, for ever: a half-life of it through ln 2. */
	double most = 8 * 24 / 0.6931;
	struct schedule_score heavy =
	    SCORE(.waited_ns = 35 * HOUR, .gpus = 1, .usage_hours = most, .machine_gpus = 8);
	struct schedule_score fresh = SCORE(.gpus = 1, .machine_gpus = 8);
	assert_true(schedule_score_total(&heavy) > schedule_score_total(&fresh));
}

static void assert_near(double is, double wanted)
{
	double apart = is > wanted ? is - wanted : wanted - is;
	assert_true(apart <= 1e-9 * (wanted > 1 ? wanted : 1));
}

static void test_fade(void **state)
{
	assert_near(schedule_fade(0, DAY), 1);
	assert_near(schedule_fade(DAY, DAY), 0.5);
	assert_near(schedule_fade(10 * DAY, DAY), 1.0 / 1024);
	assert_near(schedule_fade(DAY / 2, DAY), 0.70710678118654752440);
	assert_near(schedule_fade(DAY / 4 * 3, DAY), 0.59460355750136053336);
	assert_near(schedule_fade(DAY - 1, DAY), 0.5);
	assert_near(schedule_fade(UINT64_MAX, 1), 0);
	assert_near(schedule_fade(DAY, 0), 0);
	assert_near(schedule_fade(DAY, UINT64_MAX),
		    1 - (double)DAY / (double)UINT64_MAX * 0.69314718055994530942);
}

static void test_used_hours(void **state)
{
	/* What has just been counts in full, what was a half-life ago half. */
	assert_near(schedule_used_hours(2, HOUR / 3600, 0, DAY), 2.0 / 3600 * 0.999996);
	assert_near(schedule_used_hours(1, DAY + HOUR, DAY, DAY),
		    schedule_used_hours(1, HOUR, 0, DAY) / 2);
	/* Never more than a half-life through ln 2. */
	assert_near(schedule_used_hours(1, 10000 * DAY, 0, DAY), 24 / 0.69314718055994530942);
	/* In parts as at once. */
	assert_near(schedule_used_hours(4, 5 * HOUR, 3 * HOUR, DAY) +
			schedule_used_hours(4, 3 * HOUR, HOUR, DAY),
		    schedule_used_hours(4, 5 * HOUR, HOUR, DAY));
	assert_near(schedule_used_hours(1, HOUR, 0, UINT64_MAX), 1);
	assert_near(schedule_used_hours(1, HOUR, HOUR, DAY), 0);
	assert_near(schedule_used_hours(1, 0, HOUR, DAY), 0);
	/* A short one: the difference of two large numbers would be nothing. */
	assert_near(schedule_used_hours(1000, 1000000, 0, DAY) * 3600, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_parts),	   cmocka_unit_test(test_absurd),
	    cmocka_unit_test(test_nobody_starves), cmocka_unit_test(test_fade),
	    cmocka_unit_test(test_used_hours),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
