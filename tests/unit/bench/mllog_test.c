/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/mllog.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/err.h"
#include "unit/unit.h"

static int parse(const char *line, struct mllog *out, struct err *err)
{
	return mllog_parse(line, strlen(line), out, err);
}

static void both_forms_are_read(void **state)
{
	struct mllog log;
	struct err err = {0};
	int result =
	    parse("0: noise :::MLLOG {\"namespace\": \"\", \"time_ms\": 1560000000123, "
		  "\"event_type\": \"INTERVAL_START\", \"key\": \"epoch_start\", \"value\": "
		  "null, \"metadata\": {\"epoch_num\": 3, \"file\": \"x.py\", \"lineno\": 7}}",
		  &log, &err);
	if (result == -ENOMEM)
		return;
	assert_int_equal(result, 1);
	assert_string_equal(log.key, "epoch_start");
	assert_true(log.event == MLLOG_START && log.kind == MLLOG_NULL && !log.is_old);
	assert_true(log.time_ms == 1560000000123.0 && log.epoch_num == 3);
	assert_true(isnan(log.first_epoch_num));
	result = parse(":::MLL 1560000000.5 run_stop: {\"value\": 0.25, \"metadata\": {\"status\": "
		       "\"success\"}}",
		       &log, &err);
	if (result == -EINVAL && strstr(err.text, "memory"))
		return;
	assert_true(result == 1 || result == -ENOMEM);
	if (result < 0)
		return;
	assert_true(log.is_old && log.event == MLLOG_STOP && log.number == 0.25);
	assert_true(log.time_ms == 1560000000500.0);
	assert_string_equal(log.status, "success");
}

static void the_last_token_counts_and_bytes_are_latin_1(void **state)
{
	struct mllog log;
	struct err err = {0};
	assert_int_equal(parse("no token here", &log, &err), 0);
	assert_int_equal(parse("", &log, &err), 0);
	int result =
	    parse(":::MLLOG broken :::MLLOG {\"namespace\":\"\",\"time_ms\":1,\"event_type\":"
		  "\"POINT_IN_TIME\",\"key\":\"submission_org\",\"value\":\"caf\xe9\","
		  "\"metadata\":{}}",
		  &log, &err);
	if (result == -ENOMEM)
		return;
	assert_int_equal(result, 1);
	assert_string_equal(log.text, "caf\xc3\xa9");
	result =
	    parse(":::MLLOG {\"namespace\":\"\",\"time_ms\":1,\"event_type\":\"POINT_IN_TIME\","
		  "\"key\":\"eval_accuracy\",\"value\":{\"BBOX\":0.38,\"SEGM\":0.34},\"metadata\":"
		  "{}}",
		  &log, &err);
	if (result == 1)
		assert_true(log.kind == MLLOG_OTHER && log.bbox == 0.38 && log.segm == 0.34);
}

static void what_cannot_be_read_says_why(void **state)
{
	static const struct {
		const char *line, *says;
	} rows[] = {
	    {":::MLLOG {", "column"},
	    {":::MLLOG 7", "column"},
	    {":::MLLOG []", "key"},
	    {":::MLLOG {\"key\":\"a\"}", "time_ms"},
	    {":::MLLOG {\"key\":\"a\",\"time_ms\":1}", "no value"},
	    {":::MLLOG {\"key\":\"a\",\"time_ms\":\"then\"}", "time_ms"},
	    {":::MLLOG {\"key\":\"a\",\"time_ms\":1,\"namespace\":\"\",\"event_type\":\"POINT_IN_"
	     "TIME\",\"metadata\":{}}",
	     "no value"},
	    {":::MLLOG {\"key\":\"a\",\"time_ms\":1,\"namespace\":\"\",\"event_type\":\"POINT_IN_"
	     "TIME\",\"value\":1}",
	     "no metadata"},
	    {":::MLL x y: {}", "SECONDS"},
	    {":::MLL 1 a b: {}", "SECONDS"},
	    {":::MLL 1 a", "SECONDS"},
	};
	for (size_t i = 0; i < array_length(rows); i++) {
		struct mllog log;
		struct err err = {0};
		int result = parse(rows[i].line, &log, &err);
		assert_true(result == -EINVAL || result == -ENOMEM);
		if (!strstr(err.text, "memory") && !strstr(err.text, rows[i].says))
			fail_msg("'%s': '%s' does not say '%s'", rows[i].line, err.text,
				 rows[i].says);
	}
}

static void event_type_and_namespace_may_be_absent(void **state)
{
	struct mllog log;
	struct err err = {0};
	int rc = parse(":::MLLOG {\"time_ms\": \"5\", \"key\": \"run_stop\", \"value\": 1, "
		       "\"metadata\": null}",
		       &log, &err);
	assert_int_equal(rc, 1);
	assert_true(log.event == MLLOG_STOP && log.time_ms == 5 && log.is_integer);
	rc = parse(":::MLLOG {\"time_ms\": 5, \"key\": \"a\", \"value\": [1, 2.5, \"x\"], "
		   "\"metadata\": {\"tensor\": \"t\", \"method\": \"m\"}, \"event_type\": "
		   "\"INTERVAL_END\"}",
		   &log, &err);
	assert_int_equal(rc, 1);
	assert_true(log.event == MLLOG_STOP && log.length == 3 && log.items[1] == 2.5);
	assert_string_equal(log.tensor, "t");
	assert_string_equal(log.method, "m");
}

/* What Python's str() makes of a dictionary, and its writer of JSON of a number that JSON has not.
 */
static void python_s_notation(void **state)
{
	static const struct {
		const char *value;
		enum mllog_kind kind;
		double number;
		const char *text;
		bool is_python;
	} rows[] = {
	    {"True", MLLOG_BOOL, 1, "", true},
	    {"None", MLLOG_NULL, 0, "", true},
	    {"'it\\'s \"x\"'", MLLOG_STRING, 0, "it's \"x\"", true},
	    {"u'\\x41'", MLLOG_STRING, 0, "A", true},
	    {"manual", MLLOG_STRING, 0, "manual", true},
	    {"(1, 2,)", MLLOG_OTHER, 0, "", true},
	    {"-.5", MLLOG_NUMBER, -0.5, "", true},
	    {"2.", MLLOG_NUMBER, 2, "", true},
	    {"Infinity", MLLOG_NUMBER, INFINITY, "", false},
	    {"-Infinity", MLLOG_NUMBER, -INFINITY, "", false},
	    {"18446744073709551616", MLLOG_NUMBER, 18446744073709551616.0, "", false},
	    {"\"NaN\"", MLLOG_STRING, 0, "NaN", false},
	};
	for (size_t i = 0; i < array_length(rows); i++) {
		char line[256];
		struct mllog log;
		struct err err = {0};
		(void)snprintf(line, sizeof(line),
			       ":::MLLOG {\"time_ms\": 5, \"key\": \"a\", \"value\": %s, "
			       "\"metadata\": {}}",
			       rows[i].value);
		if (parse(line, &log, &err) != 1)
			fail_msg("%s: %s", rows[i].value, err.text);
		assert_int_equal(log.kind, rows[i].kind);
		assert_int_equal(log.is_python, rows[i].is_python);
		assert_string_equal(log.text, rows[i].text);
		assert_true(log.kind != MLLOG_NUMBER || log.number == rows[i].number);
	}
}

static void what_is_too_deep_or_long_is_refused(void **state)
{
	static char deep[2000] = ":::MLLOG ", wide[MLLOG_LINE_MAX + 100] = ":::MLLOG ";
	struct mllog log;
	struct err err = {0};
	memset(deep + 9, '[', 1000);
	assert_int_equal(parse(deep, &log, &err), -EINVAL);
	assert_non_null(strstr(err.text, "levels"));
	memset(wide + 9, ' ', sizeof(wide) - 10);
	assert_int_equal(parse(wide, &log, &err), -EINVAL);
	assert_non_null(strstr(err.text, "bytes"));
}

/* Every line, cut at every byte, is refused or is one: nothing else happens. */
static void lines_that_are_cut(void **state)
{
	static const char line[] =
	    ":::MLLOG {\"namespace\": \"\", \"time_ms\": 12, \"event_type\": \"INTERVAL_END\", "
	    "\"key\": \"eval_stop\", \"value\": [1, {\"a\": \"\\u00e9\"}], \"metadata\": "
	    "{\"epoch_num\": 2}}";
	for (size_t i = 0; i <= strlen(line); i++) {
		struct mllog log;
		struct err err = {0};
		int result = mllog_parse(line, i, &log, &err);
		if (i < 9)
			assert_int_equal(result, 0);
		else if (i < strlen(line))
			assert_true(result < 0);
		else
			assert_true(result == 1 || result == -ENOMEM);
	}
}

static void what_is_written_is_read(void **state)
{
	struct buf out _cleanup_buf_;
	struct mllog log;
	struct err err = {0};
	buf_init(&out, 1 << 16);
	int result = mllog_format(&out, 1234567890123, MLLOG_STOP, "run_stop", "\"a\\nb\"",
				  "{\"status\": \"success\"}", &err);
	if (result < 0)
		return; /* no memory */
	assert_string_equal(buf_text(&out),
			    ":::MLLOG {\"namespace\": \"\", \"time_ms\": 1234567890123, "
			    "\"event_type\": \"INTERVAL_END\", \"key\": \"run_stop\", \"value\": "
			    "\"a\\nb\", \"metadata\": {\"status\": \"success\"}}\n");
	if (mllog_parse(buf_text(&out), out.length - 1, &log, &err) == 1) {
		assert_string_equal(log.text, "a\nb");
		assert_string_equal(log.status, "success");
	}
	buf_clear(&out);
	if (mllog_format(&out, 1, MLLOG_POINT, "eval_accuracy", " 0.7592\n", NULL, &err) == 0)
		assert_non_null(strstr(buf_text(&out), "\"value\": 0.7592, ")); /* as it came */
	assert_true(mllog_format(&out, 1, MLLOG_POINT, "no key", NULL, NULL, &err) < 0);
	assert_true(mllog_format(&out, 1, MLLOG_POINT, "", NULL, NULL, &err) < 0);
	assert_true(mllog_format(&out, 1, MLLOG_POINT, "a", "NaN", NULL, &err) < 0);
	assert_true(mllog_format(&out, 1, MLLOG_POINT, "a", "1", "[]", &err) < 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(both_forms_are_read),
	    cmocka_unit_test(the_last_token_counts_and_bytes_are_latin_1),
	    cmocka_unit_test(what_cannot_be_read_says_why),
	    cmocka_unit_test(event_type_and_namespace_may_be_absent),
	    cmocka_unit_test(python_s_notation),
	    cmocka_unit_test(what_is_too_deep_or_long_is_refused),
	    cmocka_unit_test(lines_that_are_cut),
	    cmocka_unit_test(what_is_written_is_read),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
