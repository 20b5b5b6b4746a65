/* SPDX-License-Identifier: Apache-2.0 */
/* With what it is made of: rdma_file.c, rdma_act.c and the readers of adapters. The clock is the
 * test's, and so is the node; threads and files are real. */
#include "agent/doors/door_rdma.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/node.h"
#include "agent/paths.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/file.h"
#include "base/loop.h"
#include "base/storage.h"
#include "doors/kubelet/kubelet.h"
#include "policy/config.h"
#include "unit/hardware/rdma_tree.h"
#include "unit/unit.h"

enum { DEADLINE_S = 20 };
#define S      UINT64_C(1000000000)
#define MS     UINT64_C(1000000)
#define FIRST  "0000:0c:00.0"
#define SECOND "0000:84:00.0"

static struct {
	struct loop *loop;
	struct storage *storage;
	struct door_rdma *door;
	struct agent_paths paths;
	struct config *config;
	bool has_kubelet, is_over;
	uint64_t generation;
	char events[4096]; /* "REASON text|" */
} scene;

const struct config *__wrap_node_config(const struct node *node);
uint64_t __wrap_node_generation(const struct node *node);
bool __wrap_node_has_kubelet(const struct node *node);

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

bool __wrap_node_has_kubelet(const struct node *node)
{
	(void)node;
	return scene.has_kubelet;
}

static void on_event(bool is_warning, const char *reason, const char *text, void *context)
{
	size_t used = strlen(scene.events);
	(void)context;
	(void)snprintf(scene.events + used, sizeof(scene.events) - used, "%s%s %s|",
		       is_warning ? "" : "+", reason, text);
}

/* --- the machine --------------------------------------------------------------------------------
 */

static void adapter(const char *bdf, const char *name, const char *interface, unsigned number,
		    int numa)
{
	rdma_tree_function(unit_top, &(const struct rdma_tree_function){.bdf = bdf, .numa = numa});
	rdma_tree_interface(unit_top, bdf, interface, "32\n");
	rdma_tree_device(unit_top, bdf, name, number);
	rdma_tree_port(unit_top, name, 1, "InfiniBand", number);
}

static void port_is(const char *device, bool is_up)
{
	char path[128];
	(void)snprintf(path, sizeof(path), "sys/class/infiniband/%s/ports/1/state", device);
	rdma_tree_write(unit_top, path, is_up ? "4: ACTIVE\n" : "1: DOWN\n");
}

static void file_says(const char *text)
{
	rdma_tree_write(unit_top, "k8s-rdma-shared-dev-plugin/config.json", text);
}

static void config_says(const char *text)
{
	struct config *config = NULL, *before = scene.config;
	struct err err = {0};
	if (config_parse(text, strlen(text), "c.yaml", NULL, true, &config, &err) < 0)
		fail_msg("%s", err.text);
	scene.config = config;
	scene.generation++;
	door_rdma_update(scene.door);
	(void)config_free(before); /* nobody may look at it any more */
}

static void door_opens(void)
{
	struct err err = {0};
	const struct door_rdma_options options = {
	    .loop = scene.loop,
	    .storage = scene.storage,
	    .node = (const struct node *)&scene,
	    .paths = &scene.paths,
	    .root = unit_top,
	    .event = on_event,
	};
	if (door_rdma_new(&options, &scene.door, &err) < 0)
		fail_msg("%s", err.text);
}

static int set_up(void **state)
{
	int rc = unit_top_setup(state);
	memset(&scene, 0, sizeof(scene));
	scene.loop = loop_new(LOOP_FAKE, NULL);
	scene.storage = scene.loop ? storage_new(scene.loop, 16, NULL) : NULL;
	assert_non_null(scene.storage);
	config_says("");
	adapter(FIRST, "mlx5_0", "ib0", 0, 0);
	adapter(SECOND, "mlx5_1", "ib1", 1, 1);
	rdma_tree_link(unit_top, "dev/infiniband/rdma_cm", "/dev/null");
	return rc;
}

static int tear_down(void **state)
{
	door_rdma_stop(scene.door);
	scene.is_over = true;
	scene.storage = storage_close(scene.storage);
	scene.door = door_rdma_free(scene.door);
	scene.config = config_free(scene.config);
	scene.loop = loop_free(scene.loop);
	return unit_top_teardown(state);
}

/* The resource becomes so: "2/2", healthy of all that match; "": it is not there. */
static void expect_in(uint64_t step_ns, size_t index, const char *expected)
{
	uint64_t end_ns = unit_now_ns() + DEADLINE_S * S;
	char text[64];
	do {
		struct door_rdma_view view;
		if (unit_now_ns() > end_ns)
			fail_msg("resource %zu is '%s', not '%s'", index, text, expected);
		if (step_ns > 0)
			assert_int_equal(loop_advance(scene.loop, step_ns, NULL), 0);
		assert_int_equal(loop_pass(scene.loop, 10 * MS, NULL), 0);
		text[0] = '\0';
		if (door_rdma_resource_at(scene.door, index, &view))
			(void)snprintf(text, sizeof(text), "%u/%u", view.healthy, view.adapters);
	} while (strcmp(text, expected) != 0);
}

static void expect(size_t index, const char *expected)
{
	expect_in(0, index, expected);
}

/* After some readings. */
static void expect_later(size_t index, const char *expected)
{
	expect_in(S, index, expected);
}

/* So much time goes by, and what it begins ends. */
static void pass(uint64_t ns)
{
	assert_int_equal(loop_advance(scene.loop, ns, NULL), 0);
	for (int i = 0; i < 10; i++)
		assert_int_equal(loop_pass(scene.loop, 5 * MS, NULL), 0);
}

static void expect_event(const char *text)
{
	if (!strstr(scene.events, text))
		fail_msg("'%s' is not among '%s'", text, scene.events);
}

#define PORTS "[{resourceName: hca, rdmaHcaMax: 2, selectors: {vendors: [15b3]}}]"

/* --- cases --------------------------------------------------------------------------------------
 */

static void test_a_port_goes_down(void **state)
{
	(void)state;
	config_says("sluice: {rdma: {configList: " PORTS "}}");
	door_opens();
	expect(0, "2/2");
	port_is("mlx5_1", false);
	pass(6 * S);
	expect(0, "2/2"); /* one reading says nothing */
	port_is("mlx5_1", true);
	pass(6 * S);
	assert_string_equal(scene.events, ""); /* a flap is not told */
	port_is("mlx5_1", false);
	expect_later(0, "1/2");
	expect_event("RDMAPortDown 0000:84:00.0 (mlx5_1) is not handed out as rdma/hca: no port is "
		     "up|");
	port_is("mlx5_0", false);
	expect_later(0, "0/2");
	expect_event(
	    "RDMANoAdapters rdma/hca has nothing to hand out on this node: no port of its 2 "
	    "adapters is up|");
	port_is("mlx5_1", true);
	expect_later(0, "1/2");
	expect_event("+RDMAPortUp no more: 0000:84:00.0 (mlx5_1)");
}

static void test_without_health_checks(void **state)
{
	(void)state;
	file_says("{\"configList\": [{\"resourceName\": \"hca\", \"rdmaHcaMax\": 2, \"devices\": "
		  "[\"ib0\", \"ib1\"]}], \"periodicUpdateInterval\": 3}");
	port_is("mlx5_1", false);
	door_opens();
	expect(0, "2/2");
	pass(4 * S);
	pass(4 * S);
	expect(0, "2/2");
	assert_string_equal(scene.events, "");
}

/* "": there is none. */
static void expect_error(const char *text)
{
	uint64_t end_ns = unit_now_ns() + DEADLINE_S * S;
	while (!strstr(door_rdma_error(scene.door), text) ||
	       (!*text && *door_rdma_error(scene.door))) {
		if (unit_now_ns() > end_ns)
			fail_msg("the error is '%s'", door_rdma_error(scene.door));
		assert_int_equal(loop_pass(scene.loop, 10 * MS, NULL), 0);
	}
}

static void test_the_file_is_another(void **state)
{
	(void)state;
	struct door_rdma_view view;
	door_opens();
	pass(S);
	assert_false(door_rdma_resource_at(scene.door, 0, &view));
	file_says("{\"configList\": [{\"resourceName\": \"a\", \"rdmaHcaMax\": 2, \"devices\": "
		  "[\"ib0\"]}]}");
	expect_later(0, "1/1");
	file_says("{\"configList\": [{\"resourceName\": \"a\"}]}");
	door_rdma_reload(scene.door);
	expect_error("neither devices nor selectors");
	expect(0, "1/1");
	expect_event("RDMAConfigurationRefused");
	/* Told once. */
	scene.events[0] = '\0';
	door_rdma_reload(scene.door);
	pass(31 * S);
	assert_string_equal(scene.events, "");
	/* Our own keys win, and the file's resources go. */
	config_says("sluice: {rdma: {configList: [{resourceName: b, rdmaHcaMax: 1, devices: [ib0, "
		    "ib1]}]}}");
	expect(0, "2/2");
	assert_string_equal(door_rdma_error(scene.door), "");
	config_says("sluice: {rdma: {configFile: /nowhere/config.json}}");
	expect(0, "");
	expect_error("/nowhere/config.json");
}

/* It goes and comes back as it was: what was said of that is over. */
static void test_the_file_is_gone_for_a_while(void **state)
{
	static const char text[] = "{\"configList\": [{\"resourceName\": \"a\", \"rdmaHcaMax\": "
				   "2, \"devices\": [\"ib0\"]}]}";
	char named[FILE_PATH_MAX + 64];
	(void)state;
	file_says(text);
	(void)snprintf(named, sizeof(named),
		       "sluice: {rdma: {configFile: '%s/k8s-rdma-shared-dev-plugin/config.json'}}",
		       unit_top);
	config_says(named);
	door_opens();
	expect(0, "1/1");
	assert_int_equal(unlink(unit_path(unit_top, "k8s-rdma-shared-dev-plugin/config.json")), 0);
	door_rdma_reload(scene.door);
	expect_error("cannot open");
	expect(0, "1/1");
	file_says(text);
	door_rdma_reload(scene.door);
	expect_error("");
	expect(0, "1/1");
}

/* Stopped while it writes: what has come of that comes when the node is gone. */
static void test_stopped_in_between(void **state)
{
	(void)state;
	config_says("sluice: {rdma: {configList: " PORTS "}}");
	door_opens();
	expect(0, "2/2");
}

static bool cdi_has(const char *text)
{
	_cleanup_buf_ struct buf content;
	buf_init(&content, 1 << 20);
	return file_read(unit_path(unit_top, "var/run/cdi/sluice.sim-rdma.json"), &content, NULL) ==
		   0 &&
	       strstr(buf_text(&content), text);
}

static void expect_cdi(const char *text, bool is_wanted)
{
	uint64_t end_ns = unit_now_ns() + DEADLINE_S * S;
	while (cdi_has(text) != is_wanted) {
		if (unit_now_ns() > end_ns)
			fail_msg("'%s' is %sin the specification", text, is_wanted ? "not " : "");
		assert_int_equal(loop_pass(scene.loop, 10 * MS, NULL), 0);
	}
}

static void test_the_specification(void **state)
{
	(void)state;
	config_says("sluice: {rdma: {configList: " PORTS "}}");
	door_opens();
	expect(0, "2/2");
	expect_cdi("\"mlx5_1\"", true);
	expect_cdi("\"rdma:hca\"", true);
	expect_cdi("umad", false);
	config_says("sluice: {rdma: {configList: [{resourceName: one, rdmaHcaMax: 1, devices: "
		    "[ib0], management: true}]}}");
	expect_cdi("\"mlx5_1\"", false);
	expect_cdi("/dev/infiniband/umad0", true);
	/* One that somebody removes comes back. */
	assert_int_equal(unlink(unit_path(unit_top, "var/run/cdi/sluice.sim-rdma.json")), 0);
	pass(6 * S);
	expect_cdi("\"rdma:one\"", true);
	config_says("");
	expect_cdi("sluice", false);
}

/* Tried again although adapters are to be looked at only once. */
static void test_no_room_for_the_specification(void **state)
{
	(void)state;
	rdma_tree_write(unit_top, "var/run/cdi", "a file");
	config_says("sluice: {rdma: {periodicUpdateInterval: 0, configList: [{resourceName: a, "
		    "rdmaHcaMax: 2, devices: [ib0], healthCheck: 'off'}]}}");
	door_opens();
	expect_error("cdi");
	assert_int_equal(unlink(unit_path(unit_top, "var/run/cdi")), 0);
	pass(31 * S);
	expect_cdi("\"rdma:a\"", true);
	expect_error("");
}

static size_t healthy_units(size_t index)
{
	struct kubelet_view view;
	assert_true(kubelet_resource_at(door_rdma_kubelet(scene.door), index, &view));
	return view.healthy;
}

/* The program of the hook is not beside this one: no pod is to be sent where its container would
 * not start. */
static void test_the_hook_is_missing(void **state)
{
	(void)state;
	assert_int_equal(
	    file_mkdirs(unit_path(unit_top, "var/lib/kubelet/device-plugins"), 0755, NULL), 0);
	scene.has_kubelet = true;
	config_says("sluice: {rdma: {configList: [{resourceName: a, rdmaHcaMax: 2, devices: [ib0], "
		    "memlock: 1Gi}, {resourceName: b, rdmaHcaMax: 2, devices: [ib0], memlock: 1Gi, "
		    "memlockOnError: warn}, {resourceName: c, rdmaHcaMax: 2, devices: [ib0]}]}}");
	door_opens();
	expect_error("sluice-memlock");
	assert_int_equal(healthy_units(0), 0);
	assert_int_equal(healthy_units(1), 2);
	assert_int_equal(healthy_units(2), 2);
	/* Nothing needs it any more. */
	config_says("sluice: {rdma: {configList: [{resourceName: a, rdmaHcaMax: 2, devices: "
		    "[ib0]}]}}");
	assert_int_equal(healthy_units(0), 2);
	expect_error("");
}

/* What an earlier agent has written for adapters that nobody wants any more. */
static void test_a_stale_specification(void **state)
{
	(void)state;
	rdma_tree_write(unit_top, "var/run/cdi/sluice.sim-rdma.json",
			"{\"cdiVersion\": \"0.5.0\", \"kind\": \"sluice.sim/rdma\", \"devices\": "
			"[{\"name\": \"mlx5_7\", \"containerEdits\": {\"deviceNodes\": [{\"path\": "
			"\"/dev/null\"}]}}]}");
	door_opens();
	expect_cdi("mlx5_7", false);
}

static void test_the_kubelet_comes(void **state)
{
	(void)state;
	struct stat info;
	struct kubelet_view view;
	char path[128] = "var/lib/kubelet/device-plugins";
	config_says("sluice: {rdma: {configList: " PORTS "}}");
	door_opens();
	expect(0, "2/2");
	assert_null(door_rdma_kubelet(scene.door));
	assert_int_equal(file_mkdirs(unit_path(unit_top, path), 0755, NULL), 0);
	scene.has_kubelet = true;
	door_rdma_update(scene.door);
	assert_non_null(door_rdma_kubelet(scene.door));
	assert_true(kubelet_resource_at(door_rdma_kubelet(scene.door), 0, &view));
	assert_string_equal(view.endpoint, "rdma-rdma-hca.sock");
	assert_int_equal(view.healthy, 2);
	(void)snprintf(path, sizeof(path), "var/lib/kubelet/device-plugins/rdma-rdma-hca.sock");
	assert_int_equal(lstat(unit_path(unit_top, path), &info), 0);
	door_rdma_stop(scene.door);
	assert_int_equal(lstat(unit_path(unit_top, path), &info), -1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(test_a_port_goes_down),
	    TEST(test_without_health_checks),
	    TEST(test_the_file_is_another),
	    TEST(test_the_specification),
	    TEST(test_a_stale_specification),
	    TEST(test_the_kubelet_comes),
	    TEST(test_the_file_is_gone_for_a_while),
	    TEST(test_no_room_for_the_specification),
	    TEST(test_the_hook_is_missing),
	    TEST(test_stopped_in_between),
	};
	return cmocka_run_group_tests_name("agent/doors/door_rdma", tests, NULL, NULL);
}
