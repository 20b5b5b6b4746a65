/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that share a GPU's time: the turnstile, and what happens to who dies. */
#include "sim/cuda/world.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit/unit.h"

enum { TENANTS = 2, KERNELS = 1000, KERNEL_NS = 700000 };

/* What the processes tell each other; not through the world, which is tested. */
struct board {
	uint32_t ready;
	uint64_t start_ns;
	uint64_t finished_ns[TENANTS];
	uint64_t trace[TENANTS]; /* a hash of the times at which each kernel was done */
};

static const struct world_options options = {
    .slice_ns = 2000000, .switch_ns = 100000, .patience_ms = 60000};
static struct board *board;
static char *directory, path[512];

static int setup(void **state)
{
	(void)state;
	directory = unit_tmp_new();
	(void)snprintf(path, sizeof(path), "%s/world", directory);
	board =
	    mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return board == MAP_FAILED ? -1 : 0;
}

static int teardown(void **state)
{
	(void)state;
	(void)munmap(board, sizeof(*board));
	directory = unit_tmp_free(directory);
	return 0;
}

/* Waits in virtual time, as whoever has the turn must, until all are there. */
static void begin_together(struct world *world)
{
	struct world_wait wait = {.kind = WORLD_WAIT_TIME};

	if (!world_begin(world))
		_exit(3);
	wait.ns = world_now(world);
	if (__atomic_add_fetch(&board->ready, 1, __ATOMIC_SEQ_CST) == TENANTS)
		board->start_ns = wait.ns + 1000000000;
	world_end(world);
	while (board->start_ns == 0) {
		wait.ns += 1000000;
		world_wait(world, &wait);
	}
	wait.ns = board->start_ns;
	world_wait(world, &wait);
}

/* One closed-loop tenant with two kernels queued. `die_at`: it is killed then, in the middle. */
static void tenant(uint32_t which, uint32_t die_at)
{
	struct world *world = world_open(path, &options);
	struct world_wait wait = {.kind = WORLD_WAIT_OP};
	uint64_t last[2] = {0, 0}, hash = 0;

	if (!world)
		_exit(2);
	if (!world_begin(world))
		_exit(3);
	uint32_t context = sched_open(world_sched(world), 0, world_process(world));

	world_end(world);
	begin_together(world);
	for (uint32_t i = 0; i < KERNELS; i++) {
		struct sched_request request = {.cost_ns = KERNEL_NS, .before = last[(i + 1) & 1]};
		struct sched_op op;

		if (i == die_at)
			(void)kill(getpid(), SIGKILL);
		if (!world_begin(world))
			_exit(3);
		request.ready_ns = world_now(world);
		while (sched_collect(world_sched(world), context, &op))
			hash = hash * 31 + (op.done_ns - board->start_ns);
		last[i & 1] = sched_submit(world_sched(world), context, &request);
		world_end(world);
		if (i == 0)
			continue;
		wait.context = context;
		wait.number = last[(i + 1) & 1];
		world_wait(world, &wait);
	}
	if (world_begin(world)) {
		board->finished_ns[which] = world_now(world) - board->start_ns;
		world_end(world);
	}
	board->trace[which] = hash;
	world_close(world);
	_exit(0);
}

static void run(uint32_t die_at)
{
	pid_t child[TENANTS];
	int status;

	memset(board, 0, sizeof(*board));
	for (uint32_t i = 0; i < TENANTS; i++) {
		child[i] = fork();
		assert_true(child[i] >= 0);
		if (child[i] == 0) {
			(void)alarm(60);
			tenant(i, i == 1 ? die_at : KERNELS);
		}
	}
	for (uint32_t i = 0; i < TENANTS; i++) {
		assert_int_equal(waitpid(child[i], &status, 0), child[i]);
		if (i == 1 && die_at < KERNELS)
			assert_true(WIFSIGNALED(status));
		else
			assert_int_equal(status, 0);
	}
}

static void test_two_processes_have_the_shares_of_the_model_each_time(void **state)
{
	uint64_t trace[TENANTS];

	(void)state;
	run(KERNELS);
	/* 999 kernels of 0.7 ms at 47.6 % take 1.469 s */
	for (uint32_t i = 0; i < TENANTS; i++)
		assert_in_range(board->finished_ns[i], 1465000000, 1472000000);
	memcpy(trace, board->trace, sizeof(trace));
	run(KERNELS);
	/* who came first is chance; what happened to whom is not */
	assert_int_equal(trace[0] ^ trace[1], board->trace[0] ^ board->trace[1]);
}

static void test_one_that_is_killed_gives_its_time_to_the_other(void **state)
{
	(void)state;
	run(500);
	/* half of the time alone: about 0.73 s shared and 0.35 s alone */
	assert_in_range(board->finished_ns[0], 1060000000, 1095000000);
}

static void test_a_world_in_which_nobody_lives_begins_anew(void **state)
{
	struct world *world;

	(void)state;
	for (int i = 0; i < 2; i++) {
		world = world_open(path, &options);
		assert_non_null(world);
		assert_true(world_begin(world));
		assert_int_equal(world_now(world), 1000000000);
		world_end(world);
		world_wait(world, &(struct world_wait){.kind = WORLD_WAIT_TIME,
						       .ns = UINT64_C(5000000000)});
		assert_true(world_begin(world));
		assert_int_equal(world_now(world), UINT64_C(5000000000));
		world_end(world);
		world_close(world);
	}
}

static void test_who_stays_away_is_left_behind(void **state)
{
	const struct world_options hasty = {
	    .slice_ns = 2000000, .switch_ns = 100000, .patience_ms = 100};
	struct world *world;
	int ready[2], status;
	char byte;

	(void)state;
	assert_int_equal(pipe(ready), 0);
	pid_t child = fork();

	assert_true(child >= 0);
	if (child == 0) {
		(void)alarm(60);
		world = world_open(path, &hasty);
		if (!world || !world_begin(world))
			_exit(2);
		world_end(world);
		if (write(ready[1], "x", 1) != 1)
			_exit(3);
		(void)pause(); /* it has the turn and does not come back */
		_exit(4);
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	world = world_open(path, &hasty);
	assert_non_null(world);
	world_wait(world,
		   &(struct world_wait){.kind = WORLD_WAIT_TIME, .ns = UINT64_C(9000000000)});
	assert_int_equal(world_left_behind(world), 1);
	(void)kill(child, SIGKILL);
	assert_int_equal(waitpid(child, &status, 0), child);
	world_close(world);
	(void)close(ready[0]);
	(void)close(ready[1]);
}

static void test_who_is_stopped_with_the_lock_holds_nobody_up(void **state)
{
	const struct world_options hasty = {
	    .slice_ns = 2000000, .switch_ns = 100000, .patience_ms = 50};
	struct world_wait wait = {.kind = WORLD_WAIT_TIME, .ns = UINT64_C(9000000000)};
	int status;

	(void)state;
	struct world *world = world_open(path, &hasty);

	assert_non_null(world);
	pid_t child = fork();

	assert_true(child >= 0);
	if (child == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* an alarm does not end who is stopped */
		world_forget(world);
		world = world_open(path, &hasty);
		if (!world)
			_exit(2);
		world_lock(world);
		(void)raise(SIGSTOP);
		_exit(3);
	}
	assert_int_equal(waitpid(child, &status, WUNTRACED), child);
	assert_true(WIFSTOPPED(status));
	(void)alarm(60);
	world_wait(world, &wait);
	assert_true(world_begin(world));
	assert_in_range(world_now(world), wait.ns, wait.ns + 1000000000);
	world_end(world);
	/* It goes on by itself as well, when it is woken; who comes now meets it alone. */
	(void)kill(child, SIGKILL);
	assert_int_equal(waitpid(child, &status, 0), child);
	world_close(world);
	(void)alarm(0);
}

static void test_the_environment_says_how_time_runs(void **state)
{
	struct world_options read_options;
	const char *which = NULL;

	(void)state;
	assert_true(world_options_read(&read_options, &which));
	assert_false(read_options.is_real);
	assert_int_equal(read_options.slice_ns, 2000000);
	assert_int_equal(read_options.switch_ns, 100000);
	(void)setenv("SLUICE_SIM_CUDA_SWITCH_US", "20", 1);
	(void)setenv("SLUICE_SIM_CUDA_CLOCK", "real", 1);
	assert_true(world_options_read(&read_options, &which));
	assert_true(read_options.is_real);
	assert_int_equal(read_options.switch_ns, 20000);
	(void)setenv("SLUICE_SIM_CUDA_SLICE_US", "0", 1);
	assert_false(world_options_read(&read_options, &which));
	assert_string_equal(which, "SLUICE_SIM_CUDA_SLICE_US");
	(void)setenv("SLUICE_SIM_CUDA_SLICE_US", "2ms", 1);
	assert_false(world_options_read(&read_options, &which));
	(void)unsetenv("SLUICE_SIM_CUDA_SLICE_US");
	(void)setenv("SLUICE_SIM_CUDA_CLOCK", "fast", 1);
	assert_false(world_options_read(&read_options, &which));
	assert_string_equal(which, "SLUICE_SIM_CUDA_CLOCK");
	(void)unsetenv("SLUICE_SIM_CUDA_CLOCK");
	(void)unsetenv("SLUICE_SIM_CUDA_SWITCH_US");
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
	    CASE(test_two_processes_have_the_shares_of_the_model_each_time),
	    CASE(test_one_that_is_killed_gives_its_time_to_the_other),
	    CASE(test_a_world_in_which_nobody_lives_begins_anew),
	    CASE(test_who_stays_away_is_left_behind),
	    CASE(test_who_is_stopped_with_the_lock_holds_nobody_up),
	    CASE(test_the_environment_says_how_time_runs),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
