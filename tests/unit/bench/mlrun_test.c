/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/mlrun.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "unit/unit.h"

/* A log that the rules of 1.1 want of an open division; %s: what a test changes. */
struct event {
	const char *key, *type, *value, *metadata;
	int seconds;
};

static const struct event good[] = {
    {"cache_clear", "POINT_IN_TIME", "true", "{}", 0},
    {"init_start", "INTERVAL_START", "null", "{}", 0},
    {"submission_org", "POINT_IN_TIME", "\"us\"", "{}", 1},
    {"submission_platform", "POINT_IN_TIME", "\"a machine\"", "{}", 1},
    {"submission_division", "POINT_IN_TIME", "\"closed\"", "{}", 1},
    {"submission_status", "POINT_IN_TIME", "\"onprem\"", "{}", 1},
    {"submission_benchmark", "POINT_IN_TIME", "\"resnet\"", "{}", 1},
    {"global_batch_size", "POINT_IN_TIME", "1024", "{}", 1},
    {"train_samples", "POINT_IN_TIME", "1281167", "{}", 1},
    {"eval_samples", "POINT_IN_TIME", "50000", "{}", 1},
    {"init_stop", "INTERVAL_END", "null", "{}", 100},
    {"run_start", "INTERVAL_START", "null", "{}", 100},
    {"block_start", "INTERVAL_START", "null", "{\"first_epoch_num\": 1, \"epoch_count\": 2}", 101},
    {"epoch_start", "INTERVAL_START", "null", "{\"epoch_num\": 1}", 101},
    {"epoch_stop", "INTERVAL_END", "null", "{\"epoch_num\": 1}", 102},
    {"eval_start", "INTERVAL_START", "null", "{\"epoch_num\": 1}", 103},
    {"eval_accuracy", "POINT_IN_TIME", "0.7592", "{\"epoch_num\": 1}", 104},
    {"eval_stop", "INTERVAL_END", "null", "{\"epoch_num\": 1}", 105},
    {"block_stop", "INTERVAL_END", "null", "{\"first_epoch_num\": 1}", 106},
    {"run_stop", "INTERVAL_END", "null", "{\"status\": \"success\"}", 1000},
};

static void feed(struct mlrun *run, const struct event *event)
{
	char line[1024];
	int length =
	    snprintf(line, sizeof(line),
		     ":::MLLOG {\"namespace\": \"\", \"time_ms\": %d, \"event_type\": "
		     "\"%s\", \"key\": \"%s\", \"value\": %s, \"metadata\": %s}",
		     event->seconds * 1000, event->type, event->key, event->value, event->metadata);
	mlrun_line(run, line, (size_t)length);
}

/* All events of the good log, but `instead` for the one of its key (NULL type: without it). */
static struct mlrun *log_with(const struct event *instead, enum mlrun_ruleset ruleset)
{
	static struct mlrun run;
	mlrun_init(&run, ruleset);
	for (size_t i = 0; i < array_length(good); i++) {
		bool is_it = instead && strcmp(good[i].key, instead->key) == 0;
		if (!is_it)
			feed(&run, &good[i]);
		else if (instead->type)
			feed(&run, instead);
	}
	mlrun_end(&run);
	return &run;
}

static void a_good_log_has_no_findings(void **state)
{
	struct mlrun *run = log_with(NULL, MLRUN_RULES_11);
	if (run->finding_count > 0)
		fail_msg("%s", run->findings[0]);
	assert_true(mlrun_minutes(run) == 15);
	assert_true(run->last_accuracy == 0.7592 && run->last_epoch == 1);
	assert_string_equal(run->benchmark, "resnet");
	assert_true(run->global_batch_size == 1024);
	assert_int_equal(run->lines, array_length(good));
}

static void each_mistake_is_found(void **state)
{
	static const struct {
		struct event instead;
		const char *says;
	} rows[] = {
	    {{"cache_clear", NULL, NULL, NULL, 0}, "'cache_clear' is missing"},
	    {{"run_stop", NULL, NULL, NULL, 0}, "'run_stop' is missing"},
	    {{"eval_samples", NULL, NULL, NULL, 0}, "'eval_samples' is missing"},
	    {{"global_batch_size", NULL, NULL, NULL, 0}, "'global_batch_size' is missing"},
	    {{"submission_division", "POINT_IN_TIME", "\"ajar\"", "{}", 1}, "closed or open"},
	    {{"submission_status", "POINT_IN_TIME", "\"moon\"", "{}", 1}, "cloud, onprem"},
	    {{"submission_org", "POINT_IN_TIME", "\"\"", "{}", 1}, "has no value"},
	    {{"submission_status", "POINT_IN_TIME", "null", "{}", 1}, "has no value"},
	    {{"init_stop", "INTERVAL_END", "null", "{}", 1801}, "initialisation took 30"},
	    {{"init_start", NULL, NULL, NULL, 0}, "init_stop before init_start"},
	    {{"run_start", NULL, NULL, NULL, 0}, "run_stop before run_start"},
	    {{"block_start", "INTERVAL_START", "null", "{\"first_epoch_num\": 1}", 101},
	     "epoch_count"},
	    {{"eval_start", "INTERVAL_START", "null", "{}", 103}, "has no epoch_num"},
	    {{"run_start", NULL, NULL, NULL, 0}, "block_start before run_start"},
	    {{"eval_accuracy", NULL, NULL, NULL, 0}, "'eval_accuracy' is missing"},
	    {{"eval_accuracy", "POINT_IN_TIME", "0.5", "{\"epoch_num\": 1}", 104},
	     "the target was not reached: 0.5 of 0.759"},
	    {{"eval_accuracy", "POINT_IN_TIME", "\"good\"", "{\"epoch_num\": 1}", 104},
	     "is no number"},
	    {{"run_stop", "INTERVAL_END", "null", "{}", 1000}, "success or aborted"},
	    {{"run_stop", "INTERVAL_END", "null", "{\"status\": \"success\"}", 50},
	     "ends before it begins"},
	};
	for (size_t i = 0; i < array_length(rows); i++) {
		const struct mlrun *run = log_with(&rows[i].instead, MLRUN_RULES_11);
		bool is_found = false;
		for (size_t k = 0; k < run->finding_count; k++)
			is_found = is_found || strstr(run->findings[k], rows[i].says);
		if (!is_found)
			fail_msg("nothing says '%s', but '%s'", rows[i].says,
				 run->finding_count ? run->findings[0] : "");
	}
}

/* What 0.6 wants of epochs and evaluations; later rounds do not. */
static void epochs_nest_in_the_oldest_rules_alone(void **state)
{
	static const struct {
		struct event instead;
		const char *says;
	} rows[] = {
	    {{"epoch_stop", "INTERVAL_END", "null", "{\"epoch_num\": 2}", 102},
	     "'epoch_stop' is of another epoch than was started"},
	    {{"epoch_start", NULL, NULL, NULL, 0}, "'epoch_stop' without its start"},
	    {{"epoch_start", "INTERVAL_START", "null", "{\"epoch_num\": 0}", 101},
	     "is not the epoch after the last, from 1 on"},
	    {{"eval_start", NULL, NULL, NULL, 0}, "'eval_stop' without its start"},
	    {{"eval_stop", NULL, NULL, NULL, 0}, "run_stop within an evaluation"},
	    {{"block_stop", NULL, NULL, NULL, 0}, "'block_stop' is missing"},
	    {{"cache_clear", "POINT_IN_TIME", "false", "{}", 0}, "cache_clear is not true"},
	};
	for (size_t i = 0; i < array_length(rows); i++) {
		const struct mlrun *run = log_with(&rows[i].instead, MLRUN_RULES_06);
		bool is_found = false;
		for (size_t k = 0; k < run->finding_count; k++)
			is_found = is_found || strstr(run->findings[k], rows[i].says);
		if (!is_found)
			fail_msg("nothing says '%s'", rows[i].says);
		run = log_with(&rows[i].instead, MLRUN_RULES_07);
		if (run->finding_count > 0)
			fail_msg("'%s' by the rules of 0.7", run->findings[0]);
	}
}

static void a_key_again(void **state)
{
	static struct mlrun run;
	mlrun_init(&run, MLRUN_RULES_11);
	for (size_t i = 0; i < array_length(good); i++) {
		feed(&run, &good[i]);
		if (strcmp(good[i].key, "submission_org") == 0 ||
		    strcmp(good[i].key, "init_start") == 0)
			feed(&run, &good[i]); /* the same: a warning; eight init_start are normal */
	}
	mlrun_end(&run);
	assert_int_equal(run.finding_count, 0);
	assert_int_equal(run.warning_count, 1);
	const struct event other = {"submission_org", "POINT_IN_TIME", "\"them\"", "{}", 1};
	mlrun_init(&run, MLRUN_RULES_11);
	feed(&run, &good[2]);
	feed(&run, &other);
	assert_int_equal(run.finding_count, 1);
	assert_non_null(strstr(run.findings[0], "line 2: 'submission_org' once more"));
}

static void what_cannot_be_read_is_found_and_the_rest_goes_on(void **state)
{
	static struct mlrun run;
	mlrun_init(&run, MLRUN_RULES_11);
	mlrun_line(&run, "some output", 11);
	mlrun_line(&run, ":::MLLOG {", 10);
	feed(&run, &good[2]);
	assert_int_equal(run.lines, 2);
	assert_int_equal(run.broken, 1);
	assert_non_null(strstr(run.findings[0], "line 2:"));
	assert_string_equal(run.organisation, "us");
	for (int i = 0; i < 100; i++)
		mlrun_line(&run, ":::MLLOG {", 10);
	assert_int_equal(run.finding_count, 101); /* counted, not kept */
}

static void targets_of_other_benchmarks(void **state)
{
	static const struct {
		const char *benchmark, *value;
		enum mlrun_ruleset ruleset;
		bool reached;
	} rows[] = {
	    {"\"maskrcnn\"", "{\"BBOX\": 0.377, \"SEGM\": 0.339}", MLRUN_RULES_11, true},
	    {"\"maskrcnn\"", "{\"BBOX\": 0.377, \"SEGM\": 0.338}", MLRUN_RULES_11, false},
	    {"\"rnnt\"", "0.058", MLRUN_RULES_11, true},
	    {"\"rnnt\"", "0.0581", MLRUN_RULES_11, false},
	    {"\"bert\"", "0.72", MLRUN_RULES_11, true},
	    {"\"bert\"", "0.713", MLRUN_RULES_11, false},
	    {"\"bert\"", "0.713", MLRUN_RULES_07, true},
	    {"\"of our own\"", "0.1", MLRUN_RULES_11, true},
	};
	for (size_t i = 0; i < array_length(rows); i++) {
		static struct mlrun run;
		mlrun_init(&run, rows[i].ruleset);
		for (size_t k = 0; k < array_length(good); k++) {
			struct event event = good[k];
			if (strcmp(event.key, "submission_benchmark") == 0)
				event.value = rows[i].benchmark;
			if (strcmp(event.key, "eval_accuracy") == 0)
				event.value = rows[i].value;
			feed(&run, &event);
		}
		mlrun_end(&run);
		if ((run.finding_count == 0) != rows[i].reached)
			fail_msg("%s %s: %s", rows[i].benchmark, rows[i].value,
				 run.finding_count ? run.findings[0] : "no finding");
	}
}

static void scores(void **state)
{
	struct mlrun_score score;
	/* The nine runs of four epochs and one of five of a published GNMT, whose score is known.
	 */
	double five[] = {10, 12, 11, 30, 1};
	mlrun_score("resnet", five, 5, &score);
	assert_true(score.minutes == 11 && !score.problem);
	assert_true(fabs(score.spread - 29.0 / 11) < 1e-9);
	double aborted[] = {10, 12, 11, NAN, 9};
	mlrun_score("resnet", aborted, 5, &score);
	assert_true(score.minutes == 11 && score.aborted == 1); /* it is the slowest */
	assert_true(fabs(score.spread - 3.0 / 11) < 1e-9);
	double two[] = {10, NAN, 11, NAN, 9};
	mlrun_score("resnet", two, 5, &score);
	assert_true(isnan(score.minutes) && score.problem);
	double few[] = {10, 11, 12, 13};
	mlrun_score("resnet", few, 4, &score);
	assert_true(isnan(score.minutes) && score.wanted == 5);
	mlrun_score("of our own", few, 4, &score);
	assert_true(score.minutes == 11.5 && !score.problem);
	mlrun_score("of our own", few, 2, &score);
	assert_true(isnan(score.minutes) && score.problem);
	double forty[40];
	for (int i = 0; i < 40; i++)
		forty[i] = i < 4 ? NAN : i;
	mlrun_score("unet3d", forty, 40, &score);
	assert_true(score.minutes == 23.5 && score.aborted == 4); /* 4 to 39, without 4 to 7 */
}

static void names_of_rulesets(void **state)
{
	enum mlrun_ruleset ruleset;
	assert_int_equal(mlrun_ruleset_from_string("v0.6", &ruleset), 0);
	assert_int_equal(ruleset, MLRUN_RULES_06);
	assert_int_equal(mlrun_ruleset_from_string("1.1.0", &ruleset), 0);
	assert_string_equal(mlrun_ruleset_to_string(ruleset), "1.1.0");
	assert_int_equal(mlrun_ruleset_from_string("1.", &ruleset), -EINVAL);
	assert_int_equal(mlrun_ruleset_from_string("2.0.0", &ruleset), -EINVAL);
	assert_string_equal(mlrun_ruleset_to_string((enum mlrun_ruleset)9), "?");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_good_log_has_no_findings),
	    cmocka_unit_test(each_mistake_is_found),
	    cmocka_unit_test(epochs_nest_in_the_oldest_rules_alone),
	    cmocka_unit_test(a_key_again),
	    cmocka_unit_test(what_cannot_be_read_is_found_and_the_rest_goes_on),
	    cmocka_unit_test(targets_of_other_benchmarks),
	    cmocka_unit_test(scores),
	    cmocka_unit_test(names_of_rulesets),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
