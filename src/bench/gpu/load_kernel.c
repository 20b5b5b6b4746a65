/* SPDX-License-Identifier: Apache-2.0 */
/* What is launched, with its operands; and whether the GPU computes rightly. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "bench/gpu/figures.h"
#include "bench/gpu/load_internal.h"

enum {
	LOAD_PERIOD = 1048573, /* a prime: rows of a matrix filled with it over and over differ */
	LOAD_SIMULATED_MAX = 1 << 24, /* M N K up to which the simulated driver computes truly */
	LOAD_BURN_BLOCK = 256,
	LOAD_BURN_BLOCKS = 2,	      /* for each processor */
	LOAD_BURN_OPERATIONS = 32768, /* of a warp and iteration */
	LOAD_WARP = 32,
	LOAD_WARP_BYTES = 1024, /* of C, sl_wmma_burn */
	LOAD_CALIBRATE_FROM = 64,
	LOAD_ITERATIONS_MAX = 1 << 30,
	LOAD_TRIES = 3,
	LOAD_COMPARE_BLOCKS = 64,
	LOAD_COUNTS = 4, /* of sl_compare: words that differ, the first of them, ... */
};

/* Products that stand for others: before burning, and for a large one that the simulated driver
 * does not compute. */
static const struct hgemm_size load_probe_size = {256, 256, 256};
static const struct hgemm_size load_simulated_size = {256, 128, 64};

static int load_find(struct load_session *self, const char *name, struct load_kernel *kernel,
		     struct err *err)
{
	int rc = kernels_find(&self->driver, &self->kernels, name, &kernel->function, err);
	if (rc == 0)
		load_beat(self);
	return rc;
}

/* Fills device memory with random halves of (-1, 1). */
static int load_fill(struct load_session *self, uint64_t address, size_t bytes, struct err *err)
{
	size_t period = LOAD_PERIOD * sizeof(uint16_t);
	_cleanup_free_ uint16_t *halves = malloc(period);
	if (!halves)
		return err_set(err, -ENOMEM, "no memory for operands");

	figures_fill_halves(halves, bytes < period ? bytes / sizeof(*halves) : LOAD_PERIOD,
			    &self->random);

	for (size_t at = 0; at < bytes;) {
		size_t piece = bytes - at < period ? bytes - at : period;
		int rc =
		    load_said(self, self->driver.call.cuMemcpyHtoD(address + at, halves, piece),
			      err, "copying operands");
		if (rc < 0)
			return rc;

		at += piece;
	}

	return 0;
}

static void load_set_gemm(struct load_session *self, const struct hgemm_size *size,
			  struct load_kernel *kernel)
{
	hgemm_grid(size, &kernel->grid_x, &kernel->grid_y);
	kernel->block = HGEMM_BLOCK;
	kernel->operations = hgemm_operations(size);
	kernel->address[0] = self->a;
	kernel->address[1] = self->b;
	kernel->address[2] = self->c;
	kernel->number[0] = (int)size->m;
	kernel->number[1] = (int)size->n;
	kernel->number[2] = (int)size->k;

	for (size_t i = 0; i < 3; i++) {
		kernel->parameters[i] = &kernel->address[i];
		kernel->parameters[3 + i] = &kernel->number[i];
	}
}

/* Random places of C, one row of A and one of B at a time. */
static int load_verify_product(struct load_session *self, const struct hgemm_size *size,
			       struct err *err)
{
	const struct driver_calls *call = &self->driver.call;
	size_t row_bytes = size->k * sizeof(uint16_t);
	_cleanup_free_ uint16_t *a = malloc(row_bytes);
	_cleanup_free_ uint16_t *b = malloc(row_bytes);
	if (!a || !b)
		return err_set(err, -ENOMEM, "no memory to verify with");

	for (int i = 0; i < HGEMM_SAMPLES; i++) {
		uint32_t row = (uint32_t)(stats_random_next(&self->random) % size->m);
		uint32_t column = (uint32_t)(stats_random_next(&self->random) % size->n);
		float value = NAN;
		int rc = call->cuMemcpyDtoH(a, self->a + row * row_bytes, row_bytes);
		if (rc == CUDA_OK)
			rc = call->cuMemcpyDtoH(b, self->b + column * row_bytes, row_bytes);

		if (rc == CUDA_OK)
			rc = call->cuMemcpyDtoH(
			    &value, self->c + ((uint64_t)row * size->n + column) * sizeof(value),
			    sizeof(value));

		rc = load_said(self, rc, err, "reading a result");
		if (rc == 0)
			rc = hgemm_check_one(size, row, column, a, b, value, err);

		if (rc < 0)
			return rc == -EBADMSG
				   ? err_wrap(err, "GPU %u (%s) computes wrongly",
					      self->out->device.ordinal, self->out->device.uuid)
				   : rc;
	}

	return 0;
}

/* What sl_compare adds to. In the stream, which does not wait for the default one: there a small
 * copy from memory that is not pinned may still be under way when the call returns. */
static int load_clear(struct load_session *self, uint64_t address, struct err *err)
{
	static const uint64_t counts[LOAD_COUNTS] = {0, UINT64_MAX, 0, 0};
	return load_said(
	    self,
	    self->driver.call.cuMemcpyHtoDAsync(address, counts, sizeof(counts), self->stream), err,
	    "cuMemcpyHtoDAsync");
}

/* The sum that sl_compare makes of all words of C and their places: equal results have equal sums.
 */
static int load_sum(struct load_session *self, uint64_t words, uint64_t *out, struct err *err)
{
	struct load_kernel sum = {
	    .grid_x = LOAD_COMPARE_BLOCKS, .grid_y = 1, .block = LOAD_BURN_BLOCK};
	uint64_t counts[LOAD_COUNTS] = {0};
	const struct driver_calls *call = &self->driver.call;
	int rc = self->sums ? 0 : load_take(self, sizeof(counts), &self->sums, err);

	sum.parameters[0] = sum.parameters[1] = &self->c;
	sum.parameters[2] = &words;
	sum.parameters[3] = &self->sums;

	if (rc == 0)
		rc = load_find(self, "sl_compare", &sum, err);
	if (rc == 0)
		rc = load_clear(self, self->sums, err);
	if (rc == 0)
		rc = load_launch(self, &sum, err);
	if (rc == 0)
		rc = load_sync(self, err);

	if (rc == 0)
		rc = load_said(self, call->cuMemcpyDtoH(counts, self->sums, sizeof(counts)), err,
			       "cuMemcpyDtoH");

	*out = counts[LOAD_COUNTS - 1];
	return rc;
}

/* The product once more: a bit that is another one this time is found wherever it is, which a few
 * samples would hardly do. `expected`: the sum of the first time. */
static int load_verify_again(struct load_session *self, const struct hgemm_size *size,
			     const struct load_kernel *kernel, struct err *err)
{
	uint64_t sum = 0, words = (uint64_t)size->m * size->n;
	int rc = load_sum(self, words, &self->expected_sum, err);
	if (rc == 0)
		rc = load_launch(self, kernel, err);
	if (rc == 0)
		rc = load_sync(self, err);

	if (rc == 0)
		rc = load_sum(self, words, &sum, err);

	if (rc == 0 && sum != self->expected_sum)
		rc = err_set(err, -EBADMSG,
			     "GPU %u (%s) computes wrongly: the same product twice is not the "
			     "same",
			     self->out->device.ordinal, self->out->device.uuid);

	return rc;
}

/* Computes one product and verifies it. The operands are in place. The result is filled with NaNs
 * before, so that one that was never written is found. */
static int load_verify(struct load_session *self, const struct hgemm_size *wanted, struct err *err)
{
	struct hgemm_size size = *wanted;
	struct load_kernel kernel = {0};

	/* Of the burns, too, it computes no product: their results there are hashes. */
	if (self->driver.is_simulated &&
	    (self->plan->mode != LOAD_GEMM || hgemm_operations(&size) > 2.0 * LOAD_SIMULATED_MAX)) {
		self->out->verified_small = true;
		size = load_simulated_size;
	}

	int rc = load_find(self, "sl_hgemm", &kernel, err);

	load_set_gemm(self, &size, &kernel);
	if (rc == 0)
		rc = load_said(self,
			       self->driver.call.cuMemsetD32(self->c, ~0u, (size_t)size.m * size.n),
			       err, "cuMemsetD32");

	if (rc == 0)
		rc = load_said(self, self->driver.call.cuCtxSynchronize(), err, "cuCtxSynchronize");

	uint64_t first = clock_real_ns();

	if (rc == 0)
		rc = load_launch(self, &kernel, err);
	if (rc == 0)
		rc = load_sync(self, err);
	if (rc == 0 && self->out->start_to_kernel_ns == 0)
		self->out->start_to_kernel_ns = first - self->opened_ns - self->out->context_ns;
	if (rc == 0)
		rc = load_verify_product(self, &size, err);

	if (rc == 0)
		rc = load_verify_again(self, &size, &kernel, err);
	if (rc == 0)
		self->out->was_verified = true;

	return rc;
}

int load_kernel_gemm(struct load_session *self, struct err *err)
{
	const struct hgemm_size *size = &self->plan->size;
	struct hgemm_size least = *size;
	size_t a_bytes, b_bytes;

	if (self->driver.is_simulated) { /* what stands for a large one is to find room */
		least.m = least.m < load_simulated_size.m ? load_simulated_size.m : least.m;
		least.n = least.n < load_simulated_size.n ? load_simulated_size.n : least.n;
		least.k = least.k < load_simulated_size.k ? load_simulated_size.k : least.k;
	}

	hgemm_bytes(&least, &a_bytes, &b_bytes, &self->c_bytes);
	int rc = load_find(self, "sl_hgemm", &self->kernel, err);
	if (rc == 0)
		rc = load_take(self, a_bytes, &self->a, err);
	if (rc == 0)
		rc = load_take(self, b_bytes, &self->b, err);

	if (rc == 0)
		rc = load_take(self, self->c_bytes, &self->c, err);
	if (rc == 0)
		rc = load_fill(self, self->a, a_bytes, err);
	if (rc == 0)
		rc = load_fill(self, self->b, b_bytes, err);
	if (rc < 0)
		return rc;

	(void)snprintf(self->out->kernel, sizeof(self->out->kernel), "sl_hgemm");
	load_set_gemm(self, size, &self->kernel);
	return load_verify(self, size, err);
}

int load_kernel_nop(struct load_session *self, struct err *err)
{
	(void)snprintf(self->out->kernel, sizeof(self->out->kernel), "sl_nop");
	self->kernel.grid_x = self->kernel.grid_y = self->kernel.block = 1;

	int rc = load_find(self, "sl_nop", &self->kernel, err);
	/* Once, as the others are: a driver may load a kernel when it is launched first, which is
	 * nothing to time, nor to do while a graph is captured. */
	if (rc == 0)
		rc = load_launch(self, &self->kernel, err);

	return rc == 0 ? load_sync(self, err) : rc;
}

/* --- burning ---------------------------------------------------------------------------------- */

static int load_time_once(struct load_session *self, struct load_kernel *kernel, double *out_ns,
			  struct err *err)
{
	const struct driver_calls *call = &self->driver.call;
	float ms = 0;
	int rc = load_said(self, call->cuEventRecord(self->begin[0], self->stream), err,
			   "cuEventRecord");
	if (rc == 0)
		rc = load_launch(self, kernel, err);

	if (rc == 0)
		rc = load_said(self, call->cuEventRecord(self->end[0], self->stream), err,
			       "cuEventRecord");
	if (rc == 0)
		rc = load_sync(self, err);
	if (rc == 0)
		rc = load_said(self, call->cuEventElapsedTime(&ms, self->begin[0], self->end[0]),
			       err, "cuEventElapsedTime");

	*out_ns = ms * 1e6;
	return rc;
}

static int load_time_best(struct load_session *self, int iterations, double *out_ns,
			  struct err *err)
{
	int rc = 0;

	self->kernel.number[0] = iterations;
	*out_ns = INFINITY;
	for (int i = 0; i < LOAD_TRIES && rc == 0; i++) {
		double ns = 0;
		rc = load_time_once(self, &self->kernel, &ns, err);
		*out_ns = fmin(*out_ns, ns);
	}

	return rc;
}

/* How many iterations take that long. From two lengths, because what a launch costs is in either
 * and is no part of the kernel. */
static int load_calibrate(struct load_session *self, struct err *err)
{
	double wanted = (double)self->plan->kernel_ns, first = 0, second = 0;
	int iterations = LOAD_CALIBRATE_FROM;
	int rc = load_time_best(self, iterations, &first, err);

	while (rc == 0 && first < wanted / 4 && iterations < LOAD_ITERATIONS_MAX / 4) {
		iterations *= 2;
		rc = load_time_best(self, iterations, &first, err);
	}

	if (rc == 0)
		rc = load_time_best(self, 2 * iterations, &second, err);
	if (rc < 0)
		return rc;

	double each = (second - first) / iterations;
	double count = each > 0 ? wanted / each : iterations;

	self->kernel.number[0] = count < 1		       ? 1
				 : count > LOAD_ITERATIONS_MAX ? LOAD_ITERATIONS_MAX
							       : (int)lround(count);
	return 0;
}

/* The first result, with which all later ones are compared. */
static int load_keep_reference(struct load_session *self, struct err *err)
{
	const struct driver_calls *call = &self->driver.call;
	struct load_kernel *compare = &self->compare;

	compare->grid_x = LOAD_COMPARE_BLOCKS;
	compare->grid_y = 1;
	compare->block = LOAD_BURN_BLOCK;
	compare->parameters[0] = &self->c;
	compare->parameters[1] = &self->reference;
	compare->parameters[2] = &self->compared_words;
	compare->parameters[3] = &self->difference;
	self->compared_words = self->c_bytes / sizeof(uint32_t);

	int rc = load_find(self, "sl_compare", compare, err);
	if (rc == 0)
		rc = load_take(self, self->c_bytes, &self->reference, err);
	if (rc == 0)
		rc = load_take(self, LOAD_COUNTS * sizeof(uint64_t), &self->difference, err);
	if (rc == 0)
		rc = load_clear(self, self->difference, err);

	if (rc == 0)
		rc = load_launch(self, &self->kernel, err);

	if (rc == 0)
		rc = load_said(
		    self,
		    call->cuMemcpyDtoDAsync(self->reference, self->c, self->c_bytes, self->stream),
		    err, "cuMemcpyDtoDAsync");

	if (rc == 0)
		rc = load_sync(self, err);

	return rc == 0 ? load_sum(self, self->compared_words, &self->expected_sum, err) : rc;
}

/* A product of the smallest kind, before burning: a GPU that always computes the same wrong thing
 * would find all its results equal. */
static int load_verify_before_burn(struct load_session *self, struct err *err)
{
	const struct hgemm_size size =
	    self->driver.is_simulated ? load_simulated_size : load_probe_size;
	size_t a_bytes, b_bytes, c_bytes;

	hgemm_bytes(&size, &a_bytes, &b_bytes, &c_bytes);
	int rc = load_take(self, a_bytes, &self->a, err);
	if (rc == 0)
		rc = load_take(self, b_bytes, &self->b, err);
	if (rc == 0)
		rc = load_take(self, c_bytes, &self->c, err);

	if (rc == 0)
		rc = load_fill(self, self->a, a_bytes, err);
	if (rc == 0)
		rc = load_fill(self, self->b, b_bytes, err);
	if (rc == 0)
		rc = load_verify(self, &size, err);
	if (self->c)
		(void)self->driver.call.cuMemFree(self->c); /* a larger or smaller one follows */
	self->c = 0;

	return rc;
}

int load_kernel_burn(struct load_session *self, struct err *err)
{
	struct load_kernel *kernel = &self->kernel;
	bool is_mma = self->kernels.text >= KERNEL_SL80;
	bool is_short = self->plan->mode == LOAD_SMALL || self->plan->mode == LOAD_GRAPH;
	const char *name = is_mma ? "sl_mma_burn" : "sl_wmma_burn";

	kernel->block = LOAD_BURN_BLOCK;
	kernel->grid_y = 1;
	kernel->grid_x = is_short ? 1 : (uint32_t)self->out->device.sm_count * LOAD_BURN_BLOCKS;

	uint32_t warps = kernel->grid_x * kernel->block / LOAD_WARP;

	(void)snprintf(self->out->kernel, sizeof(self->out->kernel), "%s", name);
	int rc = load_verify_before_burn(self, err);

	self->c_bytes =
	    is_mma ? (size_t)warps * LOAD_WARP * sizeof(float) : (size_t)warps * LOAD_WARP_BYTES;
	if (rc == 0)
		rc = load_take(self, self->c_bytes, &self->c, err);
	if (rc == 0)
		rc = load_find(self, name, kernel, err);
	if (rc < 0)
		return rc;

	kernel->address[0] = self->a; /* its first 16 by 16 */
	kernel->address[1] = self->b;
	kernel->address[2] = self->c;
	kernel->number[1] = (int)(uint32_t)self->plan->seed;

	if (is_mma) {
		kernel->parameters[0] = &kernel->address[2];
		kernel->parameters[1] = &kernel->number[0];
		kernel->parameters[2] = &kernel->number[1];
	} else {
		for (size_t i = 0; i < 3; i++)
			kernel->parameters[i] = &kernel->address[i];

		kernel->parameters[3] = &kernel->number[0];
	}

	if (self->plan->iterations)
		kernel->number[0] = (int)self->plan->iterations;
	else
		rc = load_calibrate(self, err);

	self->out->iterations = (uint32_t)kernel->number[0];
	kernel->operations = (double)LOAD_BURN_OPERATIONS * warps * kernel->number[0];
	return rc == 0 ? load_keep_reference(self, err) : rc;
}

/* Whether any result that was compared was another one than the first. */
static int load_compared(struct load_session *self, uint64_t counts[LOAD_COUNTS], struct err *err)
{
	int rc = load_said(
	    self,
	    self->driver.call.cuMemcpyDtoH(counts, self->difference, LOAD_COUNTS * sizeof(*counts)),
	    err, "cuMemcpyDtoH");
	if (rc == 0 && (counts[0] || counts[2]))
		rc = err_set(err, -EBADMSG,
			     "GPU %u (%s) computes wrongly: %" PRIu64
			     " words of its results differ from the first, from word %" PRIu64
			     " on, and %" PRIu64 " are no numbers",
			     self->out->device.ordinal, self->out->device.uuid, counts[0],
			     counts[1], counts[2]);

	return rc;
}

/* What was queued here a second ago is done by now; what is queued now shows in a second. */
int load_verify_running(struct load_session *self, struct err *err)
{
	if (!self->reference)
		return 0;
	uint64_t counts[LOAD_COUNTS];
	int rc = load_compared(self, counts, err);
	self->comparisons++;
	return rc == 0 ? load_launch(self, &self->compare, err) : rc;
}

static int load_verify_burn(struct load_session *self, struct err *err)
{
	uint64_t counts[LOAD_COUNTS];
	int rc = load_launch(self, &self->compare, err);

	self->comparisons++;
	if (rc == 0)
		rc = load_sync(self, err);
	if (rc == 0)
		rc = load_compared(self, counts, err);

	/* What compares runs on the same GPU: had it not run, nothing would differ either. */
	if (rc == 0 && counts[LOAD_COUNTS - 1] != self->comparisons * self->expected_sum)
		rc = err_set(err, -EBADMSG,
			     "GPU %u (%s) computes wrongly: no word of its results differs, and "
			     "yet their sums do",
			     self->out->device.ordinal, self->out->device.uuid);

	return rc;
}

/* The product that was computed last, which is still there, bit for bit. */
static int load_verify_last(struct load_session *self, struct err *err)
{
	const struct hgemm_size *size = &self->plan->size;
	uint64_t sum = 0;
	int rc = load_sum(self, (uint64_t)size->m * size->n, &sum, err);
	if (rc == 0 && sum != self->expected_sum)
		rc = err_set(err, -EBADMSG,
			     "GPU %u (%s) computes wrongly: the last product is not what the "
			     "first one was",
			     self->out->device.ordinal, self->out->device.uuid);

	return rc;
}

int load_verify_end(struct load_session *self, struct err *err)
{
	if (self->reference)
		return load_verify_burn(self, err);
	/* The simulated driver does not compute large ones. */
	if (self->plan->mode == LOAD_GEMM && !self->out->verified_small)
		return load_verify_last(self, err);
	return 0;
}
