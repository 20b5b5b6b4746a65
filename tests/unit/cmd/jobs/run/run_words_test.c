/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/jobs/run/run_words.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "unit/failmalloc.h"
#include "unit/unit.h"

static char *const clean[] = {(char *)"PATH=/bin", NULL};

/* The words, each in brackets; "": it needs a shell. */
static void words_of(const char *line, char *const *environment, char out[4096])
{
	char **words = NULL;
	int rc = run_words_split(line, environment, &words);
	assert_true(rc == 0 || rc == 1);
	assert_true((rc == 1) == (words != NULL));
	out[0] = '\0';
	for (size_t i = 0; words && words[i]; i++)
		(void)snprintf(out + strlen(out), 4096 - strlen(out), "<%s>", words[i]);
	free(words);
}

static void check(const char *line, const char *wanted)
{
	char found[4096];
	words_of(line, clean, found);
	assert_string_equal(found, wanted);
}

static void test_plain(void **state)
{
	check("/bin/true", "</bin/true>");
	check("python3 train.py --lr=0.1 -c a,b:c@d%e+f",
	      "<python3><train.py><--lr=0.1><-c><a,b:c@d%e+f>");
	check(" \t./x\t ''  'a b'\"c d\"e \"'\" '\"$HOME`\\*' ",
	      "<./x><><a bc de><'><\"$HOME`\\*>");
	check("exec true", "<true>");
	check("exec './my run' --nothing ''", "<./my run><--nothing><>");
	check("x \"\xc3\xa9\"", "<x><\xc3\xa9>");
}

/* What a shell makes of them is not what is written there. */
static void test_needs_a_shell(void **state)
{
	static const char *const lines[] = {
	    "",		  " ",		"exec",	     "exec -a x y", "true",	 "echo a",
	    "A=1 x",	  "exec A=1 x", "cd /",	     "a;b",	    "a | b",	 "a && b",
	    "a &",	  "a >b",	"a <b",	     "(a)",	    "{ a; }",	 "a $HOME",
	    "a \"$x\"",	  "a `b`",	"a \"`b`\"", "a \\b",	    "a \"\\$\"", "a *",
	    "a b?",	  "a [b]",	"a ~",	     "a b#c",	    "# a",	 "a {1,2}",
	    "a !b",	  "a 'b",	"a \"b",     "time x",	    "if x",	 "'' a",
	    "a \xc3\xa9", "! a",	"a ^b",	     "'echo' a",    "[ -e x ]",	 ". x",
	};
	for (size_t i = 0; i < array_length(lines); i++)
		check(lines[i], "");
}

static void test_functions(void **state)
{
	static char *const odd[] = {(char *)"BASH_FUNC_python3%%=() { :; }", NULL};
	char found[4096];
	words_of("python3 x", odd, found);
	assert_string_equal(found, "");
	words_of("exec python3 x", odd, found);
	assert_string_equal(found, "<python3><x>");
	words_of("python3 x", NULL, found);
	assert_string_equal(found, "<python3><x>");
}

static void test_many(void **state)
{
	char line[2 * RUN_WORDS_MAX + 8], found[4096];
	for (size_t i = 0; i <= RUN_WORDS_MAX; i++)
		memcpy(line + 2 * i, "x ", 3);
	words_of(line, clean, found);
	assert_string_equal(found, "");
	line[2 * RUN_WORDS_MAX] = '\0';
	words_of(line, clean, found);
	assert_int_equal(strlen(found), 3 * RUN_WORDS_MAX);
}

/* The shell of this machine has the same words. */
static void test_as_a_shell(void **state)
{
	static const char *const lines[] = {
	    "/bin/x a 'b  c' \"d 'e'\"f''g \"\" -x=y,z:%+@ 'it'\"'\"'s'",
	    "x\t1  2 '*' \"?\" '$HOME' \"a#b\" 'a;b|c&d' \"{1,2}\" '~' \"!x\"",
	};
	for (size_t i = 0; i < array_length(lines); i++) {
		char found[4096], script[4096], wanted[4096];
		words_of(lines[i], clean, found);
		assert_true(found[0] != '\0');
		(void)snprintf(script, sizeof(script), "printf '<%%s>' %s", lines[i]);
		FILE *shell = popen(script, "r");
		assert_non_null(shell);
		size_t length = fread(wanted, 1, sizeof(wanted) - 1, shell);
		wanted[length] = '\0';
		assert_int_equal(pclose(shell), 0);
		assert_string_equal(found, wanted);
	}
}

static int split(void *context)
{
	char **words = NULL;
	int rc = run_words_split("x y", clean, &words);
	free(words);
	return rc < 0 ? rc : 0;
}

static void test_out_of_memory(void **state)
{
	assert_true(failmalloc_each(split, NULL) >= 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_plain),      cmocka_unit_test(test_needs_a_shell),
	    cmocka_unit_test(test_functions),  cmocka_unit_test(test_many),
	    cmocka_unit_test(test_as_a_shell), cmocka_unit_test(test_out_of_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
