/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/nccl/world.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#define WORLD_MAGIC UINT64_C(0x31636e6d6973534c)
enum { TOKEN_BYTES = 16, NAME_MAX_BYTES = 64, LINE = 64, DEAD_CHECK_TURNS = 2048 };

struct ring {
	_Alignas(LINE) _Atomic uint64_t written;
	_Alignas(LINE) _Atomic uint64_t taken;
};

struct member {
	_Alignas(LINE) _Atomic int32_t pid; /* 0: not come yet */
	_Atomic uint32_t is_gone;	    /* left in order */
	char bus_id[WORLD_BUS_MAX];
};

struct head {
	_Atomic uint32_t ranks; /* 0: nobody has come */
	_Atomic uint32_t joined;
	_Atomic uint32_t is_aborted;
	_Atomic uint32_t aborted_by;
	struct member member[WORLD_RANKS_MAX];
};

struct comm_world {
	uint32_t rank, ranks;
	size_t ring_bytes, total;
	struct head *head; /* mapped; rings follow, then their bytes */
	struct ring *rings;
	uint8_t *bytes;
};

struct id_content {
	uint64_t magic;
	uint8_t token[TOKEN_BYTES];
};

int world_make_id(struct nccl_id *out)
{
	struct id_content content = {.magic = WORLD_MAGIC};
	if (getrandom(content.token, sizeof(content.token), 0) != (ssize_t)sizeof(content.token))
		return NCCL_SYSTEM_ERROR;
	memset(out, 0, sizeof(*out));
	memcpy(out, &content, sizeof(content));
	return NCCL_SUCCESS;
}

static size_t ring_size(uint32_t ranks)
{
	size_t size = WORLD_RING_MAX;
	while (size > WORLD_RING_MIN && size * ranks * ranks > WORLD_BYTES_MAX)
		size /= 2;
	return size;
}

static void wait_turn(uint64_t turn)
{
	if (turn < 64)
		(void)sched_yield();
	else
		(void)nanosleep(&(struct timespec){.tv_nsec = turn < 512 ? 20000 : 200000}, NULL);
}

/* Somebody who was here and is no more, without having said so. */
static bool find_dead(const struct comm_world *world, uint32_t *out_rank)
{
	for (uint32_t i = 0; i < world->ranks; i++) {
		const struct member *member = &world->head->member[i];
		int32_t pid = atomic_load(&member->pid);
		if (pid > 0 && !atomic_load(&member->is_gone) && kill(pid, 0) != 0 &&
		    errno == ESRCH) {
			*out_rank = i;
			return true;
		}
	}

	return false;
}

static int look_around(const struct comm_world *world, uint64_t turn, const atomic_bool *stop,
		       char problem[WORLD_PROBLEM_MAX])
{
	uint32_t dead = 0;

	if (atomic_load(stop))
		return NCCL_IN_PROGRESS;

	if (atomic_load(&world->head->is_aborted)) {
		(void)snprintf(problem, WORLD_PROBLEM_MAX, "rank %u aborted the communicator",
			       atomic_load(&world->head->aborted_by));
		return NCCL_REMOTE_ERROR;
	}

	if (turn % DEAD_CHECK_TURNS == DEAD_CHECK_TURNS - 1 && find_dead(world, &dead)) {
		(void)snprintf(problem, WORLD_PROBLEM_MAX, "the process of rank %u is gone", dead);
		return NCCL_REMOTE_ERROR;
	}

	return NCCL_SUCCESS;
}

static int segment_map(const char *name, struct comm_world *world, char problem[WORLD_PROBLEM_MAX])
{
	size_t rings = (size_t)world->ranks * world->ranks;

	world->ring_bytes = ring_size(world->ranks);
	world->total = sizeof(struct head) + rings * (sizeof(struct ring) + world->ring_bytes);

	int fd = shm_open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	/* every rank gives it the same size: nothing is lost by doing so twice */
	if (fd < 0 || ftruncate(fd, (off_t)world->total) != 0 ||
	    (errno = posix_fallocate(fd, 0, (off_t)world->total)) != 0) {
		(void)snprintf(
		    problem, WORLD_PROBLEM_MAX,
		    "Error while creating shared memory segment /dev/shm%s (size %zu): %s", name,
		    world->total, strerror(errno));
		if (fd >= 0)
			(void)close(fd);
		(void)shm_unlink(name);

		return NCCL_SYSTEM_ERROR;
	}

	void *memory = mmap(NULL, world->total, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	(void)close(fd);

	if (memory == MAP_FAILED) {
		(void)snprintf(problem, WORLD_PROBLEM_MAX, "cannot map /dev/shm%s: %s", name,
			       strerror(errno));
		return NCCL_SYSTEM_ERROR;
	}

	world->head = memory;
	world->rings = (struct ring *)(world->head + 1);
	world->bytes = (uint8_t *)(world->rings + rings);

	return NCCL_SUCCESS;
}

static int enter(struct comm_world *world, const char *bus_id, char problem[WORLD_PROBLEM_MAX])
{
	struct head *head = world->head;
	struct member *self = &head->member[world->rank];
	uint32_t nobody = 0;
	int32_t none = 0;

	if (!atomic_compare_exchange_strong(&head->ranks, &nobody, world->ranks) &&
	    nobody != world->ranks) {
		(void)snprintf(problem, WORLD_PROBLEM_MAX,
			       "rank %u says there are %u ranks, others say %u", world->rank,
			       world->ranks, nobody);
		return NCCL_INVALID_ARGUMENT;
	}

	(void)snprintf(self->bus_id, sizeof(self->bus_id), "%s", bus_id);
	if (!atomic_compare_exchange_strong(&self->pid, &none, (int32_t)getpid())) {
		(void)snprintf(problem, WORLD_PROBLEM_MAX, "two processes say they are rank %u",
			       world->rank);
		return NCCL_INVALID_USAGE;
	}

	(void)atomic_fetch_add(&head->joined, 1);
	return NCCL_SUCCESS;
}

int world_join(const struct nccl_id *id, uint32_t ranks, uint32_t rank, const char *bus_id,
	       const atomic_bool *stop, struct comm_world **out, char problem[WORLD_PROBLEM_MAX])
{
	struct id_content content;
	char name[NAME_MAX_BYTES] = "/sluice-sim-nccl-";
	size_t at = strlen(name);

	memcpy(&content, id, sizeof(content));
	if (content.magic != WORLD_MAGIC) {
		(void)snprintf(problem, WORLD_PROBLEM_MAX, "the id is not one of this library");
		return NCCL_INVALID_ARGUMENT;
	}

	for (size_t i = 0; i < TOKEN_BYTES; i++)
		at += (size_t)snprintf(name + at, sizeof(name) - at, "%02x", content.token[i]);

	struct comm_world *world = calloc(1, sizeof(*world));
	if (!world)
		return NCCL_SYSTEM_ERROR;

	world->rank = rank;
	world->ranks = ranks;

	int rc = segment_map(name, world, problem);
	if (rc == NCCL_SUCCESS)
		rc = enter(world, bus_id, problem);

	for (uint64_t turn = 0; rc == NCCL_SUCCESS && atomic_load(&world->head->joined) < ranks;
	     turn++) {
		rc = look_around(world, turn, stop, problem);
		wait_turn(turn);
	}

	/* its name is not needed once all are there, nor when they will never be */
	if (rank == 0 || rc != NCCL_SUCCESS)
		(void)shm_unlink(name);
	if (rc != NCCL_SUCCESS) {
		(void)comm_world_leave(world, true);
		return rc;
	}

	*out = world;
	return NCCL_SUCCESS;
}

struct comm_world *comm_world_leave(struct comm_world *world, bool is_abort)
{
	if (!world)
		return NULL;

	if (world->head) {
		if (is_abort && !atomic_exchange(&world->head->is_aborted, 1))
			atomic_store(&world->head->aborted_by, world->rank);
		atomic_store(&world->head->member[world->rank].is_gone, 1);
		(void)munmap(world->head, world->total);
	}

	free(world);
	return NULL;
}

const char *world_bus_id(const struct comm_world *world, uint32_t rank)
{
	return world->head->member[rank].bus_id;
}

/* Copies what fits into or out of the ring; how many bytes. */
static size_t ring_step(struct comm_world *world, uint32_t from, uint32_t to, bool is_send,
			uint8_t *data, size_t bytes)
{
	size_t place = (size_t)from * world->ranks + to, size = world->ring_bytes;
	struct ring *ring = &world->rings[place];
	uint8_t *base = world->bytes + place * size;
	uint64_t written = atomic_load_explicit(&ring->written, memory_order_acquire);
	uint64_t taken = atomic_load_explicit(&ring->taken, memory_order_acquire);
	size_t can = is_send ? size - (size_t)(written - taken) : (size_t)(written - taken);
	size_t offset = (size_t)((is_send ? written : taken) % size);
	size_t now = bytes < can ? bytes : can;

	if (now == 0)
		return 0;

	size_t first = now < size - offset ? now : size - offset;

	if (is_send) {
		memcpy(base + offset, data, first);
		memcpy(base, data + first, now - first);
		atomic_store_explicit(&ring->written, written + now, memory_order_release);
	} else {
		memcpy(data, base + offset, first);
		memcpy(data + first, base, now - first);
		atomic_store_explicit(&ring->taken, taken + now, memory_order_release);
	}

	return now;
}

static bool tag_is_same(const struct world_tag *a, const struct world_tag *b)
{
	return a->kind == b->kind && a->type == b->type && a->redop == b->redop &&
	       a->root == b->root && a->count == b->count && a->number == b->number;
}

/* Whether it moved. */
static bool transfer_step(struct comm_world *world, struct world_transfer *transfer,
			  bool *out_differs)
{
	uint32_t from = transfer->is_send ? world->rank : transfer->peer;
	uint32_t to = transfer->is_send ? transfer->peer : world->rank;
	size_t moved = 0;

	if (transfer->tag_done < sizeof(transfer->tag)) {
		struct world_tag *tag = transfer->is_send ? &transfer->tag : &transfer->heard;
		moved = ring_step(world, from, to, transfer->is_send,
				  (uint8_t *)tag + transfer->tag_done,
				  sizeof(*tag) - transfer->tag_done);
		transfer->tag_done += moved;
		if (transfer->tag_done < sizeof(transfer->tag))
			return moved > 0;

		if (!transfer->is_send && !tag_is_same(&transfer->tag, &transfer->heard)) {
			*out_differs = true;
			return true;
		}
	}

	if (transfer->done == transfer->bytes)
		return moved > 0;

	size_t now = ring_step(world, from, to, transfer->is_send, transfer->data + transfer->done,
			       transfer->bytes - transfer->done);
	transfer->done += now;
	return moved + now > 0;
}

static bool transfer_is_done(const struct world_transfer *transfer)
{
	return transfer->tag_done == sizeof(transfer->tag) && transfer->done == transfer->bytes;
}

int world_move(struct comm_world *world, struct world_transfer *transfers, size_t count,
	       const atomic_bool *stop, char problem[WORLD_PROBLEM_MAX])
{
	for (uint64_t turn = 0;;) {
		bool is_busy[2][WORLD_RANKS_MAX] = {{false}}, is_all = true, has_moved = false;

		for (size_t i = 0; i < count; i++) {
			struct world_transfer *transfer = &transfers[i];
			bool *is_taken = &is_busy[transfer->is_send][transfer->peer],
			     differs = false;

			if (transfer_is_done(transfer) || *is_taken) {
				is_all = is_all && transfer_is_done(transfer);
				continue;
			}

			has_moved = transfer_step(world, transfer, &differs) || has_moved;
			if (differs) {
				(void)snprintf(
				    problem, WORLD_PROBLEM_MAX,
				    "rank %u and rank %u do not make the same call: "
				    "operation %u of %llu elements here, %u of %llu there",
				    world->rank, transfer->peer, transfer->tag.kind,
				    (unsigned long long)transfer->tag.count, transfer->heard.kind,
				    (unsigned long long)transfer->heard.count);
				return NCCL_INVALID_USAGE;
			}

			if (!transfer_is_done(transfer)) {
				*is_taken = true;
				is_all = false;
			}
		}

		if (is_all)
			return NCCL_SUCCESS;

		turn = has_moved ? 0 : turn + 1;
		int rc = look_around(world, turn, stop, problem);
		if (rc != NCCL_SUCCESS)
			return rc;
		if (!has_moved)
			wait_turn(turn);
	}
}
