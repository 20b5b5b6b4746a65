/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The time-slicing experiment of a Tesla T4: one load alone, two on the same GPU, one alone again;
 * each of the two is to get about half. The rule says what half is. Pure; what runs is tenants.h.
 */
#ifndef SLUICE_BENCH_GPU_TIMESLICE_H
#define SLUICE_BENCH_GPU_TIMESLICE_H

#include <stdbool.h>

#define TIMESLICE_LOW	0.44 /* of the rate alone; for either */
#define TIMESLICE_HIGH	0.51
#define TIMESLICE_APART 0.02
/* The simulated driver, with slices of 2 ms and 100 us for a switch: 2 / 2.1 / 2. */
#define TIMESLICE_MODEL 0.476

struct timeslice {
	double before, one, two, after; /* TFLOP/s: alone, both together, alone again */
	/* Filled by timeslice_judge() */
	double alone; /* the mean of both */
	double ratio[2], sum, apart;
	double drift; /* |before - after| / alone: what else changed meanwhile */
	bool passes;
	bool is_model; /* the ratios are the model's to the digits that are printed */
};

/* Fills the rest. False, and nothing else is said, without a rate alone. */
bool timeslice_judge(struct timeslice *figures);
/* "Tesla T4" and "NVIDIA T4" are; "NVIDIA H200" is not. */
bool timeslice_is_t4(const char *device);

#endif
