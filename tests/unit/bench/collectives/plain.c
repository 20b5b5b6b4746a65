/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/bench/collectives/plain.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/err.h"
#include "bench/collectives/element.h"
#include "bench/half.h"

enum {
	ARENA_BYTES = 8 << 20, /* of one rank */
	DEVICE_SHIFT = 60,     /* no such address can be read */
};

static void store_float(enum collective_type type, double value, void *out)
{
	float single = (float)value;
	uint16_t half =
	    type == COLLECTIVE_F16 ? half_from_float(single) : element_bf16_from_f32(single);
	if (type == COLLECTIVE_F64)
		memcpy(out, &value, sizeof(value));
	else if (type == COLLECTIVE_F32)
		memcpy(out, &single, sizeof(single));
	else
		memcpy(out, &half, sizeof(half));
}

static void combine_float(enum collective_type type, enum collective_redop redop, void *left,
			  const void *right)
{
	double a = element_value(type, left), b = element_value(type, right), all;
	if (redop == COLLECTIVE_PROD)
		all = a * b;
	else if (redop == COLLECTIVE_MIN)
		all = a < b ? a : b;
	else if (redop == COLLECTIVE_MAX)
		all = a > b ? a : b;
	else
		all = a + b;
	store_float(type, all, left);
}

void plain_combine(enum collective_type type, enum collective_redop redop, void *left,
		   const void *right)
{
	if (element_is_float(type)) {
		combine_float(type, redop, left, right);
		return;
	}
	size_t size = collective_type_size(type);
	uint64_t a = 0, b = 0, flip = element_is_unsigned(type) ? 0 : UINT64_C(1) << (size * 8 - 1);
	memcpy(&a, left, size);
	memcpy(&b, right, size);
	if (redop == COLLECTIVE_PROD)
		a *= b;
	else if (redop == COLLECTIVE_MIN)
		a = (a ^ flip) < (b ^ flip) ? a : b;
	else if (redop == COLLECTIVE_MAX)
		a = (a ^ flip) > (b ^ flip) ? a : b;
	else
		a += b;
	memcpy(left, &a, size);
}

void plain_divide(enum collective_type type, uint32_t ranks, void *element)
{
	size_t size = collective_type_size(type);
	uint64_t bits = 0;
	if (element_is_float(type)) {
		store_float(type, element_value(type, element) / ranks, element);
		return;
	}
	memcpy(&bits, element, size);
	if (element_is_unsigned(type)) {
		bits /= ranks;
	} else {
		uint32_t unused = (uint32_t)(64 - size * 8);
		bits = (uint64_t)(((int64_t)(bits << unused) >> unused) / (int64_t)ranks);
	}
	memcpy(element, &bits, size);
}

static void reduce(const struct backend_call *call, const void *const *sent, uint32_t ranks,
		   size_t first, uint64_t count, uint8_t *out)
{
	size_t size = collective_type_size(call->type);
	for (uint64_t i = 0; i < count; i++) {
		uint8_t *element = out + i * size;
		memcpy(element, (const uint8_t *)sent[0] + (first + i) * size, size);
		for (uint32_t r = 1; r < ranks; r++)
			plain_combine(call->type, call->redop, element,
				      (const uint8_t *)sent[r] + (first + i) * size);
		if (call->redop == COLLECTIVE_AVG)
			plain_divide(call->type, ranks, element);
	}
}

static void exchange_v(const struct backend_call *call, const void *const *sent, uint32_t ranks,
		       uint32_t rank, uint8_t *out)
{
	size_t size = collective_type_size(call->type);
	for (uint32_t from = 0; from < ranks; from++) {
		size_t bytes = collective_v_count(call->shape, ranks, from, rank) * size, at = 0;
		for (uint32_t to = 0; to < rank; to++)
			at += collective_v_count(call->shape, ranks, from, to) * size;
		memcpy(out, (const uint8_t *)sent[from] + at, bytes);
		out += bytes;
	}
}

void plain_result(const struct backend_call *call, const void *const *sent, uint32_t ranks,
		  uint32_t rank, uint8_t *out)
{
	const struct collective_shape *shape = call->shape;
	size_t part = shape->param_count * collective_type_size(call->type);
	const uint8_t *root = sent[call->root];
	switch (call->op) {
	case COLLECTIVE_ALL_REDUCE:
	case COLLECTIVE_REDUCE:
		reduce(call, sent, ranks, 0, shape->param_count, out);
		break;
	case COLLECTIVE_REDUCE_SCATTER:
		reduce(call, sent, ranks, rank * shape->param_count, shape->param_count, out);
		break;
	case COLLECTIVE_ALL_GATHER:
	case COLLECTIVE_GATHER:
	case COLLECTIVE_HYPERCUBE:
		for (uint32_t from = 0; from < ranks; from++)
			memcpy(out + from * part, sent[from], part);
		break;
	case COLLECTIVE_ALLTOALL:
		for (uint32_t from = 0; from < ranks; from++)
			memcpy(out + from * part, (const uint8_t *)sent[from] + rank * part, part);
		break;
	case COLLECTIVE_ALLTOALLV:
		exchange_v(call, sent, ranks, rank, out);
		break;
	case COLLECTIVE_SCATTER:
		memcpy(out, root + rank * part, part);
		break;
	case COLLECTIVE_BROADCAST:
		memcpy(out, root, part);
		break;
	case COLLECTIVE_SENDRECV:
		memcpy(out, sent[(rank + ranks - 1) % ranks], part);
		break;
	case COLLECTIVE_OP_COUNT:
		break;
	}
}

struct plain_world {
	struct plain_options options;
	_Atomic uint32_t arrived, round, started;
	_Atomic bool is_aborted;
	const void *sent[PLAIN_RANKS_MAX]; /* between two barriers */
	_Atomic uint64_t operations[PLAIN_RANKS_MAX];
	uint8_t shared[PLAIN_RANKS_MAX][BACKEND_SHARE_MAX];
	size_t bytes; /* of all this */
	_Alignas(4096) uint8_t arena[];
};

struct plain_backend {
	struct backend backend;
	struct plain_world *world;
	size_t used; /* of this rank's arena */
	uint32_t buffers;
};

struct plain_world *plain_world_new(const struct plain_options *options)
{
	size_t bytes = sizeof(struct plain_world) + (size_t)options->ranks * ARENA_BYTES;
	struct plain_world *world =
	    mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (world == MAP_FAILED)
		return NULL;
	world->options = *options;
	world->bytes = bytes;
	return world;
}

struct plain_world *plain_world_free(struct plain_world *world)
{
	if (world)
		(void)munmap(world, world->bytes);
	return NULL;
}

uint32_t plain_world_started(const struct plain_world *world)
{
	return world->started;
}

bool plain_world_is_aborted(const struct plain_world *world)
{
	return world->is_aborted;
}

static struct plain_backend *plain_of(struct backend *backend)
{
	return (struct plain_backend *)backend;
}

static uint8_t *readable(struct plain_world *world, const void *address)
{
	uintptr_t shift = world->options.is_device ? (uintptr_t)1 << DEVICE_SHIFT : 0;
	return (uint8_t *)((uintptr_t)address - shift);
}

/* From the end of an arena that starts anew when nothing of it is used. */
static int plain_alloc(struct backend *backend, enum backend_memory memory, size_t bytes,
		       void **out, struct err *err)
{
	struct plain_backend *self = plain_of(backend);
	if (memory == BACKEND_REGISTERED && self->world->options.is_device)
		return err_set(err, -EOPNOTSUPP, "no registered memory");
	bytes = (bytes + 4095) & ~(size_t)4095;
	if (bytes > ARENA_BYTES - self->used)
		return err_set(err, -ENOMEM, "rank %u has no %zu bytes", backend->rank, bytes);
	uint8_t *at = self->world->arena + (size_t)backend->rank * ARENA_BYTES + self->used;
	memset(at, 0, bytes);
	self->used += bytes;
	self->buffers++;
	uintptr_t shift = self->world->options.is_device ? (uintptr_t)1 << DEVICE_SHIFT : 0;
	*out = (void *)((uintptr_t)at + shift);
	return 0;
}

static void plain_free(struct backend *backend, void *memory)
{
	struct plain_backend *self = plain_of(backend);
	*(volatile uint8_t *)readable(self->world, memory) = 1; /* as an allocator does */
	if (--self->buffers == 0)
		self->used = 0;
}

static int plain_put(struct backend *backend, void *to, const void *from, size_t bytes,
		     struct err *err)
{
	memcpy(readable(plain_of(backend)->world, to), from, bytes);
	return 0;
}

static int plain_get(struct backend *backend, void *to, const void *from, size_t bytes,
		     struct err *err)
{
	memcpy(to, readable(plain_of(backend)->world, from), bytes);
	return 0;
}

static int plain_barrier(struct backend *backend, struct err *err)
{
	struct plain_world *world = plain_of(backend)->world;
	uint32_t round = world->round;
	if (atomic_fetch_add(&world->arrived, 1) + 1 == world->options.ranks) {
		world->arrived = 0;
		world->round = round + 1;
		return 0;
	}
	while (world->round == round) {
		if (world->is_aborted)
			return err_set(err, -EPIPE, "rank %u: another rank is gone", backend->rank);
		(void)sched_yield();
	}
	return 0;
}

static int fail_now(struct plain_world *world, uint32_t rank, struct err *err)
{
	switch (world->options.fault) {
	case PLAIN_ERROR:
		return err_set(err, -EIO, "rank %u fails as it was told", rank);
	case PLAIN_STALL:
		while (!world->is_aborted)
			(void)sched_yield();
		return err_set(err, -EPIPE, "rank %u was aborted", rank);
	case PLAIN_HANG:
		for (;;)
			(void)pause();
	case PLAIN_STOP:
		(void)raise(SIGSTOP);
		return 0;
	case PLAIN_KILL:
		(void)raise(SIGKILL);
		return 0;
	case PLAIN_EXIT:
		_exit(3);
	default:
		return 0;
	}
}

/* After a right result. */
static void spoil(const struct plain_options *options, const struct backend_call *call,
		  uint8_t *send, uint8_t *receive)
{
	size_t size = collective_type_size(call->type);
	if (options->fault == PLAIN_WRONG_ELEMENT)
		receive[options->fault_at * size] ^= 1;
	if (options->fault == PLAIN_SOURCE)
		send[options->fault_at * size] ^= 1;
	if (options->fault == PLAIN_BEFORE)
		receive[-1] ^= 1;
	if (options->fault == PLAIN_BEHIND)
		receive[call->shape->receive_count * size] ^= 1;
}

/* In place: whether input and result lie to each other as nccl-tests has them. */
static bool is_well_placed(const struct backend_call *call, uint32_t rank)
{
	size_t part = call->shape->param_count * collective_type_size(call->type) * rank;
	uintptr_t send = (uintptr_t)call->send, receive = (uintptr_t)call->receive;
	switch (call->op) {
	case COLLECTIVE_ALL_GATHER:
	case COLLECTIVE_GATHER:
	case COLLECTIVE_HYPERCUBE:
		return send == receive + part;
	case COLLECTIVE_REDUCE_SCATTER:
	case COLLECTIVE_SCATTER:
		return receive == send + part;
	default:
		return send == receive;
	}
}

/* Out of place the buffers are others, a page of guards away at least. */
static bool is_placed(const struct backend_call *call, uint32_t rank)
{
	size_t size = collective_type_size(call->type);
	uintptr_t send = (uintptr_t)call->send, receive = (uintptr_t)call->receive;
	bool is_apart = send + call->shape->send_count * size + 4096 <= receive ||
			receive + call->shape->receive_count * size + 4096 <= send;
	return is_apart || is_well_placed(call, rank);
}

static int plain_run(struct backend *backend, const struct backend_call *call, struct err *err)
{
	struct plain_world *world = plain_of(backend)->world;
	const struct plain_options *options = &world->options;
	uint32_t rank = backend->rank;
	bool fails = options->fault != PLAIN_RIGHT && options->fault_rank == rank &&
		     world->operations[rank] >= options->fault_operation;
	size_t bytes = call->shape->receive_count * collective_type_size(call->type);
	uint8_t *send = readable(world, call->send), *receive = readable(world, call->receive);
	bool is_root = rank == call->root;
	bool has_result =
	    is_root || (call->op != COLLECTIVE_REDUCE && call->op != COLLECTIVE_GATHER);
	if (world->operations[rank] == 0)
		atomic_fetch_add(&world->started, 1);
	int rc = fails ? fail_now(world, rank, err) : 0;
	if (rc == 0 && !is_placed(call, rank))
		return err_set(err, -EINVAL, "rank %u: input and result are misplaced", rank);
	if (rc < 0)
		return rc;
	uint8_t *result = malloc(bytes + 1);
	if (!result)
		return err_set(err, -ENOMEM, "no memory for a result");
	world->sent[rank] = send;
	rc = plain_barrier(backend, err);
	if (rc >= 0)
		plain_result(call, world->sent, options->ranks, rank, result);
	if (rc >= 0) /* in place: only once all have read */
		rc = plain_barrier(backend, err);
	if (rc >= 0 && has_result && !(fails && options->fault == PLAIN_STALE))
		memcpy(receive, result, bytes);
	if (rc >= 0 && fails)
		spoil(options, call, send, receive);
	free(result);
	world->operations[rank]++;
	return rc;
}

static int plain_sync(struct backend *backend, struct err *err)
{
	return 0;
}

static int plain_share(struct backend *backend, const void *mine, void *all, size_t bytes,
		       struct err *err)
{
	struct plain_world *world = plain_of(backend)->world;
	if (bytes > BACKEND_SHARE_MAX)
		return err_set(err, -E2BIG, "%zu bytes are too many to share", bytes);
	memcpy(world->shared[backend->rank], mine, bytes);
	int rc = plain_barrier(backend, err);
	for (uint32_t r = 0; r < backend->ranks && rc >= 0; r++)
		memcpy((uint8_t *)all + r * bytes, world->shared[r], bytes);
	return rc < 0 ? rc : plain_barrier(backend, err);
}

static void plain_abort(struct backend *backend)
{
	plain_of(backend)->world->is_aborted = true;
}

static struct backend *plain_free_backend(struct backend *backend)
{
	free(backend);
	return NULL;
}

static const struct backend_ops host_ops = {
    .name = "plain",
    .is_host_memory = true,
    .alloc = plain_alloc,
    .free = plain_free,
    .put = plain_put,
    .get = plain_get,
    .run = plain_run,
    .sync = plain_sync,
    .barrier = plain_barrier,
    .share = plain_share,
    .abort = plain_abort,
    .free_backend = plain_free_backend,
};

static const struct backend_ops device_ops = {
    .name = "plain",
    .is_host_memory = false,
    .alloc = plain_alloc,
    .free = plain_free,
    .put = plain_put,
    .get = plain_get,
    .run = plain_run,
    .sync = plain_sync,
    .barrier = plain_barrier,
    .share = plain_share,
    .abort = plain_abort,
    .free_backend = plain_free_backend,
};

struct backend *plain_backend_new(struct plain_world *world, uint32_t rank)
{
	struct plain_backend *self = calloc(1, sizeof(*self));
	if (!self)
		return NULL;
	self->backend.ops = world->options.is_device ? &device_ops : &host_ops;
	self->backend.description = "plain";
	self->backend.rank = rank;
	self->backend.ranks = world->options.ranks;
	self->world = world;
	return &self->backend;
}
