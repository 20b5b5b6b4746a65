/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/jobs/since.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/check.h"
#include "base/err.h"
#include "unit/unit.h"

#define S   INT64_C(1000000000)
#define NOW (INT64_C(1800000000) * S)

static int64_t read_one(const char *text)
{
	int64_t out = 0;
	struct err err = {0};
	if (since_read(text, NOW, &out, &err) < 0)
		fail_msg("%s", err.text);
	return out;
}

static void test_times(void **state)
{
	(void)state;
	assert_int_equal(setenv("TZ", "UTC", 1), 0);
	tzset();
	assert_true(read_one("7d") == NOW - 7 * 86400 * S);
	assert_true(read_one("2w") == NOW - 14 * 86400 * S);
	assert_true(read_one("1h30m") == NOW - 5400 * S);
	assert_true(read_one("36500d") == 1); /* before 1970 */
	assert_true(read_one("2026-11-01") == INT64_C(1793491200) * S);
	assert_true(read_one("2026-11-01T08:30") == INT64_C(1793521800) * S);
	assert_true(read_one("2026-11-01T08:30:15") == INT64_C(1793521815) * S);
	assert_true(read_one("1970-01-01") == 1);
}

static void test_no_times(void **state)
{
	(void)state;
	static const char *const bad[] = {"",
					  "d",
					  "-1d",
					  "7x",
					  "2026-02-31",
					  "2026-13-01",
					  "2026-1-1",
					  "2026-11-01T8:30",
					  "yesterday",
					  "99999999w",
					  "2026-11-01 08:30"};
	for (size_t i = 0; i < array_length(bad); i++) {
		int64_t out = 7;
		struct err err = {0};
		if (since_read(bad[i], NOW, &out, &err) != -EINVAL || out != 7)
			fail_msg("'%s'", bad[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_times),
	    cmocka_unit_test(test_no_times),
	};
	return cmocka_run_group_tests_name("cmd/jobs/since", tests, NULL, NULL);
}
