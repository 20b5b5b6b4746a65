/* SPDX-License-Identifier: Apache-2.0 */
#include "base/yaml_write.h"

#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/err.h"
#include "base/yaml.h"
#include "unit/unit.h"

static int again(const char *text, struct buf *out, struct err *err)
{
	struct yaml *yaml = NULL;
	int rc = yaml_parse(text, strlen(text), "f", &yaml, err);
	if (rc == 0)
		rc = yaml_write(yaml_root(yaml), out, err);
	(void)yaml_free(yaml);
	return rc;
}

static void test_written_and_written_again(void **state)
{
	static const char *const cases[][2] = {
	    {"{a: 1, b: [x, {c: ~}], d: {}, e: []}", "a: 1\nb:\n- x\n- c: null\nd: {}\ne: []\n"},
	    {"a: '1'\nb: \"yes\"\nc: yes\n", "a: \"1\"\nb: \"yes\"\nc: yes\n"},
	    {"a: |\n  one\n  two\n", "a: |\n  one\n  two\n"},
	    {"a: ''\nb:\n", "a: \"\"\nb: null\n"},
	    {"[...]", "- \"...\"\n"},
	    {"- -np\n- -1\n- x: y\n- 'x: y'\n- 'a #b'\n- a:b\n- http://x/\n",
	     "- -np\n- -1\n- x: y\n- \"x: y\"\n- \"a #b\"\n- a:b\n- http://x/\n"},
	    {"a: &x {b: c}\nd: *x\n", "a:\n  b: c\nd:\n  b: c\n"},
	    {"a: \"\\u00e4\\x01\"\n", "a: \"\xc3\xa4\\x01\"\n"},
	    {"plain text", "plain text\n"},
	};
	for (size_t i = 0; i < array_length(cases); i++) {
		_cleanup_buf_ struct buf once, twice;
		struct err err = {0};
		buf_init(&once, 10000);
		buf_init(&twice, 10000);
		if (again(cases[i][0], &once, &err) < 0)
			fail_msg("%s", err.text);
		assert_string_equal(buf_text(&once), cases[i][1]);
		assert_int_equal(again(buf_text(&once), &twice, &err), 0);
		assert_string_equal(buf_text(&twice), buf_text(&once));
	}
}

static void test_limits(void **state)
{
	struct err err = {0};
	_cleanup_buf_ struct buf small, deep, out;
	buf_init(&small, 8);
	assert_int_equal(again("a: aaaaaaaaaaaaaaaaaaaaaaaaaaaa", &small, &err), -E2BIG);
	/* Aliases hang 20 levels below 20 below 20 below 20. */
	buf_init(&deep, 10000);
	buf_init(&out, 100000);
	for (int part = 0; part < 4; part++) {
		assert_int_equal(buf_printf(&deep, "%c: &%c %.20s", 'a' + part, 'a' + part,
					    "[[[[[[[[[[[[[[[[[[[["),
				 0);
		if (part > 0)
			assert_int_equal(buf_printf(&deep, "*%c", 'a' + part - 1), 0);
		assert_int_equal(buf_printf(&deep, "%.20s\n", "]]]]]]]]]]]]]]]]]]]]"), 0);
	}
	assert_int_equal(again(buf_text(&deep), &out, &err), -E2BIG);
	assert_string_equal(err.text, "the YAML becomes too large or too deep");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_written_and_written_again),
	    cmocka_unit_test(test_limits),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
