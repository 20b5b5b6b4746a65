/* SPDX-License-Identifier: Apache-2.0 */
#include "base/repeats.h"

#include <stdio.h>
#include <string.h>

#include "unit/unit.h"

#define MINUTE UINT64_C(60000000000)

static struct repeats repeats;

static int setup(void **state)
{
	memset(&repeats, 0, sizeof(repeats));
	return 0;
}

/* How many of `count`, one each `every_ns` from `from_ns` on, are told. */
static uint32_t told(const char *key, uint32_t count, uint64_t from_ns, uint64_t every_ns)
{
	uint32_t sum = 0;
	uint64_t left_out;
	for (uint32_t i = 0; i < count; i++)
		sum += repeats_may_tell(&repeats, key, from_ns + i * every_ns, &left_out);
	return sum;
}

static void test_the_same_at_a_bounded_rate(void **state)
{
	/* 300,000 within 90 s */
	assert_int_equal(told("gpu 2", 300000, MINUTE, 3 * MINUTE / 2 / 300000), REPEATS_BURST + 8);
	assert_int_equal(told("gpu 3", 1, 3 * MINUTE, 0), 1);
}

/* What comes seldom is told each time. */
static void test_the_usual_is_told(void **state)
{
	assert_int_equal(told("gpu 2", 1000, MINUTE, REPEATS_EVERY_NS), 1000);
	assert_int_equal(told("gpu 3", REPEATS_BURST, MINUTE, 0), REPEATS_BURST);
}

static void test_what_was_left_out_is_counted(void **state)
{
	char text[REPEATS_TEXT_MAX] = "?";
	assert_int_equal(told("gpu 2 xid", 1000, MINUTE, 0), REPEATS_BURST);
	assert_false(repeats_may_tell_of(&repeats, MINUTE, text, "gpu %d %s", 2, "xid"));
	assert_string_equal(text, "?");
	assert_true(repeats_may_tell_of(&repeats, 2 * MINUTE, text, "gpu %d %s", 2, "xid"));
	assert_string_equal(text, " (and 991 times more)");
	assert_true(repeats_may_tell_of(&repeats, 2 * MINUTE, text, "gpu %d %s", 2, "xid"));
	assert_string_equal(text, "");
}

/* Keys without end are no way around it, and take no place for ever. */
static void test_any_number_of_keys(void **state)
{
	uint32_t sum = 0;
	for (uint32_t i = 0; i < 100000; i++) {
		char key[32];
		(void)snprintf(key, sizeof(key), "key %u", i);
		sum += told(key, 1, MINUTE, 0);
	}
	assert_int_equal(sum, REPEATS_KEYS + REPEATS_BURST);
	assert_int_equal(told("a new one", 3, 5 * MINUTE, 0), 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup(test_the_same_at_a_bounded_rate, setup),
	    cmocka_unit_test_setup(test_the_usual_is_told, setup),
	    cmocka_unit_test_setup(test_what_was_left_out_is_counted, setup),
	    cmocka_unit_test_setup(test_any_number_of_keys, setup),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
