/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/collectives/shm.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "bench/collectives/shm_internal.h"

int shm_world_new(uint32_t ranks, struct shm_world **out, struct err *err)
{
	if (ranks < 1 || ranks > COLLECTIVE_SHM_RANKS_MAX)
		return err_set(err, -EINVAL, "%u ranks: shared memory has 1 to %d", ranks,
			       COLLECTIVE_SHM_RANKS_MAX);

	struct shm_world *world = calloc(1, sizeof(*world));
	if (!world)
		return err_set(err, -ENOMEM, "no memory for %u ranks", ranks);

	size_t page = 64 * 1024; /* no smaller than any processor's */
	size_t seats_at = sizeof(struct shm_head);
	size_t slots_at = (seats_at + ranks * sizeof(struct shm_seat) + page - 1) / page * page;

	*world = (struct shm_world){
	    .fd = -1, .ranks = ranks, .bytes = slots_at + ranks * 2 * (size_t)SHM_SLOT_ROOM};
	void *map = MAP_FAILED;

	world->fd = memfd_create("sluice-collectives", MFD_CLOEXEC);
	if (world->fd >= 0 && ftruncate(world->fd, (off_t)world->bytes) == 0)
		map = mmap(NULL, world->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, world->fd, 0);

	if (map == MAP_FAILED) {
		int rc = err_set(err, -errno, "%zu bytes of shared memory for %u ranks: %s",
				 world->bytes, ranks, err_describe(-errno));
		(void)shm_world_free(world);
		return rc;
	}

	world->head = map;
	world->seats = (struct shm_seat *)(void *)((uint8_t *)map + seats_at);
	world->slots = (uint8_t *)map + slots_at;
	*out = world;

	return 0;
}

struct shm_world *shm_world_free(struct shm_world *world)
{
	if (!world)
		return NULL;
	if (world->head)
		(void)munmap(world->head, world->bytes);
	if (world->fd >= 0)
		(void)close(world->fd);
	free(world);

	return NULL;
}

static struct shm_backend *shm_of(struct backend *backend)
{
	return (struct shm_backend *)backend;
}

static int shm_check(const struct shm_backend *self, struct err *err)
{
	if (self->broken < 0)
		return err_set(err, self->broken, "an operation before this has failed");
	return 0;
}

/* Which bytes of whose source come here. */
static void shm_plan_copies(struct shm_plan *plan, uint32_t ranks, uint32_t rank)
{
	const struct backend_call *call = plan->call;
	const struct collective_shape *shape = call->shape;
	size_t part = shape->param_count * plan->element, filled = 0;

	for (uint32_t peer = 0; peer < ranks; peer++) {
		struct shm_part *copy = &plan->copy[peer];
		*copy = (struct shm_part){.bytes = part, .to = call->receive};

		switch (call->op) {
		case COLLECTIVE_ALL_GATHER:
		case COLLECTIVE_HYPERCUBE:
			copy->to += peer * part;
			break;
		case COLLECTIVE_GATHER:
			copy->to += peer * part;
			copy->bytes = rank == call->root ? part : 0;
			break;
		case COLLECTIVE_ALLTOALL:
			copy->from = rank * part;
			copy->to += peer * part;
			break;
		case COLLECTIVE_ALLTOALLV:
			for (uint32_t to = 0; to < rank; to++)
				copy->from += collective_v_count(shape, ranks, peer, to);

			copy->from *= plan->element;
			copy->bytes = collective_v_count(shape, ranks, peer, rank) * plan->element;
			copy->to += filled;
			filled += copy->bytes;
			break;
		case COLLECTIVE_SCATTER:
			copy->from = rank * part;
			copy->bytes = peer == call->root ? part : 0;
			break;
		case COLLECTIVE_BROADCAST:
			copy->bytes = peer == call->root ? part : 0;
			break;
		default: /* sendrecv */
			copy->bytes = (peer + 1) % ranks == rank ? part : 0;
			break;
		}
	}
}

static void shm_plan_make(struct shm_plan *plan, const struct backend_call *call, uint32_t ranks,
			  uint32_t rank)
{
	plan->call = call;
	plan->element = collective_type_size(call->type);
	plan->is_reduced = collective_op_reduces(call->op);

	size_t part = call->shape->param_count * plan->element;
	bool is_split = call->op == COLLECTIVE_REDUCE_SCATTER || call->op == COLLECTIVE_SCATTER ||
			call->op == COLLECTIVE_ALLTOALL;

	plan->longest = is_split ? part * ranks : part;
	if (call->op == COLLECTIVE_ALLTOALLV)
		plan->longest = call->shape->send_count * plan->element;

	bool is_from_root = call->op == COLLECTIVE_BROADCAST || call->op == COLLECTIVE_SCATTER;

	plan->source = call->send;
	plan->source_bytes = is_from_root && rank != call->root ? 0 : plan->longest;
	plan->sum = (struct shm_part){.bytes = part, .to = call->receive};

	if (call->op == COLLECTIVE_REDUCE_SCATTER)
		plan->sum.from = rank * part;
	else if (call->op == COLLECTIVE_REDUCE && rank != call->root)
		plan->sum.bytes = 0;

	if (!plan->is_reduced)
		shm_plan_copies(plan, ranks, rank);
}

static int shm_run(struct backend *backend, const struct backend_call *call, struct err *err)
{
	struct shm_backend *self = shm_of(backend);
	int rc = shm_check(self, err);
	if (rc < 0)
		return rc;
	if (call->op >= COLLECTIVE_OP_COUNT || call->type >= COLLECTIVE_TYPE_COUNT ||
	    call->redop >= COLLECTIVE_REDOP_COUNT || call->root >= backend->ranks)
		return err_set(err, -EINVAL, "no such operation on %u ranks", backend->ranks);

	struct shm_plan plan;
	shm_plan_make(&plan, call, backend->ranks, backend->rank);
	if (plan.longest == 0)
		return 0;
	if (plan.is_reduced && plan.longest <= self->limits.line)
		return shm_lines_reduce(self, &plan, err);

	if (plan.is_reduced && plan.longest <= self->limits.row)
		return shm_rows_reduce(self, &plan, err);

	rc = shm_direct_run(self, &plan, err);
	return rc == 1 ? shm_slots_run(self, &plan, err) : rc;
}

static int shm_sync(struct backend *backend, struct err *err)
{
	return shm_check(shm_of(backend), err);
}

static int shm_barrier(struct backend *backend, struct err *err)
{
	int rc = shm_check(shm_of(backend), err);
	if (rc < 0)
		return rc;
	return shm_lines(shm_of(backend), SHM_KIND_BARRIER, NULL, NULL, 0, err);
}

static int shm_share(struct backend *backend, const void *mine, void *all, size_t bytes,
		     struct err *err)
{
	int rc = shm_check(shm_of(backend), err);
	if (rc < 0)
		return rc;
	if (bytes > BACKEND_SHARE_MAX)
		return err_set(err, -E2BIG, "%zu bytes to share, of at most %d", bytes,
			       BACKEND_SHARE_MAX);

	const struct collective_shape shape = {.param_count = bytes};
	const struct backend_call call = {.op = COLLECTIVE_ALL_GATHER,
					  .type = COLLECTIVE_U8,
					  .shape = &shape,
					  .send = mine,
					  .receive = all};
	struct shm_plan plan;

	shm_plan_make(&plan, &call, backend->ranks, backend->rank);
	return shm_slots_run(shm_of(backend), &plan, err);
}

static int shm_copy(struct backend *backend, void *to, const void *from, size_t bytes,
		    struct err *err)
{
	if (bytes > 0)
		memmove(to, from, bytes);
	return 0;
}

static void shm_abort(struct backend *backend)
{
	uint32_t nobody = 0;
	struct shm_backend *self = shm_of(backend);
	(void)atomic_compare_exchange_strong(&self->world->head->given_up, &nobody,
					     backend->rank + 1);
	if (self->broken == 0)
		self->broken = -EPIPE;
}

static struct backend *shm_free(struct backend *backend)
{
	struct shm_backend *self = shm_of(backend);
	if (!self)
		return NULL;

	atomic_store(&self->world->seats[backend->rank].state, SHM_LEFT);

	for (int i = 0; i < SHM_REGIONS_MAX; i++) {
		if (self->regions[i].map)
			shm_memory_free(backend, self->regions[i].map +
						     self->regions[i].bytes * backend->rank);
		shm_memory_free(backend, self->privates[i].map);
	}

	shm_wait_close(self);
	free(self->staged);
	free(self);

	return NULL;
}

static const struct backend_ops shm_ops = {
    .name = "shm",
    .is_host_memory = true,
    .alloc = shm_memory_alloc,
    .free = shm_memory_free,
    .put = shm_copy,
    .get = shm_copy,
    .run = shm_run,
    .sync = shm_sync,
    .barrier = shm_barrier,
    .share = shm_share,
    .abort = shm_abort,
    .free_backend = shm_free,
};

/* Whether every rank can read every other one's memory: seccomp, Yama or a container may forbid it
 * to some. All must choose alike. */
static int shm_probe(struct shm_backend *self, struct err *err)
{
	uint32_t ranks = self->backend.ranks, rank = self->backend.rank;
	uint64_t addresses[COLLECTIVE_SHM_RANKS_MAX];
	int32_t mine = 0, all[COLLECTIVE_SHM_RANKS_MAX];
	volatile uint8_t secret = (uint8_t)(0xA0 + rank); /* of this process alone */
	uint64_t address = (uintptr_t)&secret;
	int rc = shm_lines(self, SHM_KIND_PROBE, &address, addresses, sizeof(address), err);

	for (uint32_t peer = 0; rc == 0 && mine == 0 && peer < ranks; peer++) {
		uint8_t byte = 0;
		struct iovec to = {.iov_base = &byte, .iov_len = 1};
		struct iovec from = {.iov_base = (void *)(uintptr_t)addresses[peer], .iov_len = 1};
		pid_t pid = atomic_load(&self->world->seats[peer].pid);
		ssize_t got = process_vm_readv(pid, &to, 1, &from, 1, 0);
		if (got < 0)
			mine = -errno;
		else if (got != 1 || byte != (uint8_t)(0xA0 + peer))
			mine = -EIO; /* another process of that number, in another namespace */
		/* A filter may know the two calls apart. What is written is there already. */
		else if (process_vm_writev(pid, &to, 1, &from, 1, 0) != 1)
			mine = -errno;
	}

	if (rc == 0)
		rc = shm_lines(self, SHM_KIND_PROBE, &mine, all, sizeof(mine), err);
	if (rc < 0)
		return rc;

	int worst = 0;
	for (uint32_t peer = 0; peer < ranks && worst == 0; peer++)
		worst = all[peer];

	self->reads_others = worst == 0;
	if (worst == 0)
		(void)snprintf(self->choice, sizeof(self->choice),
			       "shared memory; buffers of %d MiB and more by process_vm_readv",
			       (int)(self->limits.kernel / 1024 / 1024));
	else
		(void)snprintf(
		    self->choice, sizeof(self->choice),
		    "shared memory; chunks, since process_vm_readv or _writev failed: %s",
		    err_describe(worst));

	return 0;
}

/* Fewer processors than ranks. Each may be bound to one: only all of them together tell. */
static bool shm_is_crowded(const struct shm_world *world)
{
	cpu_set_t all;
	CPU_ZERO(&all);

	for (uint32_t rank = 0; rank < world->ranks; rank++) {
		if (CPU_COUNT(&world->seats[rank].allowed) == 0)
			return false;
		CPU_OR(&all, &all, &world->seats[rank].allowed);
	}

	return (uint32_t)CPU_COUNT(&all) < world->ranks;
}

static int shm_join(struct shm_backend *self, struct err *err)
{
	struct shm_seat *seat = &self->world->seats[self->backend.rank];
	if (sched_getaffinity(0, sizeof(seat->allowed), &seat->allowed) < 0)
		CPU_ZERO(&seat->allowed); /* more processors than fit: enough of them */
	seat->started = shm_process_started(getpid());
	atomic_store(&seat->pid, (int32_t)getpid());
	atomic_store(&seat->state, SHM_HERE);

	/* Who has not come has no process that could be looked at: only the time is left. */
	int rc = shm_lines(self, SHM_KIND_JOIN, NULL, NULL, 0, err);
	if (rc < 0)
		return err_wrap(err, "waiting for all %u ranks to begin", self->backend.ranks);

	self->yields = shm_is_crowded(self->world);
	rc = shm_wait_open(self, err);
	return rc < 0 ? rc : shm_probe(self, err);
}

/* Where all buffers together, two of each rank, no longer fit into the last cache: what is kept out
 * of it leaves room for what is read. Concerns nobody else, so it may differ between ranks. */
static size_t shm_stream_bytes(uint32_t ranks)
{
	long cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
	return cache > 0 ? (size_t)cache / 2 / ranks : 4 * 1024 * 1024;
}

int shm_backend_new(struct shm_world *world, uint32_t rank, uint64_t timeout_ns,
		    struct backend **out, struct err *err)
{
	if (rank >= world->ranks)
		return err_set(err, -EINVAL, "rank %u of %u", rank, world->ranks);

	struct shm_backend *self = calloc(1, sizeof(*self));
	uint8_t *staged = calloc(world->ranks, SHM_ROW_BYTES);
	if (!self || !staged) {
		free(self);
		free(staged);
		atomic_store(&world->seats[rank].state, SHM_LEFT); /* nobody waits for it */
		return err_set(err, -ENOMEM, "no memory for rank %u", rank);
	}

	self->staged = staged;
	self->backend = (struct backend){.ops = &shm_ops,
					 .description = self->choice,
					 .rank = rank,
					 .ranks = world->ranks,
					 .timeout_ns = timeout_ns};
	self->world = world;
	self->reduce = reduce_best();
	self->file_end = (off_t)world->bytes;
	self->limits = (struct shm_limits){
	    .line = SHM_LINE_BYTES,
	    .row = 1024,
	    .slice = world->ranks > 4	? 2048
		     : world->ranks > 2 ? 8192
					: 262144,
	    .shy = 8192,
	    .kernel = 32 * 1024 * 1024,
	    .stream = shm_stream_bytes(world->ranks),
	};
	self->yields = true; /* until it is known where the others are */

	int rc = shm_join(self, err);
	if (rc < 0) {
		(void)shm_free(&self->backend);
		return rc;
	}

	*out = &self->backend;
	return 0;
}
