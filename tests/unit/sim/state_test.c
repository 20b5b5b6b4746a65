/* SPDX-License-Identifier: Apache-2.0 */
/* The state file: making, opening, refusing. Reading and writing at once: state_access_test.c;
 * events: state_event_test.c. */
#include "sim/state.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sim/physics.h"
#include "sim/state_private.h"
#include "tests/unit/sim/state_fixture.h"
#include "tests/unit/unit.h"

enum {
	NOBODY = 65534,
};

/* From now on this process dies, as if by kill -9, when it is about to give a file its name. */
static void die_at_link(void)
{
	struct sock_filter rule[] = {
	    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
#ifdef SYS_link /* not on arm64 */
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_link, 1, 0),
#endif
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
	char text[SIM_PATH_MAX], wanted[SIM_PATH_MAX];

	assert_int_equal(setenv("SLUICE_SIM_STATE", "/x/y", 1), 0);
	assert_string_equal(sim_state_default_path(text), "/x/y");
	assert_int_equal(unsetenv("SLUICE_SIM_STATE"), 0);
	if (geteuid() == 0) {
		assert_string_equal(sim_state_default_path(text), "/run/sluice/sim.state");
		assert_string_equal(sim_state_default_dir(text), "/run/sluice");
		return;
	}
	assert_int_equal(setenv("XDG_RUNTIME_DIR", directory, 1), 0);
	(void)snprintf(wanted, sizeof(wanted), "%s/sluice/sim.state", directory);
	assert_string_equal(sim_state_default_path(text), wanted);
}

/* An ordinary user, also where the tests run as root. */
static void as_user(const void *context)
{
	const char *home = context;
	char text[SIM_PATH_MAX], wanted[SIM_PATH_MAX];

	if (geteuid() == 0 && setresuid(NOBODY, NOBODY, NOBODY) != 0)
		_exit(3);
	(void)setenv("XDG_RUNTIME_DIR", "/", 1); /* somebody else's, as after su */
	(void)setenv("HOME", home, 1);
	(void)unsetenv("XDG_STATE_HOME");
	(void)unsetenv("SLUICE_SIM_STATE");
	(void)snprintf(wanted, sizeof(wanted), "%s/.local/state/sluice", home);
	if (strcmp(sim_state_default_dir(text), wanted) != 0)
		_exit(4);
	/* without a machine there, that of root is looked at */
	if (strcmp(sim_state_default_path(text), "/run/sluice/sim.state") != 0)
		_exit(5);
	(void)setenv("XDG_STATE_HOME", home, 1);
	(void)snprintf(wanted, sizeof(wanted), "%s/sluice/sim.state", home);
	if (sim_state_create(wanted, &machine, &error) != 0 ||
	    strcmp(sim_state_default_path(text), wanted) != 0)
		_exit(6);
	(void)unsetenv("HOME");
	(void)unsetenv("XDG_STATE_HOME");
	_exit(strcmp(sim_state_default_dir(text), "") == 0 ? 0 : 7);
}

static void test_default_path_without_a_session(void **state)
{
	struct stat info;
	char session[64];
	int status;

	(void)snprintf(session, sizeof(session), "/run/user/%u", geteuid() ? geteuid() : NOBODY);
	if (stat(session, &info) == 0)
		skip();
	assert_int_equal(chmod(directory, 0777), 0);
	pid_t child = fork();
	if (child == 0)
		as_user(directory);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static void test_create_open_read(void **state)
{
	const struct sim_machine *seen;

	fixture_make(SIM_CLOCK_VIRTUAL);
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
	fixture_make(SIM_CLOCK_VIRTUAL);
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
	fixture_make(SIM_CLOCK_VIRTUAL);
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
	fixture_make(SIM_CLOCK_VIRTUAL);
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

	fixture_make(SIM_CLOCK_VIRTUAL);
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
	fixture_make(SIM_CLOCK_VIRTUAL);
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

	fixture_make(SIM_CLOCK_VIRTUAL);
	sim_state_read(sim);
	sim_state_read_done(sim);
	patch(offsetof(struct sim_file, copy[0].gpu_count), &wrong, sizeof(wrong));
	patch(offsetof(struct sim_header, published), &next, sizeof(next));
	assert_int_equal(sim_state_read(sim)->gpu_count, 0);
	sim_state_read_done(sim);
	assert_null(sim_state_write(sim));
}

static void test_read_only(void **state)
{
	struct sim_state *other = NULL;

	fixture_make(SIM_CLOCK_REAL);
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
	sim_state_use_clock(other, fixture_now, NULL);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
	    FIXTURE_CASE(test_killed_create_leaves_nothing),
	    FIXTURE_CASE(test_default_path),
	    FIXTURE_CASE(test_default_path_without_a_session),
	    FIXTURE_CASE(test_create_open_read),
	    FIXTURE_CASE(test_directory_is_made),
	    FIXTURE_CASE(test_no_file),
	    FIXTURE_CASE(test_live_machine_is_not_replaced),
	    FIXTURE_CASE(test_foreign_files),
	    FIXTURE_CASE(test_somebody_elses),
	    FIXTURE_CASE(test_other_versions),
	    FIXTURE_CASE(test_cut_short),
	    FIXTURE_CASE(test_garbage_under_a_reader_is_an_empty_machine),
	    FIXTURE_CASE(test_read_only),
	    FIXTURE_CASE(test_private_machine),
	    FIXTURE_CASE(test_same_commands_same_bytes),
	    cmocka_unit_test(test_sizes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
