/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long jobs of one user and name take, as the last of them that succeeded say: nine in ten of
 * them were done by then, and a quarter is added. An estimate, and said to be one wherever it is
 * shown. One that was wrong is not believed again before there are as many runs since as it takes
 * to make one.
 *
 * Pure; called by the queue.
 */
#ifndef SLUICE_DOORS_QUEUE_SCHEDULE_SCHEDULE_ESTIMATE_H
#define SLUICE_DOORS_QUEUE_SCHEDULE_SCHEDULE_ESTIMATE_H

#include <stdbool.h>
#include <stdint.h>

enum schedule_estimate_limits {
	SCHEDULE_ESTIMATE_RUNS = 16,	/* that are remembered */
	SCHEDULE_ESTIMATE_RUNS_MIN = 5, /* before there is an estimate */
};

struct schedule_history {
	uint32_t run_ms[SCHEDULE_ESTIMATE_RUNS];
	uint8_t count, next;
};

/* 0: there are too few. */
uint64_t schedule_estimate_ns(const struct schedule_history *history);
/* A run is over. One that took longer than was estimated, however it ended, makes all before it be
 * forgotten. */
void schedule_estimate_add(struct schedule_history *history, uint64_t ran_ns, bool has_succeeded);

#endif
