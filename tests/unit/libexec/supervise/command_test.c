/* SPDX-License-Identifier: Apache-2.0 */
/* What is not seen through the whole program, main_test.c: no supervisor around it. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "job/launch.h"
#include "libexec/supervise/command.h"
#include "unit/unit.h"

static char *environment[] = {NULL, NULL};

static void spec_of(struct spec *spec, const char *command)
{
	static char path[] = "PATH=/nowhere:/usr/bin:/bin";
	environment[0] = path;
	spec_init(spec);
	spec->uid = geteuid();
	spec->gid = getegid();
	(void)snprintf(spec->directory, sizeof(spec->directory), "/");
	assert_int_equal(spec_add_argument(spec, command, NULL), 0);
}

static int start(const struct spec *spec, const struct cgroup *cgroup, struct command_outcome *out,
		 struct err *err)
{
	_cleanup_close_ int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	struct job_command command = {.spec = spec,
				      .environment = environment,
				      .out_fd = null_fd,
				      .err_fd = null_fd,
				      .cgroup = cgroup};
	return command_start(&command, out, err);
}

static int status_of(pid_t pid)
{
	int status = -1;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static void it_is_found_in_its_own_path(void **state)
{
	struct spec spec _cleanup_spec_;
	struct command_outcome outcome;
	spec_of(&spec, "true");
	assert_int_equal(start(&spec, NULL, &outcome, NULL), 0);
	assert_int_equal(status_of(outcome.pid), 0);
	static char elsewhere[] = "PATH=/nowhere";
	environment[0] = elsewhere;
	assert_int_equal(start(&spec, NULL, &outcome, NULL), -ENOENT);
	assert_int_equal(outcome.exit_code, 127);
	assert_int_equal(outcome.pid, -1);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* nothing to be reaped is left */
}

static void a_script_without_a_first_line_is_one_for_the_shell(void **state)
{
	struct spec spec _cleanup_spec_;
	struct command_outcome outcome;
	char *tmp = unit_tmp_new();
	const char *script = unit_path(tmp, "script");
	unit_write(script, "exit 5\n");
	assert_int_equal(chmod(script, 0755), 0);
	spec_of(&spec, script);
	assert_int_equal(start(&spec, NULL, &outcome, NULL), 0);
	assert_int_equal(WEXITSTATUS(status_of(outcome.pid)), 5);
	(void)unit_tmp_free(tmp);
}

static void a_closed_directory_of_the_path_hides_nothing(void **state)
{
	struct spec spec _cleanup_spec_;
	struct command_outcome outcome;
	if (geteuid() != 0) {
		print_message("skipped: needs root\n");
		skip();
	}
	char *tmp = unit_tmp_new(); /* 0700, root's */
	char path[4096];
	(void)snprintf(path, sizeof(path), "PATH=%s/inner", tmp);
	spec_of(&spec, "no-such-command");
	spec.uid = spec.gid = 65534;
	environment[0] = path;
	assert_int_equal(start(&spec, NULL, &outcome, NULL), -ENOENT);
	assert_int_equal(outcome.exit_code, 127);
	(void)unit_tmp_free(tmp);
}

static void nobody_else_becomes_another_user(void **state)
{
	if (geteuid() != 0) {
		print_message("skipped: needs root\n");
		skip();
	}
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		struct spec spec;
		struct command_outcome outcome;
		struct err err = {0};
		spec_of(&spec, "true");
		if (setresgid(65534, 65534, 65534) < 0 || setresuid(65534, 65534, 65534) < 0)
			_exit(9);
		int result = start(&spec, NULL, &outcome, &err);
		bool says = strstr(err.text, "becoming user 0, group 0") != NULL;
		_exit(result == -EPERM && says && outcome.exit_code == 125 ? 0 : 1);
	}
	assert_int_equal(status_of(pid), 0);
}

static void a_cgroup_that_cannot_be_joined_stops_nothing(void **state)
{
	struct spec spec _cleanup_spec_;
	struct command_outcome outcome;
	struct cgroup none = {.fd = 1000, .path = "/x"};
	spec_of(&spec, "true");
	assert_int_equal(start(&spec, &none, &outcome, NULL), 0);
	assert_int_equal(outcome.cgroup_code, -EBADF);
	assert_int_equal(status_of(outcome.pid), 0);
	(void)snprintf(spec.directory, sizeof(spec.directory), "/no/such");
	assert_int_equal(start(&spec, &none, &outcome, NULL), -ENOENT);
	assert_int_equal(outcome.cgroup_code, -EBADF);
	assert_int_equal(outcome.exit_code, 125);
}

static void limits_that_make_no_sense_here_are_passed_over(void **state)
{
	struct spec spec _cleanup_spec_;
	struct command_outcome outcome;
	spec_of(&spec, "true");
	spec.limits[0] = (struct spec_limit){.resource = 15, .soft = 1, .hard = 2}; /* the last */
	spec.limits[1] =
	    (struct spec_limit){.resource = 8, .soft = UINT64_MAX, .hard = UINT64_MAX}; /* more */
	spec.limit_count = 2;
	assert_int_equal(start(&spec, NULL, &outcome, NULL), 0);
	assert_int_equal(status_of(outcome.pid), 0);
}

/* What it executes is its user's, who can write anything into the pipe. */
static void a_helper_that_lies_holds_nobody_up(void **state)
{
	static const int lies[][2] = {{1, 0}, {1, 1}, {1, INT_MIN}, {-1, -1}};
	_cleanup_close_ int launch_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (fcntl(LAUNCH_FD_LAUNCH, F_GETFD) < 0)
		assert_int_equal(dup2(launch_fd, LAUNCH_FD_LAUNCH), LAUNCH_FD_LAUNCH);
	for (size_t i = 0; i < array_length(lies); i++) {
		struct spec spec _cleanup_spec_;
		struct command_outcome outcome;
		char lie[2 * sizeof(int) + COMMAND_WHY_MAX], path[64];
		char *tmp = unit_tmp_new();
		memset(lie, 'x', sizeof(lie)); /* also where an end should be */
		memcpy(lie, lies[i], sizeof(lies[i]));
		_cleanup_close_ int fd =
		    open(unit_path(tmp, "lie"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
		assert_int_equal(write(fd, lie, sizeof(lie)), sizeof(lie));
		(void)snprintf(path, sizeof(path), "cat lie >&%d; exec sleep 1000", COMMAND_FD_WHY);
		char *helper[] = {(char *)"/bin/sh", (char *)"-c", path, NULL};
		spec_of(&spec, "true");
		(void)snprintf(spec.directory, sizeof(spec.directory), "%s", tmp);
		struct job_command command = {.spec = &spec,
					      .helper = helper,
					      .environment = environment,
					      .out_fd = launch_fd,
					      .err_fd = STDERR_FILENO};
		assert_true(command_start(&command, &outcome, NULL) < 0);
		assert_int_equal(outcome.pid, -1);
		assert_int_equal(outcome.cgroup_code, 0);
		assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* it does not sleep any more */
		unit_tmp_free(tmp);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(it_is_found_in_its_own_path),
	    cmocka_unit_test(a_script_without_a_first_line_is_one_for_the_shell),
	    cmocka_unit_test(a_closed_directory_of_the_path_hides_nothing),
	    cmocka_unit_test(nobody_else_becomes_another_user),
	    cmocka_unit_test(a_cgroup_that_cannot_be_joined_stops_nothing),
	    cmocka_unit_test(limits_that_make_no_sense_here_are_passed_over),
	    cmocka_unit_test(a_helper_that_lies_holds_nobody_up),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
