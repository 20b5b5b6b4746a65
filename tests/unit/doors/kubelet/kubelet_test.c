/* SPDX-License-Identifier: Apache-2.0 */
/* The whole door with a kubelet made by hand on the same loop: it takes registrations, calls back
 * before it answers, and keeps the lists. */
#include "doors/kubelet/kubelet.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/file.h"
#include "base/loop.h"
#include "deviceplugin.pb-c.h"
#include "doors/kubelet/pool.h"
#include "hardware/gpu.h"
#include "policy/config.h"
#include "policy/policy.h"
#include "tests/unit/doors/kubelet/rig.h"
#include "unit/unit.h"
#include "wire/client.h"
#include "wire/listen.h"
#include "wire/server.h"

enum { DEADLINE_S = 20, PLACES = 4, LISTS = 4096 };

/* What the kubelet keeps of one resource. */
struct place {
	char resource[64], endpoint[PLUGIN_ENDPOINT_MAX];
	struct wire_client *client; /* owned */
	struct wire_call *call;	    /* its Register, until it is answered */
	struct wire_client_call *watch;
	unsigned registrations, lists, ends;
	char list[LISTS]; /* the last: "GPU-a+ GPU-b- ": healthy or not */
};

static struct scene {
	char *directory;
	char place[128]; /* of the sockets; the directory, or a link in it */
	char socket[200];
	struct loop *loop;
	struct rig *rig;
	struct wire_server *server; /* of the kubelet; NULL: it is dead */
	struct place places[PLACES];
	struct kubelet *kubelet;
	const char *unhealthy[RIG_GPUS];
	unsigned changes;
	bool refuses;
} scene;

/* --- the kubelet --- */

static const struct wire_method options_method = {
    .path = "/v1beta1.DevicePlugin/GetDevicePluginOptions",
    .request = &v1beta1__empty__descriptor,
    .reply = &v1beta1__device_plugin_options__descriptor};
static const struct wire_method watch_method = {.path = "/v1beta1.DevicePlugin/ListAndWatch",
						.request = &v1beta1__empty__descriptor,
						.reply =
						    &v1beta1__list_and_watch_response__descriptor,
						.server_streams = true};

static struct place *place_of(const char *resource)
{
	for (unsigned i = 0; i < PLACES; i++) {
		struct place *place = &scene.places[i];
		if (place->resource[0] == '\0')
			(void)snprintf(place->resource, sizeof(place->resource), "%s", resource);
		if (strcmp(place->resource, resource) == 0)
			return place;
	}
	fail_msg("too many resources");
	return NULL;
}

static void on_list(const ProtobufCMessage *message, void *context)
{
	struct place *place = context;
	const V1beta1__ListAndWatchResponse *list = (const void *)message;
	struct buf text;
	buf_init(&text, LISTS - 1);
	for (size_t i = 0; i < list->n_devices; i++)
		(void)buf_printf(&text, "%s%c ", list->devices[i]->id,
				 strcmp(list->devices[i]->health, "Healthy") == 0 ? '+' : '-');
	(void)snprintf(place->list, sizeof(place->list), "%s", buf_text(&text));
	buf_done(&text);
	place->lists++;
}

static void on_watch_end(const struct wire_result *result, void *context)
{
	struct place *place = context;
	(void)result;
	place->watch = NULL;
	place->ends++;
}

static void on_options(const struct wire_result *result, void *context)
{
	struct place *place = context;
	V1beta1__Empty empty = V1BETA1__EMPTY__INIT;
	const struct wire_client_callbacks callbacks = {on_list, on_watch_end, place};
	struct wire_call *call = place->call;
	place->call = NULL;
	if (!call || result->status != WIRE_OK) {
		if (call)
			wire_call_finish(call, WIRE_UNKNOWN, "no plugin");
		return;
	}
	place->registrations++;
	place->watch =
	    wire_client_call(place->client, &watch_method, &empty.base, 0, &callbacks, NULL);
	(void)wire_call_reply(call, &empty.base, NULL);
}

static void on_register_cancel(void *context)
{
	struct place *place = context;
	place->call = NULL;
}

static void on_register(struct wire_call *call, const ProtobufCMessage *message, void *context)
{
	const V1beta1__RegisterRequest *request = (const void *)message;
	struct place *place = place_of(request->resource_name);
	V1beta1__Empty empty = V1BETA1__EMPTY__INIT;
	char path[300];
	(void)context;
	assert_string_equal(request->version, "v1beta1");
	assert_int_equal(request->options->get_preferred_allocation_available,
			 strncmp(request->resource_name, "rdma/", 5) != 0);
	/* The end of an older stream would take this registration down. */
	assert_null(place->watch);
	if (scene.refuses) {
		wire_call_finish(call, WIRE_UNKNOWN, "not now");
		return;
	}
	(void)snprintf(place->endpoint, sizeof(place->endpoint), "%s", request->endpoint);
	(void)snprintf(path, sizeof(path), "%s/%s", scene.place, request->endpoint);
	place->client = wire_client_free(place->client);
	place->client = wire_client_new(scene.loop, path, &(struct wire_client_options){0}, NULL);
	const struct wire_client_callbacks callbacks = {.end = on_options, .context = place};
	if (!place->client ||
	    !wire_client_call(place->client, &options_method, &empty.base, 0, &callbacks, NULL)) {
		wire_call_finish(call, WIRE_UNKNOWN, "no plugin");
		return;
	}
	place->call = call;
	wire_call_on_cancel(call, on_register_cancel, place);
}

static const struct wire_method register_methods[] = {
    {.path = "/v1beta1.Registration/Register",
     .request = &v1beta1__register_request__descriptor,
     .reply = &v1beta1__empty__descriptor,
     .handle = on_register},
    {0},
};

static void kubelet_dies(void)
{
	scene.server = wire_server_free(scene.server);
	for (unsigned i = 0; i < PLACES; i++) {
		scene.places[i].client = wire_client_free(scene.places[i].client);
		scene.places[i].watch = NULL;
		scene.places[i].call = NULL;
	}
}

static void kubelet_starts(void)
{
	const struct wire_server_options options = {.methods = register_methods};
	char command[300];
	(void)snprintf(command, sizeof(command), "rm -f '%s'/*.sock", scene.place);
	assert_int_equal(system(command), 0);
	scene.server = wire_server_new(scene.loop, &options, NULL);
	assert_non_null(scene.server);
	int fd = wire_listen_unix(scene.socket, 0600, NULL);
	assert_true(fd >= 0);
	assert_int_equal(wire_server_add_listener(scene.server, fd, NULL), 0);
}

/* --- the door --- */

static void on_changed(void *context)
{
	(void)context;
	scene.changes++;
}

static void door_opens_in(const char *place)
{
	const struct kubelet_options options = {.loop = scene.loop,
						.socket = scene.socket,
						.root = scene.directory,
						.changed = on_changed};
	scene.kubelet = kubelet_close(scene.kubelet);
	(void)snprintf(scene.place, sizeof(scene.place), "%s", place);
	(void)snprintf(scene.socket, sizeof(scene.socket), "%s/kubelet.sock", place);
	assert_int_equal(kubelet_open(&options, &scene.kubelet, NULL), 0);
}

static int set_up(void **state)
{
	(void)state;
	memset(&scene, 0, sizeof(scene));
	scene.directory = unit_tmp_new();
	scene.loop = loop_new(LOOP_FAKE, NULL);
	assert_non_null(scene.loop);
	scene.rig = rig_new(4);
	door_opens_in(scene.directory);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	scene.kubelet = kubelet_close(scene.kubelet);
	kubelet_dies();
	scene.rig = rig_free(scene.rig);
	scene.loop = loop_free(scene.loop);
	scene.directory = unit_tmp_free(scene.directory);
	return 0;
}

/* NULL: without a driver. */
static void machine_is(const char *text)
{
	const struct policy_surroundings surroundings = {.has_kubelet = true};
	struct kubelet_machine machine = {.gpu_unhealthy = scene.unhealthy};
	struct config *config = NULL;
	struct policy *policy = NULL;
	struct err err = {0};
	int rc = 0;
	if (text) {
		rc = config_parse(text, strlen(text), "c.yaml", NULL, true, &config, &err);
		if (rc == 0)
			rc = policy_make(&scene.rig->inventory, config, &surroundings, &policy,
					 &err);
		machine.inventory = &scene.rig->inventory;
		machine.policy = policy;
		machine.config = config;
	}
	if (rc == 0)
		rc = kubelet_set_machine(scene.kubelet, &machine, &err);
	(void)policy_free(policy);
	(void)config_free(config);
	if (rc < 0)
		fail_msg("%s", err.text);
}

static void pass(uint64_t advance_ns)
{
	if (advance_ns > 0)
		assert_int_equal(loop_advance(scene.loop, advance_ns, NULL), 0);
	for (int i = 0; i < 10; i++)
		assert_int_equal(loop_pass(scene.loop, 0, NULL), 0);
}

static struct kubelet_view view_of(const char *name)
{
	struct kubelet_view view;
	for (size_t i = 0; kubelet_resource_at(scene.kubelet, i, &view); i++) {
		if (strcmp(view.name, name) == 0)
			return view;
	}
	return (struct kubelet_view){.name = ""};
}

/* Until the kubelet has this list of the resource, and we know that. The clock moves on. */
static struct place *expect_list(const char *name, const char *list)
{
	struct place *place = place_of(name);
	uint64_t end_ns = unit_now_ns() + DEADLINE_S * CLOCK_NS_PER_S;
	while (!place->watch || strcmp(place->list, list) != 0 ||
	       view_of(name).state != KUBELET_ATTACHED) {
		if (unit_now_ns() > end_ns)
			fail_msg("%s has '%s' (%s), not '%s'", name, place->list,
				 kubelet_state_to_string(view_of(name).state), list);
		pass(CLOCK_NS_PER_MS);
	}
	return place;
}

/* --- cases --- */

#define GPU  "nvidia.com/gpu"
#define FOUR "GPU-a+ GPU-b+ GPU-c+ GPU-d+ "

static void test_a_machine_is_listed(void **state)
{
	(void)state;
	kubelet_starts();
	assert_int_equal(kubelet_count(scene.kubelet), 0);
	machine_is("");
	struct place *place = expect_list(GPU, FOUR);
	assert_string_equal(place->endpoint, "nvidia-gpu.sock");
	struct kubelet_view view = view_of(GPU);
	assert_int_equal(view.devices, 4);
	assert_int_equal(view.registrations, 1);
	assert_int_equal(view.counts.streams, 1);
	assert_string_equal(view.problem, "");
	assert_true(scene.changes > 0);
	/* The same again is nothing new. */
	machine_is("");
	pass(100 * CLOCK_NS_PER_S);
	assert_int_equal(place->registrations, 1);
	assert_int_equal(place->lists, 1);
}

static void test_no_kubelet_yet(void **state)
{
	(void)state;
	machine_is("");
	pass(60 * CLOCK_NS_PER_S);
	assert_int_equal(view_of(GPU).state, KUBELET_WAITING);
	assert_non_null(strstr(view_of(GPU).problem, "no kubelet"));
	kubelet_starts();
	pass(0); /* no time goes by */
	(void)expect_list(GPU, FOUR);
}

static void test_the_kubelet_restarts(void **state)
{
	(void)state;
	kubelet_starts();
	machine_is("sharing: {timeSlicing: {resources: "
		   "[{name: gpu, replicas: 2, rename: half, devices: [3]}]}}");
	for (unsigned i = 1; i < 6; i++) {
		assert_int_equal(expect_list(GPU, "GPU-a+ GPU-b+ GPU-c+ ")->registrations, i);
		assert_int_equal(
		    expect_list("nvidia.com/half", "GPU-d::0+ GPU-d::1+ ")->registrations, i);
		kubelet_dies();
		if (i % 2)
			pass(i * CLOCK_NS_PER_S);
		memset(scene.places[0].list, 0, LISTS);
		memset(scene.places[1].list, 0, LISTS);
		kubelet_starts();
	}
}

static void test_health(void **state)
{
	(void)state;
	kubelet_starts();
	machine_is("");
	struct place *place = expect_list(GPU, FOUR);
	scene.unhealthy[1] = "XID 79";
	machine_is("");
	(void)expect_list(GPU, "GPU-a+ GPU-b- GPU-c+ GPU-d+ ");
	assert_int_equal(view_of(GPU).healthy, 3);
	scene.unhealthy[1] = "";
	scene.rig->gpus[2].state = GPU_STATE_LOST;
	machine_is("");
	(void)expect_list(GPU, "GPU-a+ GPU-b+ GPU-c- GPU-d+ ");
	/* Without a driver all of them, and they stay. */
	machine_is(NULL);
	(void)expect_list(GPU, "GPU-a- GPU-b- GPU-c- GPU-d- ");
	scene.rig->gpus[2].state = GPU_STATE_OK;
	machine_is("");
	(void)expect_list(GPU, FOUR);
	assert_int_equal(place->registrations, 1);
	assert_int_equal(place->ends, 0);
}

static void test_another_machine(void **state)
{
	(void)state;
	kubelet_starts();
	machine_is("");
	struct place *place = expect_list(GPU, FOUR);
	scene.rig->inventory.gpu_count = 2; /* two were taken out */
	machine_is("");
	(void)expect_list(GPU, "GPU-a+ GPU-b+ ");
	pass(10 * CLOCK_NS_PER_S); /* tables are made meanwhile */
	rig_add_mig(scene.rig, 1, "1g.5gb");
	machine_is("flags: {migStrategy: mixed}");
	(void)expect_list(GPU, "GPU-a+ ");
	/* Nobody has said which nodes a MIG device has. */
	(void)expect_list("nvidia.com/mig-1g.5gb", "MIG-1-0- ");
	assert_int_equal(place->registrations, 1);
}

static void test_a_resource_goes(void **state)
{
	(void)state;
	static const char both[] = "sharing: {timeSlicing: {resources: "
				   "[{name: gpu, replicas: 2, rename: half, devices: [3]}]}}";
	struct stat info;
	kubelet_starts();
	machine_is(both);
	struct place *whole = expect_list(GPU, "GPU-a+ GPU-b+ GPU-c+ ");
	struct place *half = expect_list("nvidia.com/half", "GPU-d::0+ GPU-d::1+ ");
	assert_int_equal(kubelet_count(scene.kubelet), 2);
	machine_is("");
	(void)expect_list(GPU, FOUR);
	assert_int_equal(kubelet_count(scene.kubelet), 1);
	pass(2 * CLOCK_NS_PER_S);
	assert_string_equal(half->list, ""); /* it was told that none is left ... */
	assert_int_equal(half->ends, 1);     /* ... before its end */
	assert_int_equal(lstat(unit_path(scene.directory, "nvidia-half.sock"), &info), -1);
	assert_int_equal(whole->registrations, 1);
	machine_is(both);
	(void)expect_list("nvidia.com/half", "GPU-d::0+ GPU-d::1+ ");
	/* And back while it still goes. */
	machine_is("");
	machine_is(both);
	pass(2 * CLOCK_NS_PER_S);
	(void)expect_list("nvidia.com/half", "GPU-d::0+ GPU-d::1+ ");
	assert_int_equal(whole->registrations, 1);
	assert_int_equal(whole->ends, 0);
	struct kubelet_view view;
	assert_true(kubelet_resource_at(scene.kubelet, 1, &view));
	assert_string_equal(view.name, "nvidia.com/half");
	assert_false(kubelet_resource_at(scene.kubelet, 2, &view));
}

static void test_registered_again(void **state)
{
	(void)state;
	kubelet_starts();
	machine_is("");
	for (unsigned i = 1; i < 10; i++) {
		assert_int_equal(expect_list(GPU, FOUR)->registrations, i);
		place_of(GPU)->list[0] = '\0';
		kubelet_register_again(scene.kubelet);
	}
}

static void test_one_that_fails_holds_nobody_up(void **state)
{
	(void)state;
	kubelet_starts();
	assert_int_equal(mkdir(unit_path(scene.directory, "nvidia-half.sock"), 0755), 0);
	machine_is("sharing: {timeSlicing: {resources: "
		   "[{name: gpu, replicas: 2, rename: half, devices: [3]}]}}");
	(void)expect_list(GPU, "GPU-a+ GPU-b+ GPU-c+ ");
	assert_int_equal(view_of("nvidia.com/half").state, KUBELET_WAITING);
	assert_non_null(strstr(view_of("nvidia.com/half").problem, "nvidia-half.sock"));
	assert_int_equal(rmdir(unit_path(scene.directory, "nvidia-half.sock")), 0);
	(void)expect_list("nvidia.com/half", "GPU-d::0+ GPU-d::1+ ");
}

static void test_the_kubelet_refuses(void **state)
{
	(void)state;
	scene.refuses = true;
	kubelet_starts();
	machine_is("");
	pass(CLOCK_NS_PER_S / 2);
	assert_int_equal(view_of(GPU).state, KUBELET_WAITING);
	assert_non_null(strstr(view_of(GPU).problem, "not now"));
	scene.refuses = false;
	assert_int_equal(expect_list(GPU, FOUR)->registrations, 1);
}

/* What inotify does not tell is found by looking: another directory at the end of a link. */
static void test_an_unseen_directory(void **state)
{
	(void)state;
	char link[128];
	(void)snprintf(link, sizeof(link), "%s/link", scene.directory);
	assert_int_equal(mkdir(unit_path(scene.directory, "a"), 0755), 0);
	assert_int_equal(mkdir(unit_path(scene.directory, "b"), 0755), 0);
	assert_int_equal(symlink("a", link), 0);
	door_opens_in(link);
	machine_is("");
	pass(100 * CLOCK_NS_PER_S); /* the next attempt is far away */
	assert_int_equal(symlink("b", unit_path(scene.directory, "new")), 0);
	assert_int_equal(rename(unit_path(scene.directory, "new"), link), 0);
	kubelet_starts();
	pass(0);
	assert_int_equal(place_of(GPU)->registrations, 0);
	pass(KUBELET_LOOK_NS);
	assert_int_equal(place_of(GPU)->registrations, 1);
	(void)expect_list(GPU, FOUR);
}

static void test_without_the_imex_channel(void **state)
{
	(void)state;
	kubelet_starts();
	machine_is("imex: {channelIDs: [0], required: true}");
	(void)expect_list(GPU, "GPU-a- GPU-b- GPU-c- GPU-d- ");
	machine_is("imex: {channelIDs: [0]}");
	(void)expect_list(GPU, FOUR);
}

static void test_wrong_places(void **state)
{
	(void)state;
	struct kubelet *kubelet = NULL;
	struct err err = {0};
	struct kubelet_options options = {.loop = scene.loop, .socket = "kubelet.sock"};
	assert_int_equal(kubelet_open(&options, &kubelet, &err), -EINVAL);
	options.socket = "/var/lib/";
	assert_int_equal(kubelet_open(&options, &kubelet, &err), -EINVAL);
	assert_non_null(strstr(err.text, "/var/lib/"));
	assert_string_equal(kubelet_state_to_string(KUBELET_REGISTERED), "registered");
	assert_string_equal(kubelet_state_to_string((enum kubelet_state)9), "unknown");
}

/* Two pools of adapters, "rdma/a" with so many units and "rdma/b" with two. */
static void pools_are(uint32_t units, bool is_healthy, size_t count)
{
	char path[1][POOL_PATH_MAX] = {"/dev/infiniband/uverbs0"};
	struct kubelet_pool pool = {.units = units,
				    .is_healthy = is_healthy,
				    .reason = "no port is up",
				    .numa = GPU_NUMA_NONE,
				    .paths = path,
				    .path_count = 1};
	struct kubelet_resource *resources[2] = {NULL, NULL};
	struct err err = {0};
	assert_int_equal(pool_new("rdma/a", &pool, &resources[0], NULL), 0);
	pool.units = 2;
	if (count > 1)
		assert_int_equal(pool_new("rdma/b", &pool, &resources[1], NULL), 0);
	if (kubelet_set_resources(scene.kubelet, resources, count, &err) < 0)
		fail_msg("%s", err.text);
}

static void test_pools(void **state)
{
	(void)state;
	kubelet_starts();
	pools_are(3, true, 2);
	struct place *a = expect_list("rdma/a", "0+ 1+ 2+ "), *b = expect_list("rdma/b", "0+ 1+ ");
	assert_string_equal(a->endpoint, "rdma-rdma-a.sock");
	assert_int_equal(view_of("rdma/a").devices, 3);
	assert_int_equal(view_of("rdma/a").healthy, 3);
	/* The same again is nothing new, and neither is another node. */
	pools_are(3, true, 2);
	pass(10 * CLOCK_NS_PER_S);
	assert_int_equal(a->lists, 1);
	pools_are(3, false, 2);
	(void)expect_list("rdma/a", "0- 1- 2- ");
	assert_int_equal(view_of("rdma/a").healthy, 0);
	pools_are(1, true, 1);
	(void)expect_list("rdma/a", "0+ ");
	pass(2 * CLOCK_NS_PER_S);
	assert_string_equal(b->list, "");
	assert_null(b->watch);
	assert_int_equal(a->registrations, 1);
	/* A kubelet that starts again has all of it again. */
	kubelet_dies();
	kubelet_starts();
	(void)expect_list("rdma/a", "0+ ");
	assert_int_equal(a->registrations, 2);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
	    CASE(test_a_machine_is_listed),
	    CASE(test_no_kubelet_yet),
	    CASE(test_the_kubelet_restarts),
	    CASE(test_health),
	    CASE(test_another_machine),
	    CASE(test_a_resource_goes),
	    CASE(test_registered_again),
	    CASE(test_one_that_fails_holds_nobody_up),
	    CASE(test_the_kubelet_refuses),
	    CASE(test_an_unseen_directory),
	    CASE(test_without_the_imex_channel),
	    CASE(test_wrong_places),
	    CASE(test_pools),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
