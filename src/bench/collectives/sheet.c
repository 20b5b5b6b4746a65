/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/collectives/sheet.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "bench/collectives/request.h"
#include "bench/collectives/world.h"

enum {
	SHEET_TIME_WIDTH = 7,
	SHEET_RATE_WIDTH = 6,
	SHEET_EXPONENT_WIDTH = 7, /* from which on an exponent has a decimal */
	SHEET_STAMP_WIDTH = 21,
	SHEET_HEAD_STAMP_WIDTH = 19,
};

#define SHEET_US 1e6

/* --- numbers ---------------------------------------------------------------------------------- */

void sheet_number(double value, int width, char out[SHEET_NUMBER_MAX])
{
	if (!isfinite(value)) {
		(void)snprintf(out, SHEET_NUMBER_MAX, "%*s", width, "N/A");
		return;
	}

	/* That it fits is asked of what is printed: 9999.999 has one digit more than its size says.
	 */
	for (int decimals = 2; decimals >= 0; decimals--) {
		int length = snprintf(out, SHEET_NUMBER_MAX, "%*.*f", width, decimals, value);
		if (length <= width)
			return;
	}

	(void)snprintf(out, SHEET_NUMBER_MAX, "%*.*e", width, width >= SHEET_EXPONENT_WIDTH, value);
}

double sheet_time(const struct measure_side *side)
{
	if (!side->is_there)
		return NAN;
	return isfinite(side->stream) ? side->stream : side->isolated;
}

double sheet_slowest(const struct measure_side *side, uint32_t ranks, size_t index)
{
	double slowest = 0;
	for (uint32_t rank = 0; rank < ranks; rank++)
		slowest = fmax(slowest, side->samples[index * ranks + rank]);
	return slowest;
}

static int sheet_compare(const void *a, const void *b)
{
	double left = *(const double *)a, right = *(const double *)b;
	return (left > right) - (left < right);
}

/* The nearest rank, as nccl-tests takes it. */
static double sheet_percentile(const double *sorted, size_t count, size_t percent)
{
	size_t index = (count * percent + 99) / 100;
	index = index > 0 ? index - 1 : 0;
	return sorted[index < count ? index : count - 1];
}

bool sheet_spread(const struct measure_side *side, uint32_t ranks, uint32_t skip,
		  struct sheet_spread *out)
{
	size_t all = side->samples && ranks ? side->sample_count / ranks : 0;
	if (all <= skip)
		return false;

	size_t count = all - skip;
	double *sorted = calloc(count, sizeof(*sorted));
	if (!sorted)
		return false;

	double sum = 0, squares = 0;
	for (size_t i = 0; i < count; i++) {
		sorted[i] = sheet_slowest(side, ranks, skip + i);
		sum += sorted[i];
	}

	double mean = sum / (double)count;
	for (size_t i = 0; i < count; i++)
		squares += (sorted[i] - mean) * (sorted[i] - mean);

	qsort(sorted, count, sizeof(*sorted), sheet_compare);
	*out = (struct sheet_spread){
	    .min = sorted[0],
	    .max = sorted[count - 1],
	    .mean = mean,
	    .p50 = sorted[count / 2],
	    .p95 = sheet_percentile(sorted, count, 95),
	    .p99 = sheet_percentile(sorted, count, 99),
	    .deviation = sqrt(squares / (double)count),
	    .count = count,
	};
	free(sorted);

	return true;
}

/* --- what the run shows ----------------------------------------------------------------------- */

void sheet_init(struct sheet *sheet, const struct request *request)
{
	*sheet =
	    (struct sheet){.request = request, .version = "", .backend = "", .description = ""};
	for (int op = 0; op < COLLECTIVE_OP_COUNT; op++)
		sheet->ops[op] = (struct sheet_op){
		    .peak_busbw = NAN, .smallest_bytes = UINT64_MAX, .latency_us = NAN};
}

static void sheet_count_side(struct sheet *sheet, const struct measure_row *row,
			     const struct measure_side *side)
{
	const struct measure_plan *plan = &row->plan;
	struct sheet_op *op = &sheet->ops[plan->op];

	if (!side->is_there)
		return;

	sheet->wrong_sides += side->wrong > 0 || side->is_guard_hurt;
	sheet->checked_sides += side->is_checked && plan->shape.bytes > 0;

	double busbw = collective_busbw(plan->op, &plan->shape, sheet->ranks, sheet_time(side));
	if (isfinite(busbw)) {
		sheet->busbw_sum += busbw;
		sheet->busbw_count++;
		op->peak_busbw = fmax(busbw, isnan(op->peak_busbw) ? 0 : op->peak_busbw);
	}

	double alone = isfinite(side->isolated) ? side->isolated : side->stream;
	if (plan->shape.bytes == 0 || !isfinite(alone))
		return;

	/* In place and out of place, and repetitions with -N, count by the better one. */
	if (plan->shape.bytes < op->smallest_bytes) {
		op->smallest_bytes = plan->shape.bytes;
		op->latency_us = alone * SHEET_US;
	} else if (plan->shape.bytes == op->smallest_bytes) {
		op->latency_us = fmin(op->latency_us, alone * SHEET_US);
	}

	if (plan->shape.bytes > op->largest_bytes)
		op->largest_bytes = plan->shape.bytes;
}

void sheet_count(struct sheet *sheet, const struct measure_row *row)
{
	sheet->rows++;
	sheet->ops[row->plan.op].rows++;
	sheet_count_side(sheet, row, &row->out_of_place);
	sheet_count_side(sheet, row, &row->in_place);
}

double sheet_average(const struct sheet *sheet)
{
	return sheet->busbw_count ? sheet->busbw_sum / (double)sheet->busbw_count : 0;
}

bool sheet_is_simulated(const struct sheet *sheet)
{
	return strstr(sheet->description, "(simulated)") != NULL;
}

static const char sheet_true[] = "true", sheet_false[] = "false", sheet_unchecked[] = "unchecked";

/* Of what a run that died did not come to, nobody knows whether it would have been right. */
const char *sheet_elements_okay(const struct sheet *sheet)
{
	if (sheet->wrong_sides || sheet->failure)
		return sheet_false;
	return sheet->checked_sides ? sheet_true : sheet_unchecked;
}

const char *sheet_average_okay(const struct sheet *sheet)
{
	double least = sheet->request->min_average;
	if (!(least > 0))
		return sheet_unchecked;
	return sheet->failure || sheet_average(sheet) < 0.9 * least ? sheet_false : sheet_true;
}

/* --- nccl-tests' table ------------------------------------------------------------------------ */

static int sheet_nccl_members(const struct sheet *sheet, struct buf *out)
{
	int rc = buf_add_text(out, "# Using devices\n");

	for (uint32_t i = 0; rc == 0 && sheet->members && i < sheet->ranks; i++) {
		const struct world_member *member = &sheet->members[i];
		int64_t device = member->cpu >= 0 ? member->cpu : (int64_t)member->rank;
		uint32_t group = request_split_color(&sheet->request->split, member->rank);

		rc = buf_printf(out,
				"#  Rank %2u Group %2u Pid %6" PRId64 " on %10s device %2" PRId64
				" [%s] %s\n",
				member->rank, group, member->pid, member->host, device,
				member->cpu >= 0 ? "processor" : "any", sheet->backend);
	}

	return rc;
}

int sheet_nccl_head(const struct sheet *sheet, struct buf *out)
{
	const struct request *request = sheet->request;
	const struct request_options *options = &request->options;
	uint64_t step = request->step_bytes ? request->step_bytes : options->step_factor;
	int rc = buf_printf(out, "# sluice version %s backend: %s (%s)\n", sheet->version,
			    sheet->backend, sheet->description);
	if (rc == 0)
		rc = buf_printf(
		    out,
		    "# nThread %u nGpus %u minBytes %" PRIu64 " maxBytes %" PRIu64 " step: %" PRIu64
		    "(%s) warmup iters: %u iters: %u agg iters: %u validation: %u graph: %u "
		    "unalign: %u\n",
		    options->threads, options->gpus > 1 ? options->gpus : sheet->ranks,
		    request->min_bytes, request->max_bytes, step,
		    request->step_bytes ? "bytes" : "factor", options->warmups, options->iterations,
		    options->aggregated, request->checks, options->graph, options->unaligned);

	if (rc == 0 && options->blocking)
		rc = buf_printf(out,
				"# Blocking Enabled: wait for completion%s after each "
				"collective\n",
				options->blocking == 1 ? " and barrier" : "");

	if (rc == 0 && options->per_iteration)
		rc = buf_add_text(out, "# Per-Iteration Report: i_* are of the slowest rank of "
				       "each operation, timed alone\n");
	if (rc == 0 && sheet_is_simulated(sheet))
		rc = buf_add_text(out, "# Simulated: the times are those of this machine's "
				       "processors, of no GPU\n");
	if (rc == 0)
		rc = buf_add_text(out, "#\n");

	return rc < 0 ? rc : sheet_nccl_members(sheet, out);
}

/* One line of the header: what stands over the columns before the two groups, and within a group.
 */
struct sheet_header {
	const char *size, *count, *type, *redop, *root;
	const char *time, *algbw, *busbw, *wrong;
	const char *spread[4];
};

static int sheet_nccl_header(const struct sheet *sheet, const struct sheet_header *line,
			     const char *stamp, struct buf *out)
{
	bool is_spread = sheet->request->options.per_iteration > 0;
	int width = sheet->request->options.timestamps ? SHEET_HEAD_STAMP_WIDTH : 0;
	int rc = buf_printf(out, "# %10s  %12s  %8s  %6s  %6s", line->size, line->count, line->type,
			    line->redop, line->root);

	for (int group = 0; rc == 0 && group < 2; group++) {
		rc = buf_printf(out, "  %7s  %6s  %6s  %6s", line->time, line->algbw, line->busbw,
				line->wrong);
		for (int i = 0; rc == 0 && is_spread && i < 4; i++)
			rc = buf_printf(out, "  %7s", line->spread[i]);
	}

	return rc < 0 ? rc : buf_printf(out, " %*s\n", width, width ? stamp : "");
}

int sheet_nccl_columns(const struct sheet *sheet, enum collective_op op, struct buf *out)
{
	static const struct sheet_header names = {
	    "size", "count", "type",  "redop",	"root",
	    "time", "algbw", "busbw", "#wrong", {"i_min", "i_max", "i_p99", "i_cv%"}};
	static const struct sheet_header units = {
	    "(B)",  "(elements)", "",	    "", "",
	    "(us)", "(GB/s)",	  "(GB/s)", "", {"(us)", "(us)", "(us)", "(%)"}};
	int rc =
	    buf_printf(out, "#\n# Collective test starting: %s\n#\n", collective_op_to_string(op));
	if (rc == 0 && sheet->request->options.per_iteration)
		rc = buf_printf(out,
				"# %10s  %12s  %8s  %6s  %6s              out-of-place (+ "
				"per-iteration)%32sin-place (+ per-iteration)\n",
				"", "", "", "", "", "");
	else if (rc == 0)
		rc = buf_printf(out,
				"# %10s  %12s  %8s  %6s  %6s           out-of-place"
				"                       in-place          \n",
				"", "", "", "", "");

	if (rc == 0)
		rc = sheet_nccl_header(sheet, &names, "timestamp", out);

	return rc < 0 ? rc : sheet_nccl_header(sheet, &units, "%Y-%m-%d %H:%M:%S", out);
}

static int sheet_nccl_side(const struct sheet *sheet, const struct measure_row *row,
			   const struct measure_side *side, struct buf *out)
{
	const struct measure_plan *plan = &row->plan;
	const struct request_options *options = &sheet->request->options;
	double time = sheet_time(side);
	char text[3][SHEET_NUMBER_MAX], numbers[4][SHEET_NUMBER_MAX];

	sheet_number(time * SHEET_US, SHEET_TIME_WIDTH, text[0]);
	sheet_number(collective_algbw(&plan->shape, time), SHEET_RATE_WIDTH, text[1]);
	sheet_number(collective_busbw(plan->op, &plan->shape, sheet->ranks, time), SHEET_RATE_WIDTH,
		     text[2]);

	int rc = buf_printf(out, "  %s  %s  %s", text[0], text[1], text[2]);
	if (rc == 0 && side->is_there && side->is_checked)
		rc = buf_printf(out, "  %6g",
				(double)(side->wrong ? side->wrong : side->is_guard_hurt));
	else if (rc == 0)
		rc = buf_add_text(out, "    N/A");

	if (rc < 0 || !options->per_iteration)
		return rc;

	struct sheet_spread spread;
	if (!sheet_spread(side, sheet->ranks, options->skip, &spread))
		spread = (struct sheet_spread){.min = NAN, .max = NAN, .p99 = NAN, .mean = NAN};
	sheet_number(spread.min * SHEET_US, SHEET_TIME_WIDTH, numbers[0]);
	sheet_number(spread.max * SHEET_US, SHEET_TIME_WIDTH, numbers[1]);
	sheet_number(spread.p99 * SHEET_US, SHEET_TIME_WIDTH, numbers[2]);
	sheet_number(spread.deviation / spread.mean * 100, SHEET_TIME_WIDTH, numbers[3]);

	return buf_printf(out, "  %s  %s  %s  %s", numbers[0], numbers[1], numbers[2], numbers[3]);
}

static const char *sheet_redop(const struct measure_plan *plan)
{
	return collective_op_reduces(plan->op) ? collective_redop_to_string(plan->redop) : "none";
}

int sheet_nccl_row(const struct sheet *sheet, const struct measure_row *row, const char *stamp,
		   struct buf *out)
{
	const struct measure_plan *plan = &row->plan;
	int64_t root = collective_op_has_root(plan->op) ? (int64_t)plan->root : -1;
	int rc = buf_printf(out, "%12" PRIu64 "  %12" PRIu64 "  %8s  %6s  %6" PRId64,
			    plan->shape.bytes, plan->shape.shown_count,
			    collective_type_to_string(plan->type), sheet_redop(plan), root);
	if (rc == 0)
		rc = sheet_nccl_side(sheet, row, &row->out_of_place, out);

	if (rc == 0)
		rc = sheet_nccl_side(sheet, row, &row->in_place, out);
	if (rc == 0 && sheet->request->options.timestamps)
		rc = buf_printf(out, "%*s", SHEET_STAMP_WIDTH, stamp ? stamp : "");

	return rc < 0 ? rc : buf_add_text(out, "\n");
}

static const char *sheet_nccl_word(const char *okay)
{
	return okay == sheet_unchecked ? "" : okay == sheet_true ? "OK" : "FAILED";
}

int sheet_nccl_foot(const struct sheet *sheet, struct buf *out)
{
	const char *okay = sheet_elements_okay(sheet);
	const char *verdict = sheet_nccl_word(sheet_average_okay(sheet));
	int rc = 0;

	if (sheet->failure)
		rc = buf_printf(out, "# %-20s : %s\n", "Ended early", sheet->failure);

	if (rc == 0 && okay == sheet_unchecked)
		rc = buf_printf(out, "# %-20s : N/A\n", "Out of bounds values");
	else if (rc == 0)
		rc = buf_printf(out, "# %-20s : %" PRIu64 " %s\n", "Out of bounds values",
				sheet->wrong_sides, sheet_nccl_word(okay));

	if (rc == 0 && sheet->busbw_count)
		rc = buf_printf(out, "# %-20s : %g %s\n", "Avg bus bandwidth", sheet_average(sheet),
				verdict);
	else if (rc == 0)
		rc = buf_printf(out, "# %-20s : N/A %s\n", "Avg bus bandwidth", verdict);

	return rc < 0 ? rc : buf_add_text(out, "#\n");
}

/* --- for people ------------------------------------------------------------------------------- */

int sheet_text_columns(const struct sheet *sheet, enum collective_op op, struct buf *out)
{
	const char *group = "   stream    alone   algbw   busbw   wrong";
	int rc = buf_printf(out, "\n%s, %u ranks, %s%s\n", collective_op_to_string(op),
			    sheet->ranks, sheet->backend,
			    sheet_is_simulated(sheet)
				? ", simulated: the times are those of processors, of no GPU"
				: "");
	if (rc == 0)
		rc = buf_printf(out, "%40s  %-43s  %s\n", "", "  out of place", "  in place");
	if (rc == 0)
		rc = buf_printf(out, "%14s  %8s  %6s  %6s  %s  %s\n", "size", "type", "redop",
				"root", group, group);

	if (rc == 0)
		rc = buf_printf(out, "%14s  %8s  %6s  %6s", "B", "", "", "");

	for (int i = 0; rc == 0 && i < 2; i++)
		rc = buf_add_text(out, "         us       us    GB/s    GB/s        ");

	return rc < 0 ? rc : buf_add_text(out, "\n");
}

static int sheet_text_side(const struct sheet *sheet, const struct measure_row *row,
			   const struct measure_side *side, struct buf *out)
{
	const struct measure_plan *plan = &row->plan;
	double time = sheet_time(side);
	char stream[SHEET_NUMBER_MAX], alone[SHEET_NUMBER_MAX], algbw[SHEET_NUMBER_MAX],
	    busbw[SHEET_NUMBER_MAX];

	if (!side->is_there)
		return buf_printf(out, "  %42s", "-");

	sheet_number(side->stream * SHEET_US, SHEET_TIME_WIDTH, stream);
	sheet_number(side->isolated * SHEET_US, SHEET_TIME_WIDTH, alone);
	sheet_number(collective_algbw(&plan->shape, time), SHEET_RATE_WIDTH, algbw);
	sheet_number(collective_busbw(plan->op, &plan->shape, sheet->ranks, time), SHEET_RATE_WIDTH,
		     busbw);

	int rc = buf_printf(out, "    %s  %s  %s  %s", stream, alone, algbw, busbw);
	if (rc < 0)
		return rc;
	if (!side->is_checked)
		return buf_printf(out, "  %6s", "-");

	return buf_printf(out, "  %6" PRIu64, side->wrong ? side->wrong : side->is_guard_hurt);
}

int sheet_text_row(const struct sheet *sheet, const struct measure_row *row, const char *stamp,
		   struct buf *out)
{
	const struct measure_plan *plan = &row->plan;
	char root[SHEET_NUMBER_MAX] = "-";

	if (collective_op_has_root(plan->op))
		(void)snprintf(root, sizeof(root), "%u", plan->root);

	int rc = buf_printf(out, "%14" PRIu64 "  %8s  %6s  %6s", plan->shape.bytes,
			    collective_type_to_string(plan->type),
			    collective_op_reduces(plan->op) ? sheet_redop(plan) : "-", root);
	if (rc == 0)
		rc = sheet_text_side(sheet, row, &row->out_of_place, out);
	if (rc == 0)
		rc = sheet_text_side(sheet, row, &row->in_place, out);
	if (rc == 0 && sheet->request->options.timestamps)
		rc = buf_printf(out, "  %s", stamp ? stamp : "");

	return rc < 0 ? rc : buf_add_text(out, "\n");
}

int sheet_text_foot(const struct sheet *sheet, struct buf *out)
{
	int rc = buf_add_text(out, "\n");

	for (int i = 0; rc == 0 && i < COLLECTIVE_OP_COUNT; i++) {
		const struct sheet_op *op = &sheet->ops[i];
		char peak[SHEET_NUMBER_MAX], latency[SHEET_NUMBER_MAX];

		if (op->rows == 0)
			continue;

		sheet_number(op->peak_busbw, SHEET_TIME_WIDTH, peak);
		sheet_number(op->latency_us, SHEET_TIME_WIDTH, latency);
		rc = buf_printf(out, "%-14s  peak bus bandwidth %s GB/s",
				collective_op_to_string(i), peak);
		if (rc == 0 && op->smallest_bytes <= SHEET_LATENCY_BYTES)
			rc = buf_printf(out, ", latency %s us at %" PRIu64 " B", latency,
					op->smallest_bytes);

		if (rc == 0)
			rc = buf_add_text(out, "\n");
	}

	if (rc == 0 && sheet->wrong_sides)
		rc = buf_printf(out, "WRONG RESULTS in %" PRIu64 " columns\n", sheet->wrong_sides);
	else if (rc == 0 && sheet->checked_sides && !sheet->failure)
		rc = buf_add_text(out, "every element of every result was checked: none is "
				       "wrong\n");

	return rc;
}
