/* SPDX-License-Identifier: Apache-2.0 */
#include "validate/gpu/vectoradd.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "validate/gpu/gputest.h"

enum { VECTORADD_BLOCK = 256 };
#define VECTORADD_BYTES (VECTORADD_COUNT * sizeof(float))

struct vectoradd {
	struct gputest test;
	float *a, *b, *c;   /* owned */
	uint64_t device[3]; /* owned: a, b, c on the GPU */
};

static float vectoradd_number(uint64_t seed, uint64_t place)
{
	return (float)(gputest_word(seed, place) >> 8) / (float)(1 << 24);
}

static int vectoradd_copies(struct vectoradd *self, struct err *err)
{
	const struct driver *driver = self->test.driver;
	const char *uuid = self->test.device->uuid;

	for (unsigned i = 0; i < 3; i++) {
		int rc = driver->call.cuMemAlloc(&self->device[i], VECTORADD_BYTES);
		if (rc != CUDA_OK) {
			self->device[i] = 0;
			return driver_fail(driver, rc, err, "cuMemAlloc of %zu bytes on %s",
					   VECTORADD_BYTES, uuid);
		}
	}

	/* So that the result is not what lay there before. */
	int rc = driver->call.cuMemsetD32(self->device[2], 0x7fc00000u, VECTORADD_COUNT);
	if (rc == CUDA_OK)
		rc = driver->call.cuCtxSynchronize();
	if (rc == CUDA_OK)
		rc = driver->call.cuMemcpyHtoD(self->device[0], self->a, VECTORADD_BYTES);
	if (rc == CUDA_OK)
		rc = driver->call.cuMemcpyHtoD(self->device[1], self->b, VECTORADD_BYTES);

	return rc == CUDA_OK ? 0 : driver_fail(driver, rc, err, "copying the operands to %s", uuid);
}

static int vectoradd_compute(struct vectoradd *self, const struct checks_sink *sink,
			     struct err *err)
{
	const struct driver *driver = self->test.driver;
	struct cuda_function *add = NULL;
	int count = VECTORADD_COUNT;
	unsigned grid = (VECTORADD_COUNT + VECTORADD_BLOCK - 1) / VECTORADD_BLOCK;
	void *parameters[] = {&self->device[0], &self->device[1], &self->device[2], &count};
	int rc = kernels_find(driver, &self->test.kernels, "sl_vadd", &add, err);
	if (rc < 0)
		return rc;

	checks_note(sink, "CUDA kernel launch with %u blocks of %d threads", grid, VECTORADD_BLOCK);
	rc = gputest_launch(&self->test, add, grid, VECTORADD_BLOCK, 0, parameters, err);
	if (rc < 0)
		return rc;

	rc = driver->call.cuStreamSynchronize(self->test.streams[0]);
	if (rc != CUDA_OK)
		return driver_fail(driver, rc, err, "waiting for the vector addition on %s",
				   self->test.device->uuid);

	checks_note(sink, "Copy output data from the CUDA device to the host memory");
	rc = driver->call.cuMemcpyDtoH(self->c, self->device[2], VECTORADD_BYTES);
	return rc == CUDA_OK ? 0
			     : driver_fail(driver, rc, err, "copying the sums from %s",
					   self->test.device->uuid);
}

static void vectoradd_judge(const struct vectoradd *self, struct check *check)
{
	unsigned wrong = 0, first = 0;
	for (unsigned i = 0; i < VECTORADD_COUNT; i++) {
		float sum = self->a[i] + self->b[i];
		/* Adding rounds in one way only, so there is no tolerance; a NaN is never equal. */
		if (!(self->c[i] == sum) && wrong++ == 0)
			first = i;
	}

	check_value(check, wrong, "wrong");
	check->has_limit = true;

	if (wrong > 0) {
		check_set(check, CHECK_FAIL,
			  "%u of %d sums are wrong; the first is number %u: %.9g + %.9g gave %.9g",
			  wrong, VECTORADD_COUNT, first, (double)self->a[first],
			  (double)self->b[first], (double)self->c[first]);
		(void)snprintf(check->hint, sizeof(check->hint),
			       "the GPU computes wrong results: take it out of use and test it");
	}
}

static int vectoradd_run(struct vectoradd *self, const struct driver *driver,
			 const struct driver_device *device, const struct checks_sink *sink,
			 struct err *err)
{
	self->a = malloc(VECTORADD_BYTES);
	self->b = malloc(VECTORADD_BYTES);
	self->c = calloc(VECTORADD_COUNT, sizeof(float));
	if (!self->a || !self->b || !self->c)
		return err_set(err, -ENOMEM, "vector addition: no memory");

	for (unsigned i = 0; i < VECTORADD_COUNT; i++) {
		self->a[i] = vectoradd_number(1, i);
		self->b[i] = vectoradd_number(2, i);
	}

	int rc = gputest_open(driver, device, &self->test, err);
	if (rc < 0)
		return rc;

	checks_note(sink, "Copy input data from the host memory to the CUDA device");
	rc = vectoradd_copies(self, err);
	return rc < 0 ? rc : vectoradd_compute(self, sink, err);
}

void vectoradd_check(const struct driver *driver, const struct driver_device *device,
		     uint64_t place, const struct checks_sink *sink)
{
	struct vectoradd self = {.a = NULL};
	struct err err = {.code = 0};
	struct check check;

	checks_begin(sink, &check, place, "vectoradd", device->uuid);
	checks_note(sink, "%s: %s%s", device->uuid, device->name,
		    device->is_simulated ? " (simulated)" : "");
	checks_note(sink, "[Vector addition of %d elements]", VECTORADD_COUNT);

	if (vectoradd_run(&self, driver, device, sink, &err) < 0)
		gputest_failed(&check, &err);
	else
		vectoradd_judge(&self, &check);

	checks_note(sink, check.status == CHECK_PASS ? "Test PASSED" : "Test FAILED");
	checks_note(sink, "Done");

	for (unsigned i = 0; i < 3; i++)
		if (self.device[i] != 0)
			(void)driver->call.cuMemFree(self.device[i]); /* at the end, all goes */

	gputest_close(&self.test);
	free(self.a);
	free(self.b);
	free(self.c);
	checks_end(sink, &check);
}
