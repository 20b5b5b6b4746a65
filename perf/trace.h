/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A week of a lab as a list of jobs, made from a seed, and what a policy makes of it. For
 * bench-trace.
 */
#ifndef SLUICE_PERF_TRACE_H
#define SLUICE_PERF_TRACE_H

#include <stddef.h>
#include <stdint.h>

enum trace_limits {
	TRACE_GPUS = 8,
	TRACE_USERS = 12,
	TRACE_NAMES = 4, /* of each user's jobs */
	TRACE_WEEK_S = 7 * 86400,
};

enum trace_policy { TRACE_OURS, TRACE_FIFO, TRACE_EASY, TRACE_POLICIES };
extern const char *const trace_policy_name[TRACE_POLICIES];

struct trace_job {
	uint32_t user, name, gpus;
	uint64_t arrives_s, runs_s;
	uint64_t limit_s; /* what its user says: it never runs longer */
	uint64_t started_s;
};

struct trace {
	struct trace_job *jobs; /* owned; in the order in which they arrive */
	size_t count;
	size_t broken_promises; /* of ours: wide jobs that started later than they were told */
};

/* The parameters are in trace_make.c. -ENOMEM. */
int trace_make(struct trace *out, uint64_t seed);
void trace_done(struct trace *trace);
/* Enters when each job has started. -ENOMEM. */
int trace_run(struct trace *trace, enum trace_policy policy);
int trace_run_ours(struct trace *trace);
/* Of the GPU-seconds of the week those in which a job ran. */
double trace_utilisation(const struct trace *trace);

#endif
