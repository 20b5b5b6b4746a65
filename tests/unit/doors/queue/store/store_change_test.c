/* SPDX-License-Identifier: Apache-2.0 */
/* What a job becomes after it was accepted: held, changed, tried again; arrays, and what goes when
 * its own time is over. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unit/doors/queue/store/store_common.h"
#include "unit/unit.h"

static struct place place;
static struct store *store;

static int setup(void **state)
{
	place = place_make();
	store = must_open(place.path);
	return 0;
}

static int teardown(void **state)
{
	store = store_close(store);
	place_done(&place);
	return 0;
}

static void reopen(void)
{
	store = store_close(store);
	store = must_open(place.path);
}

/* What is stored of a job; job_done() the seen.last. */
static struct seen look(uint64_t id)
{
	struct seen seen = {.count = 0};
	assert_int_equal(store_get(store, id, see, &seen, NULL), 0);
	return seen;
}

static void check_state(uint64_t id, enum job_state state, enum job_reason reason)
{
	struct seen seen = look(id);
	assert_int_equal(seen.last.state, state);
	assert_int_equal(seen.last.reason, reason);
	job_done(&seen.last);
}

static void what_a_job_wants_is_kept(void **state)
{
	struct job job = make_job(1);
	char after[] = "7,ok:8";
	job.state = JOB_HELD;
	job.reason = JOB_REASON_SUSPENDED;
	job.wants.priority = -3;
	job.wants.after = after;
	job.array_id = 1;
	job.array_index = 0;
	assert_int_equal(accept_job(store, &job, "x", NULL), 0);
	reopen();
	struct seen seen = {.count = 0};
	assert_int_equal(store_load(store, see_live, &seen, NULL), 0);
	assert_int_equal(seen.count, 1);
	assert_int_equal(seen.last.state, JOB_HELD);
	assert_int_equal(seen.last.reason, JOB_REASON_SUSPENDED);
	assert_int_equal(seen.last.wants.priority, -3);
	assert_string_equal(seen.last.wants.after, after);
	assert_int_equal(seen.last.array_id, 1);
	job_done(&seen.last);
	struct job running = make_job(2);
	running.state = JOB_RUNNING;
	assert_int_equal(accept_job(store, &running, "x", NULL), -EINVAL);
}

static void a_change_is_kept_or_nothing_of_it(void **state)
{
	for (uint64_t id = 1; id <= 3; id++)
		must_accept(store, id);
	assert_int_equal(end_job(store, 3, JOB_SUCCEEDED, SECOND), 0);
	struct job jobs[3] = {make_job(1), make_job(2), make_job(3)};
	struct store_change changes[3] = {{.job = &jobs[0]}, {.job = &jobs[1]}, {.job = &jobs[2]}};
	char text[] = "17";
	jobs[0].state = JOB_HELD;
	jobs[0].reason = JOB_REASON_USER;
	jobs[0].wants.priority = 9;
	jobs[1].state = JOB_CANCELLED;
	jobs[1].reason = JOB_REASON_DEPENDENCY_FAILED;
	jobs[1].reason_text = text;
	jobs[1].ended_unix_ns = 5 * SECOND;
	changes[0].spec = "new";
	changes[0].spec_length = 3;
	assert_int_equal(store_change(store, changes, 3, NULL), -EALREADY);
	check_state(1, JOB_PENDING, JOB_REASON_NONE);
	jobs[2].id = 99;
	assert_int_equal(store_change(store, changes, 3, NULL), -ENOENT);
	check_state(2, JOB_PENDING, JOB_REASON_NONE);
	assert_int_equal(store_change(store, changes, 2, NULL), 0);
	assert_int_equal(store_change(store, &changes[1], 1, NULL), 0); /* once more */
	reopen();
	check_state(1, JOB_HELD, JOB_REASON_USER);
	check_state(2, JOB_CANCELLED, JOB_REASON_DEPENDENCY_FAILED);
	char *spec = NULL;
	size_t length = 0;
	assert_int_equal(store_spec(store, 1, &spec, &length, NULL), 0);
	assert_string_equal(spec, "new");
	free(spec);
	struct seen seen = look(1);
	assert_int_equal(seen.last.wants.priority, 9);
	job_done(&seen.last);
}

struct attempts {
	size_t count;
	struct store_attempt last;
	char text[32];
};

static int see_attempt(const struct store_attempt *attempt, void *context)
{
	struct attempts *seen = context;
	seen->count++;
	seen->last = *attempt;
	(void)snprintf(seen->text, sizeof(seen->text), "%s",
		       attempt->reason_text ? attempt->reason_text : "-");
	return 0;
}

static struct job failed(uint64_t id, uint32_t attempt, int64_t started, int64_t ended)
{
	struct job job = make_job(id);
	static char text[] = "3";
	job.state = JOB_FAILED;
	job.reason = JOB_REASON_EXIT_CODE;
	job.reason_text = text;
	job.has_exit = true;
	job.exit_code = 3;
	job.attempt = job.failed_attempts = attempt;
	job.started_unix_ns = started;
	job.ended_unix_ns = ended;
	job.not_before_unix_ns = ended + SECOND;
	return job;
}

static void another_attempt_keeps_the_one_before(void **state)
{
	must_accept(store, 1);
	for (uint32_t n = 1; n <= 2; n++) {
		struct job end = failed(1, n, 10 * n * SECOND, (10 * n + 4) * SECOND);
		assert_int_equal(store_start(store, 1, n, "g", 10 * n * SECOND, NULL), 0);
		assert_int_equal(store_retry(store, &end, "until noon", "o", NULL), 0);
		reopen();
		struct seen seen = {.count = 0};
		assert_int_equal(store_load(store, see_live, &seen, NULL), 0);
		assert_int_equal(seen.count, 1);
		assert_int_equal(seen.last.state, JOB_PENDING);
		assert_int_equal(seen.last.reason, JOB_REASON_BACKOFF);
		assert_string_equal(seen.last.reason_text, "until noon");
		assert_int_equal(seen.last.attempt, n);
		assert_int_equal(seen.last.failed_attempts, n);
		assert_int_equal(seen.last.not_before_unix_ns, end.not_before_unix_ns);
		assert_string_equal(seen.grants, "NULL"); /* nothing of it runs */
		job_done(&seen.last);
	}
	int64_t used = 0;
	assert_int_equal(store_used(store, 1, 9, &used, NULL), 0);
	assert_int_equal(used, 8 * SECOND);
	assert_int_equal(store_used(store, 1, 1, &used, NULL), 0);
	assert_int_equal(used, 4 * SECOND);
	/* Cancelled between two attempts: the last one ended as it did. */
	assert_int_equal(end_job(store, 1, JOB_CANCELLED, 99 * SECOND), 0);
	struct attempts seen = {.count = 0};
	assert_int_equal(store_attempts(store, 1, see_attempt, &seen, NULL), 0);
	assert_int_equal(seen.count, 2);
	assert_int_equal(seen.last.ended_unix_ns, 24 * SECOND);
	assert_int_equal(seen.last.reason, JOB_REASON_EXIT_CODE);
	assert_string_equal(seen.text, "3");
	assert_true(seen.last.has_exit && seen.last.exit_code == 3);
	struct job end = failed(1, 2, 0, SECOND);
	assert_int_equal(store_retry(store, &end, "", NULL, NULL), -EALREADY);
}

static void a_final_job_begins_anew(void **state)
{
	must_accept(store, 1);
	assert_int_equal(store_reopen(store, (const uint64_t[]){1}, 1, NULL), -EALREADY);
	assert_int_equal(store_reopen(store, (const uint64_t[]){2}, 1, NULL), -ENOENT);
	struct job end = failed(1, 1, SECOND, 2 * SECOND);
	assert_int_equal(store_start(store, 1, 1, "g", SECOND, NULL), 0);
	assert_int_equal(store_end(store, &end, NULL, NULL), 0);
	assert_int_equal(store_reopen(store, (const uint64_t[]){1}, 1, NULL), 0);
	reopen();
	struct seen seen = look(1);
	assert_int_equal(seen.last.state, JOB_PENDING);
	assert_int_equal(seen.last.attempt, 1); /* the next is the second */
	assert_int_equal(seen.last.failed_attempts, 0);
	assert_false(seen.last.has_exit);
	job_done(&seen.last);
	assert_int_equal(store_start(store, 1, 2, "g", 3 * SECOND, NULL), 0);
}

static void accept_array(uint64_t first, uint32_t count)
{
	struct job jobs[8];
	struct store_accept rows[8];
	assert_true(count <= 8);
	for (uint32_t i = 0; i < count; i++) {
		jobs[i] = make_job(first + i);
		jobs[i].array_id = first;
		jobs[i].array_index = i;
		rows[i] = (struct store_accept){.job = &jobs[i]};
	}
	rows[0].spec = "of all";
	rows[0].spec_length = 6;
	assert_int_equal(store_accept(store, rows, count, NULL), 0);
}

static void end_member(uint64_t first, uint32_t index, enum job_state state)
{
	struct job job = make_job(first + index);
	job.state = state;
	job.failed_attempts = state == JOB_FAILED ? 2 : 1;
	job.ended_unix_ns = (int64_t)(1 + index) * SECOND;
	assert_int_equal(store_end(store, &job, NULL, NULL), 0);
}

static void check_spec(uint64_t id, const char *expected)
{
	char *spec = NULL;
	size_t length = 0;
	int rc = store_spec(store, id, &spec, &length, NULL);
	assert_int_equal(rc, expected ? 0 : -ENOENT);
	if (expected)
		assert_string_equal(spec, expected);
	free(spec);
}

static void the_members_of_an_array_share_what_they_run(void **state)
{
	accept_array(1, 4);
	must_accept(store, 5);
	check_spec(3, "of all");
	end_member(1, 0, JOB_FAILED);
	end_member(1, 1, JOB_SUCCEEDED);
	struct store_array array;
	assert_int_equal(store_array(store, 1, &array, NULL), 0);
	assert_int_equal(array.count, 4);
	assert_int_equal(array.live, 2);
	assert_int_equal(array.succeeded, 1);
	assert_int_equal(array.failed, 1);
	assert_int_equal(array.failed_attempts, 3);
	/* None is forgotten before the others have ended. */
	uint64_t *ids = NULL;
	size_t count = 0;
	assert_int_equal(store_forget(store, INT64_MAX, 0, 99, &ids, &count, NULL), 0);
	assert_int_equal(count, 0);
	free(ids);
	end_member(1, 2, JOB_CANCELLED);
	end_member(1, 3, JOB_CANCELLED);
	/* The first is forgotten, and the others run the same. */
	assert_int_equal(store_forget(store, SECOND + 1, 0, 99, &ids, &count, NULL), 0);
	assert_int_equal(count, 1);
	free(ids);
	check_spec(1, NULL);
	check_spec(3, "of all");
	assert_int_equal(store_forget(store, INT64_MAX, 0, 99, &ids, &count, NULL), 0);
	assert_int_equal(count, 3);
	free(ids);
	check_spec(3, NULL);
	check_spec(5, "spec of 5");
	assert_int_equal(store_array(store, 1, &array, NULL), 0);
	assert_int_equal(array.count, 0);
}

static void a_jobs_own_time_wins(void **state)
{
	int64_t next = 0;
	for (uint64_t id = 1; id <= 3; id++)
		must_accept(store, id);
	assert_int_equal(store_next_forget(store, &next, NULL), 0);
	assert_true(next == INT64_MAX);
	struct job job = make_job(1);
	job.state = JOB_SUCCEEDED;
	job.ended_unix_ns = 10 * SECOND;
	job.wants.has_ttl = true;
	job.wants.ttl_ns = 5 * SECOND;
	assert_int_equal(store_end(store, &job, NULL, NULL), 0);
	job.id = 2;
	job.wants.ttl_ns = UINT64_MAX; /* never */
	assert_int_equal(store_end(store, &job, NULL, NULL), 0);
	assert_int_equal(end_job(store, 3, JOB_SUCCEEDED, 10 * SECOND), 0);
	assert_int_equal(store_next_forget(store, &next, NULL), 0);
	assert_true(next == 15 * SECOND);
	uint64_t *ids = NULL;
	size_t count = 0;
	/* Old, and too many: but its own time is not over. */
	assert_int_equal(store_forget(store, 11 * SECOND, 14 * SECOND, 0, &ids, &count, NULL), 0);
	assert_int_equal(count, 1);
	assert_int_equal(ids[0], 3);
	free(ids);
	assert_int_equal(store_forget(store, 0, 15 * SECOND, 99, &ids, &count, NULL), 0);
	assert_int_equal(count, 1);
	assert_int_equal(ids[0], 1);
	free(ids);
	struct seen seen = look(2);
	job_done(&seen.last);
}

static void a_member_whose_array_goes_on_is_nothing_to_wake_for(void **state)
{
	int64_t next = 0;
	accept_array(1, 2);
	must_accept(store, 3);
	struct job ended = make_job(1);
	ended.array_id = 1;
	ended.state = JOB_SUCCEEDED;
	ended.ended_unix_ns = 10 * SECOND;
	ended.wants.has_ttl = true;
	ended.wants.ttl_ns = (uint64_t)SECOND;
	assert_int_equal(store_end(store, &ended, NULL, NULL), 0);
	assert_int_equal(store_next_forget(store, &next, NULL), 0);
	assert_int_equal(next, INT64_MAX);
	ended.id = 2;
	assert_int_equal(store_end(store, &ended, NULL, NULL), 0);
	assert_int_equal(store_next_forget(store, &next, NULL), 0);
	assert_int_equal(next, 11 * SECOND);
}

static void the_queue_stays_drained(void **state)
{
	bool is_draining = true;
	assert_int_equal(store_is_draining(store, &is_draining, NULL), 0);
	assert_false(is_draining);
	assert_int_equal(store_set_draining(store, true, NULL), 0);
	reopen();
	assert_int_equal(store_is_draining(store, &is_draining, NULL), 0);
	assert_true(is_draining);
	assert_int_equal(store_set_draining(store, false, NULL), 0);
	assert_int_equal(store_is_draining(store, &is_draining, NULL), 0);
	assert_false(is_draining);
}

#define with(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	place_in_memory();
	const struct CMUnitTest tests[] = {
	    with(what_a_job_wants_is_kept),
	    with(a_change_is_kept_or_nothing_of_it),
	    with(another_attempt_keeps_the_one_before),
	    with(a_final_job_begins_anew),
	    with(the_members_of_an_array_share_what_they_run),
	    with(a_jobs_own_time_wins),
	    with(a_member_whose_array_goes_on_is_nothing_to_wake_for),
	    with(the_queue_stays_drained),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
