/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/mlrun.h"

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

/* What the closed division wants of ResNet besides. */
static const struct event settings[] = {
    {"gradient_accumulation_steps", "POINT_IN_TIME", "1", "{}", 1},
    {"opt_name", "POINT_IN_TIME", "\"sgd\"", "{}", 1},
    {"sgd_opt_base_learning_rate", "POINT_IN_TIME", "3.2", "{}", 1},
    {"sgd_opt_end_learning_rate", "POINT_IN_TIME", "0.0001", "{}", 1},
    {"sgd_opt_learning_rate_decay_poly_power", "POINT_IN_TIME", "2", "{}", 1},
    {"sgd_opt_learning_rate_decay_steps", "POINT_IN_TIME", "50000", "{}", 1},
    {"sgd_opt_weight_decay", "POINT_IN_TIME", "5e-05", "{}", 1},
    {"sgd_opt_momentum", "POINT_IN_TIME", "0.9", "{}", 1},
    {"model_bn_span", "POINT_IN_TIME", "128", "{}", 1},
    {"opt_learning_rate_warmup_epochs", "POINT_IN_TIME", "5", "{}", 1},
};

/* Those of 0.6. */
static const struct event old_settings[] = {
    {"submission_entry", "POINT_IN_TIME", "{}", "{}", 1},
    {"submission_poc_name", "POINT_IN_TIME", "\"x\"", "{}", 1},
    {"opt_base_learning_rate", "POINT_IN_TIME", "3.2", "{}", 1},
    {"opt_learning_rate_decay_boundary_epochs", "POINT_IN_TIME", "[30, 60]", "{}", 1},
};

static void feed_tensor(struct mlrun *run, const char *name)
{
	char metadata[MLTENSORS_NAME_MAX + 32];
	(void)snprintf(metadata, sizeof(metadata), "{\"tensor\": \"%s\"}", name);
	const struct event event = {"weights_initialization", "POINT_IN_TIME", "null", metadata, 1};
	feed(run, &event);
}

static void feed_settings(struct mlrun *run, const struct event *instead)
{
	char name[MLTENSORS_NAME_MAX];
	for (size_t i = 0; i < array_length(settings); i++) {
		bool is_it = instead && strcmp(settings[i].key, instead->key) == 0;
		if (!is_it || instead->type)
			feed(run, is_it ? instead : &settings[i]);
	}
	for (size_t i = 0; run->ruleset == MLRULES_06 && i < array_length(old_settings); i++)
		feed(run, &old_settings[i]);
	for (size_t i = 0; mltensors_name("resnet", i, name, sizeof(name)); i++)
		feed_tensor(run, name);
}

/* All events of the good log, but `instead` for the one of its key (NULL type: without it). */
static struct mlrun *log_with(const struct event *instead, enum mlrules_round ruleset)
{
	static struct mlrun run;
	mlrun_init(&run, ruleset);
	feed_settings(&run, instead);
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
	struct mlrun *run = log_with(NULL, MLRULES_11);
	if (run->finding_count > 0)
		fail_msg("%s", run->findings[0]);
	assert_true(mlrun_minutes(run) == 15);
	assert_true(run->last_accuracy == 0.7592 && run->last_epoch == 1);
	assert_string_equal(run->benchmark, "resnet");
	assert_true(run->global_batch_size == 1024);
	assert_int_equal(run->lines, array_length(good) + array_length(settings) + 161);
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
	    {{"submission_benchmark", "POINT_IN_TIME", "\"gnmt\"", "{}", 1},
	     "1.1.0 has no such benchmark"},
	    {{"gradient_accumulation_steps", NULL, NULL, NULL, 0}, "is missing"},
	    {{"gradient_accumulation_steps", "POINT_IN_TIME", "0", "{}", 1},
	     "is not what the rules want: a number above 0"},
	    {{"sgd_opt_momentum", NULL, NULL, NULL, 0}, "'sgd_opt_momentum' is missing"},
	    {{"sgd_opt_weight_decay", "POINT_IN_TIME", "0.0003", "{}", 1}, "doubled or halved"},
	    {{"sgd_opt_base_learning_rate", "POINT_IN_TIME", "0.0015", "{}", 1}, "multiple"},
	    {{"opt_name", "POINT_IN_TIME", "\"lars\"", "{}", 1}, "'lars_epsilon' is missing"},
	    {{"opt_name", "POINT_IN_TIME", "\"adam\"", "{}", 1}, "one of sgd|lars"},
	};
	for (size_t i = 0; i < array_length(rows); i++) {
		const struct mlrun *run = log_with(&rows[i].instead, MLRULES_11);
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
		const struct mlrun *run = log_with(&rows[i].instead, MLRULES_06);
		bool is_found = false;
		for (size_t k = 0; k < run->finding_count; k++)
			is_found = is_found || strstr(run->findings[k], rows[i].says);
		if (!is_found)
			fail_msg("nothing says '%s'", rows[i].says);
		run = log_with(&rows[i].instead, MLRULES_07);
		if (run->finding_count > 0)
			fail_msg("'%s' by the rules of 0.7", run->findings[0]);
	}
}

static void a_key_again(void **state)
{
	static struct mlrun run;
	mlrun_init(&run, MLRULES_11);
	feed_settings(&run, NULL);
	feed(&run, &settings[0]);
	for (size_t i = 0; i < array_length(good); i++) {
		feed(&run, &good[i]);
		if (strcmp(good[i].key, "submission_org") == 0 ||
		    strcmp(good[i].key, "init_start") == 0)
			feed(&run, &good[i]); /* the same: a warning; eight init_start are normal */
	}
	mlrun_end(&run);
	assert_int_equal(run.finding_count, 0);
	assert_int_equal(run.warning_count, 2);
	assert_int_equal(run.repeat_count, 2);
	const struct event other = {"submission_org", "POINT_IN_TIME", "\"them\"", "{}", 1};
	mlrun_init(&run, MLRULES_11);
	feed(&run, &good[2]);
	feed(&run, &other);
	assert_int_equal(run.finding_count, 1);
	assert_non_null(strstr(run.findings[0], "line 2: 'submission_org' once more"));
	const struct event again = {"sgd_opt_momentum", "POINT_IN_TIME", "0.8", "{}", 1};
	mlrun_init(&run, MLRULES_11);
	feed_settings(&run, NULL);
	feed(&run, &again);
	for (size_t i = 0; i < array_length(good); i++)
		feed(&run, &good[i]);
	mlrun_end(&run);
	assert_int_equal(run.finding_count, 1);
	assert_non_null(strstr(run.findings[0], "is there 2 times, with different values"));
}

static void tensors_are_initialised_once_each(void **state)
{
	static struct mlrun run;
	static const struct {
		const char *name, *says; /* NULL: the first is left out */
	} rows[] = {
	    {"bn0_beta", "was initialised twice"},
	    {"bn1_beta", "'bn1_beta' is none of the benchmark"},
	    {"stage3_unit07_bn1_beta", "is none of the benchmark"},
	    {NULL, "the tensor 'bn0_beta' was not initialised"},
	};
	for (size_t i = 0; i < array_length(rows); i++) {
		char name[MLTENSORS_NAME_MAX];
		mlrun_init(&run, MLRULES_11);
		for (size_t k = 0; k < array_length(settings); k++)
			feed(&run, &settings[k]);
		for (size_t k = rows[i].name ? 0 : 1;
		     mltensors_name("resnet", k, name, sizeof(name)); k++)
			feed_tensor(&run, name);
		if (rows[i].name)
			feed_tensor(&run, rows[i].name);
		for (size_t k = 0; k < array_length(good); k++)
			feed(&run, &good[k]);
		mlrun_end(&run);
		assert_int_equal(run.finding_count, 1);
		if (!strstr(run.findings[0], rows[i].says))
			fail_msg("'%s' does not say '%s'", run.findings[0], rows[i].says);
	}
}

/* Google's logs of 0.7 lack event_type, some namespace as well; they are runs that ended. */
static void lines_with_less_are_read(void **state)
{
	static struct mlrun run;
	mlrun_init(&run, MLRULES_11);
	feed_settings(&run, NULL);
	for (size_t i = 0; i < array_length(good); i++) {
		char line[1024];
		int length =
		    snprintf(line, sizeof(line),
			     ":::MLLOG {%s\"time_ms\": %d, \"key\": \"%s\", "
			     "\"value\": %s, \"metadata\": %s}",
			     i % 2 ? "\"namespace\": \"main\", " : "", good[i].seconds * 1000,
			     good[i].key, good[i].value, good[i].metadata);
		mlrun_line(&run, line, (size_t)length);
	}
	mlrun_end(&run);
	if (run.finding_count > 0)
		fail_msg("%s", run.findings[0]);
	assert_true(mlrun_minutes(&run) == 15 && !run.has_aborted && run.broken == 0);
}

/* A run of Intel's of round 0.6, shortened: its time is that of the first model that won. */
static void python_s_notation_is_read(void **state)
{
	static const char *const lines[] = {
	    ":::MLL 1560873514.706 submission_benchmark: {\"value\": \"minigo\", \"metadata\": "
	    "{\"lineno\": 0, \"file\": \"manual\"}}",
	    ":::MLL 1560873515.984 cache_clear: {value: true, metadata: {lineno: 0, file: manual}}",
	    ":::MLL 1560873710.141 run_start: {\"value\": null, \"metadata\": {'lineno': 615, "
	    "'file': 'ml_perf/x.py'}}",
	    ":::MLL 1560875622.040 eval_result: {\"value\": null, \"metadata\": {'lineno': 52, "
	    "'iteration': 14, 'timestamp': 746.25}}",
	    ":::MLL 1560875622.041 run_stop: {\"value\": None, \"metadata\": {'status': "
	    "'success'}}",
	};
	static struct mlrun run;
	mlrun_init(&run, MLRULES_06);
	for (size_t i = 0; i < array_length(lines); i++)
		mlrun_line(&run, lines[i], strlen(lines[i]));
	assert_int_equal(run.broken, 0);
	assert_true(mlrun_minutes(&run) == 746.25 / 60 && run.has_stopped && !run.has_aborted);
	assert_int_equal(run.finding_count, 2); /* the notation, once, and run_start before init */
	assert_non_null(strstr(run.findings[0], "line 2: it is in Python's notation"));
}

static void an_empty_log_is_empty(void **state)
{
	static struct mlrun run;
	mlrun_init(&run, MLRULES_11);
	mlrun_line(&run, "some output", 11);
	mlrun_end(&run);
	assert_int_equal(run.finding_count, 1);
	assert_non_null(strstr(run.findings[0], "it is empty"));
	assert_false(run.has_aborted);
}

/* The rules want a result, and one evaluation that is as good as both targets of Mask R-CNN. */
static void targets_count_for_every_run(void **state)
{
	const struct event stop = {"run_stop", "INTERVAL_END", "null", "{\"status\": \"aborted\"}",
				   1000};
	const struct event low = {"eval_accuracy", "POINT_IN_TIME", "0.2", "{\"epoch_num\": 1}",
				  104};
	static struct mlrun run;
	mlrun_init(&run, MLRULES_11);
	feed_settings(&run, NULL);
	for (size_t i = 0; i < array_length(good); i++)
		feed(&run, strcmp(good[i].key, "eval_accuracy") == 0 ? &low
			   : strcmp(good[i].key, "run_stop") == 0    ? &stop
								     : &good[i]);
	mlrun_end(&run);
	assert_int_equal(run.finding_count, 1);
	assert_non_null(strstr(run.findings[0], "the target was not reached: 0.2 of 0.759"));
}

static void what_cannot_be_read_is_found_and_the_rest_goes_on(void **state)
{
	static struct mlrun run;
	mlrun_init(&run, MLRULES_11);
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
		enum mlrules_round ruleset;
		bool reached;
	} rows[] = {
	    {"\"maskrcnn\"", "{\"BBOX\": 0.377, \"SEGM\": 0.339}", MLRULES_11, true},
	    {"\"maskrcnn\"", "{\"BBOX\": 0.377, \"SEGM\": 0.338}", MLRULES_11, false},
	    {"\"rnnt\"", "0.058", MLRULES_11, true},
	    {"\"rnnt\"", "0.0581", MLRULES_11, false},
	    {"\"bert\"", "0.72", MLRULES_11, true},
	    {"\"bert\"", "0.713", MLRULES_11, false},
	    {"\"bert\"", "0.713", MLRULES_07, true},
	    {"\"of our own\"", "0.1", MLRULES_11, true},
	    {"\"resnet\"", "1.0", MLRULES_11, false},
	    {"\"unet3d\"", "1.0", MLRULES_11, true},
	    {"\"rnnt\"", "0.0", MLRULES_11, false},
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
		bool is_missed = false;
		for (size_t k = 0; k < run.finding_count && k < MLRUN_FINDINGS_MAX; k++)
			is_missed = is_missed || strstr(run.findings[k], "target was not reached");
		if (is_missed == rows[i].reached)
			fail_msg("%s %s", rows[i].benchmark, rows[i].value);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_good_log_has_no_findings),
	    cmocka_unit_test(each_mistake_is_found),
	    cmocka_unit_test(epochs_nest_in_the_oldest_rules_alone),
	    cmocka_unit_test(a_key_again),
	    cmocka_unit_test(tensors_are_initialised_once_each),
	    cmocka_unit_test(lines_with_less_are_read),
	    cmocka_unit_test(python_s_notation_is_read),
	    cmocka_unit_test(an_empty_log_is_empty),
	    cmocka_unit_test(targets_count_for_every_run),
	    cmocka_unit_test(what_cannot_be_read_is_found_and_the_rest_goes_on),
	    cmocka_unit_test(targets_of_other_benchmarks),
	    cmocka_unit_test(scores),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
