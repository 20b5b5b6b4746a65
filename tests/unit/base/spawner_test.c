/* SPDX-License-Identifier: Apache-2.0 */
/* The helper is this program, and does what SPAWNER_TEST says. One that forks is tested with the
 * program's side, in tests/unit/libexec/supervise/spawned_test.c. */
#include "base/spawner.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/child.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/loop.h"
#include "unit/failmalloc.h"
#include "unit/unit.h"

static struct loop *loop;
static struct child_set *set;
static struct spawner *spawner;
static char program[4096];

/* --- the helper ------------------------------------------------------------------------------- */

static int helper(const char *how)
{
	struct spawner_request request;
	if (strcmp(how, "die") == 0)
		return 1;
	while (recv(SPAWNER_FD, &request, sizeof(request), 0) > 0) {
		const struct spawner_answer refusal = {.pid = -EAGAIN};
		if (strcmp(how, "end") == 0)
			return 1;
		if (strcmp(how, "refuse") == 0)
			(void)send(SPAWNER_FD, &refusal, sizeof(refusal), MSG_NOSIGNAL);
	}
	return 0;
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

/* Starts the program, which then exits with 7. */
static int begin(pid_t *out_pid, struct err *err)
{
	char *const argv[] = {program, (char *)"--exit", NULL};
	const struct child_spec spec = {.path = program, .argv = argv, .new_session = true};
	return spawner_spawn(spawner, &spec, out_pid, err);
}

static void expect_executed(void)
{
	pid_t pid = -1;
	int status = 0;
	assert_int_equal(begin(&pid, NULL), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

static void wait_for_end_of_helper(void)
{
	uint64_t deadline = unit_now_ns() + 20 * CLOCK_NS_PER_S;
	while (child_set_count(set) > 0 && unit_now_ns() < deadline)
		assert_int_equal(loop_pass(loop, CLOCK_NS_PER_S, NULL), 0);
	assert_int_equal(child_set_count(set), 0);
}

static void test_none_for_a_single_start(void **state)
{
	assert_int_equal(setenv("SPAWNER_TEST", "refuse", 1), 0);
	expect_executed();
	assert_int_equal(spawner_pid(spawner), -1);
	assert_int_equal(loop_advance(loop, SPAWNER_BURST_NS, NULL), 0);
	expect_executed();
	assert_int_equal(spawner_pid(spawner), -1);
	expect_executed(); /* right behind the last */
	assert_true(spawner_pid(spawner) > 0);
}

static void test_what_is_refused_is_executed(void **state)
{
	assert_int_equal(setenv("SPAWNER_TEST", "refuse", 1), 0);
	expect_executed();
	expect_executed();
	assert_true(spawner_pid(spawner) > 0);
	expect_executed();
	assert_int_equal(spawner_pid(spawner), -1); /* and not asked again at once */
	expect_executed();
	assert_int_equal(spawner_pid(spawner), -1);
	wait_for_end_of_helper();
}

static void test_a_helper_that_dies_at_once(void **state)
{
	assert_int_equal(setenv("SPAWNER_TEST", "die", 1), 0);
	expect_executed();
	expect_executed();
	assert_true(spawner_pid(spawner) > 0);
	wait_for_end_of_helper();
	assert_int_equal(spawner_pid(spawner), -1);
	expect_executed();
	expect_executed();
	assert_int_equal(spawner_pid(spawner), -1); /* not tried again for a while */
}

static void expect_unknown(const char *how)
{
	struct err err = {0};
	pid_t pid = -1;
	assert_int_equal(setenv("SPAWNER_TEST", how, 1), 0);
	expect_executed();
	expect_executed();
	assert_true(spawner_pid(spawner) > 0);
	assert_int_equal(begin(&pid, &err), -EINPROGRESS);
	assert_non_null(strstr(err.text, program));
	assert_int_equal(spawner_pid(spawner), -1);
	wait_for_end_of_helper(); /* it is killed */
	expect_executed();
}

static void test_one_that_ends_when_asked(void **state)
{
	expect_unknown("end");
}

static void test_one_that_is_silent(void **state)
{
	expect_unknown("silent");
}

static void test_idle(void **state)
{
	assert_int_equal(setenv("SPAWNER_TEST", "refuse", 1), 0);
	expect_executed();
	expect_executed();
	assert_true(spawner_pid(spawner) > 0);
	assert_int_equal(loop_advance(loop, SPAWNER_IDLE_NS, NULL), 0);
	assert_int_equal(spawner_pid(spawner), -1);
	wait_for_end_of_helper();
}

static void test_what_it_cannot_do(void **state)
{
	char *const argv[] = {program, (char *)"--exit", NULL};
	char *environment[] = {NULL};
	const struct child_spec spec = {
	    .path = program, .argv = argv, .environment = environment, .new_session = true};
	pid_t pid = -1;
	int status = 0;
	assert_int_equal(setenv("SPAWNER_TEST", "silent", 1), 0);
	expect_executed();
	expect_executed();
	assert_int_equal(spawner_spawn(spawner, &spec, &pid, NULL), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

static int make(void *context)
{
	struct err err = {0};
	struct spawner *other = spawner_new(set, loop, program, &err);
	(void)spawner_free(other);
	assert_int_equal(loop_pass(loop, 0, NULL), 0); /* what was deferred */
	return other ? 0 : err.code;
}

static void test_out_of_memory(void **state)
{
	assert_true(failmalloc_each(make, NULL) >= 2);
	assert_null(spawner_free(NULL));
}

int main(int argc, char **argv)
{
	const char *how = getenv("SPAWNER_TEST");
	if (argc > 1 && strcmp(argv[1], "--spawner") == 0)
		return helper(how ? how : "");
	if (argc > 1 && strcmp(argv[1], "--exit") == 0)
		return 7;

	if (readlink("/proc/self/exe", program, sizeof(program) - 1) < 0)
		return 1;

	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_none_for_a_single_start, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_what_is_refused_is_executed, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_a_helper_that_dies_at_once, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_one_that_ends_when_asked, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_one_that_is_silent, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_idle, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_what_it_cannot_do, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_out_of_memory, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
