/* SPDX-License-Identifier: Apache-2.0 */
#include "validate/gpu/gputest.h"

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/parse.h"
#include "base/text.h"
#include "hardware/pci.h"

enum {
	GPUTEST_HOST_PORTABLE = 1, /* CU_MEMHOSTALLOC_PORTABLE */
	GPUTEST_HOST_MAPPED = 2,   /* CU_MEMHOSTALLOC_DEVICEMAP */
	GPUTEST_BLOCKS_PER_SM = 4,
};

static int gputest_make(struct gputest *test, struct err *err)
{
	const struct driver_calls *call = &test->driver->call;
	const char *uuid = test->device->uuid, *what = "cuStreamCreate";
	/* Not CU_STREAM_NON_BLOCKING: what copies from pageable memory and what sets memory uses
	 * the default stream, and may be under way when the call returns. */
	int rc = call->cuStreamCreate(&test->streams[0], 0);
	if (rc == CUDA_OK)
		rc = call->cuStreamCreate(&test->streams[1], 0);

	if (rc == CUDA_OK) {
		what = "cuEventCreate";
		rc = call->cuEventCreate(&test->start, 0);
	}

	if (rc == CUDA_OK)
		rc = call->cuEventCreate(&test->end, 0);
	if (rc == CUDA_OK)
		rc = call->cuEventCreate(&test->meanwhile, 0);

	if (rc == CUDA_OK) {
		void *flag = NULL;
		what = "cuMemHostAlloc";
		rc = call->cuMemHostAlloc(&flag, 2 * sizeof(*test->flag),
					  GPUTEST_HOST_PORTABLE | GPUTEST_HOST_MAPPED);
		test->flag = flag;
	}

	if (rc == CUDA_OK)
		rc = call->cuMemHostGetDevicePointer(&test->flag_device, test->flag, 0);

	return rc == CUDA_OK ? 0 : driver_fail(test->driver, rc, err, "%s on %s", what, uuid);
}

/* A driver may load a kernel when it is launched first (CUDA_MODULE_LOADING=LAZY, its default), and
 * wait for all that runs before: behind a hold that would be until the hold's limit. */
static int gputest_warm(struct gputest *test, struct err *err)
{
	int rc = gputest_copy(test, 0, test->flag_device, test->flag_device, 0, err);
	if (rc < 0)
		return rc;
	int said = test->driver->call.cuStreamSynchronize(test->streams[0]);
	return said == CUDA_OK ? 0
			       : driver_fail(test->driver, said, err, "a first kernel on %s",
					     test->device->uuid);
}

int gputest_open(const struct driver *driver, const struct driver_device *device,
		 struct gputest *out, struct err *err)
{
	*out = (struct gputest){.driver = driver, .device = device};
	int rc = driver->call.cuDevicePrimaryCtxRetain(&out->context, device->device);
	if (rc != CUDA_OK) {
		out->context = NULL;
		return driver_fail(driver, rc, err, "making a context on %s (%s)", device->uuid,
				   device->name);
	}

	rc = gputest_use(out, err);
	if (rc == 0)
		rc = kernels_load(driver, device, NULL, 0, &out->kernels, err);
	out->has_kernels = rc == 0;

	if (rc == 0)
		rc = kernels_find(driver, &out->kernels, "sl_hold", &out->hold, err);
	if (rc == 0)
		rc = kernels_find(driver, &out->kernels, "sl_copy", &out->copy, err);
	if (rc == 0)
		rc = kernels_find(driver, &out->kernels, "sl_compare", &out->compare, err);
	if (rc == 0)
		rc = gputest_make(out, err);

	if (rc == 0)
		rc = gputest_warm(out, err);
	if (rc < 0)
		gputest_close(out);

	return rc;
}

void gputest_close(struct gputest *test)
{
	if (!test->context)
		return;

	/* What fails here cannot be helped: the process ends soon. */
	const struct driver_calls *call = &test->driver->call;
	(void)call->cuCtxSetCurrent(test->context);
	if (test->flag)
		(void)call->cuMemFreeHost(test->flag);
	if (test->start)
		(void)call->cuEventDestroy(test->start);

	if (test->end)
		(void)call->cuEventDestroy(test->end);
	if (test->meanwhile)
		(void)call->cuEventDestroy(test->meanwhile);

	for (unsigned i = 0; i < 2; i++)
		if (test->streams[i])
			(void)call->cuStreamDestroy(test->streams[i]);

	if (test->has_kernels)
		kernels_unload(test->driver, &test->kernels);
	(void)call->cuDevicePrimaryCtxRelease(test->device->device);
	*test = (struct gputest){.driver = NULL};
}

int gputest_use(const struct gputest *test, struct err *err)
{
	int rc = test->driver->call.cuCtxSetCurrent(test->context);
	return rc == CUDA_OK ? 0
			     : driver_fail(test->driver, rc, err, "cuCtxSetCurrent for %s",
					   test->device->uuid);
}

/* --- timing ----------------------------------------------------------------------------------- */

int gputest_launch(struct gputest *test, struct cuda_function *function, unsigned grid,
		   unsigned block, unsigned stream, void **parameters, struct err *err)
{
	int rc = test->driver->call.cuLaunchKernel(function, grid, 1, 1, block, 1, 1, 0,
						   test->streams[stream], parameters, NULL);
	return rc == CUDA_OK ? 0
			     : driver_fail(test->driver, rc, err,
					   "cuLaunchKernel (%u blocks of %u threads) on %s", grid,
					   block, test->device->uuid);
}

int gputest_begin(struct gputest *test, bool has_second, struct err *err)
{
	const struct driver_calls *call = &test->driver->call;
	uint64_t limit_ns = GPUTEST_HOLD_NS, flag = test->flag_device;
	uint64_t result_at = test->flag_device + sizeof(*test->flag);
	void *parameters[] = {&flag, &limit_ns, &result_at};

	__atomic_store_n(&test->flag[0], 0, __ATOMIC_SEQ_CST);
	__atomic_store_n(&test->flag[1], 0, __ATOMIC_SEQ_CST);

	int failed = gputest_launch(test, test->hold, 1, 1, 0, parameters, err);
	if (failed < 0)
		return failed;

	int rc = call->cuEventRecord(test->start, test->streams[0]);
	if (rc == CUDA_OK && has_second)
		rc = call->cuStreamWaitEvent(test->streams[1], test->start, 0);

	return rc == CUDA_OK
		   ? 0
		   : driver_fail(test->driver, rc, err, "cuEventRecord on %s", test->device->uuid);
}

int gputest_end(struct gputest *test, bool has_second, double *out_seconds, bool *out_held,
		struct err *err)
{
	const struct driver_calls *call = &test->driver->call;
	const char *what = "cuEventRecord";
	float milliseconds = 0;
	int rc = CUDA_OK;

	if (has_second)
		rc = call->cuEventRecord(test->meanwhile, test->streams[1]);
	if (rc == CUDA_OK && has_second)
		rc = call->cuStreamWaitEvent(test->streams[0], test->meanwhile, 0);
	if (rc == CUDA_OK)
		rc = call->cuEventRecord(test->end, test->streams[0]);
	__atomic_store_n(&test->flag[0], 1, __ATOMIC_SEQ_CST); /* whatever happened */

	if (rc == CUDA_OK) {
		what = "waiting for the GPU";
		rc = call->cuEventSynchronize(test->end);
	}

	if (rc == CUDA_OK)
		rc = call->cuEventElapsedTime(&milliseconds, test->start, test->end);
	if (rc != CUDA_OK)
		return driver_fail(test->driver, rc, err, "%s on %s", what, test->device->uuid);
	if (out_held)
		*out_held = __atomic_load_n(&test->flag[1], __ATOMIC_SEQ_CST) == 1;
	*out_seconds = (double)milliseconds / 1e3;

	return 0;
}

int gputest_copy(struct gputest *test, unsigned stream, uint64_t to, uint64_t from, uint64_t bytes,
		 struct err *err)
{
	uint64_t count = bytes / 16;
	void *parameters[] = {&to, &from, &count};
	unsigned grid = (unsigned)test->device->sm_count * GPUTEST_BLOCKS_PER_SM;
	uint64_t needed = (count + GPUTEST_BLOCK - 1) / GPUTEST_BLOCK;
	if (needed < grid)
		grid = (unsigned)needed;

	return gputest_launch(test, test->copy, grid > 0 ? grid : 1, GPUTEST_BLOCK, stream,
			      parameters, err);
}

/* --- data ------------------------------------------------------------------------------------- */

uint32_t gputest_word(uint64_t seed, uint64_t place)
{
	uint64_t x = seed * UINT64_C(0x9e3779b97f4a7c15) + place; /* splitmix64's finaliser */
	x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
	return (uint32_t)(x >> 32);
}

void gputest_fill(uint32_t *words, size_t count, uint64_t seed)
{
	for (size_t i = 0; i < count; i++)
		words[i] = gputest_word(seed, i);
}

size_t gputest_verify(const uint32_t *words, size_t count, uint64_t seed)
{
	size_t i = 0;
	while (i < count && words[i] == gputest_word(seed, i))
		i++;
	return i;
}

static int gputest_order(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

double gputest_median(double *samples, size_t count)
{
	qsort(samples, count, sizeof(*samples), gputest_order);
	return count % 2 ? samples[count / 2] : (samples[count / 2 - 1] + samples[count / 2]) / 2;
}

int gputest_fit(const struct gputest *test, uint64_t wanted, uint64_t *out, struct err *err)
{
	size_t free_bytes = 0, total_bytes = 0;
	int rc = test->driver->call.cuMemGetInfo(&free_bytes, &total_bytes);
	if (rc != CUDA_OK)
		return driver_fail(test->driver, rc, err, "cuMemGetInfo on %s", test->device->uuid);

	uint64_t bytes = wanted < free_bytes / 4 ? wanted : free_bytes / 4;
	bytes -= bytes % GPUTEST_MIN_BYTES;
	if (bytes == 0)
		return err_set(err, -ENOMEM,
			       "%s: %zu of %zu bytes of memory are free, too few to measure: "
			       "who uses it? (sluice processes)",
			       test->device->uuid, free_bytes, total_bytes);

	*out = bytes;
	return 0;
}

/* --- errors ----------------------------------------------------------------------------------- */

int gputest_result_of(const char *text)
{
	static const char prefix[] = "CUDA_ERROR_";
	const char *at = strstr(text, prefix);
	uint64_t number;

	if (!at)
		return 0;

	at += strcspn(at, " (");
	at += strspn(at, " ");
	if (*at != '(' || parse_u64_span(at + 1, strcspn(at + 1, ")"), 1, 9999, &number) < 0)
		return 0;

	return (int)number;
}

void gputest_failed(struct check *check, const struct err *err)
{
	check->status = CHECK_FAIL;
	gputest_explain(check, err->text);
}

void gputest_explain(struct check *check, const char *text)
{
	const char *hint = driver_hint(gputest_result_of(text));
	const char *at = hint ? strstr(text, hint) : NULL;
	size_t length = strlen(text);

	if (at && at - text > 2 && text_starts_with(at - 2, "; "))
		length = (size_t)(at - text) - 2;
	(void)snprintf(check->reason, sizeof(check->reason), "%.*s", (int)length, text);
	if (hint)
		(void)snprintf(check->hint, sizeof(check->hint), "%s", hint);
}

void gputest_say_simulated(struct check *check, const struct driver *driver)
{
	size_t length = strlen(check->reason);
	if (driver->is_simulated && check->has_value)
		(void)snprintf(check->reason + length, sizeof(check->reason) - length,
			       "%ssimulated", length > 0 ? "; " : "");
}

/* --- processors ------------------------------------------------------------------------------- */

/* "0-3,8" into a set; how many. */
static unsigned gputest_cpus(const char *list, cpu_set_t *out)
{
	CPU_ZERO(out);

	while (*list) {
		size_t length = strcspn(list, ",");
		size_t dash = strcspn(list, "-,");
		uint64_t first, last;

		if (parse_u64_span(list, dash, 0, CPU_SETSIZE - 1, &first) < 0)
			break;

		last = first;
		if (dash < length && parse_u64_span(list + dash + 1, length - dash - 1, first,
						    CPU_SETSIZE - 1, &last) < 0)
			break;

		for (uint64_t i = first; i <= last; i++)
			CPU_SET(i, out);

		list += length + (list[length] == ',');
	}

	return (unsigned)CPU_COUNT(out);
}

bool gputest_pin(const struct driver_device *device, const char *root, char out[GPUTEST_PIN_MAX])
{
	struct pci_address address;
	struct pci_device pci;
	cpu_set_t near_set, allowed, both;

	if (pci_parse_address(device->bus_id, strlen(device->bus_id), &address) < 0 ||
	    pci_read_device(root, &address, &pci, NULL) < 0 || pci.cpulist[0] == '\0' ||
	    gputest_cpus(pci.cpulist, &near_set) == 0) {
		(void)snprintf(out, GPUTEST_PIN_MAX,
			       "not bound: sysfs does not say which processors are near");
		return false;
	}

	if (sched_getaffinity(0, sizeof(allowed), &allowed) < 0)
		CPU_ZERO(&allowed);
	CPU_AND(&both, &near_set, &allowed);

	if (CPU_COUNT(&both) == 0 || sched_setaffinity(0, sizeof(both), &both) < 0) {
		(void)snprintf(out, GPUTEST_PIN_MAX,
			       "not bound: processors %.40s are near, and not ours to use",
			       pci.cpulist);
		return false;
	}

	(void)snprintf(out, GPUTEST_PIN_MAX, "bound to processors %.40s of NUMA node %" PRId32,
		       pci.cpulist, pci.numa_node);
	return true;
}
