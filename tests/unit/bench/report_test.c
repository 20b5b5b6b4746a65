/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/report.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/err.h"
#include "bench/compare.h"
#include "unit/unit.h"

static char *const nobody[] = {NULL};

/* Eight pairs of 10 and 10.5, made by hand. */
static void fill(struct compare_outcome *out)
{
	struct err err = {0};
	compare_init(out);
	for (uint64_t i = 0; i < 16; i++) {
		struct result_run *run = result_add_run(&out->runs);
		bool is_b = verdict_run_is_b(1, i);
		assert_non_null(run);
		double value = (is_b ? 10.5 : 10) + 0.001 * (double)(i / 4);
		(void)snprintf(run->side, sizeof(run->side), "%s", is_b ? "B" : "A");
		run->index = i;
		run->start_ns = 1000000000;
		run->end_ns = 2000000000;
		run->steal_ms = i == 3 ? 50 : 0;
		assert_int_equal(result_run_add(run, "wall", "s", false, &value, 1, &err), 0);
	}
	const struct compare_plan plan = {.margin = 0.01, .metrics = {"wall"}, .metric_count = 1};
	assert_int_equal(compare_again(&plan, out, &err), 0);
}

static void assert_has(const struct buf *text, const char *what)
{
	if (!strstr(buf_text(text), what))
		fail_msg("'%s' is not in\n%s", what, buf_text(text));
}

static struct report report_of(const struct compare_outcome *outcome)
{
	return (struct report){.outcome = outcome,
			       .a = "run <this> & \x1b[31mthat",
			       .b = "run \"other\"",
			       .version = "9.9.9",
			       .started = "2026-01-01T00:00:00Z",
			       .margin = 0.01,
			       .seed = 77,
			       .environment = nobody};
}

static void for_people(void **state)
{
	struct compare_outcome outcome;
	struct buf text _cleanup_buf_;
	buf_init(&text, 1 << 16);
	fill(&outcome);
	struct report report = report_of(&outcome);
	assert_int_equal(report_text(&report, &text), 0);
	assert_has(&text, "A  run <this> & \\x1b[31mthat\n");
	assert_has(&text, "8 pairs, margin 1 %, seed 77");
	assert_has(&text, "wall: SLOWER: B is worse by more than 1 %.");
	assert_has(&text, "1 of 16 runs were disturbed");
	outcome.judgements[0].verdict.kind = VERDICT_INCONCLUSIVE;
	text.length = 0;
	assert_int_equal(report_text(&report, &text), 0);
	assert_has(&text, "wall: INCONCLUSIVE: B is worse, but not whether by more than 1 %.");
	assert_has(&text, "pairs would show");
	struct verdict *same = &outcome.judgements[0].calibration;
	outcome.judgements[0].verdict.kind = VERDICT_REFUSED;
	same->kind = VERDICT_DIFFERENT_BUT_SMALL;
	same->excludes_zero = true;
	text.length = 0;
	assert_int_equal(report_text(&report, &text), 0);
	assert_has(&text, "its runs are not alike");
	same->excludes_zero = false;
	text.length = 0;
	assert_int_equal(report_text(&report, &text), 0);
	assert_has(&text, "cannot resolve 1 %");
	outcome.judgements[0].verdict.kind = VERDICT_INCONCLUSIVE;
	outcome.judgements[0].verdict.pairs_one_sided = 1000000;
	text.length = 0;
	assert_int_equal(report_text(&report, &text), 0);
	assert_has(&text, "hopeless");
	compare_done(&outcome);
}

static void for_programs(void **state)
{
	struct compare_outcome outcome;
	struct result again;
	struct err err = {0};
	struct buf text _cleanup_buf_;
	buf_init(&text, 1 << 20);
	fill(&outcome);
	struct report report = report_of(&outcome);
	assert_int_equal(report_json(&report, &text), 0);
	assert_has(&text, "\"verdict\":\"SLOWER\"");
	assert_has(&text, "\"fingerprint\":{");
	assert_int_equal(result_parse(buf_text(&text), text.length, &again, &err), 0);
	assert_int_equal(again.run_count, 16);
	assert_int_equal(again.seed, 77);
	assert_int_equal(again.runs[3].steal_ms, 50);
	result_done(&again);
	compare_done(&outcome);
}

static void as_a_page(void **state)
{
	struct compare_outcome outcome;
	struct buf text _cleanup_buf_;
	buf_init(&text, 1 << 20);
	fill(&outcome);
	struct report report = report_of(&outcome);
	assert_int_equal(report_html(&report, &text), 0);
	assert_has(&text, "<h1>SLOWER</h1>");
	assert_has(&text, "run &lt;this&gt; &amp; ");
	assert_null(strstr(buf_text(&text), "<this>"));
	assert_null(strstr(buf_text(&text), "http")); /* nothing from elsewhere */
	size_t dots = 0;
	for (const char *at = buf_text(&text); (at = strstr(at, "<circle")); at++)
		dots++;
	assert_int_equal(dots, 17); /* each run, and the estimate */
	assert_null(strstr(buf_text(&text), "nan"));
	compare_done(&outcome);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(for_people),
	    cmocka_unit_test(for_programs),
	    cmocka_unit_test(as_a_page),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
