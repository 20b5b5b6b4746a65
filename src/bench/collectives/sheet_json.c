/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/collectives/sheet_json.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bench/checks.h"
#include "bench/collectives/request.h"
#include "bench/collectives/world.h"
#include "bench/fingerprint.h"
#include "bench/result.h"

enum {
	SHEET_NCCL_VERSION = 3, /* of nccl-tests' file */
	SHEET_NAME_MAX = 64,
	SHEET_VARIABLE_MAX = FINGERPRINT_VALUE_MAX,
};

#define SHEET_US 1e6

void sheet_json_init(struct sheet_json *json)
{
	*json = (struct sheet_json){0};
	buf_init(&json->runs, SHEET_JSON_ROWS_MAX);
	buf_init(&json->results, SHEET_JSON_ROWS_MAX);
	jsonw_init(&json->runs_json, &json->runs);
	jsonw_init(&json->results_json, &json->results);
}

void sheet_json_done(struct sheet_json *json)
{
	buf_done(&json->runs);
	buf_done(&json->results);
}

static const char *sheet_json_redop(const struct measure_plan *plan)
{
	return collective_op_reduces(plan->op) ? collective_redop_to_string(plan->redop) : "none";
}

/* --- sluice.result/1 -------------------------------------------------------------------------- */

static void sheet_json_metric(struct jsonw *json, const char *name, const char *unit,
			      const char *better, double value)
{
	if (!isfinite(value))
		return;

	jsonw_object(json, name);
	jsonw_text(json, "unit", unit);
	jsonw_text(json, "better", better);
	jsonw_array(json, "samples");
	result_write_number(json, NULL, value);
	jsonw_end_array(json);
	jsonw_end_object(json);
}

/* "out_of_place" and "time" make one name. */
static const char *sheet_json_name(char out[SHEET_NAME_MAX], const char *place, const char *what)
{
	(void)snprintf(out, SHEET_NAME_MAX, "%s_%s", place, what); /* fits: both are ours */
	return out;
}

static void sheet_json_metrics(struct jsonw *json, const struct sheet *sheet,
			       const struct measure_row *row, const struct measure_side *side,
			       const char *place)
{
	const struct measure_plan *plan = &row->plan;
	char name[SHEET_NAME_MAX];

	if (!side->is_there)
		return;

	double busbw = collective_busbw(plan->op, &plan->shape, sheet->ranks, sheet_time(side));

	sheet_json_metric(json, sheet_json_name(name, place, "stream"), "s", "lower", side->stream);
	sheet_json_metric(json, sheet_json_name(name, place, "busbw"), "GB/s", "higher", busbw);

	size_t count = side->samples ? side->sample_count / sheet->ranks : 0;
	if (count == 0)
		return;

	jsonw_object(json, sheet_json_name(name, place, "isolated"));
	jsonw_text(json, "unit", "s");
	jsonw_text(json, "better", "lower");
	jsonw_array(json, "samples");

	for (size_t i = 0; i < count; i++)
		result_write_number(json, NULL, sheet_slowest(side, sheet->ranks, i));

	jsonw_end_array(json);
	jsonw_end_object(json);
}

static void sheet_json_plan(struct jsonw *json, const struct measure_plan *plan)
{
	jsonw_text(json, "op", collective_op_to_string(plan->op));
	jsonw_u64(json, "size", plan->shape.bytes);
	jsonw_u64(json, "count", plan->shape.shown_count);
	jsonw_text(json, "type", collective_type_to_string(plan->type));
	jsonw_text(json, "redop", sheet_json_redop(plan));
	jsonw_i64(json, "root", collective_op_has_root(plan->op) ? (int64_t)plan->root : -1);
}

static void sheet_json_wrong(struct jsonw *json, const char *key, const struct measure_side *side)
{
	if (!side->is_there || !side->is_checked) {
		jsonw_null(json, key);
		return;
	}

	jsonw_object(json, key);
	jsonw_u64(json, "elements", side->wrong);
	jsonw_bool(json, "guard_hurt", side->is_guard_hurt);

	if (side->wrong) {
		jsonw_u64(json, "first_rank", side->wrong_rank);
		jsonw_u64(json, "first_element", side->wrong_element);
	}

	jsonw_end_object(json);
}

static bool sheet_json_is_wrong(const struct measure_side *side)
{
	return side->is_there && (side->wrong > 0 || side->is_guard_hurt);
}

static void sheet_json_run(struct jsonw *json, const struct sheet *sheet,
			   const struct measure_row *row, uint64_t index, uint64_t start_ns,
			   uint64_t end_ns)
{
	bool is_wrong =
	    sheet_json_is_wrong(&row->out_of_place) || sheet_json_is_wrong(&row->in_place);

	jsonw_object(json, NULL);
	jsonw_text(json, "side", "-");
	jsonw_u64(json, "index", index);
	jsonw_u64(json, "start_ns", start_ns);
	jsonw_u64(json, "end_ns", end_ns);
	jsonw_i64(json, "rc", is_wrong ? 2 : 0);
	sheet_json_plan(json, &row->plan);
	jsonw_bool(json, "dirty", row->plan.is_dirty);
	sheet_json_wrong(json, "out_of_place_wrong", &row->out_of_place);
	sheet_json_wrong(json, "in_place_wrong", &row->in_place);
	jsonw_object(json, "metrics");
	sheet_json_metrics(json, sheet, row, &row->out_of_place, "out_of_place");
	sheet_json_metrics(json, sheet, row, &row->in_place, "in_place");
	jsonw_end_object(json);
	jsonw_end_object(json);
}

/* --- the rows of nccl-tests' file ------------------------------------------------------------- */

static void sheet_json_times(struct jsonw *json, const struct sheet *sheet,
			     const struct measure_side *side, const char *key)
{
	struct sheet_spread spread;
	if (!side->is_there ||
	    !sheet_spread(side, sheet->ranks, sheet->request->options.skip, &spread))
		return;

	size_t count = side->sample_count / sheet->ranks;

	jsonw_object(json, key);
	result_write_number(json, "min_us", spread.min * SHEET_US);
	result_write_number(json, "max_us", spread.max * SHEET_US);
	result_write_number(json, "avg_us", spread.mean * SHEET_US);
	result_write_number(json, "p50_us", spread.p50 * SHEET_US);
	result_write_number(json, "p95_us", spread.p95 * SHEET_US);
	result_write_number(json, "p99_us", spread.p99 * SHEET_US);
	result_write_number(json, "stdev_us", spread.deviation * SHEET_US);
	result_write_number(json, "cv_pct",
			    spread.mean > 0 ? spread.deviation / spread.mean * 100 : 0);
	jsonw_array(json, "times_us");

	for (size_t i = 0; i < count; i++)
		result_write_number(json, NULL, sheet_slowest(side, sheet->ranks, i) * SHEET_US);

	jsonw_end_array(json);
	jsonw_array(json, "per_process_max_times_us");

	for (uint32_t rank = 0; rank < sheet->ranks; rank++) {
		jsonw_array(json, NULL);
		for (size_t i = 0; i < count; i++)
			result_write_number(json, NULL,
					    side->samples[i * sheet->ranks + rank] * SHEET_US);
		jsonw_end_array(json);
	}

	jsonw_end_array(json);
	jsonw_end_object(json);
}

static void sheet_json_side(struct jsonw *json, const struct sheet *sheet,
			    const struct measure_row *row, const struct measure_side *side,
			    const char *key)
{
	const struct measure_plan *plan = &row->plan;

	if (!side->is_there) {
		jsonw_null(json, key);
		return;
	}

	double time = sheet_time(side);

	jsonw_object(json, key);
	result_write_number(json, "time", time * SHEET_US);
	result_write_number(json, "alg_bw", collective_algbw(&plan->shape, time));
	result_write_number(json, "bus_bw",
			    collective_busbw(plan->op, &plan->shape, sheet->ranks, time));
	result_write_number(json, "isolated", side->isolated * SHEET_US);

	if (side->is_checked)
		jsonw_u64(json, "nwrong", side->wrong ? side->wrong : side->is_guard_hurt);
	else
		jsonw_null(json, "nwrong");

	jsonw_end_object(json);
}

static void sheet_json_nccl_row(struct jsonw *json, const struct sheet *sheet,
				const struct measure_row *row)
{
	const struct measure_plan *plan = &row->plan;
	char root[SHEET_NUMBER_MAX];

	(void)snprintf(root, sizeof(root), "%6d",
		       collective_op_has_root(plan->op) ? (int)plan->root : -1);
	jsonw_object(json, NULL);
	jsonw_u64(json, "size", plan->shape.bytes);
	jsonw_u64(json, "count", plan->shape.shown_count);
	jsonw_text(json, "type", collective_type_to_string(plan->type));
	jsonw_text(json, "redop", sheet_json_redop(plan));
	jsonw_text(json, "root", root); /* text with blanks: so it is there */
	sheet_json_side(json, sheet, row, &row->out_of_place, "out_of_place");
	sheet_json_times(json, sheet, &row->out_of_place, "out_of_place_per_iter");
	sheet_json_side(json, sheet, row, &row->in_place, "in_place");
	sheet_json_times(json, sheet, &row->in_place, "in_place_per_iter");
	jsonw_u64(json, "actual_iterations", plan->iterations);
	jsonw_text(json, "experiment_name", collective_op_to_string(plan->op));
	jsonw_end_object(json);
}

/* Takes back what was written of a row that had no room. */
static int sheet_json_settle(struct jsonw *json, struct buf *buf, size_t length, bool followed)
{
	int rc = json->rc;
	if (rc < 0) {
		if (buf->data)
			buf->data[length] = '\0';
		buf->length = length;
		json->rc = 0;
		json->follows = followed;
	}

	return rc;
}

int sheet_json_row(struct sheet_json *json, const struct sheet *sheet,
		   const struct measure_row *row, uint64_t start_ns, uint64_t end_ns)
{
	size_t runs = json->runs.length, results = json->results.length;
	bool followed = json->runs_json.follows, results_followed = json->results_json.follows;

	sheet_json_run(&json->runs_json, sheet, row, json->index++, start_ns, end_ns);
	sheet_json_nccl_row(&json->results_json, sheet, row);

	int rc = json->runs_json.rc < 0 ? json->runs_json.rc : json->results_json.rc;
	if (rc == 0)
		return 0;

	json->runs_json.rc = json->results_json.rc = rc;
	(void)sheet_json_settle(&json->runs_json, &json->runs, runs, followed);
	(void)sheet_json_settle(&json->results_json, &json->results, results, results_followed);
	json->dropped++;

	return rc == -ENOSPC ? 0 : rc;
}

/* --- whole documents -------------------------------------------------------------------------- */

/* nccl-tests writes truths as texts. */
static void sheet_json_truth(struct jsonw *json, const char *key, bool value)
{
	jsonw_text(json, key, value ? "true" : "false");
}

static void sheet_json_config(struct jsonw *json, const struct sheet *sheet)
{
	const struct request *request = sheet->request;
	const struct request_options *options = &request->options;

	jsonw_object(json, "config");
	jsonw_u64(json, "nthreads", options->threads);
	jsonw_u64(json, "ngpus", options->gpus > 1 ? options->gpus : sheet->ranks);
	jsonw_u64(json, "minimum_bytes", request->min_bytes);
	jsonw_u64(json, "maximum_bytes", request->max_bytes);

	if (request->step_bytes)
		jsonw_u64(json, "step_bytes", request->step_bytes);
	else
		jsonw_u64(json, "step_factor", options->step_factor);

	jsonw_u64(json, "warmup_iters", options->warmups);
	jsonw_u64(json, "iterations", options->iterations);
	jsonw_u64(json, "aggregated_iterations", options->aggregated);
	jsonw_u64(json, "validation", request->checks);
	jsonw_u64(json, "graph", options->graph);
	sheet_json_truth(json, "blocking_collectives", options->blocking > 0);
	sheet_json_truth(json, "per_iter_timing", options->timing != REQUEST_TIMING_STREAM);
	jsonw_u64(json, "per_iter_skip", options->skip);
	sheet_json_truth(json, "parallel_init", options->parallel_init > 0);
	jsonw_text(json, "backend", sheet->backend);
	jsonw_text(json, "backend_description", sheet->description);
	jsonw_bool(json, "simulated", sheet_is_simulated(sheet));
	jsonw_u64(json, "ranks", sheet->ranks);
	jsonw_array(json, "devices");

	for (uint32_t i = 0; sheet->members && i < sheet->ranks; i++) {
		const struct world_member *member = &sheet->members[i];

		jsonw_object(json, NULL);
		jsonw_u64(json, "rank", member->rank);
		jsonw_u64(json, "group", request_split_color(&request->split, member->rank));
		jsonw_i64(json, "pid", member->pid);
		jsonw_text(json, "hostname", member->host);
		jsonw_i64(json, "device", member->cpu >= 0 ? member->cpu : (int64_t)member->rank);
		jsonw_text(json, "device_hex", member->cpu >= 0 ? "processor" : "any");
		jsonw_text(json, "device_info", sheet->backend);
		jsonw_end_object(json);
	}

	jsonw_end_array(json);
	jsonw_end_object(json);
}

static void sheet_json_list(struct jsonw *json, const char *key, const struct buf *list)
{
	jsonw_array(json, key);
	if (list->length > 0)
		jsonw_raw(json, NULL, buf_text(list), list->length);
	jsonw_end_array(json);
}

static void sheet_json_arguments(struct jsonw *json, const char *key,
				 const struct sheet_about *about)
{
	jsonw_array(json, key);
	for (int i = 0; i < about->argc; i++)
		jsonw_text(json, NULL, about->argv[i]);
	jsonw_end_array(json);
}

static void sheet_json_environment(struct jsonw *json, const struct sheet_about *about)
{
	jsonw_array(json, "env");
	for (char *const *at = about->environment; at && *at; at++)
		if (fingerprint_shows(*at) && strlen(*at) < SHEET_VARIABLE_MAX)
			jsonw_text(json, NULL, *at);
	jsonw_end_array(json);
}

static void sheet_json_summary(struct jsonw *json, const struct sheet *sheet,
			       const struct sheet_about *about)
{
	jsonw_object(json, "out_of_bounds");
	jsonw_u64(json, "count", sheet->wrong_sides);
	jsonw_text(json, "okay", sheet_elements_okay(sheet));
	jsonw_end_object(json);
	jsonw_object(json, "average_bus_bandwidth");
	result_write_number(json, "bandwidth", sheet_average(sheet));
	jsonw_text(json, "okay", sheet_average_okay(sheet));
	jsonw_end_object(json);
	jsonw_array(json, "errors");

	if (about->error)
		jsonw_text(json, NULL, about->error);
	jsonw_end_array(json);
}

int sheet_json_nccl(const struct sheet_json *self, const struct sheet *sheet,
		    const struct sheet_about *about, struct buf *out)
{
	struct jsonw json;
	jsonw_init(&json, out);
	jsonw_object(&json, NULL);
	jsonw_u64(&json, "version", SHEET_NCCL_VERSION);
	jsonw_text(&json, "start_time", about->started);
	sheet_json_arguments(&json, "args", about);
	sheet_json_environment(&json, about);
	jsonw_text(&json, "nccl_version", sheet->description);
	sheet_json_config(&json, sheet);
	sheet_json_list(&json, "results", &self->results);
	sheet_json_summary(&json, sheet, about);
	jsonw_text(&json, "end_time", about->ended);
	jsonw_end_object(&json);

	return json.rc < 0 ? json.rc : buf_add_text(out, "\n");
}

static void sheet_json_about(struct jsonw *json, const struct sheet *sheet,
			     const struct sheet_about *about)
{
	jsonw_text(json, "schema", RESULT_SCHEMA);
	jsonw_text(json, "tool", "bench collectives");
	jsonw_text(json, "version", sheet->version);
	jsonw_text(json, "started", about->started);
	sheet_json_arguments(json, "argv", about);
	jsonw_u64(json, "seed", about->seed);
}

int sheet_json_result(const struct sheet_json *self, const struct sheet *sheet,
		      const struct sheet_about *about, struct buf *out)
{
	struct jsonw json;
	jsonw_init(&json, out);
	jsonw_object(&json, NULL);
	sheet_json_about(&json, sheet, about);
	fingerprint_write(&json, about->root, about->environment);
	sheet_json_config(&json, sheet);
	sheet_json_list(&json, "runs", &self->runs);
	sheet_json_list(&json, "results", &self->results);

	if (self->dropped)
		jsonw_u64(&json, "rows_left_out", self->dropped);
	sheet_json_summary(&json, sheet, about);
	checks_write(&json, about->checks, false);
	jsonw_array(&json, "verdicts");
	jsonw_end_array(&json);
	jsonw_end_object(&json);

	return json.rc < 0 ? json.rc : buf_add_text(out, "\n");
}

int sheet_json_brief(const struct sheet *sheet, const struct sheet_about *about, struct buf *out)
{
	struct jsonw json;
	char name[SHEET_NAME_MAX];

	jsonw_init(&json, out);
	jsonw_object(&json, NULL);
	sheet_json_about(&json, sheet, about);
	jsonw_bool(&json, "simulated", sheet_is_simulated(sheet));
	jsonw_array(&json, "runs");
	jsonw_object(&json, NULL);
	jsonw_text(&json, "side", "-");
	jsonw_i64(&json, "rc", sheet->wrong_sides || sheet->failure ? 2 : 0);
	jsonw_object(&json, "metrics");

	for (int i = 0; i < COLLECTIVE_OP_COUNT; i++) {
		const struct sheet_op *op = &sheet->ops[i];
		const char *of = collective_op_to_string(i);

		sheet_json_metric(&json, sheet_json_name(name, of, "peak_busbw"), "GB/s", "higher",
				  op->peak_busbw);
		sheet_json_metric(&json, sheet_json_name(name, of, "latency"), "us", "lower",
				  op->latency_us);
	}

	jsonw_end_object(&json);
	jsonw_end_object(&json);
	jsonw_end_array(&json);
	jsonw_end_object(&json);

	return json.rc < 0 ? json.rc : buf_add_text(out, "\n");
}
