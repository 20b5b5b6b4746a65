/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/error.h"

#include <string.h>

#include "tests/unit/unit.h"

static void test_fail_says_what_and_how(void **state)
{
	struct sim_error error = {0};

	assert_int_equal(sim_fail(&error, SIM_EXIT_LIVE, "machine %d", 7), -1);
	assert_int_equal(error.exit_code, SIM_EXIT_LIVE);
	assert_string_equal(error.text, "machine 7");
	assert_int_equal(sim_fail(NULL, SIM_EXIT_INPUT, "nobody asks"), -1);
}

static void test_nearest(void **state)
{
	static const char *const names[] = {"single", "mixed", "hetero", "x"};

	assert_string_equal(sim_nearest("singel", 6, names, 4), "single");
	assert_string_equal(sim_nearest("mxed", 4, names, 4), "mixed");
	assert_string_equal(sim_nearest("heteroXX", 6, names, 4), "hetero");
	assert_null(sim_nearest("entirely", 8, names, 4));
	assert_null(sim_nearest("", 0, names, 4));
	assert_null(sim_nearest("single", 6, names, 0));
	assert_null(sim_nearest("a-name-that-is-longer-than-any-name-here", 40, names, 4));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_fail_says_what_and_how),
	    cmocka_unit_test(test_nearest),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
