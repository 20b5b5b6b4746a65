/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/checks.h"

#include <math.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/jsonw.h"
#include "bench/result.h"
#include "unit/unit.h"

static int code_of(const enum check_status *statuses, size_t count)
{
	struct checks checks;
	checks_init(&checks);
	for (size_t i = 0; i < count; i++)
		checks_say(&checks, "x", "", statuses[i], NULL, "because");
	int code = checks_exit_code(&checks);
	checks_done(&checks);
	return code;
}

static void exit_codes(void **state)
{
	(void)state;
	static const struct {
		enum check_status statuses[3];
		size_t count;
		int code;
	} rows[] = {{{CHECK_PASS, CHECK_SKIP, CHECK_WARN}, 3, FINDINGS_EXIT_RIGHT},
		    {{CHECK_PASS, CHECK_SLOW, CHECK_SKIP}, 3, FINDINGS_EXIT_POOR},
		    {{CHECK_SLOW, CHECK_FAIL, CHECK_PASS}, 3, FINDINGS_EXIT_WRONG},
		    {{CHECK_SKIP, CHECK_SKIP, CHECK_SKIP}, 3, FINDINGS_EXIT_NOTHING},
		    {{CHECK_WARN}, 1, FINDINGS_EXIT_RIGHT},
		    {{CHECK_PASS}, 0, FINDINGS_EXIT_NOTHING}};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_int_equal(code_of(rows[i].statuses, rows[i].count), rows[i].code);
}

static void the_worse_decides(void **state)
{
	struct check check = {.status = CHECK_PASS};
	(void)state;
	check_worsen(&check, CHECK_SLOW, "slow");
	check_worsen(&check, CHECK_WARN, "warning");
	check_worsen(&check, CHECK_SLOW, "slow again");
	assert_int_equal(check.status, CHECK_SLOW);
	assert_string_equal(check.reason, "slow");
	check_worsen(&check, CHECK_FAIL, "wrong");
	assert_string_equal(check.reason, "wrong");
}

/* What is written can be read as a result, and names nothing twice. */
static void json_of_many(void **state)
{
	static const char *const targets[] = {"GPU-a", "GPU-a", "GPU-b"};
	static const char *const metrics[] = {"up", "down", "up"};
	struct checks checks;
	struct jsonw json;
	struct result result;
	struct err err = {.code = 0};
	struct buf text _cleanup_buf_;
	(void)state;
	buf_init(&text, 1 << 20);
	checks_init(&checks);
	for (size_t i = 0; i < 3; i++)
		for (int j = 0; j < 30; j++) {
			struct checks_sample sample = {.unit = "GB/s", .value = j};
			memcpy(sample.target, targets[i], strlen(targets[i]));
			memcpy(sample.metric, metrics[i], strlen(metrics[i]));
			checks_add_sample(&checks, &sample);
		}
	checks_say(&checks, "x", "GPU-a", CHECK_FAIL, "mend it", "because of \"%s\"", "\x1b[31m");
	struct check check = {.name = "y", .status = CHECK_PASS};
	check_value(&check, NAN, "GB/s");
	checks_add(&checks, &check);
	jsonw_init(&json, &text);
	jsonw_object(&json, NULL);
	jsonw_text(&json, "schema", RESULT_SCHEMA);
	checks_write(&json, &checks, true);
	jsonw_end_object(&json);
	assert_int_equal(json.rc, 0);
	assert_non_null(
	    strstr(buf_text(&text), "\"status\":\"FAIL\",\"value\":null,\"limit\":null"));
	assert_non_null(strstr(buf_text(&text), "\"hint\":\"mend it\""));
	if (result_parse(buf_text(&text), text.length, &result, &err) < 0)
		fail_msg("%s", err.text);
	assert_int_equal(result.run_count, 2);
	assert_int_equal(result.runs[0].metric_count, 2);
	assert_int_equal(result.runs[0].metrics[0].sample_count, 30);
	assert_int_equal(result.runs[1].metric_count, 1);
	result_done(&result);
	checks_done(&checks);
}

static void take(void *context, const struct checks_record *record)
{
	*(struct checks_record *)context = *record;
}

static void records(void **state)
{
	struct checks_record last;
	struct check check;
	const struct checks_sink sink = {.take = take, .context = &last};
	char longer[1000];
	(void)state;
	memset(longer, 'x', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = '\0';
	checks_begin(&sink, &check, 7, "name", longer);
	assert_int_equal(last.kind, CHECKS_BEGIN);
	assert_int_equal(last.number, 7);
	assert_int_equal(strlen(last.check.target), CHECKS_TARGET_MAX - 1);
	checks_note(&sink, "%s", longer);
	assert_true(strlen(last.text) < sizeof(last.text));
	checks_fact(&sink, "hash", "GPU-a", 99);
	assert_int_equal(last.number, 99);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(exit_codes),
	    cmocka_unit_test(the_worse_decides),
	    cmocka_unit_test(json_of_many),
	    cmocka_unit_test(records),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
