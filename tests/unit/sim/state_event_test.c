/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sim/error.h"
#include "sim/physics.h"
#include "sim/profile.h"
#include "sim/state_private.h"
#include "tests/unit/unit.h"

enum { DEADLINE_S = 30, LONG_MS = 3600000 };

static struct sim_machine machine;
static struct sim_error error;
static char *directory;
static char *path;
static struct sim_state *sim;

static int setup(void **state)
{
	directory = unit_tmp_new();
	path = strdup(unit_path(directory, "sim.state"));
	if (sim_profile_load("dgx1", NULL, &machine, &error) < 0)
		fail_msg("%s", error.text);
	machine.clock = SIM_CLOCK_VIRTUAL;
	assert_int_equal(sim_state_create(path, &machine, &error), 0);
	assert_int_equal(sim_state_open(path, &sim, &error), SIM_OPEN_OK);
	return 0;
}

static int teardown(void **state)
{
	sim = sim_state_close(sim);
	free(path);
	directory = unit_tmp_free(directory);
	return 0;
}

/* Publishes `count` events with data from `data` on. */
static void publish(uint64_t data, uint32_t count)
{
	struct sim_event event = {.type = 0x8, .gpu = 3, .gi = SIM_WHOLE_GPU, .ci = SIM_WHOLE_GPU};

	while (count > 0) {
		struct sim_machine *draft = sim_state_write(sim);

		assert_non_null(draft);
		for (uint32_t i = 0; i < 8 && count > 0; i++, count--) {
			event.data = data++;
			sim_machine_event(draft, &event);
		}
		sim_state_commit(sim);
	}
}

static bool wants_data(const struct sim_event *event, void *context)
{
	return !context || event->data == *(uint64_t *)context;
}

static void test_events_in_order(void **state)
{
	struct sim_event event;
	uint64_t missed = 0, cursor = 0;

	publish(500, 3);
	assert_int_equal(sim_state_last_event(sim), 3);
	for (uint64_t i = 0; i < 3; i++) {
		assert_int_equal(
		    sim_state_wait_event(sim, cursor, 0, wants_data, NULL, &event, &missed), 1);
		assert_int_equal(event.number, i + 1);
		assert_int_equal(event.data, 500 + i);
		assert_int_equal(event.gpu, 3);
		cursor = event.number;
	}
	assert_int_equal(sim_state_wait_event(sim, cursor, 0, wants_data, NULL, &event, &missed),
			 0);
	assert_int_equal(event.number, 3);
	assert_int_equal(missed, 0);
}

static void test_unwanted_are_passed_over(void **state)
{
	struct sim_event event;
	uint64_t missed = 0, wanted = 7;

	publish(0, 10);
	assert_int_equal(sim_state_wait_event(sim, 0, 0, wants_data, &wanted, &event, &missed), 1);
	assert_int_equal(event.number, 8);
	assert_int_equal(sim_state_wait_event(sim, 8, 0, wants_data, &wanted, &event, &missed), 0);
	assert_int_equal(event.number, 10);
	assert_int_equal(missed, 0);
}

static void test_overwritten_are_counted(void **state)
{
	struct sim_event event;
	uint64_t missed = 5, wanted = 2;

	publish(0, SIM_EVENT_MAX + 100);
	assert_int_equal(sim_state_wait_event(sim, 0, 0, wants_data, NULL, &event, &missed), 1);
	assert_int_equal(missed, 105);
	assert_int_equal(event.number, 101);
	assert_int_equal(event.data, 100);
	/* one that went on from where a fruitless look ended does not miss them again */
	assert_int_equal(sim_state_wait_event(sim, 0, 0, wants_data, &wanted, &event, &missed), 0);
	assert_int_equal(event.number, SIM_EVENT_MAX + 100);
	missed = 0;
	assert_int_equal(
	    sim_state_wait_event(sim, event.number, 0, wants_data, NULL, &event, &missed), 0);
	assert_int_equal(missed, 0);
}

static void test_silent_ones_are_not_published(void **state)
{
	struct sim_machine *draft = sim_state_write(sim);
	struct sim_event event = {.type = 0x8, .silent = true};

	sim_machine_event(draft, &event);
	sim_state_commit(sim);
	assert_int_equal(sim_state_last_event(sim), 0);
	assert_int_equal(sim_state_write(sim)->pending_count, 0);
	sim_state_abort(sim);
}

static void test_aborted_ones_are_not_published(void **state)
{
	struct sim_event event = {.type = 0x8};

	sim_machine_event(sim_state_write(sim), &event);
	sim_state_abort(sim);
	assert_int_equal(sim_state_last_event(sim), 0);
	publish(9, 1);
	assert_int_equal(sim_state_last_event(sim), 1);
}

/* A child that waits for an event and exits with what the wait returned; tells us over a pipe
 * that it is about to wait. */
static pid_t start_waiter(uint32_t timeout_ms)
{
	int ready[2];
	char byte;
	pid_t child;

	assert_int_equal(pipe(ready), 0);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		struct sim_state *own = NULL;
		struct sim_event event;

		(void)alarm(DEADLINE_S);
		if (sim_state_open(path, &own, NULL) != SIM_OPEN_OK)
			_exit(9);
		if (write(ready[1], "x", 1) != 1)
			_exit(8);
		_exit(sim_state_wait_event(own, 0, timeout_ms, wants_data, NULL, &event, NULL));
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	close(ready[1]);
	return child;
}

static int result_of(pid_t child)
{
	int status;

	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void test_waiters_in_other_processes_wake(void **state)
{
	pid_t waiters[4];

	for (size_t i = 0; i < 4; i++)
		waiters[i] = start_waiter(LONG_MS);
	publish(1, 1);
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(result_of(waiters[i]), 1);
}

static void test_virtual_time_ends_a_wait(void **state)
{
	pid_t waiter = start_waiter(LONG_MS);
	uint64_t deadline = unit_now_ns() + UINT64_C(1000000000) * DEADLINE_S;
	int status = 0;

	/* it may not have looked at the clock yet when the first advance comes */
	while (waitpid(waiter, &status, WNOHANG) == 0) {
		assert_true(unit_now_ns() < deadline);
		assert_int_equal(sim_state_advance(sim, LONG_MS / 100, &error), 0);
		(void)usleep(1000);
	}
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void test_real_time_ends_a_wait_too(void **state)
{
	assert_int_equal(result_of(start_waiter(30)), 0);
}

/* A GPU that overheats while nobody writes: a reader that may write publishes the event. */
static void test_readers_publish_what_physics_causes(void **state)
{
	struct sim_machine *draft = sim_state_write(sim);
	struct sim_event event;

	draft->clock = SIM_CLOCK_REAL;
	draft->gpu[5].ambient_c = 150;
	sim_state_commit(sim);
	sim->file->header.start_ns -= UINT64_C(600) * 1000000000;
	assert_int_equal(sim_state_wait_event(sim, 0, LONG_MS, wants_data, NULL, &event, NULL), 1);
	assert_int_equal(event.data, 79);
	assert_int_equal(event.gpu, 5);
	assert_int_equal(sim_state_last_event(sim), 1);
	assert_int_equal(sim_state_read(sim)->gpu[5].health, SIM_GPU_LOST);
	sim_state_read_done(sim);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    CASE(test_events_in_order),
	    CASE(test_unwanted_are_passed_over),
	    CASE(test_overwritten_are_counted),
	    CASE(test_silent_ones_are_not_published),
	    CASE(test_aborted_ones_are_not_published),
	    CASE(test_waiters_in_other_processes_wake),
	    CASE(test_virtual_time_ends_a_wait),
	    CASE(test_real_time_ends_a_wait_too),
	    CASE(test_readers_publish_what_physics_causes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
