/* SPDX-License-Identifier: Apache-2.0 */
#include "job/file/quantity.h"

#include <errno.h>

#include "base/check.h"
#include "unit/unit.h"

static void test_values(void **state)
{
	static const struct {
		const char *text;
		uint32_t scale;
		uint64_t value;
	} cases[] = {
	    {"0", 1, 0},
	    {"1", 1, 1},
	    {"+2", 1, 2},
	    {"-0", 1, 0},
	    {"500m", 1000, 500},
	    {"0.5", 1000, 500},
	    {".5", 1000, 500},
	    {"5.", 1, 5},
	    {"2", 1000, 2000},
	    {"100u", 1000, 1}, /* up */
	    {"1n", 1, 1},
	    {"1.5Gi", 1, 1610612736},
	    {"1e3", 1, 1000},
	    {"1E3", 1, 1000},
	    {"1e+3", 1, 1000},
	    {"15e-1", 1, 2},
	    {"1E", 1, UINT64_C(1000000000000000000)},
	    {"1Ei", 1, UINT64_C(1152921504606846976)},
	    {"64Ki", 1, 65536},
	    {"1k", 1, 1000},
	    {"16G", 1, UINT64_C(16000000000)},
	    {"000000000000000000000000012", 1, 12},
	    {"0.1", 1, 1},
	};
	for (size_t i = 0; i < array_length(cases); i++) {
		uint64_t value = 0;
		assert_int_equal(quantity_parse(cases[i].text, cases[i].scale, &value), 0);
		if (value != cases[i].value)
			fail_msg("%s", cases[i].text);
	}
}

static void test_refused(void **state)
{
	static const struct {
		const char *text;
		int code;
	} cases[] = {
	    {"", -EINVAL},
	    {"Gi", -EINVAL},
	    {"1GiB", -EINVAL},
	    {"1 Gi", -EINVAL},
	    {"1.2.3", -EINVAL},
	    {"0x10", -EINVAL},
	    {"1ki", -EINVAL},
	    {"one", -EINVAL},
	    {"1e", -EINVAL},
	    {"1e+-3", -EINVAL},
	    {"-1", -ERANGE},
	    {"100Ei", -ERANGE},
	    {"1e30", -ERANGE},
	    {"1e99999", -ERANGE},
	    {"--1", -EINVAL},
	    {"1e3Ki", -EINVAL},
	    {"9999999999999999999", -ERANGE},
	    {"0.00000000000000000000000000000000001", -ERANGE},
	};
	for (size_t i = 0; i < array_length(cases); i++) {
		uint64_t value = 77;
		if (quantity_parse(cases[i].text, 1, &value) != cases[i].code || value != 77)
			fail_msg("%s", cases[i].text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_values),
	    cmocka_unit_test(test_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
