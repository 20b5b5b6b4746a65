/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes one product of matrices over and over until it fills a GPU's memory, and compares all
 * results bit by bit on the GPU: finds memory that flips, processors that err when hot, power that
 * does not suffice. The first result is compared with the processor's, so that a GPU which is
 * always wrong does not pass, and its hash is reported, so that equal GPUs can be compared. Knows
 * nothing of who uses the GPU.
 *
 * gpu-burn (https://github.com/wilicc/gpu-burn) compares |a - b| > epsilon, which a NaN passes, and
 * only with its own first result.
 */
#ifndef SLUICE_VALIDATE_GPU_BURNTEST_H
#define SLUICE_VALIDATE_GPU_BURNTEST_H

#include <stdbool.h>
#include <stdint.h>

struct checks_sink;
struct driver;
struct driver_device;

enum burntest_limits {
	BURNTEST_SIZE = 8192,	       /* of the matrices; halved where memory is short */
	BURNTEST_SIMULATED_SIZE = 256, /* the simulated driver computes up to this truly */
	BURNTEST_SIZE_MIN = 256,
	BURNTEST_RESULTS_MAX = 8192,
	BURNTEST_SIMULATED_RESULTS = 6,
	BURNTEST_SIMULATED_ROUNDS = 2,
	BURNTEST_SAMPLES = 64, /* entries that the processor computes, too */
};

struct burntest_options {
	uint64_t duration_ns; /* at least one round is made, however long it takes */
	double fill;	      /* of the memory that is free: 0.9 */
	uint64_t seed;	      /* of the operands: the same for GPUs that are to be compared */
};

/* The check "stress" of this GPU: its value is TFLOP/s, comparisons included. Reports the first
 * result's hash as the fact "stress-hash". */
void burntest_check(const struct driver *driver, const struct driver_device *device,
		    const struct burntest_options *options, uint64_t place,
		    const struct checks_sink *sink);

/* The bits of the half-precision number n / 1024; |n| at most 2047, so that it is exact. Pure. */
uint16_t burntest_half(int n);
/* What is in a row or column of an operand, times 1024: -1023 to 1023. Pure. */
int burntest_operand(uint64_t seed, uint64_t place);

#endif
