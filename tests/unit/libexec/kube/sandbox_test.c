/* SPDX-License-Identifier: Apache-2.0 */
#include "libexec/kube/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "tests/unit/unit.h"

/* In a child: it is for ever. 0, or the number of what is not as it should be. */
static int rig_look(void)
{
	struct err err = {0};
	struct rlimit core;
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];
	int kept = open("/dev/null", O_RDONLY), other = fcntl(kept, F_DUPFD, 500);
	(void)close(STDIN_FILENO);
	if (other < 0 || sandbox_close(kept, &err) < 0)
		return 1;
	if (fcntl(other, F_GETFD) >= 0 || fcntl(kept, F_GETFD) != FD_CLOEXEC)
		return 2;
	if (fcntl(STDIN_FILENO, F_GETFD) < 0 || fcntl(STDERR_FILENO, F_GETFD) < 0)
		return 3;
	if (sandbox_drop(&err) < 0)
		return 4;
	if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1)
		return 5;
	if (getrlimit(RLIMIT_CORE, &core) < 0 || core.rlim_max != 0)
		return 6;
	if (syscall(SYS_capget, &header, data) < 0)
		return 7;
	if ((data[0].permitted & ~(UINT32_C(1) << CAP_DAC_READ_SEARCH)) != 0 || data[1].permitted ||
	    data[0].effective != data[0].permitted || data[0].inheritable || data[1].inheritable)
		return 8;
	return 0;
}

static void test_what_is_given_up(void **state)
{
	int status;
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		_exit(rig_look());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void test_without_an_agent(void **state)
{
	struct err err = {0};
	assert_int_equal(sandbox_close(999, &err), -EBADF);
	assert_non_null(strstr(err.text, "sluice agent"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_what_is_given_up),
	    cmocka_unit_test(test_without_an_agent),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
