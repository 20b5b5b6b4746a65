/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job in the foreground of a terminal: a small "shell" owns a pseudo-terminal and runs a client
 * on it, as `sluice run` is run, in a process group of its own.
 */
#include "doors/queue/foreground.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "unit/unit.h"

#define DEADLINE_NS UINT64_C(20000000000)

static int terminal = -1; /* the side on which one types */
static char heard[8192];
static size_t heard_length;

static void client(const char *script)
{
	char *argv[] = {(char[]){"/bin/sh"}, (char[]){"-c"}, strdup(script), NULL};
	char *envp[] = {(char[]){"PATH=/usr/bin:/bin"}, NULL};
	struct supervise_job job = {.argv = argv, .envp = envp, .grace_ns = UINT64_C(10000000000)};
	struct foreground_result result;
	if (foreground_run(&job, NULL, NULL, &result, NULL) < 0)
		_exit(98);
	_exit(foreground_exit_code(&result));
}

/* What an interactive shell does: the job gets the terminal; when it stops, the shell says so, and
 * gives it the terminal again when a line comes. Exits with the job's code. */
static void shell(const char *script)
{
	(void)signal(SIGTTOU, SIG_IGN);
	pid_t job = fork();
	if (job == 0) {
		(void)signal(SIGTTOU, SIG_IGN); /* or this would stop us before we have it */
		(void)setpgid(0, 0);
		(void)tcsetpgrp(0, getpid());
		(void)signal(SIGTTOU, SIG_DFL);
		client(script);
	}
	for (;;) {
		int status;
		if (waitpid(job, &status, WUNTRACED) < 0)
			_exit(97); /* a hangup ends us by SIGHUP */
		if (!WIFSTOPPED(status))
			_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 96);
		(void)tcsetpgrp(0, getpgrp());
		(void)!write(1, "[stopped]\n", 10);
		char line[16];
		(void)!read(0, line, sizeof(line)); /* "fg" */
		(void)tcsetpgrp(0, job);
		(void)kill(-job, SIGCONT);
		(void)!write(1, "[continued]\n", 12);
	}
}

static pid_t shell_start(const char *script)
{
	heard_length = 0;
	terminal = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
	assert_true(terminal >= 0);
	assert_int_equal(grantpt(terminal), 0);
	assert_int_equal(unlockpt(terminal), 0);
	const char *name = ptsname(terminal);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid)
		return pid;
	/* What started the tests may ignore them, as a shell does for what runs in the background;
	 * a shell cannot trap what was ignored when it began. */
	(void)signal(SIGINT, SIG_DFL);
	(void)signal(SIGQUIT, SIG_DFL);
	(void)signal(SIGTSTP, SIG_DFL);
	(void)setsid();
	(void)close(terminal); /* or the terminal would never hang up */
	int fd = open(name, O_RDWR);
	if (fd < 0 || ioctl(fd, TIOCSCTTY, 0) < 0)
		_exit(95);
	for (int i = 0; i < 3; i++)
		(void)dup2(fd, i);
	shell(script);
	_exit(94);
}

static void expect(const char *text)
{
	for (uint64_t end = unit_now_ns() + DEADLINE_NS;;) {
		heard[heard_length] = '\0';
		char *found = strstr(heard, text);
		if (found) {
			/* What came before is done with; what came after is not. */
			found += strlen(text);
			heard_length -= (size_t)(found - heard);
			memmove(heard, found, heard_length);
			return;
		}
		struct pollfd wait = {.fd = terminal, .events = POLLIN};
		if (unit_now_ns() > end || heard_length >= sizeof(heard) - 1)
			fail_msg("'%s' was never printed, but: %s", text, heard);
		if (poll(&wait, 1, 100) <= 0)
			continue;
		ssize_t length =
		    read(terminal, heard + heard_length, sizeof(heard) - 1 - heard_length);
		if (length > 0)
			heard_length += (size_t)length;
	}
}

static void type(const char *text)
{
	assert_int_equal(write(terminal, text, strlen(text)), strlen(text));
}

static int shell_end(pid_t pid)
{
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	close(terminal);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void the_job_reads_from_the_terminal(void **state)
{
	pid_t pid = shell_start("echo ready; read word; echo \"got $word\"; exit 9");
	expect("ready");
	type("hello\n");
	expect("got hello");
	assert_int_equal(shell_end(pid), 9);
}

/* By Ctrl-\\, because a second Ctrl-C kills; often, because two signals that come at once are one.
 */
static void a_key_comes_once(void **state)
{
	pid_t pid = shell_start("n=0; trap 'n=$((n+1)); echo quit=$n.' QUIT; echo ready; "
				"while [ \"$word\" != end ]; do read word; done; exit $n");
	expect("ready");
	for (int i = 1; i <= 20; i++) {
		char text[16];
		(void)snprintf(text, sizeof(text), "quit=%d.", i);
		/* The line wakes a shell that got the signal just before it began to read. */
		type("\x1c\n");
		expect(text);
	}
	type("end\n");
	assert_int_equal(shell_end(pid), 20); /* never passed on a second time */
}

static void an_interrupt_ends_what_does_not_catch_it(void **state)
{
	pid_t pid = shell_start("echo ready; exec sleep 1000");
	expect("ready");
	type("\x03");
	assert_int_equal(shell_end(pid), 130);
}

static void two_interrupts_kill(void **state)
{
	pid_t pid =
	    shell_start("trap 'echo not-now' INT; echo ready; while :; do sleep 0.01; done");
	expect("ready");
	type("\x03");
	expect("not-now");
	/* Two that come before the client has read the first are one to the kernel. */
	siginfo_t info = {0};
	for (uint64_t end = unit_now_ns() + DEADLINE_NS; info.si_pid == 0;
	     (void)poll(NULL, 0, 20)) {
		type("\x03");
		assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT | WNOHANG), 0);
		assert_true(unit_now_ns() < end);
	}
	assert_int_equal(shell_end(pid), 137);
}

static void a_stopped_job_gives_the_shell_back_and_goes_on(void **state)
{
	pid_t pid = shell_start("echo ready; read word; echo \"got $word\"; exit 8");
	expect("ready");
	for (int round = 0; round < 3; round++) {
		type("\x1a");
		expect("[stopped]");
		type("fg\n");
		expect("[continued]");
	}
	type("again\n");
	expect("got again");
	assert_int_equal(shell_end(pid), 8);
}

static void a_job_that_stops_itself_is_seen_too(void **state)
{
	pid_t pid = shell_start("echo ready; kill -STOP $$; echo on; exit 6");
	expect("[stopped]");
	type("fg\n");
	expect("on");
	assert_int_equal(shell_end(pid), 6);
}

static void codes_are_a_shells(void **state)
{
	static const struct {
		struct foreground_result result;
		int code;
	} rows[] = {
	    {{.status = 0}, 0},
	    {{.status = 7 << 8}, 7},
	    {{.status = SIGTERM}, 143},
	    {{.launch_error = -ENOENT}, 127},
	    {{.launch_error = -EACCES}, 126},
	    {{.launch_error = -ENOEXEC}, 126},
	    {{.supervisor_lost = true, .status = SIGKILL}, 137},
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_int_equal(foreground_exit_code(&rows[i].result), rows[i].code);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_job_reads_from_the_terminal),
	    cmocka_unit_test(a_key_comes_once),
	    cmocka_unit_test(an_interrupt_ends_what_does_not_catch_it),
	    cmocka_unit_test(two_interrupts_kill),
	    cmocka_unit_test(a_stopped_job_gives_the_shell_back_and_goes_on),
	    cmocka_unit_test(a_job_that_stops_itself_is_seen_too),
	    cmocka_unit_test(codes_are_a_shells),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
