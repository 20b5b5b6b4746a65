/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/gpu/figures.h"

#include <math.h>
#include <string.h>

#include "bench/half.h"
#include "bench/stats.h"

void figures_fill_halves(uint16_t *out, size_t count, struct stats_random *random)
{
	for (size_t i = 0; i < count; i++)
		out[i] = half_from_float((float)(2 * stats_random_uniform(random) - 1));
}

double figures_percentile(const double *sorted, size_t count, double share)
{
	if (count == 0)
		return 0;
	/* 0.99 * 100 is more than 99 by an ulp: that is not the hundredth. */
	double rank = ceil(share * (double)count * (1 - 1e-12));
	size_t index = rank < 1 ? 0 : (size_t)rank - 1;
	return sorted[index < count ? index : count - 1];
}

/* Times between arrivals of a Poisson process: exponential with this mean. */
static double figures_next_arrival(struct stats_random *random, double mean)
{
	return -mean * log1p(-stats_random_uniform(random));
}

size_t figures_arrivals(struct stats_random *random, double per_second, uint64_t end_ns,
			uint64_t *out, size_t max)
{
	double at = 0;
	size_t count = 0;
	while (count < max) {
		at += figures_next_arrival(random, 1e9 / per_second);
		if (at >= (double)end_ns)
			break;
		out[count++] = (uint64_t)at;
	}

	return count;
}
