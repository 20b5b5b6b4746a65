/* SPDX-License-Identifier: Apache-2.0 */
#include "libexec/kube/backoff.h"

#include "tests/unit/unit.h"

static void test_it_doubles_up_to_the_last(void **state)
{
	struct backoff backoff;
	uint64_t step_ns = BACKOFF_FIRST_NS;
	backoff_init(&backoff, 0, 7);
	for (unsigned i = 1; i <= 100; i++) {
		uint64_t wait_ns = backoff_fail(&backoff);
		assert_true(wait_ns >= step_ns / 2 && wait_ns <= step_ns);
		assert_int_equal(backoff.failures, i);
		step_ns = step_ns * 2 < BACKOFF_LAST_NS ? step_ns * 2 : BACKOFF_LAST_NS;
	}
	assert_int_equal(backoff.step_ns, BACKOFF_LAST_NS);
	backoff_succeed(&backoff);
	assert_int_equal(backoff.failures, 0);
	assert_true(backoff_fail(&backoff) <= BACKOFF_FIRST_NS);
}

/* Nodes that fail together do not come back together. */
static void test_it_is_another_for_each(void **state)
{
	uint64_t least_ns = UINT64_MAX, most_ns = 0;
	for (uint64_t seed = 0; seed < 100; seed++) {
		struct backoff backoff;
		backoff_init(&backoff, 1000000, seed * UINT64_C(0x9e3779b97f4a7c15));
		uint64_t wait_ns = backoff_fail(&backoff);
		least_ns = wait_ns < least_ns ? wait_ns : least_ns;
		most_ns = wait_ns > most_ns ? wait_ns : most_ns;
	}
	assert_true(least_ns < 600000 && most_ns > 900000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_it_doubles_up_to_the_last),
	    cmocka_unit_test(test_it_is_another_for_each),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
