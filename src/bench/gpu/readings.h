/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clock, power, temperature and what slows a GPU down, while a load runs on it: four calls of NVML,
 * opened here, so that the container that carries the load needs nothing else. Without NVML nothing
 * is read, and the report says so.
 */
#ifndef SLUICE_BENCH_GPU_READINGS_H
#define SLUICE_BENCH_GPU_READINGS_H

#include <stdbool.h>
#include <stdint.h>

enum readings_limits {
	READINGS_MAX = 4096, /* kept, one a second; then every second one, and so on */
};

struct readings {
	void *library; /* owned; NULL: there is none */
	void *device;
	int (*clock)(void *device, int type, unsigned *mhz);
	int (*power)(void *device, unsigned *milliwatts);
	int (*temperature)(void *device, int sensor, unsigned *celsius);
	int (*throttle)(void *device, unsigned long long *reasons);
	double clock_mhz[READINGS_MAX]; /* in the order of time */
	uint32_t count, stride, skipped;
	double power_sum, power_max;
	uint32_t power_count, temperature_max;
	uint64_t throttle_seen;
};

/* For the GPU of that UUID. Without NVML, or when it does not know the GPU, all readings are
 * nothing: never an error. */
void readings_open(struct readings *readings, const char *uuid);
void readings_take(struct readings *readings);
void readings_close(struct readings *readings);

/* min, median and max; false: there are none. */
bool readings_clock(struct readings *readings, double out[3]);
/* The name of one bit of the reasons ("sw_power_cap"), or NULL. `bit`: 0..63. Source: nvml.h,
 * nvmlClocksThrottleReason*. */
const char *readings_throttle_name(unsigned bit);

#endif
