/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks are threads where results are checked, so that ThreadSanitizer sees the common memory in
 * one place, and processes where they stall and die. */
#include "bench/collectives/shm.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "bench/collectives/shm_internal.h"
#include "unit/bench/collectives/tree.h"
#include "unit/failmalloc.h"
#include "unit/unit.h"

enum { RANKS_MAX = 64, GUARD = 64 };
#define TIMEOUT_NS (30 * CLOCK_NS_PER_S)

enum algorithm {
	USUAL,	 /* as sizes decide */
	ROWS,	 /* of lines, as long as they can be */
	SLOTS,	 /* no lines, no direct access */
	SLICES,	 /* through slots, each rank a part; past the caches */
	KERNEL,	 /* through process_vm_readv, however short */
	MAPPED,	 /* registered */
	STREAMS, /* registered, past the caches */
	ALGORITHM_COUNT
};

struct crew {
	struct shm_world *world;
	uint64_t seed;
	uint32_t cases;
	uint64_t count_max;
	bool delays;
	void (*each)(struct crew *crew, struct backend *backend);
	const char *_Atomic problem;
	_Atomic uint64_t problem_at;
};

struct member {
	struct crew *crew;
	uint32_t rank;
	pthread_t thread;
};

static void *member_main(void *argument)
{
	struct member *member = argument;
	struct crew *crew = member->crew;
	struct backend *backend = NULL;
	struct err err = {0};
	int rc = shm_backend_new(crew->world, member->rank, TIMEOUT_NS, &backend, &err);
	if (rc < 0) {
		print_error("rank %u: %s\n", member->rank, err.text);
		if (!crew->problem)
			crew->problem = "a backend is not made";
		return NULL;
	}
	crew->each(crew, backend);
	(void)backend->ops->free_backend(backend);
	return NULL;
}

/* Runs it on as many threads; fails the test if one had a problem. */
static void crew_run(struct crew *crew, uint32_t ranks)
{
	struct err err = {0};
	struct member members[RANKS_MAX];
	assert_int_equal(shm_world_new(ranks, &crew->world, &err), 0);
	for (uint32_t rank = 0; rank < ranks; rank++) {
		members[rank] = (struct member){.crew = crew, .rank = rank};
		assert_int_equal(
		    pthread_create(&members[rank].thread, NULL, member_main, &members[rank]), 0);
	}
	for (uint32_t rank = 0; rank < ranks; rank++)
		(void)pthread_join(members[rank].thread, NULL);
	crew->world = shm_world_free(crew->world);
	const char *problem = crew->problem;
	if (problem)
		fail_msg("%s, %u ranks, case %llu of seed %llu", problem, ranks,
			 (unsigned long long)crew->problem_at, (unsigned long long)crew->seed);
}

static void crew_problem(struct crew *crew, uint64_t at, const char *text)
{
	const char *none = NULL;
	crew->problem_at = at;
	(void)atomic_compare_exchange_strong(&crew->problem, &none, text);
}

/* One call, as all ranks make it. */
struct one {
	struct tree_case what; /* of which ranks, type and seed are for copies, too */
	enum collective_op op;
	uint32_t root;
	bool in_place;
	size_t shift; /* bytes off the alignment */
	enum algorithm algorithm;
	struct collective_shape shape;
};

static void one_shape(struct one *one, uint64_t count)
{
	uint32_t ranks = one->what.ranks;
	struct collective_shape *shape = &one->shape;
	if (one->op == COLLECTIVE_ALLTOALLV) {
		collective_shape(one->op, one->what.type, count * 8 * ranks, ranks, shape);
		return;
	}
	bool out = one->op == COLLECTIVE_REDUCE_SCATTER || one->op == COLLECTIVE_SCATTER ||
		   one->op == COLLECTIVE_ALLTOALL;
	bool in = one->op == COLLECTIVE_ALL_GATHER || one->op == COLLECTIVE_HYPERCUBE ||
		  one->op == COLLECTIVE_GATHER || one->op == COLLECTIVE_ALLTOALL;
	*shape = (struct collective_shape){.param_count = count,
					   .send_count = out ? count * ranks : count,
					   .receive_count = in ? count * ranks : count};
}

/* What element `index` of the result is on `rank`: true, or it stays as it was. */
static bool one_expect(const struct one *one, uint32_t rank, uint64_t index, void *out)
{
	const struct tree_case *what = &one->what;
	uint64_t part = one->shape.param_count;
	uint32_t from = 0;
	switch (one->op) {
	case COLLECTIVE_REDUCE:
	case COLLECTIVE_ALL_REDUCE:
		if (one->op == COLLECTIVE_REDUCE && rank != one->root)
			return false;
		tree_expect(what, index, out);
		return true;
	case COLLECTIVE_REDUCE_SCATTER:
		tree_expect(what, rank * part + index, out);
		return true;
	case COLLECTIVE_GATHER:
	case COLLECTIVE_ALL_GATHER:
	case COLLECTIVE_HYPERCUBE:
		if (one->op == COLLECTIVE_GATHER && rank != one->root)
			return false;
		tree_value(what, (uint32_t)(index / part), index % part, out);
		return true;
	case COLLECTIVE_ALLTOALL:
		tree_value(what, (uint32_t)(index / part), rank * part + index % part, out);
		return true;
	case COLLECTIVE_SCATTER:
		tree_value(what, one->root, rank * part + index, out);
		return true;
	case COLLECTIVE_BROADCAST:
		tree_value(what, one->root, index, out);
		return true;
	case COLLECTIVE_SENDRECV:
		tree_value(what, (rank + what->ranks - 1) % what->ranks, index, out);
		return true;
	default: /* alltoallv */
		for (; from < what->ranks; from++) {
			uint64_t here = collective_v_count(&one->shape, what->ranks, from, rank);
			if (index < here)
				break;
			index -= here;
		}
		if (from == what->ranks)
			return false;
		for (uint32_t to = 0; to < rank; to++)
			index += collective_v_count(&one->shape, what->ranks, from, to);
		tree_value(what, from, index, out);
		return true;
	}
}

static void one_algorithm(struct shm_backend *self, enum algorithm algorithm)
{
	static const struct shm_limits usual = {
	    .line = 48, .row = 300, .slice = 900, .shy = 1500, .kernel = 20000, .stream = 5000};
	self->limits = usual; /* a little of each */
	if (algorithm == USUAL)
		return;
	self->limits.line = self->limits.row = 0;
	if (algorithm == ROWS)
		self->limits.row = SHM_ROW_BYTES;
	self->limits.slice = algorithm == SLICES ? 1 : SIZE_MAX;
	self->limits.shy = algorithm == SLICES ? 1 : SIZE_MAX;
	self->limits.kernel = algorithm == KERNEL ? 1 : SIZE_MAX;
	self->limits.stream = algorithm == STREAMS ? 1 : SIZE_MAX;
}

/* NULL, or what is wrong. */
static const char *one_run(struct backend *backend, const struct one *one)
{
	uint32_t rank = backend->rank;
	size_t size = collective_type_size(one->what.type);
	uint64_t counts[2] = {one->shape.send_count, one->shape.receive_count};
	bool is_registered = one->algorithm == MAPPED || one->algorithm == STREAMS;
	size_t bytes = (counts[0] + counts[1]) * size + 3 * GUARD;
	void *buffers[2] = {NULL, NULL};
	for (int i = 0; i < 2; i++)
		if (backend->ops->alloc(backend,
					is_registered ? BACKEND_REGISTERED : BACKEND_PRIVATE, bytes,
					&buffers[i], NULL) < 0)
			return "no memory";
	uint8_t *send = (uint8_t *)buffers[0] + GUARD + one->shift;
	uint8_t *receive = (uint8_t *)buffers[1] + GUARD + one->shift;
	if (one->in_place) {
		size_t part = rank * one->shape.param_count * size;
		receive = send;
		if (one->op == COLLECTIVE_ALL_GATHER || one->op == COLLECTIVE_GATHER ||
		    one->op == COLLECTIVE_HYPERCUBE)
			send = receive + part;
		else if (one->op == COLLECTIVE_REDUCE_SCATTER || one->op == COLLECTIVE_SCATTER)
			receive = send + part;
	}
	uint8_t guard[GUARD];
	memset(guard, 0xA5, sizeof(guard));
	for (int i = 0; i < 2; i++)
		memset(buffers[i], 0xA5, bytes);
	for (uint64_t i = 0; i < counts[0]; i++)
		tree_value(&one->what, rank, i, send + i * size);
	const struct backend_call call = {.op = one->op,
					  .type = one->what.type,
					  .redop = one->what.redop,
					  .root = one->root,
					  .shape = &one->shape,
					  .send = send,
					  .receive = receive};
	struct err err = {0};
	one_algorithm((struct shm_backend *)backend, one->algorithm);
	if (backend->ops->run(backend, &call, &err) < 0 || backend->ops->sync(backend, &err) < 0) {
		print_error("rank %u: %s\n", rank, err.text);
		return "an error";
	}
	const char *problem = NULL;
	for (uint64_t i = 0; i < counts[1] && !problem; i++) {
		uint8_t wanted[8];
		memcpy(wanted, guard, sizeof(wanted));
		if (!one_expect(one, rank, i, wanted) && one->in_place)
			continue; /* the source, or the input beside it */
		if (memcmp(wanted, receive + i * size, size) != 0) {
			print_error("rank %u: %s %s %s, element %llu of %llu, algorithm %d%s\n",
				    rank, collective_op_to_string(one->op),
				    collective_type_to_string(one->what.type),
				    collective_redop_to_string(one->what.redop),
				    (unsigned long long)i, (unsigned long long)counts[1],
				    (int)one->algorithm, one->in_place ? ", in place" : "");
			problem = "a wrong element";
		}
	}
	for (int i = 0; i < 2; i++) {
		uint8_t *end = (uint8_t *)buffers[i] + bytes - GUARD;
		if (memcmp(buffers[i], guard, GUARD) != 0 || memcmp(end, guard, GUARD) != 0)
			problem = "written outside of a buffer";
	}
	if (!one->in_place)
		for (uint64_t i = 0; i < counts[0] && !problem; i++) {
			uint8_t wanted[8];
			tree_value(&one->what, rank, i, wanted);
			if (memcmp(wanted, send + i * size, size) != 0)
				problem = "a source was changed";
		}
	for (int i = 0; i < 2; i++)
		backend->ops->free(backend, buffers[i]);
	return problem;
}

static void one_draw(struct one *one, uint64_t *random, uint32_t ranks, uint64_t count_max)
{
	*one = (struct one){.what = {.ranks = ranks}};
	one->what.seed = tree_random(random);
	one->what.type = (enum collective_type)(tree_random(random) % COLLECTIVE_TYPE_COUNT);
	one->what.redop = (enum collective_redop)(tree_random(random) % COLLECTIVE_REDOP_COUNT);
	one->op = (enum collective_op)(tree_random(random) % COLLECTIVE_OP_COUNT);
	if (tree_random(random) % 3 == 0)
		one->op = COLLECTIVE_ALL_REDUCE;
	one->root = (uint32_t)(tree_random(random) % ranks);
	one->algorithm = (enum algorithm)(tree_random(random) % ALGORITHM_COUNT);
	one->in_place = collective_op_has_in_place(one->op) && tree_random(random) % 2;
	one->shift = tree_random(random) % 3 ? 0 : tree_random(random) % GUARD;
	uint64_t count =
	    tree_random(random) % 4 ? tree_random(random) % 40 : tree_random(random) % count_max;
	one_shape(one, count);
}

static void each_draws(struct crew *crew, struct backend *backend)
{
	uint64_t random = crew->seed, own = crew->seed * 64 + backend->rank;
	for (uint32_t i = 0; i < crew->cases && !crew->problem; i++) {
		struct one one;
		one_draw(&one, &random, backend->ranks, crew->count_max);
		if (crew->delays && tree_random(&own) % 4 == 0) /* one runs ahead, another lags */
			for (uint64_t turns = tree_random(&own) % 4000; turns > 0; turns--)
				shm_pause();
		const char *problem = one_run(backend, &one);
		if (problem)
			crew_problem(crew, i, problem);
	}
}

static void results_are_the_same_bits_however_they_are_made(void **state)
{
	static const uint32_t ranks[] = {1, 2, 3, 4, 5, 7, 8, 16};
	for (size_t i = 0; i < array_length(ranks); i++) {
		struct crew crew = {.each = each_draws,
				    .seed = 11 + i,
				    .cases = ranks[i] > 4 ? 150 : 400,
				    .count_max = 2000,
				    .delays = true};
		crew_run(&crew, ranks[i]);
	}
}

/* More than a slot holds, and more than all of them. */
static void long_messages(void **state)
{
	for (uint32_t ranks = 2; ranks < 6; ranks++) {
		struct crew crew = {
		    .each = each_draws, .seed = 3 + ranks, .cases = 24, .count_max = 400000};
		crew_run(&crew, ranks);
	}
}

static void each_sweeps(struct crew *crew, struct backend *backend)
{
	uint64_t at = 0;
	for (int op = 0; op < COLLECTIVE_OP_COUNT; op++)
		for (int type = 0; type < COLLECTIVE_TYPE_COUNT; type++)
			for (int redop = 0; redop < COLLECTIVE_REDOP_COUNT; redop++) {
				struct one one = {.what = {.type = (enum collective_type)type,
							   .redop = (enum collective_redop)redop,
							   .ranks = backend->ranks,
							   .seed = crew->seed + at},
						  .op = (enum collective_op)op,
						  .algorithm =
						      (enum algorithm)(at % ALGORITHM_COUNT)};
				if (crew->problem)
					return;
				one_shape(&one, at % 5 ? 3 + at % 80 : 9000);
				const char *problem = one_run(backend, &one);
				if (problem)
					crew_problem(crew, at, problem);
				at++;
			}
}

static void every_operation_type_and_reduction(void **state)
{
	for (uint32_t ranks = 2; ranks < 5; ranks++) {
		struct crew crew = {.each = each_sweeps, .seed = ranks};
		crew_run(&crew, ranks);
	}
}

static void each_is_alone(struct crew *crew, struct backend *backend)
{
	struct one one = {.what = {.type = COLLECTIVE_F32, .ranks = backend->ranks, .seed = 5}};
	for (uint64_t at = 0; at < 300 && !crew->problem; at++) {
		one.algorithm = (enum algorithm)(at % ALGORITHM_COUNT);
		one_shape(&one, 1 + at * 7);
		const char *problem = one_run(backend, &one);
		if (problem)
			crew_problem(crew, at, problem);
	}
}

static void ranks_finish_on_one_processor_and_in_crowds(void **state)
{
	cpu_set_t before, one;
	assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
	CPU_ZERO(&one);
	for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; cpu++)
		if (CPU_ISSET(cpu, &before))
			CPU_SET(cpu, &one);
	assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
	struct crew crew = {.each = each_is_alone, .seed = 1};
	crew_run(&crew, 2);
	struct crew draws = {.each = each_draws, .seed = 77, .cases = 60, .count_max = 3000};
	crew_run(&draws, 3);
	assert_int_equal(sched_setaffinity(0, sizeof(before), &before), 0);
	struct crew crowd = {.each = each_draws, .seed = 9, .cases = 12, .count_max = 300};
	crew_run(&crowd, 64);
}

static void each_shares(struct crew *crew, struct backend *backend)
{
	static const size_t sizes[] = {0, 1, 40, 4096};
	uint8_t mine[BACKEND_SHARE_MAX], *all = calloc(backend->ranks, BACKEND_SHARE_MAX);
	struct err err = {0};
	for (size_t i = 0; all && i < array_length(sizes); i++) {
		memset(mine, (int)(backend->rank + i + 1), sizeof(mine));
		if (backend->ops->share(backend, mine, all, sizes[i], &err) < 0)
			crew_problem(crew, i, "share");
		for (size_t at = 0; at < sizes[i] * backend->ranks; at++)
			if (all[at] != (uint8_t)(at / sizes[i] + i + 1))
				crew_problem(crew, i, "what was shared is wrong");
		if (backend->ops->barrier(backend, &err) < 0)
			crew_problem(crew, i, "barrier");
	}
	free(all);
	if (backend->ops->share(backend, mine, mine, BACKEND_SHARE_MAX + 1, &err) != -E2BIG)
		crew_problem(crew, 0, "too much is shared");
	uint8_t copy[2] = {0};
	if (backend->ops->put(backend, copy, mine, 1, &err) < 0 ||
	    backend->ops->get(backend, copy + 1, mine, 1, &err) < 0 || copy[0] != mine[0] ||
	    copy[1] != mine[0])
		crew_problem(crew, 0, "put and get");
	if (!strstr(backend->description, "shared memory"))
		crew_problem(crew, 0, "the choice has no name");
}

static void ranks_share_what_they_have(void **state)
{
	struct crew crew = {.each = each_shares};
	crew_run(&crew, 3);
	struct crew alone = {.each = each_shares};
	crew_run(&alone, 1);
}

static void each_fills_memory(struct crew *crew, struct backend *backend)
{
	void *memory[SHM_REGIONS_MAX + 1] = {NULL};
	struct err err = {0};
	for (int kind = BACKEND_PRIVATE; kind <= BACKEND_REGISTERED; kind++) {
		for (int i = 0; i <= SHM_REGIONS_MAX; i++) {
			int rc = backend->ops->alloc(backend, (enum backend_memory)kind, 5000,
						     &memory[i], &err);
			if (rc != (i == SHM_REGIONS_MAX ? -ENOMEM : 0))
				crew_problem(crew, (uint64_t)i,
					     "one buffer more or less than there are");
		}
		for (int i = 0; i < SHM_REGIONS_MAX; i += 2)
			backend->ops->free(backend, memory[i]);
		if (backend->ops->alloc(backend, (enum backend_memory)kind, SIZE_MAX, &memory[0],
					&err) != -ENOMEM)
			crew_problem(crew, 0, "more memory than there is");
		/* The rest goes with the backend; what comes anew is zeroed. */
		if (backend->ops->alloc(backend, (enum backend_memory)kind, 5000, &memory[0],
					&err) < 0)
			crew_problem(crew, 0, "after memory was given back");
		else
			for (int i = 0; i < 5000; i++)
				if (((uint8_t *)memory[0])[i] != 0)
					crew_problem(crew, 0, "memory is not zeroed");
	}
	backend->ops->free(backend, NULL);
}

static void memory_ends_somewhere(void **state)
{
	struct crew crew = {.each = each_fills_memory};
	crew_run(&crew, 2);
}

static void each_differs(struct crew *crew, struct backend *backend)
{
	struct one one = {.what = {.type = COLLECTIVE_F32, .ranks = backend->ranks, .seed = 5},
			  .op = backend->rank ? COLLECTIVE_REDUCE : COLLECTIVE_ALL_REDUCE};
	float value = 1, sum = 0;
	struct err err = {0};
	one_shape(&one, 1);
	struct backend_call call = {.op = one.op,
				    .type = COLLECTIVE_F32,
				    .shape = &one.shape,
				    .send = &value,
				    .receive = &sum};
	if (backend->ops->run(backend, &call, &err) != -EINVAL ||
	    !strstr(err.text, "another operation"))
		crew_problem(crew, 0, "different calls are taken for the same");
	if (backend->ops->barrier(backend, &err) != -EINVAL)
		crew_problem(crew, 1, "something goes on after an error");
}

static void different_calls_are_refused(void **state)
{
	struct crew crew = {.each = each_differs};
	crew_run(&crew, 2);
	struct shm_world *world = NULL;
	struct err err = {0};
	assert_int_equal(shm_world_new(0, &world, &err), -EINVAL);
	assert_int_equal(shm_world_new(65, &world, &err), -EINVAL);
	assert_null(shm_world_free(NULL));
}

/* ---- Ranks that are processes. What one finds is its exit code. ---- */

enum { OK = 0, WRONG = 90, STALLED = 91, GONE_OTHER = 92, NAMED = 93, LATE = 94 };

struct trial {
	uint32_t ranks;
	size_t bytes;
	enum backend_memory memory;
	int signal;   /* to rank 1; 0: it leaves by itself */
	int expected; /* of all others */
	uint64_t timeout_ns;
	long forbidden; /* this call and pidfd_open, as in many containers; 0: none */
};

static bool confine(uint32_t forbidden)
{
	struct sock_filter code[] = {
	    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, forbidden, 2, 0),
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pidfd_open, 1, 0),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
	};
	struct sock_fprog program = {.len = array_length(code), .filter = code};
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/* All-reduces until something fails; the first of them is told by a byte. */
static int process_main(const struct trial *trial, struct shm_world *world, uint32_t rank, int told)
{
	struct backend *backend = NULL;
	struct err err = {0};
	size_t bytes = trial->bytes;
	if (trial->forbidden && !confine((uint32_t)trial->forbidden))
		return WRONG;
	if (shm_backend_new(world, rank, trial->timeout_ns, &backend, &err) < 0)
		return WRONG;
	/* Enough that it would be read through the kernel. */
	((struct shm_backend *)backend)->limits.kernel = 100000;
	if ((trial->forbidden != 0) != (strstr(backend->description, "not permitted") != NULL))
		return WRONG;
	void *buffers[2] = {NULL, NULL};
	for (int i = 0; i < 2; i++)
		if (backend->ops->alloc(backend, trial->memory, bytes, &buffers[i], &err) < 0)
			return WRONG;
	const struct collective_shape shape = {.param_count = bytes / 4};
	const struct backend_call call = {
	    .type = COLLECTIVE_F32, .shape = &shape, .send = buffers[0], .receive = buffers[1]};
	int rc = backend->ops->run(backend, &call, &err);
	if (rc < 0 || write(told, "x", 1) != 1)
		return WRONG;
	if (rank == 1 && trial->signal == 0) {
		(void)backend->ops->free_backend(backend);
		return OK;
	}
	uint64_t before;
	do {
		before = unit_now_ns();
		rc = backend->ops->run(backend, &call, &err);
	} while (rc == 0);
	if (rc != -ETIMEDOUT && unit_now_ns() - before > TIMEOUT_NS / 2)
		return LATE; /* it looks every SHM_LOOK_NS; a busy machine may delay that */
	bool names = strstr(err.text, "rank 1 (process") != NULL ||
		     strstr(err.text, "rank 1 has left") != NULL;
	(void)backend->ops->free_backend(backend);
	return rc == -EPIPE ? (names ? NAMED : GONE_OTHER) : rc == -ETIMEDOUT ? STALLED : WRONG;
}

static void trial_run(const struct trial *trial)
{
	struct shm_world *world = NULL;
	struct err err = {0};
	int told[2];
	pid_t pids[8];
	assert_int_equal(shm_world_new(trial->ranks, &world, &err), 0);
	assert_int_equal(pipe(told), 0);
	for (uint32_t rank = 0; rank < trial->ranks; rank++) {
		pids[rank] = fork();
		assert_true(pids[rank] >= 0);
		if (pids[rank] == 0)
			_exit(process_main(trial, world, rank, told[1]));
	}
	(void)close(told[1]);
	for (uint32_t rank = 0; rank < trial->ranks; rank++) {
		char byte;
		assert_int_equal(read(told[0], &byte, 1), 1);
	}
	if (trial->signal)
		assert_int_equal(kill(pids[1], trial->signal), 0);
	for (uint32_t rank = 0; rank < trial->ranks; rank++) {
		int status = 0;
		if (rank == 1)
			continue;
		assert_int_equal(waitpid(pids[rank], &status, 0), pids[rank]);
		assert_true(WIFEXITED(status));
		assert_int_equal(WEXITSTATUS(status), trial->expected);
	}
	if (trial->signal)
		(void)kill(pids[1], SIGKILL);
	assert_int_equal(waitpid(pids[1], NULL, 0), pids[1]);
	(void)close(told[0]);
	(void)shm_world_free(world);
}

static void a_rank_that_dies_is_named(void **state)
{
	static const size_t sizes[] = {8, 4096, 600000};
	for (size_t i = 0; i < array_length(sizes); i++)
		for (int memory = BACKEND_PRIVATE; memory <= BACKEND_REGISTERED; memory++) {
			const struct trial trial = {.ranks = i == 1 ? 4 : 2,
						    .bytes = sizes[i],
						    .memory = (enum backend_memory)memory,
						    .signal = SIGKILL,
						    .expected = NAMED,
						    .timeout_ns = TIMEOUT_NS};
			trial_run(&trial);
		}
}

static void without_rights_chunks_are_taken_and_the_dead_are_found(void **state)
{
	static const long calls[] = {SYS_process_vm_readv, SYS_process_vm_writev};
	for (size_t i = 0; i < array_length(calls); i++) {
		const struct trial trial = {.ranks = 3,
					    .bytes = 600000,
					    .signal = SIGKILL,
					    .expected = NAMED,
					    .timeout_ns = TIMEOUT_NS,
					    .forbidden = calls[i]};
		trial_run(&trial);
	}
}

static void a_rank_that_leaves_is_named(void **state)
{
	const struct trial trial = {
	    .ranks = 3, .bytes = 100, .expected = NAMED, .timeout_ns = TIMEOUT_NS};
	trial_run(&trial);
}

static void a_rank_that_stalls_is_waited_for_until_the_timeout(void **state)
{
	const struct trial trial = {.ranks = 2,
				    .bytes = 5000,
				    .signal = SIGSTOP,
				    .expected = STALLED,
				    .timeout_ns = 300 * CLOCK_NS_PER_MS};
	trial_run(&trial);
}

/* One stops for a moment, many times: the others wait, and nothing is wrong. */
static void stops_do_no_harm(void **state)
{
	struct shm_world *world = NULL;
	struct err err = {0};
	pid_t pids[2];
	assert_int_equal(shm_world_new(2, &world, &err), 0);
	for (uint32_t rank = 0; rank < 2; rank++) {
		pids[rank] = fork();
		assert_true(pids[rank] >= 0);
		if (pids[rank] > 0)
			continue;
		struct crew crew = {.each = each_draws,
				    .world = world,
				    .seed = 5,
				    .cases = 600,
				    .count_max = 30000};
		struct member member = {.crew = &crew, .rank = rank};
		(void)member_main(&member);
		_exit(crew.problem ? WRONG : OK);
	}
	for (uint32_t turn = 0; pids[0] > 0 || pids[1] > 0; turn++) {
		pid_t *pid = &pids[turn % 2];
		int status = 0;
		if (*pid == 0)
			continue;
		(void)kill(*pid, SIGSTOP);
		for (int i = 0; i < 200; i++)
			(void)sched_yield();
		(void)kill(*pid, SIGCONT);
		if (waitpid(*pid, &status, WNOHANG) == 0)
			continue;
		assert_true(WIFEXITED(status));
		assert_int_equal(WEXITSTATUS(status), OK);
		*pid = 0;
	}
	(void)shm_world_free(world);
}

static void a_process_start_is_read(void **state)
{
	uint64_t mine = shm_process_started(getpid());
	assert_true(mine > 0);
	assert_int_equal(shm_process_started(getpid()), mine);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		_exit(0);
	siginfo_t info;
	assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
	assert_int_equal(shm_process_started(pid), 0); /* its number is there, it is not */
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(shm_process_started(pid), 0);
}

static int use_a_world_of_one(void *context)
{
	struct shm_world *world = NULL;
	struct backend *backend = NULL;
	struct err err = {0};
	int rc = shm_world_new(1, &world, &err);
	if (rc == 0)
		rc = shm_backend_new(world, 0, TIMEOUT_NS, &backend, &err);
	if (rc == 0) {
		struct one one = {.what = {.type = COLLECTIVE_F32, .ranks = 1}};
		one_shape(&one, 1000);
		assert_null(one_run(backend, &one));
		(void)backend->ops->free_backend(backend);
	}
	(void)shm_world_free(world);
	return rc;
}

static void without_memory_it_says_so(void **state)
{
	assert_true(failmalloc_each(use_a_world_of_one, NULL) >= 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(ranks_share_what_they_have),
	    cmocka_unit_test(every_operation_type_and_reduction),
	    cmocka_unit_test(results_are_the_same_bits_however_they_are_made),
	    cmocka_unit_test(long_messages),
	    cmocka_unit_test(ranks_finish_on_one_processor_and_in_crowds),
	    cmocka_unit_test(memory_ends_somewhere),
	    cmocka_unit_test(different_calls_are_refused),
	    cmocka_unit_test(a_rank_that_dies_is_named),
	    cmocka_unit_test(without_rights_chunks_are_taken_and_the_dead_are_found),
	    cmocka_unit_test(a_rank_that_leaves_is_named),
	    cmocka_unit_test(a_rank_that_stalls_is_waited_for_until_the_timeout),
	    cmocka_unit_test(stops_do_no_harm),
	    cmocka_unit_test(a_process_start_is_read),
	    cmocka_unit_test(without_memory_it_says_so),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
