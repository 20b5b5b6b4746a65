/* SPDX-License-Identifier: Apache-2.0 */
/* The operations: those that NCCL has, and those that are made of its sends and receives. */
#include <errno.h>

#include "base/err.h"
#include "bench/collectives/nccl/nccl_private.h"

/* One operation under way. */
struct nccl_launch {
	struct nccl_backend *nccl;
	const struct backend_call *call;
	int type;    /* NCCL's */
	size_t size; /* bytes of an element */
	int result;  /* the first that was not NCCL_OK; NCCL_IN_PROGRESS is taken as such */
};

static int type_of(enum collective_type type)
{
	static const int number[COLLECTIVE_TYPE_COUNT] = {
	    [COLLECTIVE_I8] = 0,  [COLLECTIVE_U8] = 1,	[COLLECTIVE_I32] = 2, [COLLECTIVE_U32] = 3,
	    [COLLECTIVE_I64] = 4, [COLLECTIVE_U64] = 5, [COLLECTIVE_F16] = 6, [COLLECTIVE_F32] = 7,
	    [COLLECTIVE_F64] = 8, [COLLECTIVE_BF16] = 9};
	return number[type];
}

static int redop_of(enum collective_redop redop)
{
	static const int number[COLLECTIVE_REDOP_COUNT] = {[COLLECTIVE_SUM] = 0,
							   [COLLECTIVE_PROD] = 1,
							   [COLLECTIVE_MAX] = 2,
							   [COLLECTIVE_MIN] = 3,
							   [COLLECTIVE_AVG] = 4};
	return number[redop];
}

static void note(struct nccl_launch *launch, int rc)
{
	if (launch->result == NCCL_OK && rc != NCCL_IN_PROGRESS)
		launch->result = rc;
}

static void send_to(struct nccl_launch *launch, const void *from, uint64_t count, uint32_t peer)
{
	struct nccl_backend *nccl = launch->nccl;
	if (count > 0)
		note(launch, nccl->call.ncclSend(from, count, launch->type, (int)peer, nccl->comm,
						 nccl->stream));
}

static void receive_from(struct nccl_launch *launch, void *to, uint64_t count, uint32_t peer)
{
	struct nccl_backend *nccl = launch->nccl;
	if (count > 0)
		note(launch, nccl->call.ncclRecv(to, count, launch->type, (int)peer, nccl->comm,
						 nccl->stream));
}

static const char *send_at(const struct nccl_launch *launch, uint64_t element)
{
	return (const char *)launch->call->send + element * launch->size;
}

static char *receive_at(const struct nccl_launch *launch, uint64_t element)
{
	return (char *)launch->call->receive + element * launch->size;
}

/* Each with each: `count` elements, in the order of the ranks. */
static void alltoall(struct nccl_launch *launch)
{
	const struct collective_shape *shape = launch->call->shape;
	for (uint32_t peer = 0; peer < launch->nccl->backend.ranks; peer++) {
		uint64_t at = peer * shape->param_count;
		send_to(launch, send_at(launch, at), shape->param_count, peer);
		receive_from(launch, receive_at(launch, at), shape->param_count, peer);
	}
}

/* Packed in the order of the ranks, on both sides. */
static void alltoallv(struct nccl_launch *launch)
{
	const struct collective_shape *shape = launch->call->shape;
	uint32_t rank = launch->nccl->backend.rank, ranks = launch->nccl->backend.ranks;
	uint64_t sent = 0, received = 0;

	for (uint32_t peer = 0; peer < ranks; peer++) {
		uint64_t to = collective_v_count(shape, ranks, rank, peer);
		uint64_t from = collective_v_count(shape, ranks, peer, rank);

		send_to(launch, send_at(launch, sent), to, peer);
		receive_from(launch, receive_at(launch, received), from, peer);
		sent += to;
		received += from;
	}
}

static void gather(struct nccl_launch *launch)
{
	uint32_t rank = launch->nccl->backend.rank, ranks = launch->nccl->backend.ranks;
	uint64_t count = launch->call->shape->param_count;
	send_to(launch, launch->call->send, count, launch->call->root);
	for (uint32_t peer = 0; rank == launch->call->root && peer < ranks; peer++)
		receive_from(launch, receive_at(launch, peer * count), count, peer);
}

static void scatter(struct nccl_launch *launch)
{
	uint32_t rank = launch->nccl->backend.rank, ranks = launch->nccl->backend.ranks;
	uint64_t count = launch->call->shape->param_count;
	for (uint32_t peer = 0; rank == launch->call->root && peer < ranks; peer++)
		send_to(launch, send_at(launch, peer * count), count, peer);
	receive_from(launch, launch->call->receive, count, launch->call->root);
}

static void ring(struct nccl_launch *launch)
{
	uint32_t rank = launch->nccl->backend.rank, ranks = launch->nccl->backend.ranks;
	uint64_t count = launch->call->shape->param_count;
	send_to(launch, launch->call->send, count, (rank + 1) % ranks);
	receive_from(launch, launch->call->receive, count, (rank + ranks - 1) % ranks);
}

static int group(struct nccl_launch *launch, void (*fill)(struct nccl_launch *launch))
{
	struct nccl_calls *call = &launch->nccl->call;
	note(launch, call->ncclGroupStart());
	fill(launch);
	int end = call->ncclGroupEnd();
	return launch->result != NCCL_OK ? launch->result : end;
}

/* As nccl-tests does it: what is known doubles with each dimension. */
static int hypercube(struct nccl_launch *launch, struct err *err)
{
	struct nccl_backend *nccl = launch->nccl;
	uint32_t rank = nccl->backend.rank, ranks = nccl->backend.ranks;
	uint64_t count = launch->call->shape->param_count;
	char *own = receive_at(launch, rank * count);

	if ((ranks & (ranks - 1)) != 0)
		return err_set(err, -EOPNOTSUPP,
			       "hypercube needs a power of two of ranks, %u are there", ranks);

	if (own != launch->call->send && count > 0) {
		int rc = nccl->driver.call.cuMemcpyDtoDAsync(
		    (uint64_t)(uintptr_t)own, (uint64_t)(uintptr_t)launch->call->send,
		    count * launch->size, nccl->stream);
		if (rc != CUDA_OK)
			return driver_fail(&nccl->driver, rc, err, "rank %u: copying its part",
					   rank);
	}

	for (uint32_t bit = 1; bit < ranks; bit <<= 1) {
		uint32_t known = rank & ~(bit - 1), missing = known ^ bit;

		note(launch, nccl->call.ncclGroupStart());
		send_to(launch, receive_at(launch, known * count), count * bit, rank ^ bit);
		receive_from(launch, receive_at(launch, missing * count), count * bit, rank ^ bit);

		int end = nccl->call.ncclGroupEnd();
		int rc = nccl_settle(nccl, launch->result != NCCL_OK ? launch->result : end,
				     nccl->backend.timeout_ns, err, "ncclSend and ncclRecv");
		if (rc < 0)
			return rc;
	}

	return 0;
}

static int start(struct nccl_launch *launch, const char **out_name)
{
	const struct backend_call *call = launch->call;
	struct nccl_backend *nccl = launch->nccl;
	uint64_t count = call->shape->param_count;
	int type = launch->type, redop = redop_of(call->redop), root = (int)call->root;

	switch (call->op) {
	case COLLECTIVE_ALL_REDUCE:
		*out_name = "ncclAllReduce";
		return nccl->call.ncclAllReduce(call->send, call->receive, count, type, redop,
						nccl->comm, nccl->stream);
	case COLLECTIVE_REDUCE_SCATTER:
		*out_name = "ncclReduceScatter";
		return nccl->call.ncclReduceScatter(call->send, call->receive, count, type, redop,
						    nccl->comm, nccl->stream);
	case COLLECTIVE_ALL_GATHER:
		*out_name = "ncclAllGather";
		return nccl->call.ncclAllGather(call->send, call->receive, count, type, nccl->comm,
						nccl->stream);
	case COLLECTIVE_BROADCAST:
		*out_name = "ncclBroadcast";
		return nccl->call.ncclBroadcast(call->send, call->receive, count, type, root,
						nccl->comm, nccl->stream);
	case COLLECTIVE_REDUCE:
		*out_name = "ncclReduce";
		return nccl->call.ncclReduce(call->send, call->receive, count, type, redop, root,
					     nccl->comm, nccl->stream);
	case COLLECTIVE_ALLTOALL:
		return group(launch, alltoall);
	case COLLECTIVE_ALLTOALLV:
		return group(launch, alltoallv);
	case COLLECTIVE_GATHER:
		return group(launch, gather);
	case COLLECTIVE_SCATTER:
		return group(launch, scatter);
	case COLLECTIVE_SENDRECV:
		return group(launch, ring);
	case COLLECTIVE_HYPERCUBE:
	case COLLECTIVE_OP_COUNT:
		break;
	}

	return NCCL_OK;
}

static bool is_made_of_sends(enum collective_op op)
{
	return op != COLLECTIVE_ALL_REDUCE && op != COLLECTIVE_REDUCE_SCATTER &&
	       op != COLLECTIVE_ALL_GATHER && op != COLLECTIVE_BROADCAST && op != COLLECTIVE_REDUCE;
}

int nccl_run(struct backend *backend, const struct backend_call *call, struct err *err)
{
	struct nccl_backend *nccl = nccl_of(backend);
	struct nccl_launch launch = {.nccl = nccl,
				     .call = call,
				     .type = type_of(call->type),
				     .size = collective_type_size(call->type)};
	const char *name = "ncclSend and ncclRecv";
	char version[32];

	if (atomic_load(&nccl->is_aborted))
		return err_set(err, -EPIPE, "rank %u: the communicator was aborted", backend->rank);
	if (is_made_of_sends(call->op) && (!nccl->call.ncclSend || !nccl->call.ncclRecv))
		return err_set(err, -EOPNOTSUPP, "%s has no ncclSend and ncclRecv (2.7 has)",
			       nccl_version_to_string(nccl->version, version));

	if ((call->type == COLLECTIVE_BF16 ||
	     (collective_op_reduces(call->op) && call->redop == COLLECTIVE_AVG)) &&
	    nccl->version < NCCL_VERSION_AVG)
		return err_set(err, -EOPNOTSUPP, "%s has no %s (2.10 has)",
			       nccl_version_to_string(nccl->version, version),
			       call->type == COLLECTIVE_BF16 ? "bfloat16" : "average");

	if (call->op == COLLECTIVE_HYPERCUBE)
		return hypercube(&launch, err);

	int rc = start(&launch, &name);
	return nccl_settle(nccl, rc, backend->timeout_ns, err, name);
}
