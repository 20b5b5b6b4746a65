/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work over time: what was completed in each second, and in the part of a run that counts, which
 * leaves out a beginning and an end. Between two completions work grows evenly, so that a second
 * may end in the middle of a kernel. Pure; knows no clock.
 */
#ifndef SLUICE_BENCH_GPU_METER_H
#define SLUICE_BENCH_GPU_METER_H

#include <stdbool.h>
#include <stdint.h>

enum meter_limits { METER_SECONDS_MAX = 1 << 20 };

struct meter_second {
	uint32_t index; /* from 0 on */
	bool counts;	/* it lies wholly in the part that does */
	double units;
	uint64_t gpu_ns, wall_ns;
};

struct meter {
	uint64_t start_ns, from_ns, to_ns; /* from..to counts */
	uint64_t last_ns;		   /* the last completion */
	double units, at_from, at_to;	   /* completed so far; by then */
	bool has_from, has_to;
	uint32_t second;
	double at_second;	      /* by its beginning */
	double gpu_ns, gpu_at_second; /* as units and at_second */
	double gpu_ns_counted;
	double rate_min, rate_max; /* units a second, of the seconds that count */
	uint32_t counted;
	void (*each)(const struct meter_second *second, void *context);
	void *context;
};

/* A run from start to start + run, of which the first and last `margin` do not count. */
void meter_init(struct meter *meter, uint64_t start_ns, uint64_t run_ns, uint64_t margin_ns,
		void (*each)(const struct meter_second *second, void *context), void *context);
/* At `now_ns`, which does not go backwards, so many units were completed, on which the GPU was for
 * gpu_ns. Calls each() for every second that is over by then. */
void meter_add(struct meter *meter, uint64_t now_ns, double units, uint64_t gpu_ns);
/* Units of the part that counts, each second; 0: nothing was completed in it. */
double meter_rate(const struct meter *meter);

#endif
