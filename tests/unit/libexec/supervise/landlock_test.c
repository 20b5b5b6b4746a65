/* SPDX-License-Identifier: Apache-2.0 */
/* Landlock around a child: memory devices stand for GPUs. */
#include "libexec/supervise/landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "job/cgroup/devguard.h"
#include "unit/unit.h"

static int open_error(const char *path)
{
	int fd = open(path, O_RDWR | O_NONBLOCK);
	if (fd >= 0)
		(void)close(fd);
	return fd < 0 ? errno : 0;
}

/* Each bit is something that is not as it has to be. */
static int look(const char *tmp)
{
	char from[4096], to[4096];
	(void)snprintf(from, sizeof(from), "%s/a/file", tmp); /* fits */
	(void)snprintf(to, sizeof(to), "%s/b/file", tmp);
	int wrong = open_error("/dev/zero") == EACCES ? 0 : 1;
	wrong |= open_error("/proc/self/root/dev/zero") == EACCES ? 0 : 2;
	wrong |= open_error("/dev/null") == 0 ? 0 : 4;
	int fd = open(from, O_CREAT | O_RDWR, 0600);
	wrong |= fd >= 0 ? 0 : 8;
	if (landlock_version() >= 2)
		wrong |= rename(from, to) == 0 ? 0 : 16;
	(void)snprintf(to, sizeof(to), "%s/node", tmp);
	if (geteuid() == 0)
		wrong |= mknod(to, S_IFCHR | 0600, makedev(1, 5)) < 0 && errno == EACCES ? 0 : 32;
	wrong |= open_error("/dev/ptmx") == 0 || open_error("/dev/ptmx") == ENOENT ? 0 : 64;
	return wrong;
}

static void needs_landlock(void)
{
	if (landlock_version() > 0)
		return;
	print_message("skipped: no Landlock here\n");
	skip();
}

static void denied_nodes_cannot_be_opened(void **state)
{
	needs_landlock();
	char *tmp = unit_tmp_new();
	assert_int_equal(mkdir(unit_path(tmp, "a"), 0700), 0);
	assert_int_equal(mkdir(unit_path(tmp, "b"), 0700), 0);
	assert_int_equal(open_error("/dev/zero"), 0); /* the test can fail */
	pid_t pid = fork();
	if (pid == 0) {
		const struct devguard_rule denied[] = {{'c', 1, 5, 5, DEVGUARD_ALL}};
		const struct landlock_plan plan = {
		    .denied = denied, .count = array_length(denied), .device_root = ""};
		_exit(landlock_restrict(&plan) < 0 ? 128 : look(tmp));
	}
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(WEXITSTATUS(status), 0);
	tmp = unit_tmp_free(tmp);
}

static void another_machines_nodes_are_looked_at_as_well(void **state)
{
	needs_landlock();
	char *tmp = unit_tmp_new();
	assert_int_equal(mkdir(unit_path(tmp, "dev"), 0700), 0);
	if (mknod(unit_path(tmp, "dev/nvidia0"), S_IFCHR | 0666, makedev(1, 5)) < 0 ||
	    mknod(unit_path(tmp, "dev/nvidia1"), S_IFCHR | 0666, makedev(1, 3)) < 0 ||
	    open_error(unit_path(tmp, "dev/nvidia0")) != 0) {
		print_message("skipped: device nodes cannot be made or opened here\n");
		tmp = unit_tmp_free(tmp);
		skip();
	}
	pid_t pid = fork();
	if (pid == 0) {
		const struct devguard_rule denied[] = {{'c', 1, 5, 5, DEVGUARD_ALL}};
		const struct landlock_plan plan = {
		    .denied = denied, .count = array_length(denied), .device_root = tmp};
		if (landlock_restrict(&plan) < 0)
			_exit(128);
		_exit((open_error(unit_path(tmp, "dev/nvidia0")) == EACCES ? 0 : 1) |
		      (open_error(unit_path(tmp, "dev/nvidia1")) == 0 ? 0 : 2));
	}
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(WEXITSTATUS(status), 0);
	tmp = unit_tmp_free(tmp);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(denied_nodes_cannot_be_opened),
	    cmocka_unit_test(another_machines_nodes_are_looked_at_as_well),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
