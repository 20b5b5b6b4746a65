/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "doors/queue/acquire.h"
#include "hardware/snapshot.h"
#include "unit/unit.h"

#define DEADLINE_NS UINT64_C(20000000000)
enum { GPUS = 4, WAITERS = 24, ROUNDS = 6 };

static char *directory;
static struct token_place token_place;
static struct acquire_result held; /* what the test itself holds */

/* Shared by all processes of a test. */
static struct {
	int told;
	char reason[ACQUIRE_TEXT_MAX];
	int lost;     /* bit i: GPU i is lost */
	int stranger; /* bit i: pid 4321 computes on GPU i */
	int using[GPUS];
	int overlaps, done[WAITERS];
} * shared;

static int setup(void **state)
{
	directory = unit_tmp_new();
	unit_write(unit_path(directory, "state"), "x");
	shared =
	    mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(shared, MAP_FAILED);
	return token_place_open(unit_path(directory, "run"), unit_path(directory, "state"),
				&token_place, NULL);
}

static int teardown(void **state)
{
	token_place_close(&token_place);
	munmap(shared, sizeof(*shared));
	directory = unit_tmp_free(directory);
	return 0;
}

static int look(void *context, struct inventory *out, struct snapshot **out_snapshot,
		struct err *err)
{
	inventory_init(out);
	out->gpu_count = GPUS;
	out->gpus = calloc(GPUS, sizeof(struct gpu));
	struct snapshot *snapshot = calloc(1, sizeof(*snapshot));
	snapshot->gpu_count = GPUS;
	for (uint32_t i = 0; i < GPUS; i++) {
		struct gpu *gpu = &out->gpus[i];
		gpu->index = i;
		gpu->numa_node = GPU_NUMA_NONE;
		gpu->state = shared->lost & (1 << i) ? GPU_STATE_LOST : GPU_STATE_OK;
		(void)snprintf(gpu->uuid, sizeof(gpu->uuid), "GPU-%u", i);
		memcpy(snapshot->gpu[i].uuid, gpu->uuid, 8);
		snapshot->gpu[i].process_count = shared->stranger & (1 << i) ? 1 : 0;
		snapshot->gpu[i].process[0] =
		    (struct snapshot_process){.pid = 4321, .type = SNAPSHOT_PROCESS_COMPUTE};
	}
	*out_snapshot = snapshot;
	return 0;
}

static void tell(void *context, const char *reason)
{
	(void)snprintf(shared->reason, sizeof(shared->reason), "%s", reason);
	__atomic_add_fetch(&shared->told, 1, __ATOMIC_SEQ_CST);
}

static struct acquire_request request_for(size_t needed)
{
	struct acquire_request request = {
	    .needed = needed, .place = &token_place, .look = look, .tell = tell};
	request.self = (struct note){.pid = getpid(), .uid = getuid(), .since_s = 1};
	note_set_name(&request.self, "train");
	return request;
}

static void wait_for_told(int at_least)
{
	for (uint64_t end = unit_now_ns() + DEADLINE_NS;
	     __atomic_load_n(&shared->told, __ATOMIC_SEQ_CST) < at_least; (void)poll(NULL, 0, 2))
		if (unit_now_ns() > end)
			fail_msg("no reason was told");
}

static int child_end(pid_t pid)
{
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void all_at_once_or_none(void **state)
{
	static struct acquire_result first, second;
	struct err err;
	struct acquire_request request = request_for(3);
	assert_int_equal(acquire_units(&request, &first, NULL), 0);
	assert_int_equal(first.count, 3);
	assert_false(first.waited);

	request = request_for(2);
	request.no_wait = true;
	assert_int_equal(acquire_units(&request, &second, &err), -EBUSY);
	print_message("  %s\n", err.text);
	assert_non_null(strstr(err.text, "waiting for 2 GPUs: 1 free; GPU "));
	assert_non_null(strstr(err.text, "held by pid "));

	/* The one that was free still is: nothing stays taken by a failed try. */
	request = request_for(1);
	request.no_wait = true;
	assert_int_equal(acquire_units(&request, &second, NULL), 0);
	acquire_release(&second);
	acquire_release(&first);
}

static void more_than_the_machine_has(void **state)
{
	static struct acquire_result result;
	struct acquire_request request = request_for(5);
	assert_int_equal(acquire_units(&request, &result, NULL), -ERANGE);
}

static void the_wait_has_its_own_end(void **state)
{
	static struct acquire_result first, second;
	struct err err;
	struct acquire_request request = request_for(4);
	assert_int_equal(acquire_units(&request, &first, NULL), 0);
	request.timeout_ns = UINT64_C(50000000);
	assert_int_equal(acquire_units(&request, &second, &err), -ETIMEDOUT);
	assert_non_null(strstr(err.text, "gave up waiting for 4 GPUs"));
	acquire_release(&first);
}

static pid_t waiter_start(size_t needed)
{
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid)
		return pid;
	acquire_release(&held); /* or it would wait for its own inherited copies */
	static struct acquire_result result;
	struct acquire_request request = request_for(needed);
	_exit(acquire_units(&request, &result, NULL) == 0 ? (int)result.count : 99);
}

static void the_end_of_a_holder_wakes_the_waiter(void **state)
{
	struct acquire_request request = request_for(4);
	assert_int_equal(acquire_units(&request, &held, NULL), 0);
	pid_t waiter = waiter_start(4);
	wait_for_told(1);
	assert_non_null(strstr(
	    shared->reason, "waiting for 4 GPUs: 0 free; GPU 0, GPU 1, GPU 2, GPU 3 held by pid"));
	/* Freed one by one: only the last one is enough. */
	while (held.count > 0)
		token_release(&held.token[--held.count]);
	assert_int_equal(child_end(waiter), 4);
}

static void a_sick_gpu_is_waited_for_and_named(void **state)
{
	shared->lost = 1 << 2;
	pid_t waiter = waiter_start(4);
	wait_for_told(1);
	assert_string_equal(shared->reason, "waiting for 4 GPUs: 3 free; GPU 2 not healthy: lost");
	shared->lost = 0;
	assert_int_equal(child_end(waiter), 4);
}

static void a_stranger_is_waited_for_and_named(void **state)
{
	static struct acquire_result result;
	shared->stranger = 1 << 1;
	pid_t waiter = waiter_start(4);
	wait_for_told(1);
	assert_string_equal(shared->reason, "waiting for 4 GPUs: 3 free; GPU 1 in use by pid 4321, "
					    "which sluice did not start");
	assert_int_equal(kill(waiter, SIGKILL), 0);
	assert_int_equal(waitpid(waiter, NULL, 0), waiter);

	struct acquire_request request = request_for(4);
	request.ignore_outsiders = true;
	assert_int_equal(acquire_units(&request, &result, NULL), 0);
	acquire_release(&result);
}

static void first_come_first_served(void **state)
{
	struct acquire_request request = request_for(1);
	assert_int_equal(acquire_units(&request, &held, NULL), 0);
	pid_t wide = waiter_start(4); /* cannot go before the one above ends */
	wait_for_told(1);
	pid_t narrow = waiter_start(1); /* could, but came later */
	wait_for_told(2);
	assert_non_null(strstr(shared->reason, "waiting for 1 GPU: next in line after pid "));
	assert_non_null(strstr(shared->reason, "(train, user "));
	assert_int_equal(waitpid(narrow, NULL, WNOHANG), 0);

	/* The wide one gives up: the narrow one goes at once. */
	assert_int_equal(kill(wide, SIGKILL), 0);
	assert_int_equal(waitpid(wide, NULL, 0), wide);
	assert_int_equal(child_end(narrow), 1);
	acquire_release(&held);
}

static void a_stopped_waiter_is_passed_over(void **state)
{
	struct acquire_request request = request_for(1);
	assert_int_equal(acquire_units(&request, &held, NULL), 0);
	pid_t wide = waiter_start(4);
	wait_for_told(1);
	assert_int_equal(kill(wide, SIGSTOP), 0);
	assert_int_equal(waitpid(wide, NULL, WUNTRACED), wide);
	assert_int_equal(child_end(waiter_start(1)), 1);
	assert_int_equal(kill(wide, SIGCONT), 0);
	acquire_release(&held);
	assert_int_equal(child_end(wide), 4);
}

/* Takes, notes who uses what in shared memory, checks that nobody else does, releases. */
static void storm_child(int number)
{
	static struct acquire_result result;
	for (int round = 0; round < ROUNDS; round++) {
		struct acquire_request request = request_for(1 + (size_t)(number + round) % GPUS);
		if (acquire_units(&request, &result, NULL) < 0)
			_exit(1);
		for (size_t i = 0; i < result.count; i++)
			if (__atomic_add_fetch(&shared->using[result.unit[i].index], 1,
					       __ATOMIC_SEQ_CST) != 1)
				__atomic_add_fetch(&shared->overlaps, 1, __ATOMIC_SEQ_CST);
		(void)poll(NULL, 0, 1);
		for (size_t i = 0; i < result.count; i++)
			__atomic_sub_fetch(&shared->using[result.unit[i].index], 1,
					   __ATOMIC_SEQ_CST);
		acquire_release(&result);
		shared->done[number]++;
	}
	_exit(0);
}

static void many_at_once_neither_overlap_nor_lock_up(void **state)
{
	pid_t pid[WAITERS];
	for (int i = 0; i < WAITERS; i++) {
		pid[i] = fork();
		if (pid[i] == 0)
			storm_child(i);
	}
	for (int i = 0; i < WAITERS; i++)
		assert_int_equal(child_end(pid[i]), 0);
	assert_int_equal(shared->overlaps, 0);
	for (int i = 0; i < WAITERS; i++)
		assert_int_equal(shared->done[i], ROUNDS);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
	    TEST(all_at_once_or_none),
	    TEST(more_than_the_machine_has),
	    TEST(the_wait_has_its_own_end),
	    TEST(the_end_of_a_holder_wakes_the_waiter),
	    TEST(a_sick_gpu_is_waited_for_and_named),
	    TEST(a_stranger_is_waited_for_and_named),
	    TEST(first_come_first_served),
	    TEST(a_stopped_waiter_is_passed_over),
	    TEST(many_at_once_neither_overlap_nor_lock_up),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
