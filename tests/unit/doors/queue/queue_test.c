/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/queue/queue.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/child.h"
#include "base/clock.h"
#include "base/storage.h"
#include "job/jobdir.h"
#include "job/token.h"
#include "job/tree.h"
#include "policy/policy.h"
#include "tests/unit/failmalloc.h"
#include "queue_rig.h"

/* --- the life of a job ----------------------------------------------------------------------- */

static void a_job_runs_and_its_exit_code_is_kept(void **state)
{
	open_queue();
	uint64_t id = submit("k1", append("ran", "exit 3"), 1);
	struct answer end = ended(id);
	assert_int_equal(end.state, JOB_FAILED);
	assert_int_equal(end.reason, JOB_REASON_EXIT_CODE);
	assert_string_equal(end.text, "3");
	assert_int_equal(end.exit_code, 3);
	assert_int_equal(end.grants, 1);
	assert_int_equal(lines("ran"), 1);
	assert_true(fixture->changes > 0);
	assert_int_equal(queue_count(fixture->queue, JOB_PENDING), 0);
	assert_int_equal(queue_count(fixture->queue, JOB_STARTING), 0);
	assert_int_equal(queue_count(fixture->queue, JOB_RUNNING), 0);
}

static void jobs_wait_in_order_and_say_for_whom(void **state)
{
	open_queue();
	uint64_t first = submit("k1", until_go("first"), 2);
	uint64_t second = submit("k2", append("second", "true"), 1);
	wait_for(lines("first") == 1);
	wait_for(queue_find(fixture->queue, second)->reason == JOB_REASON_WAITING_FOR_GPU);
	assert_non_null(strstr(queue_find(fixture->queue, second)->reason_text, "job 1 of"));
	assert_ptr_equal(queue_next(fixture->queue, queue_first(fixture->queue)),
			 queue_find(fixture->queue, second));
	assert_null(queue_next(fixture->queue, queue_find(fixture->queue, second)));
	struct answer none;
	submit_as("k3", "true", 1, true, &none);
	wait_for(none.done);
	assert_int_equal(none.result, -EAGAIN);
	assert_int_equal(lines("second"), 0);
	go();
	assert_int_equal(ended(first).state, JOB_SUCCEEDED);
	assert_int_equal(ended(second).state, JOB_SUCCEEDED);
	assert_int_equal(lines("second"), 1);
}

static void what_no_machine_can_do_is_refused_with_both_numbers(void **state)
{
	open_queue();
	struct answer answer;
	submit_as("k1", "true", 3, false, &answer);
	wait_for(answer.done);
	assert_int_equal(answer.result, -ERANGE);
	assert_non_null(strstr(answer.text, "3"));
	assert_non_null(strstr(answer.text, "2"));
	assert_int_equal(ask(1).result, -ENOENT);
}

/* --- keys ------------------------------------------------------------------------------------ */

static void a_key_that_is_known_gets_its_job(void **state)
{
	open_queue();
	struct answer answer[3];
	for (size_t i = 0; i < 3; i++)
		submit_as("k1", i < 2 ? "exit 1" : "exit 2", 1, false, &answer[i]);
	for (size_t i = 0; i < 3; i++)
		wait_for(answer[i].done);
	assert_int_equal(answer[0].result, 0);
	assert_int_equal(answer[1].result, 0);
	assert_true(answer[1].known); /* in the same batch or in the one behind it */
	assert_int_equal(answer[1].id, answer[0].id);
	assert_int_equal(answer[2].result, -EEXIST);
	(void)ended(answer[0].id);
	reopen();
	submit_as("k1", "exit 1", 1, false, &answer[1]);
	wait_for(answer[1].done);
	assert_int_equal(answer[1].result, 0);
	assert_true(answer[1].known);
	assert_int_equal(answer[1].id, answer[0].id);
	/* The machine has become smaller since: the key is known all the same. */
	fixture->inventory.gpu_count = 0;
	fixture->policy = policy_free(fixture->policy);
	configure("version: v1\n");
	look();
	submit_as("k1", "exit 1", 1, false, &answer[1]);
	wait_for(answer[1].done);
	assert_int_equal(answer[1].result, 0);
	assert_int_equal(answer[1].id, answer[0].id);
}

static void a_batch_is_accepted_together(void **state)
{
	open_queue();
	struct answer answer[TEST_JOBS];
	char keys[TEST_JOBS][16];
	for (size_t i = 0; i < TEST_JOBS; i++) {
		(void)snprintf(keys[i], sizeof(keys[i]), "key-%zu", i);
		submit_as(keys[i], append("ran", "true"), 1, false, &answer[i]);
	}
	for (size_t i = 0; i < TEST_JOBS; i++) {
		wait_for(answer[i].done);
		assert_int_equal(answer[i].result, 0);
		assert_int_equal(answer[i].id, i + 1);
	}
	for (size_t i = 0; i < TEST_JOBS; i++)
		assert_int_equal(ended(answer[i].id).state, JOB_SUCCEEDED);
	assert_int_equal(lines("ran"), TEST_JOBS);
}

static void a_caller_who_is_gone_is_not_called(void **state)
{
	open_queue();
	struct answer gone, here;
	submit_as("k1", append("ran", "true"), 0, false, &gone);
	queue_submit_forget(fixture->queue, &gone);
	submit_as("k2", "true", 0, false, &here);
	wait_for(here.done);
	assert_false(gone.done);
	wait_for(lines("ran") == 1); /* what was accepted stays accepted */
}

/* --- cancelling ------------------------------------------------------------------------------ */

static void a_waiting_job_is_cancelled_for_good(void **state)
{
	open_queue();
	uint64_t first = submit("k1", until_go("first"), 2);
	uint64_t second = submit("k2", append("second", "true"), 1);
	wait_for(lines("first") == 1);
	assert_int_equal(cancel(second).result, 0);
	struct answer end = ended(second);
	assert_int_equal(end.state, JOB_CANCELLED);
	assert_int_equal(end.reason, JOB_REASON_USER);
	assert_string_equal(end.text, "alice");
	struct answer again = cancel(second);
	assert_int_equal(again.result, 0);
	assert_true(again.was_final);
	assert_int_equal(cancel(4711).result, -ENOENT);
	go();
	(void)ended(first);
	reopen();
	assert_int_equal(ask(second).state, JOB_CANCELLED);
	assert_int_equal(lines("second"), 0);
}

static void a_job_is_cancelled_while_it_starts(void **state)
{
	open_queue();
	struct answer answer;
	submit_as("k1", append("ran", "sleep 0.05"), 1, false, &answer);
	wait_for(answer.done);
	wait_for(!queue_find(fixture->queue, answer.id) || state_of(answer.id) == JOB_STARTING);
	if (queue_find(fixture->queue, answer.id))
		assert_int_equal(cancel(answer.id).result, 0);
	struct answer end = ended(answer.id);
	assert_int_equal(end.state, JOB_CANCELLED);
	assert_true(lines("ran") <= 1);
}

/* What keeps the storage thread busy. */
static int wait_for_byte(void *context)
{
	char byte;
	return read(*(int *)context, &byte, 1) == 1 ? 0 : -EIO;
}

static void is_read(void *context, int result)
{
	assert_int_equal(result, 0);
}

/* The supervisor has looked for the file already and does not listen yet; the disk is slow. */
static void a_cancel_reaches_a_supervisor_that_listens_later(void **state)
{
	int gate[2];
	fixture->mode = "listens-late";
	open_queue();
	uint64_t id = submit("k1", append("ran", "exec sleep 600"), 1);
	wait_for(lines("ran") == 1);
	assert_int_equal(pipe2(gate, O_CLOEXEC), 0);
	struct storage_job slow = {.work = wait_for_byte, .done = is_read, .context = &gate[0]};
	assert_int_equal(storage_submit(fixture->storage, &slow, NULL), 0);
	struct answer answer;
	begin_cancel(id, &answer);
	/* Longer than it is until the next attempt to reach the supervisor. */
	uint64_t until_ns = unit_now_ns() + 1200 * CLOCK_NS_PER_MS;
	while (unit_now_ns() < until_ns)
		assert_int_equal(loop_pass(fixture->loop, CLOCK_NS_PER_MS, NULL), 0);
	assert_false(answer.done);
	assert_int_equal(write(gate[1], "1", 1), 1);
	wait_for(answer.done);
	assert_int_equal(answer.result, 0);
	assert_int_equal(ended(id).state, JOB_CANCELLED);
	(void)close(gate[0]);
	(void)close(gate[1]);
}

static void what_runs_has_its_cancel_on_the_disk_before_the_answer(void **state)
{
	open_queue();
	uint64_t id = submit("k1", until_go("ran"), 1);
	wait_for(lines("ran") == 1);
	assert_int_equal(cancel(id).result, 0);
	assert_true(there("j/1/cancel"));
	assert_int_equal(state_of(id), JOB_STOPPING);
	go(); /* this supervisor does not listen */
	assert_int_equal(ended(id).state, JOB_CANCELLED);
}

/* Adapters are looked at again and again: only what is new costs a pass, and wakes who watches. */
static void pools_that_are_the_same_are_no_news(void **state)
{
	struct schedule_pool pool = {.name = "rdma/hca", .units = 4, .adapters = "mlx5_0"};
	const struct schedule_pools pools = {.items = &pool, .count = 1};
	open_queue();
	look();
	unsigned before = fixture->changes;
	assert_int_equal(queue_set_pools(fixture->queue, &pools), 0);
	wait_for(fixture->changes != before);
	before = fixture->changes;
	assert_int_equal(queue_set_pools(fixture->queue, &pools), 0);
	for (int i = 0; i < 5; i++)
		assert_int_equal(loop_pass(fixture->loop, 5 * 1000 * 1000, NULL), 0);
	assert_int_equal(fixture->changes, before);
	pool.units = 5;
	assert_int_equal(queue_set_pools(fixture->queue, &pools), 0);
	wait_for(fixture->changes != before);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    with(a_job_runs_and_its_exit_code_is_kept),
	    with(jobs_wait_in_order_and_say_for_whom),
	    with(what_no_machine_can_do_is_refused_with_both_numbers),
	    with(a_key_that_is_known_gets_its_job),
	    with(a_batch_is_accepted_together),
	    with(a_caller_who_is_gone_is_not_called),
	    with(a_waiting_job_is_cancelled_for_good),
	    with(a_job_is_cancelled_while_it_starts),
	    with(a_cancel_reaches_a_supervisor_that_listens_later),
	    with(what_runs_has_its_cancel_on_the_disk_before_the_answer),
	    with(pools_that_are_the_same_are_no_news),
	};
	place_in_memory();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
