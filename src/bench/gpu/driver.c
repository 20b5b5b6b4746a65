/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/gpu/driver.h"

#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/parse.h"
#include "base/text.h"

enum {
	DRIVER_ASKED_VERSION = 12000, /* of each call that cuGetProcAddress is asked for: all that
					 we use have had their present form since */
	DRIVER_WHAT_MAX = 320,
	DRIVER_PREFIX_MIN = 4, /* of a UUID */
	DRIVER_UUID_GROUPS = 5,
	DRIVER_LIST_MAX = 360, /* of the GPUs there are, in a message */
};

/* --- opening ---------------------------------------------------------------------------------- */

static const struct driver_row {
	const char *name, *export;
	bool is_needed;
	size_t offset;
} driver_rows[] = {
#define DRIVER_CALL(name, export, is_needed, parameters)                                           \
	{#name, #export, is_needed, offsetof(struct driver_calls, name)},
#include "bench/gpu/driver.def"
};

/* Finds one call by the way that was chosen. NULL: it is not there. */
static void *driver_symbol(const struct driver *driver, const struct driver_row *row)
{
	void *found = NULL;
	int status;
	/* What finds the others, and the simulated clock, are only exported. */
	bool is_exported_only =
	    strcmp(row->name, "cuGetProcAddress") == 0 || text_starts_with(row->name, "sim");
	if (driver->resolve == DRIVER_BY_GETPROCADDRESS && !is_exported_only) {
		int rc = driver->call.cuGetProcAddress(row->name, &found, DRIVER_ASKED_VERSION, 0,
						       &status);
		return rc == CUDA_OK ? found : NULL;
	}

	return dlsym(driver->library, row->export);
}

static int driver_resolve_all(struct driver *driver, struct err *err)
{
	if (driver->resolve == DRIVER_BY_GETPROCADDRESS) {
		void *found = dlsym(driver->library, "cuGetProcAddress_v2");
		if (!found)
			return err_set(err, -ENOSYS,
				       "'%s' has no cuGetProcAddress_v2 (it came with CUDA 12): "
				       "use --resolve=dlsym",
				       driver->path);

		memcpy(&driver->call.cuGetProcAddress, &found, sizeof(found));
	}

	for (size_t i = 0; i < sizeof(driver_rows) / sizeof(driver_rows[0]); i++) {
		const struct driver_row *row = &driver_rows[i];
		void *found = driver_symbol(driver, row);
		if (!found && row->is_needed)
			return err_set(err, -ENOSYS,
				       "'%s' has no %s: is the driver older than CUDA 11.4?",
				       driver->path, row->export);

		/* A function's address in a pointer to data: POSIX has dlsym() so. */
		memcpy((char *)&driver->call + row->offset, &found, sizeof(found));
	}

	driver->is_simulated = driver->call.simCudaNow != NULL;
	return 0;
}

int driver_open(const char *path, enum driver_resolve resolve, struct driver *out, struct err *err)
{
	struct driver driver = {.resolve = resolve};
	int length = snprintf(driver.path, sizeof(driver.path), "%s", path ? path : "libcuda.so.1");
	if (length >= (int)sizeof(driver.path))
		return err_set(err, -ENAMETOOLONG, "'%.60s...': too long a path", path);

	driver.library = dlopen(driver.path, RTLD_NOW | RTLD_LOCAL);
	if (!driver.library) {
		const char *said = dlerror();
		return err_set(err, -ENOENT,
			       "cannot load '%s': %s (is the NVIDIA driver installed, and its "
			       "library in this container?)",
			       driver.path, said ? said : "no reason given");
	}

	int rc = driver_resolve_all(&driver, err);
	if (rc == 0) {
		driver.is_initialised = true;
		int said = driver.call.cuInit(0);
		if (said == CUDA_OK)
			said = driver.call.cuDriverGetVersion(&driver.version);
		if (said != CUDA_OK) {
			(void)driver_fail(&driver, said, err, "'%s': cuInit", driver.path);
			rc = -ENODEV;
		}
	}

	if (rc < 0) {
		driver_close(&driver);
		return rc;
	}

	*out = driver;
	return 0;
}

void driver_close(struct driver *driver)
{
	if (!driver)
		return;
	/* A real driver's threads may still run in it: it stays loaded. */
	if (driver->library && (driver->is_simulated || !driver->is_initialised))
		(void)dlclose(driver->library); /* nothing can be done about it */
	*driver = (struct driver){0};
}

/* --- errors ----------------------------------------------------------------------------------- */

/* Sources: users' threads (https://github.com/NVIDIA/gpu-operator/issues/1043, /253, /375, /545,
 * /1146, /1848, /1947) for 802 and 3; the CUDA driver API's own words for the others. */
static const struct driver_hint_row {
	int result;
	const char *hint;
} driver_hints[] = {
    {CUDA_OUT_OF_MEMORY, "another program may hold the memory: sluice processes lists them"},
    {CUDA_NOT_INITIALIZED,
     "does the flavour of the kernel module (open or proprietary) fit the GPU? Look for "
     "'RmInitAdapter failed' in dmesg"},
    {CUDA_DEVICE_UNAVAILABLE,
     "is the GPU in exclusive mode and in use, or does a MPS server run for somebody else?"},
    {CUDA_NO_DEVICE,
     "are the device nodes or their cgroup rule missing, is CUDA_VISIBLE_DEVICES wrong, or are "
     "all GPUs lost?"},
    {CUDA_NO_BINARY_FOR_GPU, "the driver does not compile this PTX text for this GPU"},
    {CUDA_UNSUPPORTED_PTX_VERSION, "the driver is older than the PTX text: update it"},
    {CUDA_SYSTEM_NOT_READY,
     "on a machine with NVSwitch: is nvidia-fabricmanager running, in the driver's version?"},
    {CUDA_SYSTEM_DRIVER_MISMATCH,
     "libcuda (of the container?) and the kernel module are of different versions"},
    {CUDA_COMPAT_NOT_SUPPORTED_ON_DEVICE,
     "a forward-compatibility libcuda only works on GPUs for data centres: remove it from the "
     "path"},
    {CUDA_ECC_UNCORRECTABLE, "the GPU has lost data: sluice health says more; reset or replace it"},
};

const char *driver_hint(int result)
{
	for (size_t i = 0; i < sizeof(driver_hints) / sizeof(driver_hints[0]); i++)
		if (driver_hints[i].result == result)
			return driver_hints[i].hint;
	return NULL;
}

static int driver_errno(int rc)
{
	switch (rc) {
	case CUDA_OUT_OF_MEMORY:
		return -ENOMEM;
	case CUDA_NOT_INITIALIZED:
	case CUDA_DEVICE_UNAVAILABLE:
	case CUDA_NO_DEVICE:
	case CUDA_SYSTEM_NOT_READY:
	case CUDA_SYSTEM_DRIVER_MISMATCH:
	case CUDA_COMPAT_NOT_SUPPORTED_ON_DEVICE:
		return -ENODEV;
	default:
		return -EIO;
	}
}

int driver_fail(const struct driver *driver, int result, struct err *err, const char *what, ...)
{
	char text[DRIVER_WHAT_MAX];
	const char *name = NULL, *said = NULL, *hint = driver_hint(result);
	va_list arguments;

	va_start(arguments, what);
	(void)vsnprintf(text, sizeof(text), what, arguments); /* cut */
	va_end(arguments);

	if (driver->call.cuGetErrorName)
		(void)driver->call.cuGetErrorName(result, &name); /* leaves NULL if unknown */
	if (driver->call.cuGetErrorString)
		(void)driver->call.cuGetErrorString(result, &said);

	return err_set(err, driver_errno(result), "%s: %s (%d)%s%s%s%s", text,
		       name ? name : "CUDA error", result, said ? ": " : "", said ? said : "",
		       hint ? "; " : "", hint ? hint : "");
}

/* --- devices ---------------------------------------------------------------------------------- */

/* `is_mig`: CUDA gives the UUID of the MIG device, and only its name says that it is one. */
static void driver_uuid_text(const struct cuda_uuid *uuid, bool is_mig, char out[DRIVER_UUID_MAX])
{
	static const unsigned char groups[DRIVER_UUID_GROUPS] = {4, 2, 2, 2, 6};
	size_t at = (size_t)snprintf(out, DRIVER_UUID_MAX, is_mig ? "MIG" : "GPU");
	const unsigned char *byte = uuid->bytes;

	for (size_t g = 0; g < DRIVER_UUID_GROUPS; g++) {
		out[at++] = '-';
		for (unsigned char i = 0; i < groups[g]; i++)
			at += (size_t)snprintf(out + at, DRIVER_UUID_MAX - at, "%02x", *byte++);
	}
}

static int driver_describe(const struct driver *driver, uint32_t ordinal, struct driver_device *out,
			   struct err *err)
{
	const struct driver_calls *call = &driver->call;
	struct driver_device device = {.ordinal = ordinal, .is_simulated = driver->is_simulated};
	struct cuda_uuid uuid = {0};
	size_t bytes = 0;
	int rc = call->cuDeviceGet(&device.device, (int)ordinal);
	if (rc == CUDA_OK)
		rc = call->cuDeviceGetName(device.name, sizeof(device.name), device.device);

	if (rc == CUDA_OK)
		rc = call->cuDeviceGetUuid(&uuid, device.device);
	if (rc == CUDA_OK)
		rc = call->cuDeviceGetPCIBusId(device.bus_id, sizeof(device.bus_id), device.device);
	if (rc == CUDA_OK)
		rc = call->cuDeviceGetAttribute(&device.cc_major, CUDA_ATTRIBUTE_CC_MAJOR,
						device.device);
	if (rc == CUDA_OK)
		rc = call->cuDeviceGetAttribute(&device.cc_minor, CUDA_ATTRIBUTE_CC_MINOR,
						device.device);

	if (rc == CUDA_OK)
		rc = call->cuDeviceGetAttribute(&device.sm_count, CUDA_ATTRIBUTE_SM_COUNT,
						device.device);
	if (rc == CUDA_OK)
		rc = call->cuDeviceTotalMem(&bytes, device.device);
	if (rc != CUDA_OK)
		return driver_fail(driver, rc, err, "reading GPU %u", ordinal);

	device.name[sizeof(device.name) - 1] = '\0';
	device.bus_id[sizeof(device.bus_id) - 1] = '\0';
	device.memory_bytes = bytes;
	driver_uuid_text(&uuid, strstr(device.name, " MIG ") != NULL, device.uuid);
	*out = device;

	return 0;
}

int driver_devices(const struct driver *driver, struct driver_device out[DRIVER_DEVICES_MAX],
		   uint32_t *out_count, struct err *err)
{
	int count = 0;
	int rc = driver->call.cuDeviceGetCount(&count);
	if (rc == CUDA_OK && count <= 0)
		rc = CUDA_NO_DEVICE;
	if (rc != CUDA_OK)
		return driver_fail(driver, rc, err, "'%s': counting GPUs", driver->path);

	if (count > DRIVER_DEVICES_MAX)
		return err_set(err, -E2BIG, "%d GPUs: more than %d", count, DRIVER_DEVICES_MAX);

	for (int i = 0; i < count; i++) {
		rc = driver_describe(driver, (uint32_t)i, &out[i], err);
		if (rc < 0)
			return rc;
	}

	*out_count = (uint32_t)count;
	return 0;
}

/* Whether `name` is the beginning of the UUID, with or without "GPU-" or "MIG-". */
static bool driver_uuid_begins(const char *uuid, const char *name)
{
	size_t length = strlen(name);
	bool is_whole = strncasecmp(name, "GPU-", 4) == 0 || strncasecmp(name, "MIG-", 4) == 0;
	size_t digits = is_whole ? length - 4 : length;
	return digits >= DRIVER_PREFIX_MIN &&
	       strncasecmp(is_whole ? uuid : uuid + 4, name, length) == 0;
}

int driver_find_device(const struct driver *driver, const char *name, struct driver_device *out,
		       struct err *err)
{
	struct driver_device devices[DRIVER_DEVICES_MAX];
	char list[DRIVER_LIST_MAX] = "";
	uint32_t count = 0, matches = 0, match = 0;
	uint64_t number;
	int rc = driver_devices(driver, devices, &count, err);
	if (rc < 0)
		return rc;

	if (parse_u64(name, 0, DRIVER_DEVICES_MAX, &number) == 0 && number < count) {
		*out = devices[number];
		return 0;
	}

	size_t at = 0;

	for (uint32_t i = 0; i < count; i++) {
		if (driver_uuid_begins(devices[i].uuid, name)) {
			matches++;
			match = i;
		}

		if (at < sizeof(list))
			at += (size_t)snprintf(list + at, sizeof(list) - at, "%s%u %s",
					       i == 0 ? "" : ", ", i, devices[i].uuid);
	}

	if (matches != 1)
		return err_set(err, -ENODEV, "%s GPU '%.60s' (there are: %s)",
			       matches == 0 ? "no" : "more than one", name, list);

	*out = devices[match];
	return 0;
}

/* --- time ------------------------------------------------------------------------------------- */

uint64_t driver_now_ns(const struct driver *driver)
{
	uint64_t now = 0;
	if (driver->call.simCudaNow && driver->call.simCudaNow(&now) == CUDA_OK)
		return now;
	return clock_real_ns();
}

void driver_wait_until(const struct driver *driver, uint64_t ns)
{
	if (driver->call.simCudaWaitUntil && driver->call.simCudaWaitUntil(ns) == CUDA_OK)
		return;
	struct timespec until = {.tv_sec = (time_t)(ns / CLOCK_NS_PER_S),
				 .tv_nsec = (long)(ns % CLOCK_NS_PER_S)};
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
		;
}
