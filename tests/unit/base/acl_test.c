/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/acl.h"
#include "base/cleanup.h"
#include "unit/unit.h"

enum { ALICE = 4242, BOB = 4343 };

/* What opening the path says to that user: 0 or an errno. */
static int open_as(uid_t uid, gid_t gid, const char *path, int flags)
{
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		if (setgroups(0, NULL) < 0 || setgid(gid) < 0 || setuid(uid) < 0)
			_exit(99);
		_exit(open(path, flags | O_CLOEXEC) < 0 ? errno : 0);
	}
	int status = 0;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WEXITSTATUS(status);
}

static void one_user_and_nobody_else(void **state)
{
	struct stat status;
	if (geteuid() != 0)
		skip();
	assert_int_equal(chmod(unit_top, 0711), 0);
	assert_int_equal(mkdir(unit_path(unit_top, "inner"), 0700), 0);
	const char *path = unit_path(unit_top, "inner/file");
	unit_write(path, "x");
	_cleanup_close_ int directory =
	    open(unit_path(unit_top, "inner"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_close_ int file = open(path, O_WRONLY | O_CLOEXEC);
	int rc = acl_give(directory, ACL_READ | ACL_WRITE | ACL_EXECUTE, ALICE, ACL_EXECUTE);
	if (rc == -EOPNOTSUPP)
		skip();
	assert_int_equal(rc, 0);
	assert_int_equal(open_as(ALICE, ALICE, path, O_RDONLY), 0); /* as unit_write() leaves it */
	assert_int_equal(acl_give(file, ACL_READ | ACL_WRITE, ALICE, ACL_READ), 0);
	assert_int_equal(open_as(ALICE, ALICE, path, O_RDONLY), 0);
	assert_int_equal(open_as(ALICE, ALICE, path, O_WRONLY), EACCES);
	assert_int_equal(open_as(BOB, ALICE, path, O_RDONLY), EACCES);
	assert_int_equal(open_as(BOB, 0, path, O_RDONLY), EACCES);
	assert_int_equal(open_as(ALICE, ALICE, unit_path(unit_top, "inner"), O_RDONLY), EACCES);
	/* The group's digit is the mask: nothing of it is the group's. */
	assert_int_equal(fstat(file, &status), 0);
	assert_int_equal(status.st_mode & 0707, 0600);
}

static void where_there_are_none(void **state)
{
	_cleanup_close_ int fd = open("/proc/self", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int rc = acl_give(fd, ACL_READ, ALICE, ACL_READ);
	assert_true(rc == -EOPNOTSUPP || rc == -EPERM);
	assert_int_equal(acl_give(-1, ACL_READ, ALICE, ACL_READ), -EBADF);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(one_user_and_nobody_else, unit_top_setup,
					    unit_top_teardown),
	    cmocka_unit_test(where_there_are_none),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
