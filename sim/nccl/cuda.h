/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the simulated NCCL needs of the driver library that its program has loaded: memory, copies,
 * and a place on a stream that it alone can finish. Knows nothing of communicators.
 */
#ifndef SLUICE_SIM_NCCL_CUDA_H
#define SLUICE_SIM_NCCL_CUDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct CUctx_st;
struct CUstream_st;

struct cuda_calls {
	int (*cuCtxGetCurrent)(struct CUctx_st **context);
	int (*cuCtxSetCurrent)(struct CUctx_st *context);
	int (*cuCtxGetDevice)(int *device);
	int (*cuDeviceGetPCIBusId)(char *id, int length, int device);
	int (*cuMemAlloc_v2)(uint64_t *address, size_t bytes);
	int (*cuMemFree_v2)(uint64_t address);
	int (*cuMemGetAddressRange_v2)(uint64_t *begin, size_t *bytes, uint64_t address);
	int (*cuMemcpyDtoHAsync_v2)(void *to, uint64_t from, size_t bytes,
				    struct CUstream_st *stream);
	int (*cuMemcpyHtoDAsync_v2)(uint64_t to, const void *from, size_t bytes,
				    struct CUstream_st *stream);
	int (*cuStreamCreate)(struct CUstream_st **stream, unsigned flags);
	int (*cuStreamDestroy_v2)(struct CUstream_st *stream);
	int (*cuStreamQuery)(struct CUstream_st *stream);
	int (*cuStreamSynchronize)(struct CUstream_st *stream);
	/* Only the simulated driver has them; without, operations are done in the call itself and
	 * take no simulated time. */
	int (*simCudaStreamHold)(struct CUstream_st *stream, uint64_t *ticket);
	int (*simCudaStreamReached)(struct CUstream_st *stream, uint64_t ticket);
	int (*simCudaStreamRelease)(struct CUstream_st *stream, uint64_t ticket, uint64_t ns);
};

/* Of the libcuda.so.1 that is loaded already, else the one that is found. False with what dlopen
 * or dlsym said. */
bool cuda_load(struct cuda_calls *out, const char **out_problem);

#endif
