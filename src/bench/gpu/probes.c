/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/gpu/probes.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "bench/gpu/kernel.h"
#include "bench/stats.h"

enum {
	PROBES_NAME_MAX = 96,
	PROBES_BLOCKS = 100,
	PROBES_BLOCK = 1000,
	PROBES_VISIBLE = 1000,
	PROBES_MAPPED = 2, /* CU_MEMHOSTALLOC_DEVICEMAP */
	PROBES_PAGE = 4096,
	PROBES_WAIT_MAX = 100000000, /* looks at a word that never comes */
};

/* nvmlMemory_t. Source: nvml.h. */
struct probes_memory {
	unsigned long long total, free, used;
};

struct probes_session {
	struct driver driver;
	struct probes *out;
	struct kernels kernels;
	struct cuda_context *context;
	struct cuda_stream *stream;
	struct cuda_event *event;
	void *host;
	uint64_t host_address;
	int (*write)(struct cuda_stream *stream, uint64_t address, uint32_t value, unsigned flags);
	void *nvml, *nvml_device;
	int (*memory)(void *device, struct probes_memory *out);
};

/* A function's address in a pointer to data: POSIX has dlsym() so. */
static void probes_symbol(void *library, const char *name, void *out)
{
	void *found = library ? dlsym(library, name) : NULL;
	memcpy(out, &found, sizeof(found));
}

/* --- pointers --------------------------------------------------------------------------------- */

static bool probes_is_exported(void *library, const char *name, const void *pointer)
{
	static const char *const forms[] = {"",	     "_v2",	 "_v3",	     "_v4",	"_ptsz",
					    "_ptds", "_v2_ptsz", "_v2_ptds", "_v3_ptsz"};

	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		char full[PROBES_NAME_MAX];
		(void)snprintf(full, sizeof(full), "%s%s", name, forms[i]);
		if (dlsym(library, full) == pointer)
			return true;
	}

	return false;
}

static void probes_pointers(struct probes_session *self)
{
	static const char *const names[] = {
#define DRIVER_CALL(name, export, is_needed, parameters) #name,
#include "bench/gpu/driver.def"
	};
	static const int versions[] = {11000, 12000, 13000};
	struct probes *out = self->out;

	out->has_procaddress = self->driver.call.cuGetProcAddress != NULL;
	for (size_t n = 0; out->has_procaddress && n < sizeof(names) / sizeof(names[0]); n++) {
		for (unsigned flags = 0; flags < 3; flags++) {
			for (size_t v = 0; v < sizeof(versions) / sizeof(versions[0]); v++) {
				void *found = NULL;
				int status;

				out->asked++;
				if (self->driver.call.cuGetProcAddress(
					names[n], &found, versions[v], flags, &status) != CUDA_OK ||
				    !found)
					continue;

				out->given++;
				if (probes_is_exported(self->driver.library, names[n], found))
					continue;
				if (out->odd_count < PROBES_ODD_MAX)
					out->odd[out->odd_count] =
					    (struct probes_odd){names[n], versions[v], flags};

				out->odd_count++;
			}
		}
	}
}

/* --- stamps ----------------------------------------------------------------------------------- */

static int probes_events(struct probes_session *self)
{
	const struct driver_calls *call = &self->driver.call;
	double each[PROBES_BLOCKS];
	int rc = CUDA_OK;

	for (size_t i = 0; i < PROBES_BLOCKS && rc == CUDA_OK; i++) {
		uint64_t start = driver_now_ns(&self->driver);

		for (int n = 0; n < PROBES_BLOCK && rc == CUDA_OK; n++) {
			rc = call->cuEventRecord(self->event, self->stream);
			int said = call->cuEventQuery(self->event);
			if (rc == CUDA_OK && said != CUDA_NOT_READY)
				rc = said;
		}

		each[i] = (double)(driver_now_ns(&self->driver) - start) / PROBES_BLOCK;
		if (rc == CUDA_OK)
			rc = call->cuStreamSynchronize(self->stream);
	}

	self->out->event_ns = stats_median(each, PROBES_BLOCKS);
	return rc;
}

static int probes_writes(struct probes_session *self)
{
	double call_ns[PROBES_VISIBLE], visible_ns[PROBES_VISIBLE];
	const struct driver_calls *call = &self->driver.call;
	const volatile uint32_t *word;

	probes_symbol(self->driver.library, "cuStreamWriteValue32_v2", &self->write);
	if (!self->write)
		probes_symbol(self->driver.library, "cuStreamWriteValue32", &self->write);
	if (!self->write)
		return CUDA_OK;

	int rc = call->cuMemHostAlloc(&self->host, PROBES_PAGE, PROBES_MAPPED);
	if (rc == CUDA_OK)
		rc = call->cuMemHostGetDevicePointer(&self->host_address, self->host, 0);
	word = self->host;

	for (uint32_t i = 0; i < PROBES_VISIBLE && rc == CUDA_OK; i++) {
		uint64_t start = driver_now_ns(&self->driver);

		rc = self->write(self->stream, self->host_address, i + 1, 0);
		call_ns[i] = (double)(driver_now_ns(&self->driver) - start);
		if (rc == CUDA_OK && self->driver.is_simulated)
			rc = call->cuStreamSynchronize(self->stream); /* moves its clock */

		for (uint32_t looks = 0; rc == CUDA_OK && *word != i + 1; looks++)
			if (looks > PROBES_WAIT_MAX)
				return CUDA_NOT_READY;

		visible_ns[i] = (double)(driver_now_ns(&self->driver) - start);
	}

	if (rc == CUDA_NOT_SUPPORTED)
		return CUDA_OK; /* of this GPU: has_write stays false */

	self->out->has_write = rc == CUDA_OK;
	self->out->write_ns = stats_median(call_ns, PROBES_VISIBLE);
	self->out->visible_ns = stats_median(visible_ns, PROBES_VISIBLE);

	return rc;
}

/* --- memory ----------------------------------------------------------------------------------- */

static void probes_nvml_open(struct probes_session *self)
{
	int (*init)(void);
	int (*find)(const char *uuid, void **device);

	self->nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
	probes_symbol(self->nvml, "nvmlInit_v2", &init);
	probes_symbol(self->nvml, "nvmlDeviceGetHandleByUUID", &find);
	probes_symbol(self->nvml, "nvmlDeviceGetMemoryInfo", &self->memory);
	self->out->has_used = init && find && self->memory && init() == 0 &&
			      find(self->out->device.uuid, &self->nvml_device) == 0;
}

static void probes_used(struct probes_session *self, int step)
{
	struct probes_memory memory;
	if (!self->out->has_used)
		return;
	self->out->has_used = self->memory(self->nvml_device, &memory) == 0;
	self->out->used[step] = self->out->has_used ? memory.used : 0;
}

/* --- all -------------------------------------------------------------------------------------- */

static int probes_said(struct probes_session *self, int rc, struct err *err, const char *what)
{
	return rc == CUDA_OK ? 0
			     : driver_fail(&self->driver, rc, err, "GPU %u (%s): %s",
					   self->out->device.ordinal, self->out->device.uuid, what);
}

static int probes_first_launch(struct probes_session *self, struct err *err)
{
	const struct driver_calls *call = &self->driver.call;
	struct cuda_function *function = NULL;
	int rc = probes_said(self, call->cuStreamCreate(&self->stream, 1), err, "making a stream");
	if (rc == 0)
		rc =
		    probes_said(self, call->cuEventCreate(&self->event, 0), err, "making an event");

	if (rc == 0)
		rc = kernels_find(&self->driver, &self->kernels, "sl_nop", &function, err);

	if (rc == 0)
		rc = probes_said(
		    self,
		    call->cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, self->stream, NULL, NULL),
		    err, "cuLaunchKernel");

	return rc == 0 ? probes_said(self, call->cuStreamSynchronize(self->stream), err,
				     "cuStreamSynchronize")
		       : rc;
}

static int probes_all(struct probes_session *self, struct err *err)
{
	const struct driver_calls *call = &self->driver.call;
	const struct driver_device *device = &self->out->device;

	probes_pointers(self);
	probes_nvml_open(self);
	probes_used(self, 0);

	int rc = probes_said(self, call->cuDevicePrimaryCtxRetain(&self->context, device->device),
			     err, "making a context");
	if (rc < 0)
		return rc;

	rc = probes_said(self, call->cuCtxSetCurrent(self->context), err, "cuCtxSetCurrent");
	probes_used(self, 1);
	if (rc == 0)
		rc = kernels_load(&self->driver, device, NULL, 0, &self->kernels, err);
	probes_used(self, 2);

	if (rc == 0)
		rc = probes_first_launch(self, err);
	probes_used(self, 3);
	if (rc == 0)
		rc = probes_said(self, probes_events(self), err, "cuEventRecord, cuEventQuery");
	if (rc == 0)
		rc = probes_said(self, probes_writes(self), err, "cuStreamWriteValue32");

	return rc;
}

static void probes_close(struct probes_session *self)
{
	const struct driver_calls *call = &self->driver.call;

	/* Nothing can be done about what fails on the way out. */
	if (self->host)
		(void)call->cuMemFreeHost(self->host);
	if (self->event)
		(void)call->cuEventDestroy(self->event);
	if (self->stream)
		(void)call->cuStreamDestroy(self->stream);
	if (self->kernels.module)
		kernels_unload(&self->driver, &self->kernels);

	if (self->context)
		(void)call->cuDevicePrimaryCtxRelease(self->out->device.device);
	if (self->nvml)
		(void)dlclose(self->nvml);
	driver_close(&self->driver);
}

int probes_run(const char *library, const char *device, struct probes *out, struct err *err)
{
	struct probes_session self = {.out = out};

	*out = (struct probes){0};
	int rc = driver_open(library, DRIVER_BY_DLSYM, &self.driver, err);
	if (rc < 0)
		return rc;

	out->is_simulated = self.driver.is_simulated;
	out->driver_version = self.driver.version;
	rc = driver_find_device(&self.driver, device ? device : "0", &out->device, err);
	if (rc == 0)
		rc = probes_all(&self, err);
	probes_close(&self);

	return rc;
}
