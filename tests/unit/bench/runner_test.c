/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/runner.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/err.h"
#include "bench/result.h"
#include "unit/unit.h"

static void run(const struct runner_options *options, struct result_run *out)
{
	struct err err = {0};
	result_run_init(out);
	if (runner_run(options, out, &err) < 0)
		fail_msg("%s", err.text);
}

static double value(const struct result_run *run, const char *name)
{
	const struct result_metric *metric = result_run_find(run, name);
	if (!metric)
		fail_msg("there is no metric '%s'", name);
	return metric->value;
}

static void how_it_ended(void **state)
{
	static const struct {
		const char *command;
		int rc;
	} rows[] = {
	    {"true", 0}, {"exit 7", 7}, {"kill -9 $$", 137}, {"no-such-command-anywhere", 127}};
	for (size_t i = 0; i < array_length(rows); i++) {
		struct result_run out;
		run(&(struct runner_options){.command = rows[i].command}, &out);
		assert_int_equal(out.rc, rows[i].rc);
		assert_false(out.timed_out);
		assert_int_equal(result_run_failed(&out), rows[i].rc != 0);
		assert_true(out.end_ns > out.start_ns);
		assert_true(value(&out, "wall") == (double)(out.end_ns - out.start_ns) / 1e9);
		assert_true(value(&out, "rss") > 100000);
		result_run_done(&out);
	}
}

static void the_table_of_nccl_tests_is_a_metric(void **state)
{
	struct runner_options options = {
	    .is_nccl_table = true,
	    .command =
		"echo '# size count type redop root time algbw busbw #wrong time algbw busbw "
		"#wrong'; echo '8 2 float sum -1 1.0 0.1 2.5 0 1.0 0.1 3.5 0'; echo done"};
	struct result_run out;
	run(&options, &out);
	assert_int_equal(out.rc, 0);
	assert_true(value(&out, "output") == 3.5);
	assert_true(result_run_find(&out, "output")->higher_is_better);
	result_run_done(&out);
	options.command = "echo '# size count type time algbw busbw error time algbw busbw error'; "
			  "echo '8 2 float 1 1 2 6e-08 1 1 1 6e-08'; "
			  "echo '# Out of bounds values : 1 FAILED'";
	run(&options, &out);
	assert_int_equal(out.rc, 2);
	assert_string_equal(out.problem, "its table has wrong elements");
	assert_true(value(&out, "output") == 2);
	result_run_done(&out);
	options.command = "echo nothing of the kind";
	run(&options, &out);
	assert_null(result_run_find(&out, "output"));
	result_run_done(&out);
}

static void its_errors_are_kept_and_its_end_of_them(void **state)
{
	struct result_run out;
	run(&(struct runner_options){.command = "echo first >&2; yes | head -c 9000 >&2; echo last "
						"words >&2; false"},
	    &out);
	assert_int_equal(out.rc, 1);
	assert_int_equal(strlen(out.tail), RESULT_TAIL_MAX - 1);
	assert_non_null(strstr(out.tail, "last words\n"));
	assert_null(strstr(out.tail, "first"));
	result_run_done(&out);
}

static void one_that_takes_too_long_is_killed_with_its_children(void **state)
{
	struct result_run out;
	uint64_t began = unit_now_ns();
	run(&(struct runner_options){.command = "sleep 100 & sleep 100", .timeout_ns = 50000000},
	    &out);
	assert_true(out.timed_out && result_run_failed(&out));
	assert_true(unit_now_ns() - began < UINT64_C(50000000000));
	result_run_done(&out);
}

/* Nobody waits for it, and it does not hold the pipes open. */
static void what_it_leaves_is_killed(void **state)
{
	struct result_run out;
	uint64_t began = unit_now_ns();
	run(&(struct runner_options){.command = "sleep 100 & echo $!"}, &out);
	assert_int_equal(out.rc, 0);
	assert_true(unit_now_ns() - began < UINT64_C(50000000000));
	result_run_done(&out);
}

static void its_input_is_empty(void **state)
{
	struct result_run out;
	run(&(struct runner_options){.command = "read line && exit 3; exit 0"}, &out);
	assert_int_equal(out.rc, 0);
	result_run_done(&out);
}

static void a_line_of_its_output(void **state)
{
	static const struct {
		const char *command;
		double value; /* -1: none */
	} rows[] = {
	    {"echo rate=3.5; echo rate=4.25 x", 4.25}, /* the last counts */
	    {"printf 'rate=7'", 7},		       /* without an end of line */
	    {"echo rate=fast", -1},
	    {"yes aaaaaaaa | head -c 200000 | tr -d '\\n'; echo; echo rate=9", 9},
	};
	regex_t line;
	assert_int_equal(regcomp(&line, "rate=([0-9.]+)", REG_EXTENDED), 0);
	for (size_t i = 0; i < array_length(rows); i++) {
		struct result_run out;
		run(&(struct runner_options){.command = rows[i].command,
					     .line = &line,
					     .line_higher_is_better = true},
		    &out);
		const struct result_metric *metric = result_run_find(&out, "output");
		if (rows[i].value < 0)
			assert_null(metric);
		else
			assert_true(metric && metric->value == rows[i].value &&
				    metric->higher_is_better);
		result_run_done(&out);
	}
	regfree(&line);
}

static void what_it_says_of_itself(void **state)
{
	char path[512], command[1024];
	struct result_run out;
	(void)snprintf(path, sizeof(path), "%s/result", unit_top);
	unit_write(path, "of somebody before");
	struct runner_options options = {.command = command, .result_path = path};
	(void)snprintf(
	    command, sizeof(command),
	    "test ! -s $SLUICE_RESULT_FILE || exit 9; echo "
	    "'{\"schema\":\"sluice.result/1\",\"runs\":[{\"metrics\":{\"rate\":{\"better\":"
	    "\"higher\",\"samples\":[1,2,3]}}}]}' >$SLUICE_RESULT_FILE");
	run(&options, &out);
	assert_int_equal(out.rc, 0);
	assert_true(value(&out, "rate") == 2);
	assert_string_equal(out.problem, "");
	result_run_done(&out);
	(void)snprintf(command, sizeof(command), "echo nonsense >$SLUICE_RESULT_FILE");
	run(&options, &out);
	assert_int_equal(out.rc, 0);
	assert_non_null(strstr(out.problem, "its result:"));
	result_run_done(&out);
}

static void a_signal_ends_it(void **state)
{
	struct result_run out;
	struct err err = {0};
	char command[64];
	runner_catch_signals();
	result_run_init(&out);
	(void)snprintf(command, sizeof(command), "kill -INT %d; sleep 100", (int)getpid());
	assert_int_equal(runner_run(&(struct runner_options){.command = command}, &out, &err),
			 -EINTR);
	result_run_done(&out);
}

static void steal_and_throttling(void **state)
{
	static const char stat[] = "cpu  10 20 30 40 50 60 70 1234 0 0\ncpu0 1 2 3\n";
	static const char v2[] = "usage_usec 5\nnr_throttled 1\nthrottled_usec 77\n";
	static const char v1[] = "nr_periods 1\nnr_throttled 1\nthrottled_time 77000\n";
	static const char *const bad[] = {"", "cpu 1 2 3\n", "cpu", "intr 1\n",
					  "cpu  1 2 3 4 5 6 7 x 0\n"};
	uint64_t number = 0;
	assert_int_equal(runner_parse_steal(stat, strlen(stat), &number), 0);
	assert_int_equal(number, 1234);
	assert_int_equal(runner_parse_throttled(v2, strlen(v2), &number), 0);
	assert_int_equal(number, 77);
	assert_int_equal(runner_parse_throttled(v1, strlen(v1), &number), 0);
	assert_int_equal(number, 77);
	for (size_t i = 0; i < array_length(bad); i++) {
		assert_int_equal(runner_parse_steal(bad[i], strlen(bad[i]), &number), -EBADMSG);
		assert_int_equal(runner_parse_throttled(bad[i], strlen(bad[i]), &number), -EBADMSG);
	}
	assert_int_equal(runner_parse_throttled("throttled_usec ", 15, &number), -EBADMSG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(how_it_ended),
	    cmocka_unit_test(the_table_of_nccl_tests_is_a_metric),
	    cmocka_unit_test(its_errors_are_kept_and_its_end_of_them),
	    cmocka_unit_test(one_that_takes_too_long_is_killed_with_its_children),
	    cmocka_unit_test(what_it_leaves_is_killed),
	    cmocka_unit_test(its_input_is_empty),
	    cmocka_unit_test(a_line_of_its_output),
	    cmocka_unit_test_setup_teardown(what_it_says_of_itself, unit_top_setup,
					    unit_top_teardown),
	    cmocka_unit_test(steal_and_throttling),
	    cmocka_unit_test(a_signal_ends_it), /* nothing runs after it */
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
