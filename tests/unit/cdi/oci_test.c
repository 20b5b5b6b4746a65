/* SPDX-License-Identifier: Apache-2.0 */
#include "cdi/oci.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/err.h"
#include "tests/unit/failmalloc.h"
#include "tests/unit/unit.h"

static void expect_same(const char *text, const char *wanted)
{
	struct err err = {0};
	json_auto_t *value = NULL;
	if (oci_parse(text, strlen(text), &value, &err) < 0)
		fail_msg("%s: %s", text, err.text);
	_cleanup_buf_ struct buf out;
	buf_init(&out, OCI_TEXT_MAX);
	assert_int_equal(oci_print(value, false, &out), 0);
	assert_string_equal(buf_text(&out), wanted);
}

static void test_numbers_come_out_as_they_went_in(void **state)
{
	(void)state;
	expect_same("{\"hard\": 18446744073709551615, \"a\": [1, -2, 0, -9223372036854775808]}",
		    "{\"hard\":18446744073709551615,\"a\":[1,-2,0,-9223372036854775808]}");
	expect_same(
	    "{\"a\": [1.50, 1e3, -0.1E-07, 3E+2, 999999999999999999, 12345678901234567890.5]}",
	    "{\"a\":[1.50,1e3,-0.1E-07,3E+2,999999999999999999,12345678901234567890.5]}");
	expect_same(" {\"b\\\"1.5\\\\\": \"1.5 \\u00e4 18446744073709551615\", \"a\": null}\n",
		    "{\"b\\\"1.5\\\\\":\"1.5 ä 18446744073709551615\",\"a\":null}");
}

static void expect_error(int code, const char *text, size_t length, const char *says)
{
	struct err err = {0};
	json_t *value = NULL;
	int rc = oci_parse(text, length, &value, &err);
	assert_null(value);
	if (rc != code || !strstr(err.text, says))
		fail_msg("'%.64s': %d: %s", text, rc, err.text);
}

static void test_what_is_refused(void **state)
{
	(void)state;
	static const struct {
		const char *text, *says;
	} wrong[] = {
	    {"", "not JSON"},
	    {"[]", "no object"},
	    {"{\"a\": 1", "not JSON"},
	    {"{\"a\": \"", "not JSON"},
	    {"{\"a\": \"\\", "not JSON"},
	    {"{\n\"secret\": x}", "line 2: it is not JSON"},
	    {"{\"a\": 1, \"b\": {}, \"a\": 2}", "twice"},
	    {"{\"a\": 01}", "number at byte 6"},
	    {"{\"a\": 1.}", "number at byte 6"},
	    {"{\"a\": -}", "number at byte 6"},
	    {"{\"a\": 1e+}", "number at byte 6"},
	    {"{\"a\": \"\\u0001number:1\"}", "like a number of ours"},
	    {"{\"\\u0001n\\u0075mber:\": 1}", "like a number of ours"},
	    {"{\"a\": \"\\u0000\"}", "not JSON"},
	    {"{\"a\": \"\xff\"}", "not JSON"},
	};
	for (size_t i = 0; i < array_length(wrong); i++)
		expect_error(-EINVAL, wrong[i].text, strlen(wrong[i].text), wrong[i].says);
	expect_error(-EINVAL, "{\"a\": 1}\0", 9, "not JSON");
	/* A number of ours in one place does not hide a forged one in another. */
	const char *forged = "{\"a\": 1.5, \"b\": \"\\u0001number:1,\"}";
	expect_error(-EINVAL, forged, strlen(forged), "like a number of ours");
}

static void expect_limit(const char *open, const char *close, size_t count, int code)
{
	_cleanup_buf_ struct buf text;
	buf_init(&text, OCI_TEXT_MAX * 2);
	assert_int_equal(buf_add_text(&text, "{\"a\":"), 0);
	for (size_t i = 0; i < count; i++)
		assert_int_equal(buf_add_text(&text, open), 0);
	for (size_t i = 0; i < count; i++)
		assert_int_equal(buf_add_text(&text, close), 0);
	assert_int_equal(buf_add_text(&text, "}"), 0);
	json_auto_t *value = NULL;
	assert_int_equal(oci_parse(buf_text(&text), text.length, &value, NULL), code);
}

static void test_limits(void **state)
{
	(void)state;
	expect_limit("[", "]", OCI_DEPTH_MAX - 1, 0);
	expect_limit("[", "]", OCI_DEPTH_MAX, -E2BIG);
	expect_limit("{\"a\":", "}", 1000000, -E2BIG);
	expect_limit(" ", "", OCI_TEXT_MAX, -E2BIG);
	expect_limit("", ",1", OCI_VALUES_MAX + 1, -E2BIG);
}

static void test_small_buffer(void **state)
{
	(void)state;
	json_auto_t *value = json_pack("{s:s}", "a", "1234567890");
	assert_non_null(value);
	_cleanup_buf_ struct buf out;
	buf_init(&out, 8);
	assert_int_equal(oci_print(value, true, &out), -ENOSPC);
}

static int oci_again(void *context)
{
	(void)context;
	const char *text = "{\"hard\": 18446744073709551615, \"a\": [\"b\", {}]}";
	json_auto_t *value = NULL;
	_cleanup_buf_ struct buf out;
	buf_init(&out, OCI_TEXT_MAX);
	int rc = oci_parse(text, strlen(text), &value, NULL);
	/* jansson 2.14 says of a failed allocation in a text that the text is wrong. */
	if (rc < 0)
		return rc == -EINVAL ? -ENOMEM : rc;
	return oci_print(value, true, &out);
}

static void test_without_memory(void **state)
{
	(void)state;
	assert_true(failmalloc_each(oci_again, NULL) > 10);
}

static void test_variables(void **state)
{
	(void)state;
	static const char text[] = "{\"env\": [\"A=1\", \"AB=2\", \"A\", 3, \"A=x=y\", \"B=\"]}";
	json_auto_t *value = NULL;
	assert_int_equal(oci_parse(text, strlen(text), &value, NULL), 0);
	const json_t *env = json_object_get(value, "env");
	assert_string_equal(oci_variable(env, "A", 1), "x=y");
	assert_string_equal(oci_variable(env, "AB,C", 2), "2");
	assert_string_equal(oci_variable(env, "B", 1), "");
	assert_null(oci_variable(env, "C", 1));
	assert_null(oci_variable(NULL, "A", 1));
	assert_null(oci_variable(value, "A", 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_variables),
	    cmocka_unit_test(test_numbers_come_out_as_they_went_in),
	    cmocka_unit_test(test_what_is_refused),
	    cmocka_unit_test(test_limits),
	    cmocka_unit_test(test_small_buffer),
	    cmocka_unit_test(test_without_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
