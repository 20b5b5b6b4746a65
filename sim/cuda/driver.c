/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda/driver.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/state.h"

struct driver_state driver;

static pthread_mutex_t driver_mutex = PTHREAD_MUTEX_INITIALIZER;
static bool driver_is_ready;  /* cuInit said yes */
static bool driver_is_forked; /* the driver does not live on in a child */
static bool driver_is_prepared;
static bool driver_has_faults; /* they were read */

struct driver_stack {
	uint32_t count;
	struct cu_context *context[DRIVER_STACK_MAX];
};
static _Thread_local struct driver_stack driver_stack;

/* --- coming and going ------------------------------------------------------------------------- */

static void driver_before_fork(void)
{
	(void)pthread_mutex_lock(&driver_mutex);
}

static void driver_after_fork(void)
{
	(void)pthread_mutex_unlock(&driver_mutex);
}

static void driver_in_child(void)
{
	if (driver_is_ready)
		driver_is_forked = true;
	world_forget(driver.world);
	driver.world = NULL;
	(void)pthread_mutex_unlock(&driver_mutex);
}

void driver_lock(void)
{
	(void)pthread_mutex_lock(&driver_mutex);
}

int driver_read_faults(void)
{
	const char *word = "";

	if (driver_has_faults)
		return CU_OK;

	if (faults_parse(getenv("SLUICE_SIM_CUDA_FAULT"), &driver.faults, &word) != 0) {
		(void)fprintf(stderr,
			      "libcuda (simulated): SLUICE_SIM_CUDA_FAULT: '%.40s' is no fault\n",
			      word);
		return CU_UNKNOWN;
	}

	driver_has_faults = true;
	return CU_OK;
}

/* What is needed once. */
static int driver_prepare(void)
{
	if (!driver_is_prepared)
		driver_is_prepared =
		    pthread_atfork(driver_before_fork, driver_after_fork, driver_in_child) == 0;
	return driver_read_faults();
}

API int cuInit(unsigned flags)
{
	uint64_t value = 0;
	int rc = CU_OK;

	(void)pthread_mutex_lock(&driver_mutex);
	if (flags != 0)
		rc = CU_INVALID_VALUE;
	else if (driver_is_forked)
		rc = CU_NOT_INITIALIZED;
	else if (!driver_is_ready)
		rc = driver_prepare();

	if (rc == CU_OK && faults_strike(&driver.faults, FAULT_CALL, "cuInit", &value))
		rc = (int)value;

	if (rc == CU_OK && !driver_is_ready) {
		rc = devices_open(&driver.devices);
		driver_is_ready = rc == CU_OK;
		for (uint32_t i = 0; driver_is_ready && i < driver.devices.count; i++)
			cost_rates(&driver.devices.device[i].model,
				   driver.devices.device[i].sm_count, &driver.rates[i]);
	}

	(void)pthread_mutex_unlock(&driver_mutex);
	return rc;
}

/* At exit, or when the library is unloaded. */
__attribute__((destructor)) static void driver_finish(void)
{
	if (!driver_is_ready || driver_is_forked)
		return;

	(void)pthread_mutex_lock(&driver_mutex);

	for (uint32_t i = 0; i < driver.devices.count; i++) {
		if (driver.contexts[i] > 0)
			device_leave(&driver.devices, i);
	}

	world_leave(driver.world); /* other threads may still be in it */
	driver_is_ready = false;
	(void)pthread_mutex_unlock(&driver_mutex);
}

int driver_join(void)
{
	struct world_options options;
	const char *which;
	char path[SIM_PATH_MAX + 8];

	if (driver.world)
		return CU_OK;
	if (!world_options_read(&options, &which)) {
		(void)fprintf(stderr, "libcuda (simulated): %s cannot be understood\n", which);
		return CU_INVALID_VALUE;
	}

	(void)snprintf(path, sizeof(path), "%s" SIM_STATE_CUDA_SUFFIX, driver.devices.path);
	driver.world = world_open(driver.devices.path[0] ? path : NULL, &options);
	if (!driver.world && driver.devices.path[0]) {
		bool is_foreign = errno == EACCES || errno == EROFS || errno == EPERM;

		(void)fprintf(stderr,
			      "libcuda (simulated): '%s': %s; this process shares no time with "
			      "others%s\n",
			      path, strerror(errno),
			      is_foreign ? ": the machine is another user's, and root can start "
					   "one for all with 'sluice sim start --shared'"
					 : "");
		driver.world = world_open(NULL, &options);
	}

	return driver.world ? CU_OK : CU_OPERATING_SYSTEM;
}

/* --- around every function -------------------------------------------------------------------- */

int driver_enter(const char *function)
{
	uint64_t value = 0;
	int rc = CU_OK;

	(void)pthread_mutex_lock(&driver_mutex);
	if (!driver_is_ready || driver_is_forked)
		rc = CU_NOT_INITIALIZED;
	else if (faults_strike(&driver.faults, FAULT_CALL, function, &value))
		rc = (int)value;

	if (rc != CU_OK)
		(void)pthread_mutex_unlock(&driver_mutex);

	return rc;
}

int driver_leave(int result)
{
	(void)pthread_mutex_unlock(&driver_mutex);
	return result;
}

bool driver_context_is_valid(const struct cu_context *context)
{
	return context >= driver.context && context < driver.context + DRIVER_CONTEXT_MAX &&
	       context->used;
}

struct cu_context *driver_current(void)
{
	struct cu_context *context =
	    driver_stack.count ? driver_stack.context[driver_stack.count - 1] : NULL;

	return context && driver_context_is_valid(context) ? context : NULL;
}

/* So that time may go on and others have their turn: every function that concerns time passes here
 * before it takes the lock. */
static void take_turn(void)
{
	struct world *world;

	(void)pthread_mutex_lock(&driver_mutex);
	world = driver_is_ready && !driver_is_forked ? driver.world : NULL;
	(void)pthread_mutex_unlock(&driver_mutex);
	if (world && world_begin(world))
		world_end(world);
}

int driver_enter_context(const char *function, struct cu_context **out)
{
	struct cu_context *context;
	int rc;

	take_turn();
	rc = driver_enter(function);
	if (rc != CU_OK)
		return rc;

	context = driver_current();
	if (!context || !driver.world)
		return driver_leave(CU_INVALID_CONTEXT);

	work_collect();
	if (context->error != CU_OK)
		return driver_leave(context->error);

	*out = context;
	return CU_OK;
}

int driver_wait(struct cu_context *context, const struct world_wait *wait)
{
	struct world *world = driver.world;

	(void)pthread_mutex_unlock(&driver_mutex);
	world_wait(world, wait);
	(void)pthread_mutex_lock(&driver_mutex);
	work_collect();
	return context->error;
}

/* --- the clock, which only a simulated driver has --------------------------------------------- */

API int simCudaNow(uint64_t *out_ns)
{
	int rc = driver_enter("simCudaNow");

	if (rc != CU_OK)
		return rc;

	rc = driver_join();
	struct world *world = driver.world;

	(void)driver_leave(rc);
	if (rc != CU_OK || !out_ns)
		return rc != CU_OK ? rc : CU_INVALID_VALUE;
	if (!world_begin(world))
		return CU_OPERATING_SYSTEM;

	*out_ns = world_now(world);
	world_spend(world, COST_CLOCK_NS);
	world_end(world);

	return CU_OK;
}

API int simCudaWaitUntil(uint64_t ns)
{
	int rc = driver_enter("simCudaWaitUntil");

	if (rc != CU_OK)
		return rc;

	rc = driver_join();
	struct world *world = driver.world;

	(void)driver_leave(rc);
	if (rc != CU_OK)
		return rc;

	world_wait(world, &(struct world_wait){.kind = WORLD_WAIT_TIME, .ns = ns});
	return CU_OK;
}

/* --- the contexts of a thread ----------------------------------------------------------------- */

API int cuCtxSetCurrent(struct cu_context *context)
{
	int rc = driver_enter("cuCtxSetCurrent");

	if (rc != CU_OK)
		return rc;
	if (context && !driver_context_is_valid(context))
		return driver_leave(CU_INVALID_CONTEXT);
	if (driver_stack.count == 0)
		driver_stack.count = 1;
	driver_stack.context[driver_stack.count - 1] = context;

	return driver_leave(CU_OK);
}

API int cuCtxGetCurrent(struct cu_context **out)
{
	int rc = driver_enter("cuCtxGetCurrent");

	if (rc != CU_OK)
		return rc;
	if (!out)
		return driver_leave(CU_INVALID_VALUE);

	*out = driver_current();
	return driver_leave(CU_OK);
}

API int cuCtxPushCurrent_v2(struct cu_context *context)
{
	int rc = driver_enter("cuCtxPushCurrent");

	if (rc != CU_OK)
		return rc;
	if (!driver_context_is_valid(context) || driver_stack.count == DRIVER_STACK_MAX)
		return driver_leave(CU_INVALID_CONTEXT);

	driver_stack.context[driver_stack.count++] = context;
	return driver_leave(CU_OK);
}

API int cuCtxPopCurrent_v2(struct cu_context **out)
{
	int rc = driver_enter("cuCtxPopCurrent");

	if (rc != CU_OK)
		return rc;
	if (!driver_current())
		return driver_leave(CU_INVALID_CONTEXT);
	if (out)
		*out = driver_current();
	driver_stack.count--;

	return driver_leave(CU_OK);
}
