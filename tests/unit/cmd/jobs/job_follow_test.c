/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/jobs/job_follow.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/loop.h"
#include "unit/cmd/fake_agent.h"
#include "unit/unit.h"

struct fixture {
	char *directory;
	struct fake_agent fake;
	struct agent_call agent;
	struct agent_call_options how;
	struct job_follow *follow;
	char out_path[160], err_path[160];
	int out, err; /* files that the outputs are shown in */
	unsigned changes, aways;
	bool changed, away, back, unread, done, failed;
};

static void told(enum job_follow_event event, void *context)
{
	struct fixture *fixture = context;
	assert_false(fixture->done || fixture->failed); /* nothing comes after those */
	fixture->changes += event == JOB_FOLLOW_CHANGED;
	fixture->aways += event == JOB_FOLLOW_AWAY;
	bool *const flags[] = {
	    [JOB_FOLLOW_CHANGED] = &fixture->changed, [JOB_FOLLOW_AWAY] = &fixture->away,
	    [JOB_FOLLOW_BACK] = &fixture->back,	      [JOB_FOLLOW_UNREAD] = &fixture->unread,
	    [JOB_FOLLOW_DONE] = &fixture->done,	      [JOB_FOLLOW_FAILED] = &fixture->failed};
	*flags[event] = true;
}

static int open_new(const char *directory, const char *name)
{
	int fd = open(unit_path(directory, name), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	return fd;
}

static int set_up(void **state)
{
	struct fixture *fixture = calloc(1, sizeof(*fixture));
	assert_non_null(fixture);
	fixture->directory = unit_tmp_new();
	fixture->agent.loop = loop_new(LOOP_REAL, NULL);
	assert_non_null(fixture->agent.loop);
	fake_agent_start(&fixture->fake, fixture->agent.loop, fixture->directory);
	fixture->how.socket = fixture->fake.path;
	assert_int_equal(agent_call_reopen(&fixture->agent, &fixture->how, NULL), 0);
	fixture->out = open_new(fixture->directory, "shown-out");
	fixture->err = open_new(fixture->directory, "shown-err");
	(void)snprintf(fixture->out_path, sizeof(fixture->out_path), "%s/out.1",
		       fixture->directory);
	(void)snprintf(fixture->err_path, sizeof(fixture->err_path), "%s/err.1",
		       fixture->directory);
	*state = fixture;
	return 0;
}

static void start(struct fixture *fixture)
{
	const struct job_follow_options options = {.agent = &fixture->agent,
						   .how = fixture->how,
						   .id = 17,
						   .stdout_fd = fixture->out,
						   .stderr_fd = fixture->err,
						   .told = told,
						   .context = fixture};
	fixture->follow = job_follow_new(&options, NULL);
	assert_non_null(fixture->follow);
	fake_agent_until(&fixture->fake, &fixture->changed);
	fixture->changed = false;
}

static int tear_down(void **state)
{
	struct fixture *fixture = *state;
	fixture->follow = job_follow_free(fixture->follow);
	fixture->agent.client = wire_client_free(fixture->agent.client);
	fake_agent_stop(&fixture->fake);
	agent_call_close(&fixture->agent);
	(void)close(fixture->out);
	(void)close(fixture->err);
	unit_tmp_free(fixture->directory);
	free(fixture);
	return 0;
}

/* The job runs now, with these files. */
static void runs(struct fixture *fixture)
{
	fixture->fake.job.state = SLUICE__V1__JOB_STATE__RUNNING;
	fixture->fake.attempt.number = 1;
	fixture->fake.attempt.stdout_path = fixture->out_path;
	fixture->fake.attempt.stderr_path = fixture->err_path;
	fixture->fake.job.attempt = &fixture->fake.attempt;
}

static void tell(struct fixture *fixture)
{
	fixture->changed = false;
	fake_agent_tell(&fixture->fake);
	fake_agent_until(&fixture->fake, &fixture->changed);
}

static void ends(struct fixture *fixture)
{
	fixture->fake.job.state = SLUICE__V1__JOB_STATE__SUCCEEDED;
	fake_agent_tell(&fixture->fake);
	fake_agent_until(&fixture->fake, &fixture->done);
}

static void append(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	(void)close(fd);
}

static void expect_shown(int fd, const char *text)
{
	char got[256] = "";
	ssize_t length = pread(fd, got, sizeof(got) - 1, 0);
	assert_true(length >= 0);
	assert_string_equal(got, text);
}

static void test_to_the_end(void **state)
{
	struct fixture *fixture = *state;
	start(fixture);
	assert_int_equal(job_follow_job(fixture->follow)->id, 17);
	append(fixture->out_path, "one ");
	append(fixture->err_path, "oops");
	runs(fixture);
	tell(fixture);
	append(fixture->out_path, "two");
	ends(fixture);
	expect_shown(fixture->out, "one two");
	expect_shown(fixture->err, "oops");
	assert_int_equal(fixture->fake.logs, 0);
	assert_int_equal(fixture->changes, 3);
}

/* Attempt 2 has files of its own. */
static void runs_again(struct fixture *fixture, char out[200], char err[200])
{
	(void)snprintf(out, 200, "%s/out.2", fixture->directory); /* these fit */
	(void)snprintf(err, 200, "%s/err.2", fixture->directory);
	append(out, "second");
	append(err, "");
	runs(fixture);
	fixture->fake.attempt.number = 2;
	fixture->fake.attempt.stdout_path = out;
	fixture->fake.attempt.stderr_path = err;
}

/* What is written between two words of the agent is shown all the same. */
static void test_a_job_that_is_tried_again(void **state)
{
	struct fixture *fixture = *state;
	char out[200], err[200];
	start(fixture);
	append(fixture->out_path, "first, ");
	append(fixture->err_path, "oops");
	runs(fixture);
	tell(fixture);
	fixture->fake.job.state = SLUICE__V1__JOB_STATE__PENDING;
	tell(fixture);
	runs_again(fixture, out, err);
	tell(fixture);
	ends(fixture);
	expect_shown(fixture->out, "first, second");
	expect_shown(fixture->err, "oops");
}

/* Nobody has seen it wait between the two. */
static void test_the_next_attempt_at_once(void **state)
{
	struct fixture *fixture = *state;
	char out[200], err[200];
	start(fixture);
	append(fixture->out_path, "first, ");
	append(fixture->err_path, "");
	runs(fixture);
	tell(fixture);
	append(fixture->out_path, "and its end, ");
	runs_again(fixture, out, err);
	tell(fixture);
	ends(fixture);
	expect_shown(fixture->out, "first, and its end, second");
}

static void test_a_job_that_never_runs(void **state)
{
	struct fixture *fixture = *state;
	start(fixture);
	fixture->fake.job.state = SLUICE__V1__JOB_STATE__CANCELLED;
	fake_agent_tell(&fixture->fake);
	fake_agent_until(&fixture->fake, &fixture->done);
	expect_shown(fixture->out, "");
}

static void test_files_that_cannot_be_seen(void **state)
{
	struct fixture *fixture = *state;
	start(fixture);
	fixture->fake.log = "by the agent";
	fixture->fake.piece = 5;
	runs(fixture);
	tell(fixture);
	ends(fixture);
	assert_int_equal(fixture->fake.logs, 2);
	expect_shown(fixture->out, "by the agent");
	expect_shown(fixture->err, "by the agent");
}

static void test_the_agent_goes_and_comes(void **state)
{
	struct fixture *fixture = *state;
	start(fixture);
	append(fixture->out_path, "one ");
	append(fixture->err_path, "");
	runs(fixture);
	tell(fixture);
	fake_agent_stop(&fixture->fake);
	fake_agent_until(&fixture->fake, &fixture->away);
	append(fixture->out_path, "two ");
	char *shown = (char[]){"one two "};
	for (char got[16] = ""; strcmp(got, shown) != 0;) { /* without an agent */
		assert_int_equal(loop_pass(fixture->agent.loop, 5000000, NULL), 0);
		assert_true(pread(fixture->out, got, sizeof(got) - 1, 0) >= 0);
	}
	fake_agent_again(&fixture->fake);
	fake_agent_until(&fixture->fake, &fixture->back);
	append(fixture->out_path, "three");
	ends(fixture);
	expect_shown(fixture->out, "one two three");
	assert_int_equal(fixture->aways, 1);
}

/* An output that only the agent can read: the next one is asked for the rest. */
static void test_the_rest_of_an_output(void **state)
{
	struct fixture *fixture = *state;
	struct fake_agent *fake = &fixture->fake;
	start(fixture);
	fake->log = "one ";
	fake->piece = 3;
	fake->log_stays = true;
	runs(fixture);
	tell(fixture);
	for (char got[16] = ""; strcmp(got, "one ") != 0;) {
		assert_int_equal(loop_pass(fixture->agent.loop, 5000000, NULL), 0);
		assert_true(pread(fixture->out, got, sizeof(got) - 1, 0) >= 0);
	}
	fake_agent_stop(fake);
	fake_agent_until(fake, &fixture->away);
	fake->log = "one two";
	fake->log_stays = false;
	fake_agent_again(fake);
	fake_agent_until(fake, &fixture->back);
	ends(fixture);
	assert_int_equal(fake->last_offset, 4);
	expect_shown(fixture->out, "one two");
}

static void test_a_job_that_is_forgotten(void **state)
{
	struct fixture *fixture = *state;
	start(fixture);
	fake_agent_stop(&fixture->fake);
	fixture->fake.refuse = WIRE_NOT_FOUND;
	fake_agent_again(&fixture->fake);
	fake_agent_until(&fixture->fake, &fixture->failed);
	assert_int_equal(job_follow_error(fixture->follow)->code, -ENOENT);
	assert_string_equal(job_follow_error(fixture->follow)->text, "not today");
}

static void until_count(struct fixture *fixture, const unsigned *count, unsigned wanted)
{
	uint64_t until_ns = unit_now_ns() + UINT64_C(10000000000);
	while (*count < wanted) {
		assert_true(unit_now_ns() < until_ns);
		assert_int_equal(loop_pass(fixture->agent.loop, 5000000, NULL), 0);
	}
}

static void test_signals_and_cancels(void **state)
{
	struct fixture *fixture = *state;
	struct fake_agent *fake = &fixture->fake;
	start(fixture);
	job_follow_signal(fixture->follow, SIGINT); /* it waits: there is nobody to signal */
	until_count(fixture, &fake->cancels, 1);
	assert_int_equal(fake->signals, 0);
	runs(fixture);
	tell(fixture);
	job_follow_signal(fixture->follow, SIGINT);
	until_count(fixture, &fake->signals, 1);
	assert_int_equal(fake->last_signal, SIGINT);
	fake->refuse_signal = WIRE_FAILED_PRECONDITION; /* the command has ended */
	tell(fixture);
	job_follow_signal(fixture->follow, SIGINT);
	until_count(fixture, &fake->cancels, 2);
	assert_int_equal(fake->last_grace_ns, UINT64_MAX);
	job_follow_cancel(fixture->follow, true, 5);
	until_count(fixture, &fake->cancels, 3);
	assert_int_equal(fake->last_grace_ns, 5);
}

/* What was asked while nobody was there is asked of the next one. */
static void test_a_cancel_for_the_next_agent(void **state)
{
	struct fixture *fixture = *state;
	start(fixture);
	fake_agent_stop(&fixture->fake);
	fake_agent_until(&fixture->fake, &fixture->away);
	job_follow_cancel(fixture->follow, false, 0);
	assert_int_equal(fixture->fake.cancels, 0);
	fake_agent_again(&fixture->fake);
	until_count(fixture, &fixture->fake.cancels, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_to_the_end, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(test_a_job_that_is_tried_again, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(test_the_next_attempt_at_once, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(test_a_job_that_never_runs, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(test_files_that_cannot_be_seen, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(test_the_agent_goes_and_comes, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(test_the_rest_of_an_output, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(test_a_job_that_is_forgotten, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(test_signals_and_cancels, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(test_a_cancel_for_the_next_agent, set_up, tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
