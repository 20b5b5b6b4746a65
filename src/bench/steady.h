/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One number of a run out of its iterations: the median of those after the run has become steady.
 * Pure.
 */
#ifndef SLUICE_BENCH_STEADY_H
#define SLUICE_BENCH_STEADY_H

#include <stdbool.h>
#include <stddef.h>

struct err;

enum steady_limits {
	STEADY_WINDOW = 10, /* iterations whose median has to be near that of the second half */
	STEADY_SAMPLES_MAX = 1 << 22,
};
#define STEADY_NEAR 0.02

struct steady {
	double median;	/* of what is kept */
	size_t discard; /* iterations at the beginning that do not count */
	bool is_steady; /* false: no window was near, and all are kept */
};

/* `samples` in the order of time, at least one. With fewer than two windows all are kept, and it
 * counts as steady. -EINVAL: there is none; -E2BIG, -ENOMEM. */
int steady_find(const double *samples, size_t count, struct steady *out, struct err *err);

#endif
