/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a benchmark leaves behind, as JSON: "sluice.result/1". Raw samples, never means alone, so
 * that somebody else can compare. Pure; knows nothing of files.
 *
 * {schema, tool, version, started, argv[], seed, fingerprint{}, runs[{side, index, block, slot,
 * start_ns, end_ns, rc, metrics{NAME: {unit, better, samples[]}}, env_events{}}], verdicts[]}.
 * Readers accept keys that they do not know, and refuse another number behind the slash.
 */
#ifndef SLUICE_BENCH_RESULT_H
#define SLUICE_BENCH_RESULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct err;

#define RESULT_SCHEMA "sluice.result/1"

enum result_limits {
	RESULT_METRICS_MAX = 32, /* of one run */
	RESULT_NAME_MAX = 64,
	RESULT_UNIT_MAX = 16,
	RESULT_SIDE_MAX = 8,
	RESULT_TAIL_MAX = 2048,
	RESULT_PROBLEM_MAX = 256,
	RESULT_RUNS_MAX = 400000,
	RESULT_SAMPLES_MAX = 1 << 22, /* of one metric of a run */
	RESULT_BYTES_MAX = 256 << 20,
};

struct result_metric {
	char name[RESULT_NAME_MAX], unit[RESULT_UNIT_MAX];
	bool higher_is_better;
	double *samples; /* owned; in the order of time, finite */
	size_t sample_count;
	double value;	  /* the median of the steady ones */
	bool is_unsteady; /* there were none */
};

struct result_run {
	char side[RESULT_SIDE_MAX]; /* "A", "B", "-" */
	uint64_t index, block;
	uint32_t slot;		   /* 1st or 2nd of its pair */
	uint64_t start_ns, end_ns; /* CLOCK_MONOTONIC of that machine */
	int rc;			   /* as a shell has it: 128 + n after signal n */
	bool timed_out;
	uint64_t steal_ms;     /* that others had of the processors, of all of them */
	uint64_t throttled_us; /* that its control group had to stand still */
	uint32_t gpu_throttle; /* bits of SNAPSHOT_THROTTLE that were seen on any GPU meanwhile */
	uint32_t gpu_celsius;  /* the hottest that one was; 0: not known */
	struct result_metric *metrics; /* owned */
	size_t metric_count;
	char tail[RESULT_TAIL_MAX];	  /* of its errors; as it wrote them */
	char problem[RESULT_PROBLEM_MAX]; /* why its own result could not be read; "" */
};

void result_run_init(struct result_run *run);
void result_run_done(struct result_run *run);
/* Adds a metric with a copy of its samples (at least one). A name that is there already is
 * replaced. -EINVAL: no name, too long a name or unit, a sample that is not finite; -E2BIG,
 * -ENOMEM. */
int result_run_add(struct result_run *run, const char *name, const char *unit,
		   bool higher_is_better, const double *samples, size_t count, struct err *err);
/* Or NULL. */
const struct result_metric *result_run_find(const struct result_run *run, const char *name);
/* By rc and the clock. */
bool result_run_failed(const struct result_run *run);

struct result {
	char tool[RESULT_NAME_MAX];
	uint64_t seed;
	struct result_run *runs; /* owned */
	size_t run_count, run_room;
	char *fingerprint;	    /* owned; JSON of where it was measured; NULL */
	struct result *calibration; /* owned; its runs, of A beside itself; NULL: there are none */
	unsigned looks;		    /* how often a recorded comparison looks at its data; 1 */
};
void result_init(struct result *result);
void result_done(struct result *result);
#define _cleanup_result_ __attribute__((cleanup(result_done)))
/* A new run at the end, initialised; borrowed until the next. NULL: no memory, or too many. */
struct result_run *result_add_run(struct result *result);

/* `out` is initialised here. -EINVAL names the place ("runs[3].metrics.wall: ..."), -EPROTO: of
 * another schema, -ENOMEM. Pure; takes anything. */
int result_parse(const char *text, size_t length, struct result *out, struct err *err);

struct jsonw;
/* `runs` as a member of the object that is being written. */
void result_write_runs(struct jsonw *json, const struct result *result);
/* A number of any size, or null where JSON has none. */
void result_write_number(struct jsonw *json, const char *key, double number);

#endif
