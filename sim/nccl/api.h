/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the simulated libnccl.so.2 exports: names, numbers and layouts of NCCL 2.21, declared from
 * the published documentation. Nothing here is NVIDIA's text. Every call is answered truly by the
 * processors of this machine, and strictly: what the real library would let hang or spoil data is
 * an error here.
 *
 * Source: https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/api.html
 */
#ifndef SLUICE_SIM_NCCL_API_H
#define SLUICE_SIM_NCCL_API_H

#include <stddef.h>
#include <stdint.h>

#define NCCL_EXPORT __attribute__((visibility("default")))

struct comm;
struct CUstream_st;
typedef struct comm *ncclComm_t;

enum nccl_result {
	NCCL_SUCCESS = 0,
	NCCL_UNHANDLED_CUDA_ERROR = 1,
	NCCL_SYSTEM_ERROR = 2,
	NCCL_INTERNAL_ERROR = 3,
	NCCL_INVALID_ARGUMENT = 4,
	NCCL_INVALID_USAGE = 5,
	NCCL_REMOTE_ERROR = 6,
	NCCL_IN_PROGRESS = 7,
	NCCL_RESULT_COUNT = 8,
};

enum nccl_type {
	NCCL_INT8,
	NCCL_UINT8,
	NCCL_INT32,
	NCCL_UINT32,
	NCCL_INT64,
	NCCL_UINT64,
	NCCL_FLOAT16,
	NCCL_FLOAT32,
	NCCL_FLOAT64,
	NCCL_BFLOAT16,
	NCCL_TYPE_COUNT,
};

enum nccl_redop { NCCL_SUM, NCCL_PROD, NCCL_MAX, NCCL_MIN, NCCL_AVG, NCCL_REDOP_COUNT };

enum {
	NCCL_SIM_VERSION = 22105, /* 2.21.5 */
	NCCL_ID_BYTES = 128,
};

#define NCCL_CONFIG_MAGIC 0xcafebeefu

struct nccl_id {
	char internal[NCCL_ID_BYTES];
};

struct nccl_config { /* ncclConfig_t of 2.17 to 2.21; longer ones begin with it */
	size_t size;
	unsigned magic, version;
	int blocking, cga_cluster_size, min_ctas, max_ctas;
	const char *net_name;
	int split_share;
};

/* There only in the simulated library; says what it is. */
NCCL_EXPORT const char *simNcclDescribe(void);

NCCL_EXPORT int ncclGetVersion(int *version);
NCCL_EXPORT const char *ncclGetErrorString(int result);
NCCL_EXPORT const char *ncclGetLastError(ncclComm_t comm);
NCCL_EXPORT int ncclGetUniqueId(struct nccl_id *id);
NCCL_EXPORT int ncclCommInitRank(ncclComm_t *comm, int ranks, struct nccl_id id, int rank);
NCCL_EXPORT int ncclCommInitRankConfig(ncclComm_t *comm, int ranks, struct nccl_id id, int rank,
				       struct nccl_config *config);
NCCL_EXPORT int ncclCommFinalize(ncclComm_t comm);
NCCL_EXPORT int ncclCommDestroy(ncclComm_t comm);
NCCL_EXPORT int ncclCommAbort(ncclComm_t comm);
NCCL_EXPORT int ncclCommGetAsyncError(ncclComm_t comm, int *error);
NCCL_EXPORT int ncclCommCount(ncclComm_t comm, int *count);
NCCL_EXPORT int ncclCommUserRank(ncclComm_t comm, int *rank);
NCCL_EXPORT int ncclMemAlloc(void **memory, size_t bytes);
NCCL_EXPORT int ncclMemFree(void *memory);
NCCL_EXPORT int ncclCommRegister(ncclComm_t comm, void *memory, size_t bytes, void **handle);
NCCL_EXPORT int ncclCommDeregister(ncclComm_t comm, void *handle);
NCCL_EXPORT int ncclGroupStart(void);
NCCL_EXPORT int ncclGroupEnd(void);
NCCL_EXPORT int ncclAllReduce(const void *send, void *receive, size_t count, int type, int redop,
			      ncclComm_t comm, struct CUstream_st *stream);
NCCL_EXPORT int ncclReduce(const void *send, void *receive, size_t count, int type, int redop,
			   int root, ncclComm_t comm, struct CUstream_st *stream);
NCCL_EXPORT int ncclReduceScatter(const void *send, void *receive, size_t receive_count, int type,
				  int redop, ncclComm_t comm, struct CUstream_st *stream);
NCCL_EXPORT int ncclAllGather(const void *send, void *receive, size_t send_count, int type,
			      ncclComm_t comm, struct CUstream_st *stream);
NCCL_EXPORT int ncclBroadcast(const void *send, void *receive, size_t count, int type, int root,
			      ncclComm_t comm, struct CUstream_st *stream);
NCCL_EXPORT int ncclSend(const void *send, size_t count, int type, int peer, ncclComm_t comm,
			 struct CUstream_st *stream);
NCCL_EXPORT int ncclRecv(void *receive, size_t count, int type, int peer, ncclComm_t comm,
			 struct CUstream_st *stream);

#endif
