/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/storage.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "unit/unit.h"

static const struct reader_case cases[] = {{READER_RANDOM, READER_CACHED, 4096, 2},
					   {READER_FILES, READER_CACHED, 4096, 2}};

static struct storage_plan plan_of(const char *against)
{
	return (struct storage_plan){.path = unit_top,
				     .against = against,
				     .bytes = READER_BLOCK_MAX,
				     .files = 20,
				     .file_bytes = 5000,
				     .cases = cases,
				     .case_count = 2,
				     .rounds = 7,
				     .time_ns = 1000000,
				     .seed = 4,
				     .margin = 0.05};
}

static void one_directory(void **state)
{
	struct storage_plan plan = plan_of(NULL);
	struct storage_outcome out;
	struct err err = {0};
	assert_int_equal(storage_run(&plan, &out, &err), 0);
	assert_int_equal(out.case_count, 2);
	assert_int_equal(out.wrong, 0);
	for (size_t i = 0; i < 2; i++) {
		const struct storage_case *one = &out.cases[i];
		assert_int_equal(one->runs.run_count, 7);
		assert_string_equal(one->runs.runs[0].side, "-");
		assert_false(one->has_verdict || one->is_skipped);
		assert_true(one->rate > 0 && one->reads > 0 && one->p50 <= one->p99);
	}
	storage_done(&out);
	assert_int_equal(rmdir(unit_top), 0); /* nothing is left */
	assert_int_equal(mkdir(unit_top, 0700), 0);
}

static void two_in_turns(void **state)
{
	struct storage_plan plan = plan_of(unit_top);
	struct storage_outcome out;
	struct err err = {0};
	assert_int_equal(storage_run(&plan, &out, &err), 0);
	const struct storage_case *one = &out.cases[0];
	assert_int_equal(one->runs.run_count, 14);
	for (uint64_t i = 0; i < 14; i++)
		assert_string_equal(one->runs.runs[i].side, verdict_run_is_b(4, i) ? "B" : "A");
	assert_true(one->has_verdict && one->rate_against > 0);
	storage_done(&out);
}

static void end_it(const char *what, uint64_t done, uint64_t all, void *context)
{
	atomic_store((atomic_bool *)context, done >= 3);
}

static void what_is_ended_leaves_nothing(void **state)
{
	struct storage_plan plan = plan_of(unit_top);
	struct storage_outcome out;
	struct err err = {0};
	atomic_bool stop = false;
	plan.progress = end_it;
	plan.context = &stop;
	plan.stop = &stop;
	assert_int_equal(storage_run(&plan, &out, &err), -EINTR);
	storage_done(&out);
	plan = plan_of("/no/such/directory");
	assert_int_equal(storage_run(&plan, &out, &err), -ENOENT);
	assert_non_null(strstr(err.text, "/no/such/directory"));
	storage_done(&out);
	plan.case_count = 0;
	assert_int_equal(storage_run(&plan, &out, &err), -EINVAL);
	storage_done(&out);
	assert_int_equal(rmdir(unit_top), 0);
	assert_int_equal(mkdir(unit_top, 0700), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(one_directory, unit_top_setup, unit_top_teardown),
	    cmocka_unit_test_setup_teardown(two_in_turns, unit_top_setup, unit_top_teardown),
	    cmocka_unit_test_setup_teardown(what_is_ended_leaves_nothing, unit_top_setup,
					    unit_top_teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
