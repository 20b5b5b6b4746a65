/* SPDX-License-Identifier: Apache-2.0 */
/* What one user has of the queue, beside others. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#include "base/account.h"
#include "queue_rig.h"

enum { ALICE = 1000, BOB = 1001, SUB = 100000 };

static struct statvfs disk; /* f_blocks 0: as it is */

/* By its name where files are as long as they like. */
int __real_fstatvfs64(int fd, struct statvfs *out);
int __wrap_fstatvfs64(int fd, struct statvfs *out);

int __wrap_fstatvfs64(int fd, struct statvfs *out)
{
	if (disk.f_blocks == 0)
		return __real_fstatvfs64(fd, out);
	*out = disk;
	return 0;
}

static void open_with_shares(void)
{
	static const struct account_range ranges[] = {{SUB, 65536, ALICE}};
	fixture->account = account_new(0, NULL);
	assert_non_null(fixture->account);
	assert_int_equal(account_set_ranges(fixture->account, ranges, 1), 0);
	open_queue();
}

static int end(void **state)
{
	memset(&disk, 0, sizeof(disk));
	return teardown(state);
}

/* A job of `bytes` at least, which waits to be released unless `is_dry`. */
static void submit_for(uid_t uid, size_t bytes, bool is_dry, struct answer *answer)
{
	static unsigned serial;
	struct err err = {.code = 0};
	struct spec spec;
	char key[32];
	char *filler = calloc(1, bytes + 3);
	assert_non_null(filler);
	memset(filler, 'x', bytes + 2);
	filler[1] = '=';
	spec_init(&spec);
	(void)snprintf(key, sizeof(key), "share-%u", serial++);
	(void)snprintf(spec.name, sizeof(spec.name), "test");
	(void)snprintf(spec.directory, sizeof(spec.directory), "/");
	spec.uid = uid;
	spec.wants.hold = is_dry ? WANTS_HOLD_NONE : WANTS_HOLD_USER;
	assert_int_equal(spec_add_argument(&spec, "true", &err), 0);
	assert_int_equal(spec_add_variable(&spec, filler, &err), 0);
	const struct queue_submit request = {
	    .key = key, .spec = &spec, .dry_run = is_dry, .done = on_submitted, .context = answer};
	*answer = (struct answer){.done = false};
	queue_submit(fixture->queue, &request);
	spec_done(&spec);
	free(filler);
}

static struct answer held(uid_t uid, size_t bytes)
{
	struct answer answer;
	submit_for(uid, bytes, false, &answer);
	wait_for(answer.done);
	return answer;
}

static uint64_t bytes_of(uid_t uid)
{
	return account_held(fixture->account, ACCOUNT_PENDING_BYTES, uid);
}

static void the_bytes_of_waiting_jobs_have_a_limit(void **state)
{
	open_with_shares();
	account_set_limit(fixture->account, ACCOUNT_PENDING_BYTES, 100000, 400000, 100000);
	uint64_t first = held(ALICE, 40000).id;
	assert_true(first > 0);
	assert_int_equal(held(SUB + 3, 40000).result, 0);
	uint64_t before = bytes_of(ALICE);
	assert_in_range(before, 80000, 90000);
	struct answer refused = held(ALICE, 40000);
	assert_int_equal(refused.result, -EDQUOT);
	assert_non_null(strstr(refused.text, "one user may have 100000 bytes of jobs that have"));
	assert_int_equal(held(SUB + 4, 40000).result, -EDQUOT);
	assert_int_equal(bytes_of(ALICE), before);
	assert_int_equal(held(BOB, 40000).result, 0);
	/* It is known again after a start, and given back at the end. */
	reopen();
	assert_int_equal(held(ALICE, 40000).result, -EDQUOT);
	assert_int_equal(cancel(first).result, 0);
	wait_for(!queue_find(fixture->queue, first));
	assert_true(bytes_of(ALICE) < before);
	assert_true(account_held(fixture->account, ACCOUNT_HISTORY_BYTES, ALICE) > 40000);
	assert_int_equal(held(ALICE, 40000).result, 0);
}

static void on_changed(int result, size_t changed, const struct err *err, void *context)
{
	struct answer *answer = context;
	answer->done = true;
	answer->result = result;
}

static void on_retried(int result, size_t changed, const struct err *err, void *context)
{
	struct answer *answer = context;
	on_changed(result, changed, err, context);
	(void)snprintf(answer->text, sizeof(answer->text), "%s", err ? err->text : "");
}

static void a_variable_cannot_pass_the_limit(void **state)
{
	open_with_shares();
	account_set_limit(fixture->account, ACCOUNT_PENDING_BYTES, 100000, 400000, 100000);
	uint64_t id = held(ALICE, 60000).id;
	char *variable = calloc(1, 60000);
	assert_non_null(variable);
	memset(variable, 'y', 59999);
	variable[1] = '=';
	const char *const variables[] = {variable};
	const struct queue_edit edit = {.environment = variables, .environment_count = 1};
	struct answer answer = {.done = false};
	queue_edit(fixture->queue, 1000, id, false, &edit, "alice", on_changed, &answer);
	wait_for(answer.done);
	assert_int_equal(answer.result, -EDQUOT);
	variable[20000] = '\0';
	answer.done = false;
	queue_edit(fixture->queue, 1000, id, false, &edit, "alice", on_changed, &answer);
	wait_for(answer.done);
	assert_int_equal(answer.result, 0);
	assert_true(bytes_of(ALICE) > 80000);
	free(variable);
}

static void end_held(uid_t uid, size_t count, size_t bytes)
{
	for (size_t i = 0; i < count; i++) {
		uint64_t id = held(uid, bytes).id;
		assert_true(id > 0);
		assert_int_equal(cancel(id).result, 0);
		wait_for(!queue_find(fixture->queue, id));
	}
}

static void collect(void)
{
	struct answer answer = {.done = false, .result = -EBUSY};
	while (answer.result == -EBUSY) {
		answer.done = false;
		queue_collect(fixture->queue, on_changed, &answer);
		wait_for(answer.done);
		(void)loop_pass(fixture->loop, 1000000, NULL);
	}
	assert_int_equal(answer.result, 0);
}

static struct answer retry(uint64_t id)
{
	struct answer answer = {.done = false};
	queue_retry(fixture->queue, 1000, id, false, on_retried, &answer);
	wait_for(answer.done);
	return answer;
}

/* What is retried waits as what is submitted does: one cannot collect cancelled jobs for it. */
static void a_retry_cannot_pass_the_limits(void **state)
{
	open_with_shares();
	account_set_limit(fixture->account, ACCOUNT_PENDING, 2, 20, 2);
	uint64_t first = held(ALICE, 40000).id;
	assert_int_equal(cancel(first).result, 0);
	wait_for(!queue_find(fixture->queue, first));
	uint64_t others[] = {held(ALICE, 10).id, held(ALICE, 10).id};
	struct answer refused = retry(first);
	assert_int_equal(refused.result, -EDQUOT);
	assert_non_null(strstr(refused.text, "one user may have 2 waiting jobs"));
	assert_int_equal(ask(first).state, JOB_CANCELLED);

	assert_int_equal(cancel(others[0]).result, 0);
	wait_for(!queue_find(fixture->queue, others[0]));
	account_set_limit(fixture->account, ACCOUNT_PENDING_BYTES, 20000, 400000, 10000);
	refused = retry(first);
	assert_int_equal(refused.result, -EDQUOT);
	assert_non_null(strstr(refused.text, "one user may have 20000 bytes of jobs"));

	account_set_limit(fixture->account, ACCOUNT_PENDING_BYTES, 100000, 400000, 100000);
	assert_int_equal(retry(first).result, 0);
	assert_int_equal(cancel(others[1]).result, 0);
	wait_for(!queue_find(fixture->queue, others[1]) && !queue_find(fixture->queue, first));
	assert_int_equal(account_held(fixture->account, ACCOUNT_PENDING, ALICE), 0);
	assert_int_equal(bytes_of(ALICE), 0);
}

/* In which order they were answered. */
struct turn {
	struct answer answer;
	unsigned at;
};

static unsigned turns;

static void on_turn(int result, size_t changed, const struct err *err, void *context)
{
	struct turn *turn = context;
	turn->at = ++turns;
	on_retried(result, changed, err, &turn->answer);
}

static void change_for(uid_t uid, uint64_t id, struct turn *turn)
{
	const struct queue_edit edit = {.has_priority = true, .priority = -3};
	*turn = (struct turn){.answer.done = false};
	queue_edit(fixture->queue, uid, id, false, &edit, "", on_turn, turn);
}

/* Of one user's many another one waits for a single one. */
static void changes_take_turns(void **state)
{
	enum { EACH = 6 };
	struct turn alice[EACH + 2], bob;
	open_with_shares();
	account_set_limit(fixture->account, ACCOUNT_CHANGES, EACH, 20, 2);
	uint64_t hers = held(ALICE, 10).id, his = held(BOB, 10).id;
	for (int i = 0; i < EACH + 2; i++)
		change_for(i % 2 ? SUB : ALICE, hers, &alice[i]);
	for (int i = EACH; i < EACH + 2; i++) {
		assert_true(alice[i].answer.done);
		assert_int_equal(alice[i].answer.result, -EDQUOT);
	}
	assert_non_null(strstr(alice[EACH].answer.text, "one user may have 6 changes of jobs"));

	turns = 0;
	change_for(BOB, his, &bob);
	for (int i = 0; i < EACH; i++) {
		wait_for(alice[i].answer.done);
		assert_int_equal(alice[i].answer.result, 0);
		assert_true(i == 0 || alice[i].at > alice[i - 1].at);
	}
	wait_for(bob.answer.done);
	assert_int_equal(bob.answer.result, 0);
	assert_int_equal(bob.at, 2);
	assert_int_equal(account_used(fixture->account, ACCOUNT_CHANGES), 0);
}

static void who_has_most_jobs_that_ended_loses_them_first(void **state)
{
	fixture->retention = 10;
	open_with_shares();
	end_held(BOB, 3, 10); /* the oldest of all */
	end_held(ALICE, 8, 10);
	end_held(SUB + 1, 6, 10);
	collect();
	for (uint64_t id = 1; id <= 3; id++)
		assert_int_equal(ask(id).result, 0);
	/* Hers are the last seven, by whatever ids. */
	assert_int_equal(ask(4).result, -ENOENT);
	assert_int_equal(ask(10).result, -ENOENT);
	for (uint64_t id = 11; id <= 17; id++)
		assert_int_equal(ask(id).result, 0);
}

static void the_bytes_of_jobs_that_ended_have_a_limit(void **state)
{
	open_with_shares();
	account_set_limit(fixture->account, ACCOUNT_HISTORY_BYTES, 200000, 800000, 200000);
	end_held(BOB, 1, 30000);
	end_held(ALICE, 5, 30000); /* 150 kB: soon they are 100 at most */
	wait_for(account_held(fixture->account, ACCOUNT_HISTORY_BYTES, ALICE) <= 100000);
	assert_int_equal(ask(1).result, 0);
	assert_int_equal(ask(2).result, -ENOENT);
	assert_int_equal(ask(6).result, 0);
	/* Faster than they are forgotten: nothing is accepted. */
	assert_int_equal(
	    account_force(fixture->account, ACCOUNT_HISTORY_BYTES, ALICE, 200000, NULL), 0);
	assert_int_equal(held(ALICE, 10).result, -EDQUOT);
	assert_int_equal(held(BOB, 10).result, 0);
}

static void users_leave_some_of_the_disk(void **state)
{
	open_with_shares();
	disk = (struct statvfs){
	    .f_frsize = 4096, .f_blocks = 1000000, .f_bavail = 40000, .f_bfree = 40000};
	struct answer refused = held(ALICE, 10);
	assert_int_equal(refused.result, -EDQUOT);
	assert_non_null(strstr(refused.text, "has 156 MiB left, and 195 MiB are kept"));
	assert_int_equal(held(0, 10).result, 0);
	assert_string_equal(queue_storage_error(fixture->queue), ""); /* what waits goes on */
	disk.f_bavail = 60000;
	assert_int_equal(held(ALICE, 10).result, 0);
}

static void dry_runs_take_turns(void **state)
{
	enum { EACH = 6 };
	struct answer alice[EACH], bob[EACH];
	open_with_shares();
	account_set_limit(fixture->account, ACCOUNT_TRIALS, EACH - 1, 20, 2);
	assert_true(held(ALICE, 10).id > 0);
	for (int i = 0; i < EACH; i++)
		submit_for(ALICE, 10, true, &alice[i]);
	submit_for(BOB, 10, true, &bob[0]);
	/* The first was made at once, the others wait for their turns. */
	assert_true(alice[0].done);
	assert_false(alice[1].done);
	wait_for(bob[0].done);
	assert_false(alice[EACH - 2].done);
	for (int i = 0; i < EACH; i++)
		wait_for(alice[i].done);
	for (int i = 0; i < EACH - 1; i++)
		assert_int_equal(alice[i].result, 0);
	assert_int_equal(account_used(fixture->account, ACCOUNT_TRIALS), 0);
	assert_int_equal(account_held(fixture->account, ACCOUNT_PENDING, ALICE), 1);
	/* As many as may wait, and one that is refused. */
	for (int i = 0; i < EACH; i++)
		submit_for(ALICE, 10, true, &alice[i]);
	for (int i = 0; i < EACH; i++)
		submit_for(SUB, 10, true, &bob[i]);
	assert_true(bob[EACH - 1].done);
	assert_int_equal(bob[EACH - 1].result, -EDQUOT);
	for (int i = 0; i < EACH; i++) {
		wait_for(alice[i].done);
		wait_for(bob[i].done);
	}
}

static void on_question(int result, const struct spec *spec, const struct err *err, void *context)
{
	struct answer *answer = context;
	answer->done = true;
	answer->result = result;
}

static void questions_of_one_user_have_a_limit(void **state)
{
	enum { COUNT = 5 };
	struct answer alice[COUNT] = {{.done = false}}, bob = {.done = false};
	open_with_shares();
	account_set_limit(fixture->account, ACCOUNT_QUERIES, 3, 20, 2);
	uint64_t id = held(ALICE, 10).id;
	for (int i = 0; i < COUNT; i++)
		queue_query_spec(fixture->queue, id, i % 2 ? ALICE : SUB, on_question, &alice[i]);
	queue_query_spec(fixture->queue, id, BOB, on_question, &bob);
	for (int i = 0; i < COUNT; i++) {
		wait_for(alice[i].done);
		assert_int_equal(alice[i].result, i < 3 ? 0 : -EAGAIN);
	}
	wait_for(bob.done);
	assert_int_equal(bob.result, 0);
	assert_int_equal(account_used(fixture->account, ACCOUNT_QUERIES), 0);
}

int main(void)
{
#define with_shares(test) cmocka_unit_test_setup_teardown(test, setup, end)
	const struct CMUnitTest tests[] = {
	    with_shares(the_bytes_of_waiting_jobs_have_a_limit),
	    with_shares(a_variable_cannot_pass_the_limit),
	    with_shares(a_retry_cannot_pass_the_limits),
	    with_shares(changes_take_turns),
	    with_shares(who_has_most_jobs_that_ended_loses_them_first),
	    with_shares(the_bytes_of_jobs_that_ended_have_a_limit),
	    with_shares(users_leave_some_of_the_disk),
	    with_shares(dry_runs_take_turns),
	    with_shares(questions_of_one_user_have_a_limit),
	};
	place_in_memory();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
