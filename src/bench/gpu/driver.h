/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver library libcuda.so.1, opened when it is asked for: its calls, errors that say what to
 * do next, and a clock, which is the simulated driver's own where that is the driver. Used by the
 * GPU load, the checks of GPUs and NCCL. Addresses of a GPU's memory (CUdeviceptr) are uint64_t.
 * Knows nothing of kernels.
 */
#ifndef SLUICE_BENCH_GPU_DRIVER_H
#define SLUICE_BENCH_GPU_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct cuda_context;
struct cuda_event;
struct cuda_function;
struct cuda_graph;
struct cuda_graph_exec;
struct cuda_module;
struct cuda_stream;

struct cuda_uuid {
	unsigned char bytes[16];
};

enum cuda_result { /* of CUresult, what is spoken of */
		   CUDA_OK = 0,
		   CUDA_INVALID_VALUE = 1,
		   CUDA_OUT_OF_MEMORY = 2,
		   CUDA_NOT_INITIALIZED = 3,
		   CUDA_DEVICE_UNAVAILABLE = 46,
		   CUDA_NO_DEVICE = 100,
		   CUDA_INVALID_DEVICE = 101,
		   CUDA_INVALID_IMAGE = 200,
		   CUDA_NO_BINARY_FOR_GPU = 209,
		   CUDA_ECC_UNCORRECTABLE = 214,
		   CUDA_INVALID_PTX = 218,
		   CUDA_UNSUPPORTED_PTX_VERSION = 222,
		   CUDA_NOT_FOUND = 500,
		   CUDA_NOT_READY = 600,
		   CUDA_ILLEGAL_ADDRESS = 700,
		   CUDA_PEER_ACCESS_ALREADY_ENABLED = 704,
		   CUDA_LAUNCH_FAILED = 719,
		   CUDA_NOT_SUPPORTED = 801,
		   CUDA_SYSTEM_NOT_READY = 802,
		   CUDA_SYSTEM_DRIVER_MISMATCH = 803,
		   CUDA_COMPAT_NOT_SUPPORTED_ON_DEVICE = 804,
		   CUDA_UNKNOWN = 999,
};

enum cuda_attribute { /* of CUdevice_attribute, what is asked for */
		      CUDA_ATTRIBUTE_SM_COUNT = 16,
		      CUDA_ATTRIBUTE_CLOCK_KHZ = 13,
		      CUDA_ATTRIBUTE_ASYNC_ENGINES = 40,
		      CUDA_ATTRIBUTE_CC_MAJOR = 75,
		      CUDA_ATTRIBUTE_CC_MINOR = 76,
};

enum driver_resolve { DRIVER_BY_DLSYM, DRIVER_BY_GETPROCADDRESS };

enum driver_limits {
	DRIVER_PATH_MAX = 512,
	DRIVER_NAME_MAX = 96,
	DRIVER_UUID_MAX = 48,
	DRIVER_DEVICES_MAX = 64
};

/* The calls by their names; NULL where the library has none and it is not needed. */
struct driver_calls {
#define DRIVER_CALL(name, export, is_needed, parameters) int(*name) parameters;
#include "bench/gpu/driver.def"
};

struct driver {
	void *library; /* owned; of dlopen */
	char path[DRIVER_PATH_MAX];
	enum driver_resolve resolve;
	int version;			   /* 13000 is 13.0: of CUDA, as the driver says */
	bool is_simulated, is_initialised; /* cuInit was called */
	struct driver_calls call;
};

/* Opens `path` (NULL: libcuda.so.1), finds the calls, initialises. -ENOENT: no library; -ENOSYS: a
 * call that is needed is not in it; -ENODEV: cuInit said no. The message has the path, and what
 * cuInit said with its number and a hint. */
int driver_open(const char *path, enum driver_resolve resolve, struct driver *out, struct err *err);
void driver_close(struct driver *driver); /* NULL, or zeroed */

/* Sets `err` from a result that is not CUDA_OK: "WHAT: CUDA_ERROR_OUT_OF_MEMORY (2): out of
 * memory", with a hint where there is one. Returns -ENOMEM for 2, -ENODEV for 3, 46, 100, 802 to
 * 804, else -EIO. `what` names call and object. */
int driver_fail(const struct driver *driver, int result, struct err *err, const char *what, ...)
    __attribute__((format(printf, 4, 5)));
/* What to do about an error, or NULL. Pure. Source: CUDA driver API, users' reports (see the
 * table in driver.c). */
const char *driver_hint(int result);

struct driver_device {
	int device; /* CUdevice */
	uint32_t ordinal;
	char name[DRIVER_NAME_MAX], uuid[DRIVER_UUID_MAX]; /* "GPU-...", "MIG-..." */
	char bus_id[32];
	int cc_major, cc_minor, sm_count;
	uint64_t memory_bytes;
	bool is_simulated;
};
/* All in sight, in their order. -ENODEV: none; -E2BIG, -EIO. */
int driver_devices(const struct driver *driver, struct driver_device out[DRIVER_DEVICES_MAX],
		   uint32_t *out_count, struct err *err);
/* By number or by UUID (its beginning, 4 characters at least). -ENODEV names those there are. */
int driver_find_device(const struct driver *driver, const char *name, struct driver_device *out,
		       struct err *err);

/* CLOCK_MONOTONIC, or the simulated driver's clock. Nanoseconds. */
uint64_t driver_now_ns(const struct driver *driver);
/* Sleeps until that time, of the same clock. */
void driver_wait_until(const struct driver *driver, uint64_t ns);

#endif
