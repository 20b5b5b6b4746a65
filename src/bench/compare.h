/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A comparison of two commands: runs them in turns, first one of them against itself, and says of
 * each metric what can be said. Blocks. Knows nothing of options and of how a report looks.
 */
#ifndef SLUICE_BENCH_COMPARE_H
#define SLUICE_BENCH_COMPARE_H

#include <regex.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench/result.h"
#include "bench/verdict.h"

struct err;

enum compare_limits {
	COMPARE_METRICS_MAX = 16,
};

struct compare_plan {
	const char *a, *b;	       /* commands, for /bin/sh -c */
	const char *setup_a, *setup_b; /* before each run of a side, not measured; NULL */
	uint64_t pairs;		       /* VERDICT_PAIRS_MIN at least, for a verdict */
	uint64_t max_pairs;	       /* 0: `pairs` and no more; else a second look at so many at
					  most, if the first decides nothing */
	uint64_t warmups;	       /* runs of each side that do not count */
	uint64_t seed;
	uint64_t cooldown_ns, timeout_ns;
	double margin;
	bool calibrates; /* A against itself first */
	const char *result_path;
	const regex_t *line;
	bool line_higher_is_better, shows_output;
	bool is_nccl_table, is_mllog; /* runner.h */
	const char *metrics[COMPARE_METRICS_MAX];
	size_t metric_count;
	/* Before each run: what is going on, how many runs are done of how many. May be NULL. */
	void (*progress)(const char *what, uint64_t done, uint64_t all, void *context);
	/* After each run: adds what was seen of the GPUs meanwhile. May be NULL. */
	void (*look)(struct result_run *run, void *context);
	void *context;
};

struct compare_judgement {
	char metric[RESULT_NAME_MAX], unit[RESULT_UNIT_MAX];
	bool higher_is_better;
	struct verdict verdict;
	double p_corrected; /* for the number of metrics */
	double median_a, median_b;
	bool has_calibration;
	struct verdict calibration; /* of A against itself */
	double resolution;	    /* what it can tell apart: half its interval */
	bool is_unsteady;	    /* some run of it */
	bool is_unpaired;	    /* of two files: nothing was interleaved */
};

struct compare_outcome {
	struct result calibration, runs;
	struct compare_judgement judgements[COMPARE_METRICS_MAX];
	size_t judgement_count;
	unsigned looks;
	size_t failed_runs, disturbed_runs;
	uint32_t gpu_throttle; /* bits of SNAPSHOT_THROTTLE of all runs */
	bool is_simulated;     /* recorded runs: there, GPUs were simulated */
	char *differences; /* owned; of where two recorded sides were measured, in lines; NULL */
	const struct result_run *failure; /* the first; borrowed of `runs` or `calibration`; NULL */
};
void compare_init(struct compare_outcome *outcome);
void compare_done(struct compare_outcome *outcome);

/* 0, also when runs fail: the verdict says so. -EINTR, -EINVAL (a metric that no run has, with
 * those that there are), -ENOMEM, ... What was measured until then is in `out` in any case. */
int compare_run(const struct compare_plan *plan, struct compare_outcome *out, struct err *err);

/* Judges out->runs again, which were measured by compare_run() before: with the margin and the
 * metrics of `plan`, and by the calibration and the looks that were recorded with them. */
int compare_again(const struct compare_plan *plan, struct compare_outcome *out, struct err *err);

/*
 * The same of two recorded results: the i-th run of each is a pair. Sides named A and B within each
 * file are not told apart: all runs of a file are its side. -EINVAL: different numbers of runs, a
 * metric that is missing.
 */
int compare_recorded(const struct result *a, const struct result *b, double margin,
		     const char *const *metrics, size_t metric_count, struct compare_outcome *out,
		     struct err *err);

/* The gravest of all metrics: what the whole comparison says. */
enum verdict_kind compare_kind(const struct compare_outcome *outcome);
/* Whether others took part of the processors, the group stood still, or a GPU was slowed down for
 * its heat or its supply, so that it counts. */
bool compare_is_disturbed(const struct result_run *run);

#endif
