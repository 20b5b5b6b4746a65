/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "job/spec.h"
#include "libexec/supervise/copy.h"
#include "unit/unit.h"

enum { NOBODY = 65534 };

static struct spec copy_spec;

static int setup(void **state)
{
	spec_init(&copy_spec);
	copy_spec.uid = geteuid();
	copy_spec.gid = getegid();
	copy_spec.umask = 022;
	return unit_top_setup(state);
}

static int teardown(void **state)
{
	spec_done(&copy_spec);
	return unit_top_teardown(state);
}

static void aim(const char *name)
{
	(void)snprintf(copy_spec.output, sizeof(copy_spec.output), "%s", unit_path(unit_top, name));
}

/* Writes `text`; what the copier exited with. What it said goes into `said`. */
static int copied(const char *text, char said[1024])
{
	int errors[2], fd = -1, status;
	assert_int_equal(pipe2(errors, O_CLOEXEC), 0);
	pid_t pid = copy_start(&copy_spec, errors[1], &fd, NULL);
	assert_true(pid > 0);
	(void)close(errors[1]);
	(void)!write(fd, text, strlen(text)); /* one that has ended says why */
	(void)close(fd);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	ssize_t length = read(errors[0], said, 1023);
	assert_true(length >= 0);
	said[length] = '\0';
	(void)close(errors[0]);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static const char *content(const char *path)
{
	static char text[1024];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	ssize_t length = read(fd, text, sizeof(text) - 1);
	text[length < 0 ? 0 : length] = '\0';
	(void)close(fd);
	return text;
}

static void what_comes_is_appended(void **state)
{
	char said[1024];
	struct stat info;
	aim("copy");
	assert_int_equal(copied("one\n", said), 0);
	assert_int_equal(copied("two\n", said), 0);
	assert_string_equal(said, "");
	assert_string_equal(content(copy_spec.output), "one\ntwo\n");
	assert_int_equal(stat(copy_spec.output, &info), 0);
	assert_int_equal(info.st_mode & 07777, 0644);
}

static void it_is_opened_as_the_user(void **state)
{
	char said[1024], directory[4096];
	struct stat info;
	if (geteuid() != 0) {
		print_message("skipped: needs root to be another user\n");
		skip();
	}
	copy_spec.uid = copy_spec.gid = NOBODY;
	aim("roots"); /* a directory of root's */
	assert_int_equal(chmod(unit_top, 0711), 0);
	assert_int_equal(copied("x", said), 1);
	assert_non_null(strstr(said, "Permission denied"));
	assert_int_equal(access(copy_spec.output, F_OK), -1);
	(void)snprintf(directory, sizeof(directory), "%s", unit_path(unit_top, "own"));
	assert_int_equal(mkdir(directory, 0700), 0);
	assert_int_equal(chown(directory, NOBODY, NOBODY), 0);
	(void)snprintf(copy_spec.output, sizeof(copy_spec.output), "%.4000s/copy", directory);
	assert_int_equal(copied("mine", said), 0);
	assert_int_equal(stat(copy_spec.output, &info), 0);
	assert_int_equal(info.st_uid, NOBODY);
}

static void what_is_no_plain_file_is_refused(void **state)
{
	char said[1024], victim[4096];
	(void)snprintf(victim, sizeof(victim), "%s", unit_path(unit_top, "victim"));
	unit_write(victim, "precious");
	aim("link");
	assert_int_equal(symlink(victim, copy_spec.output), 0);
	assert_int_equal(copied("x", said), 1);
	assert_non_null(strstr(said, "sluice: no copy of the output in '"));
	assert_string_equal(content(victim), "precious");
	aim("fifo");
	assert_int_equal(mkfifo(copy_spec.output, 0600), 0);
	assert_int_equal(copied("x", said), 1);
	(void)snprintf(copy_spec.output, sizeof(copy_spec.output), "/dev/null");
	assert_int_equal(copied("x", said), 1);
}

static void what_goes_wrong_is_one_line(void **state)
{
	char said[1024];
	aim("missing/copy");
	assert_int_equal(copied("x", said), 1);
	assert_non_null(strstr(said, "No such file or directory\n"));
	assert_ptr_equal(strchr(said, '\n'), said + strlen(said) - 1);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    CASE(what_comes_is_appended),
	    CASE(it_is_opened_as_the_user),
	    CASE(what_is_no_plain_file_is_refused),
	    CASE(what_goes_wrong_is_one_line),
	};
	(void)signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
