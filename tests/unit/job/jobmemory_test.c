/* SPDX-License-Identifier: Apache-2.0 */
#include "job/jobmemory.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit/unit.h"

/* Of this process alone. */
static void instance_of(char out[37])
{
	(void)snprintf(out, 37, "%08x-0000-4000-8000-000000000000", (unsigned)getpid());
}

static void make_file(const char *directory, const char *name)
{
	char path[256];
	(void)snprintf(path, sizeof(path), "%s/%s", directory, name);
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	close(fd);
}

static void removes_what_ranks_left(void **state)
{
	char instance[37], path[JOBMEMORY_PATH_MAX], link[256];
	char outside[] = "/tmp/jobmemory-XXXXXX";
	struct stat status;
	instance_of(instance);
	if (stat("/dev/shm", &status) < 0)
		skip();
	assert_non_null(mkdtemp(outside));
	make_file(outside, "theirs");
	assert_int_equal(jobmemory_make(instance, 2, getuid(), getgid(), path, NULL), 0);
	assert_non_null(strstr(path, instance));
	char again[JOBMEMORY_PATH_MAX];
	assert_int_equal(jobmemory_make(instance, 2, getuid(), getgid(), again, NULL), -EEXIST);
	assert_string_equal(again, ""); /* not ours to remove */
	make_file(path, "w0/segment");
	make_file(path, "file");
	(void)snprintf(link, sizeof(link), "%s/w2", path);
	assert_int_equal(symlink(outside, link), 0);
	jobmemory_remove(instance);
	assert_int_equal(stat(path, &status), -1);
	(void)snprintf(link, sizeof(link), "%s/theirs", outside);
	assert_int_equal(unlink(link), 0); /* it was there: no link is followed */
	assert_int_equal(rmdir(outside), 0);
	jobmemory_remove(instance); /* not there */
	jobmemory_remove("");
}

static void a_step_is_bounded(void **state)
{
	char instance[37], path[JOBMEMORY_PATH_MAX], name[32];
	struct stat status;
	instance_of(instance);
	if (stat("/dev/shm", &status) < 0)
		skip();
	assert_int_equal(jobmemory_make(instance, 1, getuid(), getgid(), path, NULL), 0);
	for (int i = 0; i < JOBMEMORY_STEP + 10; i++) {
		(void)snprintf(name, sizeof(name), "w0/%d", i);
		make_file(path, name);
	}
	assert_false(jobmemory_remove_step(instance));
	assert_int_equal(stat(path, &status), 0);
	assert_true(jobmemory_remove_step(instance));
	assert_int_equal(stat(path, &status), -1);

	/* What cannot be removed does not keep it going. */
	assert_int_equal(jobmemory_make(instance, 1, getuid(), getgid(), path, NULL), 0);
	char deep[256];
	(void)snprintf(deep, sizeof(deep), "%s/w0/deep", path);
	assert_int_equal(mkdir(deep, 0700), 0);
	assert_true(jobmemory_remove_step(instance));
	assert_int_equal(rmdir(deep), 0);
	jobmemory_remove(instance);
	assert_int_equal(stat(path, &status), -1);
}

/* A program of a user's may answer for a file system that is mounted there, or not answer. */
static void what_is_mounted_there_is_not_entered(void **state)
{
	char instance[37], path[JOBMEMORY_PATH_MAX], inner[256], file[300];
	struct stat status;
	instance_of(instance);
	if (stat("/dev/shm", &status) < 0)
		skip();
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		if (unshare(CLONE_NEWNS) < 0 ||
		    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
			_exit(77);
		if (jobmemory_make(instance, 1, getuid(), getgid(), path, NULL) < 0)
			_exit(1);
		(void)snprintf(inner, sizeof(inner), "%s/w0", path);
		if (mount("none", inner, "tmpfs", 0, NULL) < 0) {
			jobmemory_remove(instance);
			_exit(77);
		}
		make_file(inner, "precious");
		(void)snprintf(file, sizeof(file), "%s/precious", inner);
		jobmemory_remove(instance);
		int is_there = access(file, F_OK) == 0;
		(void)umount2(inner, MNT_DETACH);
		jobmemory_remove(instance);
		_exit(is_there ? 0 : 1);
	}
	int ended = 0;
	assert_int_equal(waitpid(pid, &ended, 0), pid);
	if (WIFEXITED(ended) && WEXITSTATUS(ended) == 77)
		skip();
	assert_int_equal(ended, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(removes_what_ranks_left),
					   cmocka_unit_test(a_step_is_bounded),
					   cmocka_unit_test(what_is_mounted_there_is_not_entered)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
