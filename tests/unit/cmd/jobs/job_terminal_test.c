/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/loop.h"
#include "cmd/jobs/job_terminal.h"
#include "job/attach.h"
#include "unit/unit.h"

/* What job_terminal_end() shows; our stdout meanwhile is a pipe. */
static void shown_at_the_end(struct job_terminal *terminal, const Sluice__V1__Job *job,
			     char out[64])
{
	int ends[2], before = dup(STDOUT_FILENO);
	assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
	assert_true(before >= 0 && dup2(ends[1], STDOUT_FILENO) == STDOUT_FILENO);
	job_terminal_end(terminal, job);
	assert_int_equal(dup2(before, STDOUT_FILENO), STDOUT_FILENO);
	ssize_t length = read(ends[0], out, 63);
	out[length < 0 ? 0 : length] = '\0';
	(void)close(before);
	(void)close(ends[0]);
	(void)close(ends[1]);
}

static void one_that_was_faster_is_shown_once(void **state)
{
	char path[4096], out[64];
	(void)snprintf(path, sizeof(path), "%s", unit_path(unit_top, "out.1"));
	unit_write(path, "quick\r\n");
	Sluice__V1__Job job = SLUICE__V1__JOB__INIT;
	Sluice__V1__Attempt attempt = SLUICE__V1__ATTEMPT__INIT;
	struct job_terminal terminal = {0};
	attempt.stdout_path = path;
	attempt.started_unix_ns = 1;
	job.attempt = &attempt;
	job.state = SLUICE__V1__JOB_STATE__RUNNING;
	job_terminal_look(&terminal, &job); /* its terminal is gone already */
	assert_null(terminal.link);
	assert_false(job_terminal_is_over(&terminal, &job));
	job.state = SLUICE__V1__JOB_STATE__SUCCEEDED;
	shown_at_the_end(&terminal, &job, out);
	assert_string_equal(out, "quick\r\n");
	terminal.was_linked = true; /* somebody sat there and has seen it */
	shown_at_the_end(&terminal, &job, out);
	assert_string_equal(out, "");
	terminal.was_linked = false;
	shown_at_the_end(&terminal, NULL, out); /* it has not ended */
	assert_string_equal(out, "");
}

/* Its supervisor had no time to let him in before it ended. */
static void one_that_let_nobody_in_is_shown(void **state)
{
	char path[4096], out[64];
	(void)snprintf(path, sizeof(path), "%s", unit_path(unit_top, "out.1"));
	unit_write(path, "quick\r\n");
	int directory = open(unit_top, O_PATH | O_DIRECTORY | O_CLOEXEC);
	int listener = attach_listen(directory, geteuid(), getegid(), NULL);
	assert_true(directory >= 0 && listener >= 0);
	Sluice__V1__Job job = SLUICE__V1__JOB__INIT;
	Sluice__V1__Attempt attempt = SLUICE__V1__ATTEMPT__INIT;
	attempt.stdout_path = path;
	attempt.started_unix_ns = attempt.number = 1;
	job.attempt = &attempt;
	job.state = SLUICE__V1__JOB_STATE__RUNNING;
	struct job_terminal terminal = {.loop = loop_new(LOOP_REAL, NULL)};
	assert_non_null(terminal.loop);
	job_terminal_look(&terminal, &job);
	assert_non_null(terminal.link);
	assert_int_equal(unlinkat(directory, "terminal", 0), 0);
	(void)close(listener);
	(void)close(directory);
	while (!terminal.has_closed)
		assert_int_equal(loop_pass(terminal.loop, UINT64_C(1000000000), NULL), 0);
	assert_false(job_terminal_is_over(&terminal, &job));
	job.state = SLUICE__V1__JOB_STATE__SUCCEEDED;
	shown_at_the_end(&terminal, &job, out);
	assert_string_equal(out, "quick\r\n");
	/* The next attempt has a terminal of its own. */
	attempt.number = 2;
	job_terminal_look(&terminal, &job);
	assert_false(terminal.has_closed);
	loop_free(terminal.loop);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(one_that_let_nobody_in_is_shown, unit_top_setup,
					    unit_top_teardown),
	    cmocka_unit_test_setup_teardown(one_that_was_faster_is_shown_once, unit_top_setup,
					    unit_top_teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
