/* SPDX-License-Identifier: Apache-2.0 */
#include "validate/gpu/burntest.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "validate/gpu/gputest.h"

enum {
	BURNTEST_TILE = 128, /* of sl_hgemm */
	BURNTEST_BLOCK = 256,
	BURNTEST_BATCH = 16, /* products that are queued before somebody looks at the time */
	BURNTEST_ONE = 1024, /* of the operands' fixed point */
	/* What sl_compare writes: see kernels/check.cu. */
	BURNTEST_DIFFERING = 0,
	BURNTEST_FIRST = 1,
	BURNTEST_INFINITE = 2,
	BURNTEST_HASH = 3,
	BURNTEST_OUT = 4,
};
#define BURNTEST_TOLERANCE 1e-2 /* times sqrt(K): operands below 1, sums in single precision */

struct burntest {
	struct gputest test;
	const struct burntest_options *options;
	const struct checks_sink *sink;
	struct cuda_function *product;
	uint32_t size;
	uint64_t a, b, out; /* owned; `out` has BURNTEST_OUT words for each result */
	uint64_t *results;  /* owned, and what they name */
	uint32_t count;	    /* of them */
	uint64_t *found;    /* owned: `out` on the host */
	uint64_t launches, rounds;
	uint64_t hash;
	uint64_t start_ns, said_ns;
};

int burntest_operand(uint64_t seed, uint64_t place)
{
	return (int)(gputest_word(seed, place) % (2 * BURNTEST_ONE - 1)) - (BURNTEST_ONE - 1);
}

uint16_t burntest_half(int n)
{
	unsigned sign = n < 0 ? 0x8000u : 0, size = (unsigned)abs(n), exponent = 0;
	if (size == 0)
		return 0;
	while (size >> (exponent + 1) != 0)
		exponent++;
	/* n / 1024 = 1.xxx * 2^(exponent - 10); the bias is 15. */
	return (uint16_t)(sign | (exponent + 5) << 10 | ((size << (10 - exponent)) & 0x3ff));
}

static uint64_t burntest_bytes(const struct burntest *self)
{
	return (uint64_t)self->size * self->size * sizeof(float);
}

static int burntest_fail(const struct burntest *self, int rc, struct err *err, const char *what)
{
	return driver_fail(self->test.driver, rc, err, "%s on %s", what, self->test.device->uuid);
}

/* --- memory ----------------------------------------------------------------------------------- */

static int burntest_upload(struct burntest *self, uint64_t *out, uint64_t seed, struct err *err)
{
	const struct driver_calls *call = &self->test.driver->call;
	size_t count = (size_t)self->size * self->size;
	_cleanup_free_ uint16_t *numbers = malloc(count * sizeof(*numbers));
	if (!numbers)
		return err_set(err, -ENOMEM, "%zu numbers for %s: no memory", count,
			       self->test.device->uuid);

	for (size_t i = 0; i < count; i++)
		numbers[i] = burntest_half(burntest_operand(seed, i));

	int rc = call->cuMemAlloc(out, count * sizeof(*numbers));
	if (rc == CUDA_OK)
		rc = call->cuMemcpyHtoD(*out, numbers, count * sizeof(*numbers));
	if (rc == CUDA_OK)
		rc = call->cuCtxSynchronize();

	return rc == CUDA_OK ? 0 : burntest_fail(self, rc, err, "operands");
}

/* Two results, and the operands, are the least. */
static int burntest_choose_size(struct burntest *self, uint64_t budget, struct err *err)
{
	self->size = self->test.driver->is_simulated ? BURNTEST_SIMULATED_SIZE : BURNTEST_SIZE;
	while (self->size > BURNTEST_SIZE_MIN && 3 * burntest_bytes(self) > budget)
		self->size /= 2;

	return 3 * burntest_bytes(self) <= budget
		   ? 0
		   : err_set(err, -ENOMEM,
			     "%s: %" PRIu64 " bytes may be filled, which is too few: who uses its "
			     "memory? (sluice processes)",
			     self->test.device->uuid, budget);
}

static int burntest_allocate(struct burntest *self, struct err *err)
{
	const struct driver *driver = self->test.driver;
	size_t free_bytes = 0, total_bytes = 0;
	int failed = driver->call.cuMemGetInfo(&free_bytes, &total_bytes);
	if (failed != CUDA_OK)
		return burntest_fail(self, failed, err, "cuMemGetInfo");

	uint64_t budget = (uint64_t)((double)free_bytes * self->options->fill);
	int rc = burntest_choose_size(self, budget, err);
	if (rc == 0)
		rc = burntest_upload(self, &self->a, self->options->seed, err);
	if (rc == 0)
		rc = burntest_upload(self, &self->b, self->options->seed + 1, err);

	if (rc < 0)
		return rc;

	uint64_t wanted = budget / burntest_bytes(self) - 1; /* the operands are half as large */
	uint64_t most = driver->is_simulated ? BURNTEST_SIMULATED_RESULTS : BURNTEST_RESULTS_MAX;

	wanted = wanted < most ? wanted : most;
	self->results = calloc(wanted, sizeof(*self->results));
	self->found = calloc(wanted * BURNTEST_OUT, sizeof(*self->found));
	if (!self->results || !self->found)
		return err_set(err, -ENOMEM, "%" PRIu64 " results: no memory", wanted);

	failed = driver->call.cuMemAlloc(&self->out, wanted * BURNTEST_OUT * sizeof(*self->found));
	while (failed == CUDA_OK && self->count < wanted) {
		failed = driver->call.cuMemAlloc(&self->results[self->count], burntest_bytes(self));
		self->count += failed == CUDA_OK;
	}

	/* Memory in pieces: what could be had is filled. */
	bool is_enough = self->count >= 2 && (failed == CUDA_OK || failed == CUDA_OUT_OF_MEMORY);
	return is_enough ? 0 : burntest_fail(self, failed, err, "memory for results");
}

static void burntest_close(struct burntest *self)
{
	if (self->test.context) {
		const struct driver_calls *call = &self->test.driver->call;
		for (uint32_t i = 0; i < self->count; i++)
			(void)call->cuMemFree(self->results[i]); /* at the end, all goes */

		if (self->out)
			(void)call->cuMemFree(self->out);
		if (self->a)
			(void)call->cuMemFree(self->a);
		if (self->b)
			(void)call->cuMemFree(self->b);
	}

	gputest_close(&self->test);
	free(self->results);
	free(self->found);
}

/* --- work ------------------------------------------------------------------------------------- */

static int burntest_product(struct burntest *self, uint32_t which, struct err *err)
{
	const struct driver_calls *call = &self->test.driver->call;
	int size = (int)self->size;
	uint64_t to = self->results[which];
	void *parameters[] = {&self->a, &self->b, &to, &size, &size, &size};
	unsigned grid = self->size / BURNTEST_TILE;

	/* So that what lay there before is not taken for a result. */
	int rc = call->cuMemsetD32(to, 0x7fc00000u, burntest_bytes(self) / 4);
	if (rc == CUDA_OK)
		rc = call->cuLaunchKernel(self->product, grid, grid, 1, BURNTEST_BLOCK, 1, 1, 0,
					  self->test.streams[0], parameters, NULL);

	self->launches++;
	return rc == CUDA_OK ? 0 : burntest_fail(self, rc, err, "launching a product");
}

static int burntest_compare(struct burntest *self, uint32_t which, struct err *err)
{
	uint64_t mine = self->results[which], first = self->results[0];
	uint64_t count = burntest_bytes(self) / 4;
	uint64_t out = self->out + (uint64_t)which * BURNTEST_OUT * sizeof(*self->found);
	void *parameters[] = {&mine, &first, &count, &out};
	return gputest_launch(&self->test, self->test.compare,
			      (unsigned)self->test.device->sm_count * 4, GPUTEST_BLOCK, 0,
			      parameters, err);
}

/* Before a round. */
static int burntest_clear(struct burntest *self, struct err *err)
{
	size_t words = (size_t)self->count * BURNTEST_OUT;
	memset(self->found, 0, words * sizeof(*self->found));
	for (uint32_t i = 0; i < self->count; i++)
		self->found[i * BURNTEST_OUT + BURNTEST_FIRST] = UINT64_MAX;
	int rc = self->test.driver->call.cuMemcpyHtoD(self->out, self->found,
						      words * sizeof(*self->found));
	return rc == CUDA_OK ? 0 : burntest_fail(self, rc, err, "starting a round");
}

static int burntest_fetch(struct burntest *self, struct err *err)
{
	const struct driver_calls *call = &self->test.driver->call;
	size_t bytes = (size_t)self->count * BURNTEST_OUT * sizeof(*self->found);
	int rc = call->cuStreamSynchronize(self->test.streams[0]);
	if (rc == CUDA_OK)
		rc = call->cuMemcpyDtoH(self->found, self->out, bytes);
	return rc == CUDA_OK ? 0 : burntest_fail(self, rc, err, "waiting for a round");
}

static void burntest_wrong(struct check *check, const char *hint)
{
	check->status = CHECK_FAIL;
	(void)snprintf(check->hint, sizeof(check->hint), "%s", hint);
}

/* Some entries of the first result, in double precision on the processor. */
static int burntest_sample(struct burntest *self, struct check *check, struct err *err)
{
	const struct driver_calls *call = &self->test.driver->call;
	uint32_t n = self->size;
	double tolerance = BURNTEST_TOLERANCE * sqrt(n);

	for (uint32_t i = 0; i < BURNTEST_SAMPLES; i++) {
		uint32_t row = gputest_word(self->options->seed + 2, i) % n;
		uint32_t column = gputest_word(self->options->seed + 3, i) % n;
		double right = 0;
		float got = NAN;

		for (uint32_t k = 0; k < n; k++) /* B lies by columns */
			right +=
			    (double)burntest_operand(self->options->seed, (uint64_t)row * n + k) *
			    burntest_operand(self->options->seed + 1, (uint64_t)column * n + k);

		right /= (double)BURNTEST_ONE * BURNTEST_ONE;
		int rc = call->cuMemcpyDtoH(
		    &got, self->results[0] + ((uint64_t)row * n + column) * sizeof(got),
		    sizeof(got));
		if (rc != CUDA_OK)
			return burntest_fail(self, rc, err, "reading the first result");

		if (!(fabs((double)got - right) <= tolerance)) { /* a NaN is never right */
			check_set(
			    check, CHECK_FAIL,
			    "wrong from the beginning: entry (%u, %u) of the product is %.9g, "
			    "and the processor has %.9g",
			    row, column, (double)got, right);
			burntest_wrong(check, "this GPU computes wrong results always: take it out "
					      "of use; does the driver fit it?");
			return 0;
		}
	}

	return 0;
}

static int burntest_first(struct burntest *self, struct check *check, struct err *err)
{
	int rc = burntest_clear(self, err);
	if (rc == 0)
		rc = burntest_product(self, 0, err);
	if (rc == 0)
		rc = burntest_compare(self, 0, err);
	if (rc == 0)
		rc = burntest_fetch(self, err);

	if (rc < 0)
		return rc;

	self->hash = self->found[BURNTEST_HASH];
	if (self->found[BURNTEST_INFINITE] > 0) {
		check_set(check, CHECK_FAIL,
			  "%" PRIu64 " of %" PRIu64
			  " entries of the first result are NaN or infinite",
			  self->found[BURNTEST_INFINITE], burntest_bytes(self) / 4);
		burntest_wrong(check, "the GPU computes wrong results: take it out of use");
		return 0;
	}

	return burntest_sample(self, check, err);
}

static void burntest_judge_round(const struct burntest *self, struct check *check)
{
	uint64_t wrong = 0, infinite = 0, bad_results = 0;
	const uint64_t *first_bad = NULL;
	uint32_t bad = 0;
	bool is_unseen = false;

	for (uint32_t i = 1; i < self->count; i++) {
		const uint64_t *found = &self->found[i * BURNTEST_OUT];
		wrong += found[BURNTEST_DIFFERING];
		infinite += found[BURNTEST_INFINITE];
		bad_results += found[BURNTEST_DIFFERING] > 0;
		is_unseen = is_unseen ||
			    (found[BURNTEST_DIFFERING] == 0 && found[BURNTEST_HASH] != self->hash);

		if (found[BURNTEST_DIFFERING] > 0 && !first_bad) {
			first_bad = found;
			bad = i;
		}
	}

	/* What compares runs on the same GPU: had it not run, nothing would differ either. */
	if (!first_bad && is_unseen) {
		check_set(check, CHECK_FAIL,
			  "round %" PRIu64
			  ": no word differs, and yet the sums over the results do",
			  self->rounds + 1);
		burntest_wrong(check, "the GPU compares wrongly: take it out of use");
	}

	if (!first_bad)
		return;

	check_set(check, CHECK_FAIL,
		  "round %" PRIu64 ": %" PRIu64 " of %u results differ from the first in %" PRIu64
		  " words (%" PRIu64 " NaN or infinite); result %u first at (%" PRIu64 ", %" PRIu64
		  ")",
		  self->rounds + 1, bad_results, self->count - 1, wrong, infinite, bad,
		  first_bad[BURNTEST_FIRST] / self->size, first_bad[BURNTEST_FIRST] % self->size);
	burntest_wrong(check, "equal work gave different bits: memory, heat or power; look at ECC "
			      "(sluice health), cooling and cables, and take the GPU out of use");
}

/* Seconds by the driver's clock, and a word once a second. */
static double burntest_elapsed(struct burntest *self)
{
	uint64_t elapsed = driver_now_ns(self->test.driver) - self->start_ns;
	uint64_t whole = self->options->duration_ns > 0 ? self->options->duration_ns : 1;

	if (self->said_ns == 0 || elapsed - self->said_ns >= CLOCK_NS_PER_S) {
		uint64_t percent = elapsed >= whole ? 100 : elapsed * 100 / whole;

		self->said_ns = elapsed > 0 ? elapsed : 1;
		checks_progress(self->sink,
				"stress of GPU %u: %" PRIu64 " %%, round %" PRIu64 ", %u x %.1f MB",
				self->test.device->ordinal, percent, self->rounds + 1, self->count,
				(double)burntest_bytes(self) / 1e6);
	}

	return (double)elapsed / 1e9;
}

static int burntest_round(struct burntest *self, struct check *check, struct err *err)
{
	int rc = burntest_clear(self, err);

	for (uint32_t i = 1; rc == 0 && i < self->count; i++) {
		rc = burntest_product(self, i, err);
		if (rc == 0)
			rc = burntest_compare(self, i, err);

		if (rc == 0 && i % BURNTEST_BATCH == 0) {
			int failed =
			    self->test.driver->call.cuStreamSynchronize(self->test.streams[0]);
			if (failed != CUDA_OK)
				rc = burntest_fail(self, failed, err, "waiting for products");
			(void)burntest_elapsed(self); /* says how far it is */
		}
	}

	if (rc == 0)
		rc = burntest_fetch(self, err);
	if (rc == 0)
		burntest_judge_round(self, check);

	return rc;
}

static int burntest_rounds(struct burntest *self, struct check *check, struct err *err)
{
	bool is_simulated = self->test.driver->is_simulated;
	double seconds = 0, wanted = (double)self->options->duration_ns / 1e9;

	self->start_ns = driver_now_ns(self->test.driver);
	self->launches = 0;
	do {
		int rc = burntest_round(self, check, err);
		if (rc < 0)
			return rc;
		self->rounds++;
		seconds = burntest_elapsed(self);
	} while (check->status == CHECK_PASS && seconds < wanted &&
		 !(is_simulated && self->rounds >= BURNTEST_SIMULATED_ROUNDS));

	double flops = 2.0 * self->size * self->size * self->size * (double)self->launches;
	check_value(check, seconds > 0 ? flops / seconds / 1e12 : 0, "TFLOP/s");
	checks_sample(self->sink, self->test.device->uuid, "stress", "TFLOP/s", true, check->value);

	if (check->status == CHECK_PASS)
		check_set(check, CHECK_PASS,
			  "%" PRIu64 " products of %u x %u in %" PRIu64 " rounds over %.2f GB: all "
			  "bits equal%s",
			  self->launches, self->size, self->size, self->rounds,
			  (double)(burntest_bytes(self) * self->count) / 1e9,
			  is_simulated ? "; verified: small size, simulated" : "");

	return 0;
}

static int burntest_run(struct burntest *self, const struct driver *driver,
			const struct driver_device *device, struct check *check, struct err *err)
{
	int rc = gputest_open(driver, device, &self->test, err);
	if (rc == 0)
		rc = kernels_find(driver, &self->test.kernels, "sl_hgemm", &self->product, err);
	if (rc == 0)
		rc = burntest_allocate(self, err);
	if (rc == 0)
		rc = burntest_first(self, check, err);

	/* Of a smaller product, for lack of memory, it says nothing beside those of other GPUs. */
	if (rc == 0 &&
	    self->size >= (driver->is_simulated ? BURNTEST_SIMULATED_SIZE : BURNTEST_SIZE))
		checks_fact(self->sink, "stress-hash", device->uuid, self->hash);

	return rc < 0 || check->status == CHECK_FAIL ? rc : burntest_rounds(self, check, err);
}

void burntest_check(const struct driver *driver, const struct driver_device *device,
		    const struct burntest_options *options, uint64_t place,
		    const struct checks_sink *sink)
{
	struct burntest self = {.options = options, .sink = sink};
	struct err err = {.code = 0};
	struct check check;

	checks_begin(sink, &check, place, "stress", device->uuid);
	if (burntest_run(&self, driver, device, &check, &err) < 0) {
		gputest_failed(&check, &err);
		if (err.code == -ENOMEM)
			check.status = CHECK_SKIP; /* the GPU is full: no statement */
	}

	burntest_close(&self);
	checks_end(sink, &check);
}
