/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/collectives/judge.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/collectives/nccl/nccl_transport.h"
#include "bench/collectives/request.h"

static const char judge_pass[] = "PASS", judge_fail[] = "FAIL", judge_slow[] = "SLOW",
		  judge_skip[] = "SKIP";

static struct judge_check *judge_add(struct judge *judge, const char *name, const char *status,
				     double value, double limit)
{
	struct judge_check *one = &judge->checks[judge->count++]; /* JUDGE_CHECKS_MAX is enough */
	one->check =
	    (struct sheet_check){.name = name, .status = status, .value = value, .limit = limit};
	return one;
}

__attribute__((format(printf, 2, 3))) static void judge_reason(struct judge_check *check,
							       const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	(void)vsnprintf(check->reason, sizeof(check->reason), format, arguments); /* cut */
	va_end(arguments);
}

static void judge_elements(struct judge *judge, const struct sheet *sheet)
{
	bool is_right = sheet->wrong_sides == 0;
	if (is_right && (sheet->checked_sides == 0 || sheet->failure)) {
		struct judge_check *skip = judge_add(judge, "elements", judge_skip, NAN, 0);

		if (sheet->failure)
			judge_reason(skip,
				     "the run ended early, and its other rows were not checked");
		else if (sheet->rows == 0)
			judge_reason(skip, "no row was done");
		else if (sheet->request->checks == 0)
			judge_reason(skip, "-c 0: nothing was checked");
		else
			judge_reason(skip, "all sizes became 0 bytes, since every rank's part is "
					   "rounded down to 16 bytes; ask for larger ones with -b");

		return;
	}

	struct judge_check *one = judge_add(judge, "elements", is_right ? judge_pass : judge_fail,
					    (double)sheet->wrong_sides, 0);

	if (!is_right)
		judge_reason(
		    one, "wrong elements or writes outside of the buffers in %" PRIu64 " columns",
		    sheet->wrong_sides);
}

static void judge_end(struct judge *judge, const struct sheet *sheet)
{
	if (sheet->failure)
		judge_reason(judge_add(judge, "run", judge_fail, NAN, NAN), "%s", sheet->failure);
}

static void judge_bandwidth(struct judge *judge, const struct sheet *sheet, int op, double least)
{
	const struct sheet_op *facts = &sheet->ops[op];
	const char *name = collective_op_to_string(op);
	bool is_large = facts->largest_bytes >= SHEET_PEAK_BYTES;
	bool is_there = isfinite(facts->peak_busbw);
	const char *status = !is_large || !is_there	  ? judge_skip
			     : facts->peak_busbw >= least ? judge_pass
							  : judge_slow;
	struct judge_check *one = judge_add(judge, "peak_busbw", status, facts->peak_busbw, least);

	(void)snprintf(one->target, sizeof(one->target), "%s", name);
	if (!is_there)
		judge_reason(one, "there is no bus bandwidth");
	else if (!is_large)
		judge_reason(one,
			     "--min-busbw says nothing of sizes below 1 MiB; the largest is "
			     "%" PRIu64 " bytes",
			     facts->largest_bytes);
}

static void judge_latency(struct judge *judge, const struct sheet *sheet, int op, double most)
{
	const struct sheet_op *facts = &sheet->ops[op];
	bool is_small = facts->smallest_bytes <= SHEET_LATENCY_BYTES;
	const char *status = !is_small || !isfinite(facts->latency_us) ? judge_skip
			     : facts->latency_us <= most	       ? judge_pass
								       : judge_slow;
	struct judge_check *one = judge_add(judge, "latency_us", status, facts->latency_us, most);

	(void)snprintf(one->target, sizeof(one->target), "%s", collective_op_to_string(op));
	if (status == judge_skip)
		judge_reason(one, "--max-latency-us says nothing of sizes above 4 KiB; measure -b "
				  "8 as well");
}

static void judge_average(struct judge *judge, const struct sheet *sheet)
{
	double average = sheet_average(sheet), least = 0.9 * sheet->request->min_average;
	if (!(least > 0))
		return;
	struct judge_check *one = judge_add(
	    judge, "average_busbw", average < least ? judge_slow : judge_pass, average, least);
	judge_reason(one, "NCCL_TESTS_MIN_BW; an average over sizes says little of a machine");
}

static void judge_expectations(struct judge *judge, const struct expect *expect)
{
	static const char *const words[] = {
	    [EXPECT_SKIP] = judge_skip, [EXPECT_PASS] = judge_pass, [EXPECT_SLOW] = judge_slow};

	for (size_t i = 0; expect && i < expect->count; i++) {
		const struct expect_line *line = &expect->lines[i];
		enum expect_status status = expect_status(line);
		struct judge_check *one =
		    judge_add(judge, "expectation", words[status], line->value, line->limit);

		expect_text(line, one->target);
		if (status == EXPECT_SKIP)
			judge_reason(one, "line %u: no such row was measured", line->number);
		else if (status == EXPECT_SLOW)
			judge_reason(one, "line %u", line->number);
	}
}

/* A gate that was ignored leaves the run as it is; expectations of which none could be judged do
 * not: they were what was asked. */
static enum findings_exit judge_exit_code(const struct judge *judge, const struct sheet *sheet,
					  const struct expect *expect)
{
	size_t expected = expect ? expect->count : 0, slow = 0, skipped = 0;
	for (size_t i = 0; i < judge->count; i++)
		slow += judge->checks[i].check.status == judge_slow;

	for (size_t i = 0; i < expected; i++)
		skipped += expect_status(&expect->lines[i]) == EXPECT_SKIP;

	bool is_empty = sheet->checked_sides == 0 && sheet->request->checks > 0;

	bool is_alone = sheet->ranks < 2 && !sheet->request->options.allow_single;

	return findings_exit_code(sheet->wrong_sides || sheet->failure, slow > 0,
				  sheet->rows > 0 && !is_empty && !is_alone &&
				      (expected == 0 || skipped < expected));
}

/* NCCL falls back to Socket without a word: what could have been used is named. */
static void judge_transport(struct judge *judge, const struct sheet *sheet)
{
	const struct nccl_check *found = sheet->transport;
	if (!found)
		return;

	struct judge_check *one =
	    judge_add(judge, "transport", found->is_slow ? judge_slow : judge_pass, NAN, NAN);
	(void)snprintf(one->target, sizeof(one->target), "%.*s", (int)sizeof(one->target) - 1,
		       found->value);
	if (found->is_slow)
		judge_reason(one, "%s: %s", found->reason, found->hint);
}

int judge_make(const struct sheet *sheet, const struct expect *expect, struct judge *out)
{
	const struct request_options *options = &sheet->request->options;
	size_t most = 2 * COLLECTIVE_OP_COUNT + 5 + (expect ? expect->count : 0);

	*out = (struct judge){.checks = calloc(most, sizeof(*out->checks)),
			      .list = calloc(most, sizeof(*out->list))};
	if (!out->checks || !out->list) {
		judge_done(out);
		return -ENOMEM;
	}

	judge_elements(out, sheet);
	judge_end(out, sheet);

	for (int op = 0; op < COLLECTIVE_OP_COUNT; op++) {
		if (sheet->ops[op].rows && options->min_busbw > 0)
			judge_bandwidth(out, sheet, op, options->min_busbw);
		if (sheet->ops[op].rows && options->max_latency_us > 0)
			judge_latency(out, sheet, op, options->max_latency_us);
	}

	judge_average(out, sheet);
	judge_transport(out, sheet);
	judge_expectations(out, expect);
	out->exit = judge_exit_code(out, sheet, expect);

	for (size_t i = 0; i < out->count; i++) {
		struct judge_check *one = &out->checks[i];
		one->check.target = one->target;
		one->check.reason = one->reason;
		out->list[i] = one->check;
	}

	return 0;
}

void judge_done(struct judge *judge)
{
	free(judge->checks);
	free(judge->list);
	*judge = (struct judge){0};
}
