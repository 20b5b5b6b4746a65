/* SPDX-License-Identifier: Apache-2.0 */
#include "job/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit/unit.h"

#define DEADLINE_NS UINT64_C(20000000000)

static int ready[2]; /* each of a family says here that it is as it stays */

static int setup(void **state)
{
	return prctl(PR_SET_CHILD_SUBREAPER, 1) < 0 || pipe2(ready, O_CLOEXEC) < 0 ? -1 : 0;
}

static void lines_of_stat_are_read_strictly(void **state)
{
	struct tree_process process;
	static const char good[] =
	    "12 (a) b) (c) S 7 12 12 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 987 1 1";
	assert_int_equal(tree_parse_stat(good, strlen(good), &process, NULL), 0);
	assert_int_equal(process.pid, 12);
	assert_int_equal(process.parent, 7);
	assert_int_equal(process.group, 12);
	assert_int_equal(process.state, 'S');
	assert_int_equal(process.start, 987);
	for (size_t length = 0; length < strlen(good) - 8; length++)
		assert_int_equal(tree_parse_stat(good, length, &process, NULL), -EINVAL);
}

static void a_program_that_is_being_executed_has_no_environment_yet(void **state)
{
	static const char *const lines[] = {
	    "12 (a) R 7 12 12 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 987 4096 1 9 1 1 1 0 0 0 0 0 0 0 0 0 "
	    "17 0 0 0 0 0 0 1 1 1 1 1 1 0 0",
	    "12 (a) R 7 12 12 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 987 4096 1 9 1 1 1 0 0 0 0 0 0 0 0 0 "
	    "17 0 0 0 0 0 0 1 1 1 1 1 1 77 0",
	    "12 (a) S 7 12 12 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 987 0 0 9 1 1 1 0 0 0 0 0 0 0 0 0 "
	    "17 0 0 0 0 0 0 0 0 0 0 0 0 0 0",
	};
	for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++) {
		struct tree_process process;
		assert_int_equal(tree_parse_stat(lines[i], strlen(lines[i]), &process, NULL), 0);
		assert_int_equal(process.is_executing, i == 0);
		assert_int_equal(process.has_environment, i == 1);
	}
	struct tree_process self;
	assert_int_equal(tree_read(getpid(), &self, NULL), 0);
	assert_false(self.is_executing);
	assert_true(self.has_environment);
}

static size_t descendants(pid_t spare)
{
	struct tree_process *list = NULL;
	size_t count = 0;
	assert_int_equal(tree_list(getpid(), spare, &list, &count, NULL), 0);
	free(list);
	return count;
}

static void wait_for_descendants(size_t wanted, pid_t spare)
{
	for (uint64_t end = unit_now_ns() + DEADLINE_NS; descendants(spare) != wanted;
	     (void)poll(NULL, 0, 2))
		if (unit_now_ns() > end)
			fail_msg("%zu descendants, not %zu", descendants(spare), wanted);
}

static void reap_all(void)
{
	while (waitpid(-1, NULL, __WALL) > 0)
		;
}

static _Noreturn void family_stay(void)
{
	(void)!write(ready[1], "x", 1); /* who waits for it in vain tells of it */
	for (;;)
		pause();
}

/* A child with two children, of which one has left its parent and its session. */
static pid_t family_start(void)
{
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid)
		return pid;
	if (fork() == 0) {
		if (fork() == 0) {
			(void)setsid();
			family_stay();
		}
		_exit(0);
	}
	(void)wait(NULL);
	if (fork() == 0)
		family_stay();
	family_stay();
}

static void family_wait(void)
{
	char byte;
	for (int i = 0; i < 3; i++)
		assert_int_equal(read(ready[0], &byte, 1), 1);
}

static void all_descendants_are_found(void **state)
{
	pid_t child = family_start();
	family_wait();
	wait_for_descendants(3, 0);
	wait_for_descendants(1, child); /* without it and its own: the one that left */

	struct tree_process *list = NULL;
	size_t count = 0;
	assert_int_equal(tree_list(getpid(), 0, &list, &count, NULL), 0);
	for (size_t i = 1; i < count; i++)
		assert_true(list[i - 1].pid < list[i].pid);
	free(list);

	assert_int_equal(tree_kill(getpid(), 0, 0, &count, NULL), 0);
	assert_int_equal(count, 3);
	reap_all();
	assert_int_equal(descendants(0), 0);
}

static void zombies_do_not_count(void **state)
{
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		_exit(0);
	siginfo_t info;
	assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
	assert_int_equal(descendants(0), 0);
	reap_all();
}

static void the_spared_one_lives(void **state)
{
	pid_t spare = family_start(), other = family_start();
	family_wait();
	family_wait();
	wait_for_descendants(6, 0);
	size_t count;
	assert_int_equal(tree_kill(getpid(), spare, 0, &count, NULL), 0);
	assert_int_equal(waitpid(other, NULL, 0), other);
	struct tree_process process;
	assert_int_equal(tree_read(spare, &process, NULL), 0);
	assert_int_not_equal(process.state, 'Z');
	assert_int_equal(tree_kill(getpid(), 0, 0, &count, NULL), 0);
	reap_all();
	assert_int_equal(tree_read(spare, &process, NULL), -ESRCH);
}

static void groups_are_signalled_and_ours_is_not(void **state)
{
	/* One in our own group, one that leads its own, and what that started. */
	pid_t same = fork();
	assert_true(same >= 0);
	if (same == 0)
		for (;;)
			pause();
	pid_t leader = fork();
	assert_true(leader >= 0);
	if (leader == 0) {
		(void)setsid();
		(void)family_start();
		for (;;)
			pause();
	}
	family_wait();
	wait_for_descendants(5, 0);
	size_t count;
	for (uint64_t end = unit_now_ns() + DEADLINE_NS; getpgid(leader) != leader;)
		assert_true(unit_now_ns() < end);
	assert_int_equal(tree_signal_groups(getpid(), SIGKILL, &count, NULL), 0);
	assert_int_equal(count, 5);
	wait_for_descendants(1, 0);
	struct tree_process process;
	assert_int_equal(tree_read(same, &process, NULL), 0);
	assert_int_not_equal(process.state, 'Z');
	assert_int_equal(tree_kill(getpid(), 0, 0, &count, NULL), 0);
	reap_all();
}

/* kill(2) as the code under test calls it. */
int __real_kill(pid_t pid, int signal_number);
int __wrap_kill(pid_t pid, int signal_number);

static pid_t group_killed; /* by its number, last; 0: none was */

int __wrap_kill(pid_t pid, int signal_number)
{
	if (pid < 0)
		group_killed = -pid;
	return __real_kill(pid, signal_number);
}

/* Who leads it, or led it, is nobody's child of ours: by now its number may be a stranger's. */
static void no_group_is_signalled_by_a_number_that_may_be_anothers(void **state)
{
	pid_t middle = fork();
	assert_true(middle >= 0);
	if (middle == 0) {
		/* One that leads a group and lives, and one whose leader is gone. */
		if (fork() == 0) {
			(void)setsid();
			family_stay();
		}
		pid_t gone = fork();
		if (gone == 0) {
			(void)setsid();
			for (int i = 0; i < 2; i++)
				if (fork() == 0)
					family_stay();
			_exit(0);
		}
		(void)waitpid(gone, NULL, 0);
		(void)setsid();
		for (;;)
			pause();
	}
	family_wait();
	wait_for_descendants(4, 0);
	for (uint64_t end = unit_now_ns() + DEADLINE_NS; getpgid(middle) != middle;)
		assert_true(unit_now_ns() < end);
	size_t count = 0;
	group_killed = 0;
	assert_int_equal(tree_signal_groups(getpid(), SIGKILL, &count, NULL), 0);
	assert_int_equal(count, 4);
	wait_for_descendants(0, 0);
	assert_true(group_killed == 0 || group_killed == middle); /* that is ours to reap */
	reap_all();
}

static void freezing_kills_as_well(void **state)
{
	(void)family_start();
	family_wait();
	wait_for_descendants(3, 0);
	size_t count;
	assert_int_equal(tree_kill(getpid(), 0, TREE_PATIENCE, &count, NULL), 0);
	assert_int_equal(count, 3);
	reap_all();
	assert_int_equal(descendants(0), 0);
}

/* In a process of its own, which may not make `call` any more: kills its child. */
static void kill_without(uint32_t call, uint32_t error)
{
	struct sock_filter rule[] = {
	    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = {sizeof(rule) / sizeof(*rule), rule};
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
		_exit(77);
	pid_t pid = fork();
	if (pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	size_t count = 0;
	int result = tree_kill(getpid(), 0, 0, &count, NULL);
	(void)alarm(20); /* ends this process, if the child lives */
	int status = 0;
	_exit(pid > 0 && result == 0 && count == 1 && waitpid(pid, &status, 0) == pid &&
		      WIFSIGNALED(status)
		  ? 0
		  : 1);
}

static void containers_that_forbid_pidfds_are_no_refuge(void **state)
{
	static const struct {
		uint32_t call, error;
	} kinds[] = {{SYS_pidfd_open, ENOSYS},
		     {SYS_pidfd_open, EPERM},
		     {SYS_pidfd_send_signal, ENOSYS},
		     {SYS_pidfd_send_signal, EPERM}};
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		pid_t pid = fork();
		assert_true(pid >= 0);
		if (pid == 0)
			kill_without(kinds[i].call, kinds[i].error);
		int status = 0;
		assert_int_equal(waitpid(pid, &status, 0), pid);
		reap_all();
		if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
			print_message("SKIPPED: no seccomp here, so nothing can be forbidden\n");
			skip();
		}
		if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
			fail_msg("call %u refused with %u: status %d", kinds[i].call,
				 kinds[i].error, status);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(lines_of_stat_are_read_strictly),
	    cmocka_unit_test(a_program_that_is_being_executed_has_no_environment_yet),
	    cmocka_unit_test(all_descendants_are_found),
	    cmocka_unit_test(zombies_do_not_count),
	    cmocka_unit_test(the_spared_one_lives),
	    cmocka_unit_test(groups_are_signalled_and_ours_is_not),
	    cmocka_unit_test(no_group_is_signalled_by_a_number_that_may_be_anothers),
	    cmocka_unit_test(freezing_kills_as_well),
	    cmocka_unit_test(containers_that_forbid_pidfds_are_no_refuge),
	};
	return cmocka_run_group_tests(tests, setup, NULL);
}
