/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/nccl/api.h"

#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/nccl/comm.h"
#include "sim/nccl/reduce.h"
#include "sim/nccl/world.h"

enum { MEMORY_MAX = 256, LEAK_EXIT = 70 };

/* What a process has; a library has no other place for it. */
static struct {
	pthread_mutex_t lock;
	struct comm *live[COMM_LIVE_MAX];
	void *memory[MEMORY_MAX];
	char text[COMM_TEXT_MAX];
} process = {.lock = PTHREAD_MUTEX_INITIALIZER};

static __thread struct {
	int depth;
	size_t count;
	int result; /* the first thing that was wrong */
	struct op *ops;
} group;

const char *simNcclDescribe(void)
{
	return "simulated NCCL 2.21.5: this machine's processors stand in for GPUs and links";
}

/* For those who have no communicator to ask. */
__attribute__((format(printf, 2, 3))) static int fail(int result, const char *format, ...)
{
	va_list arguments;

	(void)pthread_mutex_lock(&process.lock);
	va_start(arguments, format);
	(void)vsnprintf(process.text, sizeof(process.text), format, arguments);
	va_end(arguments);
	(void)pthread_mutex_unlock(&process.lock);
	report_line(-1, "WARN", "%s", process.text);

	return result;
}

static bool comm_is_live(const struct comm *comm)
{
	bool found = false;
	(void)pthread_mutex_lock(&process.lock);
	for (size_t i = 0; comm && i < COMM_LIVE_MAX; i++)
		found = found || process.live[i] == comm;
	(void)pthread_mutex_unlock(&process.lock);
	return found;
}

static int check_comm(const struct comm *comm, const char *call)
{
	if (!comm_is_live(comm))
		return fail(NCCL_INVALID_ARGUMENT, "%s: no such communicator", call);
	if (comm->pid != getpid())
		return fail(NCCL_INVALID_USAGE, "%s: the communicator is of process %ld", call,
			    (long)comm->pid);
	return NCCL_SUCCESS;
}

int ncclGetVersion(int *version)
{
	if (!version)
		return NCCL_INVALID_ARGUMENT;
	*version = NCCL_SIM_VERSION;
	return NCCL_SUCCESS;
}

const char *ncclGetErrorString(int result)
{
	static const char *const text[NCCL_RESULT_COUNT] = {
	    "no error",
	    "unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
	    "unhandled system error (run with NCCL_DEBUG=INFO for details)",
	    "internal error - please report this issue to the NCCL developers",
	    "invalid argument (run with NCCL_DEBUG=WARN for details)",
	    "invalid usage (run with NCCL_DEBUG=WARN for details)",
	    "remote process exited or there was a network error",
	    "NCCL operation in progress",
	};
	return result >= 0 && result < NCCL_RESULT_COUNT ? text[result] : "unknown result code";
}

const char *ncclGetLastError(ncclComm_t comm)
{
	return comm_is_live(comm) && comm->text[0] ? comm->text : process.text;
}

int ncclGetUniqueId(struct nccl_id *id)
{
	return id ? world_make_id(id) : NCCL_INVALID_ARGUMENT;
}

static int init(ncclComm_t *out, int ranks, const struct nccl_id *id, int rank, bool is_blocking)
{
	struct cuda_calls cuda;
	struct nccl_fault fault;
	const char *problem = NULL;
	struct comm *comm = NULL;
	size_t place = 0;

	if (!out || ranks < 1 || ranks > WORLD_RANKS_MAX || rank < 0 || rank >= ranks)
		return fail(NCCL_INVALID_ARGUMENT, "ncclCommInitRank: rank %d of %d (at most %d)",
			    rank, ranks, WORLD_RANKS_MAX);
	if (group.depth > 0)
		return fail(NCCL_INVALID_USAGE, "the simulated library makes one communicator in a "
						"process, outside of groups");
	if (!fault_parse(getenv("SLUICE_SIM_NCCL_FAULT"), &fault, &problem))
		return fail(NCCL_INVALID_USAGE, "SLUICE_SIM_NCCL_FAULT: '%s' is no fault", problem);
	if (!cuda_load(&cuda, &problem))
		return fail(NCCL_UNHANDLED_CUDA_ERROR, "Failed to find CUDA library: %s",
			    problem ? problem : "");

	int rc = comm_new(id, (uint32_t)ranks, (uint32_t)rank, is_blocking, &cuda, &fault, &comm);
	if (rc != NCCL_SUCCESS)
		return fail(rc, "ncclCommInitRank: no context is current");

	(void)pthread_mutex_lock(&process.lock);

	while (place < COMM_LIVE_MAX && process.live[place])
		place++;

	if (place < COMM_LIVE_MAX)
		process.live[place] = comm;
	(void)pthread_mutex_unlock(&process.lock);

	if (place == COMM_LIVE_MAX) {
		comm_free(comm, true);
		return fail(NCCL_SYSTEM_ERROR, "too many communicators");
	}

	*out = comm;
	if (!is_blocking)
		return NCCL_IN_PROGRESS;

	rc = comm_wait_ready(comm);
	if (rc != NCCL_SUCCESS) {
		(void)fail(rc, "%s", comm->text);
		(void)ncclCommAbort(comm);
		*out = NULL;
	}

	return rc;
}

int ncclCommInitRank(ncclComm_t *comm, int ranks, struct nccl_id id, int rank)
{
	return init(comm, ranks, &id, rank, true);
}

int ncclCommInitRankConfig(ncclComm_t *comm, int ranks, struct nccl_id id, int rank,
			   struct nccl_config *config)
{
	if (config && (config->magic != NCCL_CONFIG_MAGIC ||
		       config->size < offsetof(struct nccl_config, cga_cluster_size)))
		return fail(NCCL_INVALID_ARGUMENT, "ncclConfig_t argument not initialized via "
						   "NCCL_CONFIG_INITIALIZER");

	if (config && config->blocking != INT_MIN && config->blocking != 0 && config->blocking != 1)
		return fail(NCCL_INVALID_ARGUMENT, "Invalid config blocking attribute value %d",
			    config->blocking);

	return init(comm, ranks, &id, rank, !config || config->blocking != 0);
}

static void forget(const struct comm *comm)
{
	(void)pthread_mutex_lock(&process.lock);
	for (size_t i = 0; i < COMM_LIVE_MAX; i++) {
		if (process.live[i] == comm)
			process.live[i] = NULL;
	}
	(void)pthread_mutex_unlock(&process.lock);
}

int ncclCommFinalize(ncclComm_t comm)
{
	int rc = check_comm(comm, "ncclCommFinalize");
	return rc == NCCL_SUCCESS ? comm_drain(comm) : rc;
}

int ncclCommDestroy(ncclComm_t comm)
{
	int rc = check_comm(comm, "ncclCommDestroy");
	if (rc != NCCL_SUCCESS)
		return rc;
	if (group.depth > 0)
		return comm_fail(comm, NCCL_INVALID_USAGE,
				 "ncclCommDestroy within a group that was never ended");
	if (atomic_load(&comm->under_way) > 0)
		return comm_fail(comm, NCCL_INVALID_USAGE,
				 "ncclCommDestroy while operations are under way");

	for (size_t i = 0; i < COMM_REGISTERED_MAX; i++) {
		if (comm->registered[i])
			return comm_fail(comm, NCCL_INVALID_USAGE,
					 "ncclCommDestroy while memory is registered");
	}

	forget(comm);
	comm_free(comm, atomic_load(&comm->state) != NCCL_SUCCESS);
	return NCCL_SUCCESS;
}

int ncclCommAbort(ncclComm_t comm)
{
	int rc = check_comm(comm, "ncclCommAbort");
	if (rc != NCCL_SUCCESS)
		return rc;
	forget(comm);
	comm_free(comm, true);
	return NCCL_SUCCESS;
}

int ncclCommGetAsyncError(ncclComm_t comm, int *error)
{
	int rc = check_comm(comm, "ncclCommGetAsyncError");
	if (rc == NCCL_SUCCESS && !error)
		return NCCL_INVALID_ARGUMENT;
	if (rc == NCCL_SUCCESS)
		*error = atomic_load(&comm->state);
	return rc;
}

int ncclCommCount(ncclComm_t comm, int *count)
{
	int rc = check_comm(comm, "ncclCommCount");
	if (rc == NCCL_SUCCESS && count)
		*count = (int)comm->ranks;
	return rc;
}

int ncclCommUserRank(ncclComm_t comm, int *rank)
{
	int rc = check_comm(comm, "ncclCommUserRank");
	if (rc == NCCL_SUCCESS && rank)
		*rank = (int)comm->rank;
	return rc;
}

int ncclMemAlloc(void **memory, size_t bytes)
{
	struct cuda_calls cuda;
	const char *problem = NULL;
	uint64_t address = 0;

	if (!memory || !cuda_load(&cuda, &problem))
		return fail(NCCL_INVALID_ARGUMENT, "ncclMemAlloc: %s", problem ? problem : "NULL");

	int rc = cuda.cuMemAlloc_v2(&address, bytes);
	if (rc != 0)
		return fail(NCCL_UNHANDLED_CUDA_ERROR, "ncclMemAlloc: Cuda failure %d", rc);

	size_t place = 0;

	(void)pthread_mutex_lock(&process.lock);

	while (place < MEMORY_MAX && process.memory[place])
		place++;

	if (place < MEMORY_MAX)
		process.memory[place] = (void *)(uintptr_t)address;
	(void)pthread_mutex_unlock(&process.lock);

	if (place == MEMORY_MAX) {
		(void)cuda.cuMemFree_v2(address);
		return fail(NCCL_SYSTEM_ERROR, "ncclMemAlloc: too many pieces of memory");
	}

	*memory = (void *)(uintptr_t)address;
	return NCCL_SUCCESS;
}

static bool is_registered(const void *memory)
{
	bool found = false;

	(void)pthread_mutex_lock(&process.lock);

	for (size_t i = 0; i < COMM_LIVE_MAX; i++) {
		for (size_t k = 0; process.live[i] && k < COMM_REGISTERED_MAX; k++)
			found = found || process.live[i]->registered[k] == memory;
	}

	(void)pthread_mutex_unlock(&process.lock);
	return found;
}

int ncclMemFree(void *memory)
{
	struct cuda_calls cuda;
	const char *problem = NULL;
	bool found = false;

	if (!memory)
		return NCCL_SUCCESS;
	if (is_registered(memory))
		return fail(NCCL_INVALID_USAGE, "ncclMemFree of memory that is still registered");

	(void)pthread_mutex_lock(&process.lock);

	for (size_t i = 0; i < MEMORY_MAX && !found; i++) {
		found = process.memory[i] == memory;
		if (found)
			process.memory[i] = NULL;
	}

	(void)pthread_mutex_unlock(&process.lock);
	if (!found)
		return fail(NCCL_INVALID_ARGUMENT, "ncclMemFree of what ncclMemAlloc did not give");
	if (!cuda_load(&cuda, &problem) || cuda.cuMemFree_v2((uint64_t)(uintptr_t)memory) != 0)
		return fail(NCCL_UNHANDLED_CUDA_ERROR, "ncclMemFree: Cuda failure");

	return NCCL_SUCCESS;
}

/* Whether operations may be called on it now. */
static int check_ready(struct comm *comm, const char *call)
{
	int rc = check_comm(comm, call);
	if (rc != NCCL_SUCCESS)
		return rc;

	int state = atomic_load(&comm->state);
	if (state == NCCL_IN_PROGRESS)
		return comm_fail(comm, NCCL_INVALID_USAGE,
				 "%s: the communicator is not ready: wait until "
				 "ncclCommGetAsyncError says so",
				 call);

	return state;
}

/* Whether all of it lies in one allocation. */
static bool is_of_gpu(const struct comm *comm, uint64_t address, size_t bytes)
{
	uint64_t begin = 0;
	size_t length = 0;
	if (bytes == 0)
		return true;
	return comm->cuda.cuMemGetAddressRange_v2(&begin, &length, address) == 0 &&
	       address - begin <= length && bytes <= length - (address - begin);
}

int ncclCommRegister(ncclComm_t comm, void *memory, size_t bytes, void **handle)
{
	int rc = check_ready(comm, "ncclCommRegister");
	if (rc != NCCL_SUCCESS)
		return rc;
	if (!handle || bytes == 0 || !is_of_gpu(comm, (uint64_t)(uintptr_t)memory, bytes))
		return comm_fail(comm, NCCL_INVALID_ARGUMENT,
				 "ncclCommRegister of what is no memory of the GPU");

	for (size_t i = 0; i < COMM_REGISTERED_MAX; i++) {
		if (comm->registered[i])
			continue;
		comm->registered[i] = memory;
		*handle = &comm->registered[i];
		return NCCL_SUCCESS;
	}

	return comm_fail(comm, NCCL_SYSTEM_ERROR, "ncclCommRegister: too many pieces of memory");
}

int ncclCommDeregister(ncclComm_t comm, void *handle)
{
	int rc = check_comm(comm, "ncclCommDeregister");
	if (rc != NCCL_SUCCESS)
		return rc;

	for (size_t i = 0; i < COMM_REGISTERED_MAX; i++) {
		if (handle == &comm->registered[i] && comm->registered[i]) {
			comm->registered[i] = NULL;
			return NCCL_SUCCESS;
		}
	}

	return comm_fail(comm, NCCL_INVALID_ARGUMENT, "ncclCommDeregister: no such registration");
}

int ncclGroupStart(void)
{
	group.depth++;
	return NCCL_SUCCESS;
}

/* What this rank sends to itself must be what it receives from itself, or it would wait for ever;
 * and all are of one communicator and one stream. */
static int check_group(struct comm *comm)
{
	size_t sent = 0, received = 0;

	for (size_t i = 0; i < group.count; i++) {
		const struct op *op = &group.ops[i];
		if (op->comm != comm || op->stream != group.ops[0].stream)
			return comm_fail(comm, NCCL_INVALID_USAGE,
					 "a group of several communicators or streams, which the "
					 "simulated library does not take");

		if (op->root != comm->rank)
			continue;

		sent += op->kind == COMM_SEND ? op->count * reduce_size(op->type) + 1 : 0;
		received += op->kind == COMM_RECEIVE ? op->count * reduce_size(op->type) + 1 : 0;
	}

	if (sent != received)
		return comm_fail(comm, NCCL_INVALID_USAGE,
				 "rank %u sends to itself what it does not receive", comm->rank);

	return NCCL_SUCCESS;
}

static int group_launch(void)
{
	struct comm *comm = group.ops[0].comm;
	int rc = check_group(comm);
	if (rc != NCCL_SUCCESS)
		return rc;

	struct job *job = calloc(1, sizeof(*job) + group.count * sizeof(struct op));
	if (!job)
		return NCCL_SYSTEM_ERROR;

	job->stream = group.ops[0].stream;
	job->count = group.count;
	memcpy(job->ops, group.ops, group.count * sizeof(struct op));

	return comm_submit(comm, job);
}

int ncclGroupEnd(void)
{
	if (group.depth == 0)
		return fail(NCCL_INVALID_USAGE, "ncclGroupEnd: not in a group call.");
	if (--group.depth > 0)
		return NCCL_SUCCESS;

	int rc = group.result;
	if (rc == NCCL_SUCCESS && group.count > 0)
		rc = group_launch();
	free(group.ops);
	group.ops = NULL;
	group.count = 0;
	group.result = NCCL_SUCCESS;

	return rc;
}

/* What an operation reads and writes must be there. */
static bool has_buffers(const struct op *op)
{
	const struct comm *comm = op->comm;
	size_t bytes = op->count * reduce_size(op->type);
	size_t sent = op->kind == COMM_REDUCE_SCATTER ? bytes * comm->ranks : bytes;
	size_t received = op->kind == COMM_ALL_GATHER ? bytes * comm->ranks : bytes;
	bool is_root = op->root == comm->rank;
	bool sends = op->kind != COMM_RECEIVE && (op->kind != COMM_BROADCAST || is_root);
	bool receives = op->kind != COMM_SEND && (op->kind != COMM_REDUCE || is_root);

	return (!sends || is_of_gpu(comm, op->send, sent)) &&
	       (!receives || is_of_gpu(comm, op->receive, received));
}

static int check_op(const struct op *op, const char *call)
{
	struct CUctx_st *context = NULL;
	struct comm *comm = op->comm;
	int rc = check_ready(comm, call);
	if (rc != NCCL_SUCCESS)
		return rc;

	if (op->root >= comm->ranks || reduce_size(op->type) == 0 || op->redop < 0 ||
	    op->redop >= NCCL_REDOP_COUNT || op->count > SIZE_MAX / 16 / comm->ranks)
		return comm_fail(comm, NCCL_INVALID_ARGUMENT,
				 "%s: count %zu, type %d, reduction %d, root or peer %u", call,
				 op->count, op->type, op->redop, op->root);

	if (comm->cuda.cuCtxGetCurrent(&context) != 0 || context != comm->context)
		return comm_fail(comm, NCCL_INVALID_USAGE,
				 "%s: the context that is current is not the communicator's", call);
	if (!has_buffers(op))
		return comm_fail(comm, NCCL_INVALID_ARGUMENT,
				 "%s: a buffer does not lie in memory of the GPU", call);

	int query = comm->cuda.cuStreamQuery(op->stream);
	if (query != 0 && query != 600)
		return comm_fail(comm, NCCL_INVALID_USAGE,
				 "%s: the stream is not one of this context (%d)", call, query);

	return NCCL_SUCCESS;
}

static int add_op(const struct op *op, const char *call)
{
	(void)ncclGroupStart();
	int rc = check_op(op, call);
	if (rc == NCCL_SUCCESS && group.count >= COMM_GROUP_MAX)
		rc = comm_fail(op->comm, NCCL_INVALID_USAGE, "more than %d calls in a group",
			       COMM_GROUP_MAX);

	if (rc == NCCL_SUCCESS) {
		struct op *more = realloc(group.ops, (group.count + 1) * sizeof(*more));
		if (more) {
			group.ops = more;
			group.ops[group.count++] = *op;
		} else {
			rc = NCCL_SYSTEM_ERROR;
		}
	}

	if (rc != NCCL_SUCCESS && group.result == NCCL_SUCCESS)
		group.result = rc;

	int end = ncclGroupEnd();
	return rc != NCCL_SUCCESS ? rc : end;
}

#define ADDRESS(pointer) ((uint64_t)(uintptr_t)(pointer))

int ncclAllReduce(const void *send, void *receive, size_t count, int type, int redop,
		  ncclComm_t comm, struct CUstream_st *stream)
{
	struct op op = {
	    COMM_ALL_REDUCE, ADDRESS(send), ADDRESS(receive), count, type, redop, 0, comm, stream};
	return add_op(&op, "ncclAllReduce");
}

int ncclReduce(const void *send, void *receive, size_t count, int type, int redop, int root,
	       ncclComm_t comm, struct CUstream_st *stream)
{
	struct op op = {COMM_REDUCE,	ADDRESS(send), ADDRESS(receive),
			count,		type,	       redop,
			(uint32_t)root, comm,	       stream};
	return add_op(&op, "ncclReduce");
}

int ncclReduceScatter(const void *send, void *receive, size_t receive_count, int type, int redop,
		      ncclComm_t comm, struct CUstream_st *stream)
{
	struct op op = {COMM_REDUCE_SCATTER,
			ADDRESS(send),
			ADDRESS(receive),
			receive_count,
			type,
			redop,
			0,
			comm,
			stream};
	return add_op(&op, "ncclReduceScatter");
}

int ncclAllGather(const void *send, void *receive, size_t send_count, int type, ncclComm_t comm,
		  struct CUstream_st *stream)
{
	struct op op = {
	    COMM_ALL_GATHER, ADDRESS(send), ADDRESS(receive), send_count, type, 0, 0, comm, stream};
	return add_op(&op, "ncclAllGather");
}

int ncclBroadcast(const void *send, void *receive, size_t count, int type, int root,
		  ncclComm_t comm, struct CUstream_st *stream)
{
	struct op op = {COMM_BROADCAST, ADDRESS(send), ADDRESS(receive),
			count,		type,	       0,
			(uint32_t)root, comm,	       stream};
	return add_op(&op, "ncclBroadcast");
}

int ncclSend(const void *send, size_t count, int type, int peer, ncclComm_t comm,
	     struct CUstream_st *stream)
{
	struct op op = {COMM_SEND, ADDRESS(send), 0, count, type, 0, (uint32_t)peer, comm, stream};
	return add_op(&op, "ncclSend");
}

int ncclRecv(void *receive, size_t count, int type, int peer, ncclComm_t comm,
	     struct CUstream_st *stream)
{
	struct op op = {COMM_RECEIVE, 0,     ADDRESS(receive), count, type, 0, (uint32_t)peer,
			comm,	      stream};
	return add_op(&op, "ncclRecv");
}

/* A communicator that nobody ended is a mistake of the program, which must not stay hidden. */
__attribute__((destructor)) static void look_for_leaks(void)
{
	for (size_t i = 0; i < COMM_LIVE_MAX; i++) {
		const struct comm *comm = process.live[i];
		if (!comm || comm->pid != getpid())
			continue;

		(void)fprintf(stderr,
			      "libnccl.so.2 (simulated): rank %u ended without ncclCommDestroy or "
			      "ncclCommAbort\n",
			      comm->rank);
		_exit(LEAK_EXIT);
	}
}
