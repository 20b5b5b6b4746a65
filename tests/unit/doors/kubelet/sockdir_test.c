/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/kubelet/sockdir.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/loop.h"
#include "unit/failmalloc.h"
#include "unit/unit.h"

enum { DEADLINE_S = 20 };

static struct scene {
	char *root;
	char directory[256];
	struct loop *loop;
	struct sockdir *sockdir;
	unsigned changes;
} scene;

static void on_changed(unsigned changes, void *context)
{
	(void)context;
	assert_true(changes != 0);
	scene.changes |= changes;
}

static int set_up(void **state)
{
	(void)state;
	scene = (struct scene){.root = unit_tmp_new(), .loop = loop_new(LOOP_REAL, NULL)};
	assert_non_null(scene.loop);
	(void)snprintf(scene.directory, sizeof(scene.directory), "%s/lib/kubelet/device-plugins",
		       scene.root);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	scene.sockdir = sockdir_free(scene.sockdir);
	scene.loop = loop_free(scene.loop);
	scene.root = unit_tmp_free(scene.root);
	return 0;
}

static int begin(void)
{
	const struct sockdir_options options = {.loop = scene.loop,
						.directory = scene.directory,
						.name = "kubelet.sock",
						.changed = on_changed};
	return sockdir_new(&options, &scene.sockdir, NULL);
}

static void make_directory(void)
{
	assert_int_equal(file_mkdirs(scene.directory, 0755, NULL), 0);
}

static const char *path_of(const char *name)
{
	return unit_path(scene.directory, name);
}

static void make_socket(const char *name)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_true(fd >= 0);
	(void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", path_of(name));
	assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
	(void)close(fd);
}

static void expect(unsigned changes)
{
	uint64_t end_ns = unit_now_ns() + DEADLINE_S * CLOCK_NS_PER_S;
	while ((scene.changes & changes) != changes) {
		assert_true(unit_now_ns() < end_ns);
		assert_int_equal(loop_pass(scene.loop, CLOCK_NS_PER_S, NULL), 0);
	}
	assert_int_equal(scene.changes, changes);
	scene.changes = 0;
}

/* What was to be told has been by then: inotify keeps the order. */
static void expect_nothing(void)
{
	make_socket("marker.sock");
	expect(SOCKDIR_OTHER);
	assert_int_equal(unlink(path_of("marker.sock")), 0);
	expect(SOCKDIR_OTHER);
}

static void test_sockets_come_and_go(void **state)
{
	(void)state;
	make_directory();
	assert_int_equal(begin(), 0);
	assert_true(sockdir_is_there(scene.sockdir));
	assert_false(sockdir_look(scene.sockdir));
	make_socket("kubelet.sock");
	expect(SOCKDIR_MADE);
	make_socket("nvidia-gpu.sock");
	expect(SOCKDIR_OTHER);
	assert_int_equal(unlink(path_of("nvidia-gpu.sock")), 0);
	expect(SOCKDIR_OTHER);
	/* That the kubelet's goes says nothing, and what else lies there neither. */
	assert_int_equal(unlink(path_of("kubelet.sock")), 0);
	unit_write(path_of("kubelet_internal_checkpoint"), "{}");
	assert_int_equal(rename(path_of("kubelet_internal_checkpoint"), path_of("x")), 0);
	expect_nothing();
	/* Both at once are told at once. */
	make_socket("nvidia-gpu.sock");
	make_socket("kubelet.sock");
	expect(SOCKDIR_MADE | SOCKDIR_OTHER);
	make_socket("other");
	assert_int_equal(rename(path_of("other"), path_of("kubelet.sock")), 0);
	expect(SOCKDIR_MADE);
}

static void test_the_directory_comes_later(void **state)
{
	(void)state;
	assert_int_equal(begin(), 0);
	assert_false(sockdir_is_there(scene.sockdir));
	assert_false(sockdir_look(scene.sockdir));
	make_directory();
	expect(SOCKDIR_LOOK);
	assert_true(sockdir_is_there(scene.sockdir));
	make_socket("kubelet.sock");
	expect(SOCKDIR_MADE);
}

static void test_the_directory_is_replaced(void **state)
{
	(void)state;
	make_directory();
	assert_int_equal(begin(), 0);
	for (int i = 0; i < 3; i++) {
		char old[300];
		(void)snprintf(old, sizeof(old), "%s.%d", scene.directory, i);
		assert_int_equal(rename(scene.directory, old), 0);
		expect(SOCKDIR_LOOK);
		assert_false(sockdir_is_there(scene.sockdir));
		make_directory();
		expect(SOCKDIR_LOOK);
		assert_true(sockdir_is_there(scene.sockdir));
		make_socket("kubelet.sock");
		expect(SOCKDIR_MADE);
	}
	assert_int_equal(unlink(path_of("kubelet.sock")), 0);
	assert_int_equal(rmdir(scene.directory), 0);
	expect(SOCKDIR_LOOK);
	assert_false(sockdir_is_there(scene.sockdir));
}

/* No event tells that another directory stands at the end of a link. */
static void test_only_a_look_finds_it(void **state)
{
	(void)state;
	char a[300], b[300];
	make_directory();
	(void)snprintf(a, sizeof(a), "%s/a", scene.root);
	(void)snprintf(b, sizeof(b), "%s/b", scene.root);
	assert_int_equal(rmdir(scene.directory), 0);
	assert_int_equal(mkdir(a, 0755), 0);
	assert_int_equal(mkdir(b, 0755), 0);
	assert_int_equal(symlink(a, scene.directory), 0);
	assert_int_equal(begin(), 0);
	assert_int_equal(unlink(scene.directory), 0);
	assert_int_equal(symlink(b, scene.directory), 0);
	assert_true(sockdir_look(scene.sockdir));
	assert_false(sockdir_look(scene.sockdir));
	make_socket("kubelet.sock");
	expect(SOCKDIR_MADE);
}

/* A system whose watches are used up: a user namespace may have a limit of its own. */
static int look_without_watches(void)
{
	int fd = unshare(CLONE_NEWUSER) == 0
		     ? open("/proc/sys/user/max_inotify_watches", O_WRONLY | O_CLOEXEC)
		     : -1;
	if (fd < 0 || write(fd, "0", 1) != 1)
		return 2; /* not here */
	(void)close(fd);
	if (begin() < 0 || !sockdir_is_there(scene.sockdir))
		return 3;
	for (int i = 0; i < 3; i++) {
		if (sockdir_look(scene.sockdir))
			return 4; /* or everything would be registered anew with each look */
	}
	char old[300];
	(void)snprintf(old, sizeof(old), "%s.old", scene.directory);
	if (rename(scene.directory, old) < 0 || !sockdir_look(scene.sockdir) ||
	    sockdir_look(scene.sockdir))
		return 5;
	if (mkdir(scene.directory, 0755) < 0 || !sockdir_look(scene.sockdir) ||
	    sockdir_look(scene.sockdir))
		return 6;
	return 0;
}

static void test_without_watches_only_a_look_finds_it(void **state)
{
	(void)state;
	int status;
	make_directory();
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		_exit(look_without_watches());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 2)
		skip();
	assert_int_equal(WEXITSTATUS(status), 0);
}

static int scenario(void *context)
{
	(void)context;
	int rc = begin();
	scene.sockdir = sockdir_free(scene.sockdir);
	assert_int_equal(loop_pass(scene.loop, 0, NULL), 0);
	return rc;
}

static void test_out_of_memory(void **state)
{
	(void)state;
	make_directory();
	assert_int_equal(scenario(NULL), 0); /* what the loop keeps for its first descriptor */
	assert_true(failmalloc_each(scenario, NULL) >= 4);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
	    CASE(test_sockets_come_and_go),
	    CASE(test_the_directory_comes_later),
	    CASE(test_the_directory_is_replaced),
	    CASE(test_only_a_look_finds_it),
	    CASE(test_without_watches_only_a_look_finds_it),
	    CASE(test_out_of_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
