/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/doors/door_validations.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/doors/door_cdi.h"
#include "agent/doors/door_kubelet.h"
#include "agent/node.h"
#include "agent/paths.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/loop.h"
#include "base/storage.h"
#include "doors/kubelet/injection.h"
#include "doors/kubelet/kubelet.h"
#include "doors/kubelet/podresources.h"
#include "doors/validations/ready_files.h"
#include "hardware/gpu.h"
#include "hardware/pci.h"
#include "policy/config.h"
#include "unit/unit.h"

enum { DEADLINE_S = 20 };

/* The clock is the test's, and so is all that the door asks; the storage thread is real. */
static struct {
	struct loop *loop;
	struct storage *storage;
	struct door_validations *door;
	struct agent_paths paths;
	struct config config;
	struct inventory inventory;
	struct door_kubelet *kubelet;
	bool is_known, has_inventory, has_kubelet;
	uint64_t generation;
	const char *cdi;
	enum injection_way way;
	enum kubelet_state state;
	const char *resource;
	int64_t allocatable;
	unsigned asked;
	/* Of the runs. */
	unsigned runs;
	struct ready_files_wish wish;
	int result;
	struct ready_files_report report;
} scene;

bool __wrap_node_is_known(const struct node *node);
bool __wrap_node_has_kubelet(const struct node *node);
const struct inventory *__wrap_node_inventory(const struct node *node);
const struct config *__wrap_node_config(const struct node *node);
uint64_t __wrap_node_generation(const struct node *node);
const char *__wrap_door_cdi_state(const struct door_cdi *door);
const char *__wrap_door_cdi_text(const struct door_cdi *door);
const struct injection *__wrap_door_kubelet_injection(const struct door_kubelet *door);
const struct kubelet *__wrap_door_kubelet_kubelet(const struct door_kubelet *door);
const struct podresources *__wrap_door_kubelet_pods(const struct door_kubelet *door);
void __wrap_door_kubelet_ask(struct door_kubelet *door);
enum injection_way __wrap_injection_now(const struct injection *injection);
const char *__wrap_injection_reason(const struct injection *injection);
bool __wrap_kubelet_resource_at(const struct kubelet *kubelet, size_t index,
				struct kubelet_view *out);
int64_t __wrap_podresources_allocatable(const struct podresources *podresources,
					const char *resource);
int __wrap_ready_files_run(const struct ready_files_wish *wish, struct ready_files_report *out,
			   struct err *err);

bool __wrap_node_is_known(const struct node *node)
{
	(void)node;
	return scene.is_known;
}

bool __wrap_node_has_kubelet(const struct node *node)
{
	(void)node;
	return scene.has_kubelet;
}

const struct inventory *__wrap_node_inventory(const struct node *node)
{
	(void)node;
	return scene.has_inventory ? &scene.inventory : NULL;
}

const struct config *__wrap_node_config(const struct node *node)
{
	(void)node;
	return &scene.config;
}

uint64_t __wrap_node_generation(const struct node *node)
{
	(void)node;
	return scene.generation;
}

const char *__wrap_door_cdi_state(const struct door_cdi *door)
{
	(void)door;
	return scene.cdi;
}

const char *__wrap_door_cdi_text(const struct door_cdi *door)
{
	(void)door;
	return "it cannot be written";
}

const struct injection *__wrap_door_kubelet_injection(const struct door_kubelet *door)
{
	return (const struct injection *)door;
}

const struct kubelet *__wrap_door_kubelet_kubelet(const struct door_kubelet *door)
{
	return (const struct kubelet *)door;
}

const struct podresources *__wrap_door_kubelet_pods(const struct door_kubelet *door)
{
	return (const struct podresources *)door;
}

void __wrap_door_kubelet_ask(struct door_kubelet *door)
{
	(void)door;
	scene.asked++;
}

enum injection_way __wrap_injection_now(const struct injection *injection)
{
	(void)injection;
	return scene.way;
}

const char *__wrap_injection_reason(const struct injection *injection)
{
	(void)injection;
	return "it is so";
}

bool __wrap_kubelet_resource_at(const struct kubelet *kubelet, size_t index,
				struct kubelet_view *out)
{
	(void)kubelet;
	*out = (struct kubelet_view){.state = scene.state, .devices = 1};
	(void)snprintf(out->name, sizeof(out->name), "%s", scene.resource);
	return index == 0;
}

int64_t __wrap_podresources_allocatable(const struct podresources *podresources,
					const char *resource)
{
	(void)podresources;
	assert_string_equal(resource, scene.resource);
	return scene.allocatable;
}

int __wrap_ready_files_run(const struct ready_files_wish *wish, struct ready_files_report *out,
			   struct err *err)
{
	scene.runs++;
	scene.wish = *wish;
	*out = scene.report;
	return scene.result < 0 ? err_set(err, scene.result, "cannot") : 0;
}

static char driver_root[] = "/", vendor[] = "nvidia.com";

static int setup(void **state)
{
	(void)unit_top_setup(state);
	memset(&scene, 0, sizeof(scene));
	scene.loop = loop_new(LOOP_FAKE, NULL);
	scene.storage = storage_new(scene.loop, 16, NULL);
	scene.paths.is_system = true;
	(void)snprintf(scene.paths.state_dir, sizeof(scene.paths.state_dir), "%s", unit_top);
	scene.config.driver_root = driver_root;
	scene.config.cdi_vendor = vendor;
	scene.kubelet = (struct door_kubelet *)&scene;
	scene.is_known = scene.has_inventory = scene.has_kubelet = true;
	scene.generation = 1;
	scene.cdi = "waiting";
	scene.resource = "nvidia.com/gpu";
	scene.allocatable = -ENODATA;
	return 0;
}

static int teardown(void **state)
{
	door_validations_stop(scene.door);
	scene.storage = storage_close(scene.storage);
	scene.door = door_validations_free(scene.door);
	scene.loop = loop_free(scene.loop);
	return unit_top_teardown(state);
}

static void open_door(void)
{
	const struct door_validations_options options = {
	    .loop = scene.loop,
	    .storage = scene.storage,
	    .paths = &scene.paths,
	    .root = unit_top,
	    .kubelet = scene.kubelet,
	};
	assert_int_equal(door_validations_new(&options, &scene.door, NULL), 0);
}

/* Until what was begun has come back. */
static void settle(void)
{
	uint64_t until_ns = unit_now_ns() + DEADLINE_S * CLOCK_NS_PER_S;
	do {
		assert_true(unit_now_ns() < until_ns);
		assert_int_equal(loop_pass(scene.loop, CLOCK_NS_PER_MS, NULL), 0);
	} while (storage_pending(scene.storage) > 0);
}

static void await(unsigned runs)
{
	settle();
	assert_int_equal(scene.runs, runs);
}

static void update(void)
{
	door_validations_update(scene.door);
}

static void test_what_the_agent_knows(void **state)
{
	(void)state;
	open_door();
	await(1);
	assert_int_equal(scene.wish.facts[READY_TOOLKIT].state, READY_UNKNOWN);
	assert_int_equal(scene.wish.facts[READY_PLUGIN].state, READY_UNKNOWN);
	assert_int_equal(scene.wish.facts[READY_DRIVER].state, READY_NO); /* of the files */
	update();
	await(1); /* nothing is new */
	scene.cdi = "kept";
	scene.way = INJECTION_NONE;
	update();
	await(2);
	assert_int_equal(scene.wish.facts[READY_TOOLKIT].state, READY_NO);
	assert_string_equal(scene.wish.facts[READY_TOOLKIT].why, "it is so");
	scene.way = INJECTION_CDI; /* and there is no specification below this root */
	update();
	await(3);
	assert_int_equal(scene.wish.facts[READY_TOOLKIT].state, READY_NO);
	assert_string_not_equal(scene.wish.facts[READY_TOOLKIT].why, "it is so");
	scene.cdi = "failed";
	update();
	await(4);
	assert_string_equal(scene.wish.facts[READY_TOOLKIT].why, "it cannot be written");
	scene.generation++;
	update();
	await(5);
	assert_int_equal(loop_advance(scene.loop, DOOR_VALIDATIONS_LOOK_NS, NULL), 0);
	await(6);
}

static void test_the_plugin(void **state)
{
	(void)state;
	open_door();
	await(1);
	scene.state = KUBELET_ATTACHED;
	scene.asked = 0;
	assert_int_equal(loop_advance(scene.loop, DOOR_VALIDATIONS_ASK_NS, NULL), 0);
	update(); /* the kubelet has not said what pods may have: it is asked, once a second */
	update();
	assert_int_equal(scene.asked, 1);
	scene.allocatable = 1;
	update();
	await(2);
	assert_int_equal(scene.wish.facts[READY_PLUGIN].state, READY_YES);
	/* Away for less than a minute is a kubelet that starts anew. */
	scene.state = KUBELET_WAITING;
	assert_int_equal(loop_advance(scene.loop, DOOR_VALIDATIONS_LOST_NS - 1, NULL), 0);
	update();
	settle();
	assert_int_equal(scene.wish.facts[READY_PLUGIN].state, READY_YES);
	assert_int_equal(loop_advance(scene.loop, 1, NULL), 0);
	update();
	settle();
	assert_int_equal(scene.wish.facts[READY_PLUGIN].state, READY_NO);
	/* A kubelet that cannot say is believed; one that offers nothing is not. */
	scene.state = KUBELET_ATTACHED;
	scene.allocatable = 0;
	update();
	settle();
	assert_int_equal(scene.wish.facts[READY_PLUGIN].state, READY_NO);
	scene.allocatable = -ENOSYS;
	update();
	settle();
	assert_int_equal(scene.wish.facts[READY_PLUGIN].state, READY_YES);
}

/* What is there after a start stays until it is known whether it is so. */
static void test_a_start(void **state)
{
	(void)state;
	scene.is_known = false;
	open_door();
	update();
	await(0);
	scene.is_known = true;
	update();
	await(1);
	assert_int_equal(scene.wish.facts[READY_PLUGIN].state, READY_UNKNOWN);
	assert_int_equal(loop_advance(scene.loop, DOOR_VALIDATIONS_LOST_NS, NULL), 0);
	settle();
	assert_int_equal(scene.wish.facts[READY_PLUGIN].state, READY_NO);
}

static void test_settings(void **state)
{
	(void)state;
	const char *why;
	scene.has_kubelet = false;
	open_door();
	await(0);
	assert_string_equal(door_validations_state(scene.door), "off");
	assert_non_null(strstr(door_validations_text(scene.door), "no kubelet"));
	assert_false(door_validations_has(scene.door, READY_DRIVER, &why));
	scene.config.validations = CONFIG_VALIDATIONS_ALWAYS;
	scene.report.is_there[READY_DRIVER] = true;
	(void)snprintf(scene.report.foreign, sizeof(scene.report.foreign), "x-ready");
	update();
	await(1);
	assert_true(scene.wish.insists && !scene.wish.withdraws);
	assert_string_equal(door_validations_state(scene.door), "kept");
	assert_true(door_validations_has(scene.door, READY_DRIVER, &why));
	assert_false(door_validations_has(scene.door, READY_MOFED, &why));
	assert_non_null(strstr(why, "mlx5_core"));
	scene.config.validations = CONFIG_VALIDATIONS_NEVER;
	update();
	await(2);
	assert_true(scene.wish.withdraws);
	assert_string_equal(door_validations_state(scene.door), "off");
	scene.config.validations = CONFIG_VALIDATIONS_AUTO;
	scene.has_kubelet = true;
	update();
	await(3);
	assert_string_equal(door_validations_state(scene.door), "foreign");
	assert_string_equal(door_validations_text(scene.door), "x-ready");
}

static void test_trouble(void **state)
{
	(void)state;
	scene.result = -ELOOP;
	open_door();
	await(1);
	assert_string_equal(door_validations_state(scene.door), "off");
	assert_string_equal(door_validations_text(scene.door), "cannot");
	scene.result = -ENOSPC;
	scene.generation++;
	update();
	await(2);
	assert_string_equal(door_validations_state(scene.door), "failed");
	scene.result = 0;
	scene.generation++;
	update();
	await(3);
	assert_string_equal(door_validations_state(scene.door), "kept");
	assert_string_equal(door_validations_text(scene.door), "");
}

static void test_whose_agent(void **state)
{
	(void)state;
	const struct door_validations_options options = {
	    .loop = scene.loop, .storage = scene.storage, .paths = &scene.paths, .root = ""};
	struct door_validations_options simulated = options;
	scene.paths.is_system = false;
	assert_int_equal(door_validations_new(&options, &scene.door, NULL), 0);
	update();
	await(0);
	assert_non_null(strstr(door_validations_text(scene.door), "only root's"));
	scene.door = door_validations_free(scene.door);
	simulated.root = PCI_NO_ROOT;
	assert_int_equal(door_validations_new(&simulated, &scene.door, NULL), 0);
	assert_string_equal(door_validations_state(scene.door), "off");
	assert_string_equal(door_validations_state(NULL), "off");
	assert_string_equal(door_validations_text(NULL), "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_what_the_agent_knows, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_the_plugin, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_a_start, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_settings, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_trouble, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_whose_agent, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
