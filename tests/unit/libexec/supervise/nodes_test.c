/* SPDX-License-Identifier: Apache-2.0 */
#include "libexec/supervise/nodes.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/file.h"
#include "job/cgroup/devguard.h"
#include "unit/unit.h"

enum { USER = 61001, OTHER = 61002 };

struct scene {
	char *directory;
	char root[FILE_PATH_MAX], place[FILE_PATH_MAX];
	struct nodes_wish wish;
	struct devguard_rule denied;
};

static void path_of(const struct scene *scene, const char *name, char out[FILE_PATH_MAX])
{
	assert_int_equal(file_path(out, NULL, "%s/dev/%s", scene->root, name), 0);
}

/* Stand-ins that anybody could open, but for their modes: /dev/null, /dev/zero, /dev/full. */
static bool make_node(const struct scene *scene, const char *name, unsigned minor)
{
	char path[FILE_PATH_MAX];
	path_of(scene, name, path);
	return mknod(path, S_IFCHR | 0600, makedev(1, minor)) == 0 && chmod(path, 0660) == 0;
}

static bool opens(const struct scene *scene, const char *name)
{
	char path[FILE_PATH_MAX];
	path_of(scene, name, path);
	int fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd >= 0)
		(void)close(fd);
	return fd >= 0;
}

static int setup(void **state)
{
	static struct scene scene;
	memset(&scene, 0, sizeof(scene));
	scene.directory = unit_tmp_new();
	(void)chmod(scene.directory, 0755);
	(void)snprintf(scene.root, sizeof(scene.root), "%s/root", scene.directory);
	(void)snprintf(scene.place, sizeof(scene.place), "%s/place", scene.directory);
	char path[FILE_PATH_MAX];
	path_of(&scene, "nvidia-caps", path);
	assert_int_equal(file_mkdirs(path, 0755, NULL), 0);
	assert_int_equal(mkdir(scene.place, 0755), 0);
	scene.denied = (struct devguard_rule){
	    .type = 'c', .major = 1, .first = 5, .last = 5, .access = DEVGUARD_ALL};
	scene.wish = (struct nodes_wish){.root = scene.root,
					 .place = scene.place,
					 .denied = &scene.denied,
					 .denied_count = 1,
					 .uid = USER,
					 .gid = USER,
					 .mode = 0600,
					 .memory_fd = -1};
	*state = &scene;
	return 0;
}

static int teardown(void **state)
{
	struct scene *scene = *state;
	scene->directory = unit_tmp_free(scene->directory);
	return 0;
}

enum { SAID_OK, SAID_APPLY = 10, SAID_OWN, SAID_DENIED, SAID_PLACE, SAID_CAP, SAID_SKIP = 77 };

static void become(uid_t uid)
{
	if (setgroups(0, NULL) < 0 || setresgid(uid, uid, uid) < 0 || setresuid(uid, uid, uid) < 0)
		_exit(99);
}

/* The job. Its own process: namespaces are not left again. */
static int job(const struct scene *scene)
{
	struct err err = {0};
	int count = nodes_apply(&scene->wish, &err);
	if (count == -EPERM)
		return SAID_SKIP;
	if (count != 3) {
		(void)fprintf(stderr, "%d: %s\n", count, err.text);
		return SAID_APPLY;
	}
	char path[FILE_PATH_MAX];
	(void)file_path(path, NULL, "%s/0", scene->place);
	if (access(path, F_OK) == 0)
		return SAID_PLACE;
	become(USER);
	if (!opens(scene, "nvidia0") || !opens(scene, "nvidiactl"))
		return SAID_OWN;
	if (opens(scene, "nvidia1"))
		return SAID_DENIED;
	return opens(scene, "nvidia-caps/nvidia-cap1") ? SAID_OK : SAID_CAP;
}

static void test_a_job_has_its_own(void **state)
{
	struct scene *scene = *state;
	if (geteuid() != 0 || !make_node(scene, "nvidia0", 3) || !make_node(scene, "nvidia1", 5) ||
	    !make_node(scene, "nvidiactl", 7) || !make_node(scene, "nvidia-caps/nvidia-cap1", 3)) {
		print_message("skipped: making device nodes takes root\n");
		return;
	}
	char probe[FILE_PATH_MAX];
	path_of(scene, "nvidia0", probe);
	int fd = open(probe, O_RDWR | O_CLOEXEC);
	if (fd < 0) {
		print_message("skipped: this file system permits no device nodes\n");
		return;
	}
	(void)close(fd);
	pid_t pid = fork();
	if (pid == 0)
		_exit(job(scene));
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == SAID_SKIP) {
		print_message("skipped: no mount namespaces here\n");
		return;
	}
	assert_int_equal(WEXITSTATUS(status), SAID_OK);
	/* Outside nothing is mounted, and nobody has got anything. */
	pid = fork();
	if (pid == 0) {
		become(USER);
		_exit(opens(scene, "nvidia0"));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* Tries to open what somebody holds without having opened it. */
static bool opens_held(int fd)
{
	char path[64];
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	pid_t pid = fork();
	if (pid == 0) {
		become(USER);
		_exit(open(path, O_RDWR | O_CLOEXEC) < 0);
	}
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status == 0;
}

static _Noreturn void job_that_waits(const struct scene *scene, int told)
{
	char byte = nodes_apply(&scene->wish, NULL) > 0;
	if (write(told, &byte, 1) == 1)
		(void)pause();
	_exit(1);
}

static void test_who_holds_a_copy_cannot_open_it_afterwards(void **state)
{
	struct scene *scene = *state;
	struct nodes_memories memories = {.count = 0};
	scene->wish.memory_fd = nodes_memories_add(&memories);
	if (scene->wish.memory_fd < 0 || !make_node(scene, "nvidia0", 3)) {
		print_message("skipped: no detached mounts, or no device nodes, here\n");
		nodes_memories_close(&memories);
		return;
	}
	int ends[2], status;
	char byte = 0, path[FILE_PATH_MAX];
	assert_int_equal(pipe(ends), 0);
	pid_t pid = fork();
	if (pid == 0)
		job_that_waits(scene, ends[1]);
	assert_int_equal(read(ends[0], &byte, 1), 1);
	assert_int_equal(byte, 1);
	assert_int_equal(
	    file_path(path, NULL, "/proc/%d/root%s/dev/nvidia0", (int)pid, scene->root), 0);
	int held = open(path, O_PATH | O_CLOEXEC);
	assert_true(held >= 0);
	assert_true(opens_held(held));
	(void)kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(opens_held(held)); /* or nothing would be shown below */
	nodes_memories_close(&memories);
	assert_int_equal(memories.count, 0);
	assert_false(opens_held(held));
	(void)close(held);
	(void)close(ends[0]);
	(void)close(ends[1]);
}

static void test_without_the_right(void **state)
{
	struct scene *scene = *state;
	pid_t pid = fork();
	if (pid == 0) {
		struct err err = {0};
		if (geteuid() == 0)
			become(OTHER);
		_exit(nodes_apply(&scene->wish, &err) == -EPERM && err.text[0] ? 0 : 1);
	}
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_a_job_has_its_own, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_who_holds_a_copy_cannot_open_it_afterwards, setup,
					    teardown),
	    cmocka_unit_test_setup_teardown(test_without_the_right, setup, teardown),
	};
	return cmocka_run_group_tests_name("libexec/supervise/nodes", tests, NULL, NULL);
}
