/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the parts of the shared-memory backend know of each other: how the shared memory is laid
 * out, how a rank waits for another, and the algorithms between which shm.c chooses.
 *
 * Three kinds of exchange. All only count upwards, and in all every rank waits for every other one
 * before it goes on, so that two places, used alternately, are enough: who fills a place for the
 * second time has seen that all others had come to the exchange between, and so had read it.
 *  - A line: up to SHM_LINE_BYTES of each rank, with their number, in one cache line.
 *  - Lines in a row: up to SHM_ROW_BYTES of each rank, each line with the number, so that nothing
 * has to be waited for that comes after the last byte.
 *  - A round: up to SHM_SLOT_BYTES of each rank in its slot, and a number in a line of its own.
 */
#ifndef SLUICE_BENCH_COLLECTIVES_SHM_INTERNAL_H
#define SLUICE_BENCH_COLLECTIVES_SHM_INTERNAL_H

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/clock.h"
#include "base/err.h"
#include "bench/collectives/backend.h"
#include "bench/collectives/reduce.h"

enum shm_sizes {
	SHM_CACHE_LINE = 64,
	SHM_LINE_BYTES = 48,
	SHM_CELL_BYTES = 56, /* of one line in a row */
	SHM_ROW_CELLS = 37,
	SHM_ROW_BYTES = SHM_ROW_CELLS * SHM_CELL_BYTES,
	SHM_SLOT_BYTES = 256 * 1024, /* of a round, at most */
	SHM_SLOT_ROOM = 1024 * 1024, /* where it has one of several places */
	SHM_SLOT_MOVES = 6 * 1024,   /* from here */
	SHM_REGIONS_MAX = 64,	     /* of registered memory, at a time */
	SHM_CHOICE_MAX = 160,
	SHM_SPINS = 200,
	SHM_BLOCK =
	    32 * 1024, /* of a result that is written twice: the second time from the cache */
};
#define SHM_PAUSE_NS	 (20 * CLOCK_NS_PER_US)	 /* then the processor is left to others */
#define SHM_YIELD_NS	 (2 * CLOCK_NS_PER_MS)	 /* then it sleeps, a part of what it has waited */
#define SHM_LOOK_NS	 (100 * CLOCK_NS_PER_MS) /* how often it looks whether all ranks live */
#define SHM_SLEEP_MAX_NS CLOCK_NS_PER_MS

/* What a line is for; operations' own are above these. */
enum shm_kind {
	SHM_KIND_JOIN = 1,
	SHM_KIND_PROBE,
	SHM_KIND_BARRIER,
	SHM_KIND_ALLOC,
	SHM_KIND_DIRECT, /* and the next: mapped */
	SHM_KIND_END = SHM_KIND_DIRECT + 2,
	SHM_KIND_OPERATION,
};

enum shm_state { SHM_ABSENT, SHM_HERE, SHM_LEFT };

/* `kind` tells what was called, so that ranks which call different things do not compute with each
 * other's bytes. */
struct shm_line {
	_Alignas(SHM_CACHE_LINE) _Atomic uint64_t number;
	uint64_t kind;
	uint8_t bytes[SHM_LINE_BYTES];
};

struct shm_cell {
	_Alignas(SHM_CACHE_LINE) _Atomic uint64_t number;
	uint8_t bytes[SHM_CELL_BYTES];
};

/* One rank's part of what all see; only it writes there. */
struct shm_seat {
	struct shm_line lines[2];
	struct shm_cell rows[2][SHM_ROW_CELLS];
	_Alignas(SHM_CACHE_LINE) _Atomic uint64_t round; /* its slot of this number is filled */
	_Alignas(SHM_CACHE_LINE) _Atomic uint64_t done;	 /* steps of a long operation */
	_Alignas(SHM_CACHE_LINE) _Atomic int32_t pid;
	_Atomic uint32_t state; /* enum shm_state */
	cpu_set_t allowed;	/* processors */
	uint64_t started;	/* of the process, in clock ticks since boot; 0: not known */
};

struct shm_head {
	_Alignas(SHM_CACHE_LINE) _Atomic uint32_t dead; /* rank + 1, of the first that was missed */
	_Atomic uint32_t given_up;			/* rank + 1, of the first that gave up */
};

struct shm_world {
	int fd;
	uint32_t ranks;
	size_t bytes; /* of the mapping; registered memory lies behind it in the file */
	struct shm_head *head;
	struct shm_seat *seats;
	uint8_t *slots; /* [rank][2][SHM_SLOT_ROOM] */
};

/* The sizes, in bytes, from which another algorithm is taken. The same on all ranks. */
struct shm_limits {
	size_t line;   /* up to here in a line; at most SHM_LINE_BYTES */
	size_t row;    /* up to here in a row of lines; at most SHM_ROW_BYTES */
	size_t slice;  /* all_reduce: from here each rank computes a part of it */
	size_t shy;    /* from here slots are written past the caches where that is faster */
	size_t kernel; /* from here the kernel copies between processes */
	size_t stream; /* from here stores go past the caches */
};

/*
 * A line that another processor has read lately is slow to write where processors have caches of
 * their own, and then the way past them is faster; where they share one it is slower. Which of the
 * two this machine is can change while it runs, if it is a virtual one. So both are tried now and
 * then, for rounds of about the same length, by all ranks in the same ones.
 */
struct shm_habit {
	uint32_t count;
	uint64_t least_ns[2]; /* that a round took: through the caches, past them */
};
enum { SHM_HABITS = 64, SHM_HABIT_TRIES = 4, SHM_HABIT_PERIOD = 256 };

struct shm_region {
	uint8_t *map; /* [rank][bytes]; NULL: free */
	size_t bytes; /* of one rank, whole pages */
	off_t offset; /* in the file */
};

struct shm_backend {
	struct backend backend;
	struct shm_world *world; /* borrowed */
	const struct reduce *reduce;
	struct shm_limits limits;
	uint64_t line, row, round; /* numbers of the last exchange of each kind */
	uint8_t *staged;	   /* owned; [rank][SHM_ROW_BYTES]: rows without their numbers */
	struct shm_habit habits[SHM_HABITS]; /* by the power of two above the length */
	bool streams;			     /* slots are written past the caches in this round */
	bool yields;	    /* fewer processors than ranks: waiting is in the way */
	bool reads_others;  /* process_vm_readv works between all ranks */
	_Atomic int broken; /* the error after which nothing works any more */
	int *pid_fds;	    /* owned; [rank], -1: none */
	off_t file_end;	    /* the same on all ranks, since all allocate alike */
	struct shm_region regions[SHM_REGIONS_MAX];
	int regions_end; /* behind the last that was ever used */
	struct shm_region privates[SHM_REGIONS_MAX];
	char choice[SHM_CHOICE_MAX];
};

/* What a call means for this rank, whatever the algorithm: which bytes of every rank's source are
 * wanted here, and where they go. */
struct shm_part {
	size_t from, bytes; /* in the source of that rank */
	uint8_t *to;
};
struct shm_plan {
	const struct backend_call *call;
	const uint8_t *source;
	size_t source_bytes; /* what this rank offers to the others */
	size_t longest;	     /* the largest of these on any rank */
	size_t element;
	bool is_reduced;     /* reduced: one part, the same of all ranks; copied: one of each */
	struct shm_part sum; /* nothing where this rank gets none */
	struct shm_part copy[COLLECTIVE_SHM_RANKS_MAX];
};

/* shm_wait.c: until *number has come to `wanted` or further. -EPIPE, -ETIMEDOUT. */
int shm_wait_slowly(struct shm_backend *self, const _Atomic uint64_t *number, uint64_t wanted,
		    uint32_t peer, struct err *err);
int shm_wait_open(struct shm_backend *self, struct err *err);
void shm_wait_close(struct shm_backend *self);
/* Clock ticks since boot at which a process started; 0: there is none, or it has ended. */
uint64_t shm_process_started(pid_t pid);

static inline bool shm_has_come(const _Atomic uint64_t *number, uint64_t wanted)
{
	return atomic_load_explicit(number, memory_order_acquire) >= wanted;
}

static inline void shm_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield" ::: "memory");
#endif
}

static inline int shm_wait(struct shm_backend *self, const _Atomic uint64_t *number,
			   uint64_t wanted, uint32_t peer, struct err *err)
{
	if (!self->yields)
		for (int i = 0; i < SHM_SPINS; i++) {
			if (shm_has_come(number, wanted))
				return 0;
			shm_pause();
		}
	else if (shm_has_come(number, wanted))
		return 0;
	return shm_wait_slowly(self, number, wanted, peer, err);
}

/*
 * Where a rank's `length` bytes of a round lie: the even and the odd rounds have a room each, and
 * within it the place moves. Where a round was lies in the others' caches, and each line of it
 * would have to be taken from them before it can be written; some rounds later they have let go of
 * it. Whatever the places, no two rounds that somebody may still read share a room.
 */
static inline uint8_t *shm_slot(const struct shm_world *world, uint32_t rank, uint64_t round,
				size_t length)
{
	size_t step = (length + 4095) & ~(size_t)4095;
	size_t place = length < SHM_SLOT_MOVES ? 0 : (round >> 1) % (SHM_SLOT_ROOM / step) * step;
	return world->slots + ((size_t)rank * 2 + (round & 1)) * SHM_SLOT_ROOM + place;
}

/* shm_lines.c. `all` is [rank][bytes], and may be NULL if there are none; -EINVAL: another rank's
 * `kind` is different. */
int shm_lines(struct shm_backend *self, uint64_t kind, const void *mine, void *all, size_t bytes,
	      struct err *err);
int shm_lines_reduce(struct shm_backend *self, const struct shm_plan *plan, struct err *err);

/* A reduction of at most SHM_ROW_BYTES. */
int shm_rows_reduce(struct shm_backend *self, const struct shm_plan *plan, struct err *err);

/* shm_slots.c: any plan. */
int shm_slots_run(struct shm_backend *self, const struct shm_plan *plan, struct err *err);

/* shm_direct.c: where every rank can reach every other's memory. 1: it cannot. */
int shm_direct_run(struct shm_backend *self, const struct shm_plan *plan, struct err *err);

/* shm_memory.c */
int shm_memory_alloc(struct backend *backend, enum backend_memory memory, size_t bytes, void **out,
		     struct err *err);
void shm_memory_free(struct backend *backend, void *memory);
/* The registered memory that `address`, of this rank, is in; NULL: none. */
const struct shm_region *shm_memory_find(const struct shm_backend *self, const void *address);

#endif
