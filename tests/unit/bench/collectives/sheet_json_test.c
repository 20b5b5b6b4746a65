/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/collectives/sheet_json.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

#include "base/err.h"
#include "bench/checks.h"
#include "bench/collectives/request.h"
#include "bench/result.h"
#include "unit/unit.h"

static struct request request;
static struct sheet sheet;
static struct sheet_json json;

static struct check list[] = {{.name = "elements",
			       .status = CHECK_FAIL,
			       .has_value = true,
			       .value = 1,
			       .has_limit = true,
			       .reason = "why"},
			      {.name = "latency_us",
			       .target = "all_reduce",
			       .status = CHECK_SKIP,
			       .has_limit = true,
			       .limit = 3}};
static const struct checks checks = {.list = list, .count = 2};
static const struct sheet_about about = {
    .argc = 2,
    .argv = (char *const *)(const char *const[]){"sluice", "a \"b\"\n", NULL},
    .environment =
	(char *const *)(const char *const[]){"NCCL_DEBUG=INFO", "NCCL_TOKEN=hunter2",
					     "AWS_SECRET_ACCESS_KEY=hunter2", "HOME=/x", NULL},
    .root = "/nonexistent",
    .started = "2026-11-23T02:10:00Z",
    .ended = "2026-11-23T02:11:00Z",
    .seed = 7,
    .checks = &checks,
    .error = "rank 1 was killed",
};

/* Two rows of two ranks: all_reduce with three single operations and a wrong element, alltoall. */
static void run(void)
{
	static double samples[] = {1e-6, 2e-6, 4e-6, 3e-6, 5e-6, 5e-6};
	request = (struct request){
	    .options = {.threads = 1, .gpus = 1, .iterations = 3, .step_factor = 2}, .checks = 1};
	sheet_init(&sheet, &request);
	sheet.ranks = 2;
	sheet.version = "0.1.0";
	sheet.backend = "shm";
	sheet_json_init(&json);
	for (int i = 0; i < 2; i++) {
		struct measure_row row = {
		    .plan = {.op = i ? COLLECTIVE_ALLTOALL : COLLECTIVE_ALL_REDUCE,
			     .type = COLLECTIVE_F32,
			     .iterations = 3}};
		row.out_of_place = (struct measure_side){.is_there = true,
							 .is_checked = true,
							 .stream = 1e-6,
							 .isolated = 4e-6,
							 .samples = samples,
							 .sample_count = 6};
		if (i == 0)
			row.in_place = (struct measure_side){.is_there = true,
							     .is_checked = true,
							     .stream = 1e-6,
							     .isolated = NAN,
							     .wrong = 3,
							     .wrong_rank = 1,
							     .wrong_element = 9};
		collective_shape(row.plan.op, COLLECTIVE_F32, 1024, 2, &row.plan.shape);
		sheet_count(&sheet, &row);
		assert_int_equal(sheet_json_row(&json, &sheet, &row, 10, 20), 0);
	}
}

static json_t *read_back(const struct buf *text)
{
	json_error_t why;
	json_t *root = json_loadb(buf_text(text), text->length, JSON_REJECT_DUPLICATES, &why);
	if (!root)
		print_error("%s\n%s\n", why.text, buf_text(text));
	assert_non_null(root);
	assert_null(strstr(buf_text(text), "hunter2"));
	return root;
}

static double number(const json_t *from, const char *key)
{
	return json_number_value(json_object_get(from, key));
}

static void ours_is_read_by_our_reader(void **state)
{
	struct buf text _cleanup_buf_;
	struct err err = {0};
	buf_init(&text, SHEET_JSON_MAX);
	run();
	assert_int_equal(sheet_json_result(&json, &sheet, &about, &text), 0);
	json_t *root = read_back(&text);
	json_t *first = json_array_get(json_object_get(root, "runs"), 0);
	json_t *wrong = json_object_get(first, "in_place_wrong");
	assert_true(number(wrong, "elements") == 3 && number(wrong, "first_rank") == 1 &&
		    number(wrong, "first_element") == 9);
	assert_true(number(first, "rc") == 2);
	json_t *second = json_array_get(json_object_get(root, "runs"), 1);
	assert_true(json_is_null(json_object_get(second, "in_place_wrong")));
	json_t *skip = json_array_get(json_object_get(root, "checks"), 1);
	assert_true(json_is_null(json_object_get(skip, "value")) && number(skip, "limit") == 3);
	assert_string_equal(json_string_value(json_object_get(skip, "status")), "SKIP");
	assert_null(json_object_get(skip, "hint"));
	assert_string_equal(json_string_value(json_array_get(json_object_get(root, "errors"), 0)),
			    about.error);
	json_decref(root);

	struct result result _cleanup_result_;
	assert_int_equal(result_parse(buf_text(&text), text.length, &result, &err), 0);
	assert_int_equal(result.run_count, 2);
	assert_int_equal(result.seed, 7);
	const struct result_metric *metric =
	    result_run_find(&result.runs[0], "out_of_place_isolated");
	assert_non_null(metric);
	assert_int_equal(metric->sample_count, 3);
	assert_true(metric->samples[1] == 4e-6); /* the slower of 4 and 3 */
	sheet_json_done(&json);
}

static void theirs_has_their_keys(void **state)
{
	struct buf text _cleanup_buf_;
	buf_init(&text, SHEET_JSON_MAX);
	run();
	assert_int_equal(sheet_json_nccl(&json, &sheet, &about, &text), 0);
	json_t *root = read_back(&text);
	assert_true(number(root, "version") == 3);
	json_t *env = json_object_get(root, "env");
	assert_int_equal(json_array_size(env), 1);
	json_t *row = json_array_get(json_object_get(root, "results"), 0);
	json_t *single = json_object_get(row, "out_of_place_per_iter");
	json_t *ranks = json_object_get(single, "per_process_max_times_us");
	assert_int_equal(json_array_size(ranks), 2);
	json_t *other = json_array_get(ranks, 1);
	assert_true(fabs(json_number_value(json_array_get(other, 0)) - 2) < 1e-9);
	assert_true(fabs(number(single, "max_us") - 5) < 1e-9);
	assert_true(number(json_object_get(row, "in_place"), "nwrong") == 3);
	assert_null(json_object_get(row, "in_place_per_iter"));
	row = json_array_get(json_object_get(root, "results"), 1);
	assert_true(json_is_null(json_object_get(row, "in_place")));
	assert_string_equal(
	    json_string_value(json_object_get(json_object_get(root, "out_of_bounds"), "okay")),
	    "false");
	assert_string_equal(json_string_value(json_object_get(
				json_object_get(root, "average_bus_bandwidth"), "okay")),
			    "unchecked");
	json_decref(root);
	sheet_json_done(&json);
}

static void a_run_that_ended_at_once_is_whole_as_well(void **state)
{
	struct buf text _cleanup_buf_;
	struct err err = {0};
	buf_init(&text, SHEET_JSON_MAX);
	request = (struct request){.options = {.threads = 1}};
	sheet_init(&sheet, &request);
	sheet.ranks = 2;
	sheet_json_init(&json);
	assert_int_equal(sheet_json_nccl(&json, &sheet, &about, &text), 0);
	json_decref(read_back(&text));
	buf_clear(&text);
	assert_int_equal(sheet_json_result(&json, &sheet, &about, &text), 0);
	json_decref(read_back(&text));
	buf_clear(&text);
	assert_int_equal(sheet_json_brief(&sheet, &about, &text), 0);
	struct result result _cleanup_result_;
	assert_int_equal(result_parse(buf_text(&text), text.length, &result, &err), 0);
	assert_int_equal(result.run_count, 1);
	sheet_json_done(&json);
}

/* A run that goes on for ever fills its lists: what is there stays whole. */
static void rows_without_room_are_counted(void **state)
{
	struct buf text _cleanup_buf_;
	buf_init(&text, SHEET_JSON_MAX);
	run();
	json.results.max = json.results.length + 100;
	struct measure_row row = {.plan = {.op = COLLECTIVE_REDUCE}};
	assert_int_equal(sheet_json_row(&json, &sheet, &row, 1, 2), 0);
	assert_int_equal(json.dropped, 1);
	assert_int_equal(sheet_json_result(&json, &sheet, &about, &text), 0);
	json_t *root = read_back(&text);
	assert_int_equal(json_array_size(json_object_get(root, "runs")), 2);
	assert_int_equal(json_array_size(json_object_get(root, "results")), 2);
	assert_true(number(root, "rows_left_out") == 1);
	json_decref(root);
	sheet_json_done(&json);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(ours_is_read_by_our_reader),
	    cmocka_unit_test(theirs_has_their_keys),
	    cmocka_unit_test(a_run_that_ended_at_once_is_whole_as_well),
	    cmocka_unit_test(rows_without_room_are_counted),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
