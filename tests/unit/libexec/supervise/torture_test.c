/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The supervisor killed at each of its steps: what the files then say is true, and a next start of
 * the same attempt runs the command if, and only if, nobody can have run it before.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "unit/libexec/supervise/rig.h"
#include "unit/unit.h"

enum { STEPS_MIN = 20, STEPS_MAX = 200, TRIES_MAX = 1000 };

static unsigned lines_of(const char *path)
{
	struct buf text _cleanup_buf_;
	buf_init(&text, 65536);
	if (file_read(path, &text, NULL) < 0)
		return 0;
	unsigned lines = 0;
	for (const char *at = buf_text(&text); (at = strchr(at, '\n')); at++)
		lines++;
	return lines;
}

static struct rig *new_rig(void)
{
	void *state = NULL;
	assert_int_equal(rig_new(&state), 0);
	struct rig *rig = state;
	rig->program = "sluice-supervise-torture";
	rig_grant(rig, 1); /* so that tokens are part of it */
	rig_script(rig, "echo run >> $1/runs; exit 3");
	return rig;
}

static unsigned count_steps(void)
{
	struct rig *rig = new_rig();
	char log[4096];
	(void)snprintf(log, sizeof(log), "%s/log", rig->tmp);
	assert_int_equal(setenv("SLUICE_CRASH_LOG", log, 1), 0);
	rig_start(rig);
	assert_int_equal(rig_finish(rig).value, 3);
	assert_int_equal(unsetenv("SLUICE_CRASH_LOG"), 0);
	unsigned steps = lines_of(log);
	void *state = rig;
	(void)rig_free(&state);
	return steps;
}

/* As the agent finds it after a crash: what it may conclude, and what a next start then does. */
static void check(struct rig *rig, unsigned step, bool by_kill)
{
	struct jobdir_claim claim;
	struct jobdir_result result;
	const char *runs = unit_path(rig->tmp, "runs");
	int claimed = jobdir_read_claim(rig->job_fd, 1, &claim, NULL);
	int ended = jobdir_read_result(rig->job_fd, 1, &result, NULL);
	unsigned before = lines_of(runs);
	assert_true(before <= 1);
	if (claimed == -ENOENT)
		assert_int_equal(before, 0); /* so it may be started again */
	if (ended == 0)
		assert_true(before == 1 && result.end == JOBDIR_EXITED && result.value == 3);
	else
		assert_int_equal(ended, -ENOENT); /* never half of one */

	/* What dies with the supervisor may hold the tokens a moment longer. */
	int code;
	unsigned tries = 0;
	do {
		rig_start(rig);
		code = rig_wait(rig);
	} while (code == LAUNCH_EXIT_TOKENS_BUSY && ++tries < TRIES_MAX);
	if (claimed == -ENOENT) {
		assert_int_equal(code, LAUNCH_EXIT_DONE);
		assert_int_equal(lines_of(runs), 1);
	} else {
		assert_int_equal(code, LAUNCH_EXIT_CLAIMED);
		assert_int_equal(lines_of(runs), before);
	}
	if (!by_kill)
		fail_msg("step %u was passed without dying", step);
}

static void killed_at_each_step_it_runs_the_command_at_most_once(void **state)
{
	unsigned steps = count_steps();
	print_message("%u steps\n", steps);
	assert_true(steps >= STEPS_MIN && steps <= STEPS_MAX);
	for (unsigned step = 1; step <= steps; step++) {
		struct rig *rig = new_rig();
		char number[16];
		(void)snprintf(number, sizeof(number), "%u", step);
		assert_int_equal(setenv("SLUICE_CRASH_AT", number, 1), 0);
		rig_start(rig);
		int code = rig_wait(rig);
		assert_int_equal(unsetenv("SLUICE_CRASH_AT"), 0);
		check(rig, step, code == -SIGKILL);
		void *rig_state = rig;
		(void)rig_free(&rig_state);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(killed_at_each_step_it_runs_the_command_at_most_once),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
