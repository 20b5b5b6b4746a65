/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/web/door_web_process.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/child.h"
#include "base/err.h"
#include "base/loop.h"
#include "unit/unit.h"
#include "web/handed.h"

/* --- what is started is this program -----------------------------------------------------------
 */

/* Says what it was given in the file that stands where the memory would, and waits for the end. */
static int fake_main(int argc, char **argv)
{
	char text[512], byte;
	uint64_t tick = 0;
	struct stat nothing;
	if (read(HANDED_TICK, &tick, sizeof(tick)) < 0 && errno != EAGAIN)
		return 3;
	int length = snprintf(text, sizeof(text), "args");
	for (int i = 1; i < argc; i++)
		length += snprintf(text + length, sizeof(text) - (size_t)length, " %s", argv[i]);
	length += snprintf(text + length, sizeof(text) - (size_t)length,
			   "; secret %s; state %s; more %s\n", getenv("A_SECRET") ? "yes" : "no",
			   getenv("SLUICE_STATE_DIR") ? "yes" : "no",
			   fstat(HANDED_LIFE + 1, &nothing) == 0 ? "yes" : "no");
	if (write(HANDED_VIEW, text, (size_t)length) != length)
		return 4;
	while (read(HANDED_LIFE, &byte, 1) < 0 && errno == EINTR)
		;
	return 0;
}

/* --- the tests ---------------------------------------------------------------------------------
 */

static struct loop *loop;
static struct child_set *children;
static struct web_process *process;
static int prepared, started, refuse;
static const char *said;

static int prepare(int out_fds[2], void *context, struct err *err)
{
	prepared++;
	if (refuse)
		return err_set(err, -EADDRINUSE, "taken");
	out_fds[0] = open("/dev/null", O_RDWR | O_CLOEXEC);
	out_fds[1] = open(said, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	assert_true(out_fds[0] >= 0 && out_fds[1] >= 0);
	return 0;
}

static void on_started(void *context)
{
	started++;
}

static int setup(void **state)
{
	int rc = unit_top_setup(state);
	static char path[4096], program[4096];
	(void)snprintf(path, sizeof(path), "%s", unit_path(unit_top, "said"));
	said = path;
	ssize_t length = readlink("/proc/self/exe", program, sizeof(program) - 1);
	assert_true(length > 0);
	program[length] = '\0';
	prepared = started = refuse = 0;
	loop = loop_new(LOOP_REAL, NULL);
	children = child_set_new(loop, CHILD_WATCH_AUTO, NULL);
	const struct web_process_options options = {.loop = loop,
						    .children = children,
						    .program = program,
						    .passwd = unit_path(unit_top, "passwd"),
						    .prepare = prepare,
						    .started = on_started};
	assert_int_equal(setenv("A_SECRET", "s", 1), 0);
	assert_int_equal(setenv("SLUICE_STATE_DIR", unit_top, 1), 0);
	assert_int_equal(web_process_new(&options, &process, NULL), 0);
	return rc;
}

static int teardown(void **state)
{
	process = web_process_free(process);
	children = child_set_free(children);
	loop = loop_free(loop);
	return unit_top_teardown(state);
}

static void until(bool (*is_so)(void))
{
	uint64_t end = unit_now_ns() + UINT64_C(20000000000);
	while (!is_so()) {
		assert_true(unit_now_ns() < end);
		assert_int_equal(loop_pass(loop, 10000000, NULL), 0);
	}
}

static char text[512];

static bool has_said(void)
{
	FILE *file = fopen(said, "re");
	size_t length = file ? fread(text, 1, sizeof(text) - 1, file) : 0;
	text[length] = '\0';
	if (file)
		(void)fclose(file);
	return length > 0 && text[length - 1] == '\n';
}

static bool is_gone(void)
{
	return web_process_pid(process) < 0;
}

static pid_t first;

static bool is_another(void)
{
	return web_process_pid(process) > 0 && web_process_pid(process) != first;
}

static void test_what_it_is_given(void **state)
{
	unit_write(unit_path(unit_top, "passwd"),
		   "root:x:0:0::/:/bin/sh\nsluice:x:0:7::/:/bin/sh\nsluice:x:123:456::/:/bin/sh\n");
	web_process_start(process);
	until(has_said);
	assert_int_equal(started, 1);
	assert_string_equal(web_process_problem(process), "");
	/* Nobody with that name and the number of root. */
	assert_non_null(strstr(text, geteuid() == 0 ? "args --uid 123 --gid 456;" : "args;"));
	assert_non_null(strstr(text, "secret no; state yes; more no"));
	web_process_tick(process);
	web_process_stop(process);
	until(is_gone);
	web_process_tick(process); /* nobody is there */
	assert_int_equal(web_process_restarts(process), 0);
}

static void test_without_an_account(void **state)
{
	web_process_start(process);
	until(has_said);
	if (geteuid() == 0)
		assert_non_null(strstr(text, "args --uid 65534 --gid 65534;"));
	else
		print_message("skipped: only root becomes somebody else\n");
}

static void test_it_comes_back(void **state)
{
	web_process_start(process);
	first = web_process_pid(process);
	assert_true(first > 0);
	assert_int_equal(kill(first, SIGKILL), 0);
	until(is_gone);
	assert_non_null(strstr(web_process_problem(process), "killed by SIGKILL"));
	until(is_another);
	assert_int_equal(web_process_restarts(process), 1);
	/* Wanted, so no restart: another socket. */
	first = web_process_pid(process);
	web_process_start(process);
	until(is_another);
	assert_int_equal(web_process_restarts(process), 1);
	assert_string_equal(web_process_problem(process), "");
}

static bool has_tried(void)
{
	return prepared >= 3;
}

static void test_what_cannot_be_started(void **state)
{
	refuse = 1;
	web_process_start(process);
	assert_string_equal(web_process_problem(process), "taken");
	until(has_tried);
	assert_int_equal(started, 0);
	refuse = 0;
	first = -1;
	until(is_another);
	assert_int_equal(web_process_restarts(process), 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_what_it_is_given, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_without_an_account, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_it_comes_back, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_what_cannot_be_started, setup, teardown),
	};
	if (strcmp(argv[0], "sluice-web") == 0)
		return fake_main(argc, argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
