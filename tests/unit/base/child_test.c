/* SPDX-License-Identifier: Apache-2.0 */
/* Every case runs twice: with pidfds and with SIGCHLD. Linked with --wrap=pidfd_open, so that a
 * kernel without it can be had as well. */
#include "base/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/loop.h"
#include "unit/failmalloc.h"
#include "unit/unit.h"

enum { DEADLINE_S = 20, MANY = 40 };

static int pidfd_error; /* errno of pidfd_open(); 0: the real one */
static unsigned pidfd_calls;

int __real_pidfd_open(pid_t pid, unsigned flags);
int __wrap_pidfd_open(pid_t pid, unsigned flags);

int __wrap_pidfd_open(pid_t pid, unsigned flags)
{
	pidfd_calls++;
	if (pidfd_error == 0)
		return __real_pidfd_open(pid, flags);
	errno = pidfd_error;
	return -1;
}

struct scene {
	struct loop *loop;
	struct child_set *set;
	unsigned ended;
	struct child_end end; /* of the last */
	pid_t pid;
	bool free_at_end;
};

static struct scene scene;

static int start_scene(enum child_watch watch)
{
	memset(&scene, 0, sizeof(scene));
	scene.loop = loop_new(LOOP_FAKE, NULL);
	scene.set = scene.loop ? child_set_new(scene.loop, watch, NULL) : NULL;
	pidfd_error = 0;
	pidfd_calls = 0;
	return scene.set ? 0 : -1;
}

static int setup_pidfd(void **state)
{
	return start_scene(CHILD_WATCH_AUTO);
}

static int setup_signal(void **state)
{
	return start_scene(CHILD_WATCH_SIGNAL);
}

static int setup_no_pidfd(void **state)
{
	int rc = start_scene(CHILD_WATCH_AUTO);
	pidfd_error = ENOSYS;
	return rc;
}

static int teardown(void **state)
{
	scene.set = child_set_free(scene.set);
	scene.loop = loop_free(scene.loop);
	return 0;
}

static void on_end(struct child *child, const struct child_end *end, void *context)
{
	scene.ended++;
	scene.end = *end;
	scene.pid = child_pid(child);
	assert_false(child_is_running(child));
	assert_int_equal(child_kill(child, SIGTERM), -ESRCH);
	if (scene.free_at_end)
		child_free(child);
}

static struct child *start_with(struct child_spec spec, const char *script)
{
	const char *argv[] = {"sh", "-c", script, NULL};
	struct err err = {0};
	spec.path = "/bin/sh";
	spec.argv = (char *const *)argv;
	struct child *child = child_start(scene.set, &spec, on_end, NULL, &err);
	if (!child)
		fail_msg("%s", err.text);
	return child;
}

static struct child *start(const char *script)
{
	return start_with((struct child_spec){0}, script);
}

static void run_until_ended(unsigned count)
{
	uint64_t deadline = unit_now_ns() + DEADLINE_S * CLOCK_NS_PER_S;
	while (scene.ended < count && unit_now_ns() < deadline)
		assert_int_equal(loop_pass(scene.loop, CLOCK_NS_PER_S, NULL), 0);
	assert_int_equal(scene.ended, count);
}

/* All that comes out of a descriptor until its last writer is gone. */
static void read_all(int fd, char *out, size_t size)
{
	size_t length = 0;
	ssize_t count;
	while ((count = read(fd, out + length, size - 1 - length)) > 0)
		length += (size_t)count;
	assert_true(count == 0 || length == size - 1);
	out[length] = '\0';
}

/* Runs a script whose standard output is a pipe, and returns what it wrote. */
static const char *output_of(struct child_spec spec, const char *script)
{
	static char out[4096];
	struct child_fd fds[CHILD_FDS_MAX];
	int ends[2];
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	assert_true(spec.fd_count < CHILD_FDS_MAX);
	for (size_t i = 0; i < spec.fd_count; i++)
		fds[i] = spec.fds[i];
	fds[spec.fd_count] = (struct child_fd){ends[1], STDOUT_FILENO};
	spec.fds = fds;
	spec.fd_count++;
	unsigned before = scene.ended;
	struct child *child = start_with(spec, script);
	(void)close(ends[1]);
	read_all(ends[0], out, sizeof(out));
	(void)close(ends[0]);
	run_until_ended(before + 1);
	child_free(child);
	return out;
}

static void test_exit_codes(void **state)
{
	char text[CHILD_END_TEXT];
	struct child *child = start("exit 7");
	assert_true(child_pid(child) > 0);
	assert_int_equal(child_set_count(scene.set), 1);
	run_until_ended(1);
	assert_false(scene.end.was_killed);
	assert_int_equal(scene.end.value, 7);
	assert_int_equal(scene.pid, child_pid(child));
	assert_string_equal(child_end_to_string(&scene.end, text), "exit code 7");
	child_free(child);
	assert_int_equal(child_set_count(scene.set), 0);

	child = start("kill -TERM $$");
	run_until_ended(2);
	assert_true(scene.end.was_killed);
	assert_int_equal(scene.end.value, SIGTERM);
	assert_string_equal(child_end_to_string(&scene.end, text), "killed by SIGTERM");
	child_free(child);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no zombie is left */
	assert_int_equal(errno, ECHILD);
}

static void test_many_at_once_freed_in_their_callback(void **state)
{
	scene.free_at_end = true;
	for (int i = 0; i < MANY; i++)
		(void)start("exit 0");
	run_until_ended(MANY);
	assert_int_equal(child_set_count(scene.set), 0);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

static void test_released_children_live_on_and_are_reaped(void **state)
{
	int ends[2], hold[2];
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	assert_int_equal(pipe2(hold, O_CLOEXEC), 0);
	struct child_fd fds[] = {{hold[0], 0}, {ends[1], 1}};
	struct child *child =
	    start_with((struct child_spec){.fds = fds, .fd_count = 2}, "read line; echo lived");
	pid_t pid = child_pid(child);
	child_free(child);
	(void)close(ends[1]);
	assert_int_equal(kill(pid, 0), 0);
	assert_int_equal(write(hold[1], "\n", 1), 1);
	char out[16];
	read_all(ends[0], out, sizeof(out));
	assert_string_equal(out, "lived\n");
	uint64_t deadline = unit_now_ns() + DEADLINE_S * CLOCK_NS_PER_S;
	while (child_set_count(scene.set) > 0 && unit_now_ns() < deadline)
		assert_int_equal(loop_pass(scene.loop, CLOCK_NS_PER_S, NULL), 0);
	assert_int_equal(child_set_count(scene.set), 0);
	assert_int_equal(scene.ended, 0); /* nobody was told */
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	(void)close(ends[0]);
	(void)close(hold[0]);
	(void)close(hold[1]);
}

static void only_what_was_mapped_is_open(int program_fd)
{
	int leak = open("/dev/null", O_RDONLY); /* without O_CLOEXEC, on purpose */
	int a = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
	int b = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
	assert_true(leak >= 0 && a >= 0 && b >= 0);
	assert_true(dup2(leak, 300) == 300); /* and one beyond all that are mapped */
	/* a and b change places, and also get the numbers that their next copies would have */
	int next = dup(leak) + 2; /* output_of() opens a pipe */
	(void)close(next - 2);
	struct child_fd fds[] = {{a, next + 1}, {b, next}, {a, b}, {b, a}, {a, 40}};
	const char *out =
	    output_of((struct child_spec){.program_fd = program_fd, .fds = fds, .fd_count = 5},
		      "for f in /proc/$$/fd/*; do "
		      "echo ${f##*/}=$(readlink $f | sed 's/.*[/]//;s/:.*//'); done");
	char expected[512];
	int low = a < b ? a : b, high = a < b ? b : a;
	(void)snprintf(expected, sizeof(expected),
		       "0=null\n1=pipe\n2=null\n%d=%s\n%d=%s\n40=stat\n%d=statm\n%d=stat\n", low,
		       low == a ? "statm" : "stat", high, high == a ? "statm" : "stat", next,
		       next + 1);
	/* the shell sorts names as text, so compare line by line */
	for (char *line = strtok(expected, "\n"); line; line = strtok(NULL, "\n")) {
		if (!strstr(out, line))
			fail_msg("'%s' is not in: %s", line, out);
	}
	char name[16];
	(void)snprintf(name, sizeof(name), "\n%d=", leak);
	assert_null(strstr(out, name));
	unsigned lines = 0;
	for (const char *at = out; *at; at++)
		lines += *at == '\n';
	assert_in_range(lines, 8, 9); /* a shell may hold one for itself */
	(void)close(300);
	(void)close(leak);
	(void)close(a);
	(void)close(b);
}

static void test_only_what_was_mapped_is_open(void **state)
{
	only_what_was_mapped_is_open(0);
}

/* The number that the program has with us is one that the child sees another file under. */
static void test_a_program_that_is_an_open_file(void **state)
{
	const char *says = "echo 'echo is executed, not the shell of the path'";
	int shell = open("/bin/sh", O_PATH | O_CLOEXEC),
	    echo = open("/bin/echo", O_PATH | O_CLOEXEC);
	assert_true(shell >= 0 && echo >= 0);
	only_what_was_mapped_is_open(shell);
	struct child_fd fds[] = {{STDERR_FILENO, echo}};
	const char *out =
	    output_of((struct child_spec){.program_fd = echo, .fds = fds, .fd_count = 1}, says);
	assert_non_null(strstr(out, "-c echo 'echo is executed"));
	(void)close(shell);
	(void)close(echo);
}

static void test_streams_are_shared(void **state)
{
	int before = dup(STDERR_FILENO), ends[2];
	char said[64];
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	assert_int_equal(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
	struct child *child = start_with((struct child_spec){.shares_streams = true},
					 "echo shared >&2; echo again >&2");
	(void)dup2(before, STDERR_FILENO);
	(void)close(ends[1]);
	read_all(ends[0], said, sizeof(said));
	(void)close(ends[0]);
	run_until_ended(1);
	child_free(child);
	assert_string_equal(said, "shared\nagain\n");

	/* One that we do not have is /dev/null there. */
	const char *argv[] = {"sh", "-c", "test \"$(readlink /proc/$$/fd/2)\" = /dev/null", NULL};
	const struct child_spec spec = {
	    .path = "/bin/sh", .argv = (char *const *)argv, .shares_streams = true};
	pid_t pid = -1;
	int status = -1;
	assert_int_equal(close(STDERR_FILENO), 0);
	int rc = child_spawn(&spec, &pid, NULL);
	(void)dup2(before, STDERR_FILENO);
	(void)close(before);
	assert_int_equal(rc, 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* It tells who its parent is once that is not the process between, which leads its session. */
static void test_an_orphan(void **state)
{
	const char *argv[] = {"sh", "-c",
			      "until read -r _ _ _ parent _ session _ </proc/$$/stat &&"
			      " [ $parent != $session ]; do :; done; echo $$ $parent $session",
			      NULL};
	int ends[2];
	char said[64];
	struct err err = {0};
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	const struct child_fd fds[] = {{ends[1], STDOUT_FILENO}};
	struct child_spec spec = {
	    .path = "/bin/sh", .argv = (char *const *)argv, .fds = fds, .fd_count = 1};
	assert_int_equal(child_spawn_orphan(&spec, &err), 0);
	(void)close(ends[1]);
	read_all(ends[0], said, sizeof(said));
	(void)close(ends[0]);
	long pid = 0, parent = 0, session = 0;
	char *rest = said;
	pid = strtol(rest, &rest, 10);
	parent = strtol(rest, &rest, 10);
	session = strtol(rest, &rest, 10);
	assert_true(pid > 0 && session > 0 && pid != session);
	assert_true(parent != getpid() && session != getsid(0));
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* it is not ours */

	spec = (struct child_spec){.path = "/none/such", .argv = spec.argv};
	assert_int_equal(child_spawn_orphan(&spec, &err), -ENOENT);
	assert_non_null(strstr(err.text, "'/none/such'"));
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

static void test_session_environment_directory(void **state)
{
	const char *environment[] = {"ONE=1", "PATH=/usr/bin:/bin", NULL};
	struct child_spec spec = {
	    .environment = (char *const *)environment,
	    .directory = "/proc",
	    .new_session = true,
	};
	const char *out = output_of(spec, "pwd; echo $ONE $HOME; "
					  "read pid comm st ppid pgrp sid rest < /proc/$$/stat; "
					  "[ $$ = $sid ] && [ $$ = $pgrp ] && echo leads");
	assert_string_equal(out, "/proc\n1\nleads\n");
	out = output_of((struct child_spec){0},
			"read pid comm st ppid pgrp sid rest < /proc/$$/stat; "
			"[ $$ = $sid ] || echo follows");
	assert_string_equal(out, "follows\n");
}

static void test_signals_start_at_their_defaults(void **state)
{
	sigset_t block, before;
	sigemptyset(&block);
	sigaddset(&block, SIGTERM);
	sigprocmask(SIG_BLOCK, &block, &before);
	void (*handler)(int) = signal(SIGPIPE, SIG_IGN);
	const char *out =
	    output_of((struct child_spec){0}, "grep -E '^Sig(Blk|Ign)' /proc/self/status");
	signal(SIGPIPE, handler);
	sigprocmask(SIG_SETMASK, &before, NULL);
	/* glibc's posix_spawn leaves its own two (32 and 33, which nobody else can use) ignored */
	bool own = strcmp(out, "SigBlk:\t0000000000000000\nSigIgn:\t0000000180000000\n") == 0;
	bool none = strcmp(out, "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n") == 0;
	if (!own && !none)
		fail_msg("%s", out);
}

/*
 * This program again, as a child that says "ready", does not end on SIGTERM but says "no", and has
 * a child of its own. Both end when their standard input does, so nothing outlives a failed test.
 */
static int be_stubborn(void)
{
	sigset_t term;
	char byte;
	(void)sigemptyset(&term);
	(void)sigaddset(&term, SIGTERM);
	(void)sigprocmask(SIG_BLOCK, &term, NULL);
	int fd = signalfd(-1, &term, SFD_CLOEXEC);
	if (fork() == 0) {
		while (read(STDIN_FILENO, &byte, 1) > 0)
			;
		_exit(0);
	}
	(void)!write(STDOUT_FILENO, "ready\n", 6);
	for (;;) {
		struct signalfd_siginfo info;
		struct pollfd fds[] = {{.fd = fd, .events = POLLIN}, {.fd = 0, .events = POLLIN}};
		(void)poll(fds, 2, -1);
		if (fds[1].revents)
			return 0;
		if (read(fd, &info, sizeof(info)) == sizeof(info))
			(void)!write(STDOUT_FILENO, "no\n", 3);
	}
}

static void test_stop_with_a_deadline(void **state)
{
	int out[2], in[2];
	const char *argv[] = {"child_test", "stubborn", NULL};
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	assert_int_equal(pipe2(in, O_CLOEXEC), 0);
	struct child_fd fds[] = {{in[0], 0}, {out[1], 1}};
	struct child_spec spec = {
	    .path = "/proc/self/exe",
	    .argv = (char *const *)argv,
	    .fds = fds,
	    .fd_count = 2,
	    .new_session = true,
	};
	struct child *child = child_start(scene.set, &spec, on_end, NULL, NULL);
	assert_non_null(child);
	(void)close(out[1]);
	(void)close(in[0]);
	char text[8] = {0};
	assert_int_equal(read(out[0], text, 6), 6);
	assert_int_equal(child_stop(child, SIGTERM, 5 * CLOCK_NS_PER_S), 0);
	assert_int_equal(read(out[0], text, 3), 3); /* SIGTERM came, and did not help */
	assert_int_equal(loop_advance(scene.loop, 4 * CLOCK_NS_PER_S, NULL), 0);
	assert_int_equal(scene.ended, 0);
	assert_int_equal(loop_advance(scene.loop, CLOCK_NS_PER_S, NULL), 0);
	run_until_ended(1);
	assert_true(scene.end.was_killed);
	assert_int_equal(scene.end.value, SIGKILL);
	/* the whole session is gone: nobody holds the pipe any more */
	assert_int_equal(read(out[0], text, 1), 0);
	(void)close(out[0]);
	(void)close(in[1]);
	child_free(child);
	assert_int_equal(loop_advance(scene.loop, 100 * CLOCK_NS_PER_S, NULL), 0);
}

static void test_stop_that_is_heard(void **state)
{
	struct child *child = start("exec sleep 60");
	assert_int_equal(child_stop(child, SIGTERM, CLOCK_NS_PER_S), 0);
	run_until_ended(1);
	assert_int_equal(scene.end.value, SIGTERM);
	assert_int_equal(loop_advance(scene.loop, 2 * CLOCK_NS_PER_S, NULL), 0);
	child_free(child);
}

static int open_count(void)
{
	int count = 0;
	for (int fd = 0; fd < 1024; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

static void expect_failure(struct child_spec spec, int code, const char *says)
{
	const char *argv[] = {"x", NULL};
	struct err err = {0};
	int before = open_count();
	spec.argv = (char *const *)argv;
	assert_null(child_start(scene.set, &spec, on_end, NULL, &err));
	assert_int_equal(err.code, code);
	assert_non_null(strstr(err.text, says));
	assert_int_equal(open_count(), before);
	assert_int_equal(child_set_count(scene.set), 0);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

static void test_what_cannot_be_started(void **state)
{
	struct child_fd twice[] = {{0, 3}, {1, 3}};
	struct child_fd far[] = {{0, CHILD_TARGET_MAX + 1}};
	struct child_fd closed[] = {{999, 3}};
	expect_failure((struct child_spec){.path = "/none/such"}, -ENOENT, "'/none/such'");
	expect_failure((struct child_spec){.path = "no-such-program-here"}, -ENOENT, "no-such");
	expect_failure((struct child_spec){.path = "/dev/null"}, -EACCES, "'/dev/null'");
	expect_failure((struct child_spec){.path = "/bin/sh", .directory = "/none"}, -ENOENT,
		       "'/none'");
	expect_failure((struct child_spec){.path = "/bin/sh", .fds = twice, .fd_count = 2}, -EINVAL,
		       "descriptor 3");
	expect_failure((struct child_spec){.path = "/bin/sh", .fds = far, .fd_count = 1}, -EINVAL,
		       "descriptor 256");
	expect_failure((struct child_spec){.path = "/bin/sh", .fds = closed, .fd_count = 1}, -EBADF,
		       "descriptor 999");
	expect_failure((struct child_spec){.path = "/bin/sh", .fd_count = CHILD_FDS_MAX + 1},
		       -EINVAL, "33 descriptors");
}

static void test_ignored_sigchld_of_our_parent(void **state)
{
	teardown(state);
	signal(SIGCHLD, SIG_IGN);
	assert_int_equal(start_scene(CHILD_WATCH_AUTO), 0);
	struct child *child = start("exit 5");
	run_until_ended(1);
	assert_false(scene.end.is_lost);
	assert_int_equal(scene.end.value, 5);
	child_free(child);
	teardown(state);
	signal(SIGCHLD, SIG_DFL); /* libevent has put back what it found */
	assert_int_equal(start_scene(CHILD_WATCH_AUTO), 0);
}

static void test_reaped_by_somebody_else(void **state)
{
	struct child *child = start("exit 5");
	int status;
	assert_int_equal(waitpid(child_pid(child), &status, 0), child_pid(child));
	run_until_ended(1);
	assert_true(scene.end.is_lost);
	char text[CHILD_END_TEXT];
	assert_string_equal(child_end_to_string(&scene.end, text), "ended, how is not known");
	child_free(child);
}

static void test_set_freed_with_children(void **state)
{
	struct child *child = start("exec sleep 60");
	pid_t pid = child_pid(child);
	scene.set = child_set_free(scene.set);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void on_end_free_set(struct child *child, const struct child_end *end, void *context)
{
	scene.ended++;
	scene.set = child_set_free(scene.set);
}

static void test_set_freed_in_a_callback(void **state)
{
	const char *argv[] = {"true", NULL};
	struct child_spec spec = {.path = "true", .argv = (char *const *)argv};
	pid_t pids[3];
	for (int i = 0; i < 3; i++) {
		struct child *child = child_start(scene.set, &spec, on_end_free_set, NULL, NULL);
		assert_non_null(child);
		pids[i] = child_pid(child);
	}
	for (int i = 0; i < 3; i++) { /* all have ended before the loop looks */
		siginfo_t info;
		assert_int_equal(waitid(P_PID, (id_t)pids[i], &info, WEXITED | WNOWAIT), 0);
	}
	run_until_ended(1);
	assert_int_equal(loop_pass(scene.loop, 0, NULL), 0);
	assert_int_equal(scene.ended, 1); /* nobody is told of the others */
	while (waitpid(-1, NULL, 0) > 0)
		;
}

static void test_without_pidfd_open(void **state)
{
	struct child *child = start("exit 3");
	run_until_ended(1);
	assert_int_equal(scene.end.value, 3);
	assert_int_equal(pidfd_calls, 1);
	child_free(child);
}

static int use_child(void *context)
{
	const char *argv[] = {"true", NULL};
	struct child_spec spec = {.path = "true", .argv = (char *const *)argv};
	struct err err = {0};
	unsigned before = scene.ended;
	struct child *child = child_start(scene.set, &spec, on_end, NULL, &err);
	if (child)
		run_until_ended(before + 1);
	child = child_free(child);
	assert_int_equal(loop_pass(scene.loop, 0, NULL), 0);
	return child_set_count(scene.set) == 0 ? err.code : -EBUSY;
}

/* Where watching the pidfd fails for want of memory, SIGCHLD tells. */
static void test_out_of_memory(void **state)
{
	struct child *first = start("exit 0"); /* what the loop allocates once */
	run_until_ended(1);
	child_free(first);
	assert_true(failmalloc_each(use_child, NULL) >= 2);
}

int main(int argc, char **argv)
{
	if (argc > 1)
		return be_stubborn();
	/* A directory of $PATH that we may not search turns ENOENT into EACCES, as in execvp(3). */
	(void)setenv("PATH", "/usr/bin:/bin", 1);
#define BOTH(name)                                                                                 \
	{"pidfd " #name, name, setup_pidfd, teardown, NULL},                                       \
	{                                                                                          \
		"sigchld " #name, name, setup_signal, teardown, NULL                               \
	}
	const struct CMUnitTest tests[] = {
	    BOTH(test_exit_codes),
	    BOTH(test_many_at_once_freed_in_their_callback),
	    BOTH(test_released_children_live_on_and_are_reaped),
	    BOTH(test_only_what_was_mapped_is_open),
	    BOTH(test_a_program_that_is_an_open_file),
	    BOTH(test_streams_are_shared),
	    BOTH(test_an_orphan),
	    BOTH(test_session_environment_directory),
	    BOTH(test_signals_start_at_their_defaults),
	    BOTH(test_stop_with_a_deadline),
	    BOTH(test_stop_that_is_heard),
	    BOTH(test_what_cannot_be_started),
	    BOTH(test_ignored_sigchld_of_our_parent),
	    BOTH(test_reaped_by_somebody_else),
	    BOTH(test_set_freed_with_children),
	    BOTH(test_set_freed_in_a_callback),
	    cmocka_unit_test_setup_teardown(test_without_pidfd_open, setup_no_pidfd, teardown),
	    cmocka_unit_test_setup_teardown(test_out_of_memory, setup_pidfd, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
