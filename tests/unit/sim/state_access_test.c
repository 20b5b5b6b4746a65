/* SPDX-License-Identifier: Apache-2.0 */
/* Reading and writing at once, dying, and what time it is meanwhile. */
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sim/physics.h"
#include "sim/state_private.h"
#include "tests/unit/sim/state_fixture.h"
#include "tests/unit/unit.h"

enum { DEADLINE_S = 20 };

static void test_write_is_seen_by_others(void **state)
{
	struct sim_state *other = NULL;
	struct sim_machine *draft;
	uint64_t generation;

	fixture_make(SIM_CLOCK_VIRTUAL);
	assert_int_equal(sim_state_open(path, &other, &error), SIM_OPEN_OK);
	generation = sim_state_read(other)->generation;
	sim_state_read_done(other);
	draft = sim_state_write(sim);
	assert_non_null(draft);
	draft->gpu[2].power_limit_mw = 123000;
	assert_int_equal(sim_state_read(other)->gpu[2].power_limit_mw, 400000);
	sim_state_read_done(other);
	/* the writer's own readers do not see it either, and are not kept waiting */
	assert_int_equal(sim_state_read(sim)->gpu[2].power_limit_mw, 400000);
	sim_state_read_done(sim);
	sim_state_commit(sim);
	assert_int_equal(sim_state_read(other)->gpu[2].power_limit_mw, 123000);
	sim_state_read_done(other);
	assert_int_equal(sim_state_read(other)->generation, generation + 1);
	sim_state_read_done(other);
	sim_state_write(sim)->gpu[2].power_limit_mw = 5;
	sim_state_abort(sim);
	assert_int_equal(sim_state_read(sim)->gpu[2].power_limit_mw, 123000);
	sim_state_read_done(sim);
	other = sim_state_close(other);
}

static void test_time_moves_for_readers(void **state)
{
	fixture_make(SIM_CLOCK_REAL);
	fixture_use_clock();
	assert_int_equal(sim_state_read(sim)->tick, 0);
	sim_state_read_done(sim);
	now_ns += 3 * SIM_TICK_NS + 7;
	assert_int_equal(sim_state_read(sim)->tick, 3);
	sim_state_read_done(sim);
	now_ns -= 2 * SIM_TICK_NS; /* never back */
	assert_int_equal(sim_state_read(sim)->tick, 3);
	sim_state_read_done(sim);
	assert_int_equal(sim->file->copy[0].tick, 0);
	now_ns += 100000 * SIM_TICK_NS; /* long enough to save others the way */
	sim_state_read(sim);
	sim_state_read_done(sim);
	assert_int_equal(sim->file->copy[1].tick, 100001);
	assert_int_equal(sim_state_advance(sim, 1, &error), -1);
	assert_int_equal(error.exit_code, SIM_EXIT_INPUT);
}

static void test_virtual_time_stands_still(void **state)
{
	fixture_make(SIM_CLOCK_VIRTUAL);
	fixture_use_clock();
	now_ns += 100 * SIM_TICK_NS;
	assert_int_equal(sim_state_read(sim)->tick, 0);
	sim_state_read_done(sim);
	assert_int_equal(sim_state_advance(sim, 25, &error), 0);
	assert_int_equal(sim_state_read(sim)->tick, 25);
	sim_state_read_done(sim);
	assert_int_equal(sim_state_advance(sim, UINT64_MAX, &error), -1);
}

static void die_at(enum sim_state_step step, void *context)
{
	if (step == *(enum sim_state_step *)context)
		(void)kill(getpid(), SIGKILL);
}

/* In a child: writes a change that shows everywhere, and dies at `step`. */
static void write_and_die(enum sim_state_step step, uint32_t mark)
{
	pid_t child = fork();
	int status;

	assert_true(child >= 0);
	if (child == 0) {
		struct sim_state *own = NULL;
		struct sim_machine *draft;
		struct sim_event event = {.type = 0x8, .data = mark};

		(void)alarm(DEADLINE_S);
		if (sim_state_open(path, &own, NULL) != SIM_OPEN_OK)
			_exit(1);
		sim_state_use_steps(own, die_at, &step);
		draft = sim_state_write(own);
		draft->next_rule_id = mark;
		draft->rule[SIM_RULE_MAX - 1].id = mark;
		for (uint32_t i = 0; i < 8; i++)
			draft->gpu[i].pcie_errors[0] = mark;
		sim_machine_event(draft, &event);
		sim_state_commit(own);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

/* The mark, which must be the same everywhere. */
static uint32_t whole_mark(void)
{
	const struct sim_machine *seen = sim_state_read(sim);
	uint32_t mark = seen->next_rule_id;

	assert_int_equal(seen->rule[SIM_RULE_MAX - 1].id, mark);
	for (uint32_t i = 0; i < 8; i++)
		assert_int_equal(seen->gpu[i].pcie_errors[0], mark);
	assert_int_equal(seen->last_event, mark);
	sim_state_read_done(sim);
	return mark;
}

static void test_writer_killed_at_every_step(void **state)
{
	struct sim_machine *draft;
	uint32_t mark = 0;

	machine.next_rule_id = 0;
	fixture_make(SIM_CLOCK_VIRTUAL);
	for (enum sim_state_step step = SIM_STEP_LOCKED; step < SIM_STEP_COUNT; step++) {
		write_and_die(step, mark + 1);
		if (step >= SIM_STEP_PUBLISHED)
			mark++;
		assert_int_equal(whole_mark(), mark);
		draft = sim_state_write(sim); /* the lock is free again */
		assert_non_null(draft);
		assert_int_equal(draft->next_rule_id, mark);
		sim_state_commit(sim);
		assert_int_equal(whole_mark(), mark);
	}
	assert_int_equal(mark, SIM_STEP_COUNT - SIM_STEP_PUBLISHED);
}

static pid_t start_sleeper(void)
{
	pid_t child = fork();

	assert_true(child >= 0);
	if (child == 0) {
		(void)alarm(DEADLINE_S * 3);
		for (;;)
			(void)pause();
	}
	return child;
}

static void stop_sleeper(pid_t child)
{
	assert_int_equal(kill(child, SIGKILL), 0);
	assert_int_equal(waitpid(child, NULL, 0), child);
}

static void register_process(uint32_t slot, const struct sim_process *identity)
{
	struct sim_machine *draft = sim_state_write(sim);

	assert_non_null(draft);
	draft->gpu[1].process[slot] = *identity;
	draft->gpu[1].process[slot].type = SIM_PROCESS_COMPUTE;
	draft->gpu[1].process[slot].gi = draft->gpu[1].process[slot].ci = SIM_WHOLE_GPU;
	sim_state_commit(sim);
}

static uint32_t pid_in_slot(uint32_t slot)
{
	uint32_t pid = sim_state_read(sim)->gpu[1].process[slot].pid;

	sim_state_read_done(sim);
	return pid;
}

static void test_dead_processes_vanish(void **state)
{
	struct sim_process identity = {0}, other = {0};
	pid_t child;

	fixture_make(SIM_CLOCK_REAL);
	fixture_use_clock();
	child = start_sleeper();
	assert_int_equal(sim_state_identify((uint32_t)child, &identity), 0);
	assert_int_equal(identity.pid, child);
	assert_true(identity.start_time > 0);
	register_process(0, &identity);
	other = identity; /* somebody else's: the number means nothing here */
	other.pid_ns = 1;
	register_process(1, &other);
	other = identity;
	other.start_time = 0; /* invented */
	register_process(2, &other);
	other = identity;
	other.start_time++; /* the number was used again */
	register_process(3, &other);
	now_ns += SIM_TICK_NS;
	assert_int_equal(pid_in_slot(0), child);
	assert_int_equal(pid_in_slot(3), 0);
	stop_sleeper(child);
	assert_int_equal(pid_in_slot(0), child); /* until the next tick */
	now_ns += SIM_TICK_NS;
	assert_int_equal(pid_in_slot(0), 0);
	assert_int_equal(sim->file->copy[sim->file->header.published & 1].gpu[1].process[0].pid, 0);
	assert_int_equal(pid_in_slot(1), child);
	assert_int_equal(pid_in_slot(2), child);
	assert_int_equal(sim_state_identify((uint32_t)child, &identity), -1);
}

static void test_dead_processes_stay_with_the_quirk(void **state)
{
	struct sim_process identity = {0};
	pid_t child;

	machine.quirks = SIM_QUIRK_DEADPID;
	fixture_make(SIM_CLOCK_REAL);
	fixture_use_clock();
	child = start_sleeper();
	assert_int_equal(sim_state_identify((uint32_t)child, &identity), 0);
	register_process(0, &identity);
	stop_sleeper(child);
	now_ns += 10 * SIM_TICK_NS;
	assert_int_equal(pid_in_slot(0), child);
}

/* A reader has counted the work of a process that a writer then finds dead: it stays counted. */
static void test_counters_do_not_go_back_when_a_process_dies(void **state)
{
	struct sim_process identity = {.util_permille = 1000};
	struct sim_state *reader = NULL;
	uint64_t seen_uj;
	pid_t child;

	fixture_make(SIM_CLOCK_REAL);
	fixture_use_clock();
	assert_int_equal(sim_state_open(path, &reader, &error), SIM_OPEN_OK);
	sim_state_use_clock(reader, fixture_now, NULL);
	reader->writable = false;
	child = start_sleeper();
	assert_int_equal(sim_state_identify((uint32_t)child, &identity), 0);
	register_process(0, &identity);
	now_ns += 20 * SIM_TICK_NS;
	seen_uj = sim_state_read(reader)->gpu[1].energy_uj;
	sim_state_read_done(reader);
	stop_sleeper(child);
	assert_non_null(sim_state_write(sim));
	sim_state_commit(sim);
	assert_int_equal(pid_in_slot(0), 0);
	assert_true(sim_state_read(reader)->gpu[1].energy_uj >= seen_uj);
	sim_state_read_done(reader);
	reader = sim_state_close(reader);
}

/* A change counts from its beginning; what readers have shown until it is published stays counted.
 */
static void test_counters_do_not_go_back_when_a_writer_is_slow(void **state)
{
	struct sim_process work = {.pid = 1, .host_pid = 1, .util_permille = 1000};
	struct sim_state *reader = NULL;
	struct sim_machine *draft;
	uint64_t seen_uj;

	fixture_make(SIM_CLOCK_REAL);
	fixture_use_clock();
	assert_int_equal(sim_state_open(path, &reader, &error), SIM_OPEN_OK);
	sim_state_use_clock(reader, fixture_now, NULL);
	reader->writable = false;
	register_process(0, &work);
	now_ns += 20 * SIM_TICK_NS;
	draft = sim_state_write(sim);
	assert_non_null(draft);
	draft->gpu[1].process[0] = (struct sim_process){0};
	now_ns += 20 * SIM_TICK_NS;
	seen_uj = sim_state_read(reader)->gpu[1].energy_uj;
	sim_state_read_done(reader);
	sim_state_commit(sim);
	assert_int_equal(sim_state_read(reader)->gpu[1].process[0].pid, 0);
	sim_state_read_done(reader);
	assert_true(sim_state_read(reader)->gpu[1].energy_uj >= seen_uj);
	sim_state_read_done(reader);
	reader = sim_state_close(reader);
}

/* A machine with work on GPU 1 that a writer is about to end, and a reader that may not write. */
static struct sim_state *make_worked_on(void)
{
	struct sim_process work = {.pid = 1, .host_pid = 1, .util_permille = 1000};
	struct sim_state *reader = NULL;

	fixture_make(SIM_CLOCK_REAL);
	fixture_use_clock();
	assert_int_equal(sim_state_open(path, &reader, &error), SIM_OPEN_OK);
	sim_state_use_clock(reader, fixture_now, NULL);
	reader->writable = false;
	register_process(0, &work);
	now_ns += 20 * SIM_TICK_NS;
	return reader;
}

static uint64_t energy_seen_by(struct sim_state *reader, uint64_t *out_tick)
{
	const struct sim_machine *seen = sim_state_read(reader);
	uint64_t energy_uj = seen->gpu[1].energy_uj;

	*out_tick = seen->tick;
	sim_state_read_done(reader);
	return energy_uj;
}

struct late_reader {
	struct sim_state *reader;
	uint64_t seen_uj, seen_tick, published_tick;
};

/* Two seconds pass at every step of a write, and somebody reads. */
static void read_late(enum sim_state_step step, void *context)
{
	struct late_reader *late = context;
	uint64_t energy_uj, tick;

	if (step == SIM_STEP_LOCKED)
		return;
	now_ns += 20 * SIM_TICK_NS;
	energy_uj = energy_seen_by(late->reader, &tick);
	assert_true(energy_uj >= late->seen_uj);
	assert_true(tick >= late->seen_tick);
	late->seen_uj = energy_uj;
	late->seen_tick = tick;
	if (step == SIM_STEP_PUBLISHED)
		late->published_tick = tick;
}

/* The same between the writer's last look at the clock and the publication. */
static void test_counters_do_not_go_back_while_a_writer_publishes(void **state)
{
	struct late_reader late = {.reader = make_worked_on()};
	struct sim_machine *draft;
	uint64_t frozen_tick = 40, tick;

	sim_state_use_steps(sim, read_late, &late);
	draft = sim_state_write(sim);
	assert_non_null(draft);
	draft->gpu[1].process[0] = (struct sim_process){0};
	now_ns += 20 * SIM_TICK_NS;
	sim_state_commit(sim);
	/* the clock is looked at when time is frozen already: who had not seen that yet may have
	 * counted on */
	assert_true(late.published_tick >= frozen_tick + 20);
	(void)energy_seen_by(late.reader, &tick);
	assert_int_equal(tick, (now_ns - sim->file->header.start_ns) / SIM_TICK_NS);
	late.reader = sim_state_close(late.reader);
}

/* A writer that is killed while time is frozen. */
static void die_publishing(void)
{
	enum sim_state_step step = SIM_STEP_HALF_COPIED;
	pid_t child = fork();
	int status;

	assert_true(child >= 0);
	if (child == 0) {
		(void)alarm(DEADLINE_S);
		sim_state_use_steps(sim, die_at, &step);
		sim_state_write(sim)->gpu[1].process[0] = (struct sim_process){0};
		sim_state_commit(sim);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status));
	assert_int_not_equal(sim->file->header.frozen, 0);
}

static void test_time_goes_on_after_a_writer_that_died_publishing(void **state)
{
	struct sim_state *reader = make_worked_on();
	uint64_t seen_uj, tick, now = 20;

	die_publishing();
	now_ns += 5 * SIM_TICK_NS;
	(void)energy_seen_by(reader, &tick);
	assert_int_equal(tick, now); /* it cannot know */
	now_ns += SIM_FROZEN_MAX_TICKS * SIM_TICK_NS;
	now += 5 + SIM_FROZEN_MAX_TICKS;
	seen_uj = energy_seen_by(reader, &tick);
	assert_int_equal(tick, now); /* but not for ever */
	now_ns -= SIM_FROZEN_MAX_TICKS * SIM_TICK_NS;
	now -= SIM_FROZEN_MAX_TICKS;
	(void)energy_seen_by(sim, &tick); /* one who may write finds out at once */
	assert_int_equal(tick, now);
	assert_int_equal(sim->file->header.frozen, 0);
	now_ns += (SIM_FROZEN_MAX_TICKS + 1) * SIM_TICK_NS;
	assert_true(energy_seen_by(reader, &tick) >= seen_uj);
	assert_int_equal(tick, now + SIM_FROZEN_MAX_TICKS + 1);
	die_publishing();
	assert_non_null(sim_state_write(sim));
	assert_int_equal(sim->file->header.frozen, 0); /* however long the next one takes */
	sim_state_abort(sim);
	reader = sim_state_close(reader);
}

static void test_read_only_reader_sees_the_dead_go_too(void **state)
{
	struct sim_process identity = {0};
	pid_t child;

	fixture_make(SIM_CLOCK_REAL);
	fixture_use_clock();
	child = start_sleeper();
	assert_int_equal(sim_state_identify((uint32_t)child, &identity), 0);
	register_process(0, &identity);
	stop_sleeper(child);
	sim->writable = false;
	now_ns += SIM_TICK_NS;
	assert_int_equal(pid_in_slot(0), 0);
	assert_int_equal(pid_in_slot(0), 0);
	assert_int_equal(sim->file->copy[sim->file->header.published & 1].gpu[1].process[0].pid,
			 child);
}

static void test_child_forked_while_reading(void **state)
{
	int status;
	pid_t child;

	fixture_make(SIM_CLOCK_VIRTUAL);
	sim_state_read(sim);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		(void)alarm(DEADLINE_S);
		_exit(sim_state_read(sim)->gpu_count == 8 ? 0 : 1);
	}
	sim_state_read_done(sim);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* What a kernel whose pages have 64 KiB keeps from a child: whole pages. */
static void test_child_forked_where_pages_are_large(void **state)
{
	int status;
	pid_t child;

	fixture_make(SIM_CLOCK_VIRTUAL);
	assert_int_equal(madvise(sim, 64 << 10, MADV_WIPEONFORK), 0);
	sim_state_read(sim);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		(void)alarm(DEADLINE_S);
		_exit(sim_state_read(sim)->gpu_count == 8 ? 0 : 1);
	}
	sim_state_read_done(sim);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    FIXTURE_CASE(test_write_is_seen_by_others),
	    FIXTURE_CASE(test_time_moves_for_readers),
	    FIXTURE_CASE(test_virtual_time_stands_still),
	    FIXTURE_CASE(test_writer_killed_at_every_step),
	    FIXTURE_CASE(test_dead_processes_vanish),
	    FIXTURE_CASE(test_dead_processes_stay_with_the_quirk),
	    FIXTURE_CASE(test_counters_do_not_go_back_when_a_process_dies),
	    FIXTURE_CASE(test_counters_do_not_go_back_when_a_writer_is_slow),
	    FIXTURE_CASE(test_counters_do_not_go_back_while_a_writer_publishes),
	    FIXTURE_CASE(test_time_goes_on_after_a_writer_that_died_publishing),
	    FIXTURE_CASE(test_read_only_reader_sees_the_dead_go_too),
	    FIXTURE_CASE(test_child_forked_while_reading),
	    FIXTURE_CASE(test_child_forked_where_pages_are_large),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
