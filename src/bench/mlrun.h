/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One MLPerf-style training run, from its log line by line: what it was, how long it took, and
 * whether the order of its events is that of the rules. Needs the same memory for a log of any
 * length. And many runs of one system: their score. Pure.
 *
 * The rules are those of https://github.com/mlcommons/training_policies and of the checker in
 * https://github.com/mlcommons/logging. MLPerf is a trademark of MLCommons; nothing here is an
 * official result.
 */
#ifndef SLUICE_BENCH_MLRUN_H
#define SLUICE_BENCH_MLRUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench/mllog.h"
#include "bench/mlrules.h"

struct err;

enum mlrun_limits {
	MLRUN_FINDINGS_MAX = 32, /* that are kept; all are counted */
	MLRUN_FINDING_MAX = 192,
	MLRUN_REPEATS_MAX = 8,
};

struct mlrun {
	/* What it says of itself; "" where it does not. */
	char benchmark[MLLOG_TEXT_MAX], organisation[MLLOG_TEXT_MAX], platform[MLLOG_TEXT_MAX];
	char division[MLLOG_TEXT_MAX], status[MLLOG_TEXT_MAX]; /* status: onprem, cloud, ... */
	bool is_old;
	uint64_t lines, broken;		  /* with a token; of them those that cannot be read */
	double run_start_ms, run_stop_ms; /* NAN: never */
	bool has_aborted, has_stopped;
	double global_batch_size, seed;	  /* NAN */
	double last_epoch, last_accuracy; /* of the evaluations; NAN */
	double converged_epoch; /* of the last evaluation before it stopped with success; NAN */
	double eval_stamp_s;	/* of v0.6's MiniGo: since the start; NAN */
	char findings[MLRUN_FINDINGS_MAX][MLRUN_FINDING_MAX];
	size_t finding_count, warning_count;
	/* Of the warnings: keys that are there again with the same value; the first are kept. */
	char repeats[MLRUN_REPEATS_MAX][MLRUN_FINDING_MAX];
	size_t repeat_count;

	/* Its own. */
	uint64_t number; /* of the line */
	double first_init_ms, init_stop_ms;
	unsigned seen[32];
	uint64_t last_id[32]; /* of the value, of keys that have to be there once */
	enum mlrules_round ruleset;
	unsigned phases_seen[8];
	double epoch, eval_epoch, block_epoch; /* open ones; NAN */
	double last_begun_epoch, last_begun_eval;
	bool is_accuracy_due; /* an evaluation began, and has not said what it found */
	char block_finding[MLRUN_FINDING_MAX]; /* the first of a block's; "" none */
	bool is_python_told;
	struct mlrules rules;
	/* Of the evaluations: the best that a rule can take (below 1, or above 0), and what is
	 * needed to say whether each was of the right kind. */
	double highest, highest_below_1, lowest_above_0, lowest;
	double best_bbox, best_segm;
	bool is_mask_reached, is_mask_below_1;
	uint64_t number_line, object_line, other_line; /* the first with such a value; 0: none */
};

/* The rules by which findings are made. */
void mlrun_init(struct mlrun *run, enum mlrules_round ruleset);
/* The next line, without its end. */
void mlrun_line(struct mlrun *run, const char *line, size_t length);
/* After the last: judges what only the end shows. */
void mlrun_end(struct mlrun *run);
/* Minutes from run_start to run_stop; NAN: it has no end. */
double mlrun_minutes(const struct mlrun *run);

/* How many runs a result has, and how many are dropped at each end; 5 and 1 for a benchmark that is
 * not known (`out_is_known`). */
size_t mlrun_count(const char *benchmark, size_t *out_drop, bool *out_is_known);

struct mlrun_score {
	double minutes;		      /* rounded to two decimals; NAN: there is none */
	double spread;		      /* (longest - shortest) / minutes, of the runs that ended */
	size_t runs, aborted, wanted; /* aborted: without a time, whatever the reason */
	const char *problem;	      /* why there is none; NULL; static */
};
/* The olympic mean: the fastest and the slowest are dropped; a run that was aborted is the slowest.
 * `minutes`: NAN for such a run; sorted here. */
void mlrun_score(const char *benchmark, double *minutes, size_t count, struct mlrun_score *out);

#endif
