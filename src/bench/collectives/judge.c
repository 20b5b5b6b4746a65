/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/collectives/judge.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "bench/collectives/nccl/nccl_transport.h"
#include "bench/collectives/request.h"

/* NAN: there is no value, or no limit. */
static struct check judge_check(const char *name, const char *target, enum check_status status,
				double value, double limit)
{
	struct check check = {.status = status,
			      .has_value = isfinite(value),
			      .value = value,
			      .has_limit = isfinite(limit),
			      .limit = limit};

	(void)snprintf(check.name, sizeof(check.name), "%s", name);
	(void)snprintf(check.target, sizeof(check.target), "%.*s", CHECKS_TARGET_MAX - 1, target);
	return check;
}

static const char *judge_why_unchecked(const struct sheet *sheet)
{
	if (sheet->failure)
		return "the run ended early, and its other rows were not checked";
	if (sheet->rows == 0)
		return "no row was done";
	if (sheet->request->checks == 0)
		return "-c 0: nothing was checked";

	return "all sizes became 0 bytes, since every rank's part is rounded down to 16 bytes; ask "
	       "for larger ones with -b";
}

static void judge_elements(struct checks *out, const struct sheet *sheet)
{
	bool is_right = sheet->wrong_sides == 0;
	bool is_skipped = is_right && (sheet->checked_sides == 0 || sheet->failure);
	struct check check = judge_check("elements", "", CHECK_PASS,
					 is_skipped ? NAN : (double)sheet->wrong_sides, 0);

	if (is_skipped)
		check_set(&check, CHECK_SKIP, "%s", judge_why_unchecked(sheet));
	else if (!is_right)
		check_set(&check, CHECK_FAIL,
			  "wrong elements or writes outside of the buffers in %" PRIu64 " columns",
			  sheet->wrong_sides);

	checks_add(out, &check);
}

static void judge_bandwidth(struct checks *out, const struct sheet *sheet, int op, double least)
{
	const struct sheet_op *facts = &sheet->ops[op];
	bool is_there = isfinite(facts->peak_busbw);
	struct check check = judge_check("peak_busbw", collective_op_to_string(op),
					 facts->peak_busbw >= least ? CHECK_PASS : CHECK_SLOW,
					 facts->peak_busbw, least);

	if (!is_there)
		check_set(&check, CHECK_SKIP, "there is no bus bandwidth");
	else if (facts->largest_bytes < SHEET_PEAK_BYTES)
		check_set(&check, CHECK_SKIP,
			  "--min-busbw says nothing of sizes below 1 MiB; the largest is %" PRIu64
			  " bytes",
			  facts->largest_bytes);

	checks_add(out, &check);
}

static void judge_latency(struct checks *out, const struct sheet *sheet, int op, double most)
{
	const struct sheet_op *facts = &sheet->ops[op];
	struct check check = judge_check("latency_us", collective_op_to_string(op),
					 facts->latency_us <= most ? CHECK_PASS : CHECK_SLOW,
					 facts->latency_us, most);

	if (facts->smallest_bytes > SHEET_LATENCY_BYTES || !isfinite(facts->latency_us))
		check_set(&check, CHECK_SKIP,
			  "--max-latency-us says nothing of sizes above 4 KiB; measure -b 8 as "
			  "well");
	checks_add(out, &check);
}

static void judge_average(struct checks *out, const struct sheet *sheet)
{
	double average = sheet_average(sheet), least = 0.9 * sheet->request->min_average;
	if (!(least > 0))
		return;

	struct check check = judge_check("average_busbw", "", CHECK_PASS, average, least);
	check_set(&check, average < least ? CHECK_SLOW : CHECK_PASS,
		  "NCCL_TESTS_MIN_BW; an average over sizes says little of a machine");
	checks_add(out, &check);
}

static void judge_expectations(struct checks *out, const struct expect *expect)
{
	char target[EXPECT_TEXT_MAX];

	for (size_t i = 0; expect && i < expect->count; i++) {
		const struct expect_line *line = &expect->lines[i];
		enum expect_status status = expect_status(line);

		expect_text(line, target);
		struct check check =
		    judge_check("expectation", target, CHECK_PASS, line->value, line->limit);

		if (status == EXPECT_SKIP)
			check_set(&check, CHECK_SKIP, "line %u: no such row was measured",
				  line->number);
		else if (status == EXPECT_SLOW)
			check_set(&check, CHECK_SLOW, "line %u", line->number);

		checks_add(out, &check);
	}
}

/* A gate that was ignored leaves the run as it is; expectations of which none could be judged do
 * not: they were what was asked. */
static enum findings_exit judge_exit_code(const struct judge *judge, const struct sheet *sheet,
					  const struct expect *expect)
{
	size_t expected = expect ? expect->count : 0, skipped = 0;

	for (size_t i = 0; i < expected; i++)
		skipped += expect_status(&expect->lines[i]) == EXPECT_SKIP;

	bool is_empty = sheet->checked_sides == 0 && sheet->request->checks > 0;

	bool is_alone = sheet->ranks < 2 && !sheet->request->options.allow_single;

	return findings_exit_code(
	    sheet->wrong_sides || sheet->failure, checks_of(&judge->checks, CHECK_SLOW) > 0,
	    sheet->rows > 0 && !is_empty && !is_alone && (expected == 0 || skipped < expected));
}

/* NCCL falls back to Socket without a word: what could have been used is named. */
static void judge_transport(struct checks *out, const struct nccl_check *found)
{
	struct check check = judge_check("transport", found->value, CHECK_PASS, NAN, NAN);
	if (found->is_slow)
		check_set(&check, CHECK_SLOW, "%s: %s", found->reason, found->hint);
	checks_add(out, &check);
}

int judge_make(const struct sheet *sheet, const struct expect *expect, struct judge *out)
{
	const struct request_options *options = &sheet->request->options;
	struct checks *checks = &out->checks;

	checks_init(checks);
	judge_elements(checks, sheet);
	if (sheet->failure)
		checks_say(checks, "run", "", CHECK_FAIL, NULL, "%s", sheet->failure);

	for (int op = 0; op < COLLECTIVE_OP_COUNT; op++) {
		if (sheet->ops[op].rows && options->min_busbw > 0)
			judge_bandwidth(checks, sheet, op, options->min_busbw);
		if (sheet->ops[op].rows && options->max_latency_us > 0)
			judge_latency(checks, sheet, op, options->max_latency_us);
	}

	judge_average(checks, sheet);
	if (sheet->transport)
		judge_transport(checks, sheet->transport);
	judge_expectations(checks, expect);
	out->exit = judge_exit_code(out, sheet, expect);

	if (!checks->is_cut)
		return 0;
	judge_done(out);
	return -ENOMEM;
}

void judge_done(struct judge *judge)
{
	checks_done(&judge->checks);
}
