/* SPDX-License-Identifier: Apache-2.0 */
/* What ends a job and when it has ended, through the real program. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "job/token.h"
#include "job/tree.h"
#include "unit/libexec/supervise/rig.h"
#include "unit/unit.h"

/* --- what is left ----------------------------------------------------------------------------- */

static void leftovers_get_their_time_and_are_killed(void **state)
{
	struct rig *rig = *state;
	rig->launch.spec.grace_ns = 100000000;
	rig_run(rig, "sleep 1000 & setsid -f sh -c 'echo $$ > $0/daemon; exec sleep 1000' $1\n"
		     "while ! test -s $1/daemon; do :; done; exit 5");
	assert_int_equal(rig_expect(rig, CONTROL_LEFTOVERS).value, 2);
	pid_t pid = rig_read_pid(rig, "daemon");
	(void)rig_expect(rig, CONTROL_RESULT);
	assert_false(rig_is_alive(pid));
	struct jobdir_result result = rig_finish(rig);
	assert_int_equal(result.end, JOBDIR_EXITED);
	assert_int_equal(result.value, 5);
	assert_int_equal(result.killed_leftovers, 2);
}

static void a_leftover_of_another_user_is_killed(void **state)
{
	struct rig *rig = *state;
	if (geteuid() != 0) {
		print_message("skipped: needs root\n");
		skip();
	}
	rig->launch.spec.grace_ns = 100000000;
	rig_run(rig, "setsid -f setpriv --reuid=65534 --clear-groups sleep 1000");
	struct jobdir_result result = rig_finish(rig);
	assert_int_equal(result.value, 0);
	assert_int_equal(result.killed_leftovers, 1);
}

static void one_that_flees_from_session_to_session_is_killed(void **state)
{
	struct rig *rig = *state;
	char path[4096];
	(void)snprintf(path, sizeof(path), "%s", unit_path(rig->tmp, "flee"));
	unit_write(path, "trap '' TERM; echo $$ > $1/fled; setsid -f sh $0 $1\n");
	rig_run(rig, "sh $1/flee $1; while :; do sleep 1000; done");
	(void)rig_read(rig, "fled");
	rig_send(rig->control_fd, CONTROL_CANCEL, 0, 0);
	assert_int_equal(rig_finish(rig).value, SIGKILL);
	/* Nobody writes there any more. */
	assert_int_equal(unlink(unit_path(rig->tmp, "fled")), 0);
	assert_int_not_equal(access(unit_path(rig->tmp, "fled"), F_OK), 0);
}

static void leftovers_that_end_by_themselves_are_not_killed(void **state)
{
	struct rig *rig = *state;
	rig_grant(rig, 1);
	rig_run(rig,
		"setsid -f sh -c 'echo here > $0/here; until test -e $0/go; do sleep 0.01; done;"
		" echo done' $1; until test -s $1/here; do sleep 0.01; done");
	(void)rig_expect(rig, CONTROL_LEFTOVERS);
	/* As long as it lives the GPU is its own. */
	struct token token = TOKEN_NONE;
	assert_int_equal(rig_take(rig, 0, &token), -EBUSY);
	struct jobdir_result result;
	assert_int_equal(jobdir_read_result(rig->job_fd, 1, &result, NULL), -ENOENT);
	unit_write(unit_path(rig->tmp, "go"), "");
	(void)rig_expect(rig, CONTROL_RESULT);
	/* Whoever hears of the result may take the GPU. */
	assert_int_equal(rig_take(rig, 0, &token), 0);
	token_release(&token);
	result = rig_finish(rig);
	assert_int_equal(result.killed_leftovers, 0);
	assert_string_equal(rig_output(rig), "done\n");
}

/* --- deadline and cancel ---------------------------------------------------------------------- */

static void the_deadline_ends_it(void **state)
{
	struct rig *rig = *state;
	rig->launch.spec.deadline_ns = 100000000;
	rig_run(rig, "sleep 1000");
	struct jobdir_result result = rig_finish(rig);
	assert_int_equal(result.end, JOBDIR_DEADLINE);
	assert_int_equal(result.value, SIGTERM);
	assert_int_equal(result.exit_code, 124);
	assert_false(result.was_cancelled);
}

static void the_deadline_kills_who_does_not_hear(void **state)
{
	struct rig *rig = *state;
	rig->launch.spec.deadline_ns = 100000000;
	rig->launch.spec.grace_ns = 100000000;
	rig_run(rig, "trap '' TERM; while :; do sleep 0.01; done");
	struct jobdir_result result = rig_finish(rig);
	assert_int_equal(result.end, JOBDIR_DEADLINE);
	assert_int_equal(result.value, SIGKILL);
}

static void one_that_ends_before_its_deadline_has_not_hit_it(void **state)
{
	struct rig *rig = *state;
	rig->launch.spec.deadline_ns = UINT64_C(3600000000000);
	rig_run(rig, "exit 2");
	assert_int_equal(rig_finish(rig).end, JOBDIR_EXITED);
}

static void a_cancel_gives_it_time(void **state)
{
	struct rig *rig = *state;
	rig_run(rig, "trap 'echo heard; exit 7' TERM; echo ready > $1/ready; while :; do sleep "
		     "0.01; done");
	(void)rig_read(rig, "ready");
	assert_int_equal(jobdir_request_cancel(rig->job_fd, NULL), 0);
	rig_send(rig->control_fd, CONTROL_CANCEL, 0, CONTROL_GRACE_OWN);
	struct jobdir_result result = rig_finish(rig);
	assert_int_equal(result.end, JOBDIR_EXITED);
	assert_int_equal(result.value, 7);
	assert_true(result.was_cancelled);
	assert_string_equal(rig_output(rig), "heard\n");
}

static void a_cancel_kills_who_does_not_hear(void **state)
{
	struct rig *rig = *state;
	rig_run(rig, "trap '' TERM INT; setsid -f sh -c 'trap \"\" TERM INT; echo $$ > $0/daemon;"
		     "while :; do sleep 0.01; done' $1; while :; do sleep 0.01; done");
	pid_t pid = rig_read_pid(rig, "daemon");
	rig_send(rig->control_fd, CONTROL_CANCEL, SIGINT, 50000000);
	struct jobdir_result result = rig_finish(rig);
	assert_int_equal(result.end, JOBDIR_SIGNALLED);
	assert_int_equal(result.value, SIGKILL);
	assert_false(rig_is_alive(pid));
	/* Nobody has asked for it in the files. */
	assert_false(result.was_cancelled);
}

static void a_cancel_wakes_who_stands_still(void **state)
{
	struct rig *rig = *state;
	rig_run(rig, "trap 'exit 9' TERM; echo $$ > $1/pid; kill -STOP $$; while :; do :; done");
	pid_t pid = rig_read_pid(rig, "pid");
	struct tree_process process = {0};
	for (uint64_t end = unit_now_ns() + UINT64_C(10000000000);
	     process.state != 'T' && unit_now_ns() < end;)
		assert_int_equal(tree_read(pid, &process, NULL), 0);
	assert_int_equal(process.state, 'T');
	rig_send(rig->control_fd, CONTROL_CANCEL, SIGTERM, CONTROL_GRACE_OWN);
	assert_int_equal(rig_finish(rig).value, 9);
}

static void a_cancel_without_grace_kills_at_once(void **state)
{
	struct rig *rig = *state;
	rig_run(rig, "trap 'exit 9' TERM; kill -STOP $$");
	(void)rig_expect(rig, CONTROL_STARTED);
	rig_send(rig->control_fd, CONTROL_CANCEL, SIGTERM, 0);
	assert_int_equal(rig_finish(rig).value, SIGKILL);
}

static void a_second_cancel_may_shorten_the_time(void **state)
{
	struct rig *rig = *state;
	rig_run(rig, "trap 'echo heard > $1/heard' TERM; echo ready > $1/ready;"
		     "while :; do sleep 0.01; done");
	(void)rig_read(rig, "ready");
	rig_send(rig->control_fd, CONTROL_CANCEL, SIGTERM, UINT64_C(3600000000000));
	(void)rig_read(rig, "heard");
	rig_send(rig->control_fd, CONTROL_CANCEL, SIGTERM, 10000000);
	rig_send(rig->control_fd, CONTROL_CANCEL, SIGTERM, UINT64_C(3600000000000));
	assert_int_equal(rig_finish(rig).value, SIGKILL);
}

static void a_cancel_ends_leftovers(void **state)
{
	struct rig *rig = *state;
	rig_run(rig, "setsid -f sleep 1000");
	(void)rig_expect(rig, CONTROL_LEFTOVERS);
	rig_send(rig->control_fd, CONTROL_CANCEL, SIGTERM, CONTROL_GRACE_OWN);
	struct jobdir_result result = rig_finish(rig);
	assert_int_equal(result.end, JOBDIR_EXITED);
	assert_int_equal(result.value, 0);
	assert_int_equal(result.killed_leftovers, 0);
}

static void one_that_was_cancelled_before_never_runs(void **state)
{
	struct rig *rig = *state;
	assert_int_equal(jobdir_create(rig->state_fd, 1, geteuid(), NULL), 0);
	rig->job_fd = jobdir_open(rig->state_fd, 1, NULL);
	assert_int_equal(jobdir_request_cancel(rig->job_fd, NULL), 0);
	rig_script(rig, "touch $1/ran");
	rig_start(rig);
	struct jobdir_result result = rig_finish(rig);
	assert_int_equal(result.end, JOBDIR_CANCELLED);
	assert_true(result.was_cancelled);
	assert_int_not_equal(access(unit_path(rig->tmp, "ran"), F_OK), 0);
}

static void a_signal_reaches_the_commands_group(void **state)
{
	struct rig *rig = *state;
	rig_run(rig, "(trap 'echo child; exit' USR1; echo x > $1/ready; while :; do sleep 0.01;"
		     "done) & trap 'wait; exit 4' USR1; wait");
	(void)rig_read(rig, "ready");
	rig_send(rig->control_fd, CONTROL_SIGNAL, SIGUSR1, 0);
	assert_int_equal(rig_finish(rig).value, 4);
	assert_string_equal(rig_output(rig), "child\n");
}

static void a_signal_for_the_supervisor_ends_the_job(void **state)
{
	struct rig *rig = *state;
	rig_run(rig, "sleep 1000");
	(void)rig_expect(rig, CONTROL_STARTED);
	assert_int_equal(kill(rig->pid, SIGTERM), 0);
	struct jobdir_result result = rig_finish(rig);
	assert_int_equal(result.value, SIGTERM);
	assert_true(result.was_terminated);
}

/* As systemd does at a shutdown: to all of the scope, in any order. */
static void a_signal_for_all_is_known_to_have_come_from_outside(void **state)
{
	struct rig *rig = *state;
	rig_run(rig, "trap 'exit 3' TERM; echo $$ > $1/pid; while :; do sleep 0.01; done");
	pid_t pid = rig_read_pid(rig, "pid");
	assert_int_equal(kill(rig->pid, SIGSTOP), 0);
	assert_int_equal(kill(pid, SIGTERM), 0);
	rig_wait_gone(pid); /* but for its supervisor, which stands still */
	assert_int_equal(kill(rig->pid, SIGTERM), 0);
	assert_int_equal(kill(rig->pid, SIGCONT), 0);
	struct jobdir_result result = rig_finish(rig);
	assert_int_equal(result.end, JOBDIR_EXITED);
	assert_int_equal(result.value, 3);
	assert_true(result.was_terminated);
}

/* Where its supervisor is told only when it has seen the job's end. */
static void whom_a_signal_has_ended_is_waited_for(void **state)
{
	struct rig *rig = *state;
	rig_run(rig, "echo $$ > $1/pid; exec sleep 1000");
	pid_t pid = rig_read_pid(rig, "pid");
	(void)rig_expect(rig, CONTROL_STARTED);
	assert_int_equal(kill(pid, SIGTERM), 0);
	(void)rig_expect(rig, CONTROL_ENDED);
	assert_int_equal(kill(rig->pid, SIGTERM), 0);
	struct jobdir_result result = rig_finish(rig);
	assert_int_equal(result.value, SIGTERM);
	assert_true(result.was_terminated);
}

static void what_an_agent_orders_does_not_come_from_outside(void **state)
{
	struct rig *rig = *state;
	rig_run(rig, "exec sleep 1000");
	(void)rig_expect(rig, CONTROL_STARTED);
	rig_send(rig->control_fd, CONTROL_CANCEL, SIGTERM, CONTROL_GRACE_OWN);
	struct jobdir_result result = rig_finish(rig);
	assert_int_equal(result.value, SIGTERM);
	assert_false(result.was_terminated);
}

/* `first`: of the script that is asked to remove the container for the first time. */
static void removed_again_after(struct rig *rig, const char *first)
{
	char script[4096];
	(void)snprintf(script, sizeof(script),
		       "#!/bin/sh\ncd %s\n[ $1 = remove ] || { exec 6>&-; exec sleep 1000; }\n"
		       "test -e asked || { touch asked; %s; exec sleep 1000; }\n"
		       "exec 6>&-; echo again > removed\n",
		       rig->tmp, first);
	(void)snprintf(rig->launch.container, sizeof(rig->launch.container), "%s",
		       unit_path(rig->tmp, "container"));
	unit_write(rig->launch.container, script);
	assert_int_equal(chmod(rig->launch.container, 0755), 0);
	(void)snprintf(rig->launch.spec.image, sizeof(rig->launch.spec.image), "an-image");
	rig_run(rig, "true");
	(void)rig_expect(rig, CONTROL_STARTED);
	rig_send(rig->control_fd, CONTROL_CANCEL, SIGTERM, UINT64_C(3600000000000));
	(void)rig_finish(rig);
	assert_int_equal(access(unit_path(rig->tmp, "asked"), F_OK), 0);
	assert_int_equal(strncmp(rig_read(rig, "removed"), "again", 5), 0);
}

/* 6 is COMMAND_FD_WHY, whose end says that it has begun. */
static void a_container_that_is_not_removed_in_time_is_removed_again(void **state)
{
	removed_again_after(*state, "exec 6>&-");
}

static void a_removal_that_does_not_begin_is_begun_again(void **state)
{
	removed_again_after(*state, "true");
}

static void a_thousand_processes_that_multiply_are_killed(void **state)
{
	struct rig *rig = *state;
	/* Each starts two more while there are fewer than a thousand; none hears SIGTERM. */
	rig_run(rig, "trap '' TERM; b() { n=$(ls $1/p | wc -l); if test $n -lt 1000; then : > "
		     "$1/p/$2; b $1 ${2}0 & b $1 ${2}1 & fi; while :; do sleep 1000; done; }\n"
		     "mkdir $1/p; echo go > $1/go; b $1 1");
	(void)rig_read(rig, "go");
	size_t count = 0;
	for (uint64_t end = unit_now_ns() + UINT64_C(60000000000);
	     count < 1000 && unit_now_ns() < end;) {
		struct tree_process *list = NULL;
		assert_int_equal(tree_list(rig->pid, 0, &list, &count, NULL), 0);
		free(list);
	}
	assert_true(count >= 1000);
	uint64_t asked_ns = unit_now_ns();
	rig_send(rig->control_fd, CONTROL_CANCEL, SIGTERM, 100000000);
	(void)rig_expect(rig, CONTROL_RESULT);
	print_message("%zu processes gone %" PRIu64 " ms after the cancel, 100 of them grace\n",
		      count, (unit_now_ns() - asked_ns) / 1000000);
	assert_int_equal(rig_finish(rig).value, SIGKILL);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, rig_new, rig_free)

/* --- a warning before the end ----------------------------------------------------------------- */

#define SECOND_NS INT64_C(1000000000)

static void warn(struct rig *rig, uint64_t deadline_ns, bool alone)
{
	rig->launch.spec.deadline_ns = rig->launch.spec.wants.time_ns = deadline_ns;
	rig->launch.spec.warn_signal = SIGUSR1;
	rig->launch.spec.warn_before_ns = 30 * SECOND_NS;
	rig->launch.spec.warn_alone = alone;
}

static void a_job_is_warned_once_before_its_deadline(void **state)
{
	struct rig *rig = *state;
	warn(rig, 30 * SECOND_NS + 300000000, false);
	rig_run(
	    rig,
	    "trap 'echo warned >> $1/warned' USR1; until test -e $1/warned; do sleep 0.01; done; "
	    "cat $1/warned");
	struct jobdir_result result = rig_finish(rig);
	assert_int_equal(result.end, JOBDIR_EXITED);
	assert_int_equal(result.value, 0);
	assert_string_equal(rig_output(rig), "warned\n");
}

/* The shell would die of it, and has not asked for it; what it waits for has. */
static void a_shell_that_does_not_catch_it_is_spared(void **state)
{
	struct rig *rig = *state;
	warn(rig, 30 * SECOND_NS + 300000000, false);
	rig_run(rig, "sh -c 'trap \"echo saved; exit 0\" USR1; while :; do sleep 0.01; done'; echo "
		     "and then");
	assert_int_equal(rig_finish(rig).end, JOBDIR_EXITED);
	assert_string_equal(rig_output(rig), "saved\nand then\n");
}

static void who_does_not_catch_it_at_all_ends_of_it(void **state)
{
	struct rig *rig = *state;
	warn(rig, 30 * SECOND_NS + 300000000, false);
	rig_run(rig, "exec sleep 1000");
	struct jobdir_result result = rig_finish(rig);
	assert_int_equal(result.end, JOBDIR_SIGNALLED);
	assert_int_equal(result.value, SIGUSR1);
}

static void the_command_alone_can_be_meant(void **state)
{
	struct rig *rig = *state;
	warn(rig, 30 * SECOND_NS + 300000000, true);
	rig_run(rig,
		"sh -c 'trap \"echo inner\" USR1; until test -e $0/over; do sleep 0.01; done' $1 & "
		"trap 'echo outer; touch $1/over' USR1; until test -e $1/over; do sleep 0.01; "
		"done; wait");
	assert_int_equal(rig_finish(rig).value, 0);
	assert_string_equal(rig_output(rig), "outer\n");
}

/* --- another limit while it runs -------------------------------------------------------------- */

static void a_limit_is_moved_while_it_runs(void **state)
{
	struct rig *rig = *state;
	rig->launch.spec.deadline_ns = rig->launch.spec.wants.time_ns = 500000000;
	rig_run(rig, "echo here > $1/here; until test -e $1/go; do sleep 0.01; done");
	assert_int_equal(rig_expect(rig, CONTROL_STARTED).kind, CONTROL_STARTED);
	rig_send(rig->control_fd, CONTROL_LIMIT, 1000 * SECOND_NS, 0);
	(void)rig_read(rig, "here");

	/* Past the old one it still runs: and ends as soon as the new one is over. */
	uint64_t until_ns = unit_now_ns() + 700000000;
	while (unit_now_ns() < until_ns)
		(void)usleep(10000);
	assert_true(rig_is_alive(rig->pid));
	rig_send(rig->control_fd, CONTROL_LIMIT, SECOND_NS, 0);
	struct jobdir_result result = rig_finish(rig);
	assert_int_equal(result.end, JOBDIR_DEADLINE);
	assert_int_equal(result.exit_code, 124);
}

/* Earlier attempts have had the rest of it. */
static void a_limit_is_for_all_attempts(void **state)
{
	struct rig *rig = *state;
	rig->launch.spec.wants.time_ns = 600 * SECOND_NS;
	rig->launch.spec.deadline_ns = 500 * SECOND_NS;
	rig_run(rig, "sleep 1000");
	assert_int_equal(rig_expect(rig, CONTROL_STARTED).kind, CONTROL_STARTED);
	rig_send(rig->control_fd, CONTROL_LIMIT, 100 * SECOND_NS, 0);
	assert_int_equal(rig_finish(rig).end, JOBDIR_DEADLINE);
}

static void a_job_without_a_limit_gets_one(void **state)
{
	struct rig *rig = *state;
	rig_run(rig, "sleep 1000");
	assert_int_equal(rig_expect(rig, CONTROL_STARTED).kind, CONTROL_STARTED);
	rig_send(rig->control_fd, CONTROL_LIMIT, 0, 0); /* nothing that can be meant */
	rig_send(rig->control_fd, CONTROL_LIMIT, -5, 0);
	rig_send(rig->control_fd, CONTROL_LIMIT, 100000000, 0);
	assert_int_equal(rig_finish(rig).end, JOBDIR_DEADLINE);
}

/* A limit that is moved moves the warning; one that has come does not come again. */
static void a_warning_moves_with_the_limit(void **state)
{
	struct rig *rig = *state;
	warn(rig, 1000 * SECOND_NS, false);
	rig_run(rig, "trap 'echo warned >> $1/warned' USR1; echo here > $1/here; "
		     "until test -e $1/go; do sleep 0.01; done; cat $1/warned");
	(void)rig_read(rig, "here");
	rig_send(rig->control_fd, CONTROL_LIMIT, 30 * SECOND_NS, 0);
	(void)rig_read(rig, "warned");
	rig_send(rig->control_fd, CONTROL_LIMIT, 1000 * SECOND_NS, 0);
	rig_send(rig->control_fd, CONTROL_LIMIT, 29 * SECOND_NS, 0);
	unit_write(unit_path(rig->tmp, "go"), "");
	assert_int_equal(rig_finish(rig).value, 0);
	assert_string_equal(rig_output(rig), "warned\n");
}

static void the_supervisor_says_what_it_can(void **state)
{
	struct rig *rig = *state;
	rig_run(rig, "exit 0");
	assert_int_equal(rig_expect(rig, CONTROL_HELLO).extra, CONTROL_CAN_LIMIT);
	assert_int_equal(rig_finish(rig).value, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    CASE(leftovers_get_their_time_and_are_killed),
	    CASE(a_leftover_of_another_user_is_killed),
	    CASE(one_that_flees_from_session_to_session_is_killed),
	    CASE(leftovers_that_end_by_themselves_are_not_killed),
	    CASE(the_deadline_ends_it),
	    CASE(a_job_is_warned_once_before_its_deadline),
	    CASE(a_shell_that_does_not_catch_it_is_spared),
	    CASE(who_does_not_catch_it_at_all_ends_of_it),
	    CASE(the_command_alone_can_be_meant),
	    CASE(a_limit_is_moved_while_it_runs),
	    CASE(a_limit_is_for_all_attempts),
	    CASE(a_job_without_a_limit_gets_one),
	    CASE(a_warning_moves_with_the_limit),
	    CASE(the_supervisor_says_what_it_can),
	    CASE(the_deadline_kills_who_does_not_hear),
	    CASE(one_that_ends_before_its_deadline_has_not_hit_it),
	    CASE(a_cancel_gives_it_time),
	    CASE(a_cancel_kills_who_does_not_hear),
	    CASE(a_cancel_wakes_who_stands_still),
	    CASE(a_cancel_without_grace_kills_at_once),
	    CASE(a_second_cancel_may_shorten_the_time),
	    CASE(a_cancel_ends_leftovers),
	    CASE(one_that_was_cancelled_before_never_runs),
	    CASE(a_signal_reaches_the_commands_group),
	    CASE(a_signal_for_the_supervisor_ends_the_job),
	    CASE(a_signal_for_all_is_known_to_have_come_from_outside),
	    CASE(whom_a_signal_has_ended_is_waited_for),
	    CASE(what_an_agent_orders_does_not_come_from_outside),
	    CASE(a_container_that_is_not_removed_in_time_is_removed_again),
	    CASE(a_removal_that_does_not_begin_is_begun_again),
	    CASE(a_thousand_processes_that_multiply_are_killed),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
