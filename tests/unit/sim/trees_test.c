/* SPDX-License-Identifier: Apache-2.0 */
/* The engine that keeps the files below a root: minimal changes, a manifest, nothing foreign. */
#include "sim/trees.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sim/error.h"
#include "sim/profile.h"
#include "tests/unit/unit.h"

static struct sim_machine machine;
static char *directory;

static int setup(void **state)
{
	const struct sim_options options = {.seed = 1};
	struct sim_error error;

	(void)state;
	directory = unit_tmp_new();
	if (sim_profile_load("t4x4", &options, &machine, &error) < 0)
		fail_msg("%s", error.text);
	(void)snprintf(machine.root, sizeof(machine.root), "%s/root", directory);
	machine.dev_style = SIM_DEV_FILE;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	directory = unit_tmp_free(directory);
	return 0;
}

static const char *at(const char *name)
{
	return unit_path(machine.root, name);
}

static void sync_ok(void)
{
	struct sim_error error = {0};
	if (sim_trees_sync(&machine, &error) != 0)
		fail_msg("%s", error.text);
}

static void sync_refuses(int exit_code, const char *text)
{
	struct sim_error error = {0};
	assert_int_equal(sim_trees_sync(&machine, &error), -1);
	assert_int_equal(error.exit_code, exit_code);
	if (!strstr(error.text, text))
		fail_msg("'%s' does not say '%s'", error.text, text);
}

static bool is_there(const char *name)
{
	struct stat status;
	return lstat(at(name), &status) == 0;
}

static ino_t inode(const char *name)
{
	struct stat status;
	assert_int_equal(lstat(at(name), &status), 0);
	return status.st_ino;
}

static void no_root_no_files(void **state)
{
	(void)state;
	machine.root[0] = '\0';
	sync_ok();
}

static void makes_and_removes_everything(void **state)
{
	struct sim_error error = {0};
	(void)state;
	sync_ok();
	assert_true(is_there("dev/nvidia3"));
	assert_true(is_there("proc/driver/nvidia/version"));
	assert_true(is_there("sys/bus/pci/devices/0000:00:1b.0"));
	assert_true(is_there("kmsg"));
	assert_int_equal(sim_trees_remove(machine.root, &error), 0);
	assert_int_equal(access(machine.root, F_OK), -1);
	/* twice is fine */
	assert_int_equal(sim_trees_remove(machine.root, &error), 0);
}

static void leaves_alone_what_is_right(void **state)
{
	(void)state;
	sync_ok();
	ino_t version = inode("proc/driver/nvidia/version"), manifest = inode(".sluice-sim");
	sync_ok();
	assert_int_equal(inode(".sluice-sim"), manifest);
	machine.gpu[1].health = SIM_GPU_UNPLUGGED;
	int held = open(at(".sluice-sim"), O_RDONLY | O_CLOEXEC); /* or its number is used again */
	assert_true(held >= 0);
	sync_ok();
	assert_int_equal(inode("proc/driver/nvidia/version"), version);
	assert_int_not_equal(inode(".sluice-sim"), manifest);
	(void)close(held);
	assert_false(is_there("dev/nvidia1"));
	assert_false(is_there("sys/bus/pci/devices/0000:00:1c.0"));
	assert_true(is_there("dev/nvidia2"));
}

static void corrects_what_was_changed(void **state)
{
	(void)state;
	sync_ok();
	unit_write(at("proc/driver/nvidia/version"), "nonsense\n");
	assert_int_equal(chmod(at("dev/nvidia0"), 0600), 0);
	sync_ok();
	char text[64] = "";
	int fd = open(at("proc/driver/nvidia/version"), O_RDONLY);
	assert_true(read(fd, text, sizeof(text) - 1) > 0);
	(void)close(fd);
	assert_memory_equal(text, "NVRM version:", 13);
	struct stat status;
	assert_int_equal(stat(at("dev/nvidia0"), &status), 0);
	assert_int_equal(status.st_mode & 07777, 0666);
}

static void streams_are_never_rewritten(void **state)
{
	(void)state;
	sync_ok();
	unit_write(at("kmsg"), "4,0,0,-;x\n");
	machine.gpu[0].health = SIM_GPU_LOST;
	sync_ok();
	struct stat status;
	assert_int_equal(stat(at("kmsg"), &status), 0);
	assert_int_equal(status.st_size, 10);
}

static void refuses_strangers(void **state)
{
	(void)state;
	assert_int_equal(mkdir(machine.root, 0755), 0);
	unit_write(at("thesis.tex"), "years of work");
	sync_refuses(SIM_EXIT_FOREIGN, "thesis.tex");
	assert_true(is_there("thesis.tex"));
	assert_false(is_there(".sluice-sim"));
}

/* What an agent leaves in the machine's directories keeps nobody from starting another there. */
static void starts_again_where_something_was_left(void **state)
{
	struct sim_error error = {0};

	(void)state;
	sync_ok();
	unit_write(at("dev/mine"), "keep");
	assert_int_equal(sim_trees_remove(machine.root, &error), 0);
	assert_true(is_there("dev/mine"));
	assert_false(is_there(".sluice-sim"));

	sync_ok();
	assert_true(is_there("dev/nvidia0"));
	assert_int_equal(sim_trees_remove(machine.root, &error), 0);
	assert_true(is_there("dev/mine"));
	assert_false(is_there("dev/nvidia0"));
}

static void refuses_a_directory_that_the_machine_does_not_have(void **state)
{
	(void)state;
	assert_int_equal(mkdir(machine.root, 0755), 0);
	assert_int_equal(mkdir(at("dev"), 0755), 0);
	assert_int_equal(mkdir(at("home"), 0755), 0);
	sync_refuses(SIM_EXIT_FOREIGN, "home");
	assert_false(is_there(".sluice-sim"));
}

static void refuses_a_link_in_place_of_a_node(void **state)
{
	(void)state;
	sync_ok();
	const char *victim = unit_path(directory, "victim");
	unit_write(victim, "keep");
	assert_int_equal(unlink(at("dev/nvidia0")), 0);
	assert_int_equal(symlink(victim, at("dev/nvidia0")), 0);
	machine.gpu[1].health = SIM_GPU_UNPLUGGED;
	sync_refuses(SIM_EXIT_FOREIGN, "symbolic link");
	assert_true(is_there("dev/nvidia1")); /* nothing was half done */
	struct stat status;
	assert_int_equal(stat(victim, &status), 0);
	assert_int_equal(status.st_size, 4);
}

static void never_follows_a_directory_link(void **state)
{
	(void)state;
	struct sim_error error = {0};
	sync_ok();
	const char *elsewhere = unit_path(directory, "elsewhere");
	assert_int_equal(mkdir(elsewhere, 0755), 0);
	unit_write(unit_path(elsewhere, "version"), "keep");
	assert_int_equal(rename(at("proc/driver/nvidia"), unit_path(directory, "away")), 0);
	assert_int_equal(symlink(elsewhere, at("proc/driver/nvidia")), 0);
	sync_refuses(SIM_EXIT_FOREIGN, "proc/driver/nvidia");
	assert_int_equal(sim_trees_remove(machine.root, &error), 0);
	assert_int_equal(access(unit_path(elsewhere, "version"), F_OK), 0);
	assert_true(is_there("proc/driver/nvidia"));
}

static void refuses_a_damaged_manifest(void **state)
{
	static const char *const damage[] = {
	    "something else\n",
	    "sluice: files of a simulated machine, made and removed by `sluice sim`\nf ../victim\n",
	    "sluice: files of a simulated machine, made and removed by `sluice sim`\nf /etc/x\n",
	    "sluice: files of a simulated machine, made and removed by `sluice sim`\nf a/../../b\n",
	    "sluice: files of a simulated machine, made and removed by `sluice sim`\nx dev\n",
	    "sluice: files of a simulated machine, made and removed by `sluice sim`\nf a//b\n",
	};
	(void)state;
	sync_ok();
	for (size_t i = 0; i < sizeof(damage) / sizeof(*damage); i++) {
		struct sim_error error = {0};
		unit_write(at(".sluice-sim"), damage[i]);
		assert_int_equal(sim_trees_remove(machine.root, &error), -1);
		assert_int_equal(error.exit_code, SIM_EXIT_FOREIGN);
	}
	assert_true(is_there("dev/nvidia0"));
}

static void a_crash_half_way_is_mended(void **state)
{
	(void)state;
	struct sim_error error = {0};
	sync_ok();
	/* as if killed after the manifest was written and half of the files made */
	assert_int_equal(unlink(at("dev/nvidia0")), 0);
	assert_int_equal(unlink(at("kmsg")), 0);
	sync_ok();
	assert_true(is_there("dev/nvidia0"));
	assert_int_equal(sim_trees_remove(machine.root, &error), 0);
	assert_int_equal(access(machine.root, F_OK), -1);
}

/* From now on this process dies, as if by kill -9, when it gives a written file its mode. */
static void die_at_fchmod(void)
{
	struct sock_filter rule[] = {
	    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fchmod, 0, 1),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = {sizeof(rule) / sizeof(*rule), rule};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
		_exit(77);
}

static void a_killed_writer_leaves_nothing_that_stays(void **state)
{
	(void)state;
	struct sim_error error = {0};
	int status = 0;
	pid_t child = fork();

	if (child == 0) {
		die_at_fchmod();
		_exit(sim_trees_sync(&machine, &error) == 0 ? 0 : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
		print_message("SKIPPED: no seccomp here, so nothing dies on cue\n");
		skip();
	}
	assert_true(WIFSIGNALED(status));
	assert_int_equal(sim_trees_remove(machine.root, &error), 0);
	assert_int_equal(access(machine.root, F_OK), -1);
}

/* What the disk is full for at once: not even the list of what will be made fits. */
static void a_first_write_that_fails_leaves_no_root(void **state)
{
	(void)state;
	struct sim_error error = {0};
	struct rlimit before, small;

	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	small = (struct rlimit){.rlim_cur = 1000, .rlim_max = before.rlim_max};
	(void)signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	int result = sim_trees_sync(&machine, &error);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	assert_int_equal(result, -1);
	assert_int_equal(sim_trees_remove(machine.root, &error), 0);
	assert_int_equal(access(machine.root, F_OK), -1);
}

static void roots_that_cannot_be(void **state)
{
	(void)state;
	static const char *const root[] = {"/", "relative"};
	for (size_t i = 0; i < 2; i++) {
		(void)snprintf(machine.root, sizeof(machine.root), "%s", root[i]);
		sync_refuses(SIM_EXIT_INPUT, root[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(no_root_no_files, setup, teardown),
	    cmocka_unit_test_setup_teardown(makes_and_removes_everything, setup, teardown),
	    cmocka_unit_test_setup_teardown(leaves_alone_what_is_right, setup, teardown),
	    cmocka_unit_test_setup_teardown(corrects_what_was_changed, setup, teardown),
	    cmocka_unit_test_setup_teardown(streams_are_never_rewritten, setup, teardown),
	    cmocka_unit_test_setup_teardown(refuses_strangers, setup, teardown),
	    cmocka_unit_test_setup_teardown(starts_again_where_something_was_left, setup, teardown),
	    cmocka_unit_test_setup_teardown(refuses_a_directory_that_the_machine_does_not_have,
					    setup, teardown),
	    cmocka_unit_test_setup_teardown(refuses_a_link_in_place_of_a_node, setup, teardown),
	    cmocka_unit_test_setup_teardown(never_follows_a_directory_link, setup, teardown),
	    cmocka_unit_test_setup_teardown(refuses_a_damaged_manifest, setup, teardown),
	    cmocka_unit_test_setup_teardown(a_crash_half_way_is_mended, setup, teardown),
	    cmocka_unit_test_setup_teardown(a_killed_writer_leaves_nothing_that_stays, setup,
					    teardown),
	    cmocka_unit_test_setup_teardown(a_first_write_that_fails_leaves_no_root, setup,
					    teardown),
	    cmocka_unit_test_setup_teardown(roots_that_cannot_be, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
