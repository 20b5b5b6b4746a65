/* SPDX-License-Identifier: Apache-2.0 */
/* What the library exports. functions.def says by which names cuGetProcAddress knows it. */
#ifndef SLUICE_SIM_CUDA_EXPORTS_H
#define SLUICE_SIM_CUDA_EXPORTS_H

#include <stddef.h>
#include <stdint.h>

#include "sim/cuda/api.h"

struct cu_context;
struct cu_event;
struct cu_function;
struct cu_graph;
struct cu_module;
struct cu_stream;

API int cuInit(unsigned flags);
API int simCudaNow(uint64_t *out_ns);
API int simCudaWaitUntil(uint64_t ns);
/* For the simulated NCCL: a place on a stream, which ends `ns` after it is released and not before.
 * Reached: CU_OK when all before it is done, else CU_NOT_READY. */
API int simCudaStreamHold(struct cu_stream *stream, uint64_t *out_ticket);
API int simCudaStreamReached(struct cu_stream *stream, uint64_t ticket);
API int simCudaStreamRelease(struct cu_stream *stream, uint64_t ticket, uint64_t ns);
API int cuCtxSetCurrent(struct cu_context *context);
API int cuCtxGetCurrent(struct cu_context **out);
API int cuCtxPushCurrent_v2(struct cu_context *context);
API int cuCtxPopCurrent_v2(struct cu_context **out);
API int cuGetProcAddress_v2(const char *name, void **out, int version, unsigned long long flags,
			    int *out_status);
API int cuGetProcAddress(const char *name, void **out, int version, unsigned long long flags);
API int cuGetErrorName(int result, const char **out);
API int cuGetErrorString(int result, const char **out);
API int cuDriverGetVersion(int *out);
API int cuDeviceGetCount(int *out);
API int cuDeviceGet(int *out, int ordinal);
API int cuDeviceGetName(char *out, int length, int index);
API int cuDeviceGetUuid(struct cu_uuid *out, int index);
API int cuDeviceGetUuid_v2(struct cu_uuid *out, int index);
API int cuDeviceTotalMem_v2(size_t *out, int index);
API int cuDeviceGetPCIBusId(char *out, int length, int index);
API int cuDeviceGetByPCIBusId(int *out, const char *id);
API int cuDeviceGetAttribute(int *out, int attribute, int index);
API int cuDeviceCanAccessPeer(int *out, int from, int to);
API int cuCtxEnablePeerAccess(struct cu_context *peer, unsigned flags);
API int cuCtxDisablePeerAccess(struct cu_context *peer);
API int cuDevicePrimaryCtxRetain(struct cu_context **out, int index);
API int cuDevicePrimaryCtxRelease_v2(int index);
API int cuDevicePrimaryCtxReset_v2(int index);
API int cuDevicePrimaryCtxGetState(int index, unsigned *out_flags, int *out_active);
API int cuDevicePrimaryCtxSetFlags_v2(int index, unsigned flags);
API int cuCtxCreate_v2(struct cu_context **out, unsigned flags, int index);
API int cuCtxDestroy_v2(struct cu_context *context);
API int cuCtxGetDevice(int *out);
API int cuCtxSynchronize(void);
API int cuCtxSetLimit(int limit, size_t value);
API int cuCtxGetApiVersion(struct cu_context *context, unsigned *out);
API int cuModuleLoadDataEx(struct cu_module **out, const void *image, unsigned count, int *options,
			   void **values);
API int cuModuleLoadData(struct cu_module **out, const void *image);
API int cuModuleUnload(struct cu_module *module);
API int cuModuleGetFunction(struct cu_function **out, struct cu_module *module, const char *name);
API int cuFuncGetAttribute(int *out, int attribute, struct cu_function *function);
API int cuLaunchKernel(struct cu_function *function, unsigned grid_x, unsigned grid_y,
		       unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,
		       unsigned shared_bytes, struct cu_stream *handle, void **parameters,
		       void **extra);
API int cuMemGetInfo_v2(size_t *out_free, size_t *out_total);
API int cuMemAlloc_v2(uint64_t *out, size_t bytes);
API int cuMemAllocPitch_v2(uint64_t *out, size_t *out_pitch, size_t width, size_t height,
			   unsigned element);
API int cuMemAllocManaged(uint64_t *out, size_t bytes, unsigned flags);
API int cuMemFree_v2(uint64_t address);
API int cuMemAllocAsync(uint64_t *out, size_t bytes, struct cu_stream *handle);
API int cuMemFreeAsync(uint64_t address, struct cu_stream *handle);
API int cuMemGetAllocationGranularity(size_t *out, const void *property, int option);
API int cuMemCreate(unsigned long long *out, size_t bytes, const void *property,
		    unsigned long long flags);
API int cuMemRelease(unsigned long long handle);
API int cuMemHostAlloc(void **out, size_t bytes, unsigned flags);
API int cuMemAllocHost_v2(void **out, size_t bytes);
API int cuMemFreeHost(void *address);
API int cuMemHostRegister_v2(void *address, size_t bytes, unsigned flags);
API int cuMemHostUnregister(void *address);
API int cuMemHostGetDevicePointer_v2(uint64_t *out, void *host, unsigned flags);
API int cuMemGetAddressRange_v2(uint64_t *out_begin, size_t *out_bytes, uint64_t address);
API int cuMemcpy(uint64_t to, uint64_t from, size_t bytes);
API int cuMemcpyAsync(uint64_t to, uint64_t from, size_t bytes, struct cu_stream *stream);
API int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t bytes);
API int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t bytes);
API int cuMemcpyDtoD_v2(uint64_t to, uint64_t from, size_t bytes);
API int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, struct cu_stream *stream);
API int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, struct cu_stream *stream);
API int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, struct cu_stream *stream);
API int cuMemcpyPeer(uint64_t to, struct cu_context *to_context, uint64_t from,
		     struct cu_context *from_context, size_t bytes);
API int cuMemcpyPeerAsync(uint64_t to, struct cu_context *to_context, uint64_t from,
			  struct cu_context *from_context, size_t bytes, struct cu_stream *stream);
API int cuMemsetD8_v2(uint64_t to, unsigned char value, size_t count);
API int cuMemsetD16_v2(uint64_t to, unsigned short value, size_t count);
API int cuMemsetD32_v2(uint64_t to, unsigned value, size_t count);
API int cuMemsetD8Async(uint64_t to, unsigned char value, size_t count, struct cu_stream *stream);
API int cuMemsetD32Async(uint64_t to, unsigned value, size_t count, struct cu_stream *stream);
API int cuStreamCreateWithPriority(struct cu_stream **out, unsigned flags, int priority);
API int cuStreamCreate(struct cu_stream **out, unsigned flags);
API int cuStreamDestroy_v2(struct cu_stream *handle);
API int cuStreamSynchronize(struct cu_stream *handle);
API int cuStreamQuery(struct cu_stream *handle);
API int cuStreamGetCtx(struct cu_stream *handle, struct cu_context **out);
API int cuLaunchHostFunc(struct cu_stream *handle, void (*host)(void *data), void *data);
API int cuEventCreate(struct cu_event **out, unsigned flags);
API int cuEventDestroy_v2(struct cu_event *event);
API int cuEventRecord(struct cu_event *event, struct cu_stream *handle);
API int cuEventRecordWithFlags(struct cu_event *event, struct cu_stream *stream, unsigned flags);
API int cuEventQuery(struct cu_event *event);
API int cuEventSynchronize(struct cu_event *event);
API int cuEventElapsedTime(float *out_ms, struct cu_event *start, struct cu_event *end);
API int cuEventElapsedTime_v2(float *out_ms, struct cu_event *start, struct cu_event *end);
API int cuStreamWaitEvent(struct cu_stream *handle, struct cu_event *event, unsigned flags);
API int cuStreamBeginCapture_v2(struct cu_stream *handle, int mode);
API int cuStreamEndCapture(struct cu_stream *handle, struct cu_graph **out);
API int cuStreamIsCapturing(struct cu_stream *handle, int *out);
API int cuGraphInstantiateWithFlags(struct cu_graph **out, struct cu_graph *graph,
				    unsigned long long flags);
API int cuGraphLaunch(struct cu_graph *graph, struct cu_stream *handle);
API int cuGraphExecDestroy(struct cu_graph *graph);
API int cuGraphDestroy(struct cu_graph *graph);

#endif
