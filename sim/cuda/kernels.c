/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda/kernels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/cuda/api.h"
#include "sim/cuda/cost.h"
#include "sim/cuda/scheduler.h"

enum {
	RULER_GAP_NS = 5000,
	RULER_HEAD = 4,
	RULER_STEP_NS = 32, /* of the simulated %globaltimer */
	BURN_WARP_WORK = 32768,
	WARP = 32,
	WMMA_ELEMENTS = 256,
};

static const struct {
	const char *name;
	uint8_t parameter[KERNELS_ARGUMENT_MAX];
} kernel_rows[KERNEL_COUNT] = {
    [KERNEL_NOP] = {"sl_nop", {0}},
    [KERNEL_SPIN] = {"sl_spin", {8, 8}},
    [KERNEL_VADD] = {"sl_vadd", {8, 8, 8, 4}},
    [KERNEL_HGEMM] = {"sl_hgemm", {8, 8, 8, 4, 4, 4}},
    [KERNEL_WMMA_BURN] = {"sl_wmma_burn", {8, 8, 8, 4}},
    [KERNEL_MMA_BURN] = {"sl_mma_burn", {8, 4, 4}},
    [KERNEL_RULER] = {"sl_ruler", {8, 8, 4}},
    [KERNEL_COPY] = {"sl_copy", {8, 8, 8}},
    [KERNEL_HOLD] = {"sl_hold", {8, 8, 8}},
    [KERNEL_COMPARE] = {"sl_compare", {8, 8, 8, 8}},
};

enum kernel_id kernel_find(const char *name)
{
	for (uint32_t i = 0; i < KERNEL_COUNT; i++) {
		if (strcmp(kernel_rows[i].name, name) == 0)
			return (enum kernel_id)i;
	}
	return KERNEL_COUNT;
}

void kernel_parameters(enum kernel_id id, uint8_t out[KERNELS_ARGUMENT_MAX])
{
	memcpy(out, kernel_rows[id].parameter, KERNELS_ARGUMENT_MAX);
}

/* Of all blocks; more than 2^64 cannot be launched. */
static uint64_t threads_of(const struct kernel_launch *launch)
{
	return (uint64_t)launch->grid[0] * launch->grid[1] * launch->grid[2] * launch->block[0] *
	       launch->block[1] * launch->block[2];
}

/* An i32 parameter as a count: negative is none. */
static uint64_t count_of(uint64_t argument)
{
	int32_t value = (int32_t)(uint32_t)argument;

	return value > 0 ? (uint64_t)value : 0;
}

uint64_t kernel_cost(const struct kernel_launch *launch, const struct cost_rates *rates,
		     bool *out_elapsed)
{
	const uint64_t *a = launch->argument;

	*out_elapsed = false;

	switch (launch->id) {
	case KERNEL_SPIN:
	case KERNEL_RULER:
		*out_elapsed = true;
		return a[0];
	case KERNEL_HOLD:
		*out_elapsed = true;
		return a[1];
	case KERNEL_VADD:
		return COST_KERNEL_NS + cost_ns(count_of(a[3]) * 12, rates->memory);
	case KERNEL_COPY:
		return COST_KERNEL_NS + cost_ns(a[2] * 32, rates->memory);
	case KERNEL_COMPARE:
		return COST_KERNEL_NS + cost_ns(a[2] * 8, rates->memory);
	case KERNEL_HGEMM:
		return COST_KERNEL_NS +
		       cost_ns(2 * count_of(a[3]) * count_of(a[4]) * count_of(a[5]), rates->gemm);
	case KERNEL_WMMA_BURN:
		return COST_KERNEL_NS +
		       cost_ns(threads_of(launch) / WARP * BURN_WARP_WORK * count_of(a[3]),
			       rates->burn);
	case KERNEL_MMA_BURN:
		return COST_KERNEL_NS +
		       cost_ns(threads_of(launch) / WARP * BURN_WARP_WORK * count_of(a[1]),
			       rates->burn);
	case KERNEL_NOP:
	case KERNEL_COUNT:
	default:
		return COST_KERNEL_NS;
	}
}

float kernel_half(uint16_t bits)
{
	uint32_t exponent = bits >> 10 & 31, fraction = bits & 1023;
	float value;

	if (exponent == 31)
		value = fraction ? NAN : INFINITY;
	else if (exponent == 0)
		value = ldexpf((float)fraction, -24);
	else
		value = ldexpf((float)(fraction | 1024), (int)exponent - 25);

	return bits & 0x8000 ? -value : value;
}

static uint64_t mix(uint64_t x)
{
	x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
	return x ^ (x >> 31);
}

/* A finite number between -1 and 1 from a hash. */
static float small_number(uint64_t hash)
{
	return (float)(int32_t)(hash >> 40) / 8388608.0F - 1.0F;
}

static void *memory_of(const struct kernel_memory *memory, uint64_t address, uint64_t bytes)
{
	return memory->at(memory->context, address, bytes);
}

static int compute_vadd(const struct kernel_launch *launch, const struct kernel_memory *memory,
			uint64_t *out_bytes)
{
	const uint64_t *g = launch->argument;
	uint64_t n = count_of(g[3]), threads = threads_of(launch);

	if (n > threads)
		n = threads; /* as the kernel: one element for each thread */

	const float *a = memory_of(memory, g[0], n * 4), *b = memory_of(memory, g[1], n * 4);
	float *c = memory_of(memory, g[2], n * 4);

	if (n && (!a || !b || !c))
		return CU_ILLEGAL_ADDRESS;

	for (uint64_t i = 0; i < n; i++)
		c[i] = a[i] + b[i];

	*out_bytes = n * 4;
	return CU_OK;
}

enum { GEMM_TILE = 128 };

/* Sums in single precision, in the order of k. `right` has K rows of N. */
static void gemm_rows(const float *left, const float *right, float *c, uint64_t rows,
		      uint64_t columns, uint64_t n, uint64_t k)
{
	for (uint64_t i = 0; i < rows; i++) {
		float *row = c + i * n;

		memset(row, 0, columns * sizeof(*row));

		for (uint64_t l = 0; l < k; l++) {
			const float *from = right + l * n;
			float factor = left[i * k + l];

			for (uint64_t j = 0; j < columns; j++)
				row[j] += factor * from[j];
		}
	}
}

static int compute_hgemm(const struct kernel_launch *launch, const struct kernel_memory *memory,
			 uint64_t *out_bytes)
{
	const uint64_t *g = launch->argument;
	uint64_t m = count_of(g[3]), n = count_of(g[4]), k = count_of(g[5]);
	const uint16_t *a = memory_of(memory, g[0], m * k * 2);
	const uint16_t *b = memory_of(memory, g[1], n * k * 2);
	float *c = memory_of(memory, g[2], m * n * 4), *left, *right;
	uint64_t rows = (uint64_t)launch->grid[1] * GEMM_TILE,
		 columns = (uint64_t)launch->grid[0] * GEMM_TILE;

	if (!a || !b || !c || rows > m || columns > n)
		return CU_ILLEGAL_ADDRESS;
	if (m * n > KERNELS_GEMM_TRUE_MAX || m * n * k > KERNELS_GEMM_TRUE_MAX)
		return CU_OK;

	left = malloc(m * k * sizeof(*left));
	right = malloc(n * k * sizeof(*right));
	if (left && right) {
		for (uint64_t i = 0; i < m * k; i++)
			left[i] = kernel_half(a[i]);

		for (uint64_t i = 0; i < n * k; i++)
			right[i % k * n + i / k] = kernel_half(b[i]);

		gemm_rows(left, right, c, rows, columns, n, k);
		*out_bytes = m * n * 4;
	}

	int rc = left && right ? CU_OK : CU_UNKNOWN;

	free(left);
	free(right);
	return rc;
}

static int compute_wmma_burn(const struct kernel_launch *launch, const struct kernel_memory *memory,
			     uint64_t *out_bytes)
{
	const uint64_t *g = launch->argument;
	uint64_t elements = threads_of(launch) / WARP * WMMA_ELEMENTS, hash = g[3];
	const uint16_t *a = memory_of(memory, g[0], WMMA_ELEMENTS * 2);
	const uint16_t *b = memory_of(memory, g[1], WMMA_ELEMENTS * 2);
	float *c = memory_of(memory, g[2], elements * 4);

	if (!a || !b || !c)
		return CU_ILLEGAL_ADDRESS;

	for (uint32_t i = 0; i < WMMA_ELEMENTS; i++)
		hash = mix(hash ^ ((uint64_t)a[i] << 16 | b[i]));

	for (uint64_t i = 0; i < WMMA_ELEMENTS && i < elements; i++)
		c[i] = small_number(mix(hash + i));

	/* all warps have the same operands, so their results are the same */
	for (uint64_t i = WMMA_ELEMENTS; i < elements; i += WMMA_ELEMENTS)
		memcpy(c + i, c, WMMA_ELEMENTS * sizeof(*c));

	*out_bytes = elements * 4;
	return CU_OK;
}

static int compute_mma_burn(const struct kernel_launch *launch, const struct kernel_memory *memory,
			    uint64_t *out_bytes)
{
	const uint64_t *g = launch->argument;
	uint64_t threads = threads_of(launch), hash = mix(g[1] << 32 | (uint32_t)g[2]);
	float *c = memory_of(memory, g[0], threads * 4);

	if (!c)
		return CU_ILLEGAL_ADDRESS;

	for (uint64_t i = 0; i < threads; i++)
		c[i] = small_number(mix(hash + i));

	*out_bytes = threads * 4;
	return CU_OK;
}

static int compute_spin(const struct kernel_launch *launch, const struct kernel_memory *memory,
			const struct kernel_run *run)
{
	const uint64_t *g = launch->argument;
	uint64_t blocks = launch->grid[0];
	uint32_t *out = g[1] ? memory_of(memory, g[1], blocks * 4) : NULL;

	if (g[1] && !out)
		return CU_ILLEGAL_ADDRESS;

	for (uint64_t i = 0; out && i < blocks; i++)
		out[i] = (uint32_t)(run->end_ns - run->begin_ns);

	return CU_OK;
}

static int compute_ruler(const struct kernel_launch *launch, const struct kernel_memory *memory,
			 const struct kernel_run *run)
{
	const uint64_t *g = launch->argument;
	uint64_t cap = (uint32_t)g[2], count = 0;
	uint64_t *log = memory_of(memory, g[1], (RULER_HEAD + 2 * cap) * 8);

	if (!log)
		return CU_ILLEGAL_ADDRESS;

	for (uint32_t i = 0; i < run->gap_count; i++) {
		const struct sched_gap *gap = &run->gap[i];

		if (gap->out_ns < run->begin_ns || gap->in_ns > run->end_ns ||
		    gap->in_ns - gap->out_ns <= RULER_GAP_NS)
			continue;
		if (count < cap) {
			log[RULER_HEAD + 2 * count] = gap->out_ns;
			log[RULER_HEAD + 2 * count + 1] = gap->in_ns;
		}

		count++;
	}

	log[0] = count;
	log[1] = run->begin_ns;
	log[2] = run->end_ns;
	log[3] = RULER_STEP_NS;

	return CU_OK;
}

static int compute_copy(const struct kernel_launch *launch, const struct kernel_memory *memory,
			uint64_t *out_bytes)
{
	const uint64_t *g = launch->argument;

	if (g[2] > UINT64_MAX / 16)
		return CU_ILLEGAL_ADDRESS;

	void *to = memory_of(memory, g[0], g[2] * 16), *from = memory_of(memory, g[1], g[2] * 16);

	if (!to || !from)
		return CU_ILLEGAL_ADDRESS;

	memmove(to, from, g[2] * 16);
	*out_bytes = g[2] * 16;
	return CU_OK;
}

static int compute_hold(const struct kernel_launch *launch, const struct kernel_memory *memory)
{
	const uint64_t *g = launch->argument;
	const volatile uint32_t *flag = memory_of(memory, g[0], 4);
	volatile uint32_t *result = memory_of(memory, g[2], 4);

	if (!flag || !result)
		return CU_ILLEGAL_ADDRESS;

	*result = *flag ? 1 : 2;
	return CU_OK;
}

static int compute_compare(const struct kernel_launch *launch, const struct kernel_memory *memory)
{
	const uint64_t *g = launch->argument;
	uint64_t differing = 0, first = UINT64_MAX, infinite = 0, sum = 0;

	if (g[2] > UINT64_MAX / 4)
		return CU_ILLEGAL_ADDRESS;

	const uint32_t *a = memory_of(memory, g[0], g[2] * 4),
		       *b = memory_of(memory, g[1], g[2] * 4);
	uint64_t *out = memory_of(memory, g[3], 4 * 8);

	if (!a || !b || !out)
		return CU_ILLEGAL_ADDRESS;

	for (uint64_t i = 0; i < g[2]; i++) {
		if (a[i] != b[i]) {
			differing++;
			first = i < first ? i : first;
		}

		infinite += (a[i] & 0x7f800000U) == 0x7f800000U;
		sum += mix(i << 32 | a[i]);
	}

	out[0] += differing;
	if (first < out[1])
		out[1] = first;
	out[2] += infinite;
	out[3] += sum;

	return CU_OK;
}

int kernel_compute(const struct kernel_launch *launch, const struct kernel_memory *memory,
		   const struct kernel_run *run, uint64_t *out_address, uint64_t *out_bytes)
{
	*out_address = *out_bytes = 0;

	switch (launch->id) {
	case KERNEL_SPIN:
		return compute_spin(launch, memory, run);
	case KERNEL_VADD:
		*out_address = launch->argument[2];
		return compute_vadd(launch, memory, out_bytes);
	case KERNEL_HGEMM:
		*out_address = launch->argument[2];
		return compute_hgemm(launch, memory, out_bytes);
	case KERNEL_WMMA_BURN:
		*out_address = launch->argument[2];
		return compute_wmma_burn(launch, memory, out_bytes);
	case KERNEL_MMA_BURN:
		*out_address = launch->argument[0];
		return compute_mma_burn(launch, memory, out_bytes);
	case KERNEL_RULER:
		return compute_ruler(launch, memory, run);
	case KERNEL_COPY:
		*out_address = launch->argument[0];
		return compute_copy(launch, memory, out_bytes);
	case KERNEL_HOLD:
		return compute_hold(launch, memory);
	case KERNEL_COMPARE:
		return compute_compare(launch, memory);
	case KERNEL_NOP:
	case KERNEL_COUNT:
	default:
		return CU_OK;
	}
}
