/* SPDX-License-Identifier: Apache-2.0 */
#include "base/longopt.h"

#include <getopt.h>
#include <string.h>

#include "tests/unit/unit.h"

static void test_words(void **state)
{
	static const struct option table[] = {
	    {"node", required_argument, NULL, 1},
	    {"nothing", no_argument, NULL, 2},
	    {NULL, 0, NULL, 0},
	};
	char *const argv[] = {(char *)"prog",	(char *)"--node",
			      (char *)"a",	(char *)"--node=b",
			      (char *)"--nod",	(char *)"c",
			      (char *)"--no=d", (char *)"--nothing",
			      (char *)"--noth", NULL};
	static const struct {
		int index;
		const char *word;
		bool is_whole;
	} wanted[] = {{0, "node", true}, {0, "node", true},    {0, "nod", false},
		      {-1, "no", false}, {1, "nothing", true}, {1, "noth", false}};
	optind = 0;
	opterr = 0;
	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		int index = -1;
		int code = getopt_long(9, argv, "", table, &index);
		if (wanted[i].index < 0) {
			assert_int_equal(code, '?'); /* two begin with that */
			continue;
		}
		size_t length;
		const char *word = longopt_word(argv, &length);
		assert_int_equal(index, wanted[i].index);
		assert_int_equal(length, strlen(wanted[i].word));
		assert_memory_equal(word, wanted[i].word, length);
		assert_int_equal(longopt_is_whole(argv, table[index].name), wanted[i].is_whole);
	}
	assert_int_equal(getopt_long(9, argv, "", table, NULL), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_words),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
