/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "job/token.h"
#include "libexec/supervise/onend.h"
#include "unit/libexec/supervise/rig.h"
#include "unit/unit.h"

static void it_is_said_as_the_queue_says_it(void **state)
{
	static const struct {
		struct jobdir_result result;
		bool was_cancelled;
		const char *state, *reason;
	} rows[] = {
	    {{.end = JOBDIR_EXITED}, false, "Succeeded", ""},
	    {{.end = JOBDIR_EXITED, .value = 3}, false, "Failed", "ExitCode"},
	    {{.end = JOBDIR_EXITED, .value = 125, .text = "a: image not known"},
	     false,
	     "Failed",
	     "ContainerError"},
	    {{.end = JOBDIR_SIGNALLED, .value = 9}, false, "Failed", "Signal"},
	    {{.end = JOBDIR_SIGNALLED, .value = 15}, true, "Cancelled", "User"},
	    {{.end = JOBDIR_LAUNCH_ERROR}, false, "Failed", "LaunchError"},
	    {{.end = JOBDIR_CANCELLED}, false, "Cancelled", "User"},
	    {{.end = JOBDIR_DEADLINE}, false, "Failed", "DeadlineExceeded"},
	    {{.end = JOBDIR_WORKER}, false, "Failed", "WorkerFailed"},
	    {{.end = JOBDIR_IDLE}, false, "Failed", "IdleTimeout"},
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		assert_string_equal(onend_state(&rows[i].result, rows[i].was_cancelled),
				    rows[i].state);
		assert_string_equal(onend_reason(&rows[i].result, rows[i].was_cancelled),
				    rows[i].reason);
	}
}

static void set(struct rig *rig, const char *format)
{
	(void)snprintf(rig->launch.spec.on_end, sizeof(rig->launch.spec.on_end), format, rig->tmp,
		       rig->tmp);
}

static void it_runs_at_the_end_and_changes_nothing(void **state)
{
	struct rig *rig = *state;
	rig_grant(rig, 1);
	set(rig, "echo $SLUICE_STATE $SLUICE_REASON $SLUICE_EXIT_CODE $SLUICE_JOB_ID "
		 "$SLUICE_JOB_NAME $SLUICE_ATTEMPT gpus:$CUDA_VISIBLE_DEVICES > %s/told; exit 9");
	rig_run(rig, "test ! -e $1/told && exit 5");
	struct jobdir_result result = rig_finish(rig);
	assert_int_equal(result.end, JOBDIR_EXITED);
	assert_int_equal(result.value, 5);
	assert_int_equal(result.killed_leftovers, 0);
	assert_string_equal(rig_read(rig, "told"), "Failed ExitCode 5 1 rig 1 gpus:\n");
}

static void it_runs_for_one_that_was_killed_and_holds_the_gpus(void **state)
{
	struct rig *rig = *state;
	struct token token = TOKEN_NONE;
	rig_grant(rig, 1);
	rig->launch.spec.grace_ns = 1;
	set(rig, "echo $SLUICE_STATE > %s/told; until test -e %s/go; do sleep 0.01; done");
	rig_run(rig, "trap '' TERM; while :; do sleep 1000; done");
	(void)rig_expect(rig, CONTROL_STARTED);
	assert_int_equal(jobdir_request_cancel(rig->job_fd, NULL), 0);
	rig_send(rig->control_fd, CONTROL_CANCEL, 0, 0);
	assert_string_equal(rig_read(rig, "told"), "Cancelled\n");
	assert_int_equal(rig_take(rig, 0, &token), -EBUSY);
	unit_write(unit_path(rig->tmp, "go"), "");
	assert_int_equal(rig_finish(rig).value, SIGKILL);
}

static void it_runs_for_one_that_never_ran(void **state)
{
	struct rig *rig = *state;
	set(rig, "echo $SLUICE_STATE $SLUICE_REASON $SLUICE_EXIT_CODE > %s/told");
	(void)snprintf(rig->launch.spec.directory, sizeof(rig->launch.spec.directory), "/");
	rig_script(rig, "true");
	rig->launch.spec.argv[0][1] = 'x'; /* /xin/sh */
	rig_start(rig);
	(void)rig_connect(rig);
	assert_int_equal(rig_finish(rig).end, JOBDIR_LAUNCH_ERROR);
	assert_string_equal(rig_read(rig, "told"), "Failed LaunchError 127\n");
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, rig_new, rig_free)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(it_is_said_as_the_queue_says_it),
	    CASE(it_runs_at_the_end_and_changes_nothing),
	    CASE(it_runs_for_one_that_was_killed_and_holds_the_gpus),
	    CASE(it_runs_for_one_that_never_ran),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
