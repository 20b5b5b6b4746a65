/* SPDX-License-Identifier: Apache-2.0 */
#include "base/suggest.h"

#include <string.h>

#include "base/check.h"
#include "unit/unit.h"

static const char *const names[] = {"devices", "topo", "health", "run", "sim", "completion", "ls"};

static const char *nearest(const char *word)
{
	return suggest_nearest(word, names, array_length(names));
}

static void test_near(void **state)
{
	assert_string_equal(nearest("device"), "devices");
	assert_string_equal(nearest("deivces"), "devices");
	assert_string_equal(nearest("helath"), "health");
	assert_string_equal(nearest("rnu"), "run");
	assert_string_equal(nearest("toop"), "topo");
	assert_string_equal(nearest("comp"), "completion"); /* its beginning */
	assert_string_equal(nearest("completoin"), "completion");
	assert_string_equal(nearest("l"), "ls");
}

static void test_far(void **state)
{
	assert_null(nearest("frobnicate"));
	assert_null(nearest(""));
	assert_null(nearest("x"));
	assert_null(nearest("zz"));
	assert_null(suggest_nearest("run", NULL, 0));
}

static void test_bounded(void **state)
{
	char word[100000];
	memset(word, 'd', sizeof(word) - 1);
	word[sizeof(word) - 1] = '\0';
	assert_null(nearest(word));
	word[SUGGEST_WORD_MAX] = '\0';
	const char *longest[] = {word};
	assert_ptr_equal(suggest_nearest(word, longest, 1), word);
}

static void test_first_of_equals_wins(void **state)
{
	const char *const twins[] = {"cat", "bat"};
	assert_string_equal(suggest_nearest("rat", twins, 2), "cat");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_near),
	    cmocka_unit_test(test_far),
	    cmocka_unit_test(test_bounded),
	    cmocka_unit_test(test_first_of_equals_wins),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
