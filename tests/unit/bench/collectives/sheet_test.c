/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/collectives/sheet.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "bench/collectives/request.h"
#include "bench/collectives/world.h"
#include "unit/unit.h"

static struct request request;
static struct sheet sheet;

static void begin(uint32_t ranks)
{
	request = (struct request){
	    .options = {.threads = 1,
			.gpus = 1,
			.iterations = 20,
			.warmups = 1,
			.aggregated = 1,
			.step_factor = 2},
	    .min_bytes = 8,
	    .max_bytes = 256 << 20,
	    .checks = 1,
	};
	sheet_init(&sheet, &request);
	sheet.ranks = ranks;
	sheet.version = "0.1.0";
	sheet.backend = "shm";
	sheet.description = "chunks";
}

static struct measure_row row_of(enum collective_op op, uint64_t bytes, double out, double in)
{
	struct measure_row row = {
	    .plan = {.op = op, .type = COLLECTIVE_F32, .root = 1},
	    .out_of_place = {.is_there = true, .stream = out, .isolated = NAN, .is_checked = true},
	    .in_place = {.is_there = collective_op_has_in_place(op),
			 .stream = in,
			 .isolated = NAN,
			 .is_checked = true},
	};
	collective_shape(op, COLLECTIVE_F32, bytes, sheet.ranks, &row.plan.shape);
	return row;
}

static void numbers_keep_their_width(void **state)
{
	static const struct {
		double value;
		int width;
		const char *text;
	} cases[] = {
	    {41.78, 7, "  41.78"},    {0.0051, 6, "  0.01"},	{0, 6, "  0.00"},
	    {999.994, 6, "999.99"},   {999.996, 6, "1000.0"},	{9999.94, 6, "9999.9"},
	    {9999.96, 6, " 10000"},   {123456, 6, "123456"},	{999999.4, 6, "999999"},
	    {999999.6, 6, " 1e+06"},  {1234567, 6, " 1e+06"},	{9999.99, 7, "9999.99"},
	    {12345.67, 7, "12345.7"}, {123456.7, 7, " 123457"}, {1234567, 7, "1234567"},
	    {12345678, 7, "1.2e+07"}, {1e300, 7, "1.0e+300"},	{NAN, 6, "   N/A"},
	    {INFINITY, 7, "    N/A"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char text[SHEET_NUMBER_MAX];
		sheet_number(cases[i].value, cases[i].width, text);
		assert_string_equal(text, cases[i].text);
	}
}

static void rows_are_those_of_nccl_tests(void **state)
{
	struct buf out _cleanup_buf_;
	buf_init(&out, 1 << 16);
	begin(8);
	struct measure_row row = row_of(COLLECTIVE_ALL_REDUCE, 256, 41.78e-6, 38.83e-6);
	row.in_place.wrong = 1234567;
	assert_int_equal(sheet_nccl_row(&sheet, &row, NULL, &out), 0);
	assert_string_equal(
	    buf_text(&out),
	    "         256            64     float     sum      -1    41.78    0.01    0.01       0"
	    "    38.83    0.01    0.01  1.23457e+06\n");
	buf_clear(&out);
	row = row_of(COLLECTIVE_ALLTOALL, 1 << 20, 1e-3, 0);
	row.out_of_place.is_checked = false;
	assert_int_equal(sheet_nccl_row(&sheet, &row, NULL, &out), 0);
	assert_string_equal(
	    buf_text(&out),
	    "     1048576         32768     float    none      -1  1000.00    1.05    0.92    N/A"
	    "      N/A     N/A     N/A    N/A\n");
	buf_clear(&out);
	request.options.timestamps = 1;
	row = row_of(COLLECTIVE_BROADCAST, 8, 1e-6, 1e-6);
	assert_int_equal(sheet_nccl_row(&sheet, &row, "2026-11-23 02:10:00", &out), 0);
	assert_string_equal(
	    buf_text(&out),
	    "           8             2     float    none       1     1.00    0.01    0.01       0"
	    "     1.00    0.01    0.01       0  2026-11-23 02:10:00\n");
}

static void one_rank_has_no_bus(void **state)
{
	struct buf out _cleanup_buf_;
	buf_init(&out, 1 << 16);
	begin(1);
	struct measure_row row = row_of(COLLECTIVE_ALL_REDUCE, 256, 1e-6, 1e-6);
	sheet_count(&sheet, &row);
	assert_int_equal(sheet_nccl_row(&sheet, &row, NULL, &out), 0);
	assert_non_null(strstr(buf_text(&out), "     1.00    0.26     N/A       0"));
	buf_clear(&out);
	assert_int_equal(sheet_nccl_foot(&sheet, &out), 0);
	assert_non_null(strstr(buf_text(&out), "# Avg bus bandwidth    : N/A \n"));
}

static void head_and_columns_are_those_of_nccl_tests(void **state)
{
	struct buf out _cleanup_buf_;
	const struct world_member members[] = {{.rank = 0, .cpu = 1, .pid = 77, .host = "node"},
					       {.rank = 1, .cpu = -1, .pid = 78, .host = "node"}};
	buf_init(&out, 1 << 16);
	begin(2);
	sheet.members = members;
	assert_int_equal(sheet_nccl_head(&sheet, &out), 0);
	assert_string_equal(
	    buf_text(&out),
	    "# sluice version 0.1.0 backend: shm (chunks)\n"
	    "# nThread 1 nGpus 2 minBytes 8 maxBytes 268435456 step: 2(factor) warmup iters: 1 "
	    "iters: 20 agg iters: 1 validation: 1 graph: 0 unalign: 0\n"
	    "#\n"
	    "# Using devices\n"
	    "#  Rank  0 Group  0 Pid     77 on       node device  1 [processor] shm\n"
	    "#  Rank  1 Group  0 Pid     78 on       node device  1 [any] shm\n");
	buf_clear(&out);
	assert_int_equal(sheet_nccl_columns(&sheet, COLLECTIVE_ALL_REDUCE, &out), 0);
	assert_string_equal(
	    buf_text(&out),
	    "#\n# Collective test starting: all_reduce\n#\n"
	    "#                                                              out-of-place           "
	    "            in-place          \n"
	    "#       size         count      type   redop    root     time   algbw   busbw  #wrong "
	    "    time   algbw   busbw  #wrong \n"
	    "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)         "
	    "    (us)  (GB/s)  (GB/s)         \n");
	buf_clear(&out);
	request.options.per_iteration = 1;
	request.options.timestamps = 1;
	assert_int_equal(sheet_nccl_columns(&sheet, COLLECTIVE_ALL_REDUCE, &out), 0);
	assert_non_null(
	    strstr(buf_text(&out),
		   "    time   algbw   busbw  #wrong    i_min    i_max    i_p99    i_cv%           "
		   "timestamp\n"));
}

static void single_operations_are_summed_up(void **state)
{
	double samples[] = {9, 1, 2, 3, 4, 1, 1, 2}; /* 4 operations of 2 ranks: 9, 3, 4, 2 */
	const struct measure_side side = {.samples = samples, .sample_count = 8};
	struct sheet_spread spread;
	assert_true(sheet_spread(&side, 2, 1, &spread));
	assert_int_equal(spread.count, 3);
	assert_true(spread.min == 2 && spread.max == 4 && spread.mean == 3 && spread.p50 == 3);
	assert_true(spread.p99 == 4 && spread.p95 == 4);
	assert_true(fabs(spread.deviation - sqrt(2.0 / 3)) < 1e-12);
	assert_false(sheet_spread(&side, 2, 4, &spread));
	assert_false(sheet_spread(&(struct measure_side){0}, 2, 0, &spread));

	struct buf out _cleanup_buf_;
	buf_init(&out, 1 << 16);
	begin(2);
	request.options.per_iteration = 1;
	request.options.skip = 1;
	struct measure_row row = row_of(COLLECTIVE_ALL_REDUCE, 8, 1e-6, 1e-6);
	for (size_t i = 0; i < 8; i++)
		samples[i] *= 1e-6;
	row.out_of_place.samples = samples;
	row.out_of_place.sample_count = 8;
	assert_int_equal(sheet_nccl_row(&sheet, &row, NULL, &out), 0);
	assert_non_null(strstr(buf_text(&out), "       0     2.00     4.00     4.00    27.22     "
					       "1.00    0.01    0.01       0      N/A      N/A  "
					       "    N/A      N/A\n"));
}

static void what_a_run_shows_is_kept_apart(void **state)
{
	begin(4);
	struct measure_row row = row_of(COLLECTIVE_ALL_REDUCE, 8, 3e-6, 2e-6);
	row.out_of_place.isolated = 5e-6;
	row.in_place.isolated = 4e-6;
	sheet_count(&sheet, &row);
	row = row_of(COLLECTIVE_ALL_REDUCE, 1 << 20, 1e-3, 5e-4);
	row.in_place.is_guard_hurt = true;
	sheet_count(&sheet, &row);
	row = row_of(COLLECTIVE_ALL_GATHER, 8, 1e-6, 1e-6); /* rounded to nothing */
	sheet_count(&sheet, &row);
	const struct sheet_op *op = &sheet.ops[COLLECTIVE_ALL_REDUCE];
	assert_true(fabs(op->latency_us - 4) < 1e-9);
	assert_int_equal(op->smallest_bytes, 8);
	assert_int_equal(op->largest_bytes, 1 << 20);
	assert_true(fabs(op->peak_busbw - 1.5 * 1048576 / 5e-4 / 1e9) < 1e-9);
	assert_int_equal(sheet.wrong_sides, 1);
	assert_int_equal(sheet.busbw_count, 6);
	assert_int_equal(sheet.ops[COLLECTIVE_ALL_GATHER].smallest_bytes, UINT64_MAX);

	struct buf out _cleanup_buf_;
	buf_init(&out, 1 << 16);
	request.min_average = 100;
	assert_int_equal(sheet_nccl_foot(&sheet, &out), 0);
	assert_non_null(strstr(buf_text(&out), "# Out of bounds values : 1 FAILED\n"
					       "# Avg bus bandwidth    : "));
	assert_non_null(strstr(buf_text(&out), " FAILED\n#\n"));
	buf_clear(&out);
	assert_int_equal(sheet_text_foot(&sheet, &out), 0);
	assert_non_null(strstr(buf_text(&out), "latency    4.00 us at 8 B"));
	assert_non_null(strstr(buf_text(&out), "WRONG RESULTS in 1 columns"));
}

static void a_run_that_ended_early_is_not_ok(void **state)
{
	struct buf out _cleanup_buf_;
	buf_init(&out, 1 << 16);
	begin(2);
	request.min_average = 1e-6;
	struct measure_row row = row_of(COLLECTIVE_ALL_REDUCE, 8, 1e-6, 1e-6);
	sheet_count(&sheet, &row);
	assert_string_equal(sheet_elements_okay(&sheet), "true");
	assert_string_equal(sheet_average_okay(&sheet), "true");
	sheet.failure = "rank 1 was killed";
	assert_int_equal(sheet_nccl_foot(&sheet, &out), 0);
	assert_string_equal(buf_text(&out), "# Ended early          : rank 1 was killed\n"
					    "# Out of bounds values : 0 FAILED\n"
					    "# Avg bus bandwidth    : 0.008 FAILED\n"
					    "#\n");
	assert_string_equal(sheet_elements_okay(&sheet), "false");
	assert_string_equal(sheet_average_okay(&sheet), "false");
	buf_clear(&out);
	assert_int_equal(sheet_text_foot(&sheet, &out), 0);
	assert_null(strstr(buf_text(&out), "none is wrong"));
}

static void what_was_not_checked_is_not_ok(void **state)
{
	struct buf out _cleanup_buf_;
	buf_init(&out, 1 << 16);
	begin(2);
	struct measure_row row = row_of(COLLECTIVE_ALL_REDUCE, 8, 1e-6, 1e-6);
	row.out_of_place.is_checked = row.in_place.is_checked = false;
	sheet_count(&sheet, &row);
	row = row_of(COLLECTIVE_ALL_GATHER, 8, 1e-6, 1e-6); /* rounded to nothing */
	sheet_count(&sheet, &row);
	assert_string_equal(sheet_elements_okay(&sheet), "unchecked");
	assert_string_equal(sheet_average_okay(&sheet), "unchecked");
	assert_int_equal(sheet_nccl_foot(&sheet, &out), 0);
	assert_non_null(strstr(buf_text(&out), "# Out of bounds values : N/A\n"));
	buf_clear(&out);
	assert_int_equal(sheet_text_foot(&sheet, &out), 0);
	assert_null(strstr(buf_text(&out), "none is wrong"));
}

static void simulated_times_are_called_so(void **state)
{
	struct buf out _cleanup_buf_;
	buf_init(&out, 1 << 16);
	begin(2);
	assert_int_equal(sheet_nccl_head(&sheet, &out), 0);
	assert_int_equal(sheet_text_columns(&sheet, COLLECTIVE_ALL_REDUCE, &out), 0);
	assert_null(strcasestr(buf_text(&out), "simulated"));
	buf_clear(&out);
	sheet.description = "NCCL 2.21.5 (simulated), libnccl.so.2";
	assert_int_equal(sheet_nccl_head(&sheet, &out), 0);
	assert_non_null(strstr(buf_text(&out), "\n# Simulated: the times are those of this "
					       "machine's processors, of no GPU\n#\n"));
	buf_clear(&out);
	assert_int_equal(sheet_text_columns(&sheet, COLLECTIVE_ALL_REDUCE, &out), 0);
	assert_non_null(strstr(buf_text(&out), "shm, simulated: the times are those of "));
}

static void the_table_for_people_has_both_timings(void **state)
{
	struct buf out _cleanup_buf_;
	buf_init(&out, 1 << 16);
	begin(4);
	struct measure_row row = row_of(COLLECTIVE_SENDRECV, 1 << 20, 1e-3, 0);
	row.out_of_place.isolated = 2e-3;
	assert_int_equal(sheet_text_columns(&sheet, COLLECTIVE_SENDRECV, &out), 0);
	assert_non_null(strstr(buf_text(&out), "sendrecv, 4 ranks, shm\n"));
	buf_clear(&out);
	assert_int_equal(sheet_text_row(&sheet, &row, NULL, &out), 0);
	assert_non_null(strstr(buf_text(&out), "1000.00  2000.00    1.05    1.05       0"));
	/* every line is as wide as the others */
	assert_int_equal(out.length, 14 + 2 + 8 + 2 + 6 + 2 + 6 + 2 * 44 + 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(numbers_keep_their_width),
	    cmocka_unit_test(rows_are_those_of_nccl_tests),
	    cmocka_unit_test(one_rank_has_no_bus),
	    cmocka_unit_test(head_and_columns_are_those_of_nccl_tests),
	    cmocka_unit_test(single_operations_are_summed_up),
	    cmocka_unit_test(what_a_run_shows_is_kept_apart),
	    cmocka_unit_test(a_run_that_ended_early_is_not_ok),
	    cmocka_unit_test(what_was_not_checked_is_not_ok),
	    cmocka_unit_test(simulated_times_are_called_so),
	    cmocka_unit_test(the_table_for_people_has_both_timings),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
