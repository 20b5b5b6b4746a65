/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/filewatch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/loop.h"
#include "unit/failmalloc.h"
#include "unit/unit.h"

/* inotify is the kernel's; the clock is the test's. */
static struct {
	char *directory;
	struct loop *loop;
	struct filewatch *watch;
	unsigned changes;
} scene;

static void changed(void *context)
{
	assert_ptr_equal(context, &scene);
	scene.changes++;
}

static int setup(void **state)
{
	(void)state;
	memset(&scene, 0, sizeof(scene));
	scene.directory = unit_tmp_new();
	scene.loop = loop_new(LOOP_FAKE, NULL);
	return scene.loop && filewatch_new(scene.loop, changed, &scene, &scene.watch, NULL) == 0
		   ? 0
		   : -1;
}

static int teardown(void **state)
{
	(void)state;
	scene.watch = filewatch_free(scene.watch);
	scene.loop = loop_free(scene.loop);
	scene.directory = unit_tmp_free(scene.directory);
	return 0;
}

static const char *path(const char *name)
{
	return unit_path(scene.directory, name);
}

static void watch_file(const char *name)
{
	struct filewatch_plan plan = {0};
	filewatch_plan_file(scene.watch, path(name), &plan);
	filewatch_set(scene.watch, &plan);
}

/* What the kernel has to say is there as soon as the call that caused it has returned. */
static void hear(void)
{
	assert_int_equal(loop_pass(scene.loop, 0, NULL), 0);
}

/* True: a change is told once it has been quiet. */
static bool is_told(void)
{
	unsigned before = scene.changes;
	hear();
	assert_int_equal(scene.changes, before);
	assert_int_equal(loop_advance(scene.loop, FILEWATCH_LATEST_NS, NULL), 0);
	assert_true(scene.changes - before <= 1);
	return scene.changes > before;
}

static void append(const char *name, const char *text)
{
	int fd = open(path(name), O_WRONLY | O_APPEND | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	assert_int_equal(close(fd), 0);
}

static void test_ways_to_change_a_file(void **state)
{
	(void)state;
	unit_write(path("a"), "1");
	watch_file("a");
	assert_false(is_told());
	append("a", "2");
	assert_true(is_told());
	unit_write(path("b"), "3"); /* another's */
	assert_false(is_told());
	assert_int_equal(rename(path("b"), path("a")), 0); /* as editors do it */
	assert_true(is_told());
	watch_file("a");
	assert_false(is_told());
	append("a", "4");
	assert_true(is_told());
	assert_int_equal(chmod(path("a"), 0600), 0);
	assert_true(is_told());
	assert_int_equal(unlink(path("a")), 0);
	assert_true(is_told());
	watch_file("a");
	(void)is_told();
	unit_write(path("a"), "5");
	assert_true(is_told());
}

/* The volume of a ConfigMap: a link to a link to a directory that is another each time. */
static void test_a_swapped_directory(void **state)
{
	(void)state;
	assert_int_equal(mkdir(path("..1"), 0755), 0);
	assert_int_equal(mkdir(path("..2"), 0755), 0);
	unit_write(path("..1/a"), "1");
	unit_write(path("..2/a"), "2");
	assert_int_equal(symlink("..1", path("..data")), 0);
	assert_int_equal(symlink("..data/a", path("a")), 0);
	watch_file("a");
	assert_int_equal(symlink("..2", path("..data_tmp")), 0);
	assert_int_equal(rename(path("..data_tmp"), path("..data")), 0);
	assert_true(is_told());
	watch_file("a");
	(void)is_told();
	unit_write(path("..1/a"), "not ours any more");
	assert_false(is_told());
	append("..2/a", "3"); /* what the link leads to */
	assert_true(is_told());
}

static void test_directories_that_come_later(void **state)
{
	(void)state;
	watch_file("etc/sluice/config.yaml");
	unit_write(path("other"), "");
	assert_false(is_told());
	assert_int_equal(mkdir(path("etc"), 0755), 0);
	assert_true(is_told());
	watch_file("etc/sluice/config.yaml");
	assert_int_equal(mkdir(path("etc/sluice"), 0755), 0);
	assert_true(is_told());
	watch_file("etc/sluice/config.yaml");
	unit_write(path("etc/sluice/config.yaml"), "");
	assert_true(is_told());
	watch_file("etc/sluice/config.yaml");
	(void)is_told();
	assert_int_equal(rename(path("etc/sluice"), path("etc/gone")), 0);
	assert_true(is_told());
}

static void test_a_directory(void **state)
{
	struct filewatch_plan plan = {0};
	(void)state;
	assert_int_equal(mkdir(path("all"), 0755), 0);
	filewatch_plan_directory(scene.watch, path("all"), &plan);
	filewatch_set(scene.watch, &plan);
	unit_write(path("all/new"), "");
	assert_true(is_told());
	assert_int_equal(unlink(path("all/new")), 0);
	assert_true(is_told());
	assert_int_equal(rmdir(path("all")), 0);
	assert_true(is_told());
	plan = (struct filewatch_plan){0};
	filewatch_set(scene.watch, &plan);
	(void)is_told();
	assert_int_equal(mkdir(path("all"), 0755), 0); /* nothing is watched any more */
	assert_false(is_told());
}

/* The files in it are written over, too. */
static void test_a_directory_and_its_files(void **state)
{
	struct filewatch_plan plan = {0};
	(void)state;
	assert_int_equal(mkdir(path("all"), 0755), 0);
	unit_write(path("all/old"), "1");
	filewatch_plan_directory(scene.watch, path("all"), &plan);
	filewatch_set(scene.watch, &plan);
	append("all/old", "2");
	assert_false(is_told());
	plan = (struct filewatch_plan){0};
	filewatch_plan_contents(scene.watch, path("all"), &plan);
	filewatch_set(scene.watch, &plan);
	append("all/old", "3");
	assert_true(is_told());
	int fd = open(path("all/old"), O_WRONLY | O_TRUNC | O_CLOEXEC);
	assert_false(is_told()); /* not done */
	assert_int_equal(close(fd), 0);
	assert_true(is_told());
	assert_int_equal(rename(path("all/old"), path("all/new")), 0);
	assert_true(is_told());
	assert_int_equal(rename(path("all"), path("gone")), 0);
	assert_true(is_told());
	plan = (struct filewatch_plan){0};
	filewatch_plan_contents(scene.watch, path("all"), &plan);
	filewatch_set(scene.watch, &plan);
	(void)is_told();
	assert_int_equal(mkdir(path("all"), 0755), 0); /* one that comes later */
	assert_true(is_told());
}

static void test_names_that_begin_so(void **state)
{
	struct filewatch_plan plan = {0};
	(void)state;
	filewatch_plan_prefix(scene.watch, path("nowhere"), "nvidia", &plan);
	assert_int_equal(plan.count, 0);
	filewatch_plan_prefix(scene.watch, scene.directory, "nvidia", &plan);
	filewatch_set(scene.watch, &plan);
	unit_write(path("tty7"), "");
	unit_write(path("nvidi"), "");
	assert_false(is_told());
	unit_write(path("nvidia-uvm"), "");
	assert_true(is_told());
	unit_write(path("nvidia"), "");
	assert_true(is_told());
	append("nvidia", "x"); /* whoever uses it is not of interest */
	assert_false(is_told());
	assert_int_equal(unlink(path("nvidia-uvm")), 0);
	assert_true(is_told());
}

/* Whoever writes slowly is waited for, but not for ever. */
static void test_a_slow_writer(void **state)
{
	(void)state;
	unit_write(path("a"), "");
	watch_file("a");
	uint64_t begin_ns = loop_now_ns(scene.loop);
	for (int i = 0; i < 3; i++) {
		append("a", "x");
		hear();
		assert_int_equal(loop_advance(scene.loop, FILEWATCH_QUIET_NS - 1, NULL), 0);
		assert_int_equal(scene.changes, 0);
	}
	assert_int_equal(loop_advance(scene.loop, 1, NULL), 0);
	assert_int_equal(scene.changes, 1);
	begin_ns = loop_now_ns(scene.loop);
	while (scene.changes == 1) {
		append("a", "x");
		hear();
		assert_int_equal(loop_advance(scene.loop, FILEWATCH_QUIET_NS / 2, NULL), 0);
		assert_true(loop_now_ns(scene.loop) <= begin_ns + FILEWATCH_LATEST_NS);
	}
	assert_int_equal(scene.changes, 2);
}

/* Cut short, and then nothing for a while: what a copy over a slow line looks like. */
static void test_a_writer_that_is_not_done(void **state)
{
	(void)state;
	unit_write(path("a"), "old");
	watch_file("a");
	int fd = open(path("a"), O_WRONLY | O_TRUNC | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_false(is_told());
	assert_false(is_told());
	assert_true(filewatch_is_busy(scene.watch));
	assert_int_equal(write(fd, "new", 3), 3);
	assert_false(is_told());
	assert_int_equal(close(fd), 0);
	assert_true(is_told());
	assert_false(filewatch_is_busy(scene.watch));
	/* One that never is: not for ever. */
	fd = open(path("a"), O_WRONLY | O_TRUNC | O_CLOEXEC);
	assert_false(is_told());
	assert_int_equal(loop_advance(scene.loop, FILEWATCH_WRITER_NS, NULL), 0);
	assert_int_equal(scene.changes, 2);
	assert_int_equal(close(fd), 0);
	assert_true(is_told());
}

static void test_a_path_with_nothing_to_watch(void **state)
{
	struct filewatch_plan plan = {0};
	(void)state;
	filewatch_plan_file(scene.watch, "", &plan);
	filewatch_plan_file(scene.watch, "name", &plan);
	assert_int_equal(plan.count, 0);
	filewatch_plan_file(scene.watch, "/nothing-is-here/a/b", &plan);
	assert_int_equal(plan.count, 1);
	assert_string_equal(plan.entries[0].name, "nothing-is-here");
	for (int i = 0; i < FILEWATCH_MAX; i++)
		filewatch_plan_file(scene.watch, "/nothing-is-here", &plan);
	assert_int_equal(plan.count, FILEWATCH_MAX);
}

static int make(void *context)
{
	struct filewatch *watch = NULL;
	struct loop *loop = loop_new(LOOP_FAKE, NULL);
	(void)context;
	int rc = loop ? filewatch_new(loop, changed, &scene, &watch, NULL) : -ENOMEM;
	(void)filewatch_free(watch);
	(void)loop_free(loop);
	return rc;
}

static void test_out_of_memory(void **state)
{
	(void)state;
	(void)failmalloc_each(make, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_ways_to_change_a_file, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_a_swapped_directory, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_directories_that_come_later, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_a_directory, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_a_directory_and_its_files, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_names_that_begin_so, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_a_slow_writer, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_a_writer_that_is_not_done, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_a_path_with_nothing_to_watch, setup, teardown),
	    cmocka_unit_test(test_out_of_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
