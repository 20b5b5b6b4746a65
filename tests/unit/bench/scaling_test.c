/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/scaling.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/err.h"
#include "unit/unit.h"

static struct scaling *series(void)
{
	struct scaling *scaling = calloc(1, sizeof(*scaling));
	assert_non_null(scaling);
	scaling_init(scaling);
	return scaling;
}

static void drop(struct scaling *scaling)
{
	scaling_done(scaling);
	free(scaling);
}

static int add_csv(struct scaling *scaling, const char *text, const char *metric, struct err *err)
{
	return scaling_add_csv(scaling, text, strlen(text), metric, err);
}

static void efficiency_of_a_table(void **state)
{
	struct scaling *scaling = series();
	assert_int_equal(add_csv(scaling,
				 "# of a machine\nname;workers;samples/s\r\n"
				 "c;8;600\na;2;\"190\"\n\nb;2;210\na;2;200\nd;4;380\n",
				 "samples/s", NULL),
			 0);
	assert_int_equal(scaling_end(scaling, NULL), 0);
	assert_int_equal(scaling->count, 3);
	assert_string_equal(scaling->metric, "samples/s");
	const struct scaling_point *two = &scaling->points[0], *eight = &scaling->points[2];
	assert_true(two->workers == 2 && two->runs == 3 && two->rate == 200);
	assert_true(two->low == 190 && two->high == 210 && two->efficiency == 1);
	assert_true(eight->workers == 8 && eight->speed_up == 3 && eight->efficiency == 0.75);
	assert_true(fabs(eight->efficiency_low - 600.0 / 210 / 4) < 1e-12);
	assert_true(fabs(eight->efficiency_high - 600.0 / 190 / 4) < 1e-12);
	drop(scaling);
}

static void mistakes_name_the_line(void **state)
{
	static const struct {
		const char *text, *metric, *says;
	} rows[] = {
	    {"", NULL, "no line of names"},
	    {"# a\n", NULL, "no line of names"},
	    {"ranks,rate\n1,2\n", NULL, "names no column 'workers'"},
	    {"workers\n1\n", NULL, "names no column 'samples/s"},
	    {"workers,a\n1,2\n", "b", "names no column 'b'"},
	    {"workers,a\n\n1,x\n", NULL, "line 3: 'x' is no number"},
	    {"workers,a\n1.5,2\n", NULL, "line 2: a number of workers"},
	    {"workers,a\n0,2\n", NULL, "line 2: a number of workers"},
	    {"workers,a\n1\n", NULL, "line 2: a rate above 0"},
	};
	for (size_t i = 0; i < array_length(rows); i++) {
		struct scaling *scaling = series();
		struct err err = {0};
		assert_int_equal(add_csv(scaling, rows[i].text, rows[i].metric, &err), -EINVAL);
		if (!strstr(err.text, rows[i].says))
			fail_msg("'%s' does not say '%s'", err.text, rows[i].says);
		drop(scaling);
	}
}

static void one_number_of_workers_is_no_series(void **state)
{
	struct scaling *scaling = series();
	struct err err = {0};
	assert_int_equal(add_csv(scaling, "workers,a\n3,1\n3,2\n", NULL, NULL), 0);
	assert_int_equal(scaling_end(scaling, &err), -EINVAL);
	assert_non_null(strstr(err.text, "1 number of workers"));
	drop(scaling);
	scaling = series();
	assert_int_equal(scaling_end(scaling, NULL), -EINVAL);
	drop(scaling);
}

static void add_run(struct result *result, double workers, double rate)
{
	struct result_run *run = result_add_run(result);
	assert_non_null(run);
	assert_int_equal(result_run_add(run, "loss", "", false, &rate, 1, NULL), 0);
	if (workers > 0)
		assert_int_equal(result_run_add(run, "workers", "", true, &workers, 1, NULL), 0);
	assert_int_equal(result_run_add(run, "images/s", "1/s", true, &rate, 1, NULL), 0);
	for (size_t i = 0; i < run->metric_count; i++)
		run->metrics[i].value = run->metrics[i].samples[0];
}

static void results_say_how_many_workers_they_had(void **state)
{
	struct scaling *scaling = series();
	struct err err = {0};
	struct result result;
	result_init(&result);
	assert_false(scaling_is_series(&result));
	add_run(&result, 1, 50);
	add_run(&result, 4, 180);
	assert_true(scaling_is_series(&result));
	assert_int_equal(scaling_add_result(scaling, &result, NULL, NULL), 0);
	assert_int_equal(scaling_end(scaling, NULL), 0);
	assert_string_equal(scaling->metric, "images/s");
	assert_string_equal(scaling->unit, "1/s");
	assert_true(scaling->points[1].efficiency == 0.9);
	drop(scaling);

	scaling = series();
	assert_int_equal(scaling_add_result(scaling, &result, "tokens", &err), -EINVAL);
	assert_string_equal(err.text, "run 0 has no tokens from 1e-15 to 1e15");
	result.runs[1].metrics[2].value = 1e300; /* a speed-up beside 50 would be no number soon */
	assert_int_equal(scaling_add_result(scaling, &result, NULL, &err), -EINVAL);
	assert_string_equal(
	    err.text, "run 1 has no rate (a metric of which more is better) from 1e-15 to 1e15");
	result.runs[1].metrics[2].value = 180;
	add_run(&result, 0, 1);
	assert_false(scaling_is_series(&result));
	assert_int_equal(scaling_add_result(scaling, &result, NULL, &err), -EINVAL);
	assert_string_equal(err.text, "run 2 has no whole number of workers");
	result.runs[0].rc = 1;
	assert_int_equal(scaling_add_result(scaling, &result, NULL, &err), -EINVAL);
	assert_string_equal(err.text, "run 0 failed");
	result_done(&result);
	drop(scaling);
}

static void reports(void **state)
{
	struct scaling *scaling = series();
	struct buf text _cleanup_buf_, page _cleanup_buf_;
	buf_init(&text, 1 << 20);
	buf_init(&page, 1 << 20);
	assert_int_equal(add_csv(scaling, "workers,<i>\x1b\n1,10\n2,25\n", NULL, NULL), 0);
	assert_int_equal(scaling_end(scaling, NULL), 0);
	assert_int_equal(scaling_text(scaling, &text), 0);
	assert_non_null(strstr(buf_text(&text), "125.0 %"));
	assert_null(strchr(buf_text(&text), '\x1b'));
	assert_int_equal(scaling_html(scaling, "1", "now", &page), 0);
	assert_null(strstr(buf_text(&page), "<i>"));
	assert_null(strstr(buf_text(&page), "nan"));
	assert_non_null(strstr(buf_text(&page), "2 workers: 125 %"));
	drop(scaling);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(efficiency_of_a_table),
	    cmocka_unit_test(mistakes_name_the_line),
	    cmocka_unit_test(one_number_of_workers_is_no_series),
	    cmocka_unit_test(results_say_how_many_workers_they_had),
	    cmocka_unit_test(reports),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
