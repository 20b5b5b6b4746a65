/* SPDX-License-Identifier: Apache-2.0 */
/* What one NCCL rank has, for nccl*.c alone. */
#ifndef SLUICE_BENCH_COLLECTIVES_NCCL_NCCL_PRIVATE_H
#define SLUICE_BENCH_COLLECTIVES_NCCL_NCCL_PRIVATE_H

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>

#include "bench/collectives/backend.h"
#include "bench/collectives/nccl/nccl.h"
#include "bench/gpu/driver.h"

/* ncclResult_t */
enum nccl_result {
	NCCL_OK = 0,
	NCCL_SYSTEM_ERROR = 2,
	NCCL_REMOTE_ERROR = 6,
	NCCL_IN_PROGRESS = 7
};

enum nccl_versions {
	NCCL_VERSION_AVG = 21000,      /* ncclAvg and bfloat16 */
	NCCL_VERSION_REGISTER = 21900, /* ncclMemAlloc, ncclCommRegister */
	NCCL_CONFIG_VERSION = 21700,   /* whose ncclConfig_t is declared here */
};

struct nccl_id {
	uint8_t bytes[NCCL_ID_BYTES];
};

/* ncclConfig_t as of 2.17; a later library takes it by its size and version. */
struct nccl_config {
	size_t size;
	unsigned magic, version;
	int blocking, cga_cluster_size, min_ctas, max_ctas;
	const char *net_name;
	int split_share;
};
#define NCCL_CONFIG_MAGIC 0xcafebeefu
#define NCCL_CONFIG_UNSET INT_MIN

struct nccl_calls {
#define NCCL_CALL(name, is_needed, parameters) int(*name) parameters;
#include "bench/collectives/nccl/nccl_calls.def"
	const char *(*ncclGetErrorString)(int result); /* NULL where it is not there */
	const char *(*ncclGetLastError)(void *comm);
	const char *(*simNcclDescribe)(void); /* the simulated library's */
};

struct nccl_memory {
	void *address;
	void *handle; /* of ncclCommRegister; NULL: of cuMemAlloc */
};

struct nccl_backend {
	struct backend backend;
	struct driver driver;
	struct driver_device device;
	bool has_context;
	struct cuda_stream *stream;
	void *library; /* of dlopen; never closed: its threads may outlive us */
	struct nccl_calls call;
	int version;
	struct bootstrap *bootstrap; /* borrowed */
	pthread_mutex_t lock;	     /* of comm, against abort() of another thread */
	void *comm;		     /* NULL: none, or aborted */
	atomic_bool is_aborted;
	bool has_failed;
	int log;		    /* memory that NCCL writes its log to; -1 */
	struct nccl_memory *memory; /* owned */
	size_t memory_count;
	char description[NCCL_DESCRIPTION_MAX];
};

static inline struct nccl_backend *nccl_of(struct backend *backend)
{
	return (struct nccl_backend *)(void *)backend;
}

/* nccl_library.c: finds the calls. -ENOENT, -ENOSYS. */
int nccl_library_open(const char *name, struct nccl_backend *nccl, struct err *err);
/* Sets `err` from what NCCL said, in its words, with a hint; -EPIPE. */
int nccl_fail(struct nccl_backend *nccl, int result, struct err *err, const char *call);
/* Waits while `result` is NCCL_IN_PROGRESS; then 0 or the error. */
int nccl_settle(struct nccl_backend *nccl, int result, uint64_t timeout_ns, struct err *err,
		const char *call);
/* The communicator ends without waiting for the others. */
void nccl_abort(struct nccl_backend *nccl);

/* nccl_run.c: starts an operation. */
int nccl_run(struct backend *backend, const struct backend_call *call, struct err *err);

#endif
