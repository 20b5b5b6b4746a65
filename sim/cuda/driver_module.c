/* SPDX-License-Identifier: Apache-2.0 */
/* Modules from PTX text, and launching their kernels. */
#include "sim/cuda/driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/cuda/ptx.h"

/* Of CUjit_option. Source: CUDA driver API. */
enum jit_option {
	JIT_WALL_TIME = 2,
	JIT_INFO_LOG_BUFFER = 3,
	JIT_INFO_LOG_BYTES = 4,
	JIT_ERROR_LOG_BUFFER = 5,
	JIT_ERROR_LOG_BYTES = 6,
};

enum { LOG_MAX = 512, BLOCK_THREADS_MAX = 1024, GRID_YZ_MAX = 65535 };

struct cu_module {
	struct cu_context *context;
	uint32_t count;
	struct cu_function function[PTX_ENTRY_MAX];
};

static void log_out(const char *text, unsigned count, const int *option, void **value,
		    enum jit_option buffer, enum jit_option bytes)
{
	char *out = NULL;
	size_t room = 0, length = strlen(text);
	void **out_bytes = NULL;

	for (unsigned i = 0; i < count; i++) {
		if (option[i] == (int)buffer) {
			out = value[i];
		} else if (option[i] == (int)bytes) {
			room = (uint32_t)(uintptr_t)value[i];
			out_bytes = &value[i];
		}
	}

	if (!out || room == 0)
		return;
	if (length >= room)
		length = room - 1;
	memcpy(out, text, length);
	out[length] = '\0';
	*out_bytes = (void *)(uintptr_t)length; /* as the driver does: how much it wrote */
}

/* Newest PTX that a driver of that CUDA version reads: 12.2 reads 8.2. */
static uint32_t newest_ptx(uint32_t cuda)
{
	uint32_t major = cuda / 1000, minor = cuda % 1000 / 10;

	return (major - 4) * 10 + minor;
}

static int compile(const struct device *device, const char *image, uint64_t length, struct ptx *out,
		   char log[LOG_MAX])
{
	uint32_t cc = device->model.cc_major * 10 + device->model.cc_minor;
	uint64_t value;
	int rc = ptx_parse(image, length, out, log, LOG_MAX);

	if (rc == 0 && faults_strike(&driver.faults, FAULT_JIT, NULL, &value)) {
		(void)snprintf(log, LOG_MAX,
			       "ptxas (simulated) application ptx input, line 1; fatal   : "
			       "compiling fails, as $SLUICE_SIM_CUDA_FAULT asks\n");
		rc = -1;
	}

	if (rc != 0)
		return CU_INVALID_PTX;

	if (out->version > newest_ptx(driver.devices.cuda_version)) {
		(void)snprintf(log, LOG_MAX,
			       "ptxas (simulated) application ptx input, line 1; fatal   : "
			       "Unsupported .version %u.%u; current version is '%u.%u'\n",
			       out->version / 10, out->version % 10,
			       newest_ptx(driver.devices.cuda_version) / 10,
			       newest_ptx(driver.devices.cuda_version) % 10);
		return CU_UNSUPPORTED_PTX_VERSION;
	}

	if (out->target > cc || (out->is_exact && out->target != cc)) {
		(void)snprintf(log, LOG_MAX,
			       "ptxas (simulated): SM version specified by .target (sm_%u%s) is "
			       "not that of the device (sm_%u)\n",
			       out->target, out->is_exact ? "a" : "", cc);
		return CU_NO_BINARY_FOR_GPU;
	}

	return CU_OK;
}

API int cuModuleLoadDataEx(struct cu_module **out, const void *image, unsigned count, int *options,
			   void **values)
{
	char log[LOG_MAX] = "";
	struct cu_context *context;
	int rc = driver_enter_context("cuModuleLoadDataEx", &context);

	if (rc != CU_OK)
		return rc;
	if (!out || !image || (count > 0 && (!options || !values)))
		return driver_leave(CU_INVALID_VALUE);

	uint64_t length = strnlen(image, PTX_TEXT_MAX + 1);
	struct ptx *ptx = calloc(1, sizeof(*ptx));
	struct cu_module *module = calloc(1, sizeof(*module));

	if (!ptx || !module)
		rc = CU_OUT_OF_MEMORY;
	else
		rc = compile(&driver.devices.device[context->device], image, length, ptx, log);

	if (rc == CU_OK) {
		world_lock(driver.world);
		world_spend(driver.world, COST_JIT_NS + length / 1024 * COST_JIT_KIB_NS);
		world_end(driver.world);
		module->context = context;

		for (; module->count < ptx->entry_count; module->count++) {
			struct cu_function *function = &module->function[module->count];

			function->module = module;
			function->id = kernel_find(ptx->entry[module->count]);
			memcpy(function->name, ptx->entry[module->count], sizeof(function->name));
		}

		*out = module;
		module = NULL;
	}

	log_out(log, count, options, values, JIT_ERROR_LOG_BUFFER, JIT_ERROR_LOG_BYTES);
	log_out("", count, options, values, JIT_INFO_LOG_BUFFER, JIT_INFO_LOG_BYTES);
	free(module);
	free(ptx);

	return driver_leave(rc);
}

API int cuModuleLoadData(struct cu_module **out, const void *image)
{
	return cuModuleLoadDataEx(out, image, 0, NULL, NULL);
}

API int cuModuleUnload(struct cu_module *module)
{
	struct cu_context *context;
	int rc = driver_enter_context("cuModuleUnload", &context);

	if (rc != CU_OK)
		return rc;
	if (!module)
		return driver_leave(CU_INVALID_HANDLE);

	rc = work_wait_all(context);
	free(module);
	return driver_leave(rc);
}

/* Kernels that the text has but of which the simulator knows no twin are not found either. */
API int cuModuleGetFunction(struct cu_function **out, struct cu_module *module, const char *name)
{
	struct cu_context *context;
	int rc = driver_enter_context("cuModuleGetFunction", &context);

	if (rc != CU_OK)
		return rc;
	if (!out || !module || !name)
		return driver_leave(module ? CU_INVALID_VALUE : CU_INVALID_HANDLE);

	for (uint32_t i = 0; i < module->count; i++) {
		struct cu_function *function = &module->function[i];

		if (strcmp(function->name, name) == 0 && function->id != KERNEL_COUNT) {
			*out = function;
			return driver_leave(CU_OK);
		}
	}

	return driver_leave(CU_NOT_FOUND);
}

/* Of CUfunction_attribute: what callers ask to choose a block. */
API int cuFuncGetAttribute(int *out, int attribute, struct cu_function *function)
{
	int rc = driver_enter("cuFuncGetAttribute");

	if (rc != CU_OK)
		return rc;
	if (!out || !function || attribute < 0)
		return driver_leave(CU_INVALID_VALUE);

	*out = attribute == 0 ? BLOCK_THREADS_MAX : 0;
	return driver_leave(CU_OK);
}

static bool is_launchable(const uint32_t grid[3], const uint32_t block[3])
{
	uint64_t threads = (uint64_t)block[0] * block[1];

	if (grid[0] == 0 || grid[1] == 0 || grid[2] == 0 || block[0] == 0 || block[1] == 0 ||
	    block[2] == 0 || grid[0] > INT32_MAX || grid[1] > GRID_YZ_MAX ||
	    grid[2] > GRID_YZ_MAX || block[0] > BLOCK_THREADS_MAX || block[1] > BLOCK_THREADS_MAX ||
	    block[2] > 64)
		return false;

	return threads * block[2] <= BLOCK_THREADS_MAX;
}

API int cuLaunchKernel(struct cu_function *function, unsigned grid_x, unsigned grid_y,
		       unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,
		       unsigned shared_bytes, struct cu_stream *handle, void **parameters,
		       void **extra)
{
	struct work work = {
	    .kind = WORK_KERNEL,
	    .launch = {.grid = {grid_x, grid_y, grid_z}, .block = {block_x, block_y, block_z}},
	};
	uint8_t size[KERNELS_ARGUMENT_MAX];
	struct cu_context *context;
	uint64_t cost, value;
	bool is_elapsed;
	int rc = driver_enter_context("cuLaunchKernel", &context);

	(void)shared_bytes;
	if (rc != CU_OK)
		return rc;

	struct cu_stream *stream = work_stream(context, handle);

	if (!function || !stream)
		return driver_leave(CU_INVALID_HANDLE);
	if (!is_launchable(work.launch.grid, work.launch.block))
		return driver_leave(CU_INVALID_VALUE);
	if (extra)
		return driver_leave(CU_NOT_SUPPORTED); /* parameters in one buffer */

	work.launch.id = function->id;
	kernel_parameters(function->id, size);

	for (uint32_t i = 0; i < KERNELS_ARGUMENT_MAX && size[i]; i++) {
		if (!parameters || !parameters[i])
			return driver_leave(CU_INVALID_VALUE);
		memcpy(&work.launch.argument[i], parameters[i], size[i]);
	}

	cost = kernel_cost(&work.launch, &driver.rates[context->device], &is_elapsed);
	if (faults_strike(&driver.faults, FAULT_STALL, NULL, &value))
		cost += value * 1000000;

	return driver_leave(
	    work_queue(stream, &work, SCHED_COMPUTE, cost, is_elapsed ? SCHED_ELAPSED : 0, NULL));
}
