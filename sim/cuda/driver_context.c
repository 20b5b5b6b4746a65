/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts: each is one tenant of its device's time. */
#include "sim/cuda/driver.h"

#include <stdlib.h>
#include <string.h>

static uint64_t unit_key(const struct device *device)
{
	return (uint64_t)device->gpu << 32 | (device->gi & 0xffff) << 16 | (device->ci & 0xffff);
}

/* With the lock. */
static int context_open(uint32_t index, bool is_primary, struct cu_context **out)
{
	const struct device *device = &driver.devices.device[index];
	struct cu_context *context = driver.context;
	int rc = driver_join();

	if (rc == CU_OK)
		rc = device_health(&driver.devices, index);
	if (rc != CU_OK)
		return rc;

	while (context < driver.context + DRIVER_CONTEXT_MAX && context->used)
		context++;

	if (context == driver.context + DRIVER_CONTEXT_MAX)
		return CU_OUT_OF_MEMORY;
	if (!driver.memory[index].view &&
	    memory_init(&driver.memory[index], device->usable_bytes) != 0)
		return CU_OUT_OF_MEMORY;

	struct work *work = calloc(SCHED_RING, sizeof(*work));

	if (!work)
		return CU_OUT_OF_MEMORY;

	rc = memory_enter(index, driver.held_bytes[index], driver.contexts[index] + 1);
	if (rc != CU_OK) {
		free(work);
		return rc;
	}

	driver.contexts[index]++;
	world_lock(driver.world);

	uint32_t sched =
	    sched_open(world_sched(driver.world), unit_key(device), world_process(driver.world));

	world_end(driver.world);
	if (sched == SCHED_CONTEXT_MAX) {
		driver.contexts[index]--;
		(void)memory_enter(index, driver.held_bytes[index], driver.contexts[index]);
		free(work);
		return CU_OUT_OF_MEMORY;
	}

	*context = (struct cu_context){.used = true,
				       .is_primary = is_primary,
				       .references = 1,
				       .device = index,
				       .sched = sched,
				       .work = work};
	context->standard = (struct cu_stream){.context = context, .is_default = true};
	*out = context;

	return CU_OK;
}

/* With the lock. What is queued is dropped; a program that cares synchronises before. */
static void context_close(struct cu_context *context)
{
	uint32_t index = context->device;
	const struct sched_context *queue = &world_sched(driver.world)->context[context->sched];
	struct cu_stream *next;
	uint64_t first, last;

	work_collect();
	world_lock(driver.world);
	first = queue->first;
	last = queue->next;
	world_end(driver.world);

	for (uint64_t n = first; n < last; n++) {
		struct work *work = &context->work[n % SCHED_RING];

		if (!work->is_applied)
			work_done(work);
	}

	world_lock(driver.world);
	sched_close(world_sched(driver.world), context->sched);
	world_end(driver.world);

	for (struct cu_stream *stream = context->streams; stream; stream = next) {
		next = stream->next;
		(void)graph_unref(stream->capture);
		free(stream);
	}

	(void)graph_unref(context->standard.capture);
	free(context->work);
	*context = (struct cu_context){0};
	driver.contexts[index]--;

	if (driver.contexts[index] == 0) {
		memory_done(&driver.memory[index]);
		driver.held_bytes[index] = 0;
		for (uint32_t i = 0; i < DRIVER_PHYSICAL_MAX; i++) {
			if (driver.physical[i].device == index)
				driver.physical[i].is_used = false;
		}

		device_leave(&driver.devices, index);
	} else {
		(void)memory_enter(index, driver.held_bytes[index], driver.contexts[index]);
	}
}

static struct cu_context *find_primary(uint32_t index)
{
	for (uint32_t i = 0; i < DRIVER_CONTEXT_MAX; i++) {
		if (driver.context[i].used && driver.context[i].is_primary &&
		    driver.context[i].device == index)
			return &driver.context[i];
	}
	return NULL;
}

static int enter_index(const char *function, int index)
{
	int rc = driver_enter(function);

	if (rc == CU_OK && (index < 0 || (uint32_t)index >= driver.devices.count))
		return driver_leave(CU_INVALID_DEVICE);
	return rc;
}

API int cuDevicePrimaryCtxRetain(struct cu_context **out, int index)
{
	struct cu_context *context;
	int rc = enter_index("cuDevicePrimaryCtxRetain", index);

	if (rc != CU_OK)
		return rc;
	if (!out)
		return driver_leave(CU_INVALID_VALUE);

	context = find_primary((uint32_t)index);
	if (context)
		context->references++;
	else
		rc = context_open((uint32_t)index, true, &context);

	if (rc == CU_OK)
		*out = context;

	return driver_leave(rc);
}

API int cuDevicePrimaryCtxRelease_v2(int index)
{
	struct cu_context *context;
	int rc = enter_index("cuDevicePrimaryCtxRelease", index);

	if (rc != CU_OK)
		return rc;

	context = find_primary((uint32_t)index);
	if (!context)
		return driver_leave(CU_INVALID_CONTEXT);
	if (--context->references == 0)
		context_close(context);

	return driver_leave(CU_OK);
}

API int cuDevicePrimaryCtxReset_v2(int index)
{
	struct cu_context *context;
	int rc = enter_index("cuDevicePrimaryCtxReset", index);

	if (rc != CU_OK)
		return rc;

	context = find_primary((uint32_t)index);
	if (context)
		context_close(context);

	return driver_leave(CU_OK);
}

API int cuDevicePrimaryCtxGetState(int index, unsigned *out_flags, int *out_active)
{
	int rc = enter_index("cuDevicePrimaryCtxGetState", index);

	if (rc != CU_OK)
		return rc;
	if (!out_flags || !out_active)
		return driver_leave(CU_INVALID_VALUE);

	*out_flags = 0;
	*out_active = find_primary((uint32_t)index) != NULL;
	return driver_leave(CU_OK);
}

API int cuDevicePrimaryCtxSetFlags_v2(int index, unsigned flags)
{
	int rc = enter_index("cuDevicePrimaryCtxSetFlags", index);

	(void)flags; /* how a thread waits makes no difference here */
	return rc == CU_OK ? driver_leave(CU_OK) : rc;
}

API int cuCtxCreate_v2(struct cu_context **out, unsigned flags, int index)
{
	struct cu_context *context;
	int rc = enter_index("cuCtxCreate", index);

	(void)flags;
	if (rc != CU_OK)
		return rc;
	if (!out)
		return driver_leave(CU_INVALID_VALUE);

	rc = context_open((uint32_t)index, false, &context);
	if (rc != CU_OK)
		return driver_leave(rc);

	*out = context;
	(void)driver_leave(CU_OK);
	return cuCtxPushCurrent_v2(context);
}

API int cuCtxDestroy_v2(struct cu_context *context)
{
	int rc = driver_enter("cuCtxDestroy");

	if (rc != CU_OK)
		return rc;
	if (!driver_context_is_valid(context) || context->is_primary)
		return driver_leave(CU_INVALID_CONTEXT);

	context_close(context);
	return driver_leave(CU_OK);
}

API int cuCtxGetDevice(int *out)
{
	struct cu_context *context;
	int rc = driver_enter_context("cuCtxGetDevice", &context);

	if (rc != CU_OK)
		return rc;
	if (!out)
		return driver_leave(CU_INVALID_VALUE);

	*out = (int)context->device;
	return driver_leave(CU_OK);
}

API int cuCtxSynchronize(void)
{
	struct cu_context *context;
	int rc = driver_enter_context("cuCtxSynchronize", &context);

	return rc == CU_OK ? driver_leave(work_wait_all(context)) : rc;
}

API int cuCtxSetLimit(int limit, size_t value)
{
	struct cu_context *context;
	int rc = driver_enter_context("cuCtxSetLimit", &context);

	(void)limit;
	(void)value;
	return rc == CU_OK ? driver_leave(CU_OK) : rc;
}

API int cuCtxGetApiVersion(struct cu_context *context, unsigned *out)
{
	int rc = driver_enter("cuCtxGetApiVersion");

	(void)context;
	if (rc != CU_OK)
		return rc;
	if (!out)
		return driver_leave(CU_INVALID_VALUE);

	*out = 3020;
	return driver_leave(CU_OK);
}
