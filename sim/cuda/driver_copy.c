/* SPDX-License-Identifier: Apache-2.0 */
/* Copying and setting memory. */
#include "sim/cuda/driver.h"

#include <stdlib.h>
#include <string.h>

/* Which engine moves it, and how fast. */
static uint32_t copy_engine(uint32_t from, uint32_t to, const void *host, uint64_t bytes,
			    uint64_t *out_cost)
{
	uint32_t device = to < SIM_GPU_MAX ? to : from;
	const struct cost_rates *rates;

	*out_cost = COST_COPY_NS;
	if (device == SIM_GPU_MAX)
		return SCHED_COPY_IN; /* between two places of the host */

	rates = &driver.rates[device];
	if (from < SIM_GPU_MAX && to < SIM_GPU_MAX && from != to) {
		*out_cost += cost_ns(bytes, cost_peer_rate(&driver.devices.device[from].model,
							   driver.devices.links[from][to]));
		return SCHED_COPY_PEER;
	}

	if (from == to) {
		*out_cost += cost_ns(bytes * 2, rates->memory);
		return SCHED_COMPUTE;
	}

	*out_cost += cost_ns(bytes, work_is_pinned(host, bytes) ? rates->pcie : rates->pageable);
	return to < SIM_GPU_MAX ? SCHED_COPY_IN : SCHED_COPY_OUT;
}

static bool is_reachable(uint64_t address, uint32_t device, uint64_t bytes)
{
	return device == SIM_GPU_MAX ? address != 0
				     : memory_at(&driver.memory[device], address, bytes) != NULL;
}

/* `is_sync`: the call ends when the copy has. */
static int copy(const char *function, uint64_t to, uint64_t from, size_t bytes,
		struct cu_stream *handle, bool is_sync)
{
	struct work work = {.kind = WORK_COPY, .to = to, .from = from, .bytes = bytes};
	struct cu_context *context;
	uint64_t cost, number;
	int rc = driver_enter_context(function, &context);

	if (rc != CU_OK)
		return rc;

	struct cu_stream *stream = work_stream(context, handle);
	uint32_t to_device = work_device(to), from_device = work_device(from);

	if (!stream)
		return driver_leave(CU_INVALID_HANDLE);
	if (bytes == 0)
		return driver_leave(CU_OK);
	if (!is_reachable(to, to_device, bytes) || !is_reachable(from, from_device, bytes))
		return driver_leave(CU_INVALID_VALUE);
	if (is_sync && stream->capture)
		return driver_leave(CU_STREAM_CAPTURE_UNSUPPORTED);

	uint64_t host = to_device == SIM_GPU_MAX ? to : from;
	const void *host_memory = (const void *)(uintptr_t)host;
	bool is_pinned = (to_device < SIM_GPU_MAX && from_device < SIM_GPU_MAX) ||
			 work_is_pinned(host_memory, bytes);
	uint32_t engine = copy_engine(from_device, to_device, host_memory, bytes, &cost);

	if (!is_pinned && !is_sync && !stream->capture) {
		/* from ordinary memory: small ones are put aside, others are waited for */
		if (to_device < SIM_GPU_MAX && bytes <= DRIVER_STAGED_MAX)
			work.staged = malloc(bytes);
		if (work.staged)
			memcpy(work.staged, host_memory, bytes);
		else
			is_sync = true;
	}

	rc = work_queue(stream, &work, engine, cost, 0, &number);
	if (rc == CU_OK && is_sync)
		rc = work_wait(context, number);

	return driver_leave(rc);
}

static uint64_t address_of(const void *host)
{
	return (uint64_t)(uintptr_t)host;
}

API int cuMemcpy(uint64_t to, uint64_t from, size_t bytes)
{
	return copy("cuMemcpy", to, from, bytes, NULL, true);
}

API int cuMemcpyAsync(uint64_t to, uint64_t from, size_t bytes, struct cu_stream *stream)
{
	return copy("cuMemcpyAsync", to, from, bytes, stream, false);
}

API int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t bytes)
{
	return copy("cuMemcpyHtoD", to, address_of(from), bytes, NULL, true);
}

API int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t bytes)
{
	return copy("cuMemcpyDtoH", address_of(to), from, bytes, NULL, true);
}

API int cuMemcpyDtoD_v2(uint64_t to, uint64_t from, size_t bytes)
{
	return copy("cuMemcpyDtoD", to, from, bytes, NULL, true);
}

API int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, struct cu_stream *stream)
{
	return copy("cuMemcpyHtoDAsync", to, address_of(from), bytes, stream, false);
}

API int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, struct cu_stream *stream)
{
	return copy("cuMemcpyDtoHAsync", address_of(to), from, bytes, stream, false);
}

API int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, struct cu_stream *stream)
{
	return copy("cuMemcpyDtoDAsync", to, from, bytes, stream, false);
}

API int cuMemcpyPeer(uint64_t to, struct cu_context *to_context, uint64_t from,
		     struct cu_context *from_context, size_t bytes)
{
	(void)to_context; /* the addresses say it */
	(void)from_context;
	return copy("cuMemcpyPeer", to, from, bytes, NULL, true);
}

API int cuMemcpyPeerAsync(uint64_t to, struct cu_context *to_context, uint64_t from,
			  struct cu_context *from_context, size_t bytes, struct cu_stream *stream)
{
	(void)to_context;
	(void)from_context;
	return copy("cuMemcpyPeerAsync", to, from, bytes, stream, false);
}

static int set(const char *function, uint64_t to, uint32_t value, uint32_t width, size_t count,
	       struct cu_stream *handle, bool is_sync)
{
	struct cu_context *context;
	uint64_t number, bytes;
	int rc = driver_enter_context(function, &context);

	if (rc != CU_OK)
		return rc;

	struct cu_stream *stream = work_stream(context, handle);
	uint32_t device = work_device(to);

	if (!stream)
		return driver_leave(CU_INVALID_HANDLE);
	if (count == 0)
		return driver_leave(CU_OK);
	if (__builtin_mul_overflow(count, width, &bytes) || device == SIM_GPU_MAX ||
	    to % width != 0 || !is_reachable(to, device, bytes))
		return driver_leave(CU_INVALID_VALUE);

	struct work work = {
	    .kind = WORK_SET, .to = to, .bytes = bytes, .value = value, .width = width};

	rc = work_queue(stream, &work, SCHED_COMPUTE,
			COST_KERNEL_NS + cost_ns(bytes, driver.rates[device].memory), 0, &number);
	if (rc == CU_OK && is_sync)
		rc = work_wait(context, number);

	return driver_leave(rc);
}

API int cuMemsetD8_v2(uint64_t to, unsigned char value, size_t count)
{
	return set("cuMemsetD8", to, value, 1, count, NULL, true);
}

API int cuMemsetD16_v2(uint64_t to, unsigned short value, size_t count)
{
	return set("cuMemsetD16", to, value, 2, count, NULL, true);
}

API int cuMemsetD32_v2(uint64_t to, unsigned value, size_t count)
{
	return set("cuMemsetD32", to, value, 4, count, NULL, true);
}

API int cuMemsetD8Async(uint64_t to, unsigned char value, size_t count, struct cu_stream *stream)
{
	return set("cuMemsetD8Async", to, value, 1, count, stream, false);
}

API int cuMemsetD32Async(uint64_t to, unsigned value, size_t count, struct cu_stream *stream)
{
	return set("cuMemsetD32Async", to, value, 4, count, stream, false);
}
