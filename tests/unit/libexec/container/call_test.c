/* SPDX-License-Identifier: Apache-2.0 */
#include "libexec/container/call.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "unit/unit.h"

static int shell(const char *script, struct buf *out)
{
	char *const argv[] = {(char *)"/bin/sh", (char *)"-c", (char *)script, NULL};
	return call_run(argv, CALL_ERRORS_DROPPED, out, NULL);
}

static void what_it_exits_with_and_prints(void **state)
{
	struct buf text;
	buf_init(&text, 8);
	assert_int_equal(shell("echo ab; echo cd >&2", &text), 0);
	assert_string_equal(buf_text(&text), "ab\n");
	assert_int_equal(shell("exit 7", NULL), 7);
	assert_int_equal(shell("kill -9 $$", NULL), 128 + 9);
	/* More than there is room for: it is read all the same. */
	assert_int_equal(shell("head -c 300000 /dev/zero; exit 3", &text), 3);
	buf_clear(&text);
	char *const both[] = {(char *)"/bin/sh", (char *)"-c", (char *)"echo a; echo b >&2", NULL};
	assert_int_equal(call_run(both, CALL_ERRORS_READ, &text, NULL), 0);
	assert_string_equal(buf_text(&text), "b\n");
	buf_done(&text);
	char *const nothing[] = {(char *)"/nowhere/at/all", NULL};
	assert_int_equal(call_run(nothing, CALL_ERRORS_DROPPED, NULL, NULL), CALL_EXIT_NOT_FOUND);
	char *const directory[] = {(char *)"/etc", NULL};
	assert_int_equal(call_run(directory, CALL_ERRORS_DROPPED, NULL, NULL), CALL_EXIT_EXEC);
}

static void what_is_there(void **state)
{
	char *tmp = unit_tmp_new(), path[4096];
	(void)snprintf(path, sizeof(path), "/nowhere::%s", tmp);
	assert_int_equal(setenv("PATH", path, 1), 0);
	assert_false(call_is_there("x"));
	unit_write(unit_path(tmp, "x"), "");
	assert_int_equal(chmod(unit_path(tmp, "x"), 0755), 0);
	assert_true(call_is_there("x"));
	assert_int_equal(mkdir(unit_path(tmp, "d"), 0755), 0);
	assert_false(call_is_there("d"));
	assert_int_equal(unsetenv("PATH"), 0);
	assert_false(call_is_there("x"));
	tmp = unit_tmp_free(tmp);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_it_exits_with_and_prints),
	    cmocka_unit_test(what_is_there),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
