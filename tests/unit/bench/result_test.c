/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/result.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/err.h"
#include "base/jsonw.h"
#include "unit/unit.h"

static const char sample[] =
    "{\"schema\":\"sluice.result/1\",\"tool\":\"x\",\"new\":[1],\"seed\":7,\"runs\":["
    "{\"side\":\"A\",\"index\":0,\"block\":0,\"slot\":1,\"start_ns\":10,\"end_ns\":30,\"rc\":0,"
    "\"metrics\":{\"rate\":{\"unit\":\"1/s\",\"better\":\"higher\",\"samples\":[2,4,3]}},"
    "\"env_events\":{\"steal_ms\":5,\"throttled_us\":6}},"
    "{\"side\":\"B\",\"index\":1,\"rc\":3,\"timed_out\":true,\"metrics\":{}}]}";

static void a_result_is_read(void **state)
{
	struct result result;
	struct err err = {0};
	int rc = result_parse(sample, strlen(sample), &result, &err);
	if (rc == -ENOMEM || strstr(err.text, "memory"))
		return;
	assert_int_equal(rc, 0);
	assert_int_equal(result.run_count, 2);
	assert_int_equal(result.seed, 7);
	const struct result_run *run = &result.runs[0];
	assert_string_equal(run->side, "A");
	assert_int_equal(run->end_ns, 30);
	assert_int_equal(run->steal_ms, 5);
	assert_int_equal(run->throttled_us, 6);
	const struct result_metric *metric = result_run_find(run, "rate");
	assert_non_null(metric);
	assert_true(metric->value == 3 && metric->higher_is_better);
	assert_string_equal(metric->unit, "1/s");
	assert_null(result_run_find(run, "other"));
	assert_false(result_run_failed(run));
	assert_true(result_run_failed(&result.runs[1]));
	result_done(&result);
}

/* What is written is read as the same, and again gives the same text. */
static void what_is_written_is_read(void **state)
{
	struct result result, again;
	struct buf first _cleanup_buf_, second _cleanup_buf_;
	buf_init(&first, 1 << 16);
	buf_init(&second, 1 << 16);
	if (result_parse(sample, strlen(sample), &result, NULL) < 0)
		return;
	struct jsonw json;
	jsonw_init(&json, &first);
	jsonw_object(&json, NULL);
	jsonw_text(&json, "schema", RESULT_SCHEMA);
	jsonw_text(&json, "tool", result.tool);
	result_write_runs(&json, &result);
	jsonw_end_object(&json);
	if (json.rc == 0 && result_parse(buf_text(&first), first.length, &again, NULL) == 0) {
		jsonw_init(&json, &second);
		jsonw_object(&json, NULL);
		jsonw_text(&json, "schema", RESULT_SCHEMA);
		jsonw_text(&json, "tool", again.tool);
		result_write_runs(&json, &again);
		jsonw_end_object(&json);
		if (json.rc == 0)
			assert_string_equal(buf_text(&first), buf_text(&second));
		result_done(&again);
	}
	result_done(&result);
}

static void what_is_none_is_refused(void **state)
{
	static const struct {
		const char *text, *says;
	} rows[] = {
	    {"", "line 1"},
	    {"[]", "schema"},
	    {"{\"schema\":\"sluice.result/2\",\"runs\":[]}", "sluice.result/2"},
	    {"{\"schema\":\"sluice.result/1\"}", "runs: a list"},
	    {"{\"schema\":\"sluice.result/1\",\"runs\":[1]}", "runs[0]: it is no object"},
	    {"{\"schema\":\"sluice.result/1\",\"runs\":[{\"side\":\"ABCDEFGHI\"}]}", "side"},
	    {"{\"schema\":\"sluice.result/1\",\"runs\":[{\"metrics\":{\"a\":{\"samples\":[]}}}]}",
	     "runs[0]: metrics.a: samples"},
	    {"{\"schema\":\"sluice.result/"
	     "1\",\"runs\":[{\"metrics\":{\"a\":{\"samples\":[1,\"2\"]}}}]}",
	     "samples[1]"},
	    {"{\"schema\":\"sluice.result/1\",\"runs\":[{\"metrics\":{\"a\":{\"better\":\"more\","
	     "\"samples\":[1]}}}]}",
	     "better"},
	    {"{\"schema\":\"sluice.result/"
	     "1\",\"runs\":[{\"metrics\":{\"a\\\"b\":{\"samples\":[1]}}}]}",
	     "no name of a metric"},
	};
	for (size_t i = 0; i < array_length(rows); i++) {
		struct result result;
		struct err err = {0};
		int rc = result_parse(rows[i].text, strlen(rows[i].text), &result, &err);
		assert_true(rc < 0);
		if (!strstr(err.text, "memory") && !strstr(err.text, rows[i].says))
			fail_msg("'%s' does not say '%s'", err.text, rows[i].says);
	}
}

static void metrics_of_a_run(void **state)
{
	struct result_run run;
	struct err err = {0};
	const double one = 1, two = 2, none = NAN;
	result_run_init(&run);
	int rc = result_run_add(&run, "wall", "s", false, &one, 1, &err);
	if (rc == 0)
		rc = result_run_add(&run, "wall", "s", false, &two, 1, &err);
	if (rc == 0) { /* replaced */
		assert_int_equal(run.metric_count, 1);
		assert_true(result_run_find(&run, "wall")->value == 2);
		assert_int_equal(result_run_add(&run, "x", "", false, &none, 1, &err), -EINVAL);
		assert_int_equal(
		    result_run_add(&run, "x", "sixteen characters", false, &one, 1, &err), -EINVAL);
		assert_int_equal(run.metric_count, 1);
		char name[] = "a00";
		for (int i = 1; rc == 0 && i < RESULT_METRICS_MAX; i++) {
			name[1] = (char)('0' + i / 10);
			name[2] = (char)('0' + i % 10);
			rc = result_run_add(&run, name, "", false, &one, 1, &err);
		}
		if (rc == 0)
			rc = result_run_add(&run, "many", "", false, &one, 1, &err);
		assert_true(rc == -E2BIG || rc == -ENOMEM);
	}
	result_run_done(&run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_result_is_read),
	    cmocka_unit_test(what_is_written_is_read),
	    cmocka_unit_test(what_is_none_is_refused),
	    cmocka_unit_test(metrics_of_a_run),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
