/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/queue/schedule/schedule_order.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "job/job.h"
#include "unit/failmalloc.h"
#include "unit/unit.h"

enum test_limits { TEST_JOBS = 1000, TEST_TEXT = 8192, NOW = 100, GPU_SCORE = 100 };

#define BY(r) (&(struct schedule_order_by){.rule = (r), .now_ns = NOW, .gpu_score = GPU_SCORE})

/* Each job gets as many GPUs as it wants. "3 1 2 ": the order. */
static const char *order_of(const struct job *jobs, size_t count, enum rules_order rule,
			    struct schedule_order *order)
{
	static char text[TEST_TEXT];
	const struct job *list[TEST_JOBS];
	size_t length = 0;
	for (size_t i = 0; i < count; i++)
		list[i] = &jobs[i];
	text[0] = '\0';
	assert_int_equal(schedule_order_make(list, count, BY(rule), order, NULL), 0);
	const struct job *job;
	uint64_t *gpus;
	while ((job = schedule_order_next(order, &gpus))) {
		*gpus += job->gpus;
		length +=
		    (size_t)snprintf(text + length, sizeof(text) - length, "%" PRIu64 " ", job->id);
	}
	schedule_order_done(order);
	return text;
}

#define ORDER(rule, ...)                                                                           \
	order_of((const struct job[]){__VA_ARGS__},                                                \
		 sizeof((const struct job[]){__VA_ARGS__}) / sizeof(struct job), rule,             \
		 &(struct schedule_order){.count = 0})
#define JOB(i, user, n, ...) ((struct job){.id = (i), .uid = (user), .gpus = (n), __VA_ARGS__})

static void test_submission(void **state)
{
	assert_string_equal(order_of(NULL, 0, RULES_ORDER_FIFO, &(struct schedule_order){.at = 0}),
			    "");
	assert_string_equal(ORDER(RULES_ORDER_FIFO, JOB(1, 7, 0), JOB(2, 8, 0), JOB(3, 7, 0)),
			    "1 2 3 ");
}

static void test_score(void **state)
{
	assert_string_equal(ORDER(RULES_ORDER_FIFO, JOB(1, 7, 0, .own_score = -5), JOB(2, 7, 0),
				  JOB(3, 7, 0, .own_score = INT64_C(9000000000)), JOB(4, 7, 0),
				  JOB(5, 7, 0, .own_score = 1)),
			    "3 5 2 4 1 ");
	/* What a user has had is against all of their jobs. */
	assert_string_equal(
	    ORDER(RULES_ORDER_FIFO, JOB(1, 7, 0, .own_score = 50, .usage_score = 40),
		  JOB(2, 7, 0, .own_score = 60, .usage_score = 40), JOB(3, 8, 0, .own_score = 15),
		  JOB(4, 8, 0, .own_score = 10), JOB(5, 9, 0, .own_score = 10)),
	    "2 3 1 4 5 ");
	/* And each GPU that they get. */
	assert_string_equal(ORDER(RULES_ORDER_FIFO, JOB(1, 7, 2, .own_score = 300),
				  JOB(2, 7, 1, .own_score = 300), JOB(3, 8, 1, .own_score = 101),
				  JOB(4, 8, 1, .own_score = 101), JOB(5, 9, 1, .own_score = 99)),
			    "1 3 2 5 4 ");
}

/* Of a priority and below: what has the pledge, what has a turn, all others by score. */
static void test_lifted(void **state)
{
	assert_string_equal(ORDER(RULES_ORDER_FIFO, JOB(1, 7, 1, .own_score = 90),
				  JOB(2, 7, 2, .has_turn = true), JOB(3, 8, 2, .due_ns = NOW),
				  JOB(4, 8, 2, .due_ns = NOW + 1, .own_score = 95),
				  JOB(5, 8, 1, .wants.priority = 1, .own_score = 80),
				  JOB(6, 9, 1, .wants.priority = -1, .own_score = 99),
				  JOB(7, 9, 2, .wants.priority = -1, .due_ns = 1),
				  JOB(8, 9, 2, .due_ns = NOW - 1, .has_turn = true)),
			    "5 3 2 8 1 4 7 6 ");
	/* Of whatever width, or none. */
	assert_string_equal(ORDER(RULES_ORDER_FIFO, JOB(1, 7, 1), JOB(2, 8, 1, .due_ns = 1)),
			    "2 1 ");
	assert_string_equal(ORDER(RULES_ORDER_FIFO, JOB(1, 7, 2), JOB(2, 8, 0, .due_ns = 1),
				  JOB(3, 9, 2, .due_ns = 1)),
			    "2 1 3 ");
}

static void test_users_take_turns(void **state)
{
	/* All of one user's came first. */
	assert_string_equal(ORDER(RULES_ORDER_FIFO, JOB(1, 7, 1), JOB(2, 7, 1), JOB(3, 7, 1),
				  JOB(4, 8, 1), JOB(5, 8, 1), JOB(6, 9, 3)),
			    "1 4 6 2 5 3 ");
	/* A wide one counts as what it is. */
	assert_string_equal(ORDER(RULES_ORDER_FIFO, JOB(1, 7, 3), JOB(2, 7, 1), JOB(3, 8, 1),
				  JOB(4, 8, 1), JOB(5, 8, 1), JOB(6, 8, 1)),
			    "1 3 4 5 2 6 ");
}

static void test_what_runs_counts(void **state)
{
	struct schedule_order order = {.count = 0};
	uint32_t place;
	assert_int_equal(schedule_tally_find(&order.users, 7, &place), 0);
	order.users.counts[place] = 2;
	const struct job jobs[] = {JOB(1, 7, 1), JOB(2, 8, 1), JOB(3, 8, 1), JOB(4, 8, 1)};
	assert_string_equal(order_of(jobs, 4, RULES_ORDER_FIFO, &order), "2 3 1 4 ");
}

static void test_who_has_a_turn_keeps_it(void **state)
{
	assert_string_equal(ORDER(RULES_ORDER_FIFO, JOB(1, 7, 9), JOB(2, 8, 1),
				  JOB(3, 7, 1, .has_turn = true), JOB(4, 7, 1, .has_turn = true),
				  JOB(5, 8, 1, .wants.priority = 1, .own_score = 900)),
			    "5 3 4 2 1 ");
}

static void test_shortest(void **state)
{
	assert_string_equal(
	    ORDER(RULES_ORDER_SHORTEST, JOB(1, 7, 1), JOB(2, 7, 1, .wants.time_ns = 9),
		  JOB(3, 7, 1, .wants.time_ns = 3), JOB(4, 8, 1, .wants.time_ns = 9),
		  JOB(5, 7, 1, .wants.time_ns = 3),
		  JOB(6, 8, 1, .wants.time_ns = 20, .wants.priority = 2)),
	    "6 3 5 4 2 1 ");
	assert_string_equal(ORDER(RULES_ORDER_FIFO, JOB(1, 7, 0), JOB(2, 7, 0, .wants.time_ns = 9)),
			    "1 2 ");
}

/* Against the rule once more, naively. */
static void test_many(void **state)
{
	static struct job jobs[TEST_JOBS];
	const struct job *list[TEST_JOBS];
	bool done[TEST_JOBS] = {false};
	uint64_t has[50] = {0}, *gpus;
	for (size_t i = 0; i < TEST_JOBS; i++) {
		jobs[i] = (struct job){
		    .id = i + 1, .uid = (uid_t)(i * 7919 % 50), .gpus = (uint32_t)(i * 31 % 4)};
		jobs[i].own_score = (int64_t)(i * 13 % 7) * 150;
		jobs[i].usage_score = (int64_t)(jobs[i].uid * 17 % 50) * 20;
		list[i] = &jobs[i];
	}
	struct schedule_order order = {.count = 0};
	assert_int_equal(schedule_order_make(list, TEST_JOBS, BY(RULES_ORDER_FIFO), &order, NULL),
			 0);
	for (size_t n = 0; n < TEST_JOBS; n++) {
		const struct job *job = schedule_order_next(&order, &gpus), *best = NULL;
		int64_t best_score = 0;
		for (size_t i = 0; i < TEST_JOBS; i++) {
			const struct job *one = &jobs[i];
			if (done[i])
				continue;
			int64_t score =
			    one->own_score - one->usage_score - (int64_t)has[one->uid] * GPU_SCORE;
			if (!best || score > best_score) {
				best = one;
				best_score = score;
			}
		}
		assert_ptr_equal(job, best);
		done[job->id - 1] = true;
		if (n % 3 != 0) { /* not each can start */
			has[job->uid] += job->gpus;
			*gpus += job->gpus;
		}
	}
	assert_null(schedule_order_next(&order, &gpus));
	schedule_order_done(&order);
}

static int make(void *context)
{
	static struct job jobs[200];
	const struct job *list[200];
	for (size_t i = 0; i < 200; i++) {
		jobs[i].uid = (uid_t)i;
		list[i] = &jobs[i];
	}
	struct schedule_order order = {.count = 0};
	int rc = schedule_order_make(list, 200, BY(RULES_ORDER_SHORTEST), &order, NULL);
	schedule_order_done(&order);
	return rc;
}

static void test_out_of_memory(void **state)
{
	assert_true(failmalloc_each(make, NULL) >= 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_submission),	     cmocka_unit_test(test_score),
	    cmocka_unit_test(test_lifted),	     cmocka_unit_test(test_users_take_turns),
	    cmocka_unit_test(test_what_runs_counts), cmocka_unit_test(test_who_has_a_turn_keeps_it),
	    cmocka_unit_test(test_shortest),	     cmocka_unit_test(test_many),
	    cmocka_unit_test(test_out_of_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
