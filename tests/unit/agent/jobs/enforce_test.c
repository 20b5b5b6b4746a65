/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/jobs/enforce.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "unit/unit.h"

struct scene {
	char *directory;
	struct enforce_wish wish;
	struct enforce_report report;
};

static void node_path(const struct scene *scene, const char *name, char out[FILE_PATH_MAX])
{
	assert_int_equal(file_path(out, NULL, "%s/dev/%s", scene->wish.root, name), 0);
}

static void make_node(const struct scene *scene, const char *name, mode_t mode)
{
	char path[FILE_PATH_MAX];
	node_path(scene, name, path);
	unit_write(path, "");
	assert_int_equal(chmod(path, mode), 0);
}

/* "660 0 7000". */
static void expect(const struct scene *scene, const char *name, mode_t mode, gid_t gid)
{
	char path[FILE_PATH_MAX];
	struct stat status;
	node_path(scene, name, path);
	assert_int_equal(lstat(path, &status), 0);
	if ((status.st_mode & 07777) != mode || status.st_gid != gid || status.st_uid != 0)
		fail_msg("%s is %o %u:%u", name, (unsigned)status.st_mode & 07777,
			 (unsigned)status.st_uid, (unsigned)status.st_gid);
}

static int setup(void **state)
{
	static struct scene scene;
	memset(&scene, 0, sizeof(scene));
	scene.directory = unit_tmp_new();
	(void)snprintf(scene.wish.root, sizeof(scene.wish.root), "%s/root", scene.directory);
	(void)snprintf(scene.wish.memory, sizeof(scene.wish.memory), "%s/nodes", scene.directory);
	scene.wish.is_on = true;
	scene.wish.all = true;
	scene.wish.gid = 7000;
	char path[FILE_PATH_MAX];
	node_path(&scene, "nvidia-caps", path);
	assert_int_equal(file_mkdirs(path, 0755, NULL), 0);
	make_node(&scene, "nvidia0", 0666);
	make_node(&scene, "nvidia1", 0644);
	make_node(&scene, "nvidiactl", 0666);
	make_node(&scene, "nvidia-uvm", 0666);
	make_node(&scene, "nvidia-modeset", 0666);
	make_node(&scene, "nvidia-caps/nvidia-cap1", 0444);
	make_node(&scene, "nvidia2x", 0666);
	*state = &scene;
	return 0;
}

static int teardown(void **state)
{
	struct scene *scene = *state;
	scene->directory = unit_tmp_free(scene->directory);
	return 0;
}

static void run(struct scene *scene)
{
	struct err err = {0};
	if (enforce_run(&scene->wish, &scene->report, &err) < 0)
		fail_msg("%s", err.text);
}

static bool needs_root(void)
{
	if (geteuid() == 0)
		return true;
	print_message("skipped: giving nodes to a group takes root\n");
	return false;
}

static void test_closed_and_opened_again(void **state)
{
	struct scene *scene = *state;
	if (!needs_root())
		return;
	run(scene);
	assert_int_equal(scene->report.closed, 5);
	assert_int_equal(scene->report.changed, 5);
	expect(scene, "nvidia0", 0660, 7000);
	expect(scene, "nvidia1", 0660, 7000);
	expect(scene, "nvidiactl", 0660, 7000);
	expect(scene, "nvidia-uvm", 0660, 7000);
	expect(scene, "nvidia-caps/nvidia-cap1", 0660, 7000);
	expect(scene, "nvidia-modeset", 0666, 0); /* of a desktop */
	expect(scene, "nvidia2x", 0666, 0);	  /* whatever that is */
	run(scene);
	assert_int_equal(scene->report.changed, 0);
	scene->wish.is_on = false;
	run(scene);
	assert_int_equal(scene->report.restored, 5);
	expect(scene, "nvidia0", 0666, 0);
	expect(scene, "nvidia1", 0644, 0);
	expect(scene, "nvidia-caps/nvidia-cap1", 0444, 0);
	assert_false(file_exists(scene->wish.memory));
	run(scene);
	assert_int_equal(scene->report.restored, 0);
}

/* A tool of the driver has made them anew; a group has another number. */
static void test_what_others_change(void **state)
{
	struct scene *scene = *state;
	char path[FILE_PATH_MAX];
	if (!needs_root())
		return;
	run(scene);
	node_path(scene, "nvidia1", path);
	assert_int_equal(chmod(path, 0666), 0);
	make_node(scene, "nvidia3", 0600);
	run(scene);
	assert_int_equal(scene->report.changed, 2);
	expect(scene, "nvidia1", 0660, 7000);
	expect(scene, "nvidia3", 0660, 7000);
	scene->wish.gid = 7001;
	run(scene);
	assert_int_equal(scene->report.changed, 6);
	/* Who has opened one has had his reasons; the others are what they were. */
	node_path(scene, "nvidia0", path);
	assert_int_equal(chmod(path, 0604), 0);
	scene->wish.is_on = false;
	run(scene);
	expect(scene, "nvidia0", 0604, 7001);
	expect(scene, "nvidia1", 0666, 7000);
	expect(scene, "nvidia3", 0600, 0);
	expect(scene, "nvidia-uvm", 0666, 0);
}

/* Those of other doors stay open, with what they need beside them. */
static void test_some_gpus_alone(void **state)
{
	struct scene *scene = *state;
	if (!needs_root())
		return;
	scene->wish.all = false;
	scene->wish.minors[0] = 1;
	scene->wish.minor_count = 1;
	run(scene);
	assert_int_equal(scene->report.closed, 1);
	expect(scene, "nvidia0", 0666, 0);
	expect(scene, "nvidia1", 0660, 7000);
	expect(scene, "nvidiactl", 0666, 0);
	scene->wish.minors[0] = 0;
	run(scene);
	expect(scene, "nvidia0", 0660, 7000);
	expect(scene, "nvidia1", 0644, 0);
}

/* Links lead nowhere, and what is written down names nothing but nodes. */
static void test_links_and_a_damaged_memory(void **state)
{
	struct scene *scene = *state;
	char path[FILE_PATH_MAX], victim[FILE_PATH_MAX];
	if (!needs_root())
		return;
	(void)snprintf(victim, sizeof(victim), "%s/victim", scene->directory);
	unit_write(victim, "");
	assert_int_equal(chmod(victim, 0660), 0);
	node_path(scene, "nvidia4", path);
	assert_int_equal(symlink(victim, path), 0);
	unit_write(scene->wish.memory, "438 0 0 0 ../../victim\n438 0 0 0 nvidia4\n438 0 0 7000 "
				       "nvidia9\nnonsense\n438 0 0\n99999 0 0 0 nvidia0\n");
	run(scene);
	struct stat status;
	assert_int_equal(lstat(victim, &status), 0);
	assert_int_equal(status.st_mode & 07777, 0660);
	scene->wish.is_on = false;
	run(scene);
	assert_int_equal(lstat(victim, &status), 0);
	assert_int_equal(status.st_mode & 07777, 0660);
	expect(scene, "nvidia0", 0666, 0);
}

/* Nothing is changed that could not be undone. */
static void test_no_place_for_the_memory(void **state)
{
	struct scene *scene = *state;
	struct err err = {0};
	(void)snprintf(scene->wish.memory, sizeof(scene->wish.memory), "%s/no/where",
		       scene->directory);
	assert_int_equal(enforce_run(&scene->wish, &scene->report, &err), -ENOENT);
	char path[FILE_PATH_MAX];
	struct stat status;
	node_path(scene, "nvidia0", path);
	assert_int_equal(lstat(path, &status), 0);
	assert_int_equal(status.st_mode & 07777, 0666);
}

/* A memory that is lost: what the driver would make. */
static void test_nothing_is_known_of_before(void **state)
{
	struct scene *scene = *state;
	if (!needs_root())
		return;
	run(scene);
	assert_int_equal(unlink(scene->wish.memory), 0);
	run(scene);
	scene->wish.is_on = false;
	run(scene);
	expect(scene, "nvidia0", 0666, 0);
	expect(scene, "nvidia1", 0666, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_closed_and_opened_again, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_what_others_change, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_some_gpus_alone, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_links_and_a_damaged_memory, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_no_place_for_the_memory, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_nothing_is_known_of_before, setup, teardown),
	};
	return cmocka_run_group_tests_name("agent/jobs/enforce", tests, NULL, NULL);
}
