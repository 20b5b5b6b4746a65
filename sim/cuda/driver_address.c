/* SPDX-License-Identifier: Apache-2.0 */
/* cuGetProcAddress, and what errors are called. */
#include "sim/cuda/driver.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

typedef void (*address_fn)(void);

static const struct {
	const char *name;
	address_fn address;
} address_rows[] = {
#define FUNCTION(export, name) {#name, (address_fn)(export)},
#include "sim/cuda/functions.def"
};

enum { ADDRESS_ROWS = sizeof(address_rows) / sizeof(*address_rows), THUNK_BYTES = 16 };
enum { SYMBOL_FOUND = 0, SYMBOL_NOT_FOUND = 1 };

/* For the fault "procaddress": code of our own that only jumps to the function, as a driver's own
 * entry points differ from its exports. NULL: not on this machine. */
static unsigned char *thunks_make(void)
{
#if defined(__x86_64__)
	unsigned char *page = mmap(NULL, ADDRESS_ROWS * THUNK_BYTES, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (page == MAP_FAILED)
		return NULL;

	for (uint32_t i = 0; i < ADDRESS_ROWS; i++) {
		unsigned char *code = page + i * THUNK_BYTES;

		/* mov rax, ADDRESS; jmp rax */
		code[0] = 0x48;
		code[1] = 0xb8;
		memcpy(code + 2, &address_rows[i].address, 8);
		code[10] = 0xff;
		code[11] = 0xe0;
	}

	if (mprotect(page, ADDRESS_ROWS * THUNK_BYTES, PROT_READ | PROT_EXEC) == 0)
		return page;

	(void)munmap(page, ADDRESS_ROWS * THUNK_BYTES);
#endif
	return NULL;
}

/* A function's address in a pointer to data, as dlsym() gives it. */
static void *as_data(address_fn address)
{
	void *data;

	memcpy(&data, &address, sizeof(data));
	return data;
}

static void *address_find(const char *name)
{
	static unsigned char *thunks;
	uint64_t value;
	uint32_t at = ADDRESS_ROWS;

	if (faults_strike(&driver.faults, FAULT_MISSING, name, &value))
		return NULL;

	/* the newest form comes last */
	for (uint32_t i = 0; i < ADDRESS_ROWS; i++) {
		if (strcmp(address_rows[i].name, name) == 0)
			at = i;
	}

	if (at == ADDRESS_ROWS)
		return NULL;

	if (faults_strike(&driver.faults, FAULT_PROC_ADDRESS, NULL, &value)) {
		if (!thunks)
			thunks = thunks_make();
		if (thunks)
			return thunks + (size_t)at * THUNK_BYTES;
	}

	return as_data(address_rows[at].address);
}

API int cuGetProcAddress_v2(const char *name, void **out, int version, unsigned long long flags,
			    int *out_status)
{
	if (!name || !out || version < 2000 || flags > 2)
		return CU_INVALID_VALUE;

	driver_lock();
	int rc = driver_read_faults();
	void *address = rc == CU_OK ? address_find(name) : NULL;

	(void)driver_leave(CU_OK);
	*out = address;
	if (out_status)
		*out_status = address ? SYMBOL_FOUND : SYMBOL_NOT_FOUND;

	/* with a status to look at, a name that is not there is no error */
	return address || out_status ? CU_OK : CU_NOT_FOUND;
}

API int cuGetProcAddress(const char *name, void **out, int version, unsigned long long flags)
{
	return cuGetProcAddress_v2(name, out, version, flags, NULL);
}

/* --- errors ----------------------------------------------------------------------------------- */

static const struct {
	int result;
	const char *name, *text;
} error_rows[] = {
    {0, "CUDA_SUCCESS", "no error"},
    {1, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {4, "CUDA_ERROR_DEINITIALIZED", "driver shutting down"},
    {46, "CUDA_ERROR_DEVICE_UNAVAILABLE", "CUDA-capable device(s) is/are busy or unavailable"},
    {100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {200, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {209, "CUDA_ERROR_NO_BINARY_FOR_GPU",
     "no kernel image is available for execution on the device"},
    {214, "CUDA_ERROR_ECC_UNCORRECTABLE", "uncorrectable ECC error encountered"},
    {217, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED",
     "peer access is not supported between these two devices"},
    {218, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
    {222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
     "the provided PTX was compiled with an unsupported toolchain."},
    {304, "CUDA_ERROR_OPERATING_SYSTEM", "OS call failed or operation not supported on this OS"},
    {400, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {500, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {600, "CUDA_ERROR_NOT_READY", "device not ready"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {704, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", "peer access is already enabled"},
    {705, "CUDA_ERROR_PEER_ACCESS_NOT_ENABLED", "peer access has not been enabled"},
    {719, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {801, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {802, "CUDA_ERROR_SYSTEM_NOT_READY", "system not yet initialized"},
    {803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
     "system has unsupported display driver / cuda driver combination"},
    {804, "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE",
     "forward compatibility was attempted on non supported HW"},
    {900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
     "operation not permitted when stream is capturing"},
    {901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
     "operation failed due to a previous error during capture"},
    {999, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

static int error_find(int result, const char **out, bool is_name)
{
	if (!out)
		return CU_INVALID_VALUE;

	*out = NULL;
	for (size_t i = 0; i < sizeof(error_rows) / sizeof(*error_rows); i++) {
		if (error_rows[i].result == result)
			*out = is_name ? error_rows[i].name : error_rows[i].text;
	}

	return *out ? CU_OK : CU_INVALID_VALUE;
}

API int cuGetErrorName(int result, const char **out)
{
	return error_find(result, out, true);
}

API int cuGetErrorString(int result, const char **out)
{
	return error_find(result, out, false);
}
