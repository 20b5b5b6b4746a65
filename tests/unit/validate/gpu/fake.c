/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/validate/gpu/fake.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unit/unit.h"

struct fake fake;

enum { FAKE_MANTISSA = 10, FAKE_BIAS = 15 };

/* What a call that is to fail answers; counts the calls of that name. */
static int fake_answer(const char *name)
{
	if (!fake.failing || strcmp(fake.failing, name) != 0)
		return CUDA_OK;
	if (fake.after > 0) {
		fake.after--;
		return CUDA_OK;
	}
	return (int)fake.result;
}

static int fake_error_name(int error, const char **name)
{
	*name = error == CUDA_SYSTEM_NOT_READY	   ? "CUDA_ERROR_SYSTEM_NOT_READY"
		: error == CUDA_DEVICE_UNAVAILABLE ? "CUDA_ERROR_DEVICE_UNAVAILABLE"
		: error == CUDA_OUT_OF_MEMORY	   ? "CUDA_ERROR_OUT_OF_MEMORY"
						   : "CUDA_ERROR_LAUNCH_FAILED";
	return CUDA_OK;
}

static int fake_retain(struct cuda_context **context, int device)
{
	int result = fake_answer("cuDevicePrimaryCtxRetain");
	*context = (struct cuda_context *)(uintptr_t)(device + 1);
	fake.contexts += result == CUDA_OK;
	return result;
}

static int fake_release(int device)
{
	(void)device;
	fake.contexts--;
	return CUDA_OK;
}

static int fake_set_current(struct cuda_context *context)
{
	(void)context;
	return CUDA_OK;
}

static int fake_synchronize(void)
{
	return fake_answer("cuCtxSynchronize");
}

static int fake_peer(struct cuda_context *peer, unsigned flags)
{
	(void)peer;
	(void)flags;
	return CUDA_OK;
}

static int fake_no_peer(struct cuda_context *peer)
{
	(void)peer;
	return CUDA_OK;
}

static int fake_can(int *can, int device, int peer)
{
	*can = fake.has_peers && device != peer;
	return CUDA_OK;
}

static int fake_module(struct cuda_module **module, const void *image, unsigned count, int *options,
		       void **values)
{
	(void)image;
	(void)count;
	(void)options;
	(void)values;
	*module = (struct cuda_module *)(uintptr_t)1;
	return fake_answer("cuModuleLoadDataEx");
}

static int fake_unload(struct cuda_module *module)
{
	(void)module;
	return CUDA_OK;
}

static const char *const fake_kernels[] = {"sl_vadd", "sl_hgemm", "sl_copy", "sl_hold",
					   "sl_compare"};

static int fake_function(struct cuda_function **function, struct cuda_module *module,
			 const char *name)
{
	(void)module;
	for (uintptr_t i = 0; i < sizeof(fake_kernels) / sizeof(fake_kernels[0]); i++) {
		if (strcmp(fake_kernels[i], name) == 0) {
			*function = (struct cuda_function *)(i + 1);
			return CUDA_OK;
		}
	}
	return CUDA_NOT_FOUND;
}

static int fake_info(size_t *free_bytes, size_t *total)
{
	*free_bytes = fake.free_bytes;
	*total = fake.free_bytes;
	return CUDA_OK;
}

static int fake_alloc(uint64_t *address, size_t bytes)
{
	int result = fake_answer("cuMemAlloc");
	if (result == CUDA_OK && bytes > fake.free_bytes)
		result = CUDA_OUT_OF_MEMORY;
	if (result != CUDA_OK)
		return result;
	void *memory = malloc(bytes);
	assert_non_null(memory);
	memset(memory, 0xee, bytes);
	fake.held++;
	*address = (uintptr_t)memory;
	return CUDA_OK;
}

static int fake_free(uint64_t address)
{
	free((void *)(uintptr_t)address);
	fake.held--;
	return CUDA_OK;
}

static int fake_host_alloc(void **address, size_t bytes, unsigned flags)
{
	uint64_t number = 0;
	(void)flags;
	int result = fake_alloc(&number, bytes);
	*address = (void *)(uintptr_t)number;
	return result;
}

static int fake_host_free(void *address)
{
	return fake_free((uintptr_t)address);
}

static int fake_host_device(uint64_t *address, void *host, unsigned flags)
{
	(void)flags;
	*address = (uintptr_t)host;
	return CUDA_OK;
}

static int fake_set(uint64_t address, unsigned value, size_t count)
{
	uint32_t *words = (uint32_t *)(uintptr_t)address;
	for (size_t i = 0; i < count; i++)
		words[i] = value;
	return CUDA_OK;
}

static int fake_copy(uint64_t to, uint64_t from, size_t bytes, const char *name)
{
	int result = fake_answer(name);
	if (result == CUDA_OK)
		memmove((void *)(uintptr_t)to, (void *)(uintptr_t)from, bytes);
	fake.now_ns += (uint64_t)((double)bytes / fake.bytes_per_ns) + 1;
	return result;
}

static int fake_to_gpu(uint64_t to, const void *from, size_t bytes)
{
	return fake_copy(to, (uintptr_t)from, bytes, "cuMemcpyHtoD");
}

static int fake_to_host(void *to, uint64_t from, size_t bytes)
{
	return fake_copy((uintptr_t)to, from, bytes, "cuMemcpyDtoH");
}

static int fake_to_gpu_async(uint64_t to, const void *from, size_t bytes,
			     struct cuda_stream *stream)
{
	(void)stream;
	return fake_copy(to, (uintptr_t)from, bytes, "cuMemcpyHtoDAsync");
}

static int fake_to_host_async(void *to, uint64_t from, size_t bytes, struct cuda_stream *stream)
{
	(void)stream;
	int result = fake_copy((uintptr_t)to, from, bytes, "cuMemcpyDtoHAsync");
	if (fake.fault == FAKE_FLIP && fake.fault_at == 0)
		((unsigned char *)to)[bytes / 2] ^= 1;
	return result;
}

static int fake_within(uint64_t to, uint64_t from, size_t bytes, struct cuda_stream *stream)
{
	(void)stream;
	return fake_copy(to, from, bytes, "cuMemcpyDtoDAsync");
}

static int fake_to_peer(uint64_t to, struct cuda_context *to_context, uint64_t from,
			struct cuda_context *from_context, size_t bytes, struct cuda_stream *stream)
{
	(void)to_context;
	(void)from_context;
	(void)stream;
	return fake_copy(to, from, bytes, "cuMemcpyPeerAsync");
}

static int fake_stream(struct cuda_stream **stream, unsigned flags)
{
	(void)flags;
	*stream = (struct cuda_stream *)(uintptr_t)1;
	return CUDA_OK;
}

static int fake_stream_done(struct cuda_stream *stream)
{
	(void)stream;
	return fake_answer("cuStreamSynchronize");
}

static int fake_stream_destroy(struct cuda_stream *stream)
{
	(void)stream;
	return CUDA_OK;
}

static int fake_stream_wait(struct cuda_stream *stream, struct cuda_event *event, unsigned flags)
{
	(void)stream;
	(void)event;
	(void)flags;
	return CUDA_OK;
}

static int fake_event(struct cuda_event **event, unsigned flags)
{
	(void)flags;
	*event = calloc(1, sizeof(uint64_t));
	assert_non_null(*event);
	return CUDA_OK;
}

static int fake_event_destroy(struct cuda_event *event)
{
	free(event);
	return CUDA_OK;
}

static int fake_record(struct cuda_event *event, struct cuda_stream *stream)
{
	(void)stream;
	*(uint64_t *)(void *)event = fake.now_ns;
	return CUDA_OK;
}

static int fake_event_done(struct cuda_event *event)
{
	(void)event;
	return fake_answer("cuEventSynchronize");
}

static int fake_elapsed(float *milliseconds, struct cuda_event *start, struct cuda_event *end)
{
	*milliseconds =
	    (float)((double)(*(uint64_t *)(void *)end - *(uint64_t *)(void *)start) / 1e6);
	return CUDA_OK;
}

static float fake_half(uint16_t bits)
{
	int exponent = bits >> FAKE_MANTISSA & 31, mantissa = bits & 0x3ff;
	float value = exponent == 0
			  ? ldexpf((float)mantissa, -24)
			  : ldexpf((float)(mantissa | 0x400), exponent - FAKE_BIAS - FAKE_MANTISSA);
	return bits & 0x8000 ? -value : value;
}

static void fake_product(const uint16_t *a, const uint16_t *b, float *c, int size)
{
	size_t count = (size_t)size * (size_t)size;
	float *left = malloc(count * sizeof(*left)), *right = malloc(count * sizeof(*right));
	assert_non_null(left);
	assert_non_null(right);
	for (size_t i = 0; i < count; i++) {
		left[i] = fake_half(a[i]);
		right[i] = fake_half(b[i]);
	}
	for (int row = 0; row < size; row++)
		for (int column = 0; column < size; column++) {
			float sum = 0;
			for (int k = 0; k < size; k++)
				sum += left[row * size + k] * right[column * size + k];
			c[row * size + column] = sum;
		}
	free(left);
	free(right);
}

static uint64_t fake_mix(uint64_t x)
{
	x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
	return x ^ (x >> 31);
}

/* As kernels/check.cu has it. */
static void fake_compare(const uint32_t *a, const uint32_t *b, uint64_t count, uint64_t *out)
{
	for (uint64_t i = 0; i < count; i++) {
		out[0] += a[i] != b[i];
		if (a[i] != b[i] && i < out[1])
			out[1] = i;
		out[2] += (a[i] & 0x7f800000u) == 0x7f800000u;
		out[3] += fake_mix(i << 32 | a[i]);
	}
}

/* What was computed, and what is wrong with it. */
static void fake_spoil(float *result, size_t count)
{
	uint32_t *words = (uint32_t *)(void *)result;
	fake.launches++;
	if (fake.fault == FAKE_ALWAYS_WRONG)
		for (size_t i = 0; i < count; i++)
			result[i] += 1e6f;
	if (fake.fault_at == 0 || fake.launches != fake.fault_at)
		return;
	if (fake.fault == FAKE_FLIP)
		words[count / 3] ^= 1;
	if (fake.fault == FAKE_NAN)
		words[count / 3] = 0x7fc00000;
}

static uint64_t fake_u64(void *parameter)
{
	uint64_t value;
	memcpy(&value, parameter, sizeof(value));
	return value;
}

static void *fake_pointer(void *parameter)
{
	return (void *)(uintptr_t)fake_u64(parameter);
}

static int fake_launch(struct cuda_function *function, unsigned grid_x, unsigned grid_y,
		       unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,
		       unsigned shared_bytes, struct cuda_stream *stream, void **parameters,
		       void **extra)
{
	const char *name = fake_kernels[(uintptr_t)function - 1];
	int number, result = fake_answer(name);
	(void)grid_z, (void)block_y, (void)block_z, (void)shared_bytes, (void)stream, (void)extra;
	assert_true(grid_x > 0 && grid_y > 0 && block_x > 0);
	if (result != CUDA_OK || fake.fault == FAKE_NOTHING_DONE)
		return result;
	if (strcmp(name, "sl_vadd") == 0) {
		float *a = fake_pointer(parameters[0]), *b = fake_pointer(parameters[1]);
		float *c = fake_pointer(parameters[2]);
		memcpy(&number, parameters[3], sizeof(number));
		for (int i = 0; i < number; i++)
			c[i] = a[i] + b[i];
		fake_spoil(c, (size_t)number);
	} else if (strcmp(name, "sl_hgemm") == 0) {
		memcpy(&number, parameters[3], sizeof(number));
		fake_product(fake_pointer(parameters[0]), fake_pointer(parameters[1]),
			     fake_pointer(parameters[2]), number);
		fake_spoil(fake_pointer(parameters[2]), (size_t)number * (size_t)number);
	} else if (strcmp(name, "sl_copy") == 0) {
		fake.copies++;
		return fake_copy(fake_u64(parameters[0]), fake_u64(parameters[1]),
				 fake_u64(parameters[2]) * 16, "sl_copy's copy");
	} else if (strcmp(name, "sl_hold") == 0) {
		*(uint32_t *)fake_pointer(parameters[2]) = fake.is_late ? 2 : 1;
	} else if (fake.comparisons++ == 0 || fake.fault != FAKE_COMPARES_ONCE) {
		fake_compare(fake_pointer(parameters[0]), fake_pointer(parameters[1]),
			     fake_u64(parameters[2]), fake_pointer(parameters[3]));
	}
	return CUDA_OK;
}

static int fake_clock(uint64_t *ns)
{
	*ns = fake.now_ns += 1000;
	return CUDA_OK;
}

void fake_open(struct driver *driver, struct driver_device *devices, uint32_t count)
{
	fake = (struct fake){.free_bytes = 8 << 20, .bytes_per_ns = 10};
	*driver = (struct driver){.is_simulated = true, .version = 13000};
	driver->call = (struct driver_calls){
	    .cuGetErrorName = fake_error_name,
	    .cuDevicePrimaryCtxRetain = fake_retain,
	    .cuDevicePrimaryCtxRelease = fake_release,
	    .cuCtxSetCurrent = fake_set_current,
	    .cuCtxSynchronize = fake_synchronize,
	    .cuCtxEnablePeerAccess = fake_peer,
	    .cuCtxDisablePeerAccess = fake_no_peer,
	    .cuDeviceCanAccessPeer = fake_can,
	    .cuModuleLoadDataEx = fake_module,
	    .cuModuleUnload = fake_unload,
	    .cuModuleGetFunction = fake_function,
	    .cuMemGetInfo = fake_info,
	    .cuMemAlloc = fake_alloc,
	    .cuMemFree = fake_free,
	    .cuMemHostAlloc = fake_host_alloc,
	    .cuMemFreeHost = fake_host_free,
	    .cuMemHostGetDevicePointer = fake_host_device,
	    .cuMemsetD32 = fake_set,
	    .cuMemcpyHtoD = fake_to_gpu,
	    .cuMemcpyDtoH = fake_to_host,
	    .cuMemcpyHtoDAsync = fake_to_gpu_async,
	    .cuMemcpyDtoHAsync = fake_to_host_async,
	    .cuMemcpyDtoDAsync = fake_within,
	    .cuMemcpyPeerAsync = fake_to_peer,
	    .cuStreamCreate = fake_stream,
	    .cuStreamDestroy = fake_stream_destroy,
	    .cuStreamSynchronize = fake_stream_done,
	    .cuStreamWaitEvent = fake_stream_wait,
	    .cuEventCreate = fake_event,
	    .cuEventDestroy = fake_event_destroy,
	    .cuEventRecord = fake_record,
	    .cuEventSynchronize = fake_event_done,
	    .cuEventElapsedTime = fake_elapsed,
	    .cuLaunchKernel = fake_launch,
	    .simCudaNow = fake_clock,
	};
	for (uint32_t i = 0; i < count; i++) {
		devices[i] = (struct driver_device){.device = (int)i,
						    .ordinal = i,
						    .name = "Fake GPU",
						    .cc_major = 8,
						    .sm_count = 4,
						    .is_simulated = true};
		(void)snprintf(devices[i].uuid, sizeof(devices[i].uuid),
			       "GPU-51ce51ce-0000-0000-0000-00000000000%u", i % 10);
		(void)snprintf(devices[i].bus_id, sizeof(devices[i].bus_id), "0000:0%u:00.0",
			       i + 1);
	}
}

/* --- the sink --------------------------------------------------------------------------------- */

static void fake_take(void *context, const struct checks_record *record)
{
	struct fake_sink *sink = context;
	sink->begun += record->kind == CHECKS_BEGIN;
	if (record->kind == CHECKS_END)
		checks_add(&sink->checks, &record->check);
	if (record->kind == CHECKS_SAMPLE)
		checks_add_sample(&sink->checks, &record->sample);
	if (record->kind == CHECKS_FACT)
		sink->fact = record->number;
	if (record->kind != CHECKS_NOTE)
		return;
	sink->notes++;
	(void)snprintf(sink->last_note, sizeof(sink->last_note), "%.*s", CHECKS_TEXT_MAX - 1,
		       record->text);
	sink->has_passed = sink->has_passed || strcmp(record->text, "Test PASSED") == 0;
}

void fake_sink_init(struct fake_sink *sink, struct checks_sink *out)
{
	*sink = (struct fake_sink){.begun = 0};
	checks_init(&sink->checks);
	*out = (struct checks_sink){.take = fake_take, .context = sink};
}

void fake_sink_done(struct fake_sink *sink)
{
	checks_done(&sink->checks);
}
