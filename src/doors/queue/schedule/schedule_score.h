/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a waiting job has for itself and against it, as one number that can be explained:
 *
 *   score = age + size + priority - usage
 *
 * in points. By default an hour of waiting is worth 100 of them, each GPU beyond the first 50, a
 * step of priority 100,000, and an hour of the whole machine that the job's user has had lately
 * costs 20. What somebody has had fades: after each half-life it counts half as much. Age has no
 * upper limit and usage fades, so of two jobs of the same priority the one that has waited long
 * enough comes first, whosoever it is: nobody starves.
 *
 * Pure: no clock, no queue. Called by the queue before each pass, and for whoever asks.
 */
#ifndef SLUICE_DOORS_QUEUE_SCHEDULE_SCHEDULE_SCORE_H
#define SLUICE_DOORS_QUEUE_SCHEDULE_SCHEDULE_SCORE_H

#include <stdint.h>

#include "doors/queue/rules.h"

/* Thousandths of a point: a whole number, so that the same jobs always stand in the same order. */
#define SCHEDULE_SCORE_POINT INT64_C(1000)

struct schedule_facts {
	uint64_t waited_ns; /* for the machine alone */
	uint32_t gpus;
	int32_t priority;
	double usage_hours;    /* GPU-hours of its user, faded; see schedule_used_hours() */
	uint32_t machine_gpus; /* 0: as 1 */
};

/* In thousandths of a point, as all scores. */
struct schedule_score {
	int64_t age, size, priority;
	int64_t usage; /* 0 or more: it is subtracted */
};

/* `weights` NULL: the defaults. Absurdly large facts are cut, so that a sum of the parts fits. */
void schedule_score_make(const struct rules_weights *weights, const struct schedule_facts *facts,
			 struct schedule_score *out);
int64_t schedule_score_total(const struct schedule_score *score);
/* What one more GPU that a user's jobs have now costs the next ones: an hour of it in advance, so
 * that users take turns also where nobody has had anything yet. */
int64_t schedule_score_gpu(const struct rules_weights *weights, uint32_t machine_gpus);

/* 2^-(age / half_life): what is left after so long of what counted 1. */
double schedule_fade(uint64_t age_ns, uint64_t half_life_ns);
/* Hours that so much of a GPU, from `began_ns` until `ended_ns` ago (0: it goes on), counts now:
 * each moment faded by its own age. */
double schedule_used_hours(double gpus, uint64_t began_ns, uint64_t ended_ns,
			   uint64_t half_life_ns);

#endif
