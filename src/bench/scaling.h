/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A scaling series: how much faster a job becomes with more workers. For each number of workers the
 * rates of its runs; beside them the speed-up over the smallest number, and the efficiency, which
 * is the speed-up divided by how many times more workers there are. Pure.
 */
#ifndef SLUICE_BENCH_SCALING_H
#define SLUICE_BENCH_SCALING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench/result.h"

struct buf;
struct err;
struct jsonw;

enum scaling_limits {
	SCALING_POINTS_MAX = 256,
	SCALING_RUNS_MAX = 65536, /* of the whole series */
	SCALING_WORKERS_MAX = 1 << 24,
	SCALING_CSV_MAX = 16 << 20,
};

/* Quotients of rates between these are numbers. */
#define SCALING_RATE_MIN 1e-15
#define SCALING_RATE_MAX 1e15

/* The name of the metric that says how many workers a run had. */
#define SCALING_WORKERS "workers"

struct scaling_run {
	uint64_t workers;
	double rate;
};

struct scaling_point {
	uint64_t workers;
	size_t runs;
	double rate;	  /* median */
	double low, high; /* of its runs */
	double speed_up, efficiency;
	/* The efficiency with the lowest and the highest rate, of both numbers of workers. */
	double efficiency_low, efficiency_high;
};

struct scaling {
	char metric[RESULT_NAME_MAX], unit[RESULT_UNIT_MAX];
	struct scaling_run *runs; /* owned */
	size_t run_count, run_room;
	struct scaling_point points[SCALING_POINTS_MAX]; /* workers rise */
	size_t count;
};
void scaling_init(struct scaling *scaling);
void scaling_done(struct scaling *scaling);

/* Whether every run of a result says how many workers it had. */
bool scaling_is_series(const struct result *result);
/* Adds its runs. `metric` NULL: the first that is a rate. -EINVAL: a run failed, or has no such
 * metric, or no whole number of workers; it is named by its number. -E2BIG, -ENOMEM. */
int scaling_add_result(struct scaling *scaling, const struct result *result, const char *metric,
		       struct err *err);
/*
 * Adds the rows of a table: a line of names, one of them "workers", then numbers; separated by
 * commas, semicolons or tabs; lines that begin with # are passed over. `metric` NULL: the first
 * column that is not the workers. -EINVAL names the line.
 */
int scaling_add_csv(struct scaling *scaling, const char *text, size_t length, const char *metric,
		    struct err *err);
/* After the last. -EINVAL: fewer than two numbers of workers; -E2BIG: more than
 * SCALING_POINTS_MAX. */
int scaling_end(struct scaling *scaling, struct err *err);

/* Each appends. As buf_add(). */
int scaling_text(const struct scaling *scaling, struct buf *out);
/* A page with two plots: the rate beside what it would be if all workers were as fast as the first
 * ones, and the efficiency. */
int scaling_html(const struct scaling *scaling, const char *version, const char *started,
		 struct buf *out);
/* The members "metric", "unit" and "scaling" of the object that is being written. */
void scaling_json(const struct scaling *scaling, struct jsonw *json);

#endif
