/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/diff.h"

#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "tests/unit/unit.h"

static void expect(const char *before, const char *after, bool is_new, const char *wanted)
{
	_cleanup_buf_ struct buf a, b, out;
	buf_init(&a, 1000);
	buf_init(&b, 1000);
	buf_init(&out, 1000);
	assert_int_equal(buf_add_text(&a, before), 0);
	assert_int_equal(buf_add_text(&b, after), 0);
	assert_int_equal(diff_add("/f", is_new, &a, &b, &out), 0);
	assert_string_equal(buf_text(&out), wanted);
}

/* The texts are those of diff -u. */
static void test_texts(void **state)
{
	(void)state;
	expect("a\n", "a\n", false, "");
	expect("", "", false, "");
	expect("", "a\nb\n", true, "--- /dev/null\n+++ /f\n@@ -0,0 +1,2 @@\n+a\n+b\n");
	expect("1\n2\n3\n4\n5\n6\n7\n8\n9\n", "1\n2\n3\n4\nx\n5\n6\n7\n8\n9\n", false,
	       "--- /f\n+++ /f\n@@ -2,6 +2,7 @@\n 2\n 3\n 4\n+x\n 5\n 6\n 7\n");
	expect("1\n2\n3\n", "1\nx\n3\n", false,
	       "--- /f\n+++ /f\n@@ -1,3 +1,3 @@\n 1\n-2\n+x\n 3\n");
	/* The same line again, before and behind the new one. */
	expect("a\na\n", "a\na\na\n", false, "--- /f\n+++ /f\n@@ -1,2 +1,3 @@\n a\n a\n+a\n");
	expect("a\nb\n", "", false, "--- /f\n+++ /f\n@@ -1,2 +0,0 @@\n-a\n-b\n");
}

static void test_line_ends(void **state)
{
	(void)state;
	expect("a\r\n", "a\r\nb\r\n", false, "--- /f\n+++ /f\n@@ -1,1 +1,2 @@\n a\n+b\n");
	expect("a", "a\nb\n", false,
	       "--- /f\n+++ /f\n@@ -1,1 +1,2 @@\n-a\n\\ No newline at end of file\n+a\n+b\n");
	expect("x\na", "y\na", false,
	       "--- /f\n+++ /f\n@@ -1,2 +1,2 @@\n-x\n+y\n a\n\\ No newline at end of file\n");
}

static void test_full(void **state)
{
	(void)state;
	_cleanup_buf_ struct buf a, b, out;
	buf_init(&a, 10);
	buf_init(&b, 10);
	buf_init(&out, 8);
	assert_int_equal(buf_add_text(&b, "b\n"), 0);
	assert_int_equal(diff_add("/f", false, &a, &b, &out), -ENOSPC);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_texts),
	    cmocka_unit_test(test_line_ends),
	    cmocka_unit_test(test_full),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
