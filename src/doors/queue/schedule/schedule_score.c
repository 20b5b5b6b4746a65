/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/queue/schedule/schedule_score.h"

#include "base/clock.h"

#define SCORE_HOUR_NS  (3600 * CLOCK_NS_PER_S)
#define SCORE_AGE_MAX  (UINT64_C(50) * 365 * 24 * SCORE_HOUR_NS)
#define SCORE_PART_MAX (INT64_MAX / 8)
#define SCORE_LN2      0.69314718055994530942

enum score_limits {
	SCORE_TERMS = 14, /* of the series of 2^-x for x below 1: to the last bits of a double */
	SCORE_HALVES = 1000,
};

static const struct rules_weights *score_weights(const struct rules_weights *weights)
{
	static const struct rules_weights defaults = RULES_WEIGHTS_DEFAULT;
	return weights ? weights : &defaults;
}

static int64_t score_cut(double part)
{
	return part >= (double)SCORE_PART_MAX ? SCORE_PART_MAX : (int64_t)part;
}

void schedule_score_make(const struct rules_weights *weights, const struct schedule_facts *facts,
			 struct schedule_score *out)
{
	const struct rules_weights *by = score_weights(weights);
	uint64_t waited_ns = facts->waited_ns < SCORE_AGE_MAX ? facts->waited_ns : SCORE_AGE_MAX;
	uint32_t wide = facts->gpus > 1 ? facts->gpus - 1 : 0;
	uint32_t machine = facts->machine_gpus ? facts->machine_gpus : 1;
	double hours = (double)waited_ns / (double)SCORE_HOUR_NS;
	double used = facts->usage_hours > 0 ? facts->usage_hours / machine : 0;

	out->age = score_cut(hours * by->age * SCHEDULE_SCORE_POINT);
	out->size = score_cut((double)wide * by->size * SCHEDULE_SCORE_POINT);
	out->priority = (int64_t)facts->priority * by->priority * SCHEDULE_SCORE_POINT;
	out->usage = score_cut(used * by->usage * SCHEDULE_SCORE_POINT);
}

int64_t schedule_score_total(const struct schedule_score *score)
{
	return score->age + score->size + score->priority - score->usage;
}

int64_t schedule_score_gpu(const struct rules_weights *weights, uint32_t machine_gpus)
{
	return score_weights(weights)->usage * SCHEDULE_SCORE_POINT /
	       (machine_gpus ? machine_gpus : 1);
}

/* By hand: the service has no other use for the library of mathematics, and pays for its pages. */
double schedule_fade(uint64_t age_ns, uint64_t half_life_ns)
{
	double halves = half_life_ns ? (double)age_ns / (double)half_life_ns : SCORE_HALVES;
	double term = 1, sum = 1;

	if (halves >= SCORE_HALVES)
		return 0;

	unsigned whole = (unsigned)halves;
	double x = -(halves - whole) * SCORE_LN2;

	for (int i = 1; i < SCORE_TERMS; i++) {
		term *= x / i;
		sum += term;
	}

	for (; whole > 0; whole--)
		sum /= 2;

	return sum;
}

double schedule_used_hours(double gpus, uint64_t began_ns, uint64_t ended_ns, uint64_t half_life_ns)
{
	if (began_ns <= ended_ns || half_life_ns == 0)
		return 0;

	double hours = (double)half_life_ns / (double)SCORE_HOUR_NS / SCORE_LN2;

	/* Of what is short beside a half-life the difference below has few digits. */
	uint64_t long_ns = began_ns - ended_ns;
	if (long_ns < half_life_ns / 1000000)
		return gpus * ((double)long_ns / (double)SCORE_HOUR_NS) *
		       schedule_fade(ended_ns, half_life_ns);

	return gpus * hours *
	       (schedule_fade(ended_ns, half_life_ns) - schedule_fade(began_ns, half_life_ns));
}
