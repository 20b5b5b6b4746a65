/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/gpu/figures.h"

#include <math.h>
#include <string.h>

#include "bench/stats.h"

enum { /* binary32 and binary16 */
       FIGURES_BIAS = 127 - 15,
       FIGURES_CUT = 23 - 10,
};

uint16_t figures_half(float value)
{
	uint32_t bits;
	memcpy(&bits, &value, sizeof(bits));
	uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
	uint32_t exponent = bits >> 23 & 0xff, fraction = bits & 0x7fffff;
	if (exponent == 0xff)
		return (uint16_t)(sign | 0x7c00 | (fraction ? 0x200 : 0));
	if (exponent >= FIGURES_BIAS + 31)
		return (uint16_t)(sign | 0x7c00);
	uint32_t cut = FIGURES_CUT, result = 0;
	if (exponent <= FIGURES_BIAS) { /* below what has a leading one: the fraction alone */
		cut += FIGURES_BIAS + 1 - exponent;
		if (cut > 24)
			return sign; /* less than half of the smallest */
		fraction |= 0x800000;
	} else {
		result = (exponent - FIGURES_BIAS) << 10;
	}
	result += fraction >> cut;
	uint32_t rest = fraction & ((1u << cut) - 1), half = 1u << (cut - 1);
	/* A carry goes into the exponent, and that is right. */
	if (rest > half || (rest == half && (result & 1)))
		result++;
	return (uint16_t)(sign | result);
}

float figures_from_half(uint16_t half)
{
	uint32_t exponent = half >> 10 & 31, fraction = half & 0x3ff;
	float value;
	if (exponent == 31)
		value = fraction ? NAN : INFINITY;
	else if (exponent == 0)
		value = ldexpf((float)fraction, -24);
	else
		value = ldexpf((float)(fraction | 0x400), (int)exponent - 25);
	return half & 0x8000 ? -value : value;
}

void figures_fill_halves(uint16_t *out, size_t count, struct stats_random *random)
{
	for (size_t i = 0; i < count; i++)
		out[i] = figures_half((float)(2 * stats_random_uniform(random) - 1));
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

double figures_next_arrival(struct stats_random *random, double mean)
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

double figures_jain(const double *rates, const double *weights, size_t count)
{
	double sum = 0, squares = 0;
	for (size_t i = 0; i < count; i++) {
		double x = rates[i] / weights[i];
		sum += x;
		squares += x * x;
	}
	return squares > 0 ? sum * sum / ((double)count * squares) : 0;
}

double figures_share_error(const double *rates, const double *weights, size_t count)
{
	double all = 0, all_weights = 0, worst = 0;
	for (size_t i = 0; i < count; i++) {
		all += rates[i];
		all_weights += weights[i];
	}
	for (size_t i = 0; i < count; i++) {
		double share = all > 0 ? rates[i] / all : 0;
		worst = fmax(worst, fabs(share - weights[i] / all_weights));
	}
	return 100 * worst;
}
