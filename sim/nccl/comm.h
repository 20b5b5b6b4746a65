/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A communicator of the simulated NCCL: its ranks, its thread, and what is queued on it. The thread
 * meets the others and does the operations one after the other, each when its stream has come to
 * it. Knows nothing of groups and of what callers may do wrong: api.h's functions see to that.
 */
#ifndef SLUICE_SIM_NCCL_COMM_H
#define SLUICE_SIM_NCCL_COMM_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "sim/nccl/api.h"
#include "sim/nccl/cuda.h"
#include "sim/nccl/fault.h"
#include "sim/nccl/report.h"

struct comm_world;

enum comm_limits {
	COMM_TEXT_MAX = 320,
	COMM_REGISTERED_MAX = 64,
	COMM_LIVE_MAX = 64,
	COMM_GROUP_MAX = 4096, /* calls of one group */
};

enum comm_kind {
	COMM_ALL_REDUCE = 1,
	COMM_REDUCE,
	COMM_REDUCE_SCATTER,
	COMM_ALL_GATHER,
	COMM_BROADCAST,
	COMM_SEND,
	COMM_RECEIVE,
};

struct op {
	enum comm_kind kind;
	uint64_t send, receive; /* addresses of the GPU */
	size_t count;
	int type, redop;
	uint32_t root; /* or the peer */
	struct comm *comm;
	struct CUstream_st *stream;
};

struct job {
	struct job *next;
	struct CUstream_st *stream;
	uint64_t ticket; /* of the stream; 0: it is done in the call */
	size_t count;
	struct op ops[]; /* of one comm and one stream */
};

struct comm {
	struct nccl_id id;
	uint32_t rank, ranks;
	pid_t pid;
	bool is_blocking;
	struct nccl_fault fault;
	struct cuda_calls cuda;
	struct CUctx_st *context;
	/* Of our own, and not blocking: copies on the default stream would wait for the very
	 * operations that they belong to. */
	struct CUstream_st *copies;
	int device;
	struct comm_world *world; /* owned; NULL until all have come */
	struct report report;
	pthread_t thread;
	pthread_mutex_t lock; /* of what follows */
	pthread_cond_t changed;
	struct job *first, **last; /* owned */
	bool is_ended;		   /* the thread may end when the queue is empty */
	atomic_bool stop;	   /* now */
	atomic_int state;	   /* what ncclCommGetAsyncError says */
	_Atomic uint64_t under_way;
	uint64_t number; /* of collectives */
	char text[COMM_TEXT_MAX];
	void *registered[COMM_REGISTERED_MAX];
};

/* Makes it and its thread. `fault` as parsed. */
int comm_new(const struct nccl_id *id, uint32_t ranks, uint32_t rank, bool is_blocking,
	     const struct cuda_calls *cuda, const struct nccl_fault *fault, struct comm **out);
/* Waits for the thread, which first does what is queued unless `is_abort`. */
void comm_free(struct comm *comm, bool is_abort);
/* Until it is ready, or has failed. */
int comm_wait_ready(struct comm *comm);
/* Queues a job (given), or does it. */
int comm_submit(struct comm *comm, struct job *job);
/* Until nothing is under way; NCCL_SUCCESS, or what it failed with. */
int comm_drain(struct comm *comm);
/* Remembers why, and returns `result`. */
int comm_fail(struct comm *comm, int result, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* `bytes` of the GPU's memory to or from the host; 0 or what the driver said. */
int comm_get(const struct comm *comm, void *to, uint64_t from, size_t bytes);
int comm_put(const struct comm *comm, uint64_t to, const void *from, size_t bytes);

/* Does all operations of the job; comm_run.c. `*out_ns` is how long they take. */
int comm_run(struct comm *comm, const struct job *job, uint64_t *out_ns);

#endif
