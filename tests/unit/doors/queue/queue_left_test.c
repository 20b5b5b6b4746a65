/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/queue/queue_internal.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit/unit.h"

#define INSTANCE    "01234567-89ab-4cde-8f01-23456789abcd"
#define DEADLINE_NS UINT64_C(20000000000)

enum { ROUNDS = 100 };

/* Becomes this program, with the instance in its environment, again and again. */
static void execute(const char *how)
{
	char entry[] = "SLUICE_JOB_INSTANCE=" INSTANCE;
	char *environment[] = {entry, NULL}, *arguments[] = {(char *)"unit", (char *)how, NULL};
	(void)execve("/proc/self/exe", arguments, environment);
	_exit(1);
}

/* Returns when the child executes its program: a descriptor that is closed then says so, as the
 * lock of a job does. */
static pid_t start(const char *how)
{
	int pipe_fd[2];
	char byte;
	assert_int_equal(pipe2(pipe_fd, O_CLOEXEC), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* also when the test fails */
		execute(how);
	}
	(void)close(pipe_fd[1]);
	assert_int_equal(read(pipe_fd[0], &byte, 1), 0);
	(void)close(pipe_fd[0]);
	return pid;
}

/* Nobody who was found may live when nothing is found any more. */
static void kill_until_nothing_is_left(pid_t pid)
{
	uint64_t end = unit_now_ns() + DEADLINE_NS;
	int left;
	while ((left = queue_kill_left(INSTANCE, "", true, NULL)) == 1) {
		assert_true(unit_now_ns() < end);
		(void)poll(NULL, 0, 1);
	}
	assert_int_equal(left, 0);
	/* It is on its way out: one that was missed would execute its program for ever. */
	pid_t reaped;
	while ((reaped = waitpid(pid, NULL, WNOHANG)) == 0) {
		assert_true(unit_now_ns() < end);
		(void)poll(NULL, 0, 1);
	}
	assert_int_equal(reaped, pid);
}

static void what_is_left_is_killed(void **state)
{
	kill_until_nothing_is_left(start("waits"));
	assert_int_equal(queue_kill_left(INSTANCE, "", true, NULL), 0);
}

static void a_process_is_found_while_it_executes_a_program(void **state)
{
	for (int i = 0; i < ROUNDS; i++)
		kill_until_nothing_is_left(start("executes"));
}

int main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "executes") == 0)
		execute("executes");
	if (argc > 1)
		return pause();
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_is_left_is_killed),
	    cmocka_unit_test(a_process_is_found_while_it_executes_a_program),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
