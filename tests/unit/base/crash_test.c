/* SPDX-License-Identifier: Apache-2.0 */
/* Built, like crash.c beside it, with -DSLUICE_CRASH_POINTS. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/crash.h"
#include "base/file.h"
#include "unit/unit.h"

/* Passes a, b, a, c in a process of its own: how many of them it survived. */
static int survived(const char *name, const char *value)
{
	int ends[2];
	assert_int_equal(pipe(ends), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		static const char *const points[] = {"a", "b", "a", "c"};
		if (name)
			(void)setenv(name, value, 1);
		for (size_t i = 0; i < 4; i++) {
			crash_point(points[i]);
			(void)!write(ends[1], "x", 1);
		}
		_exit(0);
	}
	(void)close(ends[1]);
	char bytes[8];
	int count = 0, status;
	ssize_t length;
	while ((length = read(ends[0], bytes, sizeof(bytes))) > 0)
		count += (int)length;
	(void)close(ends[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (count < 4)
		assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	return count;
}

static void by_itself_nobody_dies(void **state)
{
	assert_int_equal(survived(NULL, NULL), 4);
	assert_int_equal(survived("SLUICE_CRASH_AT", "d"), 4);
	assert_int_equal(survived("SLUICE_CRASH_AT", ""), 4);
}

static void one_dies_where_it_is_told_to(void **state)
{
	assert_int_equal(survived("SLUICE_CRASH_AT", "a"), 0);
	assert_int_equal(survived("SLUICE_CRASH_AT", "c"), 3);
	assert_int_equal(survived("SLUICE_CRASH_AT", "a#2"), 2);
	assert_int_equal(survived("SLUICE_CRASH_AT", "a#3"), 4);
	assert_int_equal(survived("SLUICE_CRASH_AT", "2"), 1);
	assert_int_equal(survived("SLUICE_CRASH_AT", "5"), 4);
	char named[128];
	(void)snprintf(named, sizeof(named), "%s:b", program_invocation_short_name);
	assert_int_equal(survived("SLUICE_CRASH_AT", named), 1);
	assert_int_equal(survived("SLUICE_CRASH_AT", "another:b"), 4);
}

static void the_odds_are_kept(void **state)
{
	assert_int_equal(survived("SLUICE_CRASH_ODDS", "1"), 0);
	int all = 0;
	for (int i = 0; i < 20; i++)
		all += survived("SLUICE_CRASH_ODDS", "4");
	assert_true(all > 0 && all < 80);
}

static void once_is_once(void **state)
{
	char *tmp = unit_tmp_new();
	const char *path = unit_path(tmp, "once");
	unit_write(path, "");
	assert_int_equal(setenv("SLUICE_CRASH_ONCE", path, 1), 0);
	assert_int_equal(survived("SLUICE_CRASH_AT", "b"), 1);
	assert_int_equal(survived("SLUICE_CRASH_AT", "b"), 4);
	assert_int_equal(unsetenv("SLUICE_CRASH_ONCE"), 0);
	(void)unit_tmp_free(tmp);
}

static void points_are_listed(void **state)
{
	char *tmp = unit_tmp_new();
	const char *path = unit_path(tmp, "log");
	assert_int_equal(survived("SLUICE_CRASH_LOG", path), 4);
	struct buf text _cleanup_buf_;
	buf_init(&text, 1000);
	assert_int_equal(file_read(path, &text, NULL), 0);
	assert_non_null(strstr(buf_text(&text), " b\n"));
	assert_non_null(strstr(buf_text(&text), program_invocation_short_name));
	(void)unit_tmp_free(tmp);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(by_itself_nobody_dies), cmocka_unit_test(one_dies_where_it_is_told_to),
	    cmocka_unit_test(the_odds_are_kept),     cmocka_unit_test(once_is_once),
	    cmocka_unit_test(points_are_listed),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
