/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The supervisor and the foreground starter together, with real processes: each test starts a
 * "client" as `sluice run` is one, kills something, and looks at what is left and at the token.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/parse.h"
#include "doors/queue/foreground.h"
#include "doors/queue/tree.h"
#include "unit/unit.h"

#define UNIT	    "GPU-51ce51ce-0000-4000-8000-000000000001"
#define DEADLINE_NS UINT64_C(20000000000)

static char *directory;
static struct token_place place;

static int setup(void **state)
{
	directory = unit_tmp_new();
	unit_write(unit_path(directory, "state"), "x");
	/* Whatever a test leaves behind becomes our child, so that it can be seen and ended. */
	assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
	return token_place_open(unit_path(directory, "run"), unit_path(directory, "state"), &place,
				NULL);
}

static int teardown(void **state)
{
	size_t count;
	(void)tree_kill(getpid(), 0, 0, &count, NULL);
	while (waitpid(-1, NULL, __WALL) > 0)
		;
	token_place_close(&place);
	directory = unit_tmp_free(directory);
	return 0;
}

/* What `sluice run` does, in a process of its own: takes a token, runs `script`, and exits with
 * its code. $D is the test's directory. */
static pid_t client_start(const char *script, uint64_t grace_ns)
{
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid)
		return pid;

	char variable[4200];
	(void)snprintf(variable, sizeof(variable), "D=%s", directory);
	char *argv[] = {(char[]){"/bin/sh"}, (char[]){"-c"}, strdup(script), NULL};
	char *envp[] = {variable, (char[]){"PATH=/usr/bin:/bin"}, NULL};
	struct token token;
	struct supervise_job job = {.argv = argv, .envp = envp, .grace_ns = grace_ns};
	note_set_name(&job.note, "test");
	if (strcmp(script, "missing") == 0)
		argv[0] = strdup("/nonexistent/command");
	if (strcmp(script, "directory") == 0)
		argv[0] = strdup("/tmp");
	if (token_take(&place, UNIT, 0, &job.note, &token, NULL) < 0)
		_exit(99);
	job.tokens = &token;
	job.token_count = 1;
	struct foreground_result result;
	if (foreground_run(&job, NULL, NULL, &result, NULL) < 0)
		_exit(98);
	_exit(foreground_exit_code(&result));
}

static int client_end(pid_t pid)
{
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void pause_a_moment(void)
{
	(void)poll(NULL, 0, 5); /* between two looks at a condition */
}

/* The number that the job writes into $D/name (by rename, so it is whole). */
static pid_t number_of(const char *name)
{
	for (uint64_t end = unit_now_ns() + DEADLINE_NS; unit_now_ns() < end;) {
		char text[32] = "";
		int fd = open(unit_path(directory, name), O_RDONLY | O_CLOEXEC);
		ssize_t length = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;
		if (fd >= 0)
			close(fd);
		uint64_t pid;
		if (length > 1 && text[length - 1] == '\n' &&
		    parse_u64_span(text, (size_t)length - 1, 1, INT32_MAX, &pid) == 0)
			return (pid_t)pid;
		pause_a_moment();
	}
	fail_msg("the job never wrote %s", name);
	return 0;
}

static bool lives(pid_t pid)
{
	struct tree_process process;
	return tree_read(pid, &process, NULL) == 0 && process.state != 'Z';
}

static void wait_until_dead(pid_t pid)
{
	for (uint64_t end = unit_now_ns() + DEADLINE_NS; lives(pid); pause_a_moment())
		if (unit_now_ns() > end)
			fail_msg("process %d lives on", (int)pid);
}

static bool token_is_free(void)
{
	struct token token;
	struct note note = {0};
	if (token_take(&place, UNIT, 0, &note, &token, NULL) < 0)
		return false;
	token_release(&token);
	return true;
}

static void wait_until_free(void)
{
	for (uint64_t end = unit_now_ns() + DEADLINE_NS; !token_is_free(); pause_a_moment())
		if (unit_now_ns() > end)
			fail_msg("the token is never freed");
}

static pid_t parent_of(pid_t pid)
{
	struct tree_process process;
	assert_int_equal(tree_read(pid, &process, NULL), 0);
	return process.parent;
}

/* A job whose command and whose daemonised grandchild (own session, parent gone) both sleep. */
#define WITH_DAEMON                                                                                \
	"( ( setsid sh -c 'echo $$ >$D/t; mv $D/t $D/daemon; exec sleep 1000' & ) & ); "           \
	"echo $$ >$D/u; mv $D/u $D/command; "

static void exit_codes_are_the_commands(void **state)
{
	assert_int_equal(client_end(client_start("exit 0", 0)), 0);
	assert_int_equal(client_end(client_start("exit 7", 0)), 7);
	assert_int_equal(client_end(client_start("kill -9 $$", 0)), 137);
	assert_int_equal(client_end(client_start("kill -TERM $$", 0)), 143);
	assert_int_equal(client_end(client_start("missing", 0)), 127);
	assert_int_equal(client_end(client_start("directory", 0)), 126);
	assert_true(token_is_free());
}

static void leftovers_get_their_grace_and_are_killed(void **state)
{
	pid_t client = client_start(WITH_DAEMON "while ! test -e $D/daemon; do :; done; exit 3",
				    UINT64_C(300000000));
	pid_t daemon_ = number_of("daemon");
	assert_int_equal(client_end(client), 3);
	assert_false(lives(daemon_));
	assert_true(token_is_free());
}

static void leftovers_that_end_in_time_are_waited_for(void **state)
{
	pid_t client = client_start("(while ! test -e $D/go; do sleep 0.01; done; "
				    "echo 1 >$D/wrote) & echo $! >$D/t; mv $D/t $D/left; exit 4",
				    DEADLINE_NS);
	(void)number_of("left");
	assert_false(token_is_free());
	unit_write(unit_path(directory, "go"), "");
	assert_int_equal(client_end(client), 4);
	assert_int_equal(access(unit_path(directory, "wrote"), F_OK), 0);
}

static void a_killed_client_ends_the_job_and_then_frees(void **state)
{
	pid_t client =
	    client_start("trap 'echo 1 >$D/t; mv $D/t $D/term; sleep 0.1; exit' TERM; " WITH_DAEMON
			 "while :; do sleep 0.01; done",
			 UINT64_C(500000000));
	pid_t command = number_of("command"), daemon_ = number_of("daemon");
	assert_false(token_is_free());
	assert_int_equal(kill(client, SIGKILL), 0);
	(void)number_of("term"); /* it was asked before it was killed */
	wait_until_free();
	assert_false(lives(command));
	assert_false(lives(daemon_));
}

static void a_killed_client_does_not_free_what_ignores_sigterm(void **state)
{
	pid_t client = client_start(
	    "trap '' TERM; echo $$ >$D/t; mv $D/t $D/command; while :; do sleep 0.01; done",
	    UINT64_C(400000000));
	pid_t command = number_of("command");
	assert_int_equal(kill(client, SIGKILL), 0);
	while (lives(command)) { /* never free while it lives */
		if (token_is_free())
			assert_false(lives(command));
		pause_a_moment();
	}
	wait_until_free();
}

static void a_killed_supervisor_takes_all_of_the_job_with_it(void **state)
{
	pid_t client = client_start(WITH_DAEMON "exec sleep 1000", UINT64_C(1000000000));
	pid_t command = number_of("command"), daemon_ = number_of("daemon");
	assert_int_equal(kill(parent_of(command), SIGKILL), 0);
	assert_int_equal(client_end(client), 137);
	assert_false(lives(command));
	assert_false(lives(daemon_));
	assert_true(token_is_free());
}

static void what_survives_both_keeps_the_token(void **state)
{
	pid_t client = client_start(WITH_DAEMON "exec sleep 1000", UINT64_C(1000000000));
	pid_t command = number_of("command"), daemon_ = number_of("daemon");
	pid_t supervisor = parent_of(command);
	assert_int_equal(kill(client, SIGSTOP), 0); /* so that neither can act for the other */
	assert_int_equal(kill(supervisor, SIGSTOP), 0);
	assert_int_equal(kill(client, SIGKILL), 0);
	assert_int_equal(kill(supervisor, SIGKILL), 0);
	wait_until_dead(command); /* by the kernel */
	wait_until_dead(supervisor);
	wait_until_dead(client);
	assert_true(lives(daemon_));
	assert_false(token_is_free());
	assert_int_equal(kill(daemon_, SIGKILL), 0);
	wait_until_free();
}

static void a_stopped_supervisor_is_woken(void **state)
{
	pid_t client = client_start("echo $$ >$D/t; mv $D/t $D/command; "
				    "while ! test -e $D/go; do sleep 0.01; done; exit 5",
				    0);
	pid_t supervisor = parent_of(number_of("command"));
	assert_int_equal(kill(supervisor, SIGSTOP), 0);
	unit_write(unit_path(directory, "go"), "");
	assert_int_equal(client_end(client), 5);
}

static void a_stopped_job_keeps_its_token_and_can_be_ended(void **state)
{
	pid_t client = client_start(WITH_DAEMON "exec sleep 1000", UINT64_C(200000000));
	pid_t command = number_of("command");
	(void)number_of("daemon");
	assert_int_equal(kill(command, SIGSTOP), 0);
	assert_false(token_is_free());
	assert_int_equal(kill(client, SIGKILL), 0);
	wait_until_free();
	assert_false(lives(command));
}

static void signals_are_passed_on_once(void **state)
{
	pid_t client =
	    client_start("n=0; trap 'n=$((n+1))' USR1; trap 'exit $((n+40))' TERM; "
			 "echo $$ >$D/t; mv $D/t $D/command; while :; do sleep 0.01; done",
			 0);
	(void)number_of("command");
	assert_int_equal(kill(client, SIGUSR1), 0);
	assert_int_equal(kill(client, SIGTERM), 0);
	/* The two may be taken in either order by the shell; never is USR1 counted twice. */
	int code = client_end(client);
	assert_true(code == 41 || code == 40);
}

static void a_second_interrupt_kills(void **state)
{
	pid_t client = client_start("trap 'echo 1 >$D/t; mv $D/t $D/int' INT; " WITH_DAEMON
				    "while :; do sleep 0.01; done",
				    UINT64_C(10000000000));
	(void)number_of("command");
	pid_t daemon_ = number_of("daemon");
	assert_int_equal(kill(client, SIGINT), 0);
	(void)number_of("int");
	assert_int_equal(kill(client, SIGINT), 0);
	assert_int_equal(client_end(client), 137);
	assert_false(lives(daemon_));
	assert_true(token_is_free());
}

static void a_fork_bomb_is_ended(void **state)
{
	/* Each process starts another and goes on doing so; the command ends at once. */
	unit_write(unit_path(directory, "bomb"),
		   "#!/bin/sh\ntrap '' TERM HUP\nn=0\n"
		   "while [ $n -lt 40 ]; do n=$((n+1)); sh $D/leaf & done\nwait\n");
	unit_write(unit_path(directory, "leaf"),
		   "trap '' TERM HUP\nwhile :; do setsid sleep 1000 & sleep 0.2; done\n");
	pid_t client = client_start("sh $D/bomb & echo $! >$D/t; mv $D/t $D/bombpid; exit 6",
				    UINT64_C(200000000));
	(void)number_of("bombpid");
	assert_int_equal(client_end(client), 6);
	struct tree_process *left = NULL;
	size_t count = 99;
	assert_int_equal(tree_list(getpid(), 0, &left, &count, NULL), 0);
	assert_int_equal(count, 0);
	free(left);
	assert_true(token_is_free());
}

/* The supervisor ends with something of ours unread: the kernel then says "connection reset" before
 * it gives us what the supervisor had sent, and the command's exit code must not be lost. */
static void a_last_word_is_heard(void **state)
{
	int ends[2];
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
	struct supervise supervise = {.control_fd = ends[0]};
	supervise_send(&supervise, SUPERVISE_AWAKE, 0);
	struct supervise_message last = {.kind = SUPERVISE_ENDED, .value = 7 << 8};
	assert_int_equal(send(ends[1], &last, sizeof(last), 0), sizeof(last));
	assert_int_equal(close(ends[1]), 0);

	struct supervise_message heard = {0};
	for (int i = 0; i < 3 && supervise_receive(&supervise, &heard) == 0; i++)
		;
	assert_int_equal(heard.kind, SUPERVISE_ENDED);
	assert_int_equal(heard.value, 7 << 8);
	assert_int_equal(supervise_receive(&supervise, &heard), 1);
	assert_int_equal(heard.kind, SUPERVISE_LOST);
	supervise_done(&supervise);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
	    TEST(exit_codes_are_the_commands),
	    TEST(leftovers_get_their_grace_and_are_killed),
	    TEST(leftovers_that_end_in_time_are_waited_for),
	    TEST(a_killed_client_ends_the_job_and_then_frees),
	    TEST(a_killed_client_does_not_free_what_ignores_sigterm),
	    TEST(a_killed_supervisor_takes_all_of_the_job_with_it),
	    TEST(what_survives_both_keeps_the_token),
	    TEST(a_stopped_supervisor_is_woken),
	    TEST(a_stopped_job_keeps_its_token_and_can_be_ended),
	    TEST(signals_are_passed_on_once),
	    TEST(a_second_interrupt_kills),
	    TEST(a_fork_bomb_is_ended),
	    TEST(a_last_word_is_heard),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
