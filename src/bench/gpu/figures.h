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

/* When requests are due, in ns from the start, ascending, until `end_ns`. How many, `max` at most.
 */
size_t figures_arrivals(struct stats_random *random, double per_second, uint64_t end_ns,
			uint64_t *out, size_t max);

#endif
