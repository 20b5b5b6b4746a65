/* SPDX-License-Identifier: Apache-2.0 */
/* What an operation does: copies from the GPU, exchanges with the other ranks, copies back. */
#include "sim/nccl/comm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sim/nccl/reduce.h"
#include "sim/nccl/world.h"

struct comm_run {
	struct comm *comm;
	const struct op *op;
	size_t size; /* of an element */
	struct world_tag tag;
	uint8_t *own;	/* owned: what this rank brings, in host memory */
	uint8_t *heard; /* owned: what the others bring */
	uint8_t *sum;	/* owned */
	struct world_transfer transfer[2 * WORLD_RANKS_MAX];
	size_t transfers;
};

static int get(struct comm *comm, uint8_t *to, uint64_t from, size_t bytes)
{
	int rc = comm_get(comm, to, from, bytes);
	return rc == 0 ? NCCL_SUCCESS
		       : comm_fail(comm, NCCL_UNHANDLED_CUDA_ERROR,
				   "Cuda failure %d reading the send buffer %#llx", rc,
				   (unsigned long long)from);
}

static int put(struct comm *comm, uint64_t to, const uint8_t *from, size_t bytes)
{
	int rc = comm_put(comm, to, from, bytes);
	return rc == 0 ? NCCL_SUCCESS
		       : comm_fail(comm, NCCL_UNHANDLED_CUDA_ERROR,
				   "Cuda failure %d writing the receive buffer %#llx", rc,
				   (unsigned long long)to);
}

static void add(struct comm_run *run, uint32_t peer, bool is_send, uint8_t *data, size_t bytes)
{
	if (peer == run->comm->rank)
		return;
	run->transfer[run->transfers++] = (struct world_transfer){
	    .peer = peer, .is_send = is_send, .data = data, .bytes = bytes, .tag = run->tag};
}

static int move(struct comm_run *run)
{
	char problem[WORLD_PROBLEM_MAX] = "";
	struct comm *comm = run->comm;
	int rc = world_move(comm->world, run->transfer, run->transfers, &comm->stop, problem);
	run->transfers = 0;
	if (rc == NCCL_SUCCESS || rc == NCCL_IN_PROGRESS)
		return rc;
	return comm_fail(comm, rc, "%s", problem);
}

static bool make_room(struct comm_run *run, size_t own, size_t heard, size_t sum)
{
	run->own = malloc(own + 1);
	run->heard = malloc(heard + 1);
	run->sum = malloc(sum + 1);
	return run->own && run->heard && run->sum;
}

/* Bytes from the beginning to slice `part` of `count` elements in `ranks` slices. */
static size_t slice_at(const struct comm_run *run, size_t count, uint32_t part)
{
	return count / run->comm->ranks * part * run->size +
	       (part < count % run->comm->ranks ? part : count % run->comm->ranks) * run->size;
}

/* Each rank's slice of `own` from all ranks, reduced into `sum`. */
static int reduce_slices(struct comm_run *run, size_t count)
{
	const struct comm *comm = run->comm;
	const struct op *op = run->op;
	size_t begin = slice_at(run, count, comm->rank);
	size_t bytes = slice_at(run, count, comm->rank + 1) - begin;

	for (uint32_t peer = 0; peer < comm->ranks; peer++) {
		size_t at = slice_at(run, count, peer);
		add(run, peer, true, run->own + at, slice_at(run, count, peer + 1) - at);
		add(run, peer, false, run->heard + peer * bytes, bytes);
	}

	int rc = move(run);

	for (uint32_t peer = 0; rc == NCCL_SUCCESS && peer < comm->ranks; peer++) {
		const uint8_t *part =
		    peer == comm->rank ? run->own + begin : run->heard + peer * bytes;

		if (peer == 0)
			memcpy(run->sum, part, bytes);
		else
			reduce_step(run->sum, part, bytes / run->size, op->type, op->redop);
	}

	reduce_finish(run->sum, bytes / run->size, op->type, op->redop, comm->ranks);
	return rc;
}

/* Every rank's slice, which `own` has in its place, to all. */
static int gather_slices(struct comm_run *run, size_t count)
{
	const struct comm *comm = run->comm;
	size_t begin = slice_at(run, count, comm->rank);
	size_t bytes = slice_at(run, count, comm->rank + 1) - begin;

	for (uint32_t peer = 0; peer < comm->ranks; peer++) {
		size_t at = slice_at(run, count, peer);
		add(run, peer, true, run->own + begin, bytes);
		add(run, peer, false, run->own + at, slice_at(run, count, peer + 1) - at);
	}

	return move(run);
}

static int run_all_reduce(struct comm_run *run)
{
	const struct op *op = run->op;
	struct comm *comm = run->comm;
	size_t bytes = op->count * run->size, slice = bytes / comm->ranks + run->size;

	if (!make_room(run, bytes, slice * comm->ranks, slice))
		return NCCL_SYSTEM_ERROR;

	int rc = get(comm, run->own, op->send, bytes);
	reduce_prepare(run->own, rc ? 0 : op->count, op->type, op->redop, comm->ranks);
	if (rc == NCCL_SUCCESS)
		rc = reduce_slices(run, op->count);
	if (rc != NCCL_SUCCESS)
		return rc;

	size_t begin = slice_at(run, op->count, comm->rank);
	memcpy(run->own + begin, run->sum, slice_at(run, op->count, comm->rank + 1) - begin);
	rc = gather_slices(run, op->count);

	return rc == NCCL_SUCCESS ? put(comm, op->receive, run->own, bytes) : rc;
}

static int run_reduce_scatter(struct comm_run *run)
{
	const struct op *op = run->op;
	struct comm *comm = run->comm;
	size_t bytes = op->count * run->size, all = bytes * comm->ranks;

	if (!make_room(run, all, all, bytes))
		return NCCL_SYSTEM_ERROR;

	int rc = get(comm, run->own, op->send, all);
	reduce_prepare(run->own, rc ? 0 : op->count * comm->ranks, op->type, op->redop,
		       comm->ranks);
	if (rc == NCCL_SUCCESS)
		rc = reduce_slices(run, op->count * comm->ranks);

	return rc == NCCL_SUCCESS ? put(comm, op->receive, run->sum, bytes) : rc;
}

static int run_all_gather(struct comm_run *run)
{
	const struct op *op = run->op;
	struct comm *comm = run->comm;
	size_t bytes = op->count * run->size, all = bytes * comm->ranks;

	if (!make_room(run, all, 0, 0))
		return NCCL_SYSTEM_ERROR;

	int rc = get(comm, run->own + comm->rank * bytes, op->send, bytes);
	if (rc == NCCL_SUCCESS)
		rc = gather_slices(run, op->count * comm->ranks);

	return rc == NCCL_SUCCESS ? put(comm, op->receive, run->own, all) : rc;
}

static int run_broadcast(struct comm_run *run)
{
	const struct op *op = run->op;
	struct comm *comm = run->comm;
	size_t bytes = op->count * run->size;

	if (!make_room(run, bytes, 0, 0))
		return NCCL_SYSTEM_ERROR;

	int rc = op->root == comm->rank ? get(comm, run->own, op->send, bytes) : NCCL_SUCCESS;

	for (uint32_t peer = 0; op->root == comm->rank && peer < comm->ranks; peer++)
		add(run, peer, true, run->own, bytes);

	if (op->root != comm->rank)
		add(run, op->root, false, run->own, bytes);
	if (rc == NCCL_SUCCESS)
		rc = move(run);

	return rc == NCCL_SUCCESS ? put(comm, op->receive, run->own, bytes) : rc;
}

static int run_reduce(struct comm_run *run)
{
	const struct op *op = run->op;
	struct comm *comm = run->comm;
	size_t bytes = op->count * run->size;
	bool is_root = op->root == comm->rank;

	if (!make_room(run, bytes, is_root ? bytes * comm->ranks : 0, bytes))
		return NCCL_SYSTEM_ERROR;

	int rc = get(comm, run->own, op->send, bytes);
	if (rc != NCCL_SUCCESS)
		return rc;

	reduce_prepare(run->own, op->count, op->type, op->redop, comm->ranks);

	for (uint32_t peer = 0; is_root && peer < comm->ranks; peer++)
		add(run, peer, false, run->heard + peer * bytes, bytes);

	if (!is_root)
		add(run, op->root, true, run->own, bytes);
	rc = move(run);
	if (rc != NCCL_SUCCESS || !is_root)
		return rc;

	for (uint32_t peer = 0; peer < comm->ranks; peer++) {
		const uint8_t *part = peer == comm->rank ? run->own : run->heard + peer * bytes;
		if (peer == 0)
			memcpy(run->sum, part, bytes);
		else
			reduce_step(run->sum, part, op->count, op->type, op->redop);
	}

	reduce_finish(run->sum, op->count, op->type, op->redop, comm->ranks);
	return put(comm, op->receive, run->sum, bytes);
}

static int run_collective(struct comm *comm, const struct op *op)
{
	struct comm_run *run = calloc(1, sizeof(*run));
	int rc = NCCL_SYSTEM_ERROR;

	if (!run)
		return rc;

	run->comm = comm;
	run->op = op;
	run->size = reduce_size(op->type);
	run->tag = (struct world_tag){.kind = op->kind,
				      .type = (uint32_t)op->type,
				      .redop = (uint32_t)op->redop,
				      .root = op->root,
				      .count = op->count,
				      .number = ++comm->number};

	switch (op->kind) {
	case COMM_ALL_REDUCE:
		rc = run_all_reduce(run);
		break;
	case COMM_REDUCE:
		rc = run_reduce(run);
		break;
	case COMM_REDUCE_SCATTER:
		rc = run_reduce_scatter(run);
		break;
	case COMM_ALL_GATHER:
		rc = run_all_gather(run);
		break;
	case COMM_BROADCAST:
		rc = run_broadcast(run);
		break;
	default:
		break;
	}
	free(run->own);
	free(run->heard);
	free(run->sum);
	free(run);

	return rc;
}

/* Sends and receives that stand beside each other: all at once. */
static int run_exchange(struct comm *comm, const struct op *ops, size_t count)
{
	char problem[WORLD_PROBLEM_MAX] = "";
	struct world_transfer *transfer = calloc(count, sizeof(*transfer));
	int rc = transfer ? NCCL_SUCCESS : NCCL_SYSTEM_ERROR;

	for (size_t i = 0; rc == NCCL_SUCCESS && i < count; i++) {
		size_t bytes = ops[i].count * reduce_size(ops[i].type);
		transfer[i] = (struct world_transfer){.peer = ops[i].root,
						      .is_send = ops[i].kind == COMM_SEND,
						      .data = malloc(bytes + 1),
						      .bytes = bytes,
						      .tag = {.kind = COMM_SEND,
							      .type = (uint32_t)ops[i].type,
							      .count = ops[i].count}};
		if (!transfer[i].data)
			rc = NCCL_SYSTEM_ERROR;
		else if (transfer[i].is_send)
			rc = get(comm, transfer[i].data, ops[i].send, bytes);
	}

	if (rc == NCCL_SUCCESS) {
		rc = world_move(comm->world, transfer, count, &comm->stop, problem);
		if (rc != NCCL_SUCCESS && rc != NCCL_IN_PROGRESS)
			(void)comm_fail(comm, rc, "%s", problem);
	}

	for (size_t i = 0; rc == NCCL_SUCCESS && i < count; i++) {
		if (!transfer[i].is_send)
			rc = put(comm, ops[i].receive, transfer[i].data, transfer[i].bytes);
	}

	for (size_t i = 0; transfer && i < count; i++)
		free(transfer[i].data);

	free(transfer);
	return rc;
}

static size_t bytes_sent(const struct comm *comm, const struct op *op)
{
	size_t each = op->kind == COMM_REDUCE_SCATTER ? comm->ranks : 1;
	return op->kind == COMM_RECEIVE ? 0 : op->count * reduce_size(op->type) * each;
}

/* Bytes that pass this rank's links, as nccl-tests' factors have it. */
static double bytes_moved(const struct comm *comm, const struct op *op)
{
	double bytes = (double)(op->count * reduce_size(op->type)), n = comm->ranks;

	switch (op->kind) {
	case COMM_ALL_REDUCE:
		return bytes * 2 * (n - 1) / n;
	case COMM_REDUCE_SCATTER:
	case COMM_ALL_GATHER:
		return bytes * (n - 1);
	case COMM_RECEIVE:
		return 0;
	default:
		return bytes;
	}
}

static int fault_at(struct comm *comm, size_t bytes)
{
	if (bytes >= comm->fault.async_bytes)
		return comm_fail(comm, NCCL_REMOTE_ERROR,
				 "simulated fault: remote process exited or there was a network "
				 "error");

	if (bytes < comm->fault.hang_bytes)
		return NCCL_SUCCESS;

	while (!atomic_load(&comm->stop))
		(void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);

	return NCCL_IN_PROGRESS;
}

/* Spoils one element of what this rank has got. */
static int spoil(struct comm *comm, const struct op *op)
{
	size_t size = reduce_size(op->type);
	size_t count = op->kind == COMM_ALL_GATHER ? op->count * comm->ranks : op->count;
	uint64_t element = comm->fault.wrong_element, at = op->receive + element * size;
	uint8_t byte = 0;

	if (!comm->fault.has_wrong || comm->fault.wrong_rank != comm->rank || element >= count ||
	    op->kind == COMM_SEND || (op->kind == COMM_REDUCE && op->root != comm->rank))
		return NCCL_SUCCESS;

	int rc = get(comm, &byte, at, 1);
	byte ^= 1;
	return rc == NCCL_SUCCESS ? put(comm, at, &byte, 1) : rc;
}

int comm_run(struct comm *comm, const struct job *job, uint64_t *out_ns)
{
	int rc = NCCL_SUCCESS;
	double moved = 0;
	size_t sent = 0;

	for (size_t i = 0; i < job->count; i++) {
		moved += bytes_moved(comm, &job->ops[i]);
		sent += bytes_sent(comm, &job->ops[i]);
	}

	rc = fault_at(comm, sent);
	for (size_t i = 0; rc == NCCL_SUCCESS && i < job->count;) {
		size_t after = i;
		while (after < job->count && job->ops[after].kind >= COMM_SEND)
			after++;

		if (after > i) {
			rc = run_exchange(comm, &job->ops[i], after - i);
			i = after;
		} else {
			rc = run_collective(comm, &job->ops[i++]);
		}
	}

	for (size_t i = 0; rc == NCCL_SUCCESS && i < job->count; i++)
		rc = spoil(comm, &job->ops[i]);

	*out_ns = comm->report.latency_ns + (uint64_t)(moved / comm->report.bytes_per_ns);
	return rc;
}
