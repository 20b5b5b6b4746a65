/* SPDX-License-Identifier: Apache-2.0 */
#include "base/glob.h"

#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/err.h"
#include "unit/unit.h"

static void test_match(void **state)
{
	static const struct {
		const char *pattern, *text;
		bool fits;
	} rows[] = {
	    {"", "", true},
	    {"", "a", false},
	    {"train", "train", true},
	    {"train", "train2", false},
	    {"*", "", true},
	    {"*", "anything", true},
	    {"train*", "train-7", true},
	    {"*7", "train-7", true},
	    {"t*n", "train", true},
	    {"t*n", "trains", false},
	    {"t?ain", "train", true},
	    {"t?ain", "tain", false},
	    {"a*b*c", "axxbyybzzc", true},
	    {"a*b*c", "axxbyyc", true},
	    {"a*b*c", "acb", false},
	    {"[a-c]x", "bx", true},
	    {"[a-c]x", "dx", false},
	    {"[!a-c]x", "dx", true},
	    {"[^a-c]x", "ax", false},
	    {"[]x]", "]", true},
	    {"[]x]", "x", true},
	    {"[a-]", "-", true},
	    {"\\*", "*", true},
	    {"\\*", "a", false},
	    {"[x", "[x", false},
	    {"a\\", "a\\", false},
	    {"**a", "bca", true},
	    {"[\xc3-\xff]", "\xe4", true},
	};
	for (size_t i = 0; i < array_length(rows); i++)
		if (glob_match(rows[i].pattern, rows[i].text) != rows[i].fits)
			fail_msg("'%s' and '%s'", rows[i].pattern, rows[i].text);
}

static void test_check(void **state)
{
	struct err err = {0};
	assert_int_equal(glob_check("a*[b-d]?\\[", &err), 0);
	assert_int_equal(glob_check("ab[c", &err), -EINVAL);
	assert_non_null(strstr(err.text, "character 3"));
	assert_int_equal(glob_check("ab\\", &err), -EINVAL);
}

/* What takes fnmatch(3) years. */
static void test_many_stars(void **state)
{
	char text[128];
	memset(text, 'a', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	assert_false(glob_match("*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b", text));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_match),
	    cmocka_unit_test(test_check),
	    cmocka_unit_test(test_many_stars),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
