/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one rank needs of a library that does collectives: our own shared memory, MPI or NCCL. A
 * backend belongs to one process, which is one rank; it is made in that process. All ranks make the
 * same calls in the same order. Knows nothing of sizes, timings and checks.
 *
 * Errors: -ENOENT: the library or the device is not there (exit 3); -ETIMEDOUT, -EPIPE: a rank is
 * gone or does not answer, and the message names it; -EOPNOTSUPP: this backend has no such
 * operation, type or reduction.
 */
#ifndef SLUICE_BENCH_COLLECTIVES_BACKEND_H
#define SLUICE_BENCH_COLLECTIVES_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench/collectives/collective.h"

struct backend;
struct err;

struct backend_call {
	enum collective_op op;
	enum collective_type type;
	enum collective_redop redop;
	uint32_t root;
	const struct collective_shape *shape; /* borrowed until the call returns */
	const void *send;		      /* of the backend's memory; see collective_shape */
	void *receive;			      /* the same address as send, or beside it: in place */
};

enum backend_memory {
	BACKEND_PRIVATE,    /* what malloc gives; a GPU's own */
	BACKEND_REGISTERED, /* known to all ranks: sl_mem_alloc, ncclMemAlloc */
};

struct backend_ops {
	const char *name; /* "shm", "mpi", "nccl" */
	/* Whether send and receive are addresses of this process. If not, put and get copy. */
	bool is_host_memory;
	/* Bytes rounded up to pages by the backend; zeroed. Collective: all ranks call it with the
	 * same size. -ENOMEM; -EOPNOTSUPP: BACKEND_REGISTERED is not there. */
	int (*alloc)(struct backend *backend, enum backend_memory memory, size_t bytes, void **out,
		     struct err *err);
	void (*free)(struct backend *backend, void *memory);
	int (*put)(struct backend *backend, void *to, const void *from, size_t bytes,
		   struct err *err);
	int (*get)(struct backend *backend, void *to, const void *from, size_t bytes,
		   struct err *err);
	/* Starts it; a backend of processors has done it when this returns. */
	int (*run)(struct backend *backend, const struct backend_call *call, struct err *err);
	/* Until all that was started is done. */
	int (*sync)(struct backend *backend, struct err *err);
	int (*barrier)(struct backend *backend, struct err *err);
	/* All ranks' `bytes` at `mine` in the order of the ranks; host memory. For timings and
	 * verdicts, never timed itself. At most BACKEND_SHARE_MAX. */
	int (*share)(struct backend *backend, const void *mine, void *all, size_t bytes,
		     struct err *err);
	/* Ends what the ranks have in common without waiting for anybody: the others' calls fail.
	 */
	void (*abort)(struct backend *backend);
	struct backend *(*free_backend)(struct backend *backend); /* NULL */
};

enum { BACKEND_SHARE_MAX = 4096 };

struct backend {
	const struct backend_ops *ops;
	/* One line about the library for the table's head: "Open MPI 4.1.4, libmpi.so.40". */
	const char *description;
	uint32_t rank, ranks;
	uint64_t timeout_ns; /* of one wait within a call; the deadline of the whole is elsewhere */
};

#endif
