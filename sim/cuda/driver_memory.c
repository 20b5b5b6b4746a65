/* SPDX-License-Identifier: Apache-2.0 */
/* Every way to take memory and to give it back. */
#include "sim/cuda/driver.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { PITCH_ALIGN = 512, VMM_GRANULARITY = 2 << 20, PAGE = 4096 };

int memory_enter(uint32_t device, uint64_t held_bytes, uint32_t contexts)
{
	/* the entry of a process has one context; the others lie with what it holds */
	uint64_t more =
	    contexts > 1 ? (contexts - 1) * driver.devices.device[device].context_bytes : 0;

	return device_hold(&driver.devices, device, held_bytes + more,
			   driver.util_permille[device]);
}

int memory_allocate(uint32_t device, uint64_t bytes, uint64_t *out_address)
{
	struct memory *memory = &driver.memory[device];
	uint64_t held, value, address;

	if (faults_strike(&driver.faults, FAULT_OOM, NULL, &value))
		return CU_OUT_OF_MEMORY;

	held = memory_would_hold(memory, bytes);
	if (held == UINT64_MAX)
		return CU_OUT_OF_MEMORY;
	if (held != driver.held_bytes[device] &&
	    memory_enter(device, held, driver.contexts[device]) != CU_OK)
		return CU_OUT_OF_MEMORY;

	address = memory_take(memory, bytes);
	if (!address) {
		(void)memory_enter(device, driver.held_bytes[device], driver.contexts[device]);
		return CU_OUT_OF_MEMORY;
	}

	driver.held_bytes[device] = memory->held_bytes;
	*out_address = address;
	return CU_OK;
}

int memory_release(uint64_t address)
{
	uint32_t device = work_device(address);

	if (device == SIM_GPU_MAX || !memory_give(&driver.memory[device], address))
		return CU_INVALID_VALUE;
	if (driver.memory[device].held_bytes != driver.held_bytes[device]) {
		driver.held_bytes[device] = driver.memory[device].held_bytes;
		(void)memory_enter(device, driver.held_bytes[device], driver.contexts[device]);
	}

	return CU_OK;
}

API int cuMemGetInfo_v2(size_t *out_free, size_t *out_total)
{
	struct cu_context *context;
	int rc = driver_enter_context("cuMemGetInfo", &context);
	const struct device *device;
	uint64_t used;

	if (rc != CU_OK)
		return rc;
	if (!out_free || !out_total)
		return driver_leave(CU_INVALID_VALUE);

	device = &driver.devices.device[context->device];
	used = device_used(&driver.devices, context->device);
	*out_free = used < device->usable_bytes ? device->usable_bytes - used : 0;
	*out_total = device->usable_bytes;

	return driver_leave(CU_OK);
}

API int cuMemAlloc_v2(uint64_t *out, size_t bytes)
{
	struct cu_context *context;
	int rc = driver_enter_context("cuMemAlloc", &context);

	if (rc != CU_OK)
		return rc;
	if (!out || bytes == 0)
		return driver_leave(CU_INVALID_VALUE);

	return driver_leave(memory_allocate(context->device, bytes, out));
}

API int cuMemAllocPitch_v2(uint64_t *out, size_t *out_pitch, size_t width, size_t height,
			   unsigned element)
{
	struct cu_context *context;
	int rc = driver_enter_context("cuMemAllocPitch", &context);
	size_t pitch = (width + PITCH_ALIGN - 1) / PITCH_ALIGN * PITCH_ALIGN, bytes;

	if (rc != CU_OK)
		return rc;
	if (!out || !out_pitch || width == 0 || height == 0 || width > SIZE_MAX / 2 ||
	    (element != 4 && element != 8 && element != 16))
		return driver_leave(CU_INVALID_VALUE);
	if (__builtin_mul_overflow(pitch, height, &bytes))
		return driver_leave(CU_OUT_OF_MEMORY);

	rc = memory_allocate(context->device, bytes, out);
	if (rc == CU_OK)
		*out_pitch = pitch;

	return driver_leave(rc);
}

/* All of it lies on the device from the beginning: nothing migrates, and the host cannot read it
 * but by copies. */
API int cuMemAllocManaged(uint64_t *out, size_t bytes, unsigned flags)
{
	struct cu_context *context;
	int rc = driver_enter_context("cuMemAllocManaged", &context);

	if (rc != CU_OK)
		return rc;
	if (!out || bytes == 0 || (flags != 1 && flags != 2))
		return driver_leave(CU_INVALID_VALUE);

	return driver_leave(memory_allocate(context->device, bytes, out));
}

API int cuMemFree_v2(uint64_t address)
{
	struct cu_context *context;
	int rc = driver_enter_context("cuMemFree", &context);

	if (rc != CU_OK)
		return rc;
	if (address == 0)
		return driver_leave(CU_OK);

	/* as real drivers do: what is queued may still use it */
	rc = work_wait_all(context);
	return driver_leave(rc == CU_OK ? memory_release(address) : rc);
}

/* Memory in the order of a stream: taken at once, given back when the stream comes to it. */
API int cuMemAllocAsync(uint64_t *out, size_t bytes, struct cu_stream *handle)
{
	struct cu_context *context;
	int rc = driver_enter_context("cuMemAllocAsync", &context);

	if (rc != CU_OK)
		return rc;
	if (!out || bytes == 0)
		return driver_leave(CU_INVALID_VALUE);
	if (!work_stream(context, handle))
		return driver_leave(CU_INVALID_HANDLE);

	return driver_leave(memory_allocate(context->device, bytes, out));
}

API int cuMemFreeAsync(uint64_t address, struct cu_stream *handle)
{
	struct cu_context *context;
	struct work work = {.kind = WORK_FREE, .to = address};
	int rc = driver_enter_context("cuMemFreeAsync", &context);

	if (rc != CU_OK)
		return rc;

	struct cu_stream *stream = work_stream(context, handle);

	if (!stream)
		return driver_leave(CU_INVALID_HANDLE);
	if (work_device(address) == SIM_GPU_MAX)
		return driver_leave(CU_INVALID_VALUE);

	return driver_leave(work_queue(stream, &work, SCHED_NO_ENGINE, 0, 0, NULL));
}

/* --- physical memory of the virtual memory calls ---------------------------------------------- */

/* The beginning of CUmemAllocationProp. Source: CUDA driver API. */
struct allocation_property {
	int type, handle_types;
	int location_type, location;
};

API int cuMemGetAllocationGranularity(size_t *out, const void *property, int option)
{
	struct cu_context *context;
	int rc = driver_enter_context("cuMemGetAllocationGranularity", &context);

	(void)option;
	if (rc != CU_OK)
		return rc;
	if (!out || !property)
		return driver_leave(CU_INVALID_VALUE);

	*out = VMM_GRANULARITY;
	return driver_leave(CU_OK);
}

/* Counts as memory from here on; mapping it is not simulated. */
API int cuMemCreate(unsigned long long *out, size_t bytes, const void *property,
		    unsigned long long flags)
{
	const struct allocation_property *asked = property;
	struct cu_context *context;
	uint32_t slot = 0;
	int rc = driver_enter_context("cuMemCreate", &context);

	if (rc != CU_OK)
		return rc;
	if (!out || !asked || flags != 0 || bytes == 0 || bytes % VMM_GRANULARITY != 0 ||
	    asked->type != 1 || asked->location_type != 1 || asked->location < 0 ||
	    (uint32_t)asked->location >= driver.devices.count)
		return driver_leave(CU_INVALID_VALUE);

	if (!driver.memory[asked->location].view)
		return driver_leave(CU_INVALID_CONTEXT);

	while (slot < DRIVER_PHYSICAL_MAX && driver.physical[slot].is_used)
		slot++;

	if (slot == DRIVER_PHYSICAL_MAX)
		return driver_leave(CU_OUT_OF_MEMORY);

	struct physical *physical = &driver.physical[slot];

	rc = memory_allocate((uint32_t)asked->location, bytes, &physical->address);
	if (rc != CU_OK)
		return driver_leave(rc);

	physical->bytes = bytes;
	physical->device = (uint32_t)asked->location;
	physical->is_used = true;
	*out = slot + 1;

	return driver_leave(CU_OK);
}

API int cuMemRelease(unsigned long long handle)
{
	struct cu_context *context;
	int rc = driver_enter_context("cuMemRelease", &context);

	if (rc != CU_OK)
		return rc;
	if (handle == 0 || handle > DRIVER_PHYSICAL_MAX || !driver.physical[handle - 1].is_used)
		return driver_leave(CU_INVALID_VALUE);

	driver.physical[handle - 1].is_used = false;
	return driver_leave(memory_release(driver.physical[handle - 1].address));
}

/* --- memory of the host ----------------------------------------------------------------------- */

static int pinned_add(void *address, size_t bytes, bool is_registered)
{
	if (!driver.pinned)
		driver.pinned = calloc(DRIVER_PINNED_MAX, sizeof(*driver.pinned));
	if (!driver.pinned || driver.pinned_count == DRIVER_PINNED_MAX)
		return CU_OUT_OF_MEMORY;
	driver.pinned[driver.pinned_count++] = (struct pinned){address, bytes, is_registered};
	return CU_OK;
}

API int cuMemHostAlloc(void **out, size_t bytes, unsigned flags)
{
	struct cu_context *context;
	void *memory;
	int rc = driver_enter_context("cuMemHostAlloc", &context);

	(void)flags; /* portable and mapped it is in any case */
	if (rc != CU_OK)
		return rc;
	if (!out || bytes == 0 || bytes > SIZE_MAX / 2)
		return driver_leave(CU_INVALID_VALUE);

	memory = mmap(NULL, (bytes + PAGE - 1) / PAGE * PAGE, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return driver_leave(CU_OUT_OF_MEMORY);

	rc = pinned_add(memory, bytes, false);
	if (rc == CU_OK)
		*out = memory;
	else
		(void)munmap(memory, bytes);

	return driver_leave(rc);
}

API int cuMemAllocHost_v2(void **out, size_t bytes)
{
	return cuMemHostAlloc(out, bytes, 0);
}

static int pinned_remove(struct cu_context *context, void *address, bool is_registered)
{
	for (uint32_t i = 0; address && i < driver.pinned_count; i++) {
		struct pinned *pinned = &driver.pinned[i];

		if (pinned->address != address || pinned->is_registered != is_registered)
			continue;

		int rc = work_wait_all(context);

		if (!is_registered)
			(void)munmap(address, pinned->bytes);
		driver.pinned[i] = driver.pinned[--driver.pinned_count];
		return rc;
	}

	return CU_INVALID_VALUE;
}

API int cuMemFreeHost(void *address)
{
	struct cu_context *context;
	int rc = driver_enter_context("cuMemFreeHost", &context);

	return rc == CU_OK ? driver_leave(pinned_remove(context, address, false)) : rc;
}

API int cuMemHostRegister_v2(void *address, size_t bytes, unsigned flags)
{
	struct cu_context *context;
	int rc = driver_enter_context("cuMemHostRegister", &context);

	(void)flags;
	if (rc != CU_OK)
		return rc;
	if (!address || bytes == 0)
		return driver_leave(CU_INVALID_VALUE);

	return driver_leave(pinned_add(address, bytes, true));
}

API int cuMemHostUnregister(void *address)
{
	struct cu_context *context;
	int rc = driver_enter_context("cuMemHostUnregister", &context);

	return rc == CU_OK ? driver_leave(pinned_remove(context, address, true)) : rc;
}

API int cuMemHostGetDevicePointer_v2(uint64_t *out, void *host, unsigned flags)
{
	struct cu_context *context;
	int rc = driver_enter_context("cuMemHostGetDevicePointer", &context);

	if (rc != CU_OK)
		return rc;
	if (!out || flags != 0 || !work_is_pinned(host, 1))
		return driver_leave(CU_INVALID_VALUE);

	*out = (uint64_t)(uintptr_t)host;
	return driver_leave(CU_OK);
}

API int cuMemGetAddressRange_v2(uint64_t *out_begin, size_t *out_bytes, uint64_t address)
{
	struct cu_context *context;
	uint64_t begin, bytes;
	int rc = driver_enter_context("cuMemGetAddressRange", &context);

	if (rc != CU_OK)
		return rc;

	uint32_t device = work_device(address);

	if (device == SIM_GPU_MAX ||
	    !memory_around(&driver.memory[device], address, &begin, &bytes))
		return driver_leave(CU_NOT_FOUND);
	if (out_begin)
		*out_begin = begin;
	if (out_bytes)
		*out_bytes = bytes;

	return driver_leave(CU_OK);
}
