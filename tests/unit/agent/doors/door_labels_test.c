/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/doors/door_labels.h"

#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/node.h"
#include "agent/paths.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/file.h"
#include "base/loop.h"
#include "base/storage.h"
#include "doors/labels/feature_file.h"
#include "hardware/gpu.h"
#include "policy/config.h"
#include "unit/unit.h"

enum { DEADLINE_S = 20 };
#define S UINT64_C(1000000000)

/* The clock is the test's, and so is the node; the storage thread and the files are real. */
static struct {
	struct loop *loop;
	struct storage *storage;
	struct door_labels *door;
	struct agent_paths paths;
	struct config *config;
	struct gpu gpus[2];
	struct inventory inventory;
	bool is_known, has_inventory, is_over;
	uint64_t generation;
	bool was_noted; /* when the file was last written */
	bool waits;	/* before the file is written: until it goes on */
	sem_t writes, goes_on;
} scene;

bool __wrap_node_is_known(const struct node *node);
const struct inventory *__wrap_node_inventory(const struct node *node);
const struct config *__wrap_node_config(const struct node *node);
uint64_t __wrap_node_generation(const struct node *node);

bool __wrap_node_is_known(const struct node *node)
{
	(void)node;
	return scene.is_known;
}

const struct inventory *__wrap_node_inventory(const struct node *node)
{
	(void)node;
	return scene.has_inventory ? &scene.inventory : NULL;
}

const struct config *__wrap_node_config(const struct node *node)
{
	(void)node;
	assert_false(scene.is_over); /* the node is gone then */
	return scene.config;
}

uint64_t __wrap_node_generation(const struct node *node)
{
	(void)node;
	return scene.generation;
}

int __real_feature_keep_put(struct feature_keep *keep, const char *path, const struct buf *plain,
			    int64_t expiry_s, int64_t now_s, struct err *err);
int __wrap_feature_keep_put(struct feature_keep *keep, const char *path, const struct buf *plain,
			    int64_t expiry_s, int64_t now_s, struct err *err);

int __wrap_feature_keep_put(struct feature_keep *keep, const char *path, const struct buf *plain,
			    int64_t expiry_s, int64_t now_s, struct err *err)
{
	char note[FILE_PATH_MAX];
	assert_int_equal(file_path(note, NULL, "%s/labels", scene.paths.state_dir), 0);
	scene.was_noted = file_exists(note);
	if (scene.waits) {
		assert_int_equal(sem_post(&scene.writes), 0);
		assert_int_equal(sem_wait(&scene.goes_on), 0);
	}
	return __real_feature_keep_put(keep, path, plain, expiry_s, now_s, err);
}

static void configure(const char *format, const char *argument)
{
	char text[1024];
	(void)snprintf(text, sizeof(text), format, argument);
	scene.config = config_free(scene.config);
	assert_int_equal(
	    config_parse(text, strlen(text), "config", NULL, true, &scene.config, NULL), 0);
	scene.generation++;
}

static int setup(void **state)
{
	(void)state;
	(void)unit_top_setup(state);
	(void)unsetenv("NVIDIA_VISIBLE_DEVICES");
	memset(scene.gpus, 0, sizeof(scene.gpus));
	for (int i = 0; i < 2; i++) {
		(void)snprintf(scene.gpus[i].uuid, GPU_UUID_MAX, "GPU-%d", i);
		(void)snprintf(scene.gpus[i].name, GPU_NAME_MAX, "Model T");
		scene.gpus[i].cc_major = 9;
	}
	scene.inventory = (struct inventory){.gpu_count = 2, .gpus = scene.gpus, .simulated = true};
	scene.is_known = scene.has_inventory = true;
	scene.is_over = false;
	scene.loop = loop_new(LOOP_FAKE, NULL);
	scene.storage = storage_new(scene.loop, 16, NULL);
	scene.paths = (struct agent_paths){.is_system = false};
	(void)snprintf(scene.paths.state_dir, sizeof(scene.paths.state_dir), "%s", unit_top);
	configure("version: v1%s", "");
	return scene.storage ? 0 : -1;
}

static int teardown(void **state)
{
	door_labels_stop(scene.door);
	scene.is_over = true;
	scene.storage = storage_close(scene.storage);
	scene.door = door_labels_free(scene.door);
	scene.loop = loop_free(scene.loop);
	scene.config = config_free(scene.config);
	return unit_top_teardown(state);
}

/* Until everything that was handed in is done. */
static void settle(void)
{
	uint64_t end_ns = unit_now_ns() + DEADLINE_S * S;
	do {
		assert_int_equal(loop_pass(scene.loop, 1000000, NULL), 0);
		assert_true(unit_now_ns() < end_ns);
	} while (storage_pending(scene.storage) > 0);
}

static void begin(const char *root)
{
	const struct door_labels_options options = {
	    .loop = scene.loop, .storage = scene.storage, .paths = &scene.paths, .root = root};
	assert_int_equal(door_labels_new(&options, &scene.door, NULL), 0);
	settle();
}

static void advance(uint64_t seconds)
{
	assert_int_equal(loop_advance(scene.loop, seconds * S, NULL), 0);
	settle();
}

static void update(void)
{
	scene.generation++;
	door_labels_update(scene.door);
	settle();
}

/* What the file says of a label; "-": nothing. */
static const char *value(const char *path, const char *key)
{
	static char found[128];
	_cleanup_buf_ struct buf text;
	buf_init(&text, 65536);
	(void)snprintf(found, sizeof(found), "-");
	if (file_read(path, &text, NULL) < 0)
		return "no file";
	const char *at = strstr(buf_text(&text), key);
	if (at)
		(void)snprintf(found, sizeof(found), "%.*s",
			       (int)strcspn(at + strlen(key) + 1, "\n"), at + strlen(key) + 1);
	return found;
}

static const char *features(void)
{
	return unit_path(unit_top, "etc/kubernetes/node-feature-discovery/features.d/gfd");
}

static void make_directory(void)
{
	assert_int_equal(
	    file_mkdirs(unit_path(unit_top, "etc/kubernetes/node-feature-discovery/features.d"),
			0755, NULL),
	    0);
}

static void test_whether_it_is_on(void **state)
{
	(void)state;
	begin(unit_top);
	assert_string_equal(door_labels_state(scene.door), "off");
	assert_string_equal(door_labels_text(scene.door), "");
	make_directory();
	advance(60);
	assert_string_equal(door_labels_state(scene.door), "kept");
	assert_string_equal(value(features(), "gpu.product"), "Model-T");
	/* Where somebody names the way it is tried, and what is wrong is said. */
	configure("flags: {gfd: {outputFile: %s/nowhere/gfd}}\nsluice: {labels: {mode: file}}",
		  unit_top);
	update();
	assert_string_equal(door_labels_state(scene.door), "failed");
	assert_non_null(strstr(door_labels_text(scene.door), "/nowhere"));
	assert_int_equal(mkdir(unit_path(unit_top, "nowhere"), 0755), 0);
	advance(30);
	assert_string_equal(door_labels_state(scene.door), "kept");
	assert_string_equal(value(features(), "gpu.product"), "no file");
	assert_string_equal(door_labels_state(NULL), "off");
}

static void test_whose_business_it_is(void **state)
{
	(void)state;
	make_directory();
	/* A real machine, and not root's agent. */
	begin("");
	assert_string_equal(door_labels_state(scene.door), "off");
}

/* The node's labels say that nobody wants any. */
static void test_held(void **state)
{
	(void)state;
	make_directory();
	begin(unit_top);
	assert_string_equal(value(features(), "gpu.product"), "Model-T");
	door_labels_hold(scene.door, "somebody says so");
	settle();
	assert_string_equal(value(features(), "gpu.product"), "-");
	assert_string_equal(door_labels_state(scene.door), "off");
	assert_string_equal(door_labels_text(scene.door), "somebody says so");
	door_labels_hold(scene.door, "");
	settle();
	assert_string_equal(value(features(), "gpu.product"), "Model-T");
	assert_string_equal(door_labels_state(scene.door), "kept");
	door_labels_hold(NULL, "");
}

static void test_when(void **state)
{
	(void)state;
	make_directory();
	scene.has_inventory = false;
	begin(unit_top);
	assert_string_equal(door_labels_state(scene.door), "waiting");
	assert_string_equal(value(features(), "gpu.count"), "no file");
	scene.has_inventory = true;
	update();
	assert_string_equal(value(features(), "gpu.count"), "2");
	scene.gpus[1].state = GPU_STATE_LOST;
	update();
	advance(29);
	assert_string_equal(value(features(), "gpu.count"), "2");
	advance(1);
	assert_string_equal(value(features(), "gpu.count"), "1");
	scene.gpus[1].state = GPU_STATE_OK;
	update();
	assert_string_equal(value(features(), "gpu.count"), "2");
	configure("sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: %s}]}}",
		  "3");
	door_labels_reload(scene.door);
	settle();
	assert_string_equal(value(features(), "gpu.replicas"), "3");
	scene.has_inventory = false;
	update();
	advance(299);
	assert_string_equal(value(features(), "gpu.count"), "2");
	advance(1);
	assert_string_equal(value(features(), "gpu.count"), "-");
	assert_string_equal(value(features(), "vgpu.present"), "false");
}

static void test_what_stays(void **state)
{
	(void)state;
	make_directory();
	configure("sluice: {labels: {onExit: %s, mode: file}}", "keep");
	begin(unit_top);
	/* Killed at any time, it leaves no file that nobody knows of. */
	assert_true(scene.was_noted);
	door_labels_stop(scene.door);
	settle();
	assert_true(file_exists(features()));
	scene.door = door_labels_free(scene.door);
	configure("sluice: {labels: {onExit: %s, mode: file}}", "remove");
	begin(unit_top);
	door_labels_stop(scene.door);
	settle();
	assert_false(file_exists(features()));
}

/* A file that cannot be removed when another way has taken over is tried again: it is a second
 * source. */
static void test_what_cannot_be_removed(void **state)
{
	(void)state;
	Sluice__Kube__V1__Published published = SLUICE__KUBE__V1__PUBLISHED__INIT;
	published.way = SLUICE__KUBE__V1__WAY__NODE_FEATURE;
	published.is_written = published.is_on_node = published.previous_ends = true;
	make_directory();
	configure("sluice: {labels: {mode: %s}}", "file");
	begin(unit_top);
	configure("sluice: {labels: {mode: %s}}", "nodefeature");
	update();
	assert_int_equal(unlink(features()), 0);
	assert_int_equal(mkdir(features(), 0755), 0);
	door_labels_published(scene.door, &published);
	settle();
	assert_int_equal(rmdir(features()), 0);
	assert_int_equal(file_write_atomic(features(), "", 0, 0644, NULL), 0);
	advance(60);
	assert_false(file_exists(features()));
	assert_string_equal(value(unit_path(unit_top, "labels"), "nodefeatur"), "");
}

/* The end comes while the first file is being written. */
static void test_ended_early(void **state)
{
	(void)state;
	make_directory();
	configure("sluice: {labels: {onExit: %s, mode: file}}", "remove");
	scene.has_inventory = false;
	begin(unit_top);
	assert_int_equal(sem_init(&scene.writes, 0, 0), 0);
	assert_int_equal(sem_init(&scene.goes_on, 0, 0), 0);
	scene.has_inventory = scene.waits = true;
	scene.generation++;
	door_labels_update(scene.door);
	uint64_t end_ns = unit_now_ns() + DEADLINE_S * S;
	while (sem_trywait(&scene.writes) < 0) {
		assert_int_equal(loop_pass(scene.loop, 1000000, NULL), 0);
		assert_true(unit_now_ns() < end_ns);
	}
	door_labels_stop(scene.door);
	scene.waits = false;
	assert_int_equal(sem_post(&scene.goes_on), 0);
	settle();
	assert_false(file_exists(features()));
}

/* Stopped while it reads: what that brings comes when the node is gone. */
static void test_stopped_in_between(void **state)
{
	(void)state;
	configure("sluice: {labels: {mode: %s}}", "file");
	begin(unit_top);
	scene.generation++;
	door_labels_update(scene.door);
	assert_true(storage_pending(scene.storage) > 0);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    CASE(test_whether_it_is_on),
	    CASE(test_whose_business_it_is),
	    CASE(test_held),
	    CASE(test_when),
	    CASE(test_what_stays),
	    CASE(test_what_cannot_be_removed),
	    CASE(test_ended_early),
	    CASE(test_stopped_in_between),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
