/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/jobs/peer_limits.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "unit/unit.h"

enum { STRANGER = 61009, SIGNALS_EVERY_US = 200, READS = 10000 };

/* As fs/proc/base.c of Linux 6.1 writes it. */
static const char said[] =
    "Limit                     Soft Limit           Hard Limit           Units     \n"
    "Max cpu time              unlimited            unlimited            seconds   \n"
    "Max file size             unlimited            unlimited            bytes     \n"
    "Max data size             unlimited            unlimited            bytes     \n"
    "Max stack size            8388608              unlimited            bytes     \n"
    "Max core file size        0                    unlimited            bytes     \n"
    "Max resident set          unlimited            unlimited            bytes     \n"
    "Max processes             96365                96366                processes \n"
    "Max open files            1024                 524288               files     \n"
    "Max locked memory         8388608              8388608              bytes     \n"
    "Max address space         unlimited            unlimited            bytes     \n"
    "Max file locks            unlimited            unlimited            locks     \n"
    "Max pending signals       96365                96365                signals   \n"
    "Max msgqueue size         819200               819200               bytes     \n"
    "Max nice priority         0                    0                    \n"
    "Max realtime priority     0                    0                    \n"
    "Max realtime timeout      unlimited            unlimited            us        \n";

static void test_what_proc_says(void **state)
{
	(void)state;
	struct spec_limit limits[SPEC_LIMITS_MAX];
	char cut[sizeof(said)];
	assert_int_equal(peer_limits_parse(said, strlen(said), limits, NULL), 0);
	for (uint32_t i = 0; i < SPEC_LIMITS_MAX; i++)
		assert_int_equal(limits[i].resource, i);
	assert_true(limits[RLIMIT_CPU].hard == UINT64_MAX);
	assert_int_equal(limits[RLIMIT_STACK].soft, 8388608);
	assert_int_equal(limits[RLIMIT_NPROC].soft, 96365);
	assert_int_equal(limits[RLIMIT_NPROC].hard, 96366);
	assert_int_equal(limits[RLIMIT_NICE].hard, 0);

	/* None may be missing, or be anything but two numbers. */
	struct err err = {0};
	assert_int_equal(peer_limits_parse(said, strlen(said) / 2, limits, &err), -EINVAL);
	assert_int_equal(peer_limits_parse("", 0, limits, &err), -EINVAL);
	memcpy(cut, said, sizeof(said));
	memcpy(strstr(cut, "524288"), "5242x8", 6);
	assert_int_equal(peer_limits_parse(cut, strlen(cut), limits, &err), -EINVAL);
	assert_non_null(strstr(err.text, "Max open files"));
}

static pid_t child_with(rlim_t processes, uid_t uid)
{
	int ready[2];
	char byte;
	assert_int_equal(pipe(ready), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		const struct rlimit limit = {processes, processes};
		if (setrlimit(RLIMIT_NPROC, &limit) < 0 ||
		    (uid != getuid() && setresuid(uid, uid, uid) < 0) ||
		    write(ready[1], "x", 1) != 1)
			_exit(1);
		for (;;)
			(void)pause();
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	(void)close(ready[0]);
	(void)close(ready[1]);
	return pid;
}

static void end(pid_t pid)
{
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static int pidfd_of(pid_t pid)
{
	return (int)syscall(SYS_pidfd_open, pid, 0); /* -1: as on an old kernel */
}

static void expect(pid_t pid, uid_t uid, int pidfd, int code, uint64_t processes)
{
	struct spec_limit limits[SPEC_LIMITS_MAX] = {{.hard = 1}};
	const struct peer_process peer = {.pid = pid, .uid = uid, .pidfd = pidfd};
	struct err err = {0};
	int rc = peer_limits_read(&peer, limits, &err);
	if (rc != code)
		fail_msg("%d instead of %d: %s", rc, code, err.text);
	if (code == 0)
		assert_int_equal(limits[RLIMIT_NPROC].hard, processes);
	else
		assert_int_equal(limits[0].hard, 1);
}

static void test_a_process_and_its_end(void **state)
{
	(void)state;
	pid_t pid = child_with(77, getuid());
	int pidfd = pidfd_of(pid);
	expect(pid, getuid(), pidfd, 0, 77);
	expect(pid, getuid(), -1, 0, 77);
	expect(pid, getuid() + 1, pidfd, -EPERM, 0);

	/* Its number is another one's now: this one's, whose limits it shall not get. */
	pid_t ended = child_with(88, getuid());
	int its_pidfd = pidfd_of(ended);
	end(ended);
	expect(ended, getuid(), its_pidfd, -EPERM, 0);
	expect(ended, getuid(), -1, -EPERM, 0);
	if (its_pidfd >= 0)
		expect(pid, getuid(), its_pidfd, -EPERM, 0);
	end(pid);
	(void)close(pidfd);
	(void)close(its_pidfd);
}

static void on_signal(int number)
{
	(void)number;
}

/* A job that ends tells the service by SIGCHLD, at any moment of another one's submission. */
static void test_signals_meanwhile(void **state)
{
	(void)state;
	struct itimerval often = {{0, SIGNALS_EVERY_US}, {0, SIGNALS_EVERY_US}},
			 never = {{0, 0}, {0, 0}};
	struct sigaction handler = {.sa_handler = on_signal, .sa_flags = SA_RESTART}, before;
	pid_t pid = child_with(77, getuid());
	int pidfd = pidfd_of(pid);

	const struct peer_process peer = {.pid = pid, .uid = getuid(), .pidfd = pidfd};
	struct spec_limit limits[SPEC_LIMITS_MAX];
	int refused = 0;

	assert_int_equal(sigaction(SIGALRM, &handler, &before), 0);
	assert_int_equal(setitimer(ITIMER_REAL, &often, NULL), 0);
	for (int i = 0; i < READS; i++)
		refused += peer_limits_read(&peer, limits, NULL) < 0;
	assert_int_equal(setitimer(ITIMER_REAL, &never, NULL), 0);
	assert_int_equal(sigaction(SIGALRM, &before, NULL), 0);
	assert_int_equal(refused, 0);

	end(pid);
	(void)close(pidfd);
}

static void test_a_process_that_cannot_be_seen(void **state)
{
	(void)state;
	expect(0, 1000, -1, -EPERM, 0);
	expect(0, 0, -1, 0, UINT64_MAX); /* root can give itself any */
}

/* Also without CAP_SYS_RESOURCE, by what /proc says. */
static void test_another_users_process(void **state)
{
	(void)state;
	if (geteuid() != 0)
		skip();
	pid_t pid = child_with(99, STRANGER);
	expect(pid, STRANGER, pidfd_of(pid), 0, 99);
	expect(pid, STRANGER + 1, -1, -EPERM, 0);
	end(pid);
}

static void test_what_is_wanted_lowers(void **state)
{
	(void)state;
	struct spec_limit limits[SPEC_LIMITS_MAX];
	for (uint32_t i = 0; i < SPEC_LIMITS_MAX; i++)
		limits[i] = (struct spec_limit){i, 100, 200};
	const struct spec_limit wanted[] = {{RLIMIT_NPROC, 150, UINT64_MAX},
					    {RLIMIT_NOFILE, 300, 300},
					    {RLIMIT_AS, 10, 20},
					    {RLIMIT_AS, 15, 30}};
	assert_int_equal(peer_limits_lower(limits, wanted, 4, NULL), 0);
	assert_int_equal(limits[RLIMIT_NPROC].soft, 150);
	assert_int_equal(limits[RLIMIT_NPROC].hard, 200);
	assert_int_equal(limits[RLIMIT_NOFILE].soft, 200);
	assert_int_equal(limits[RLIMIT_AS].soft, 10);
	assert_int_equal(limits[RLIMIT_AS].hard, 20);
	assert_int_equal(limits[RLIMIT_CPU].soft, 100);
	const struct spec_limit unknown = {SPEC_LIMITS_MAX, 1, 1};
	assert_int_equal(peer_limits_lower(limits, &unknown, 1, NULL), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_what_proc_says),
	    cmocka_unit_test(test_a_process_and_its_end),
	    cmocka_unit_test(test_signals_meanwhile),
	    cmocka_unit_test(test_a_process_that_cannot_be_seen),
	    cmocka_unit_test(test_another_users_process),
	    cmocka_unit_test(test_what_is_wanted_lowers),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
