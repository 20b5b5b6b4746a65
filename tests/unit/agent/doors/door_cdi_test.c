/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/doors/door_cdi.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/filewatch.h"
#include "agent/node.h"
#include "agent/paths.h"
#include "base/err.h"
#include "base/loop.h"
#include "base/storage.h"
#include "doors/cdi/keep.h"
#include "doors/kubelet/resource.h"
#include "hardware/gpu.h"
#include "hardware/pci.h"
#include "policy/config.h"
#include "unit/unit.h"

enum { DEADLINE_S = 20 };

/* The clock is the test's, and so are the node and what a run does; the storage thread and inotify
 * are real. */
static struct {
	char *directory;
	struct loop *loop;
	struct storage *storage;
	struct door_cdi *door;
	struct agent_paths paths;
	struct config *config;
	struct gpu gpu;
	struct inventory inventory;
	bool is_known, has_inventory;
	uint64_t generation;
	unsigned changes;

	pthread_mutex_t mutex; /* what follows is the storage thread's, too */
	pthread_cond_t wake;
	bool is_held;
	unsigned runs, begun;
	char kinds[1024], uuid[GPU_UUID_MAX], names[1024];
	int result;
	struct keep_report report;
} scene = {.mutex = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER};

bool __wrap_node_is_known(const struct node *node);
const struct inventory *__wrap_node_inventory(const struct node *node);
const struct config *__wrap_node_config(const struct node *node);
uint64_t __wrap_node_generation(const struct node *node);
int __wrap_keep_run(struct keep *keep, const struct keep_wish *wish, struct keep_report *out,
		    struct err *err);

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
	return scene.config;
}

uint64_t __wrap_node_generation(const struct node *node)
{
	(void)node;
	return scene.generation;
}

int __wrap_keep_run(struct keep *keep, const struct keep_wish *wish, struct keep_report *out,
		    struct err *err)
{
	(void)keep;
	(void)pthread_mutex_lock(&scene.mutex);
	scene.begun++;
	while (scene.is_held)
		(void)pthread_cond_wait(&scene.wake, &scene.mutex);
	scene.runs++;
	scene.kinds[0] = scene.names[0] = '\0';
	for (uint32_t i = 0; i < wish->kind_count; i++) {
		(void)strcat(scene.kinds, wish->kinds[i]);
		(void)strcat(scene.kinds, " ");
	}
	for (uint32_t i = 0; i < wish->name_count; i++) {
		(void)strcat(scene.names, wish->names[i]);
		(void)strcat(scene.names, " ");
	}
	(void)snprintf(scene.uuid, sizeof(scene.uuid), "%s",
		       wish->inventory ? wish->inventory->gpus[0].uuid : "none");
	*out = scene.report;
	int result = scene.result;
	(void)pthread_mutex_unlock(&scene.mutex);
	return result < 0 ? err_set(err, result, "it is so") : 0;
}

static void configure(const char *text)
{
	scene.config = config_free(scene.config);
	assert_int_equal(
	    config_parse(text, text ? strlen(text) : 0, "config", NULL, true, &scene.config, NULL),
	    0);
}

static int setup(void **state)
{
	(void)state;
	(void)unsetenv("KUBERNETES_SERVICE_HOST");
	scene.directory = unit_tmp_new();
	scene.loop = loop_new(LOOP_FAKE, NULL);
	scene.storage = storage_new(scene.loop, 16, NULL);
	scene.paths = (struct agent_paths){.is_system = false};
	(void)snprintf(scene.paths.runtime_dir, sizeof(scene.paths.runtime_dir), "%s",
		       scene.directory);
	memcpy(scene.gpu.uuid, "GPU-1", 6);
	scene.inventory = (struct inventory){.gpu_count = 1, .gpus = &scene.gpu, .simulated = true};
	scene.is_known = scene.has_inventory = true;
	scene.generation = 1;
	scene.changes = scene.runs = scene.begun = 0;
	scene.result = 0;
	scene.is_held = false;
	memset(&scene.report, 0, sizeof(scene.report));
	configure(NULL);
	return scene.storage ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	door_cdi_stop(scene.door);
	scene.storage = storage_close(scene.storage);
	scene.door = door_cdi_free(scene.door);
	scene.loop = loop_free(scene.loop);
	scene.config = config_free(scene.config);
	scene.directory = unit_tmp_free(scene.directory);
	return 0;
}

static void changed(void *context)
{
	assert_ptr_equal(context, &scene);
	scene.changes++;
}

static void begin_at(const char *root)
{
	const struct door_cdi_options options = {
	    .loop = scene.loop,
	    .storage = scene.storage,
	    .paths = &scene.paths,
	    .root = root,
	    .changed = changed,
	    .context = &scene,
	};
	assert_int_equal(door_cdi_new(&options, &scene.door, NULL), 0);
}

static void begin(void)
{
	begin_at(scene.directory);
}

/* Until everything that was handed in is done; how many runs there were. */
static unsigned settle(void)
{
	uint64_t end_ns = unit_now_ns() + DEADLINE_S * UINT64_C(1000000000);
	do {
		assert_int_equal(loop_pass(scene.loop, 1000000, NULL), 0);
		assert_true(unit_now_ns() < end_ns);
	} while (storage_pending(scene.storage) > 0);
	unsigned runs = scene.runs;
	scene.runs = 0;
	return runs;
}

static void hold(bool is_held)
{
	(void)pthread_mutex_lock(&scene.mutex);
	scene.is_held = is_held;
	(void)pthread_cond_broadcast(&scene.wake);
	(void)pthread_mutex_unlock(&scene.mutex);
}

static struct resource_cdi found(void)
{
	struct resource_cdi cdi;
	door_cdi_found(scene.door, &cdi);
	return cdi;
}

static void test_whose_business_it_is(void **state)
{
	(void)state;
	begin_at(PCI_NO_ROOT);
	assert_string_equal(door_cdi_state(scene.door), "off");
	scene.door = door_cdi_free(scene.door);
	begin_at(""); /* a real machine, and not root's agent */
	assert_string_equal(door_cdi_state(scene.door), "off");
	assert_non_null(strstr(door_cdi_text(scene.door), "only root's agent"));
	door_cdi_update(scene.door);
	assert_int_equal(settle(), 0);
	assert_int_equal(found().modes, 0);
	assert_false(found().is_known);
	assert_string_equal(door_cdi_state(NULL), "off");
	door_cdi_update(NULL);
}

static void test_what_is_wished(void **state)
{
	(void)state;
	begin();
	assert_string_equal(door_cdi_state(scene.door), "waiting");
	assert_int_equal(settle(), 1);
	assert_string_equal(scene.kinds, "sluice.sim/gpu ");
	assert_string_equal(scene.uuid, "GPU-1");
	assert_string_equal(scene.names,
			    "sluice.sim/gdrcopy=all sluice.sim/gds=all sluice.sim/mofed=all "
			    "sluice.sim/imex-channel=0 ");
	configure("version: v1\nsluice: {cdi: {vendor: nvidia.com}}\n");
	scene.generation++;
	door_cdi_update(scene.door);
	assert_int_equal(settle(), 1);
	assert_string_equal(scene.kinds, "sluice.sim/gpu nvidia.com/gpu ");
	scene.inventory.simulated = false;
	scene.generation++;
	door_cdi_update(scene.door);
	assert_int_equal(settle(), 1);
	assert_string_equal(scene.kinds, "sluice.dev/gpu nvidia.com/gpu ");
	configure(NULL);
	scene.generation++;
	door_cdi_update(scene.door);
	assert_int_equal(settle(), 1);
	assert_string_equal(scene.kinds,
			    "sluice.dev/gpu nvidia.com/gpu k8s.device-plugin.nvidia.com/gpu ");
	configure("version: v1\nsluice: {cdi: {write: false}}\n");
	scene.has_inventory = false;
	scene.generation++;
	door_cdi_update(scene.door);
	assert_int_equal(settle(), 1);
	assert_string_equal(scene.kinds, "");
	assert_string_equal(scene.uuid, "none");
	assert_string_equal(door_cdi_state(scene.door), "off");
}

static void test_when(void **state)
{
	(void)state;
	scene.is_known = false;
	begin();
	assert_int_equal(settle(), 0);
	scene.is_known = true;
	door_cdi_update(scene.door);
	assert_int_equal(settle(), 1);
	door_cdi_update(scene.door); /* a sample, and nothing else */
	assert_int_equal(settle(), 0);
	scene.generation++;
	door_cdi_update(scene.door);
	assert_int_equal(settle(), 1);
	assert_int_equal(loop_advance(scene.loop, DOOR_CDI_LOOK_NS, NULL), 0);
	assert_int_equal(settle(), 1);
	/* Somebody else's file. */
	assert_int_equal(mkdir(unit_path(scene.directory, "etc"), 0755), 0);
	assert_int_equal(loop_pass(scene.loop, 0, NULL), 0);
	assert_int_equal(loop_advance(scene.loop, FILEWATCH_LATEST_NS, NULL), 0);
	assert_int_equal(settle(), 1);
	assert_int_equal(mkdir(unit_path(scene.directory, "etc/cdi"), 0755), 0);
	assert_int_equal(loop_pass(scene.loop, 0, NULL), 0);
	assert_int_equal(loop_advance(scene.loop, FILEWATCH_LATEST_NS, NULL), 0);
	assert_int_equal(settle(), 1);
	unit_write(unit_path(scene.directory, "etc/cdi/nvidia.yaml"), "kind: nvidia.com/gpu\n");
	assert_int_equal(loop_pass(scene.loop, 0, NULL), 0);
	assert_int_equal(loop_advance(scene.loop, FILEWATCH_LATEST_NS, NULL), 0);
	assert_int_equal(settle(), 1);
	door_cdi_stop(scene.door);
	scene.generation++;
	door_cdi_update(scene.door);
	assert_int_equal(loop_advance(scene.loop, DOOR_CDI_LOOK_NS, NULL), 0);
	assert_int_equal(settle(), 0);
}

static void wait_begun(unsigned count)
{
	uint64_t end_ns = unit_now_ns() + DEADLINE_S * UINT64_C(1000000000);
	unsigned begun;
	do {
		assert_true(unit_now_ns() < end_ns);
		(void)pthread_mutex_lock(&scene.mutex);
		begun = scene.begun;
		(void)pthread_mutex_unlock(&scene.mutex);
	} while (begun < count);
}

/* What happens while a run is under way is looked at once more, and once only; what the run is
 * about is what there was when it began. */
static void test_one_at_a_time(void **state)
{
	(void)state;
	hold(true);
	begin();
	wait_begun(1);
	memcpy(scene.gpu.uuid, "GPU-2", 6);
	for (int i = 0; i < 5; i++) {
		scene.generation++;
		door_cdi_update(scene.door);
	}
	assert_int_equal(storage_pending(scene.storage), 1);
	hold(false);
	assert_int_equal(settle(), 2);
	assert_string_equal(scene.uuid, "GPU-2");
	/* One that is under way when the agent ends. */
	hold(true);
	scene.generation++;
	door_cdi_update(scene.door);
	wait_begun(3);
	scene.generation++;
	door_cdi_update(scene.door);
	door_cdi_stop(scene.door);
	hold(false);
	assert_int_equal(settle(), 1);
}

static void look(void)
{
	scene.generation++;
	door_cdi_update(scene.door);
	assert_int_equal(settle(), 1);
}

static void test_what_came_of_it(void **state)
{
	(void)state;
	scene.report.kind_count = 1;
	(void)snprintf(scene.report.kinds[0].kind, SCAN_KIND_MAX, "nvidia.com/gpu");
	scene.report.kinds[0].state = KEEP_WRITTEN;
	scene.report.written = 1;
	begin();
	assert_int_equal(settle(), 1);
	assert_string_equal(door_cdi_state(scene.door), "kept");
	assert_string_equal(door_cdi_text(scene.door), "");
	assert_int_equal(scene.changes, 1);
	scene.report.written = 0;
	look();
	assert_int_equal(scene.changes, 1);
	scene.report.names = 2;
	look();
	assert_int_equal(scene.changes, 2);
	assert_int_equal(found().modes, 2);
	scene.report.kinds[0].state = KEEP_FOREIGN;
	(void)snprintf(scene.report.kinds[0].foreign, FILE_PATH_MAX, "/etc/cdi/a.yaml");
	look();
	look();
	assert_int_equal(scene.changes, 3);
	assert_string_equal(door_cdi_state(scene.door), "kept");
	assert_string_equal(door_cdi_text(scene.door), "'/etc/cdi/a.yaml' provides nvidia.com/gpu");
	scene.result = -EROFS;
	look();
	assert_string_equal(door_cdi_state(scene.door), "failed");
	assert_string_equal(door_cdi_text(scene.door), "it is so");
	scene.result = -ENXIO;
	look();
	assert_string_equal(door_cdi_state(scene.door), "waiting");
	scene.result = 0;
	scene.has_inventory = false; /* nothing is wrong, and nothing is there */
	look();
	assert_string_equal(door_cdi_state(scene.door), "waiting");
	scene.has_inventory = true;
	look();
	assert_string_equal(door_cdi_state(scene.door), "kept");
	assert_int_equal(scene.changes, 3);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

/* What nobody has is told when it is another, and stays known while nothing can be said. */
static void test_what_is_missing(void **state)
{
	(void)state;
	scene.report.is_resolved = true;
	scene.report.missing = calloc(1, sizeof(*scene.report.missing));
	scene.report.missing_count = 1;
	assert_non_null(scene.report.missing);
	memcpy(scene.report.missing[0], "GPU-1", 6);
	begin();
	assert_int_equal(settle(), 1);
	assert_int_equal(scene.changes, 1);
	assert_true(found().is_known);
	assert_int_equal(found().missing_count, 1);
	assert_string_equal(found().missing[0], "GPU-1");
	scene.report.missing = NULL; /* it was taken */
	scene.report.is_resolved = false;
	look();
	assert_int_equal(scene.changes, 1);
	assert_int_equal(found().missing_count, 1);
	scene.report.is_resolved = true;
	scene.report.missing_count = 0;
	look();
	assert_int_equal(scene.changes, 2);
	assert_int_equal(found().missing_count, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    CASE(test_whose_business_it_is), CASE(test_what_is_wished),	 CASE(test_when),
	    CASE(test_what_is_missing),	     CASE(test_what_is_wished),	 CASE(test_when),
	    CASE(test_one_at_a_time),	     CASE(test_what_came_of_it),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
