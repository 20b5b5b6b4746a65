/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/compare.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/err.h"
#include "unit/unit.h"

/* A line per run with its value, so that nothing depends on the machine's clock. */
static regex_t value_line;

static int line_setup(void **state)
{
	return unit_top_setup(state) == 0 && regcomp(&value_line, "v=([0-9.]+)", REG_EXTENDED) == 0
		   ? 0
		   : -1;
}

static int line_teardown(void **state)
{
	regfree(&value_line);
	return unit_top_teardown(state);
}

static struct compare_plan plan_of(const char *a, const char *b, uint64_t pairs)
{
	return (struct compare_plan){.a = a,
				     .b = b,
				     .pairs = pairs,
				     .seed = 3,
				     .margin = 0.01,
				     .line = &value_line,
				     .metrics = {"output"},
				     .metric_count = 1};
}

static void run(const struct compare_plan *plan, struct compare_outcome *out)
{
	struct err err = {0};
	compare_init(out);
	if (compare_run(plan, out, &err) < 0)
		fail_msg("%s", err.text);
}

static void sides_run_in_their_order(void **state)
{
	char a[600], b[600], path[512];
	struct compare_outcome out;
	(void)snprintf(path, sizeof(path), "%s/order", unit_top);
	(void)snprintf(a, sizeof(a), "printf A >>%s; echo v=10", path);
	(void)snprintf(b, sizeof(b), "printf B >>%s; echo v=20", path);
	struct compare_plan plan = plan_of(a, b, 6);
	run(&plan, &out);
	char wanted[13] = "", got[64] = "";
	for (uint64_t i = 0; i < 12; i++)
		wanted[i] = verdict_run_is_b(3, i) ? 'B' : 'A';
	FILE *file = fopen(path, "re");
	assert_non_null(file);
	assert_non_null(fgets(got, sizeof(got), file));
	(void)fclose(file);
	assert_string_equal(got, wanted);
	assert_int_equal(out.runs.run_count, 12);
	for (size_t i = 0; i < 12; i++) {
		const struct result_run *one = &out.runs.runs[i];
		assert_int_equal(one->side[0], wanted[i]);
		assert_int_equal(one->slot, i % 2 + 1);
		assert_int_equal(one->block, i / 4);
		assert_true(result_run_find(one, "output")->value == (wanted[i] == 'B' ? 20 : 10));
	}
	assert_int_equal(compare_kind(&out), VERDICT_SLOWER);
	assert_true(out.judgements[0].median_a == 10 && out.judgements[0].median_b == 20);
	compare_done(&out);
}

static void a_side_that_differs_from_itself_gives_no_verdict(void **state)
{
	char a[700];
	struct compare_outcome out;
	/* Each time another value. */
	(void)snprintf(a, sizeof(a), "echo x >>%s/count; echo v=$(wc -l <%s/count)", unit_top,
		       unit_top);
	struct compare_plan plan = plan_of(a, "echo v=5", 12);
	plan.calibrates = true;
	run(&plan, &out);
	assert_int_equal(compare_kind(&out), VERDICT_REFUSED);
	assert_true(out.judgements[0].has_calibration);
	assert_true(out.judgements[0].resolution > plan.margin);
	assert_int_equal(out.calibration.run_count, 24);
	assert_string_equal(out.calibration.runs[0].side[0] == 'A' ? "A" : "", "A");
	compare_done(&out);
}

static void a_quiet_side_is_compared(void **state)
{
	struct compare_outcome out;
	struct compare_plan plan = plan_of("echo v=100", "echo v=100.2", 6);
	plan.calibrates = true;
	run(&plan, &out);
	assert_int_equal(compare_kind(&out), VERDICT_DIFFERENT_BUT_SMALL);
	compare_done(&out);
}

static void one_failed_run_is_enough(void **state)
{
	char b[700];
	struct compare_outcome out;
	(void)snprintf(
	    b, sizeof(b),
	    "echo x >>%s/runs; test $(wc -l <%s/runs) != 4 || { echo broke >&2; exit 5; }; "
	    "echo v=1",
	    unit_top, unit_top);
	struct compare_plan plan = plan_of("echo v=1", b, 6);
	run(&plan, &out);
	assert_int_equal(compare_kind(&out), VERDICT_FAILED);
	assert_int_equal(out.failed_runs, 1);
	assert_int_equal(out.failure->rc, 5);
	assert_string_equal(out.failure->tail, "broke\n");
	assert_int_equal(out.runs.run_count, 12); /* none was dropped */
	compare_done(&out);
}

static void a_side_that_never_works_is_told_at_once(void **state)
{
	struct compare_outcome out;
	struct err err = {0};
	struct compare_plan plan = plan_of("echo v=1", "echo why >&2; exit 4", 1000);
	plan.warmups = 1;
	compare_init(&out);
	assert_int_equal(compare_run(&plan, &out, &err), -ECANCELED);
	assert_non_null(strstr(err.text, "B fails"));
	assert_non_null(strstr(err.text, "why"));
	plan.warmups = 0;
	plan.setup_a = "echo no disk >&2; false";
	assert_int_equal(compare_run(&plan, &out, &err), -ECANCELED);
	assert_non_null(strstr(err.text, "setup of A"));
	compare_done(&out);
}

static void a_metric_that_nobody_has(void **state)
{
	struct compare_outcome out;
	struct err err = {0};
	struct compare_plan plan = plan_of("echo v=1", "echo nothing", 6);
	compare_init(&out);
	assert_int_equal(compare_run(&plan, &out, &err), -EINVAL);
	assert_non_null(strstr(err.text, "B has no metric 'output'; it has wall, cpu, rss"));
	compare_done(&out);
}

/* Undecided at first: values that differ by more than the margin, from a file of them. */
static void a_second_look_goes_on(void **state)
{
	char b[700];
	struct compare_outcome out;
	(void)snprintf(
	    b, sizeof(b),
	    "echo x >>%s/n; i=$(wc -l <%s/n); test $((i %% 2)) = 0 && echo v=100.9 || echo "
	    "v=99.1",
	    unit_top, unit_top);
	struct compare_plan plan = plan_of("echo v=100", b, 6);
	plan.max_pairs = 9;
	run(&plan, &out);
	assert_int_equal(out.looks, 2);
	assert_in_range(out.runs.run_count, 12, 18);
	assert_int_equal(out.runs.run_count % 2, 0);
	compare_done(&out);
}

static void recorded_ones(void **state)
{
	struct compare_outcome first, again, apart;
	struct err err = {0};
	static const char *const metrics[] = {"output"};
	struct compare_plan plan = plan_of("echo v=10", "echo v=11", 6);
	run(&plan, &first);
	compare_init(&again);
	compare_init(&apart);
	assert_int_equal(compare_recorded(&first.runs, &first.runs, 0.01, metrics, 1, &apart, &err),
			 0);
	assert_true(apart.judgements[0].is_unpaired);
	assert_int_equal(compare_kind(&apart), VERDICT_EQUIVALENT); /* with itself */
	again.runs = first.runs;
	first.runs.runs[1].side[0] = first.runs.runs[0].side[0];
	assert_int_equal(compare_again(&plan, &again, &err), -EINVAL);
	again.runs.run_count -= 1;
	assert_int_equal(compare_recorded(&first.runs, &again.runs, 0.01, metrics, 1, &apart, &err),
			 -EINVAL);
	assert_non_null(strstr(err.text, "A has 12 runs and B has 11"));
	compare_done(&first);
}

/* Three metrics without a difference, one of which looks like one by chance. */
static void several_metrics_are_one_family(void **state)
{
	char b[600];
	struct compare_outcome out;
	(void)snprintf(b, sizeof(b), "echo x >>%s/n; echo v=11.$(wc -l <%s/n)", unit_top, unit_top);
	struct compare_plan plan = plan_of("echo v=10", b, 6);
	plan.metrics[1] = "rss";
	plan.metric_count = 2;
	run(&plan, &out);
	assert_int_equal(out.judgement_count, 2);
	/* Six pairs on one side have a chance of 2/64; twice that is more than 0.05. */
	assert_true(out.judgements[0].verdict.p == 2.0 / 64);
	assert_true(out.judgements[0].p_corrected >= 4.0 / 64);
	assert_int_equal(out.judgements[0].verdict.kind, VERDICT_INCONCLUSIVE);
	compare_done(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(sides_run_in_their_order, line_setup, line_teardown),
	    cmocka_unit_test_setup_teardown(a_side_that_differs_from_itself_gives_no_verdict,
					    line_setup, line_teardown),
	    cmocka_unit_test_setup_teardown(a_quiet_side_is_compared, line_setup, line_teardown),
	    cmocka_unit_test_setup_teardown(one_failed_run_is_enough, line_setup, line_teardown),
	    cmocka_unit_test_setup_teardown(a_side_that_never_works_is_told_at_once, line_setup,
					    line_teardown),
	    cmocka_unit_test_setup_teardown(a_metric_that_nobody_has, line_setup, line_teardown),
	    cmocka_unit_test_setup_teardown(a_second_look_goes_on, line_setup, line_teardown),
	    cmocka_unit_test_setup_teardown(recorded_ones, line_setup, line_teardown),
	    cmocka_unit_test_setup_teardown(several_metrics_are_one_family, line_setup,
					    line_teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
