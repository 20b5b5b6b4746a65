/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/nccltable.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/err.h"
#include "unit/unit.h"

static struct nccltable table;
static struct nccltable_row row;
static struct err err;

static int line(const char *text)
{
	err = (struct err){0};
	return nccltable_line(&table, text, strlen(text), &row, &err);
}

static bool near(double value, double wanted)
{
	return fabs(value - wanted) <= 1e-9 * fabs(wanted);
}

/* The rows of the IBM and NVIDIA slides. */
static void the_first_generation_has_deviations(void **state)
{
	nccltable_init(&table);
	assert_int_equal(line("         256            64   float     sum    41.78"), 0);
	assert_int_equal(
	    line("#       size         count    type   redop     time   algbw   busbw  error     "
		 "time   algbw   busbw  error"),
	    0);
	assert_int_equal(line("#        (B)    (elements)                     (us)  (GB/s)  (GB/s) "
			      "           (us)  (GB/s)  (GB/s)"),
			 0);
	assert_int_equal(line("         256            64   float     sum    41.78    0.01    0.01 "
			      " 6e-08    38.83    0.01    0.01  6e-08"),
			 1);
	assert_int_equal(row.size, 256);
	assert_int_equal(row.count, 64);
	assert_string_equal(row.type, "float");
	assert_string_equal(row.redop, "sum");
	assert_int_equal(row.root, -1);
	assert_true(near(row.out_of_place.time_us, 41.78));
	assert_true(near(row.out_of_place.error, 6e-8));
	assert_true(isnan(row.out_of_place.wrong));
	assert_true(isnan(row.out_of_place.min_us));
	assert_int_equal(line("         512           128   float     sum    38.83    0.01    0.02 "
			      " 6e-08    38.80    0.01    0.03  6e-08"),
			 1);
	assert_true(near(row.out_of_place.time_us, 38.83));
	assert_int_equal(table.rows, 2);
	assert_true(near(table.peak_busbw, 0.03));
	assert_false(table.has_wrong); /* a deviation is no wrong element */
	/* sendrecv and all_gather had no redop */
	assert_int_equal(line("#       size         count    type     time   algbw   busbw  error  "
			      "   time   algbw   busbw  error"),
			 0);
	assert_int_equal(line("        1024           256   float    10.00    0.10    0.10  0e+00  "
			      "   9.00    0.11    0.11    N/A"),
			 1);
	assert_string_equal(row.redop, "");
	assert_true(isnan(row.in_place.error));
	assert_true(near(row.in_place.time_us, 9));
}

static void the_second_generation_counts_wrong_elements(void **state)
{
	nccltable_init(&table);
	assert_int_equal(
	    line("#       size         count      type   redop    root     time   algbw   busbw  "
		 "#wrong     time   algbw   busbw  #wrong "),
	    0);
	assert_int_equal(
	    line("         256            64     float     sum      -1    41.78    0.01    0.01   "
		 "    0    38.83    0.01    0.01  1.23457e+06"),
	    1);
	assert_int_equal(row.root, -1);
	assert_true(row.out_of_place.wrong == 0);
	assert_true(near(row.in_place.wrong, 1234570));
	assert_true(table.has_wrong);
	/* no reduction: empty for years, "none" since */
	assert_int_equal(
	    line("         256            64     float               2    41.78    0.01    0.01   "
		 "    0    38.83    0.01    0.01       0"),
	    1);
	assert_string_equal(row.redop, "");
	assert_int_equal(row.root, 2);
	assert_int_equal(
	    line("     1048576         32768     float    none      -1  1.0e+07  1e+06    0.92    "
		 "N/A      N/A     N/A     N/A    N/A"),
	    1);
	assert_string_equal(row.redop, "none");
	assert_true(near(row.out_of_place.time_us, 1e7));
	assert_true(isnan(row.in_place.time_us));
}

static void the_third_generation_has_spread_and_time_of_day(void **state)
{
	nccltable_init(&table);
	assert_int_equal(
	    line("#       size         count      type   redop    root  cputime   algbw   busbw  "
		 "#wrong    i_min    i_max    i_p99    i_cv%  cputime   algbw   busbw  #wrong    "
		 "i_min    i_max    i_p99    i_cv%           timestamp"),
	    0);
	assert_int_equal(
	    line("[1,0]<stdout>:    8    2     float     sum      -1    12.21    0.00    0.50      "
		 " 0     2.00     4.00     3.00    27.22    12.08    0.00    0.25       0     1.00 "
		 "    1.00     1.00     0.10  2026-11-23 02:10:00"),
	    1);
	assert_true(near(row.out_of_place.min_us, 2) && near(row.out_of_place.max_us, 4));
	assert_true(near(row.out_of_place.p99_us, 3) && near(row.in_place.cv_percent, 0.1));
	assert_true(near(table.peak_busbw, 0.5));
}

static void what_is_no_row_is_passed_over(void **state)
{
	static const char *const others[] = {
	    "",
	    "# Using devices",
	    "#  Rank  0 Group  0 Pid 77 on node device  0 [0000:07:00] NVIDIA A100",
	    "node:77:99 [0] NCCL INFO Channel 00 : 0[7000] -> 1[f000] via P2P/IPC",
	    "2026-11-23 02:10:00 starting",
	    "# Out of bounds values : 0 OK",
	    "#       size  count  type  colour  time",
	    "12.5 7 8",
	};
	nccltable_init(&table);
	assert_int_equal(line("# size count type redop time algbw busbw error time algbw busbw "
			      "error"),
			 0);
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		assert_int_equal(line(others[i]), 0);
	assert_false(table.has_wrong);
	assert_int_equal(table.column_count, 12);
	assert_int_equal(line("# Out of bounds values : 3 FAILED"), 0);
	assert_true(table.has_wrong);
}

/* A log that was cut: nothing is made up of its end. */
static void a_row_that_was_cut_is_told(void **state)
{
	static const char whole[] = "256 64 float sum 41.78 0.01 0.01 6e-08 38.83 0.01 0.01 6e-08";
	nccltable_init(&table);
	assert_int_equal(line("# size count type redop time algbw busbw error time algbw busbw "
			      "error"),
			 0);
	for (size_t i = 1; i < strlen(whole); i++) {
		int result = nccltable_line(&table, whole, i, &row, &err);
		/* its last number may be shorter, and the empty redop is another thing */
		if (i < strlen("256 64 float sum 41.78 0.01 0.01 6e-08 38.83 0.01 0.01 "))
			assert_int_not_equal(result, 1);
	}
	assert_int_equal(line("256 64 float sum x 0.01 0.01 6e-08 38.83 0.01 0.01 6e-08"),
			 -EBADMSG);
	assert_string_equal(err.text, "'x' is not what column 5 has");
	assert_int_equal(line("256 64 float sum 1 1 1 1 1 1 1 1 1"), -EBADMSG);
	assert_int_equal(line("256 64 a_name_that_is_too_long sum 1 1 1 1 1 1 1 1"), -EBADMSG);
	assert_int_equal(line("256 64 float sum 1e999 1 1 1 1 1 1 1"), -EBADMSG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_first_generation_has_deviations),
	    cmocka_unit_test(the_second_generation_counts_wrong_elements),
	    cmocka_unit_test(the_third_generation_has_spread_and_time_of_day),
	    cmocka_unit_test(what_is_no_row_is_passed_over),
	    cmocka_unit_test(a_row_that_was_cut_is_told),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
