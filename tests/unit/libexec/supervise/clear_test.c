/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "job/trash.h"
#include "libexec/supervise/clear.h"
#include "unit/unit.h"

/* What a process of its own exits with, and what it reports. */
static int clear_in_a_child(int trash_fd, char *out, size_t size)
{
	_cleanup_close_ int report_fd = memfd_create("report", MFD_CLOEXEC);
	assert_true(report_fd >= 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		int trash = fcntl(trash_fd, F_DUPFD, 16), report = fcntl(report_fd, F_DUPFD, 16);
		if (dup2(trash, TRASH_FD) < 0 || dup2(report, TRASH_FD_REPORT) < 0)
			_exit(99);
		_exit(clear_run());
	}
	int status = 0;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	ssize_t length = pread(report_fd, out, size - 1, 0);
	assert_true(length >= 0);
	out[length] = '\0';
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void one_at_a_time(void **state)
{
	char report[TRASH_REPORT_MAX];
	_cleanup_close_ int top = open(unit_top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_close_ int trash = trash_open(top, NULL);
	assert_int_equal(mkdirat(trash, "7.0.1", 0700), 0);

	/* Another one is at it. */
	_cleanup_close_ int other = openat(trash, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(flock(other, LOCK_EX), 0);
	assert_int_equal(clear_in_a_child(trash, report, sizeof(report)), 0);
	assert_false(trash_is_empty(trash));
	assert_int_equal(flock(other, LOCK_UN), 0);

	assert_int_equal(clear_in_a_child(trash, report, sizeof(report)), 0);
	assert_true(trash_is_empty(trash));
	assert_string_equal(report, "");
}

static void what_stays_is_reported(void **state)
{
	char report[TRASH_REPORT_MAX];
	_cleanup_close_ int top = open(unit_top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_close_ int trash = trash_open(top, NULL);
	if (geteuid() != 0)
		skip();
	/* A directory of somebody who is not the job's user. */
	assert_int_equal(mkdirat(trash, "7.4242.1", 0700), 0);
	assert_int_equal(mkdirat(trash, "7.4242.1/theirs", 0700), 0);
	assert_int_equal(mkdirat(trash, "7.4242.1/theirs/inner", 0700), 0);
	assert_int_equal(fchownat(trash, "7.4242.1", 4242, 4242, 0), 0);
	assert_int_equal(fchownat(trash, "7.4242.1/theirs", 4343, 4343, 0), 0);
	assert_int_equal(clear_in_a_child(trash, report, sizeof(report)), 0);
	assert_non_null(strstr(report, "1 files or directories cannot be removed, and stay: "
				       "'7.4242.1/theirs': Operation not permitted"));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, unit_top_setup, unit_top_teardown)
	const struct CMUnitTest tests[] = {
	    TEST(one_at_a_time),
	    TEST(what_stays_is_reported),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
