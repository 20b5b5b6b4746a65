/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs that are held, that wait for others, that are tried again, and that belong together: all of
 * it across a restart of the agent. */
#include "doors/queue/queue.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/child.h"
#include "base/storage.h"
#include "queue_rig.h"

#define MS UINT64_C(1000000)

static void on_edited(int result, size_t changed, const struct err *err, void *context)
{
	struct answer *answer = context;
	answer->done = true;
	answer->result = result;
	answer->jobs = changed;
	(void)snprintf(answer->text, sizeof(answer->text), "%s", err ? err->text : "");
}

static struct answer edit(uint64_t id, struct queue_edit edit)
{
	struct answer answer = {.done = false};
	queue_edit(fixture->queue, 1000, id, false, &edit, "alice", on_edited, &answer);
	wait_for(answer.done);
	return answer;
}

static struct answer retry(uint64_t id)
{
	struct answer answer = {.done = false};
	queue_retry(fixture->queue, 1000, id, false, on_edited, &answer);
	wait_for(answer.done);
	return answer;
}

static const struct queue_edit hold = {.hold = QUEUE_EDIT_HOLD};
static const struct queue_edit release = {.hold = QUEUE_EDIT_RELEASE};

/* A job with these wishes. */
static uint64_t submit_wanting(const char *key, const char *command, struct wants wants)
{
	fixture->wants = wants;
	uint64_t id = submit(key, command, 0);
	fixture->wants = (struct wants){0};
	return id;
}

static enum job_reason reason_of(uint64_t id)
{
	const struct job *job = queue_find(fixture->queue, id);
	return job ? job->reason : JOB_REASON_NONE;
}

static void idle(void)
{
	/* Whatever could start does so before a job that comes now. */
	static int number;
	char key[32];
	(void)snprintf(key, sizeof(key), "idle-%d", number++);
	assert_int_equal(ended(submit(key, "true", 0)).state, JOB_SUCCEEDED);
}

static void a_held_job_waits_to_be_released(void **state)
{
	open_queue();
	uint64_t id = submit_wanting("k1", append("ran", "true"), (struct wants){.hold = 1});
	assert_int_equal(state_of(id), JOB_HELD);
	assert_int_equal(reason_of(id), JOB_REASON_USER);
	reopen();
	idle();
	assert_int_equal(state_of(id), JOB_HELD);
	assert_int_equal(lines("ran"), 0);
	assert_int_equal(edit(id, hold).result, 0); /* twice is no harm */
	assert_int_equal(edit(id, release).result, 0);
	assert_int_equal(ended(id).state, JOB_SUCCEEDED);
	assert_int_equal(lines("ran"), 1);
	assert_int_equal(edit(id, hold).result, -ESRCH);
}

static void a_waiting_job_is_held_and_may_be_cancelled(void **state)
{
	open_queue();
	uint64_t first = submit("k1", until_go("first"), 2);
	uint64_t id = submit("k2", append("second", "true"), 2);
	wait_for(lines("first") == 1);
	assert_int_equal(edit(first, hold).result, -EBUSY);
	assert_int_equal(edit(id, hold).jobs, 1);
	go();
	assert_int_equal(ended(first).state, JOB_SUCCEEDED);
	idle();
	reopen();
	idle();
	assert_int_equal(state_of(id), JOB_HELD);
	struct answer answer = cancel(id);
	assert_int_equal(answer.result, 0);
	assert_int_equal(ended(id).state, JOB_CANCELLED);
	assert_int_equal(lines("second"), 0);
}

static void a_job_waits_for_others(void **state)
{
	char after[64];
	open_queue();
	uint64_t first = submit("k1", until_go("first"), 0);
	(void)snprintf(after, sizeof(after), "%d,ok:%d", (int)first, (int)first);
	uint64_t second =
	    submit_wanting("k2", append("second", "true"), (struct wants){.after = after});
	(void)snprintf(after, sizeof(after), "ok:%d", (int)second);
	uint64_t third =
	    submit_wanting("k3", append("third", "true"), (struct wants){.after = after});
	wait_for(reason_of(second) == JOB_REASON_DEPENDENCY);
	reopen();
	idle();
	assert_int_equal(reason_of(third), JOB_REASON_DEPENDENCY);
	assert_int_equal(lines("second") + lines("third"), 0);
	go();
	assert_int_equal(ended(third).state, JOB_SUCCEEDED);
	assert_int_equal(ended(second).state, JOB_SUCCEEDED);
}

static void whose_dependency_fails_is_cancelled_with_those_behind_it(void **state)
{
	open_queue();
	char after[64], other[64], behind[64], command[512];
	(void)snprintf(command, sizeof(command), "%s; exit 1", until_go("first"));
	uint64_t first = submit("k1", command, 0);
	(void)snprintf(after, sizeof(after), "ok:%d", (int)first);
	(void)snprintf(other, sizeof(other), "%d", (int)first);
	uint64_t second =
	    submit_wanting("k2", append("no", "true"), (struct wants){.after = after});
	uint64_t any = submit_wanting("k3", append("any", "true"), (struct wants){.after = other});
	(void)snprintf(behind, sizeof(behind), "ok:%d", (int)second);
	uint64_t third =
	    submit_wanting("k4", append("no", "true"), (struct wants){.after = behind});
	wait_for(reason_of(third) == JOB_REASON_DEPENDENCY);
	go();
	struct answer end = ended(third);
	assert_int_equal(end.state, JOB_CANCELLED);
	assert_int_equal(end.reason, JOB_REASON_DEPENDENCY_FAILED);
	assert_int_equal(ended(second).reason, JOB_REASON_DEPENDENCY_FAILED);
	assert_int_equal(ended(any).state, JOB_SUCCEEDED);
	assert_int_equal(lines("no"), 0);
	/* One that has failed by now is no different. */
	uint64_t late = submit_wanting("k5", append("no", "true"), (struct wants){.after = after});
	assert_int_equal(ended(late).reason, JOB_REASON_DEPENDENCY_FAILED);
	struct answer refused = retry(late);
	assert_int_equal(refused.result, -EINVAL);
	assert_non_null(strstr(refused.text, "retry that one first"));
	uint64_t fine = submit_wanting("k6", "true", (struct wants){.after = other});
	assert_int_equal(ended(fine).state, JOB_SUCCEEDED);
}

static void a_dependency_on_nothing_is_refused(void **state)
{
	open_queue();
	struct answer answer;
	char after[] = "1";
	fixture->wants = (struct wants){.after = after}; /* itself */
	submit_as("k1", "true", 0, false, &answer);
	wait_for(answer.done);
	assert_int_equal(answer.result, -EINVAL);
	assert_non_null(strstr(answer.text, "no job 1"));
}

static void a_failure_is_tried_again(void **state)
{
	open_queue();
	uint64_t id = submit_wanting("k1", append("ran", "false"),
				     (struct wants){.retries = 2, .retry_delay_ns = 20 * MS});
	struct answer end = ended(id);
	assert_int_equal(end.state, JOB_FAILED);
	assert_int_equal(end.reason, JOB_REASON_BACKOFF_LIMIT_EXCEEDED);
	assert_int_equal(lines("ran"), 3);
	assert_true(there("j/1/result.3"));
	/* Without retries it says what it failed of. */
	uint64_t once = submit("k2", "exit 3", 0);
	assert_int_equal(ended(once).reason, JOB_REASON_EXIT_CODE);
	/* What it failed of first stands beside what it failed of last. */
	char command[256];
	(void)snprintf(command, sizeof(command), "test -e %s && exit 9; touch %s; exit 7",
		       unit_path(fixture->tmp, "first"), unit_path(fixture->tmp, "first"));
	struct answer both = ended(
	    submit_wanting("k4", command, (struct wants){.retries = 2, .retry_delay_ns = MS}));
	assert_non_null(
	    strstr(both.text, "3 failures, the first: ExitCode (7), the last: ExitCode (9)"));
	/* And one that comes through is done. */
	(void)snprintf(command, sizeof(command), "test -e %s || { touch %s; exit 1; }",
		       unit_path(fixture->tmp, "flag"), unit_path(fixture->tmp, "flag"));
	uint64_t second =
	    submit_wanting("k3", command, (struct wants){.retries = 5, .retry_delay_ns = MS});
	assert_int_equal(ended(second).state, JOB_SUCCEEDED);
}

static void a_retry_waits_across_a_restart_and_can_be_cancelled(void **state)
{
	open_queue();
	uint64_t id = submit_wanting("k1", append("ran", "false"),
				     (struct wants){.retries = 1, .retry_delay_ns = 3600000 * MS});
	wait_for(reason_of(id) == JOB_REASON_BACKOFF);
	reopen();
	idle();
	assert_int_equal(state_of(id), JOB_PENDING);
	const struct job *job = queue_find(fixture->queue, id);
	assert_int_equal(job->failed_attempts, 1);
	assert_int_equal(job->reason, JOB_REASON_BACKOFF);
	assert_non_null(strstr(job->reason_text, "failed 1 of 2 times"));
	assert_int_equal(cancel(id).result, 0);
	assert_int_equal(ended(id).state, JOB_CANCELLED);
	assert_int_equal(lines("ran"), 1);
}

static void a_lost_attempt_is_tried_again_if_that_is_wanted(void **state)
{
	open_queue();
	fixture->mode = "die";
	uint64_t id = submit_wanting("k1", append("ran", "exec sleep 1000"),
				     (struct wants){.retries = 1, .retry_delay_ns = MS});
	assert_int_equal(ended(id).reason, JOB_REASON_SUPERVISOR_LOST);
	uint64_t again =
	    submit_wanting("k2", "exec sleep 1000",
			   (struct wants){.retries = 7, .retry_lost = true, .retry_delay_ns = MS});
	wait_for(queue_find(fixture->queue, again) &&
		 queue_find(fixture->queue, again)->failed_attempts >= 1);
	fixture->mode = NULL;
	assert_int_equal(cancel(again).result, 0);
	(void)ended(again);
	assert_true(lines("ran") <= 1);
}

static void a_final_job_begins_anew(void **state)
{
	open_queue();
	char command[256];
	(void)snprintf(command, sizeof(command), "test -e %s", unit_path(fixture->tmp, "flag"));
	uint64_t id = submit("k1", command, 0);
	assert_int_equal(ended(id).state, JOB_FAILED);
	unit_write(unit_path(fixture->tmp, "flag"), "");
	assert_int_equal(retry(id).jobs, 1);
	assert_int_equal(ended(id).state, JOB_SUCCEEDED);
	assert_true(there("j/1/result.2"));
	assert_int_equal(retry(id).result, -EINVAL);
	assert_int_equal(retry(99).result, -ENOENT);
	/* A cancelled one: it is not cancelled again. */
	uint64_t held = submit_wanting("k2", "true", (struct wants){.hold = 1});
	assert_int_equal(cancel(held).result, 0);
	assert_int_equal(ended(held).state, JOB_CANCELLED);
	assert_int_equal(retry(held).result, 0);
	assert_int_equal(ended(held).state, JOB_SUCCEEDED);
}

static void on_spec(int result, const struct spec *spec, const struct err *err, void *context)
{
	size_t count = result == 0 ? spec->environment_count : 0;
	(void)snprintf(context, 64, "%s", count > 0 ? spec->environment[count - 1] : "none");
}

static void a_waiting_job_gets_another_priority_and_environment(void **state)
{
	open_queue();
	uint64_t id = submit_wanting("k1", append("ran", "true"), (struct wants){.hold = 1});
	const char *const variables[] = {"WHAT=new"};
	struct answer answer = edit(id, (struct queue_edit){.has_priority = true,
							    .priority = 7,
							    .environment = variables,
							    .environment_count = 1});
	assert_int_equal(answer.result, 0);
	reopen();
	assert_int_equal(queue_find(fixture->queue, id)->wants.priority, 7);
	char seen[64] = "";
	queue_query_spec(fixture->queue, id, 0, on_spec, seen);
	wait_for(seen[0]);
	assert_string_equal(seen, "WHAT=new");
	assert_int_equal(edit(id, release).result, 0);
	assert_int_equal(ended(id).state, JOB_SUCCEEDED);
}

static struct wants array_of(uint32_t count, bool apart)
{
	return (struct wants){.array = WANTS_ARRAY_INDEXED,
			      .array_count = count,
			      .array_apart = apart,
			      .retry_delay_ns = MS};
}

static void an_array_is_accepted_as_one(void **state)
{
	open_queue();
	uint64_t id = submit_wanting("k1", append("ran", "true"), array_of(20, true));
	assert_int_equal(submit_wanting("k1", append("ran", "true"), array_of(20, true)), id);
	assert_int_equal(submit("k2", "true", 0), id + 20);
	reopen();
	for (uint64_t i = 0; i < 20; i++)
		assert_int_equal(ended(id + i).state, JOB_SUCCEEDED);
	assert_int_equal(lines("ran"), 20);
}

static void an_array_runs_so_many_at_a_time(void **state)
{
	open_queue();
	struct wants wants = array_of(6, true);
	wants.array_parallel = 2;
	uint64_t id = submit_wanting("k1", until_go("ran"), wants);
	wait_for(lines("ran") == 2);
	idle();
	assert_int_equal(lines("ran"), 2);
	assert_int_equal(reason_of(id + 5), JOB_REASON_ARRAY_LIMIT);
	go();
	for (uint64_t i = 0; i < 6; i++)
		assert_int_equal(ended(id + i).state, JOB_SUCCEEDED);
}

static void an_array_that_fails_takes_all_with_it(void **state)
{
	open_queue();
	struct wants wants = array_of(5, false);
	wants.retries = 2;
	wants.array_parallel = 1;
	uint64_t id = submit_wanting("k1", append("ran", "false"), wants);
	struct answer end = ended(id + 4);
	assert_int_equal(end.state, JOB_CANCELLED);
	assert_int_equal(end.reason, JOB_REASON_BACKOFF_LIMIT_EXCEEDED);
	assert_int_equal(lines("ran"), 3); /* one number of failures */
	size_t failed = 0;
	for (uint64_t i = 0; i < 5; i++)
		failed += ended(id + i).state == JOB_FAILED;
	assert_int_equal(failed, 1);
	/* All of it once more. */
	struct answer answer = retry(id);
	assert_int_equal(answer.result, 0);
	assert_int_equal(answer.jobs, 5);
	(void)ended(id + 4);
}

static void an_array_is_held_and_waited_for_as_one(void **state)
{
	open_queue();
	struct wants wants = array_of(3, true);
	wants.hold = WANTS_HOLD_SUSPENDED;
	uint64_t id = submit_wanting("k1", append("ran", "true"), wants);
	assert_int_equal(reason_of(id + 2), JOB_REASON_SUSPENDED);
	char after[32];
	(void)snprintf(after, sizeof(after), "ok:%d", (int)id);
	uint64_t behind =
	    submit_wanting("k2", append("behind", "true"), (struct wants){.after = after});
	idle();
	assert_int_equal(reason_of(behind), JOB_REASON_DEPENDENCY);
	assert_int_equal(edit(id, release).jobs, 3);
	assert_int_equal(ended(behind).state, JOB_SUCCEEDED);
	assert_int_equal(lines("ran"), 3);
}

static void a_large_array_leaves_room_for_what_is_asked_meanwhile(void **state)
{
	enum { MEMBERS = 100 };
	open_queue();
	uint64_t id = submit_wanting("k1", append("ran", "true"), array_of(MEMBERS, true));
	wait_for(state_of(id) != JOB_PENDING);
	assert_true(queue_count(fixture->queue, JOB_PENDING) >= MEMBERS - 64);
	for (uint64_t i = 0; i < MEMBERS; i++)
		assert_int_equal(ended(id + i).state, JOB_SUCCEEDED);
	assert_int_equal(lines("ran"), MEMBERS);
}

static void an_agent_that_ends_answers_who_cancels_an_array(void **state)
{
	open_queue();
	struct wants wants = array_of(3, true);
	wants.array_parallel = 1;
	uint64_t id = submit_wanting("k1", until_go("ran"), wants);
	wait_for(lines("ran") == 1);
	/* One of them runs, and is told for itself. */
	struct answer answer = {.done = false};
	queue_cancel_array(fixture->queue, 1000, id, 0, false, 0, "alice", on_edited, &answer);
	assert_false(answer.done);
	reopen();
	assert_true(answer.done);
	assert_int_equal(answer.result, -ESHUTDOWN);
	go();
	for (uint64_t i = 0; i < 3; i++)
		(void)ended(id + i);
}

/* Keeps the storage thread from the next operation until the pipe is written to. */
static int wait_on_pipe(void *context)
{
	char byte;
	return read(*(const int *)context, &byte, 1) == 1 ? 0 : -EIO;
}

static void on_waited(void *context, int result)
{
	assert_int_equal(result, 0);
}

static void a_cancel_that_cannot_be_written_is_not_tried_all_the_time(void **state)
{
	int ends[2];
	char after[32];
	open_queue();
	uint64_t first = submit("k1", "false", 0);
	assert_int_equal(ended(first).state, JOB_FAILED);
	(void)snprintf(after, sizeof(after), "ok:%d", (int)first);
	fixture->wants = (struct wants){.after = after};
	struct answer answer;
	assert_int_equal(pipe(ends), 0);
	submit_as("k2", append("no", "true"), 0, false, &answer);
	struct storage_job between = {.work = wait_on_pipe, .done = on_waited, .context = &ends[0]};
	assert_int_equal(storage_submit(fixture->storage, &between, NULL), 0);
	wait_for(answer.done);
	assert_int_equal(answer.result, 0);
	/* Accepted and doomed; from here on no file grows. */
	struct rlimit limit, none;
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
	none = limit;
	none.rlim_cur = 0;
	(void)signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
	assert_int_equal(write(ends[1], "x", 1), 1);
	wait_for(queue_storage_error(fixture->queue)[0]);
	unsigned tries = 0;
	for (int i = 0; i < 50; i++) {
		assert_int_equal(loop_pass(fixture->loop, MS, NULL), 0);
		tries += storage_pending(fixture->storage) > 0;
	}
	assert_in_range(tries, 0, 5);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	(void)signal(SIGXFSZ, SIG_DFL);
	(void)close(ends[0]);
	(void)close(ends[1]);
	reopen();
	assert_int_equal(ended(answer.id).reason, JOB_REASON_DEPENDENCY_FAILED);
	assert_int_equal(lines("no"), 0);
}

static void on_drained(int result, const struct err *err, void *context)
{
	*(int *)context = result;
}

static void a_drained_queue_starts_nothing(void **state)
{
	open_queue();
	int result = 1;
	queue_drain(fixture->queue, true, on_drained, &result);
	wait_for(result == 0);
	uint64_t id = submit("k1", append("ran", "true"), 0);
	reopen();
	wait_for(reason_of(id) == JOB_REASON_DRAINING);
	assert_int_equal(lines("ran"), 0);
	struct answer answer;
	submit_as("k2", "true", 0, true, &answer);
	wait_for(answer.done);
	assert_int_equal(answer.result, -EAGAIN);
	result = 1;
	queue_drain(fixture->queue, false, on_drained, &result);
	wait_for(result == 0);
	assert_int_equal(ended(id).state, JOB_SUCCEEDED);
}

static void a_user_has_so_many_jobs_waiting(void **state)
{
	open_queue();
	static struct queue_rules rules = {.limit.pending = 3, .group_count = 1};
	rules.groups[0] = (struct rules_group){.group = 54321, .limit.pending = 100};
	queue_set_rules(fixture->queue, &rules);
	uint64_t first = submit_wanting("k1", "true", (struct wants){.hold = 1});
	struct answer answer;
	fixture->wants = array_of(3, true);
	submit_as("k2", "true", 0, false, &answer);
	wait_for(answer.done);
	assert_int_equal(answer.result, -EDQUOT);
	fixture->wants.array_count = 2;
	submit_as("k3", "true", 0, false, &answer);
	wait_for(answer.done);
	assert_int_equal(answer.result, 0);
	fixture->wants = (struct wants){0};
	rules.groups[0].group = getegid();
	queue_set_rules(fixture->queue, &rules);
	(void)submit("k4", "true", 0);
	(void)submit("k5", "true", 0);
	assert_int_equal(cancel(first).result, 0);
}

static void a_job_is_forgotten_when_its_own_time_is_over(void **state)
{
	open_queue();
	uint64_t id = submit_wanting("k1", "true", (struct wants){.has_ttl = true, .ttl_ns = MS});
	uint64_t kept = submit("k2", "true", 0);
	wait_for(ask(id).result == -ENOENT && !there("j/1"));
	assert_int_equal(ended(kept).state, JOB_SUCCEEDED);
}

/* A thousand of which each waits for two hundred, and a thousand others that end at once. */
static void many_that_end_together_are_told_together(void **state)
{
	enum { MANY = 1000, FEW = 200 };
	char *after = calloc(FEW, 16);
	size_t length = 0;
	struct timespec began, ended;
	struct answer answer = {.done = false};
	const struct wants held = {.hold = WANTS_HOLD_USER, .array = WANTS_ARRAY_PLAIN};
	struct wants few = held, waiting = held, many = held;
	assert_non_null(after);
	open_queue();
	few.array_count = FEW;
	uint64_t first = submit_wanting("few", "true", few);
	for (int i = 1; i < FEW; i++)
		length += (size_t)snprintf(after + length, 16, "%sok:%d", i > 1 ? "," : "",
					   (int)first + i);
	waiting.array_count = many.array_count = MANY;
	waiting.after = after;
	uint64_t behind = submit_wanting("waiting", "true", waiting);
	uint64_t id = submit_wanting("many", "true", many);

	(void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &began);
	queue_cancel_array(fixture->queue, 1000, id, 0, false, 0, "alice", on_edited, &answer);
	wait_for(answer.done && !queue_find(fixture->queue, id + MANY - 1));
	(void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ended);
	assert_true(ended.tv_sec - began.tv_sec <
		    2); /* each for itself takes four seconds and more */
	assert_true(state_of(behind) == JOB_HELD);

	answer.done = false;
	queue_cancel(fixture->queue, first + 7, 0, false, 0, "alice", NULL, NULL);
	wait_for(!queue_find(fixture->queue, behind) &&
		 !queue_find(fixture->queue, behind + MANY - 1));
	assert_int_equal(ask(behind + 3).reason, JOB_REASON_DEPENDENCY_FAILED);
	free(after);
}

int main(void)
{
	place_in_memory();
	const struct CMUnitTest tests[] = {
	    with(a_held_job_waits_to_be_released),
	    with(a_waiting_job_is_held_and_may_be_cancelled),
	    with(a_job_waits_for_others),
	    with(whose_dependency_fails_is_cancelled_with_those_behind_it),
	    with(a_dependency_on_nothing_is_refused),
	    with(a_failure_is_tried_again),
	    with(a_retry_waits_across_a_restart_and_can_be_cancelled),
	    with(a_lost_attempt_is_tried_again_if_that_is_wanted),
	    with(a_final_job_begins_anew),
	    with(a_waiting_job_gets_another_priority_and_environment),
	    with(an_array_is_accepted_as_one),
	    with(an_array_runs_so_many_at_a_time),
	    with(an_array_that_fails_takes_all_with_it),
	    with(an_array_is_held_and_waited_for_as_one),
	    with(a_large_array_leaves_room_for_what_is_asked_meanwhile),
	    with(an_agent_that_ends_answers_who_cancels_an_array),
	    with(a_cancel_that_cannot_be_written_is_not_tried_all_the_time),
	    with(a_drained_queue_starts_nothing),
	    with(a_user_has_so_many_jobs_waiting),
	    with(a_job_is_forgotten_when_its_own_time_is_over),
	    with(many_that_end_together_are_told_together),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
