/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the kernels that sluice carries compute, by their names: the same results as their sources
 * in src/bench/gpu/kernels say, on the host. Where that would take too long (products above 2^24)
 * or the result means nothing (the burns) it is said below. Knows nothing of when they run.
 */
#ifndef SLUICE_SIM_CUDA_KERNELS_H
#define SLUICE_SIM_CUDA_KERNELS_H

#include <stdbool.h>
#include <stdint.h>

struct cost_rates;

enum kernels_limits {
	KERNELS_ARGUMENT_MAX = 6,
	KERNELS_GEMM_TRUE_MAX = 1 << 24, /* of M*N*K; above it C stays as it is */
};

enum kernel_id {
	KERNEL_NOP,
	KERNEL_SPIN,
	KERNEL_VADD,
	KERNEL_HGEMM,
	KERNEL_WMMA_BURN, /* each element is a hash of A, B, the iterations and its place */
	KERNEL_MMA_BURN,  /* each is a hash of seed, iterations and thread */
	KERNEL_RULER,
	KERNEL_COPY,
	KERNEL_HOLD,
	KERNEL_COMPARE,
	KERNEL_COUNT,
};

struct kernel_launch {
	enum kernel_id id;
	uint32_t grid[3], block[3];
	uint64_t argument[KERNELS_ARGUMENT_MAX];
};

/* When it ran: sl_spin and sl_ruler say so. Of the times between begin and end in which it did not,
 * `gap[i]` are (out, in), as many as are remembered. */
struct kernel_run {
	uint64_t begin_ns, end_ns;
	const struct sched_gap *gap; /* borrowed */
	uint32_t gap_count;
};

/* Where `bytes` at a device address lie; NULL: not in one allocation. */
struct kernel_memory {
	void *(*at)(void *context, uint64_t address, uint64_t bytes);
	void *context;
};

/* By name. KERNEL_COUNT: not one of ours. */
enum kernel_id kernel_find(const char *name);
/* Bytes of each parameter, 0 after the last. */
void kernel_parameters(enum kernel_id id, uint8_t out[KERNELS_ARGUMENT_MAX]);
/* Nanoseconds alone on the device. `*out_elapsed`: it ends so long after its begin, whether it is
 * switched out or not. */
uint64_t kernel_cost(const struct kernel_launch *launch, const struct cost_rates *rates,
		     bool *out_elapsed);
/* CU_OK or CU_ILLEGAL_ADDRESS, before which nothing was written. `*out_address`, `*out_bytes`: what
 * it wrote first; 0: nothing that could be falsified. */
int kernel_compute(const struct kernel_launch *launch, const struct kernel_memory *memory,
		   const struct kernel_run *run, uint64_t *out_address, uint64_t *out_bytes);

/* IEEE 754 binary16 to binary32. */
float kernel_half(uint16_t bits);

#endif
