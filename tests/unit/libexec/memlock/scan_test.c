/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/check.h"
#include "libexec/memlock/scan.h"
#include "unit/unit.h"

/* The kinds of a document as letters, until its end or its fault. */
static const char *kinds_of(const char *text)
{
	static const char letters[] = ".{[<snw!";
	static char out[SCAN_DEPTH_MAX * 4];
	struct memlock_scan scan;
	size_t length = 0;
	scan_start(&scan, text, strlen(text));
	for (;;) {
		struct scan_token token = scan_next(&scan);
		out[length++] = letters[token.kind];
		if (token.kind == SCAN_END || token.kind == SCAN_BAD)
			break;
		assert_true(length < sizeof(out) - 1);
	}
	out[length] = '\0';
	return out;
}

static void documents_are_read(void **state)
{
	static const struct {
		const char *text, *kinds;
	} cases[] = {
	    {"{}", "{<."},
	    {" [ ] \n", "[<."},
	    {"\"a\"", "s."},
	    {"-1.5e+3", "n."},
	    {"true", "w."},
	    {"{\"a\":1,\"b\":[true,null],\"c\":{}}", "{n[ww<{<<."},
	    {"[[],[[]]]", "[[<[[<<<."},
	    {"{\"a\" : \"x\\\"y\"}", "{s<."},
	};
	for (size_t i = 0; i < array_length(cases); i++)
		assert_string_equal(kinds_of(cases[i].text), cases[i].kinds);
}

static void what_is_no_json_ends_it(void **state)
{
	static const struct {
		const char *text, *kinds;
	} cases[] = {
	    {"", "!"},	       {"{", "{!"},	   {"{}{}", "{<!"}, {"[1 2]", "[n!"},
	    {"{\"a\"}", "{!"}, {"{\"a\":}", "{!"}, {"{1:2}", "{!"}, {"[}", "[!"},
	    {"{]", "{!"},      {"\"a", "!"},	   {"\"a\\", "!"},  {"\"a\nb\"", "!"},
	    {"[,]", "[!"},     {"nul\x01", "w!"},
	};
	for (size_t i = 0; i < array_length(cases); i++)
		assert_string_equal(kinds_of(cases[i].text), cases[i].kinds);
}

static void depth_has_an_end(void **state)
{
	char text[SCAN_DEPTH_MAX + 2];
	memset(text, '[', sizeof(text));
	struct memlock_scan scan;
	scan_start(&scan, text, sizeof(text));
	for (int i = 0; i < SCAN_DEPTH_MAX; i++)
		assert_int_equal(scan_next(&scan).kind, SCAN_ARRAY);
	assert_int_equal(scan_next(&scan).kind, SCAN_BAD);
	assert_int_equal(scan_next(&scan).kind, SCAN_BAD);
}

static void keys_depths_and_numbers(void **state)
{
	static const char text[] = "{\"one\":1,\"in\":{\"two\":18446744073709551615},\"three\":"
				   "18446744073709551616,\"x\":-1,\"y\":1.0}";
	struct memlock_scan scan;
	uint64_t value = 0;
	scan_start(&scan, text, strlen(text));
	assert_int_equal(scan_next(&scan).depth, 0);
	struct scan_token token = scan_next(&scan);
	assert_true(scan_is_key(&token, "one"));
	assert_false(scan_is_key(&token, "on"));
	assert_false(scan_is_key(&token, "ones"));
	assert_int_equal(token.depth, 1);
	assert_true(scan_number(&token, &value));
	assert_int_equal(value, 1);
	token = scan_next(&scan);
	assert_true(scan_is_key(&token, "in"));
	token = scan_next(&scan);
	assert_true(scan_is_key(&token, "two"));
	assert_int_equal(token.depth, 2);
	assert_true(scan_number(&token, &value));
	assert_true(value == UINT64_MAX);
	token = scan_next(&scan);
	assert_int_equal(token.kind, SCAN_CLOSE);
	assert_int_equal(token.depth, 1);
	for (int i = 0; i < 3; i++) {
		token = scan_next(&scan);
		assert_int_equal(token.kind, SCAN_NUMBER);
		assert_false(scan_number(&token, &value));
	}
}

static void text_is_compared_as_it_is_written(void **state)
{
	static const char text[] = "[\"abc\",\"a\\u0062c\",1]";
	struct memlock_scan scan;
	scan_start(&scan, text, strlen(text));
	(void)scan_next(&scan);
	struct scan_token token = scan_next(&scan);
	assert_true(scan_is_text(&token, "abc"));
	assert_false(scan_is_text(&token, "ab"));
	assert_false(scan_is_text(&token, "abcd"));
	assert_false(scan_is_key(&token, "abc"));
	token = scan_next(&scan);
	assert_false(scan_is_text(&token, "abc"));
	token = scan_next(&scan);
	assert_false(scan_is_text(&token, "1"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(documents_are_read),
	    cmocka_unit_test(what_is_no_json_ends_it),
	    cmocka_unit_test(depth_has_an_end),
	    cmocka_unit_test(keys_depths_and_numbers),
	    cmocka_unit_test(text_is_compared_as_it_is_written),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
