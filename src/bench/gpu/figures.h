/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The arithmetic of a load: operands, percentiles that leave no sample out, arrivals, and how
 * fairly several shared. Pure; knows no GPU.
 */
#ifndef SLUICE_BENCH_GPU_FIGURES_H
#define SLUICE_BENCH_GPU_FIGURES_H

#include <stddef.h>
#include <stdint.h>

struct stats_random;

/* Uniform in (-1, 1), rounded to half precision. The clock of a GPU depends on its operands. */
void figures_fill_halves(uint16_t *out, size_t count, struct stats_random *random);

/* The smallest of `sorted` (ascending) that `share` (0..1) of them do not exceed: the nearest rank.
 * 0 for none. */
double figures_percentile(const double *sorted, size_t count, double share);

/* Times between arrivals of a Poisson process: exponential with this mean. */
double figures_next_arrival(struct stats_random *random, double mean);
/* When requests are due, in ns from the start, ascending, until `end_ns`. How many, `max` at most.
 */
size_t figures_arrivals(struct stats_random *random, double per_second, uint64_t end_ns,
			uint64_t *out, size_t max);

/* (sum x)^2 / (n sum x^2) of x = rate/weight: 1 when all got what their weights say. 0 for none, or
 * when nobody got anything. */
double figures_jain(const double *rates, const double *weights, size_t count);
/* The largest |rate/sum of rates - weight/sum of weights|, in points (1 point: 0.01). */
double figures_share_error(const double *rates, const double *weights, size_t count);

#endif
