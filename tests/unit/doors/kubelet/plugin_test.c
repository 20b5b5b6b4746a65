/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/kubelet/plugin.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "doors/kubelet/resource.h"
#include "tests/unit/doors/kubelet/door.h"
#include "tests/unit/failmalloc.h"
#include "wire/listen.h"

static void free_message(ProtobufCMessage *message)
{
	if (message)
		protobuf_c_message_free_unpacked(message, NULL);
}

/* --- the socket --- */

static void test_endpoint_of_a_resource(void **state)
{
	static const struct {
		const char *resource, *endpoint;
	} rows[] = {
	    {"nvidia.com/gpu", "nvidia-gpu.sock"},
	    {"nvidia.com/gpu.shared", "nvidia-gpu.shared.sock"},
	    {"nvidia.com/mig-1g.5gb", "nvidia-mig-1g.5gb.sock"},
	    {"example.org/gpu", "example-gpu.sock"},
	};
	static const char *const wrong[] = {"gpu", "/gpu", "nvidia.com/", "nvidia.com/a/b", ""};
	char out[PLUGIN_ENDPOINT_MAX] = "untouched", name[200] = "nvidia.com/";
	struct err err = {0};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		assert_int_equal(plugin_endpoint(rows[i].resource, out, NULL), 0);
		assert_string_equal(out, rows[i].endpoint);
	}
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_int_equal(plugin_endpoint(wrong[i], out, &err), -EINVAL);
	memset(name + 11, 'x', PLUGIN_ENDPOINT_MAX - sizeof("nvidia-.sock"));
	assert_int_equal(plugin_endpoint(name, out, NULL), 0);
	assert_int_equal(strlen(out), PLUGIN_ENDPOINT_MAX - 1);
	name[strlen(name)] = 'x';
	assert_int_equal(plugin_endpoint(name, out, &err), -ENAMETOOLONG);
	(void)state;
}

static void test_socket_is_for_root_and_goes_with_the_plugin(void **state)
{
	struct door *door = *state;
	struct stat status;
	door_open(door, "");
	assert_int_equal(lstat(door->fixture->path, &status), 0);
	assert_true(S_ISSOCK(status.st_mode));
	assert_int_equal(status.st_mode & 07777, 0600);
	assert_true(plugin_has_socket(door->plugin));
	door->plugin = plugin_close(door->plugin);
	assert_int_equal(lstat(door->fixture->path, &status), -1);
}

static void test_the_socket_of_somebody_else_stays(void **state)
{
	struct door *door = *state;
	door_open(door, "");
	assert_int_equal(unlink(door->fixture->path), 0);
	assert_false(plugin_has_socket(door->plugin));
	_cleanup_close_ int other = wire_listen_unix(door->fixture->path, 0600, NULL);
	assert_true(other >= 0);
	assert_false(plugin_has_socket(door->plugin));
	door->plugin = plugin_close(door->plugin);
	assert_int_equal(access(door->fixture->path, F_OK), 0);
}

static int try_open(struct door *door, const char *directory, bool *out_taken_over, struct err *err)
{
	struct plugin_options options = door_options(door);
	options.directory = directory;
	struct kubelet_resource *resource = rig_resource(door->rig, "", options.resource);
	int rc = plugin_open(&options, resource, NULL, &door->plugin, out_taken_over, err);
	if (rc < 0)
		(void)resource_free(resource);
	return rc;
}

static void test_what_is_at_the_place_of_the_socket(void **state)
{
	struct door *door = *state;
	const char *directory = door->fixture->directory;
	struct err err = {0};
	bool taken_over = true;
	/* Left behind by a crash. */
	int other = wire_listen_unix(door->fixture->path, 0600, NULL);
	assert_true(other >= 0);
	(void)close(other);
	assert_int_equal(try_open(door, directory, &taken_over, &err), 0);
	assert_false(taken_over);
	door->plugin = plugin_close(door->plugin);
	/* Another plugin. */
	other = wire_listen_unix(door->fixture->path, 0600, NULL);
	assert_true(other >= 0);
	int rc = try_open(door, directory, &taken_over, &err);
	(void)close(other);
	assert_int_equal(rc, 0);
	assert_true(taken_over);
	assert_true(plugin_has_socket(door->plugin));
	door->plugin = plugin_close(door->plugin);
	/* Something else. */
	unit_write(door->fixture->path, "precious");
	assert_int_equal(try_open(door, directory, &taken_over, &err), -EEXIST);
	assert_non_null(strstr(err.text, "nvidia.com/gpu: '"));
	assert_int_equal(access(door->fixture->path, F_OK), 0);
	assert_int_equal(try_open(door, unit_path(directory, "none"), &taken_over, &err), -ENOENT);
	assert_non_null(strstr(err.text, "none/nvidia-gpu.sock"));
}

static void test_directory_longer_than_an_address(void **state)
{
	struct door *door = *state;
	char directory[400];
	bool taken_over;
	int length =
	    snprintf(directory, sizeof(directory), "%s/%0100d", door->fixture->directory, 0);
	assert_int_equal(mkdir(directory, 0700), 0);
	(void)snprintf(directory + length, sizeof(directory) - (size_t)length, "/%0100d", 0);
	assert_int_equal(mkdir(directory, 0700), 0);
	assert_int_equal(try_open(door, directory, &taken_over, NULL), 0);
	assert_true(plugin_has_socket(door->plugin));
	char path[500];
	(void)snprintf(path, sizeof(path), "%s/nvidia-gpu.sock", directory);
	struct wire_client *client = wire_client_new(door->fixture->loop, path, NULL, NULL);
	assert_non_null(client);
	V1beta1__Empty request = V1BETA1__EMPTY__INIT;
	ProtobufCMessage *reply = NULL;
	int rc = wire_client_ask(client, door->fixture->loop, &door_methods[DOOR_OPTIONS],
				 &request.base, 0, &reply, NULL, NULL);
	client = wire_client_free(client);
	free_message(reply);
	assert_int_equal(rc, 0);
	door->plugin = plugin_close(door->plugin);
	assert_int_equal(access(path, F_OK), -1);
}

/* --- lists --- */

#define FOUR                                                                                       \
	"GPU-a Healthy 0\nGPU-b Healthy 0\n"                                                       \
	"GPU-c Healthy 1\nGPU-d Healthy 1\n"
#define FOUR_WITHOUT_B                                                                             \
	"GPU-a Healthy 0\nGPU-b Unhealthy 0\n"                                                     \
	"GPU-c Healthy 1\nGPU-d Healthy 1\n"

static void test_list_in_order_with_health_and_nodes(void **state)
{
	struct door *door = *state;
	door->rig->gpus[3].numa_node = GPU_NUMA_NONE;
	door->rig->gpus[2].state = GPU_STATE_LOST;
	door_open(door, RIG_SHARE("{name: gpu, replicas: 2, devices: [0, 3]}"));
	struct caller *caller = door_watch(door, 0);
	door_expect_lists(caller, 1);
	assert_string_equal(caller->list, "GPU-a::0 Healthy 0\nGPU-a::1 Healthy 0\n"
					  "GPU-b Healthy 0\nGPU-c Unhealthy 1\n"
					  "GPU-d::0 Healthy -\nGPU-d::1 Healthy -\n");
}

static void set_health(struct door *door, unsigned gpu, bool healthy)
{
	door->rig->gpus[gpu].state = healthy ? GPU_STATE_OK : GPU_STATE_LOST;
	door_update(door, "");
}

static void test_changes_go_out_together(void **state)
{
	struct door *door = *state;
	door_open(door, "");
	struct caller *caller = door_watch(door, 0), *other = door_watch(door, 1);
	door_expect_lists(caller, 1);
	door_expect_lists(other, 1);
	assert_string_equal(caller->list, FOUR);
	set_health(door, 1, false);
	set_health(door, 0, false);
	fixture_advance(door->fixture, PLUGIN_COALESCE_NS - 1);
	set_health(door, 0, true); /* does not put it off */
	door_idle(door);
	assert_int_equal(caller->lists, 1);
	/* Who comes now has it already. */
	struct caller *late = door_watch(door, 2);
	door_expect_lists(late, 1);
	assert_string_equal(late->list, FOUR_WITHOUT_B);
	fixture_advance(door->fixture, 1);
	door_expect_lists(caller, 2);
	door_expect_lists(other, 2);
	assert_string_equal(caller->list, FOUR_WITHOUT_B);
	assert_string_equal(other->list, FOUR_WITHOUT_B);
	fixture_advance(door->fixture, CLOCK_NS_PER_S);
	door_idle(door);
	assert_int_equal(caller->lists, 2);
	assert_int_equal(late->lists, 1);
	assert_int_equal(door_counts(door).lists, 5);
	assert_int_equal(door_counts(door).streams, 3);
}

static void test_equal_lists_are_not_sent(void **state)
{
	struct door *door = *state;
	door_open(door, "");
	struct caller *caller = door_watch(door, 0);
	door_expect_lists(caller, 1);
	/* The same; what does not show in a list; there and back. */
	door_update(door, "");
	door_update(door, "flags: {plugin: {passDeviceSpecs: true}}");
	fixture_advance(door->fixture, CLOCK_NS_PER_S);
	set_health(door, 1, false);
	struct caller *late = door_watch(door, 1);
	door_expect_lists(late, 1);
	set_health(door, 1, true);
	fixture_advance(door->fixture, CLOCK_NS_PER_S);
	door_expect_lists(late, 2); /* he saw the other one */
	assert_string_equal(late->list, FOUR);
	door_idle(door);
	assert_int_equal(caller->lists, 1);
	assert_int_equal(door_counts(door).lists, 3);
}

static void test_flush_before_the_end(void **state)
{
	struct door *door = *state;
	door_open(door, "");
	struct caller *caller = door_watch(door, 0);
	door_expect_lists(caller, 1);
	door_update(door, "sluice: {devices: {exclude: [0, 1, 2]}}");
	plugin_flush(door->plugin);
	plugin_hang_up(door->plugin, NULL, NULL);
	door_expect_end(caller);
	assert_int_equal(caller->lists, 2);
	assert_string_equal(caller->list, "GPU-d Healthy 1\n");
	assert_int_equal(caller->result.status, WIRE_OK);
}

static bool is_detached(void *context)
{
	const struct door *door = context;
	return !plugin_is_attached(door->plugin);
}

static void test_attached_while_a_stream_is_open(void **state)
{
	struct door *door = *state;
	door_open(door, "");
	assert_false(plugin_is_attached(door->plugin));
	struct caller *first = door_watch(door, 0), *second = door_watch(door, 1);
	door_expect_lists(first, 1);
	door_expect_lists(second, 1);
	assert_true(plugin_is_attached(door->plugin));
	assert_in_range(door->changes, 1, 2);
	unsigned before = door->changes;
	wire_client_cancel(first->watch);
	first->watch = NULL;
	door_idle(door);
	assert_true(plugin_is_attached(door->plugin));
	assert_int_equal(door->changes, before + 1);
	door_hang_up(second);
	fixture_run(door->fixture, is_detached, door);
	door_idle(door);
	assert_int_equal(door->changes, before + 2);
	assert_int_equal(door_counts(door).streams, 0);
	/* A stream that is gone is not written to. */
	set_health(door, 1, false);
	fixture_advance(door->fixture, CLOCK_NS_PER_S);
	assert_int_equal(door_counts(door).lists, 2);
}

static void test_streams_are_capped(void **state)
{
	struct door *door = *state;
	door_open(door, "");
	for (unsigned i = 0; i < PLUGIN_STREAMS_MAX; i++)
		door_expect_lists(door_watch(door, i), 1);
	struct caller *caller = door_watch(door, PLUGIN_STREAMS_MAX);
	door_idle(door);
	assert_true(caller->ended);
	assert_int_equal(caller->result.status, WIRE_RESOURCE_EXHAUSTED);
	assert_int_equal(door_counts(door).streams, PLUGIN_STREAMS_MAX);
	/* One that goes makes room. */
	door_hang_up(&door->callers[3]);
	door_idle(door);
	door_expect_lists(door_watch(door, 3), 1);
}

/* --- calls --- */

static void test_options(void **state)
{
	struct door *door = *state;
	V1beta1__Empty request = V1BETA1__EMPTY__INIT;
	struct wire_result result;
	door_open(door, "");
	ProtobufCMessage *reply = door_ask(door, DOOR_OPTIONS, &request.base, &result);
	assert_non_null(reply);
	const V1beta1__DevicePluginOptions *options = (const void *)reply;
	bool prefer = options->get_preferred_allocation_available;
	bool pre_start = options->pre_start_required;
	free_message(reply);
	assert_true(prefer);
	assert_false(pre_start);
}

static void test_pre_start(void **state)
{
	struct door *door = *state;
	char id[] = "GPU-a", *ids[] = {id};
	V1beta1__PreStartContainerRequest request = V1BETA1__PRE_START_CONTAINER_REQUEST__INIT;
	struct wire_result result;
	request.n_devices_ids = 1;
	request.devices_ids = ids;
	door_open(door, "");
	ProtobufCMessage *reply = door_ask(door, DOOR_PRE_START, &request.base, &result);
	free_message(reply);
	assert_non_null(reply);
}

static V1beta1__AllocateResponse *allocate(struct door *door, const char *id)
{
	char *ids[] = {(char *)id};
	V1beta1__ContainerAllocateRequest container = V1BETA1__CONTAINER_ALLOCATE_REQUEST__INIT;
	V1beta1__ContainerAllocateRequest *containers[] = {&container};
	V1beta1__AllocateRequest request = V1BETA1__ALLOCATE_REQUEST__INIT;
	struct wire_result result;
	request.n_container_requests = container.n_devices_ids = 1;
	request.container_requests = containers;
	container.devices_ids = ids;
	ProtobufCMessage *reply = door_ask(door, DOOR_ALLOCATE, &request.base, &result);
	assert_non_null(reply);
	return (V1beta1__AllocateResponse *)reply;
}

static void test_allocate(void **state)
{
	struct door *door = *state;
	door_open(door, "");
	V1beta1__AllocateResponse *response = allocate(door, "GPU-b");
	assert_int_equal(response->n_container_responses, 1);
	const V1beta1__ContainerAllocateResponse *container = response->container_responses[0];
	assert_int_equal(container->n_envs, 1);
	assert_string_equal(container->envs[0]->key, "NVIDIA_VISIBLE_DEVICES");
	assert_string_equal(container->envs[0]->value, "GPU-b");
	assert_int_equal(container->n_devices, 0);
	free_message(&response->base);
	/* From the next call on as the newest configuration says, though the list is the same. */
	door_update(door, "flags: {plugin: {passDeviceSpecs: true}}");
	response = allocate(door, "GPU-b");
	size_t devices = response->container_responses[0]->n_devices;
	free_message(&response->base);
	assert_int_equal(devices, 5);
	assert_int_equal(door_counts(door).allocations, 2);
	assert_int_equal(door_counts(door).refused, 0);
}

static void test_refused_in_the_words_that_people_know(void **state)
{
	static const char prefix[] =
	    "invalid allocation request for \"nvidia.com/gpu\": invalid request: ";
	static const struct {
		const char *ids[4], *text;
	} rows[] = {
	    {{"GPU-x"}, "unknown device: GPU-x"},
	    {{"GPU-a::0", "nvidia.com/other"}, "unknown device: nvidia.com/other"},
	    {{"GPU-a"}, "unknown device: GPU-a"}, /* there are only its replicas */
	    {{"GPU-a::0", "GPU-b::0"}, "maximum request size for shared resources is 1; found 2"},
	    {{"GPU-a::0", "GPU-a::0", "GPU-a::0"},
	     "maximum request size for shared resources is 1; found 3"},
	};
	struct door *door = *state;
	door_open(door, "sharing: {timeSlicing: {failRequestsGreaterThanOne: true, "
			"resources: [{name: gpu, replicas: 2}]}}");
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		enum wire_status status;
		char expected[300];
		(void)snprintf(expected, sizeof(expected), "%s%s", prefix, rows[i].text);
		assert_string_equal(door_allocate(door, rows[i].ids, &status), expected);
		assert_int_equal(status, WIRE_UNKNOWN);
	}
	assert_int_equal(door_counts(door).refused, sizeof(rows) / sizeof(rows[0]));
	static const char *const good[] = {"GPU-a::0", NULL};
	enum wire_status status;
	assert_string_equal(door_allocate(door, good, &status), "");
	assert_int_equal(status, WIRE_OK);
}

static void test_duplicates_and_unhealthy_are_answered(void **state)
{
	static const char *const ids[] = {"GPU-b", "GPU-b", "GPU-a", NULL};
	struct door *door = *state;
	enum wire_status status;
	door->rig->gpus[1].state = GPU_STATE_LOST;
	door_open(door, "");
	assert_string_equal(door_allocate(door, ids, &status), "");
	assert_int_equal(status, WIRE_OK);
}

static char *prefer(struct door *door, const char *const *available, const char *must, int32_t size)
{
	char *free_ids[8], *must_ids[] = {(char *)must};
	V1beta1__ContainerPreferredAllocationRequest container =
	    V1BETA1__CONTAINER_PREFERRED_ALLOCATION_REQUEST__INIT;
	V1beta1__ContainerPreferredAllocationRequest *containers[] = {&container};
	V1beta1__PreferredAllocationRequest request = V1BETA1__PREFERRED_ALLOCATION_REQUEST__INIT;
	struct wire_result result;
	struct buf text;
	request.n_container_requests = 1;
	request.container_requests = containers;
	container.allocation_size = size;
	container.available_deviceids = free_ids;
	container.must_include_deviceids = must_ids;
	container.n_must_include_deviceids = must ? 1 : 0;
	for (; available[container.n_available_deviceids]; container.n_available_deviceids++)
		free_ids[container.n_available_deviceids] =
		    (char *)available[container.n_available_deviceids];
	ProtobufCMessage *reply = door_ask(door, DOOR_PREFER, &request.base, &result);
	assert_non_null(reply);
	const V1beta1__PreferredAllocationResponse *response = (const void *)reply;
	buf_init(&text, 1000);
	for (size_t i = 0; i < response->n_container_responses; i++)
		for (size_t j = 0; j < response->container_responses[i]->n_deviceids; j++)
			(void)buf_printf(&text, "%s ",
					 response->container_responses[i]->deviceids[j]);
	free_message(reply);
	(void)buf_add_text(&text, ".");
	return buf_take(&text);
}

static void test_preferred_allocation_never_fails(void **state)
{
	static const char *const available[] = {"GPU-c", "GPU-x", "GPU-a", NULL};
	static const struct {
		const char *must, *chosen;
		int32_t size;
	} rows[] = {
	    {NULL, "GPU-a .", 1},
	    {NULL, "GPU-a GPU-c .", 2},
	    {NULL, "GPU-a GPU-c .", 9},
	    {NULL, ".", 0},
	    {NULL, ".", -5},
	    {"GPU-c", "GPU-c .", 1},
	    {"GPU-c", "GPU-a GPU-c .", 2},
	    {"GPU-y", "GPU-y .", 1},
	};
	struct door *door = *state;
	door_open(door, "");
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		_cleanup_free_ char *text = prefer(door, available, rows[i].must, rows[i].size);
		assert_non_null(text);
		assert_string_equal(text, rows[i].chosen);
	}
	assert_int_equal(door_counts(door).preferred, sizeof(rows) / sizeof(rows[0]));
}

/* --- the end of connections --- */

static void on_hung_up(void *context)
{
	struct door *door = context;
	door->hung_up++;
}

static bool has_hung_up(void *context)
{
	const struct door *door = context;
	return door->hung_up > 0;
}

static void test_hang_up_and_serve_on(void **state)
{
	struct door *door = *state;
	door_open(door, "");
	struct caller *caller = door_watch(door, 0), *idle = door_connect(door, 1);
	door_expect_lists(caller, 1);
	plugin_hang_up(door->plugin, on_hung_up, door);
	assert_int_equal(door->hung_up, 0);
	assert_false(plugin_is_attached(door->plugin));
	fixture_run(door->fixture, has_hung_up, door);
	door_expect_end(caller);
	assert_int_equal(caller->result.status, WIRE_OK);
	idle->ended = true;
	door_expect_end(idle);
	assert_true(plugin_has_socket(door->plugin));
	struct caller *again = door_watch(door, 2);
	door_expect_lists(again, 1);
	assert_true(plugin_is_attached(door->plugin));
	fixture_advance(door->fixture, 2 * PLUGIN_CLOSE_NS);
	door_idle(door);
	assert_false(again->ended);
	assert_int_equal(door->hung_up, 1);
}

static void test_hang_up_has_a_deadline(void **state)
{
	struct door *door = *state;
	struct peer peer;
	V1beta1__Empty request = V1BETA1__EMPTY__INIT;
	door_open(door, "");
	peer_connect(&peer, door->fixture);
	raw_preface(&peer.raw);
	raw_call(&peer.raw, 1, "/v1beta1.DevicePlugin/ListAndWatch");
	raw_message(&peer.raw, RAW_END_STREAM, 1, &request.base);
	raw_call(&peer.raw, 3, "/v1beta1.DevicePlugin/Allocate"); /* never sends what */
	peer_expect(&peer, door->fixture, "DATA 1 ");
	plugin_hang_up(door->plugin, on_hung_up, door);
	peer_expect(&peer, door->fixture, "HEADERS 1 grpc-status=0 end\n");
	peer_expect(&peer, door->fixture, "GOAWAY 3 code 0");
	fixture_advance(door->fixture, PLUGIN_CLOSE_NS - 1);
	assert_int_equal(door->hung_up, 0);
	fixture_advance(door->fixture, 1);
	fixture_run(door->fixture, has_hung_up, door);
	peer_expect_closed(&peer, door->fixture);
	peer_done(&peer);
}

static void test_close_with_everything_open(void **state)
{
	struct door *door = *state;
	door_open(door, "");
	struct caller *caller = door_watch(door, 0);
	door_expect_lists(caller, 1);
	unsigned before = door->changes;
	set_health(door, 1, false);
	plugin_hang_up(door->plugin, on_hung_up, door);
	door->plugin = plugin_close(door->plugin);
	door_expect_end(caller);
	fixture_advance(door->fixture, 2 * PLUGIN_CLOSE_NS);
	assert_int_equal(door->hung_up, 0);
	assert_int_equal(door->changes, before);
	assert_null(plugin_close(NULL));
}

/* --- out of memory --- */

struct thrift {
	struct door *door;
	struct loop *loop;
	struct kubelet_resource *resource, *next;
	struct plugin *plugin;
	struct wire_client *client;
	bool newest, ended;
};

static void on_thrift_list(const ProtobufCMessage *message, void *context)
{
	struct thrift *thrift = context;
	const V1beta1__ListAndWatchResponse *list = (const void *)message;
	thrift->newest = list->n_devices == 4 && strcmp(list->devices[1]->health, "Unhealthy") == 0;
}

static void on_thrift_end(const struct wire_result *result, void *context)
{
	struct thrift *thrift = context;
	(void)result;
	thrift->ended = true;
}

static int thrift_start(struct thrift *thrift)
{
	const struct wire_client_callbacks callbacks = {on_thrift_list, on_thrift_end, thrift};
	struct door *door = thrift->door;
	V1beta1__Empty request = V1BETA1__EMPTY__INIT;
	bool taken_over;
	thrift->loop = loop_new(LOOP_FAKE, NULL);
	struct plugin_options options = door_options(door);
	options.loop = thrift->loop;
	door->rig->gpus[1].state = GPU_STATE_OK;
	if (!thrift->loop || rig_try(door->rig, "", "nvidia.com/gpu", &thrift->resource, NULL) < 0)
		return -ENOMEM;
	door->rig->gpus[1].state = GPU_STATE_LOST;
	if (rig_try(door->rig, "", "nvidia.com/gpu", &thrift->next, NULL) < 0 ||
	    plugin_open(&options, thrift->resource, NULL, &thrift->plugin, &taken_over, NULL) < 0)
		return -ENOMEM;
	thrift->resource = NULL;
	thrift->client = wire_client_new(thrift->loop, door->fixture->path, NULL, NULL);
	if (!thrift->client || !wire_client_call(thrift->client, &door_methods[DOOR_WATCH],
						 &request.base, 0, &callbacks, NULL))
		return -ENOMEM;
	return 0;
}

/* Of all that may fail: in the end whoever still watches has the newest list. */
static int scenario_lists(void *context)
{
	struct thrift thrift = {.door = context};
	int rc = thrift_start(&thrift);
	for (unsigned i = 0; rc == 0 && i < 60; i++) {
		if (i == 20)
			plugin_update(thrift.plugin, take_ptr(thrift.next), NULL);
		if ((i > 20 && loop_advance(thrift.loop, CLOCK_NS_PER_S / 10, NULL) < 0) ||
		    loop_pass(thrift.loop, 0, NULL) < 0)
			rc = -EIO;
	}
	if (rc == 0 && !thrift.newest && !thrift.ended)
		rc = -ESTALE;
	thrift.client = wire_client_free(thrift.client);
	thrift.plugin = plugin_close(thrift.plugin);
	thrift.resource = resource_free(thrift.resource);
	thrift.next = resource_free(thrift.next);
	thrift.loop = loop_free(thrift.loop);
	return rc;
}

static void test_out_of_memory_for_a_list(void **state)
{
	assert_true(failmalloc_each(scenario_lists, *state) > 50);
}

/* --- the book --- */

struct book {
	int rc; /* what it says */
	unsigned asked;
	char units[256]; /* of the last question */
};

static int book_take(const char *resource, char *const *units, size_t count, void *context,
		     struct err *err)
{
	struct book *book = context;
	book->asked++;
	(void)snprintf(book->units, sizeof(book->units), "%s:", resource);
	for (size_t i = 0; i < count; i++) {
		size_t length = strlen(book->units);
		(void)snprintf(book->units + length, sizeof(book->units) - length, " %s", units[i]);
	}
	return book->rc < 0 ? err_set(err, book->rc, "unit 'GPU-b' is held by job 1") : 0;
}

static void test_what_somebody_else_holds_is_refused(void **state)
{
	struct door *door = *state;
	struct book book = {.rc = -EBUSY};
	enum wire_status status;
	door->book = (struct plugin_book){.take = book_take, .context = &book};
	door_open(door, "");
	const char *said =
	    door_allocate(door, (const char *const[]){"GPU-b", "GPU-a", NULL}, &status);
	assert_string_equal(said, "unit 'GPU-b' is held by job 1");
	assert_int_not_equal(status, WIRE_OK);
	assert_string_equal(book.units, "nvidia.com/gpu: GPU-b GPU-a");
	/* What is no device does not get as far as that. */
	(void)door_allocate(door, (const char *const[]){"GPU-x", NULL}, &status);
	assert_int_equal(book.asked, 1);
	book.rc = 0;
	said = door_allocate(door, (const char *const[]){"GPU-a", NULL}, &status);
	assert_string_equal(said, "");
	assert_int_equal(status, WIRE_OK);
	assert_int_equal(door_counts(door).allocations, 1);
	assert_int_equal(door_counts(door).refused, 2);
}

struct patient {
	unsigned replies, ends;
	struct wire_result result;
};

static void on_patient_reply(const ProtobufCMessage *reply, void *context)
{
	struct patient *patient = context;
	(void)reply;
	patient->replies++;
}

static void on_patient_end(const struct wire_result *result, void *context)
{
	struct patient *patient = context;
	patient->ends++;
	patient->result.status = result->status;
}

static void patient_ask(struct door *door, unsigned caller, struct patient *patient)
{
	V1beta1__ContainerAllocateRequest container = V1BETA1__CONTAINER_ALLOCATE_REQUEST__INIT;
	V1beta1__ContainerAllocateRequest *containers[] = {&container};
	V1beta1__AllocateRequest request = V1BETA1__ALLOCATE_REQUEST__INIT;
	char *names[] = {(char[]){"GPU-a"}};
	const struct wire_client_callbacks callbacks = {on_patient_reply, on_patient_end, patient};

	container.devices_ids = names;
	container.n_devices_ids = 1;
	request.container_requests = containers;
	request.n_container_requests = 1;
	struct wire_client *client = door->callers[caller].client
					 ? door->callers[caller].client
					 : door_connect(door, caller)->client;
	assert_non_null(wire_client_call(client, &door_methods[DOOR_ALLOCATE], &request.base, 0,
					 &callbacks, NULL));
}

static bool patient_is_done(void *context)
{
	const struct patient *patient = context;
	return patient->ends > 0;
}

/* Two of one connection, one whose caller hangs up meanwhile, and one for which it is still too
 * early the next time. */
static void test_who_comes_before_the_book_waits(void **state)
{
	struct door *door = *state;
	struct book book = {.rc = -EAGAIN};
	struct patient patients[4] = {{.replies = 0}};
	door->book = (struct plugin_book){.take = book_take, .context = &book};
	door_open(door, "");
	patient_ask(door, 0, &patients[0]);
	patient_ask(door, 0, &patients[1]);
	patient_ask(door, 1, &patients[2]);
	door_idle(door);
	assert_int_equal(book.asked, 3);
	plugin_resume(door->plugin);
	assert_int_equal(book.asked, 6); /* each once */
	door_hang_up(&door->callers[1]);
	door_idle(door);

	book.rc = 0;
	plugin_resume(door->plugin);
	assert_int_equal(book.asked, 8);
	for (size_t i = 0; i < 2; i++) {
		fixture_run(door->fixture, patient_is_done, &patients[i]);
		assert_int_equal(patients[i].result.status, WIRE_OK);
		assert_int_equal(patients[i].replies, 1);
	}
	assert_int_equal(door_counts(door).refused, 0);

	/* Closed while somebody waits. */
	book.rc = -EAGAIN;
	patient_ask(door, 2, &patients[3]);
	door_idle(door);
	assert_int_equal(book.asked, 9);
	door->plugin = plugin_close(door->plugin);
	fixture_run(door->fixture, patient_is_done, &patients[3]);
	assert_int_equal(patients[3].replies, 0);
}

#define door_test(name) cmocka_unit_test_setup_teardown(name, door_set_up, door_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_endpoint_of_a_resource),
	    door_test(test_socket_is_for_root_and_goes_with_the_plugin),
	    door_test(test_the_socket_of_somebody_else_stays),
	    door_test(test_what_is_at_the_place_of_the_socket),
	    door_test(test_directory_longer_than_an_address),
	    door_test(test_list_in_order_with_health_and_nodes),
	    door_test(test_changes_go_out_together),
	    door_test(test_equal_lists_are_not_sent),
	    door_test(test_flush_before_the_end),
	    door_test(test_attached_while_a_stream_is_open),
	    door_test(test_streams_are_capped),
	    door_test(test_options),
	    door_test(test_pre_start),
	    door_test(test_allocate),
	    door_test(test_refused_in_the_words_that_people_know),
	    door_test(test_duplicates_and_unhealthy_are_answered),
	    door_test(test_preferred_allocation_never_fails),
	    door_test(test_what_somebody_else_holds_is_refused),
	    door_test(test_who_comes_before_the_book_waits),
	    door_test(test_hang_up_and_serve_on),
	    door_test(test_hang_up_has_a_deadline),
	    door_test(test_close_with_everything_open),
	    door_test(test_out_of_memory_for_a_list),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
