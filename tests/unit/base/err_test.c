/* SPDX-License-Identifier: Apache-2.0 */
#include "base/err.h"

#include <errno.h>
#include <string.h>

#include "unit/unit.h"

static void test_set_and_wrap(void **state)
{
	struct err err = {0};
	assert_int_equal(err_set(&err, -EACCES, "binding '%s': denied", "/x.sock"), -EACCES);
	assert_int_equal(err.code, -EACCES);
	assert_int_equal(err_wrap(&err, "starting %s", "plugin"), -EACCES);
	assert_string_equal(err.text, "starting plugin: binding '/x.sock': denied");
}

static void test_without_err(void **state)
{
	assert_int_equal(err_set(NULL, -ENOENT, "x"), -ENOENT);
	assert_int_equal(err_wrap(NULL, "x"), -EIO);
	struct err err = {0};
	assert_int_equal(err_wrap(&err, "x"), -EIO);
	assert_string_equal(err.text, "");
}

static void test_long_texts_are_cut(void **state)
{
	char text[2 * ERR_TEXT_MAX];
	memset(text, 'a', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	struct err err = {0};
	assert_int_equal(err_set(&err, -EIO, "%s", text), -EIO);
	assert_int_equal(strlen(err.text), ERR_TEXT_MAX - 1);
	assert_string_equal(err.text + ERR_TEXT_MAX - 5, "a...");
	assert_int_equal(err_wrap(&err, "outside"), -EIO);
	assert_int_equal(strlen(err.text), ERR_TEXT_MAX - 1);
	assert_memory_equal(err.text, "outside: aaa", 12);
	assert_string_equal(err.text + ERR_TEXT_MAX - 4, "...");
}

static void test_describe(void **state)
{
	assert_string_equal(err_describe(-ENOENT), err_describe(ENOENT));
	assert_string_equal(err_describe(-ENOENT), "No such file or directory");
	assert_string_equal(err_describe(-99999), "unknown error");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_set_and_wrap),
	    cmocka_unit_test(test_without_err),
	    cmocka_unit_test(test_long_texts_are_cut),
	    cmocka_unit_test(test_describe),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
