/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast two bare processes pass a byte back and forth over a unix socket, here and now: what the
 * allowance of every time gate refers to, and what a figure through a socket is to be compared
 * with. Knows nothing of gates; perf/gate.c asks it once for each report.
 */
#ifndef SLUICE_PERF_PINGPONG_H
#define SLUICE_PERF_PINGPONG_H

#include <stddef.h>

enum pingpong_limits {
	PINGPONG_COUNT = 4000, /* round trips: about 50 ms */
	PINGPONG_COUNT_MAX = 100000,
	/*
	 * Median on the reference machine (2-core x86-64 VM) with nothing else running: the lowest
	 * of 20 runs of `perf/noise`.
	 */
	PINGPONG_QUIET_NS = 8400,
	PINGPONG_NOISE_MAX = 3,
};

struct pingpong {
	double median_ns, p99_ns; /* of a round trip; 0 when it could not be measured */
	double noise;		  /* median / PINGPONG_QUIET_NS, within 1 and PINGPONG_NOISE_MAX */
};

/*
 * Measures `count` (1 .. PINGPONG_COUNT_MAX) round trips. 0, or -errno and then `out` says that
 * there is no allowance.
 */
int pingpong_measure(size_t count, struct pingpong *out);

#endif
