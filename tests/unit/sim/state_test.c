/* SPDX-License-Identifier: Apache-2.0 */
/* The state file: making, opening, refusing, reading, writing, dying. Events: state_event_test.c.
 */
#include "sim/state.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sim/error.h"
#include "sim/physics.h"
#include "sim/profile.h"
#include "sim/state_private.h"
#include "tests/unit/unit.h"

enum { NOBODY = 65534, DEADLINE_S = 20 };

static struct sim_machine machine;
static struct sim_error error;
static char *directory;
static const char *path;
static struct sim_state *sim;
static uint64_t now_ns;

static int setup(void **state)
{
	const struct sim_options options = {.seed = 5};

	directory = unit_tmp_new();
	path = strdup(unit_path(directory, "sim.state"));
	if (sim_profile_load("dgx-a100", &options, &machine, &error) < 0)
		fail_msg("%s", error.text);
	sim = NULL;
	return 0;
}

static int teardown(void **state)
{
	sim = sim_state_close(sim);
	free((char *)path);
	directory = unit_tmp_free(directory);
	return 0;
}

static void make(enum sim_clock clock)
{
	machine.clock = clock;
	if (sim_state_create(path, &machine, &error) < 0)
		fail_msg("%s", error.text);
	assert_int_equal(sim_state_open(path, &sim, &error), SIM_OPEN_OK);
}

/* From now on this process dies, as if by kill -9, when it is about to give a file its name. */
static void die_at_link(void)
{
	struct sock_filter rule[] = {
	    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_link, 1, 0),
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_linkat, 0, 1),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = {sizeof(rule) / sizeof(*rule), rule};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
		_exit(77);
}

static void test_killed_create_leaves_nothing(void **state)
{
	int status = 0, fd = open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	pid_t child;

	(void)state;
	if (fd < 0) {
		print_message("SKIPPED: no files without names in '%s'\n", directory);
		skip();
	}
	(void)close(fd);
	child = fork();
	if (child == 0) {
		die_at_link();
		_exit(sim_state_create(path, &machine, &error) == 0 ? 0 : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
		print_message("SKIPPED: no seccomp here, so nothing dies on cue\n");
		skip();
	}
	assert_true(WIFSIGNALED(status));
	assert_int_equal(rmdir(directory), 0); /* empty */
	assert_int_equal(mkdir(directory, 0700), 0);
}

static uint64_t fake_now(void *context)
{
	return now_ns;
}

static void use_fake_clock(void)
{
	now_ns = sim->file->header.start_ns;
	sim_state_use_clock(sim, fake_now, NULL);
}

/* Changes bytes of the file. */
static void patch(size_t offset, const void *bytes, size_t length)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, bytes, length, (off_t)offset), length);
	close(fd);
}

static void assert_opens_as(enum sim_open wanted)
{
	struct sim_state *other = NULL;

	assert_int_equal(sim_state_open(path, &other, &error), wanted);
	other = sim_state_close(other);
}

static void test_default_path(void **state)
{
	char text[SIM_PATH_MAX];

	assert_int_equal(setenv("SLUICE_SIM_STATE", "/x/y", 1), 0);
	assert_string_equal(sim_state_default_path(text), "/x/y");
	assert_int_equal(unsetenv("SLUICE_SIM_STATE"), 0);
	assert_int_equal(setenv("XDG_RUNTIME_DIR", "/run/user/7", 1), 0);
	assert_string_equal(sim_state_default_path(text), geteuid() == 0
							      ? "/run/sluice/sim.state"
							      : "/run/user/7/sluice/sim.state");
}

static void test_create_open_read(void **state)
{
	const struct sim_machine *seen;

	make(SIM_CLOCK_VIRTUAL);
	assert_true(sim_state_is_writable(sim));
	seen = sim_state_read(sim);
	assert_string_equal(seen->profile, "dgx-a100");
	assert_string_equal(seen->gpu[7].uuid, machine.gpu[7].uuid);
	sim_state_read_done(sim);
	assert_int_equal(sim_state_last_event(sim), 0);
}

static void test_directory_is_made(void **state)
{
	free((char *)path);
	path = strdup(unit_path(directory, "sluice/sim.state"));
	make(SIM_CLOCK_VIRTUAL);
}

static void test_no_file(void **state)
{
	assert_opens_as(SIM_OPEN_NONE);
	assert_int_equal(sim_state_open("/dev/null/x", &sim, &error), SIM_OPEN_NONE);
	assert_int_equal(sim_state_create("/nowhere/at/all", &machine, &error), -1);
	assert_int_equal(error.exit_code, SIM_EXIT_FAILED);
	assert_int_equal(sim_state_create("", &machine, &error), -1);
}

static void test_live_machine_is_not_replaced(void **state)
{
	make(SIM_CLOCK_VIRTUAL);
	assert_int_equal(sim_state_create(path, &machine, &error), -1);
	assert_int_equal(error.exit_code, SIM_EXIT_LIVE);
	assert_non_null(strstr(error.text, "sluice sim stop"));
}

static void test_foreign_files(void **state)
{
	char *target = strdup(unit_path(directory, "target"));

	unit_write(target, "precious");
	assert_int_equal(symlink(target, path), 0);
	assert_opens_as(SIM_OPEN_FOREIGN);
	assert_int_equal(sim_state_create(path, &machine, &error), -1);
	assert_int_equal(error.exit_code, SIM_EXIT_FOREIGN);
	assert_int_equal(unlink(path), 0);
	unit_write(path, "precious");
	assert_opens_as(SIM_OPEN_VERSION);
	assert_int_equal(sim_state_create(path, &machine, &error), -1);
	assert_int_equal(error.exit_code, SIM_EXIT_FOREIGN);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkdir(path, 0755), 0);
	assert_int_equal(sim_state_create(path, &machine, &error), -1);
	assert_int_equal(rmdir(path), 0);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_opens_as(SIM_OPEN_FOREIGN);
	free(target);
}

static void test_somebody_elses(void **state)
{
	if (geteuid() != 0) {
		print_message("SKIPPED: giving a file away needs root\n");
		skip();
	}
	make(SIM_CLOCK_VIRTUAL);
	assert_int_equal(chown(path, NOBODY, NOBODY), 0);
	assert_opens_as(SIM_OPEN_FOREIGN);
	assert_int_equal(sim_state_create(path, &machine, &error), -1);
	assert_int_equal(error.exit_code, SIM_EXIT_FOREIGN);
}

static void test_other_versions(void **state)
{
	static const struct {
		size_t offset;
		const char *bytes;
		enum sim_open wanted;
	} cases[] = {
	    {0, "X", SIM_OPEN_VERSION},
	    {offsetof(struct sim_header, format), "\x7f", SIM_OPEN_VERSION},
	    {offsetof(struct sim_header, machine_bytes), "\x01", SIM_OPEN_VERSION},
	    {offsetof(struct sim_header, layout), "\x01", SIM_OPEN_VERSION},
	    {offsetof(struct sim_header, boot_id), "zzzz", SIM_OPEN_NONE},
	    {offsetof(struct sim_file, copy[0].gpu_count), "\x11", SIM_OPEN_VERSION},
	    {offsetof(struct sim_file, copy[0].gpu[3].model), "\x04", SIM_OPEN_VERSION},
	    {offsetof(struct sim_file, copy[0].gpu[0].health), "\x09", SIM_OPEN_VERSION},
	};

	make(SIM_CLOCK_VIRTUAL);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char before[8];
		size_t length = strlen(cases[i].bytes);

		memcpy(before, (char *)sim->file + cases[i].offset, length);
		patch(cases[i].offset, cases[i].bytes, length);
		assert_opens_as(cases[i].wanted);
		patch(cases[i].offset, before, length);
		assert_opens_as(SIM_OPEN_OK);
	}
	/* what is ours but of another boot or version is replaced */
	patch(offsetof(struct sim_header, boot_id), "zzzz", 4);
	assert_int_equal(sim_state_create(path, &machine, &error), 0);
	patch(offsetof(struct sim_header, format), "\x7f", 1);
	assert_int_equal(sim_state_create(path, &machine, &error), 0);
	assert_opens_as(SIM_OPEN_OK);
}

static void test_cut_short(void **state)
{
	make(SIM_CLOCK_VIRTUAL);
	sim = sim_state_close(sim);
	assert_int_equal(truncate(path, sizeof(struct sim_file) - 1), 0);
	assert_opens_as(SIM_OPEN_VERSION);
	assert_int_equal(truncate(path, 7), 0);
	assert_opens_as(SIM_OPEN_VERSION);
	assert_int_equal(truncate(path, 0), 0);
	assert_opens_as(SIM_OPEN_VERSION);
}

static void test_garbage_under_a_reader_is_an_empty_machine(void **state)
{
	const uint32_t wrong = 99;
	const uint64_t next = 2;

	make(SIM_CLOCK_VIRTUAL);
	sim_state_read(sim);
	sim_state_read_done(sim);
	patch(offsetof(struct sim_file, copy[0].gpu_count), &wrong, sizeof(wrong));
	patch(offsetof(struct sim_header, published), &next, sizeof(next));
	assert_int_equal(sim_state_read(sim)->gpu_count, 0);
	sim_state_read_done(sim);
	assert_null(sim_state_write(sim));
}

static void test_write_is_seen_by_others(void **state)
{
	struct sim_state *other = NULL;
	struct sim_machine *draft;
	uint64_t generation;

	make(SIM_CLOCK_VIRTUAL);
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
	make(SIM_CLOCK_REAL);
	use_fake_clock();
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
	make(SIM_CLOCK_VIRTUAL);
	use_fake_clock();
	now_ns += 100 * SIM_TICK_NS;
	assert_int_equal(sim_state_read(sim)->tick, 0);
	sim_state_read_done(sim);
	assert_int_equal(sim_state_advance(sim, 25, &error), 0);
	assert_int_equal(sim_state_read(sim)->tick, 25);
	sim_state_read_done(sim);
	assert_int_equal(sim_state_advance(sim, UINT64_MAX, &error), -1);
}

static void test_read_only(void **state)
{
	struct sim_state *other = NULL;

	make(SIM_CLOCK_REAL);
	assert_int_equal(chmod(directory, 0755), 0);
	assert_int_equal(chmod(path, 0444), 0);
	if (geteuid() == 0)
		assert_int_equal(seteuid(NOBODY), 0);
	assert_int_equal(sim_state_open(path, &other, &error), SIM_OPEN_OK);
	if (getuid() == 0)
		assert_int_equal(seteuid(0), 0);
	assert_false(sim_state_is_writable(other));
	assert_null(sim_state_write(other));
	now_ns = other->file->header.start_ns + 7 * SIM_TICK_NS;
	sim_state_use_clock(other, fake_now, NULL);
	assert_int_equal(sim_state_read(other)->tick, 7);
	sim_state_read_done(other);
	assert_int_equal(sim_state_advance(other, 1, &error), -1);
	other = sim_state_close(other);
}

static void test_private_machine(void **state)
{
	machine.clock = SIM_CLOCK_VIRTUAL;
	assert_int_equal(sim_state_private(&machine, &sim), 0);
	assert_true(sim_state_is_writable(sim));
	assert_int_equal(sim_state_advance(sim, 5, &error), 0);
	assert_int_equal(sim_state_read(sim)->tick, 5);
	sim_state_read_done(sim);
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
	make(SIM_CLOCK_VIRTUAL);
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

	make(SIM_CLOCK_REAL);
	use_fake_clock();
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
	make(SIM_CLOCK_REAL);
	use_fake_clock();
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

	make(SIM_CLOCK_REAL);
	use_fake_clock();
	assert_int_equal(sim_state_open(path, &reader, &error), SIM_OPEN_OK);
	sim_state_use_clock(reader, fake_now, NULL);
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

	make(SIM_CLOCK_REAL);
	use_fake_clock();
	assert_int_equal(sim_state_open(path, &reader, &error), SIM_OPEN_OK);
	sim_state_use_clock(reader, fake_now, NULL);
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

static void test_read_only_reader_sees_the_dead_go_too(void **state)
{
	struct sim_process identity = {0};
	pid_t child;

	make(SIM_CLOCK_REAL);
	use_fake_clock();
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

	make(SIM_CLOCK_VIRTUAL);
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

/* A script of commands on a machine in a new file; its copies and events afterwards. */
static void play(const char *name, struct sim_file *out)
{
	struct sim_state *own = NULL;
	struct sim_machine *draft;
	struct sim_event event = {.type = 0x8, .data = 31};

	machine.clock = SIM_CLOCK_VIRTUAL;
	assert_int_equal(sim_state_create(unit_path(directory, name), &machine, &error), 0);
	assert_int_equal(sim_state_open(unit_path(directory, name), &own, &error), SIM_OPEN_OK);
	for (uint32_t i = 0; i < 20; i++) {
		draft = sim_state_write(own);
		draft->gpu[i % 8].process[i] =
		    (struct sim_process){.pid = 1 + i,
					 .type = SIM_PROCESS_COMPUTE,
					 .shape = (uint8_t)(i % 3),
					 .gi = SIM_WHOLE_GPU,
					 .ci = SIM_WHOLE_GPU,
					 .util_permille = 50 * i,
					 .membw_permille = -1,
					 .begin_tick = draft->tick,
					 .end_tick = i % 2 ? draft->tick + 100 : 0};
		draft->gpu[3].ambient_c = i == 10 ? 100 : draft->gpu[3].ambient_c;
		sim_machine_event(draft, &event);
		sim_state_commit(own);
		assert_int_equal(sim_state_advance(own, 37 * i, &error), 0);
	}
	*out = *own->file;
	own = sim_state_close(own);
}

static void test_same_commands_same_bytes(void **state)
{
	static struct sim_file files[2];

	play("one", &files[0]);
	play("two", &files[1]);
	assert_true(files[0].copy[0].last_event > 20); /* the overheated GPU's among them */
	assert_memory_equal(files[0].copy, files[1].copy, sizeof(files[0].copy));
	assert_memory_equal(files[0].ring, files[1].ring, sizeof(files[0].ring));
}

static void test_sizes(void **state)
{
	assert_true(sizeof(struct sim_file) <= 2 << 20);
	assert_true(2 * sizeof(struct sim_machine) <= 1 << 20);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    CASE(test_killed_create_leaves_nothing),
	    cmocka_unit_test(test_default_path),
	    CASE(test_create_open_read),
	    CASE(test_directory_is_made),
	    CASE(test_no_file),
	    CASE(test_live_machine_is_not_replaced),
	    CASE(test_foreign_files),
	    CASE(test_somebody_elses),
	    CASE(test_other_versions),
	    CASE(test_cut_short),
	    CASE(test_garbage_under_a_reader_is_an_empty_machine),
	    CASE(test_write_is_seen_by_others),
	    CASE(test_time_moves_for_readers),
	    CASE(test_virtual_time_stands_still),
	    CASE(test_read_only),
	    CASE(test_private_machine),
	    CASE(test_writer_killed_at_every_step),
	    CASE(test_dead_processes_vanish),
	    CASE(test_dead_processes_stay_with_the_quirk),
	    CASE(test_counters_do_not_go_back_when_a_process_dies),
	    CASE(test_counters_do_not_go_back_when_a_writer_is_slow),
	    CASE(test_read_only_reader_sees_the_dead_go_too),
	    CASE(test_child_forked_while_reading),
	    CASE(test_same_commands_same_bytes),
	    cmocka_unit_test(test_sizes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
