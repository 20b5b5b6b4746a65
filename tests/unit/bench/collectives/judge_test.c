/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/collectives/judge.h"

#include <math.h>
#include <string.h>

#include "base/err.h"
#include "bench/collectives/request.h"
#include "unit/unit.h"

static struct request request;
static struct sheet sheet;

/* A run of two rows: 8 bytes in 5 us, 4 MiB in 1 ms (4.19 GB/s). */
static void run_checked(uint32_t ranks, uint32_t checks)
{
	request = (struct request){.checks = checks};
	sheet_init(&sheet, &request);
	sheet.ranks = ranks;
	for (int i = 0; i < 2; i++) {
		struct measure_row row = {.plan = {.op = COLLECTIVE_BROADCAST}};
		row.plan.type = COLLECTIVE_F32;
		row.out_of_place = (struct measure_side){.is_there = true,
							 .is_checked = checks > 0,
							 .stream = i ? 1e-3 : 5e-6,
							 .isolated = NAN};
		collective_shape(COLLECTIVE_BROADCAST, COLLECTIVE_F32, i ? 4 << 20 : 8, ranks,
				 &row.plan.shape);
		sheet_count(&sheet, &row);
	}
}

static void run(uint32_t ranks)
{
	run_checked(ranks, 1);
}

/* The exit code, and the status of the check that was made last. -1: no memory. */
static int judged(const char *expectations, const char **out_last)
{
	static const char *last;
	struct expect expect _cleanup_expect_ = {0};
	struct judge judge _cleanup_judge_ = {0};
	struct err err = {0};
	if (expectations && expect_parse(expectations, strlen(expectations), &expect, &err) < 0)
		return -1;
	if (judge_make(&sheet, &expect, &judge) < 0)
		return -1;
	last = check_status_to_string(judge.checks.list[judge.checks.count - 1].status);
	if (out_last)
		*out_last = last;
	return judge.exit;
}

static void assert_judged(const char *expectations, int exit, const char *status)
{
	const char *last = NULL;
	int code = judged(expectations, &last);
	if (code < 0)
		return;
	assert_int_equal(code, exit);
	assert_string_equal(last, status);
}

static void right_slow_wrong_and_nothing(void **state)
{
	run(2);
	assert_judged(NULL, FINDINGS_EXIT_RIGHT, "PASS");
	sheet.wrong_sides = 1;
	assert_judged(NULL, FINDINGS_EXIT_WRONG, "FAIL");
	run_checked(2, 0);
	assert_judged(NULL, FINDINGS_EXIT_RIGHT, "SKIP");
	run(1);
	assert_judged(NULL, FINDINGS_EXIT_NOTHING, "PASS");
	request.options.allow_single = true;
	assert_judged(NULL, FINDINGS_EXIT_RIGHT, "PASS");
	sheet_init(&sheet, &request);
	sheet.ranks = 2;
	assert_judged(NULL, FINDINGS_EXIT_NOTHING, "SKIP");
}

static void what_did_not_end_or_compared_nothing_is_no_pass(void **state)
{
	run(2);
	sheet.failure = "rank 1 was killed";
	assert_judged(NULL, FINDINGS_EXIT_WRONG, "FAIL");
	struct judge judge _cleanup_judge_ = {0};
	if (judge_make(&sheet, NULL, &judge) < 0)
		return;
	assert_int_equal(judge.checks.count, 2);
	assert_string_equal(judge.checks.list[0].name, "elements");
	assert_int_equal(judge.checks.list[0].status, CHECK_SKIP);
	assert_string_equal(judge.checks.list[1].name, "run");
	assert_string_equal(judge.checks.list[1].reason, "rank 1 was killed");
	run(2);
	sheet.checked_sides = 0; /* every size was rounded down to nothing */
	assert_judged(NULL, FINDINGS_EXIT_NOTHING, "SKIP");
}

static void gates_are_judged_by_their_sizes(void **state)
{
	run(2);
	request.options.min_busbw = 4;
	assert_judged(NULL, FINDINGS_EXIT_RIGHT, "PASS");
	request.options.min_busbw = 5;
	assert_judged(NULL, FINDINGS_EXIT_POOR, "SLOW");
	sheet.ops[COLLECTIVE_BROADCAST].largest_bytes = 4096;
	assert_judged(NULL, FINDINGS_EXIT_RIGHT, "SKIP");
	run(2);
	request.options.max_latency_us = 4;
	assert_judged(NULL, FINDINGS_EXIT_POOR, "SLOW");
	request.options.max_latency_us = 6;
	assert_judged(NULL, FINDINGS_EXIT_RIGHT, "PASS");
	sheet.ops[COLLECTIVE_BROADCAST].smallest_bytes = 1 << 20;
	assert_judged(NULL, FINDINGS_EXIT_RIGHT, "SKIP");
	run(2);
	request.min_average = 1000;
	assert_judged(NULL, FINDINGS_EXIT_POOR, "SLOW");
	request.min_average = 0.1;
	assert_judged(NULL, FINDINGS_EXIT_RIGHT, "PASS");
}

static void expectations_that_nothing_met_are_no_success(void **state)
{
	run(2); /* expectations get their values by expect_row(), and here none does */
	assert_judged("broadcast float 8 latency_us <= 3", FINDINGS_EXIT_NOTHING, "SKIP");
	assert_judged("# none", FINDINGS_EXIT_RIGHT, "PASS");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(right_slow_wrong_and_nothing),
	    cmocka_unit_test(what_did_not_end_or_compared_nothing_is_no_pass),
	    cmocka_unit_test(gates_are_judged_by_their_sizes),
	    cmocka_unit_test(expectations_that_nothing_met_are_no_success),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
