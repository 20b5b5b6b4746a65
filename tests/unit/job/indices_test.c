/* SPDX-License-Identifier: Apache-2.0 */
#include "job/indices.h"

#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/err.h"
#include "unit/unit.h"

static void test_read(void **state)
{
	static const struct {
		const char *text;
		uint32_t count, list[8];
	} rows[] = {
	    {"0", 1, {0}},
	    {"3-17:2", 8, {3, 5, 7, 9, 11, 13, 15, 17}},
	    {"3-18:2", 8, {3, 5, 7, 9, 11, 13, 15, 17}},
	    {"1,5,9-12", 6, {1, 5, 9, 10, 11, 12}},
	    {"0-6:3,7", 4, {0, 3, 6, 7}},
	    {"0-8:5,7", 3, {0, 5, 7}},
	    {"4000000", 1, {4000000}},
	};
	for (size_t i = 0; i < array_length(rows); i++) {
		uint32_t count = 0;
		struct err err;
		const char *text = rows[i].text;
		assert_int_equal(indices_check(text, strlen(text), 8, &count, &err), 0);
		assert_int_equal(count, rows[i].count);
		for (uint32_t n = 0; n < count; n++)
			assert_int_equal(indices_at(text, n), rows[i].list[n]);
	}
	assert_int_equal(indices_at(NULL, 7), 7);
}

static void test_refused(void **state)
{
	static const struct {
		const char *text, *says;
	} rows[] = {
	    {"", "missing at character 1"},
	    {"3-", "missing at character 3"},
	    {"1,,2", "missing at character 3"},
	    {"1,", "missing at character 3"},
	    {"17-3", "ends before it begins at character 1"},
	    {"1-5:0", "at character 5"},
	    {"1-5:", "missing at character 5"},
	    {"5,1", "before it at character 3"},
	    {"1-5,5", "before it at character 5"},
	    {"1,1", "before it at character 3"},
	    {"4000001", "too large"},
	    {"1;2", "at character 2"},
	    {"1:2", "at character 2"},
	    {" 1", "missing at character 1"},
	    {"-1", "missing at character 1"},
	    {"99999999999999999999", "too large"},
	};
	for (size_t i = 0; i < array_length(rows); i++) {
		uint32_t count = 99;
		struct err err = {0};
		assert_int_equal(
		    indices_check(rows[i].text, strlen(rows[i].text), 10000, &count, &err),
		    -EINVAL);
		if (!strstr(err.text, rows[i].says))
			fail_msg("'%s': %s", rows[i].text, err.text);
		assert_int_equal(count, 99);
	}

	uint32_t count;
	struct err err;
	assert_int_equal(indices_check("0-10000", 7, 10000, &count, &err), -E2BIG);
	assert_int_equal(indices_check("0-9999", 6, 10000, &count, &err), 0);
	assert_int_equal(indices_check("0-4000000:4000000", 17, 2, &count, &err), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_read),
	    cmocka_unit_test(test_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
