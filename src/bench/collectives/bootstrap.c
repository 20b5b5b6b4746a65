/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that were forked, what the environment says of others, and what both ways share. */
#include "bench/collectives/bootstrap.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/parse.h"
#include "bench/collectives/bootstrap_private.h"

enum { LINE = 64, SPIN_TURNS = 2000, LOOK_TURNS = 256, PAUSE_NS = 50000 };

struct board_member {
	_Alignas(LINE) _Atomic uint64_t come; /* how many times it was here */
	_Atomic int64_t pid;		      /* 0: it has not entered */
	_Atomic uint32_t has_left;
	uint8_t content[2][BOOTSTRAP_SHARE_MAX]; /* in turns: the other may still be read */
};

struct bootstrap_board {
	uint32_t ranks;
	_Atomic uint32_t is_aborted;
	_Atomic uint32_t aborted_by;
	struct board_member member[];
};

struct board_bootstrap {
	struct bootstrap bootstrap;
	struct bootstrap_board *board; /* borrowed */
	uint64_t turn;
};

static size_t board_bytes(uint32_t ranks)
{
	return sizeof(struct bootstrap_board) + ranks * sizeof(struct board_member);
}

int bootstrap_board_new(uint32_t ranks, struct bootstrap_board **out, struct err *err)
{
	if (ranks < 1 || ranks > BOOTSTRAP_BOARD_RANKS_MAX)
		return err_set(err, -EINVAL, "%u ranks on one machine: 1 to %d can be", ranks,
			       BOOTSTRAP_BOARD_RANKS_MAX);

	struct bootstrap_board *board = mmap(NULL, board_bytes(ranks), PROT_READ | PROT_WRITE,
					     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (board == MAP_FAILED)
		return err_set(err, -ENOMEM, "no memory for the board of %u ranks", ranks);

	board->ranks = ranks;
	*out = board;
	return 0;
}

struct bootstrap_board *bootstrap_board_free(struct bootstrap_board *board)
{
	if (board)
		(void)munmap(board, board_bytes(board->ranks));
	return NULL;
}

static struct board_bootstrap *board_of(struct bootstrap *bootstrap)
{
	return (struct board_bootstrap *)(void *)bootstrap;
}

static void pause_cpu(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#endif
}

static void board_wait(uint64_t turn)
{
	if (turn < SPIN_TURNS / 10)
		pause_cpu();
	else if (turn < SPIN_TURNS)
		(void)sched_yield();
	else
		(void)nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
}

/* A rank whose process is no more, and that did not leave in order. */
static bool member_is_dead(const struct board_member *member)
{
	int64_t pid = atomic_load(&member->pid);
	return pid > 0 && !atomic_load(&member->has_left) && kill((pid_t)pid, 0) != 0 &&
	       errno == ESRCH;
}

static int board_await(struct board_bootstrap *self, uint32_t rank, uint64_t deadline_ns,
		       struct err *err)
{
	struct bootstrap_board *board = self->board;
	const struct board_member *member = &board->member[rank];
	const struct clock clock = {0};

	for (uint64_t turn = 0;
	     atomic_load_explicit(&member->come, memory_order_acquire) < self->turn; turn++) {
		if (atomic_load(&board->is_aborted))
			return err_set(err, -EPIPE, "rank %u has given up",
				       atomic_load(&board->aborted_by));

		if (turn % LOOK_TURNS == LOOK_TURNS - 1) {
			if (atomic_load(&member->has_left) || member_is_dead(member))
				return err_set(err, -EPIPE, "rank %u is gone", rank);
			if (clock_now_ns(&clock) > deadline_ns)
				return err_set(err, -ETIMEDOUT, "rank %u did not come", rank);
		}

		board_wait(turn);
	}

	return 0;
}

static int board_share(struct bootstrap *bootstrap, const void *mine, void *all, size_t bytes,
		       uint64_t deadline_ns, struct err *err)
{
	struct board_bootstrap *self = board_of(bootstrap);
	struct bootstrap_board *board = self->board;
	struct board_member *own = &board->member[bootstrap->rank];

	/* Two places suffice: who writes the third has seen all come for the second, and they had
	 * read the first by then. */
	uint64_t place = ++self->turn % 2;

	if (bytes > 0)
		memcpy(own->content[place], mine, bytes);
	atomic_store_explicit(&own->come, self->turn, memory_order_release);

	for (uint32_t rank = 0; rank < board->ranks; rank++) {
		int rc = board_await(self, rank, deadline_ns, err);
		if (rc < 0)
			return rc;
		if (bytes > 0)
			memcpy((uint8_t *)all + rank * bytes, board->member[rank].content[place],
			       bytes);
	}

	return 0;
}

static void board_abort(struct bootstrap *bootstrap)
{
	struct bootstrap_board *board = board_of(bootstrap)->board;
	if (!atomic_exchange(&board->is_aborted, 1))
		atomic_store(&board->aborted_by, bootstrap->rank);
}

static void board_leave(struct bootstrap *bootstrap)
{
	struct board_bootstrap *self = board_of(bootstrap);
	atomic_store(&self->board->member[bootstrap->rank].has_left, 1);
	free(self);
}

int bootstrap_enter(struct bootstrap_board *board, uint32_t rank, struct bootstrap **out,
		    struct err *err)
{
	int64_t nobody = 0;

	if (rank >= board->ranks)
		return err_set(err, -EINVAL, "rank %u of %u", rank, board->ranks);

	struct board_bootstrap *self = calloc(1, sizeof(*self));
	if (!self)
		return err_set(err, -ENOMEM, "rank %u: no memory", rank);

	if (!atomic_compare_exchange_strong(&board->member[rank].pid, &nobody, (int64_t)getpid())) {
		free(self);
		return err_set(err, -EEXIST, "process %lld is rank %u already", (long long)nobody,
			       rank);
	}

	self->bootstrap = (struct bootstrap){.rank = rank,
					     .ranks = board->ranks,
					     .share = board_share,
					     .abort = board_abort,
					     .free = board_leave};
	self->board = board;
	*out = &self->bootstrap;

	return 0;
}

struct bootstrap *bootstrap_free(struct bootstrap *bootstrap)
{
	if (bootstrap)
		bootstrap->free(bootstrap);
	return NULL;
}

uint32_t bootstrap_rank(const struct bootstrap *bootstrap)
{
	return bootstrap->rank;
}

uint32_t bootstrap_ranks(const struct bootstrap *bootstrap)
{
	return bootstrap->ranks;
}

int bootstrap_share(struct bootstrap *bootstrap, const void *mine, void *all, size_t bytes,
		    uint64_t timeout_ns, struct err *err)
{
	const struct clock clock = {0};
	if (bytes > BOOTSTRAP_SHARE_MAX)
		return err_set(err, -E2BIG, "%zu bytes to share, %d can be", bytes,
			       BOOTSTRAP_SHARE_MAX);
	return bootstrap->share(bootstrap, mine, all, bytes,
				clock_after_ns(clock_now_ns(&clock), timeout_ns), err);
}

void bootstrap_abort(struct bootstrap *bootstrap)
{
	bootstrap->abort(bootstrap);
}

static const char *environment_find(char *const *environment, const char *name)
{
	size_t length = strlen(name);
	for (; *environment; environment++) {
		if (strncmp(*environment, name, length) == 0 && (*environment)[length] == '=')
			return *environment + length + 1;
	}
	return NULL;
}

static int number_find(char *const *environment, const char *name, uint64_t max, uint64_t *out,
		       struct err *err)
{
	const char *text = environment_find(environment, name);
	if (!text)
		return 0;
	if (parse_u64(text, 0, max, out) < 0)
		return err_set(err, -EINVAL, "%s=%.32s: a number up to %llu is expected", name,
			       text, (unsigned long long)max);
	return 1;
}

static int place_find(char *const *environment, struct bootstrap_plan *plan, struct err *err)
{
	const char *file = environment_find(environment, "SLUICE_NCCL_ID_FILE");
	const char *host = environment_find(environment, "MASTER_ADDR");
	uint64_t port = 0;

	if (host && strlen(host) >= sizeof(plan->host))
		return err_set(err, -EINVAL, "MASTER_ADDR is too long");
	if (file && strlen(file) >= sizeof(plan->file))
		return err_set(err, -EINVAL, "SLUICE_NCCL_ID_FILE is too long");

	int rc = number_find(environment, "MASTER_PORT", UINT16_MAX, &port, err);
	if (rc < 0)
		return rc;
	if (host)
		memcpy(plan->host, host, strlen(host) + 1);
	if (file)
		memcpy(plan->file, file, strlen(file) + 1);
	plan->port = (uint16_t)port;
	if (plan->ranks > 1 && !plan->file[0] && (!plan->host[0] || plan->port == 0))
		return err_set(err, -EINVAL,
			       "rank %u of %u does not know where the ranks meet: set MASTER_ADDR "
			       "and MASTER_PORT, or SLUICE_NCCL_ID_FILE to a path that all see",
			       plan->rank, plan->ranks);

	return 1;
}

int bootstrap_plan(char *const *environment, struct bootstrap_plan *out, struct err *err)
{
	static const struct {
		const char *rank, *ranks, *local;
	} starter[] = {
	    {"RANK", "WORLD_SIZE", "LOCAL_RANK"},
	    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"},
	    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"},
	    {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"},
	};

	for (size_t i = 0; i < sizeof(starter) / sizeof(*starter); i++) {
		struct bootstrap_plan plan = {0};
		uint64_t rank = 0, ranks = 0, local = 0;
		int has_rank =
		    number_find(environment, starter[i].rank, BOOTSTRAP_RANKS_MAX, &rank, err);
		int has_ranks =
		    number_find(environment, starter[i].ranks, BOOTSTRAP_RANKS_MAX, &ranks, err);
		int has_local =
		    number_find(environment, starter[i].local, BOOTSTRAP_RANKS_MAX, &local, err);
		if (has_rank < 0 || has_ranks < 0 || has_local < 0)
			return -EINVAL;

		if (!has_rank || !has_ranks)
			continue;
		if (rank >= ranks)
			return err_set(err, -EINVAL, "%s=%llu is not below %s=%llu",
				       starter[i].rank, (unsigned long long)rank, starter[i].ranks,
				       (unsigned long long)ranks);

		plan.rank = (uint32_t)rank;
		plan.ranks = (uint32_t)ranks;
		plan.local_rank = (uint32_t)local;

		int rc = place_find(environment, &plan, err);
		if (rc == 1)
			*out = plan;

		return rc;
	}

	return 0;
}
