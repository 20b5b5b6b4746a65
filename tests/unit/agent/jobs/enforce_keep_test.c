/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/jobs/enforce_keep.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/file.h"
#include "base/loop.h"
#include "base/storage.h"
#include "doors/queue/schedule/schedule.h"
#include "hardware/gpu.h"
#include "unit/unit.h"

struct scene {
	char *directory;
	char root[FILE_PATH_MAX];
	struct loop *loop;
	struct storage *storage;
	struct enforce_keep *keep;
	struct gpu gpu[2];
	struct inventory inventory;
	struct schedule_device device[2];
	struct schedule_machine machine;
};

static void make_node(const struct scene *scene, const char *name)
{
	char path[FILE_PATH_MAX];
	(void)file_path(path, NULL, "%s/dev/%s", scene->root, name);
	unit_write(path, "");
	assert_int_equal(chmod(path, 0666), 0);
}

static mode_t mode_of(const struct scene *scene, const char *name)
{
	char path[FILE_PATH_MAX];
	struct stat status;
	(void)file_path(path, NULL, "%s/dev/%s", scene->root, name);
	assert_int_equal(stat(path, &status), 0);
	return status.st_mode & 07777;
}

/* Passes until the node has this mode. */
static void wait_for(struct scene *scene, const char *name, mode_t mode)
{
	uint64_t end_ns = unit_now_ns() + UINT64_C(20000000000);
	while (mode_of(scene, name) != mode && unit_now_ns() < end_ns)
		assert_int_equal(loop_pass(scene->loop, 50000000, NULL), 0);
	assert_int_equal(mode_of(scene, name), mode);
}

static int setup(void **state)
{
	static struct scene scene;
	memset(&scene, 0, sizeof(scene));
	scene.directory = unit_tmp_new();
	(void)snprintf(scene.root, sizeof(scene.root), "%s/root", scene.directory);
	char path[FILE_PATH_MAX];
	(void)file_path(path, NULL, "%s/dev", scene.root);
	assert_int_equal(file_mkdirs(path, 0755, NULL), 0);
	make_node(&scene, "nvidia0");
	make_node(&scene, "nvidia3");
	make_node(&scene, "nvidiactl");
	scene.loop = loop_new(LOOP_REAL, NULL);
	scene.storage = storage_new(scene.loop, 16, NULL);
	for (uint32_t i = 0; i < 2; i++) {
		scene.gpu[i].minor = i * 3;
		(void)snprintf(scene.gpu[i].uuid, sizeof(scene.gpu[i].uuid), "GPU-%u", i);
		(void)snprintf(scene.device[i].unit.uuid, sizeof(scene.device[i].unit.uuid),
			       "GPU-%u", i);
	}
	scene.inventory = (struct inventory){.gpu_count = 2, .gpus = scene.gpu};
	scene.machine = (struct schedule_machine){
	    .inventory = &scene.inventory, .devices = scene.device, .device_count = 2};
	const struct enforce_keep_options options = {.loop = scene.loop,
						     .storage = scene.storage,
						     .root = scene.root,
						     .state_dir = scene.directory};
	assert_int_equal(enforce_keep_new(&options, &scene.keep, NULL), 0);
	*state = &scene;
	return 0;
}

static int teardown(void **state)
{
	struct scene *scene = *state;
	enforce_keep_stop(scene->keep);
	scene->storage = storage_close(scene->storage);
	scene->keep = enforce_keep_free(scene->keep);
	scene->loop = loop_free(scene->loop);
	scene->directory = unit_tmp_free(scene->directory);
	return 0;
}

static bool needs_root(void)
{
	if (geteuid() == 0)
		return true;
	print_message("skipped: giving nodes to a group takes root\n");
	return false;
}

static void test_kept_closed(void **state)
{
	struct scene *scene = *state;
	if (!needs_root())
		return;
	enforce_keep_set(scene->keep, true, 7000, NULL); /* nobody knows the GPUs yet */
	enforce_keep_set(scene->keep, true, 7000, &scene->machine);
	wait_for(scene, "nvidia0", 0660);
	wait_for(scene, "nvidiactl", 0660);
	/* A driver's tool makes it anew. */
	make_node(scene, "nvidia0");
	wait_for(scene, "nvidia0", 0660);
	assert_string_equal(enforce_keep_problem(scene->keep), "");
	/* A GPU goes to another door. */
	scene->machine.device_count = 1;
	enforce_keep_set(scene->keep, true, 7000, &scene->machine);
	wait_for(scene, "nvidia3", 0666);
	wait_for(scene, "nvidiactl", 0666);
	assert_int_equal(mode_of(scene, "nvidia0"), 0660);
	/* The driver goes away: nothing opens. */
	enforce_keep_set(scene->keep, true, 7000, NULL);
	assert_int_equal(mode_of(scene, "nvidia0"), 0660);
	enforce_keep_set(scene->keep, false, 0, NULL);
	wait_for(scene, "nvidia0", 0666);
}

static void test_an_end_that_opens_nothing(void **state)
{
	struct scene *scene = *state;
	if (!needs_root())
		return;
	enforce_keep_set(scene->keep, true, 7000, &scene->machine);
	wait_for(scene, "nvidia3", 0660);
	enforce_keep_stop(scene->keep);
	enforce_keep_set(scene->keep, false, 0, NULL);
	assert_int_equal(mode_of(scene, "nvidia3"), 0660);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_kept_closed, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_an_end_that_opens_nothing, setup, teardown),
	};
	return cmocka_run_group_tests_name("agent/jobs/enforce_keep", tests, NULL, NULL);
}
