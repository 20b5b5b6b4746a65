/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/stats.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"

enum {
	STATS_PAIRS_MIN = 6,
	STATS_TREND_MIN = 4,
	STATS_FRACTION_STEPS = 300,
	STATS_TIED_MAX = 50, /* values with ties that are counted out */
};

/* Of the normal distribution: 0.95, 0.90 and 0.80 of it lie below these. */
#define STATS_Z_95	1.644854
#define STATS_Z_90	1.281552
#define STATS_Z_80	0.841621
#define STATS_RANK_COST 0.955 /* of the signed-rank test beside the t test: 3/pi */

double stats_mean(const double *values, size_t count)
{
	double sum = 0;
	for (size_t i = 0; i < count; i++)
		sum += values[i];
	return count > 0 ? sum / (double)count : 0;
}

double stats_deviation(const double *values, size_t count)
{
	if (count < 2)
		return 0;
	double mean = stats_mean(values, count), sum = 0;
	for (size_t i = 0; i < count; i++)
		sum += (values[i] - mean) * (values[i] - mean);
	return sqrt(sum / (double)(count - 1));
}

static int stats_compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

void stats_sort(double *values, size_t count)
{
	qsort(values, count, sizeof(*values), stats_compare);
}

double stats_median(double *values, size_t count)
{
	if (count == 0)
		return 0;
	stats_sort(values, count);
	return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

/* --- means of two ----------------------------------------------------------------------------- */

static double stats_mean_of_two(double a, double b)
{
	return a / 2 + b / 2; /* the sum could overflow */
}

/* How many of the means are at most `limit`. */
static uint64_t stats_walsh_count(const double *sorted, size_t count, double limit)
{
	uint64_t found = 0;
	size_t end = count; /* for value i, all up to `end` give means within the limit */

	for (size_t i = 0; i < count; i++) {
		while (end > 0 && stats_mean_of_two(sorted[i], sorted[end - 1]) > limit)
			end--;
		if (end <= i)
			break; /* the rest were counted with those before */
		found += end - i;
	}

	return found;
}

/* Numbers in the order of the doubles that they stand for, so that halving finds any double. */
static uint64_t stats_order(double value)
{
	uint64_t bits;
	memcpy(&bits, &value, sizeof(bits));
	return bits >> 63 ? ~bits : bits | UINT64_C(1) << 63;
}

static double stats_unorder(uint64_t order)
{
	uint64_t bits = order >> 63 ? order & ~(UINT64_C(1) << 63) : ~order;
	double value;
	memcpy(&value, &bits, sizeof(value));
	return value;
}

double stats_walsh(const double *sorted, size_t count, uint64_t k)
{
	uint64_t low = stats_order(sorted[0]), high = stats_order(sorted[count - 1]);

	while (low < high) {
		uint64_t middle = low + (high - low) / 2;
		if (stats_walsh_count(sorted, count, stats_unorder(middle)) >= k)
			high = middle;
		else
			low = middle + 1;
	}

	return stats_unorder(low);
}

double stats_location(const double *sorted, size_t count)
{
	if (count == 0)
		return 0;
	uint64_t all = (uint64_t)count * (count + 1) / 2;
	double upper = stats_walsh(sorted, count, all / 2 + 1);
	return all % 2 ? upper : stats_mean_of_two(stats_walsh(sorted, count, all / 2), upper);
}

/* --- signed ranks ----------------------------------------------------------------------------- */

static double stats_normal_cdf(double z)
{
	return erfc(-z / M_SQRT2) / 2;
}

/* One more rank, which is in the sum or not, with the same chance; `*top` is the largest sum. */
static void stats_rank_add(double *p, size_t *top, size_t rank)
{
	for (size_t sum = *top + 1; sum-- > 0;)
		p[sum + rank] += p[sum]; /* twice what it will be */
	*top += rank;
	for (size_t sum = 0; sum <= *top; sum++)
		p[sum] /= 2;
}

/* The probability of each sum of signed ranks of `count` values, from 0 to count*(count+1)/2: each
 * rank is in the sum or not, with the same chance. Caller's. NULL: no memory. */
static double *stats_rank_distribution(size_t count)
{
	size_t top = 0;
	double *p = calloc(count * (count + 1) / 2 + 1, sizeof(*p));
	if (!p)
		return NULL;

	p[0] = 1;
	for (size_t rank = 1; rank <= count; rank++)
		stats_rank_add(p, &top, rank);

	return p;
}

/* The same of ranks that ties share, of twice each sum: they are halves. */
static double *stats_tied_distribution(const double *by_size, size_t count)
{
	size_t top = 0;
	double *p = calloc(count * (count + 1) + 1, sizeof(*p));
	if (!p)
		return NULL;

	p[0] = 1;
	for (size_t i = 0, end; i < count; i = end) {
		for (end = i + 1; end < count && fabs(by_size[end]) == fabs(by_size[i]);)
			end++;
		for (size_t j = i; j < end; j++)
			stats_rank_add(p, &top, i + 1 + end);
	}

	return p;
}

/* Above that many the normal distribution, with half a step for the continuity. */
static int64_t stats_rank_bound_normal(size_t count, double alpha)
{
	double n = (double)count, mean = n * (n + 1) / 4;
	double deviation = sqrt(n * (n + 1) * (2 * n + 1) / 24);
	int64_t low = -1, high = (int64_t)mean;

	while (low < high) {
		int64_t middle = low + (high - low + 1) / 2;
		if (stats_normal_cdf(((double)middle + 0.5 - mean) / deviation) <= alpha)
			low = middle;
		else
			high = middle - 1;
	}

	return low;
}

int stats_rank_bound(size_t count, double alpha, int64_t *out_k, struct err *err)
{
	if (count > STATS_EXACT_MAX) {
		*out_k = stats_rank_bound_normal(count, alpha);
		return 0;
	}

	_cleanup_free_ double *p = stats_rank_distribution(count);
	if (!p)
		return err_set(err, -ENOMEM, "no memory for the ranks of %zu pairs", count);

	double sum = 0;
	int64_t k = -1;
	for (size_t i = 0; i <= count * (count + 1) / 2; i++) {
		sum += p[i];
		if (sum > alpha)
			break;
		k = (int64_t)i;
	}

	*out_k = k;
	return 0;
}

int stats_interval(const double *sorted, size_t count, double confidence,
		   struct stats_interval *out, struct err *err)
{
	int64_t k;

	if (count > STATS_VALUES_MAX)
		return err_set(err, -E2BIG, "%zu pairs are too many: at most %d are possible",
			       count, STATS_VALUES_MAX);

	int rc = stats_rank_bound(count, (1 - confidence) / 2, &k, err);
	if (rc < 0)
		return rc;
	if (k < 0)
		return err_set(err, -ERANGE, "%zu pairs are too few for an interval of %.0f %%",
			       count, confidence * 100);

	uint64_t all = (uint64_t)count * (count + 1) / 2;

	out->low = stats_walsh(sorted, count, (uint64_t)k + 1);
	out->high = stats_walsh(sorted, count, all - (uint64_t)k);
	return 0;
}

static int stats_compare_size(const void *a, const void *b)
{
	double x = fabs(*(const double *)a), y = fabs(*(const double *)b);
	return (x > y) - (x < y);
}

/* The sum of the ranks of those above 0, and what ties take from the variance. */
static double stats_rank_sum(const double *by_size, size_t count, double *out_ties)
{
	double sum = 0;

	*out_ties = 0;
	for (size_t i = 0; i < count;) {
		size_t end = i + 1;
		while (end < count && fabs(by_size[end]) == fabs(by_size[i]))
			end++;

		double rank = (double)(i + 1 + end) / 2, tied = (double)(end - i);
		*out_ties += tied * tied * tied - tied;

		for (; i < end; i++)
			sum += by_size[i] > 0 ? rank : 0;
	}

	return sum;
}

int stats_signed_rank(const double *values, size_t count, double *out_p, struct err *err)
{
	_cleanup_free_ double *own = calloc(count + 1, sizeof(*own));
	if (!own)
		return err_set(err, -ENOMEM, "no memory for the ranks of %zu pairs", count);

	size_t kept = 0;
	for (size_t i = 0; i < count; i++)
		if (values[i] != 0)
			own[kept++] = values[i];

	*out_p = 1;
	if (kept == 0)
		return 0;

	qsort(own, kept, sizeof(*own), stats_compare_size);
	double ties, sum = stats_rank_sum(own, kept, &ties), n = (double)kept;
	double mean = n * (n + 1) / 4, less = sum < mean ? sum : 2 * mean - sum;

	if (kept > (ties > 0 ? STATS_TIED_MAX : STATS_EXACT_MAX)) {
		double variance = n * (n + 1) * (2 * n + 1) / 24 - ties / 48;
		double z = variance > 0 ? (less - mean) / sqrt(variance) : 0;

		*out_p = 2 * stats_normal_cdf(z);
	} else {
		_cleanup_free_ double *p =
		    ties > 0 ? stats_tied_distribution(own, kept) : stats_rank_distribution(kept);
		if (!p)
			return err_set(err, -ENOMEM, "no memory for the ranks of %zu pairs", kept);

		double tail = 0;
		for (size_t i = 0; i <= (size_t)(ties > 0 ? 2 * less : less); i++)
			tail += p[i];

		*out_p = 2 * tail;
	}

	*out_p = *out_p < 1 ? *out_p : 1;
	return 0;
}

/* --- trend, families, pairs ------------------------------------------------------------------- */

double stats_trend(const double *values, size_t count)
{
	if (count < STATS_TREND_MIN)
		return 1;

	int64_t sum = 0;
	double ties = 0;

	for (size_t i = 0; i < count; i++) {
		double tied = 0;
		bool is_first = true;
		for (size_t j = 0; j < count; j++) {
			if (j > i)
				sum += (values[j] > values[i]) - (values[j] < values[i]);
			tied += values[j] == values[i];
			is_first = is_first && (j >= i || values[j] != values[i]);
		}

		if (is_first)
			ties += tied * (tied - 1) * (2 * tied + 5);
	}

	double n = (double)count, variance = (n * (n - 1) * (2 * n + 5) - ties) / 18;
	if (sum == 0 || variance <= 0)
		return 1;

	double z = ((double)sum + (sum > 0 ? -1 : 1)) / sqrt(variance);
	return 2 * stats_normal_cdf(-fabs(z));
}

struct stats_ordered {
	double p;
	size_t place;
};

static int stats_compare_ordered(const void *a, const void *b)
{
	return stats_compare(&((const struct stats_ordered *)a)->p,
			     &((const struct stats_ordered *)b)->p);
}

int stats_holm(double *p, size_t count, struct err *err)
{
	_cleanup_free_ struct stats_ordered *order = calloc(count + 1, sizeof(*order));
	if (!order)
		return err_set(err, -ENOMEM, "no memory for %zu probabilities", count);

	for (size_t i = 0; i < count; i++)
		order[i] = (struct stats_ordered){p[i], i};

	qsort(order, count, sizeof(*order), stats_compare_ordered);
	double largest = 0;
	for (size_t i = 0; i < count; i++) {
		double corrected = order[i].p * (double)(count - i);
		largest = corrected > largest ? corrected : largest;
		p[order[i].place] = largest < 1 ? largest : 1;
	}

	return 0;
}

static size_t stats_pairs(double z, double deviation, double delta)
{
	double pairs = ceil(z * z * deviation * deviation / (delta * delta) / STATS_RANK_COST);
	if (!(delta > 0) || !(pairs < (double)SIZE_MAX / 2))
		return SIZE_MAX;
	return pairs > STATS_PAIRS_MIN ? (size_t)pairs : STATS_PAIRS_MIN;
}

size_t stats_pairs_equivalent(double deviation, double delta)
{
	return stats_pairs(STATS_Z_95 + STATS_Z_90, deviation, delta);
}

size_t stats_pairs_one_sided(double deviation, double delta)
{
	return stats_pairs(STATS_Z_95 + STATS_Z_80, deviation, delta);
}

/* --- Student's distribution ---------------------------------------------------------------------
 */

/* The continued fraction of the incomplete beta function (DLMF 8.17.22), by Lentz's method; it
 * converges within some dozens of steps for x below (a + 1) / (a + b + 2). */
static double stats_beta_fraction(double a, double b, double x)
{
	const double tiny = 1e-300;
	double c = 1, d = 1 - (a + b) * x / (a + 1);

	d = 1 / (fabs(d) < tiny ? tiny : d);
	double value = d;

	for (int m = 1; m <= STATS_FRACTION_STEPS; m++) {
		double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
		double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));

		d = 1 + even * d;
		c = 1 + even / c;
		d = 1 / (fabs(d) < tiny ? tiny : d);
		value *= d * (fabs(c) < tiny ? tiny : c);
		d = 1 + odd * d;
		c = 1 + odd / c;
		d = 1 / (fabs(d) < tiny ? tiny : d);

		double factor = d * (fabs(c) < tiny ? tiny : c);
		value *= factor;
		if (fabs(factor - 1) < 1e-14)
			break;
	}

	return value;
}

static double stats_beta(double a, double b, double x)
{
	if (!(x > 0))
		return 0;
	if (!(x < 1))
		return 1;
	double front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x));
	return x < (a + 1) / (a + b + 2) ? front * stats_beta_fraction(a, b, x) / a
					 : 1 - front * stats_beta_fraction(b, a, 1 - x) / b;
}

double stats_student_below(double t, double freedom)
{
	double tail = stats_beta(freedom / 2, 0.5, freedom / (freedom + t * t)) / 2;
	return t < 0 ? tail : 1 - tail;
}

/* --- random numbers --------------------------------------------------------------------------- */

/* https://prng.di.unimi.it/splitmix64.c, in the public domain; the constants are the algorithm. */
uint64_t stats_random_next(struct stats_random *random)
{
	uint64_t mixed = random->state += UINT64_C(0x9e3779b97f4a7c15);
	mixed = (mixed ^ mixed >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	mixed = (mixed ^ mixed >> 27) * UINT64_C(0x94d049bb133111eb);
	return mixed ^ mixed >> 31;
}

double stats_random_uniform(struct stats_random *random)
{
	return (double)(stats_random_next(random) >> 11) / 9007199254740992.0; /* 2^53 */
}

/* Box and Muller's way; the second of the two is not kept, so that the state is one number. */
double stats_random_normal(struct stats_random *random)
{
	double radius = sqrt(-2 * log(1 - stats_random_uniform(random)));
	return radius * cos(2 * M_PI * stats_random_uniform(random));
}
