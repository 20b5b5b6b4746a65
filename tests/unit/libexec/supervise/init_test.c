/* SPDX-License-Identifier: Apache-2.0 */
/* A PID namespace around children of ours: what they see, and that all end with it. */
#include "libexec/supervise/init.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "job/cgroup/cgroup.h"
#include "unit/unit.h"

static void start(struct init *init)
{
	struct cgroup none = CGROUP_NONE;
	struct err err = {0};
	int result = init_start(&none, init, &err);
	if (result < 0) {
		print_message("skipped: %s\n", err.text);
		skip();
	}
}

/* Runs in the namespace, with its /proc; what it says into the pipe. */
static pid_t child_in(const struct init *init, void (*what)(int fd), int fd)
{
	assert_int_equal(init_enter(init), 0);
	pid_t pid = fork();
	if (pid == 0) {
		if (init_join_mounts(init) == 0)
			what(fd);
		_exit(1);
	}
	init_leave(init);
	assert_true(pid > 0);
	return pid;
}

static void tells_its_number(int fd)
{
	char path[64];
	(void)snprintf(path, sizeof(path), "/proc/%d", (int)getpid());
	char is_right = getpid() == 2 && getppid() == 0 && access(path, F_OK) == 0 &&
			access("/proc/3", F_OK) < 0;
	_exit(write(fd, &is_right, 1) == 1 ? 7 : 8);
}

static void leaves_an_orphan(int fd)
{
	if (fork() == 0) {
		(void)setsid();
		(void)pause();
	}
	_exit(write(fd, "x", 1) == 1 ? 7 : 8);
}

static char read_byte(int fd)
{
	char byte = '?';
	assert_int_equal(read(fd, &byte, 1), 1);
	return byte;
}

static void children_see_each_other_alone(void **state)
{
	struct init init = INIT_NONE;
	int ends[2], status;
	start(&init);
	assert_int_equal(pipe(ends), 0);
	pid_t pid = child_in(&init, tells_its_number, ends[1]);
	assert_int_equal(read_byte(ends[0]), 1);
	/* It is ours nevertheless. */
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(WEXITSTATUS(status), 7);
	/* And those to come are outside again. */
	pid_t other = fork();
	if (other == 0)
		_exit(getppid() == 0);
	assert_int_equal(waitpid(other, &status, 0), other);
	assert_int_equal(WEXITSTATUS(status), 0);
	pid_t first = init.pid;
	init_release(&init);
	assert_int_equal(waitpid(first, &status, 0), first);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	init_done(&init);
	(void)close(ends[0]);
	(void)close(ends[1]);
}

static void it_waits_for_orphans_and_takes_them_along(void **state)
{
	struct init init = INIT_NONE;
	int ends[2], status;
	start(&init);
	assert_int_equal(pipe(ends), 0);
	pid_t pid = child_in(&init, leaves_an_orphan, ends[1]);
	(void)read_byte(ends[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	init_release(&init);
	/* The orphan has the pipe open, and it lives. */
	(void)close(ends[1]);
	assert_int_equal(waitpid(init.pid, &status, WNOHANG), 0);
	init_kill(&init);
	char byte;
	assert_int_equal(read(ends[0], &byte, 1), 0);
	assert_int_equal(waitpid(init.pid, &status, 0), init.pid);
	assert_true(WIFSIGNALED(status));
	init_done(&init);
	(void)close(ends[0]);
}

static void finds_the_mark(int fd)
{
	char is_right = access("/mark-of-the-chroot", F_OK) == 0;
	_exit(write(fd, &is_right, 1) == 1 ? 7 : 8);
}

/* A service whose / is a directory: so it is for its jobs. */
static int in_chroot(const char *directory, int fd)
{
	struct cgroup none = CGROUP_NONE;
	struct init init = INIT_NONE;
	int status = 0;
	if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("none", directory, "tmpfs", 0, NULL) < 0 || chdir(directory) < 0 ||
	    mkdir("proc", 0755) < 0 || mkdir("mark-of-the-chroot", 0755) < 0 ||
	    mount("proc", "proc", "proc", 0, NULL) < 0 || chroot(".") < 0 ||
	    init_start(&none, &init, NULL) < 0)
		return 1;
	pid_t pid = child_in(&init, finds_the_mark, fd);
	(void)waitpid(pid, &status, 0);
	init_kill(&init);
	return status == 0x700 ? 0 : 2;
}

static void a_chroot_is_not_left(void **state)
{
	struct init init = INIT_NONE;
	char directory[] = "/tmp/sluice-init-XXXXXX";
	int ends[2], status;
	start(&init); /* or skipped */
	init_kill(&init);
	(void)waitpid(init.pid, NULL, 0);
	init_done(&init);
	assert_int_equal(pipe(ends), 0);
	assert_non_null(mkdtemp(directory));
	pid_t pid = fork();
	if (pid == 0)
		_exit(in_chroot(directory, ends[1]));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(rmdir(directory), 0);
	assert_int_equal(status, 0);
	assert_int_equal(read_byte(ends[0]), 1);
	(void)close(ends[0]);
	(void)close(ends[1]);
}

static void none_is_nothing(void **state)
{
	struct init init = INIT_NONE;
	init_kill(&init);
	init_release(&init);
	init_done(&init);
	assert_int_equal(init.pid, -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(children_see_each_other_alone),
	    cmocka_unit_test(it_waits_for_orphans_and_takes_them_along),
	    cmocka_unit_test(a_chroot_is_not_left),
	    cmocka_unit_test(none_is_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
