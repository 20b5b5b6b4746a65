/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers of the CUDA driver API that the simulated driver speaks. Own declarations; source:
 * https://docs.nvidia.com/cuda/cuda-driver-api/. Addresses of device memory are uint64_t.
 */
#ifndef SLUICE_SIM_CUDA_API_H
#define SLUICE_SIM_CUDA_API_H

#include <stdint.h>

#define API __attribute__((visibility("default")))

enum cu_result {
	CU_OK = 0,
	CU_INVALID_VALUE = 1,
	CU_OUT_OF_MEMORY = 2,
	CU_NOT_INITIALIZED = 3,
	CU_NO_DEVICE = 100,
	CU_INVALID_DEVICE = 101,
	CU_INVALID_CONTEXT = 201,
	CU_NO_BINARY_FOR_GPU = 209,
	CU_PEER_ACCESS_UNSUPPORTED = 217,
	CU_INVALID_PTX = 218,
	CU_UNSUPPORTED_PTX_VERSION = 222,
	CU_OPERATING_SYSTEM = 304,
	CU_INVALID_HANDLE = 400,
	CU_NOT_FOUND = 500,
	CU_NOT_READY = 600,
	CU_ILLEGAL_ADDRESS = 700,
	CU_PEER_ACCESS_ALREADY_ENABLED = 704,
	CU_PEER_ACCESS_NOT_ENABLED = 705,
	CU_LAUNCH_FAILED = 719,
	CU_NOT_SUPPORTED = 801,
	CU_SYSTEM_DRIVER_MISMATCH = 803,
	CU_STREAM_CAPTURE_UNSUPPORTED = 900,
	CU_STREAM_CAPTURE_INVALIDATED = 901,
	CU_UNKNOWN = 999,
};

struct cu_uuid {
	unsigned char bytes[16];
};

#endif
