/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/mlrules.h"

#include <errno.h>
#include <string.h>

#include "unit/unit.h"

/* An account has room for every row of every round. */
static void the_table_fits(void **state)
{
	for (int round = 0; round < MLRULES_ROUNDS; round++) {
		size_t count = mlrules_count((enum mlrules_round)round);
		assert_true(count > 10 && count <= MLRULES_ROWS_MAX);
	}
}

static void names_of_rounds(void **state)
{
	enum mlrules_round round;
	assert_int_equal(mlrules_from_string("v0.6", &round), 0);
	assert_int_equal(round, MLRULES_06);
	assert_int_equal(mlrules_from_string("1.1.0", &round), 0);
	assert_string_equal(mlrules_to_string(round), "1.1.0");
	assert_int_equal(mlrules_from_string("1.", &round), -EINVAL);
	assert_int_equal(mlrules_from_string("2.0.0", &round), -EINVAL);
	assert_string_equal(mlrules_to_string((enum mlrules_round)9), "?");
}

static void benchmarks_come_and_go(void **state)
{
	assert_true(mlrules_has(MLRULES_06, "gnmt") && !mlrules_has(MLRULES_10, "gnmt"));
	assert_true(!mlrules_has(MLRULES_07, "rnnt") && mlrules_has(MLRULES_10, "rnnt"));
	assert_true(mlrules_has(MLRULES_11, "minigo") && !mlrules_has(MLRULES_11, "chess"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_table_fits),
	    cmocka_unit_test(names_of_rounds),
	    cmocka_unit_test(benchmarks_come_and_go),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
