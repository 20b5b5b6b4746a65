/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs one command of a comparison and measures it: by the clock, by what the kernel counts, and by
 * what it says of itself. Also what disturbed it meanwhile. Blocks; for programs that do nothing
 * else. Knows nothing of sides and verdicts.
 */
#ifndef SLUICE_BENCH_RUNNER_H
#define SLUICE_BENCH_RUNNER_H

#include <regex.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct result_run;

enum runner_limits {
	RUNNER_LINE_MAX = 65536, /* of its output; what is longer is looked at in parts */
};

struct runner_options {
	const char *command; /* for /bin/sh -c */
	/* Where it may write a result (SLUICE_RESULT_FILE): a file that is there, and is emptied.
	 */
	const char *result_path;
	uint64_t timeout_ns; /* 0: none */
	/* Its first group is a value of the metric "output"; NULL. Of several lines the last
	 * counts.
	 */
	const regex_t *line;
	bool line_higher_is_better;
	/* Its output is the table of nccl-tests: "output" is the largest bus bandwidth (GB/s,
	 * higher is better), and a run in which elements are wrong has failed. */
	bool is_nccl_table;
	/* What it prints is a log of MLPerf training (mllog.h), which gives "time_to_train" (s),
	 * "epochs", and "epoch_time" (s): what an epoch of it took. */
	bool is_mllog;
	bool shows_output;
};

/*
 * Runs it to its end, and fills `out` (initialised by the caller) but for its place in the plan. 0
 * also when the command failed: out->rc. The metrics "wall" (s), "cpu" (s, of it and its children)
 * and "rss" (bytes, of the largest process) are always there. -EINTR: a signal came, and the
 * command was killed with its process group; otherwise it could not be started.
 */
int runner_run(const struct runner_options *options, struct result_run *out, struct err *err);
/* SIGINT and SIGTERM end runner_run() from now on, and not this program. */
void runner_catch_signals(void);

/* Of the text of /proc/stat: what others had of the processors, in clock ticks. -EBADMSG. Pure. */
int runner_parse_steal(const char *text, size_t length, uint64_t *out_ticks);
/* Of the text of cpu.stat, of either generation: how long a group stood still, in microseconds.
 * -EBADMSG: it does not say. Pure. */
int runner_parse_throttled(const char *text, size_t length, uint64_t *out_us);

#endif
