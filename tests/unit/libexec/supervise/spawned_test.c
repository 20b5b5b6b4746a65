/* SPDX-License-Identifier: Apache-2.0 */
/* The helper is this program, as is what it forks: that says what it is to the descriptor that it
 * was given. Both sides are tested, with src/base/spawner.h. */
#include "libexec/supervise/spawned.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/child.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/file.h"
#include "base/loop.h"
#include "base/spawner.h"
#include "unit/unit.h"

enum { TOLD_MAX = 4096, GIVEN_AT = 4, LEFT_AT = 5 };

static struct loop *loop;
static struct child_set *set;
static struct spawner *spawner;
static char program[2048];

/* --- what is started -------------------------------------------------------------------------- */

/* "parent session fds arguments", then it waits until its input ends. */
static int tell(void)
{
	char path[64], text[256] = "", fds[256] = "", byte;
	int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
	ssize_t length = read(fd, text, sizeof(text) - 1);
	(void)close(fd);

	for (int i = 0; i < 256; i++) {
		(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", i);
		if (access(path, F_OK) == 0)
			(void)snprintf(fds + strlen(fds), sizeof(fds) - strlen(fds), "%d,", i);
	}

	for (ssize_t i = 0; i < length; i++)
		text[i] = text[i] ? text[i] : '|';
	const char *arguments = strchr(text, '|');
	(void)dprintf(GIVEN_AT, "%d %d %s %s", (int)getppid(), getsid(0) == getpid(), fds,
		      arguments ? arguments : "");
	(void)!read(GIVEN_AT, &byte, 1);
	return 9;
}

/* --- the tests -------------------------------------------------------------------------------- */

static int setup(void **state)
{
	loop = loop_new(LOOP_FAKE, NULL);
	set = loop ? child_set_new(loop, CHILD_WATCH_AUTO, NULL) : NULL;
	spawner = set ? spawner_new(set, loop, program, NULL) : NULL;
	return spawner ? 0 : -1;
}

static int teardown(void **state)
{
	spawner = spawner_free(spawner);
	set = child_set_free(set);
	loop = loop_free(loop);
	return 0;
}

/* Starts one; what it says, and its end of the connection, which it waits for. */
static pid_t begin(const char *number, char told[TOLD_MAX], int *out_fd)
{
	int ends[2];
	pid_t pid = -1;
	struct err err = {0};
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
	char *const argv[] = {program, (char *)"--job", (char *)number, NULL};
	const struct child_fd fds[] = {{ends[1], GIVEN_AT}, {ends[1], LEFT_AT}};
	const struct child_spec spec = {
	    .path = program, .argv = argv, .fds = fds, .fd_count = 2, .new_session = true};
	if (spawner_spawn(spawner, &spec, &pid, &err) < 0)
		fail_msg("%s", err.text);
	(void)close(ends[1]);
	ssize_t length = read(ends[0], told, TOLD_MAX - 1);
	assert_true(length > 0);
	told[length] = '\0';
	*out_fd = ends[0];
	return pid;
}

static void finish(pid_t pid, int fd)
{
	int status = 0;
	(void)close(fd);
	assert_int_equal(waitpid(pid, &status, 0), pid); /* our own child */
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 9);
}

/* The first lines of its memory: the same only in processes that were not executed. */
static void layout(pid_t pid, char out[TOLD_MAX])
{
	char path[64];
	(void)snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t length = read(fd, out, 200);
	(void)close(fd);
	assert_true(length > 0);
	out[length] = '\0';
	out[strcspn(out, "-")] = '\0';
}

static bool is_forked(pid_t pid)
{
	char ours[TOLD_MAX], its[TOLD_MAX];
	layout(spawner_pid(spawner), ours);
	layout(pid, its);
	return strcmp(ours, its) == 0;
}

static void test_forked_as_executed(void **state)
{
	char executed[TOLD_MAX], forked[TOLD_MAX], wanted[TOLD_MAX];
	int fds[3];
	pid_t pids[3];
	pids[0] = begin("1", executed, &fds[0]);
	pids[1] = begin("1", executed, &fds[1]);
	assert_true(spawner_pid(spawner) > 0);
	pids[2] = begin("1", forked, &fds[2]);
	assert_true(is_forked(pids[2]));
	(void)snprintf(wanted, sizeof(wanted), "%d 1 0,1,2,4,5, |--job|1|", (int)getpid());
	assert_string_equal(executed, wanted);
	/* Who may not tell the kernel where the arguments end (CAP_SYS_RESOURCE) has NULs behind.
	 */
	size_t length = strlen(wanted);
	assert_int_equal(strncmp(forked, wanted, length), 0);
	assert_int_equal(strspn(forked + length, "|"), strlen(forked) - length);
	for (int i = 0; i < 3; i++)
		finish(pids[i], fds[i]);
}

static void test_it_outlives_its_helper(void **state)
{
	char told[TOLD_MAX];
	int fds[4];
	pid_t pids[4];
	for (int i = 0; i < 3; i++)
		pids[i] = begin("2", told, &fds[i]);
	assert_true(is_forked(pids[2]));
	pid_t helper = spawner_pid(spawner);
	assert_int_equal(kill(helper, SIGKILL), 0);
	/* The start finds it dead, or is the last one that it makes. */
	uint64_t deadline = unit_now_ns() + 20 * CLOCK_NS_PER_S;
	while (spawner_pid(spawner) == helper && unit_now_ns() < deadline)
		assert_int_equal(loop_pass(loop, CLOCK_NS_PER_S, NULL), 0);
	pids[3] = begin("2", told, &fds[3]);
	for (int i = 0; i < 4; i++)
		finish(pids[i], fds[i]);
}

static void test_another_program(void **state)
{
	char told[TOLD_MAX], copy[2 * TOLD_MAX], was[sizeof(program)];
	int fds[4];
	pid_t pids[4];
	memcpy(was, program, sizeof(was));
	(void)snprintf(copy, sizeof(copy), "cp '%s' '%s/p'", was, unit_top);
	assert_int_equal(system(copy), 0); /* NOLINT: of this test alone */
	(void)snprintf(program, sizeof(program), "%s/p", unit_top);
	for (int i = 0; i < 3; i++)
		pids[i] = begin("3", told, &fds[i]);
	assert_true(is_forked(pids[2]));
	pid_t helper = spawner_pid(spawner);
	(void)snprintf(copy, sizeof(copy), "cp '%s' '%s/q' && mv '%s/q' '%s/p'", was, unit_top,
		       unit_top, unit_top);
	assert_int_equal(system(copy), 0); /* NOLINT */
	pids[3] = begin("3", told, &fds[3]);
	assert_int_not_equal(spawner_pid(spawner), helper);
	for (int i = 0; i < 4; i++)
		finish(pids[i], fds[i]);
	memcpy(program, was, sizeof(was));
}

/* Asks a helper of its own for what cannot be meant. */
static void test_bad_requests(void **state)
{
	struct spawner_request requests[3] = {{.fd_count = 1}, {.fd_count = 9}, {.fd_count = 0}};
	memset(requests[2].arguments, 'x', sizeof(requests[2].arguments));
	int ends[2];
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
	char room[SPAWNER_TEXT_MAX];
	memset(room, ' ', sizeof(room) - 1);
	room[sizeof(room) - 1] = '\0';
	char *const argv[] = {program, (char *)"--spawner", room, NULL};
	const struct child_fd fds[] = {{ends[1], SPAWNER_FD}};
	const struct child_spec spec = {.path = program, .argv = argv, .fds = fds, .fd_count = 1};
	pid_t pid;
	int status = 0;
	assert_int_equal(child_spawn(&spec, &pid, NULL), 0);
	(void)close(ends[1]);

	for (int i = 0; i < 3; i++) {
		struct spawner_answer answer = {.pid = 0};
		assert_int_equal(send(ends[0], &requests[i], sizeof(requests[i]), 0),
				 sizeof(requests[i]));
		assert_int_equal(recv(ends[0], &answer, sizeof(answer), 0), sizeof(answer));
		assert_int_equal(answer.pid, -EINVAL);
	}

	(void)close(ends[0]); /* nobody asks any more */
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void test_calls(void **state)
{
	char room[SPAWNER_TEXT_MAX] = "short";
	char *argv[] = {(char *)"x", (char *)"--spawner", room, NULL};
	assert_false(spawned_is_asked(3, argv));
	assert_false(spawned_is_asked(2, argv));
	memset(room, ' ', sizeof(room) - 1);
	assert_true(spawned_is_asked(3, argv));
}

int main(int argc, char **argv)
{
	if (spawned_is_asked(argc, argv))
		return spawned_serve(argv) ? tell() : 0;
	if (argc > 1 && strcmp(argv[1], "--job") == 0)
		return tell();

	if (readlink("/proc/self/exe", program, sizeof(program) - 1) < 0)
		return 1;

	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_forked_as_executed, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_it_outlives_its_helper, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_another_program, setup, teardown),
	    cmocka_unit_test(test_bad_requests),
	    cmocka_unit_test(test_calls),
	};
	return cmocka_run_group_tests(tests, unit_top_setup, unit_top_teardown);
}
