/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/mlrun.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/err.h"
#include "base/names.h"
#include "bench/stats.h"

#define MLRUN_MINUTE_MS	      60000.0
#define MLRUN_INIT_MINUTES    20.0  /* from the first init_start to init_stop, up to 0.7 */
#define MLRUN_INIT_MINUTES_10 30.0  /* from 1.0 on */
#define MLRUN_BBOX	      0.377 /* the two targets of Mask R-CNN */
#define MLRUN_SEGM	      0.339

/* --- keys --------------------------------------------------------------------------------------
 */

enum mlrun_key {
	KEY_CACHE_CLEAR,
	KEY_INIT_START,
	KEY_INIT_STOP,
	KEY_RUN_START,
	KEY_RUN_STOP,
	KEY_ORG,
	KEY_PLATFORM,
	KEY_DIVISION,
	KEY_STATUS,
	KEY_BENCHMARK,
	KEY_ENTRY,
	KEY_POC_NAME,
	KEY_COUNT,
};

struct mlrun_key_rule {
	const char *name;
	unsigned max; /* 0: any number */
	enum mlrules_round since, until;
	bool has_value;
	bool is_word; /* null is none of those that are allowed */
};

static const struct mlrun_key_rule mlrun_keys[KEY_COUNT] = {
    [KEY_CACHE_CLEAR] = {"cache_clear", 0, MLRULES_06, MLRULES_11, false, false},
    [KEY_INIT_START] = {"init_start", 0, MLRULES_06, MLRULES_11, false, false},
    [KEY_INIT_STOP] = {"init_stop", 1, MLRULES_06, MLRULES_11, false, false},
    [KEY_RUN_START] = {"run_start", 1, MLRULES_06, MLRULES_11, false, false},
    [KEY_RUN_STOP] = {"run_stop", 1, MLRULES_06, MLRULES_11, false, false},
    [KEY_ORG] = {"submission_org", 1, MLRULES_06, MLRULES_11, true, false},
    [KEY_PLATFORM] = {"submission_platform", 1, MLRULES_06, MLRULES_11, true, false},
    [KEY_DIVISION] = {"submission_division", 1, MLRULES_06, MLRULES_11, true, true},
    [KEY_STATUS] = {"submission_status", 1, MLRULES_06, MLRULES_11, true, true},
    [KEY_BENCHMARK] = {"submission_benchmark", 1, MLRULES_06, MLRULES_11, true, true},
    [KEY_ENTRY] = {"submission_entry", 1, MLRULES_06, MLRULES_06, true, false},
    [KEY_POC_NAME] = {"submission_poc_name", 1, MLRULES_06, MLRULES_06, true, false},
};

_Static_assert(KEY_COUNT <= 32, "struct mlrun has room for so many");

/* --- findings -----------------------------------------------------------------------------------
 */

static void mlrun_find(struct mlrun *run, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void mlrun_find(struct mlrun *run, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);

	if (run->finding_count < MLRUN_FINDINGS_MAX) {
		char *out = run->findings[run->finding_count];
		(void)vsnprintf(out, MLRUN_FINDING_MAX, format, arguments); /* cut */
	}

	va_end(arguments);
	run->finding_count++;
}

static void mlrun_repeat(struct mlrun *run, const char *what)
{
	if (run->repeat_count < MLRUN_REPEATS_MAX)
		(void)snprintf(run->repeats[run->repeat_count], MLRUN_FINDING_MAX, "%.*s",
			       MLRUN_FINDING_MAX - 1, what); /* cut */
	run->repeat_count++;
}

/* Of a block: kept until the benchmark is known, for the rules of one waive them. */
static void mlrun_find_block(struct mlrun *run, const char *what)
{
	if (run->block_finding[0] == '\0')
		(void)snprintf(run->block_finding, MLRUN_FINDING_MAX, "line %" PRIu64 ": %s",
			       run->number, what); /* fits */
}

/* --- lines --------------------------------------------------------------------------------------
 */

void mlrun_init(struct mlrun *run, enum mlrules_round ruleset)
{
	*run = (struct mlrun){.ruleset = ruleset,
			      .run_start_ms = NAN,
			      .run_stop_ms = NAN,
			      .global_batch_size = NAN,
			      .seed = NAN,
			      .last_epoch = NAN,
			      .converged_epoch = NAN,
			      .last_accuracy = NAN,
			      .highest = NAN,
			      .highest_below_1 = NAN,
			      .lowest_above_0 = NAN,
			      .lowest = NAN,
			      .best_bbox = NAN,
			      .best_segm = NAN,
			      .eval_stamp_s = NAN,
			      .first_init_ms = NAN,
			      .init_stop_ms = NAN,
			      .epoch = NAN,
			      .eval_epoch = NAN,
			      .block_epoch = NAN};
	mlrules_init(&run->rules, ruleset);
}

/* A key that belongs there once, again: with another value it is a finding. */
static void mlrun_take_key(struct mlrun *run, enum mlrun_key key, const struct mllog *log)
{
	const struct mlrun_key_rule *rule = &mlrun_keys[key];
	bool is_same = run->last_id[key] == log->value_id;

	if (rule->max == 1 && run->seen[key] >= 1 && !is_same) {
		mlrun_find(run, "line %" PRIu64 ": '%s' once more, with another value", run->number,
			   rule->name);
	} else if (rule->max == 1 && run->seen[key] == 1) {
		char text[MLRUN_FINDING_MAX];
		(void)snprintf(text, sizeof(text), "line %" PRIu64 ": '%s' once more", run->number,
			       rule->name); /* fits */
		mlrun_repeat(run, text);
	}

	bool is_empty = log->kind == MLLOG_STRING && log->text[0] == '\0';
	bool is_null = log->kind == MLLOG_NULL || log->kind == MLLOG_OTHER;

	if ((rule->has_value && is_empty) || (is_null && rule->is_word))
		mlrun_find(run, "line %" PRIu64 ": '%s' has no value", run->number, rule->name);
	else if (rule->has_value && is_null)
		run->warning_count++;

	run->last_id[key] = log->value_id;
	run->seen[key]++;
}

static void mlrun_take_times(struct mlrun *run, enum mlrun_key key, const struct mllog *log)
{
	switch (key) {
	case KEY_CACHE_CLEAR:
		if (run->ruleset == MLRULES_06 && (log->kind != MLLOG_BOOL || log->number != 1))
			mlrun_find(run, "line %" PRIu64 ": cache_clear is not true", run->number);
		if (run->ruleset == MLRULES_06 && !isnan(run->first_init_ms))
			mlrun_find(run, "line %" PRIu64 ": cache_clear after init_start",
				   run->number);
		break;
	case KEY_INIT_START:
		if (isnan(run->first_init_ms))
			run->first_init_ms = log->time_ms;

		if (!isnan(run->init_stop_ms))
			mlrun_find(run, "line %" PRIu64 ": init_start after init_stop",
				   run->number);
		break;
	case KEY_INIT_STOP:
		if (!isnan(run->run_start_ms))
			mlrun_find(run, "line %" PRIu64 ": init_stop after run_start", run->number);
		run->init_stop_ms = log->time_ms;
		if (isnan(run->first_init_ms))
			mlrun_find(run, "line %" PRIu64 ": init_stop before init_start",
				   run->number);
		break;
	case KEY_RUN_START:
		if (isnan(run->run_start_ms))
			run->run_start_ms = log->time_ms;

		if (isnan(run->init_stop_ms))
			mlrun_find(run, "line %" PRIu64 ": run_start before init_stop",
				   run->number);
		break;
	case KEY_RUN_STOP:
		run->run_stop_ms = log->time_ms;
		run->has_stopped = true;
		run->has_aborted = strcmp(log->status, "success") != 0;
		run->converged_epoch = run->has_aborted ? NAN : run->last_epoch;
		if (isnan(run->run_start_ms))
			mlrun_find(run, "line %" PRIu64 ": run_stop before run_start", run->number);

		if (run->ruleset == MLRULES_06 && !isnan(run->eval_epoch))
			mlrun_find(run, "line %" PRIu64 ": run_stop within an evaluation",
				   run->number);

		if (run->has_aborted && strcmp(log->status, "aborted") != 0)
			mlrun_find(run,
				   "line %" PRIu64 ": run_stop says the status '%.40s': success or "
				   "aborted",
				   run->number, log->status);
		break;
	default:
		break;
	}
}

static void mlrun_take_objects(struct mlrun *run, const struct mllog *log)
{
	run->best_bbox = fmax(run->best_bbox, log->bbox); /* fmax() passes over NAN */
	run->best_segm = fmax(run->best_segm, log->segm);

	bool is_below_1 = log->bbox < 1 && log->segm < 1;
	run->is_mask_below_1 = run->is_mask_below_1 || is_below_1;
	run->is_mask_reached = run->is_mask_reached ||
			       (is_below_1 && log->bbox >= MLRUN_BBOX && log->segm >= MLRUN_SEGM);
	if (run->object_line == 0)
		run->object_line = run->number;

	if (run->other_line == 0 && (isnan(log->bbox) || isnan(log->segm)))
		run->other_line = run->number;
}

static void mlrun_take_number(struct mlrun *run, double number)
{
	if (run->number_line == 0)
		run->number_line = run->number;
	if (isnan(number))
		return;

	run->last_accuracy = number;
	run->highest = fmax(run->highest, number);
	run->lowest = fmin(run->lowest, number);

	if (number < 1)
		run->highest_below_1 = fmax(run->highest_below_1, number);
	if (number > 0)
		run->lowest_above_0 = fmin(run->lowest_above_0, number);
}

static void mlrun_take_accuracy(struct mlrun *run, const struct mllog *log)
{
	run->last_epoch = isnan(log->epoch_num) ? run->last_epoch : log->epoch_num;
	if (log->kind == MLLOG_OTHER)
		mlrun_take_objects(run, log);
	else if (log->kind == MLLOG_NUMBER || log->kind == MLLOG_BOOL)
		mlrun_take_number(run, log->number);
	else
		mlrun_find(run, "line %" PRIu64 ": eval_accuracy is no number", run->number);
}

/* --- epochs, blocks, evaluations ----------------------------------------------------------------
 */

enum mlrun_phase {
	PHASE_BLOCK_START,
	PHASE_BLOCK_STOP,
	PHASE_EPOCH_START,
	PHASE_EPOCH_STOP,
	PHASE_EVAL_START,
	PHASE_EVAL_STOP,
	PHASE_EVAL_ACCURACY,
	PHASE_COUNT,
};

static const char *const mlrun_phases[PHASE_COUNT] = {
    "block_start", "block_stop", "epoch_start",	  "epoch_stop",
    "eval_start",  "eval_stop",	 "eval_accuracy",
};

_Static_assert(PHASE_COUNT <= 8, "struct mlrun has room for so many");

static void mlrun_want(struct mlrun *run, const struct mllog *log, double value, const char *what)
{
	if (isnan(value))
		mlrun_find(run, "line %" PRIu64 ": '%.60s' has no %s", run->number, log->key, what);
}

/* Rules of 0.6 are findings there; in later rounds it is only odd. */
static void mlrun_order(struct mlrun *run, const struct mllog *log, bool is_right, const char *what)
{
	if (is_right)
		return;
	if (run->ruleset == MLRULES_06)
		mlrun_find(run, "line %" PRIu64 ": '%.60s' %s", run->number, log->key, what);
	else
		run->warning_count++;
}

static void mlrun_take_epoch(struct mlrun *run, const struct mllog *log, bool is_start)
{
	mlrun_want(run, log, log->epoch_num, "epoch_num");
	if (is_start) {
		mlrun_order(run, log, isnan(run->epoch), "while another epoch is not stopped");
		mlrun_order(run, log, log->epoch_num == run->last_begun_epoch + 1,
			    "is not the epoch after the last, from 1 on");
		mlrun_order(run, log, !isnan(run->run_start_ms), "before run_start");
		mlrun_order(run, log, !run->has_stopped, "after run_stop");
		run->epoch = run->last_begun_epoch = log->epoch_num;
	} else {
		mlrun_order(run, log, !isnan(run->epoch), "without its start");
		mlrun_order(run, log, log->epoch_num == run->last_begun_epoch,
			    "is of another epoch than was started");
		run->epoch = NAN;
	}
}

static void mlrun_take_eval(struct mlrun *run, const struct mllog *log, bool is_start)
{
	mlrun_want(run, log, log->epoch_num, "epoch_num");
	if (is_start) {
		mlrun_order(run, log, isnan(run->eval_epoch), "while another is not stopped");
		mlrun_order(run, log, !run->is_accuracy_due, "and the one before found nothing");
		mlrun_order(run, log, log->epoch_num > run->last_begun_eval,
			    "is not of a later epoch than the one before");
		mlrun_order(run, log, log->epoch_num <= run->last_begun_epoch,
			    "is of an epoch that has not begun");
		mlrun_order(run, log, !isnan(run->run_start_ms), "before run_start");
		mlrun_order(run, log, !run->has_stopped, "after run_stop");
		run->eval_epoch = run->last_begun_eval = log->epoch_num;
		run->is_accuracy_due = true;
	} else {
		mlrun_order(run, log, !isnan(run->eval_epoch), "without its start");
		mlrun_order(run, log, log->epoch_num == run->last_begun_eval,
			    "is of another epoch than was started");
		run->eval_epoch = NAN;
	}
}

static void mlrun_take_block(struct mlrun *run, const struct mllog *log, bool is_start)
{
	if (isnan(log->first_epoch_num))
		mlrun_find_block(run, is_start ? "'block_start' has no first_epoch_num"
					       : "'block_stop' has no first_epoch_num");

	if (is_start) {
		if (!(log->epoch_count > 0))
			mlrun_find_block(run, "block_start has no epoch_count above 0");
		if (isnan(run->run_start_ms))
			mlrun_find_block(run, "block_start before run_start");

		double wanted =
		    isnan(run->epoch) ? run->last_begun_epoch + 1 : run->last_begun_eval;

		mlrun_order(run, log, isnan(run->block_epoch), "while another is not stopped");
		mlrun_order(run, log, log->first_epoch_num == wanted,
			    "does not begin with the next epoch");
		mlrun_order(run, log, !run->has_stopped, "after run_stop");
		run->block_epoch = log->first_epoch_num;
		run->is_accuracy_due = false;
	} else {
		mlrun_order(run, log, !isnan(run->block_epoch), "without its start");
		mlrun_order(run, log, !run->is_accuracy_due, "and its evaluation found nothing");
		mlrun_order(run, log, log->first_epoch_num == run->block_epoch,
			    "is of another block than was started");
		run->block_epoch = NAN;
	}
}

static void mlrun_take_phase(struct mlrun *run, enum mlrun_phase phase, const struct mllog *log)
{
	run->phases_seen[phase]++;

	switch (phase) {
	case PHASE_BLOCK_START:
	case PHASE_BLOCK_STOP:
		mlrun_take_block(run, log, phase == PHASE_BLOCK_START);
		break;
	case PHASE_EPOCH_START:
	case PHASE_EPOCH_STOP:
		mlrun_take_epoch(run, log, phase == PHASE_EPOCH_START);
		break;
	case PHASE_EVAL_START:
	case PHASE_EVAL_STOP:
		mlrun_take_eval(run, log, phase == PHASE_EVAL_START);
		break;
	default:
		mlrun_want(run, log, log->epoch_num, "epoch_num");
		mlrun_order(run, log, log->epoch_num == run->last_begun_eval,
			    "is of another epoch than its evaluation");
		run->is_accuracy_due = false;
		mlrun_take_accuracy(run, log);
		break;
	}
}

static void mlrun_take_event(struct mlrun *run, const struct mllog *log)
{
	const char *key = strcmp(log->key, "eval_error") == 0 ? "eval_accuracy" : log->key;
	int phase = names_find(mlrun_phases, key);
	if (phase >= 0)
		mlrun_take_phase(run, (enum mlrun_phase)phase, log);

	if (strcmp(key, "eval_result") == 0)
		run->eval_stamp_s = fmax(run->eval_stamp_s, log->timestamp_s);
	else if (strcmp(key, "seed") == 0 && log->kind == MLLOG_NUMBER)
		run->seed = log->number;
	else if (strcmp(key, "global_batch_size") == 0)
		run->global_batch_size = log->number;
}

static void mlrun_take_names(struct mlrun *run, enum mlrun_key key, const struct mllog *log)
{
	char *const texts[KEY_COUNT] = {[KEY_ORG] = run->organisation,
					[KEY_PLATFORM] = run->platform,
					[KEY_DIVISION] = run->division,
					[KEY_STATUS] = run->status,
					[KEY_BENCHMARK] = run->benchmark};
	if (texts[key])
		memcpy(texts[key], log->text, MLLOG_TEXT_MAX);
}

void mlrun_line(struct mlrun *run, const char *line, size_t length)
{
	struct mllog log;
	struct err err = {0};

	run->number++;
	int found = mllog_parse(line, length, &log, &err);
	if (found == 0)
		return;

	run->lines++;
	if (found < 0) {
		run->broken++;
		mlrun_find(run, "line %" PRIu64 ": %.120s", run->number, err.text);
		return;
	}

	run->is_old = log.is_old;
	if (log.is_python && !run->is_python_told) {
		run->is_python_told = true;
		mlrun_find(run, "line %" PRIu64 ": it is in Python's notation, not in JSON",
			   run->number);
	}

	mlrules_line(&run->rules, run->number, &log);

	for (size_t i = 0; i < KEY_COUNT; i++) {
		if (strcmp(log.key, mlrun_keys[i].name) != 0)
			continue;

		mlrun_take_key(run, (enum mlrun_key)i, &log);
		mlrun_take_times(run, (enum mlrun_key)i, &log);
		mlrun_take_names(run, (enum mlrun_key)i, &log);

		return;
	}

	mlrun_take_event(run, &log);
}

/* --- the end ------------------------------------------------------------------------------------
 */

static bool mlrun_is(const struct mlrun *run, const char *benchmark)
{
	return strcmp(run->benchmark, benchmark) == 0;
}

static bool mlrun_is_closed(const struct mlrun *run)
{
	return strcmp(run->division, "closed") == 0;
}

/* Which events have to be there; from 0.7 on blocks or epochs. */
static void mlrun_check_phases(struct mlrun *run)
{
	static const enum mlrun_phase instead[PHASE_COUNT] = {
	    [PHASE_BLOCK_START] = PHASE_EPOCH_START,	 [PHASE_BLOCK_STOP] = PHASE_EPOCH_STOP,
	    [PHASE_EPOCH_START] = PHASE_BLOCK_START,	 [PHASE_EPOCH_STOP] = PHASE_BLOCK_STOP,
	    [PHASE_EVAL_START] = PHASE_BLOCK_START,	 [PHASE_EVAL_STOP] = PHASE_BLOCK_STOP,
	    [PHASE_EVAL_ACCURACY] = PHASE_EVAL_ACCURACY,
	};
	bool is_old = run->ruleset == MLRULES_06;

	if (is_old && strcmp(run->benchmark, "minigo") == 0)
		return; /* its models are judged afterwards */

	for (size_t i = 0; i < PHASE_COUNT; i++)
		if (run->phases_seen[i] == 0 && (is_old || run->phases_seen[instead[i]] == 0))
			mlrun_find(run, "'%s' is missing", mlrun_phases[i]);

	if (run->block_finding[0] && (is_old || !mlrun_is(run, "minigo") || !mlrun_is_closed(run)))
		mlrun_find(run, "%s", run->block_finding);
}

static void mlrun_check_words(struct mlrun *run, enum mlrules_round ruleset)
{
	static const char *const states[] = {"cloud", "onprem", "research", "preview"};
	if (run->division[0] && strcmp(run->division, "closed") != 0 &&
	    strcmp(run->division, "open") != 0)
		mlrun_find(run, "submission_division is '%.40s': closed or open", run->division);

	size_t count = ruleset == MLRULES_06 ? array_length(states) - 1 : array_length(states);
	if (run->status[0] && names_find_of(states, count, run->status) < 0)
		mlrun_find(run, "submission_status is '%.40s': cloud, onprem, research%s",
			   run->status, ruleset == MLRULES_06 ? "" : " or preview");
	if (run->benchmark[0] && !mlrules_has(ruleset, run->benchmark))
		mlrun_find(run, "submission_benchmark is '%.40s': %s has no such benchmark",
			   run->benchmark, mlrules_to_string(ruleset));
}

static void mlrun_check_keys(struct mlrun *run, enum mlrules_round ruleset)
{
	bool is_minigo = ruleset == MLRULES_06 && strcmp(run->benchmark, "minigo") == 0;

	for (size_t i = 0; i < KEY_COUNT; i++) {
		const struct mlrun_key_rule *rule = &mlrun_keys[i];
		bool is_wanted = ruleset >= rule->since && ruleset <= rule->until &&
				 !(i == KEY_RUN_STOP && is_minigo);
		if (is_wanted && run->seen[i] == 0)
			mlrun_find(run, "'%s' is missing", rule->name);
	}
}

struct mlrun_target {
	const char *benchmark;
	double value;
};

static const struct mlrun_target mlrun_targets[] = {
    {"resnet", 0.759}, {"ssd", 0.230},	 {"transformer", 0.25}, {"gnmt", 0.24},
    {"minigo", 0.5},   {"dlrm", 0.8025}, {"rnnt", 0.058},	{"unet3d", 0.908},
};

/* NAN: there is none for this benchmark. */
static double mlrun_target(const struct mlrun *run, enum mlrules_round ruleset)
{
	if (strcmp(run->benchmark, "bert") == 0) {
		bool is_large = mlrun_is_closed(run) && !(run->global_batch_size < 8192);
		return ruleset == MLRULES_07 ? is_large ? 0.706 : 0.712 : 0.72;
	}

	for (size_t i = 0; i < array_length(mlrun_targets); i++)
		if (strcmp(run->benchmark, mlrun_targets[i].benchmark) == 0)
			return mlrun_targets[i].value;

	return NAN;
}

static void mlrun_check_mask(struct mlrun *run, enum mlrules_round ruleset, bool is_target_wanted)
{
	if (run->number_line > 0 && ruleset != MLRULES_06)
		mlrun_find(run, "line %" PRIu64 ": eval_accuracy has no BBOX and SEGM",
			   run->number_line);
	if (run->other_line > 0 && ruleset != MLRULES_06)
		mlrun_find(run, "line %" PRIu64 ": eval_accuracy lacks BBOX or SEGM",
			   run->other_line);

	if (is_target_wanted && !run->is_mask_reached)
		mlrun_find(run,
			   "the target was not reached: BBOX %.4g of %g, SEGM %.4g of %g, both in "
			   "one evaluation",
			   run->best_bbox, MLRUN_BBOX, run->best_segm, MLRUN_SEGM);
	else if (!is_target_wanted && !run->is_mask_below_1 && ruleset != MLRULES_06)
		mlrun_find(run, "no eval_accuracy is below 1");
}

/* A value of 1 and more is none, but of UNet3D. */
static bool mlrun_is_reached(const struct mlrun *run, double target)
{
	if (mlrun_is(run, "rnnt"))
		return run->lowest_above_0 <= target;
	return (mlrun_is(run, "unet3d") ? run->highest : run->highest_below_1) >= target;
}

/* Also of a run that was aborted: the rules want a result. 0.6 does not say what an accuracy is, so
 * that some of its logs have percent. */
static void mlrun_check_quality(struct mlrun *run, enum mlrules_round ruleset)
{
	bool is_old = ruleset == MLRULES_06;
	bool is_target_wanted = mlrun_is_closed(run) || ruleset == MLRULES_07;
	double target = mlrun_target(run, ruleset);

	if (is_old && (!is_target_wanted || run->has_aborted || mlrun_is(run, "minigo")))
		return;
	if (mlrun_is(run, "maskrcnn")) {
		mlrun_check_mask(run, ruleset, is_target_wanted);
		return;
	}

	if (run->object_line > 0 && !is_old)
		mlrun_find(run, "line %" PRIu64 ": eval_accuracy is no number", run->object_line);

	if (is_target_wanted && !isnan(target) &&
	    !(is_old ? run->highest >= target : mlrun_is_reached(run, target)))
		mlrun_find(run, "the target was not reached: %.5g of %.5g",
			   mlrun_is(run, "rnnt") ? run->lowest : run->highest, target);
	else if (!is_target_wanted && !(run->lowest < 1))
		mlrun_find(run, "no eval_accuracy is below 1");
}

static void mlrun_take_rule(void *data, bool is_repeat, const char *text)
{
	struct mlrun *run = data;
	if (is_repeat)
		mlrun_repeat(run, text);
	else
		mlrun_find(run, "%s", text);
}

void mlrun_end(struct mlrun *run)
{
	enum mlrules_round ruleset = run->ruleset;
	double limit = ruleset >= MLRULES_10 ? MLRUN_INIT_MINUTES_10 : MLRUN_INIT_MINUTES;
	double init = (run->init_stop_ms - run->first_init_ms) / MLRUN_MINUTE_MS;

	if (run->lines == 0) {
		mlrun_find(run, "it is empty: no line has ':::MLLOG' or ':::MLL'");
		return;
	}

	mlrun_check_keys(run, ruleset);
	mlrun_check_words(run, ruleset);
	mlrun_check_phases(run);
	mlrules_end(&run->rules, run->division, run->benchmark, mlrun_take_rule, run);

	if (init >= limit)
		mlrun_find(run, "initialisation took %.1f minutes: less than %g are allowed", init,
			   limit);
	if (run->run_stop_ms < run->run_start_ms)
		mlrun_find(run, "the run ends before it begins");
	if (!isnan(run->epoch) || !isnan(run->eval_epoch))
		run->warning_count++; /* who has reached the target may stop in the middle */
	if (run->has_stopped && run->has_aborted && ruleset == MLRULES_06)
		mlrun_find(run, "it was aborted");
	mlrun_check_quality(run, ruleset);
	run->warning_count += run->repeat_count;
}

double mlrun_minutes(const struct mlrun *run)
{
	bool is_judged_later = run->is_old && mlrun_is(run, "minigo");
	if (is_judged_later && (!run->has_stopped || run->eval_stamp_s > 0))
		return run->eval_stamp_s / 60; /* the first model that won, from the start */
	if (run->run_stop_ms < run->run_start_ms)
		return NAN; /* clocks of two machines, or two logs in one file */
	return (run->run_stop_ms - run->run_start_ms) / MLRUN_MINUTE_MS;
}

/* --- many runs ----------------------------------------------------------------------------------
 */

size_t mlrun_count(const char *benchmark, size_t *out_drop, bool *out_is_known)
{
	static const struct {
		const char *name;
		size_t runs, drop;
	} rows[] = {{"resnet", 5, 1}, {"ssd", 5, 1},	{"maskrcnn", 5, 1},	{"dlrm", 5, 1},
		    {"bert", 10, 1},  {"gnmt", 10, 1},	{"transformer", 10, 1}, {"minigo", 10, 1},
		    {"rnnt", 10, 1},  {"unet3d", 40, 4}};
	*out_drop = 1;
	*out_is_known = true;

	for (size_t i = 0; i < array_length(rows); i++) {
		if (strcmp(benchmark, rows[i].name) == 0) {
			*out_drop = rows[i].drop;
			return rows[i].runs;
		}
	}

	*out_is_known = false;
	return 5;
}

void mlrun_score(const char *benchmark, double *minutes, size_t count, struct mlrun_score *out)
{
	size_t drop;
	bool is_known;
	struct mlrun_score score = {.minutes = NAN, .spread = NAN, .runs = count};

	score.wanted = mlrun_count(benchmark, &drop, &is_known);
	for (size_t i = 0; i < count; i++) {
		if (isnan(minutes[i])) {
			minutes[i] = INFINITY; /* the slowest */
			score.aborted++;
		}
	}

	stats_sort(minutes, count);
	size_t ended = count - score.aborted;

	if (!is_known)
		score.wanted = count;

	if (count != score.wanted)
		score.problem = "another number of runs is wanted";
	else if (count < 2 * drop + 1)
		score.problem = "three runs are needed at least";
	else if (score.aborted > drop)
		score.problem = "too many runs were aborted, or have no end";
	else
		score.minutes = round(stats_mean(minutes + drop, count - 2 * drop) * 100) / 100;

	double apart = ended > 0 ? minutes[ended - 1] - minutes[0] : NAN;

	if (!score.problem) /* of some milliseconds: all alike */
		score.spread =
		    apart > 0 ? apart / stats_mean(minutes + drop, count - 2 * drop) : apart;

	*out = score;
}
