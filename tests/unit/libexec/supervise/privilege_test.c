/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/quota.h>
#include <sched.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "libexec/supervise/privilege.h"
#include "unit/unit.h"

/* syscall(2) as the code under test calls it. */
long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);

static struct {
	bool is_new; /* the kernel has quotactl_fd(2) */
	int error;   /* 0: there is a quota */
	uint64_t hard, soft;
	unsigned command;
	uid_t uid;
	int fd;
	char device[64];
} quota;
static bool has_quotas; /* that are ours */

long __wrap_syscall(long number, ...)
{
	va_list list;
	va_start(list, number);
	long words[4];
	for (int i = 0; i < 4; i++)
		words[i] = va_arg(list, long);
	va_end(list);
	if (!has_quotas || (number != SYS_quotactl && number != 443))
		return __real_syscall(number, words[0], words[1], words[2], words[3]);
	if (number == 443 && !quota.is_new) {
		errno = ENOSYS;
		return -1;
	}
	quota.fd = number == 443 ? (int)words[0] : -1;
	quota.command = (unsigned)(number == 443 ? words[1] : words[0]);
	if (number == SYS_quotactl)
		(void)snprintf(quota.device, sizeof(quota.device), "%s", (const char *)words[1]);
	quota.uid = (uid_t)words[2];
	if (quota.error) {
		errno = quota.error;
		return -1;
	}
	*(struct if_dqblk *)words[3] =
	    (struct if_dqblk){.dqb_bhardlimit = quota.hard, .dqb_bsoftlimit = quota.soft};
	return 0;
}

static void a_quota_is_one_that_limits(void **state)
{
	_cleanup_close_ int fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	has_quotas = true;
	for (int is_new = 0; is_new < 2; is_new++) {
		quota.is_new = is_new;
		quota.error = 0;
		quota.hard = quota.soft = 0;
		assert_false(privilege_has_quota(fd, 4242)); /* only counted */
		assert_int_equal(quota.uid, 4242);
		assert_int_equal(quota.command, 0x80000700); /* Q_GETQUOTA of USRQUOTA */
		assert_int_equal(quota.fd, is_new ? fd : -1);
		assert_int_equal(strncmp(quota.device, "/dev/block/", 11), 0);
		quota.hard = 1;
		assert_true(privilege_has_quota(fd, 4242));
		quota.hard = 0;
		quota.soft = 1;
		assert_true(privilege_has_quota(fd, 4242));
		quota.error = ESRCH; /* none is switched on */
		assert_false(privilege_has_quota(fd, 4242));
	}
	has_quotas = false;
	assert_false(privilege_has_quota(-1, 4242));
}

/* Whether this process could write past somebody's quota, as the kernel sees it. */
static int has_resource(bool of_permitted)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];
	if (__real_syscall(SYS_capget, &header, data, 0L, 0L) < 0)
		return -1;
	uint32_t words = of_permitted ? data[0].permitted : data[0].effective;
	return (words & CAP_TO_MASK(CAP_SYS_RESOURCE)) != 0;
}

/* In a user namespace of its own everybody has it. */
static void it_is_laid_down_and_taken_up(void **state)
{
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		if (unshare(CLONE_NEWUSER) < 0)
			_exit(77);
		if (has_resource(false) != 1)
			_exit(1);
		if (privilege_lay_down() < 0 || has_resource(false) != 0 || has_resource(true) != 1)
			_exit(2);
		if (privilege_lay_down() < 0 || has_resource(false) != 0) /* again */
			_exit(3);
		pid_t child = fork();
		if (child == 0) {
			privilege_take_up();
			_exit(has_resource(false) == 1 ? 0 : 1);
		}
		int ended = 0;
		_exit(waitpid(child, &ended, 0) == child && ended == 0 ? 0 : 4);
	}
	int status = 0;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
		print_message("SKIPPED: no user namespaces here\n");
		skip();
	}
	assert_int_equal(status, 0);
}

static void who_has_none_is_fine(void **state)
{
	assert_int_equal(privilege_lay_down(), 0);
	privilege_take_up();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_quota_is_one_that_limits),
	    cmocka_unit_test(it_is_laid_down_and_taken_up),
	    cmocka_unit_test(who_has_none_is_fine),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
