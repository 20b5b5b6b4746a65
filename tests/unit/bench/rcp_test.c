/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/rcp.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/err.h"
#include "unit/unit.h"

#define RECORD(name, size, epochs)                                                                 \
	"\"" name "\": {\"Benchmark\": \"resnet\", \"BS\": " size                                  \
	", \"Epochs to converge\": [" epochs "]}"
/* The mean without the shortest and the longest: 10, deviation of all ten 1. */
#define TEN   "8.5, 9, 9, 10, 10, 10, 10, 11, 11, 11.5"
#define EIGHT "20, 20, 20, 20, 20, 20, 20, 20, 20, 20"
#define ALIKE "12, 12, 12, 12, 12, 12, 12, 12, 12, 12"

static int read_table(const char *text, struct rcp_table *out, struct err *err)
{
	return rcp_table_parse(text, strlen(text), out, err);
}

static void statistics_of_a_record(void **state)
{
	struct rcp_table table _cleanup_rcp_table_;
	assert_int_equal(read_table("{" RECORD("a", "256", TEN) "}", &table, NULL), 0);
	assert_int_equal(table.count, 1);
	const struct rcp_record *record = &table.records[0];
	assert_true(record->mean == 10 && record->samples == 8);
	assert_true(fabs(record->deviation - sqrt(0.85)) < 1e-12);
	/* By scipy.stats.ttest_ind_from_stats(): 8.85583. */
	assert_true(fabs(record->fastest - 8.85583) < 1e-4);
	assert_true(fabs(record->fastest + record->slowest - 20) < 1e-9);
}

static void runs_that_are_all_alike_leave_no_room(void **state)
{
	struct rcp_table table _cleanup_rcp_table_;
	struct rcp_result result;
	assert_int_equal(read_table("{" RECORD("a", "256", ALIKE) "}", &table, NULL), 0);
	double same[] = {12, 12, 12, 12, 12}, less[] = {12, 12, 11.999, 12, 11.999};
	assert_int_equal(rcp_judge(&table, 256, same, 5, &result, NULL), 0);
	assert_int_equal(result.verdict, RCP_SAME);
	assert_true(result.factor == 1);
	assert_int_equal(rcp_judge(&table, 256, less, 5, &result, NULL), 0);
	assert_int_equal(result.verdict, RCP_FASTER);
}

static void a_batch_size_finds_its_record(void **state)
{
	struct rcp_table table _cleanup_rcp_table_;
	struct rcp_record record = {0};
	assert_int_equal(read_table("{" RECORD("b", "512", EIGHT) ", " RECORD("a", "256", TEN) "}",
				    &table, NULL),
			 0);
	assert_int_equal(rcp_table_find(&table, 256, &record), RCP_EXACT);
	assert_true(record.mean == 10);
	assert_int_equal(rcp_table_find(&table, 100, &record), RCP_BELOW);
	assert_true(record.batch_size == 256);
	assert_int_equal(rcp_table_find(&table, 320, &record), RCP_BETWEEN);
	assert_true(record.mean == 12.5 && record.samples == 10);
	record.mean = 1;
	assert_int_equal(rcp_table_find(&table, 513, &record), RCP_ABOVE);
	assert_true(record.mean == 1);
}

static void what_others_make_useless_is_dropped(void **state)
{
	struct rcp_table table _cleanup_rcp_table_;
	/* The fastest is that of 256; 512 is slower than what lies between 256 and 1024. */
	assert_int_equal(
	    read_table("{" RECORD("x", "128", EIGHT) ", " RECORD("a", "256", TEN) ", " //
		       RECORD("b", "512", EIGHT) ", " RECORD("c", "1024", ALIKE) "}",
		       &table, NULL),
	    0);
	assert_int_equal(rcp_table_prune(&table, NULL), 0);
	assert_int_equal(table.count, 2);
	assert_true(table.records[0].batch_size == 256 && table.records[1].batch_size == 1024);
}

static void both_sides_are_judged(void **state)
{
	struct rcp_table table _cleanup_rcp_table_;
	assert_int_equal(read_table("{" RECORD("a", "256", TEN) "}", &table, NULL), 0);
	static const struct {
		double batch, epochs[5];
		enum rcp_verdict verdict;
		double factor;
	} rows[] = {
	    {256, {10, 10, 10, 10, 10}, RCP_SAME, 1},
	    {256, {9, 9, 9, 9, 9}, RCP_SAME, 10.0 / 9},
	    {256, {8.8, 8.8, 8.8, 8.8, 8.8}, RCP_FASTER, 1},
	    {256, {11.2, 11.2, 11.2, 11.2, 11.2}, RCP_SLOWER, 1},
	    {128, {11.2, 11.2, 11.2, 11.2, 11.2}, RCP_SAME, 1}, /* small batches may */
	    {128, {8.8, 8.8, 8.8, 8.8, 8.8}, RCP_MISSING, 1},
	    {512, {10, 10, 10, 10, 10}, RCP_MISSING, 1},
	    {256, {10, NAN, 10, 10, 10}, RCP_SAME, 1}, /* the slowest, which is dropped */
	    {256, {10, NAN, NAN, 10, 10}, RCP_NOT_CONVERGED, 1},
	};
	for (size_t i = 0; i < array_length(rows); i++) {
		struct rcp_result result;
		double epochs[5];
		(void)memcpy(epochs, rows[i].epochs, sizeof(epochs));
		assert_int_equal(rcp_judge(&table, rows[i].batch, epochs, 5, &result, NULL), 0);
		if (result.verdict != rows[i].verdict ||
		    fabs(result.factor - rows[i].factor) > 1e-12)
			fail_msg("row %zu: %s, %g", i, rcp_verdict_to_string(result.verdict),
				 result.factor);
	}
	struct rcp_result result;
	struct err err = {0};
	double two[] = {1, 2};
	assert_int_equal(rcp_judge(&table, 256, two, 2, &result, &err), -EINVAL);
	assert_string_equal(err.text, "2 runs: 2 of them would be dropped");
}

static void what_is_no_table_is_refused(void **state)
{
	static const struct {
		const char *text, *says;
	} rows[] = {
	    {"", "line 1"},
	    {"[]", "an object with 1 to"},
	    {"{}", "an object with 1 to"},
	    {"{\"a\": 1}", "record 'a': \"Benchmark\" is wanted"},
	    {"{\"a\": {\"Benchmark\": \"resnet\"}}", "\"BS\", the batch size"},
	    {"{" RECORD("a", "0", TEN) "}", "\"BS\", the batch size"},
	    {"{" RECORD("a", "1", "1, 2, 3") "}", "a list of 4 to 1000"},
	    {"{" RECORD("a", "1", "1, 2, \"3\", 4") "}", "[2]: a number of epochs above 0"},
	    {"{" RECORD("a", "1", "1, 2, 0, 4") "}", "[2]: a number of epochs above 0"},
	    {"{" RECORD("a", "1", TEN) ", " RECORD("b", "1.0", TEN) "}", "is there twice"},
	    {"{" RECORD("a", "1", TEN) ", \"b\": {\"Benchmark\": \"ssd\"}}",
	     "is of ssd, those before it of resnet"},
	};
	for (size_t i = 0; i < array_length(rows); i++) {
		struct rcp_table table;
		struct err err = {0};
		assert_int_equal(read_table(rows[i].text, &table, &err), -EINVAL);
		if (!strstr(err.text, rows[i].says))
			fail_msg("'%s' does not say '%s'", err.text, rows[i].says);
		rcp_table_done(&table);
	}
	struct rcp_table empty;
	rcp_table_init(&empty);
	assert_int_equal(rcp_table_prune(&empty, NULL), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(statistics_of_a_record),
	    cmocka_unit_test(runs_that_are_all_alike_leave_no_room),
	    cmocka_unit_test(a_batch_size_finds_its_record),
	    cmocka_unit_test(what_others_make_useless_is_dropped),
	    cmocka_unit_test(both_sides_are_judged),
	    cmocka_unit_test(what_is_no_table_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
