/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The statistics of paired comparisons: estimates and exact intervals that assume no distribution,
 * for a few pairs as well as for ten thousand. Pure; knows nothing of what was measured.
 *
 * Sources: F. Wilcoxon, Individual Comparisons by Ranking Methods (1945); J. L. Hodges and
 * E. L. Lehmann, Estimates of Location Based on Rank Tests (1963); H. B. Mann, Nonparametric Tests
 * Against Trend (1945); S. Holm, A Simple Sequentially Rejective Multiple Test Procedure (1979);
 * Student's distribution: NIST Digital Library of Mathematical Functions, 8.17.
 */
#ifndef SLUICE_BENCH_STATS_H
#define SLUICE_BENCH_STATS_H

#include <stddef.h>
#include <stdint.h>

struct err;

enum stats_limits {
	STATS_VALUES_MAX = 1 << 20,
	STATS_EXACT_MAX = 1000, /* pairs up to which the rank distribution is counted out; beyond,
				   the normal distribution stands for it */
};

/* Of finite values, which stay as they are. 0 for none. */
double stats_mean(const double *values, size_t count);
/* Of the sample (divided by count - 1). 0 for fewer than two. */
double stats_deviation(const double *values, size_t count);
/* Sorts them. 0 for none. */
double stats_median(double *values, size_t count);
/* Sorts. */
void stats_sort(double *values, size_t count);

/*
 * The k-th smallest, from 1 on, of the count*(count+1)/2 means of two values each (Walsh averages;
 * each value with itself among them). `sorted` ascends; 1 <= k <= count*(count+1)/2. Needs no
 * memory, and count * 64 steps at most.
 */
double stats_walsh(const double *sorted, size_t count, uint64_t k);
/* The median of these means: where the values lie (Hodges and Lehmann). 0 for none. */
double stats_location(const double *sorted, size_t count);

struct stats_interval {
	double low, high;
};
/*
 * The interval for that location at `confidence` (0.90, 0.95), from Wilcoxon's signed-rank test:
 * exact for every distribution that is symmetric about it. -ERANGE: so few values give none (6 are
 * needed for 0.95, 5 for 0.90); -E2BIG, -ENOMEM.
 */
int stats_interval(const double *sorted, size_t count, double confidence,
		   struct stats_interval *out, struct err *err);
/* The two-sided probability that values whose location is 0 lie as far from it as these. Zeros are
 * left out. Counted out, also with ties; for more than STATS_EXACT_MAX values, and for more than 50
 * with ties, by the normal distribution with the correction for ties. 1 for none. -ENOMEM. */
int stats_signed_rank(const double *values, size_t count, double *out_p, struct err *err);
/* The largest k such that the sum of the signed ranks of `count` values without ties is at most k
 * with a probability of `alpha` at most; -1: there is none. -ENOMEM. */
int stats_rank_bound(size_t count, double alpha, int64_t *out_k, struct err *err);

/* Whether there is a trend in values in the order of time: the two-sided probability of one as
 * strong where there is none. 1 for fewer than 4. */
double stats_trend(const double *values, size_t count);

/* Corrects the probabilities of a family of tests, in place. -ENOMEM. */
int stats_holm(double *p, size_t count, struct err *err);

/* How many pairs it takes, with a power of 0.8, to show with 90 % that pairs whose logarithms have
 * this deviation differ by less than `delta` on both sides, and on one. At least 6; SIZE_MAX when
 * that cannot be reached. */
size_t stats_pairs_equivalent(double deviation, double delta);
size_t stats_pairs_one_sided(double deviation, double delta);

/* The probability that a value of Student's distribution with so many degrees of freedom (above 0)
 * lies below t. Error below 1e-9. */
double stats_student_below(double t, double freedom);

/* Random numbers that a seed repeats on every machine (splitmix64). */
struct stats_random {
	uint64_t state;
};
uint64_t stats_random_next(struct stats_random *random);
/* 0 <= x < 1. */
double stats_random_uniform(struct stats_random *random);
/* Mean 0, deviation 1. */
double stats_random_normal(struct stats_random *random);

#endif
