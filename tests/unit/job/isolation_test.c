/* SPDX-License-Identifier: Apache-2.0 */
#include "job/isolation.h"

#include <errno.h>

#include "unit/unit.h"

static void what_is_asked_for(void **state)
{
	(void)state;
	/* The order of the words of --isolation, and the numbers in stored jobs. */
	static const char *const words[] = {"best", "require",	 "cgroup", "landlock",
					    "env",  "container", "none"};
	uint32_t asked = 99;

	for (uint32_t i = 0; i < ISOLATION_ASKED_COUNT; i++) {
		assert_string_equal(isolation_asked_to_string(i), words[i]);
		assert_int_equal(isolation_asked_from_string(words[i], &asked), 0);
		assert_int_equal(asked, i);
	}

	assert_null(isolation_asked_to_string(ISOLATION_CGROUP2));
	assert_int_equal(isolation_asked_from_string("cgroup2", &asked), -EINVAL);
	assert_int_equal(isolation_asked_from_string("", &asked), -EINVAL);
	assert_int_equal(asked, ISOLATION_NONE);
}

static void what_is_reached(void **state)
{
	(void)state;
	static const enum isolation levels[] = {
	    ISOLATION_LANDLOCK, ISOLATION_ENV,	   ISOLATION_CONTAINER,	      ISOLATION_NONE,
	    ISOLATION_CGROUP1,	ISOLATION_CGROUP2, ISOLATION_CONTAINER_ALONE,
	};
	enum isolation level = ISOLATION_BEST;

	for (size_t i = 0; i < sizeof(levels) / sizeof(levels[0]); i++) {
		assert_int_equal(
		    isolation_level_from_string(isolation_level_to_string(levels[i]), &level), 0);
		assert_int_equal(level, levels[i]);
	}

	/* No attempt reaches what can only be asked for. */
	assert_string_equal(isolation_level_to_string(ISOLATION_BEST), "env");
	assert_string_equal(isolation_level_to_string(ISOLATION_CGROUP), "env");
	assert_int_equal(isolation_level_from_string("cgroup", &level), -EINVAL);
	assert_int_equal(isolation_level_from_string("best", &level), -EINVAL);
	assert_int_equal(level, ISOLATION_CONTAINER_ALONE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_is_asked_for),
	    cmocka_unit_test(what_is_reached),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
