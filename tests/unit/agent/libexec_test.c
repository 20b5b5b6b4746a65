/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/libexec.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "tests/unit/unit.h"

static void test_named(void **state)
{
	(void)state;
	char path[FILE_PATH_MAX];
	assert_int_equal(libexec_find("sluice-x", "x", "/a/b", path, NULL), 0);
	assert_string_equal(path, "/a/b");
}

/* Programs of this test's own directory are beside it. */
static void test_beside(void **state)
{
	(void)state;
	char path[FILE_PATH_MAX];
	struct err err = {0};
	assert_int_equal(libexec_find("unit-agent-libexec", "x", "", path, &err), 0);
	assert_non_null(strstr(path, "/unit-agent-libexec"));
	assert_true(file_exists(path));
	assert_int_equal(libexec_find("sluice-nothing", "x", NULL, path, &err), -ENOPKG);
	assert_non_null(strstr(err.text, "sluice-nothing"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_named),
					   cmocka_unit_test(test_beside)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
