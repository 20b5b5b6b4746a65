/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/doors/kubelet/door.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "doors/kubelet/resource.h"

enum { DOOR_GPUS = 4, DOOR_IDS = 64 };

const struct wire_method door_methods[] = {
    [DOOR_OPTIONS] = {.path = "/v1beta1.DevicePlugin/GetDevicePluginOptions",
		      .request = &v1beta1__empty__descriptor,
		      .reply = &v1beta1__device_plugin_options__descriptor},
    [DOOR_WATCH] = {.path = "/v1beta1.DevicePlugin/ListAndWatch",
		    .request = &v1beta1__empty__descriptor,
		    .reply = &v1beta1__list_and_watch_response__descriptor,
		    .server_streams = true},
    [DOOR_PREFER] = {.path = "/v1beta1.DevicePlugin/GetPreferredAllocation",
		     .request = &v1beta1__preferred_allocation_request__descriptor,
		     .reply = &v1beta1__preferred_allocation_response__descriptor},
    [DOOR_ALLOCATE] = {.path = "/v1beta1.DevicePlugin/Allocate",
		       .request = &v1beta1__allocate_request__descriptor,
		       .reply = &v1beta1__allocate_response__descriptor},
    [DOOR_PRE_START] = {.path = "/v1beta1.DevicePlugin/PreStartContainer",
			.request = &v1beta1__pre_start_container_request__descriptor,
			.reply = &v1beta1__pre_start_container_response__descriptor},
};

int door_set_up(void **state)
{
	static struct door door;
	void *fixture = NULL;
	door = (struct door){0};
	*state = &door;
	assert_int_equal(fixture_set_up(&fixture), 0);
	door.fixture = fixture;
	(void)snprintf(door.fixture->path, sizeof(door.fixture->path), "%s/nvidia-gpu.sock",
		       door.fixture->directory);
	door.rig = rig_new(DOOR_GPUS);
	return 0;
}

int door_set_up_large(void **state)
{
	int rc = door_set_up(state);
	struct door *door = *state;
	door->rig = rig_free(door->rig);
	door->rig = rig_new(RIG_GPUS);
	return rc;
}

int door_tear_down(void **state)
{
	struct door *door = *state;
	void *fixture = door->fixture;
	for (unsigned i = 0; i < DOOR_CALLERS; i++)
		door_hang_up(&door->callers[i]);
	door->plugin = plugin_close(door->plugin);
	door->rig = rig_free(door->rig);
	return fixture ? fixture_tear_down(&fixture) : 0;
}

static void on_changed(void *context)
{
	struct door *door = context;
	door->changes++;
}

struct plugin_options door_options(struct door *door)
{
	return (struct plugin_options){.loop = door->fixture->loop,
				       .directory = door->fixture->directory,
				       .resource = "nvidia.com/gpu",
				       .book = door->book,
				       .changed = on_changed,
				       .context = door};
}

void door_open(struct door *door, const char *config)
{
	const struct plugin_options options = door_options(door);
	struct kubelet_resource *resource = rig_resource(door->rig, config, options.resource);
	struct err err = {0};
	bool taken_over = true;
	int rc = plugin_open(&options, resource, NULL, &door->plugin, &taken_over, &err);
	if (rc < 0)
		resource = resource_free(resource);
	if (rc < 0)
		fail_msg("%s", err.text);
	assert_false(taken_over);
}

void door_update(struct door *door, const char *config)
{
	plugin_update(door->plugin, rig_resource(door->rig, config, "nvidia.com/gpu"), NULL);
}

struct plugin_counts door_counts(const struct door *door)
{
	struct plugin_counts counts;
	plugin_count(door->plugin, &counts);
	return counts;
}

/* --- streams --- */

static void on_list(const ProtobufCMessage *message, void *context)
{
	struct caller *caller = context;
	const V1beta1__ListAndWatchResponse *list = (const void *)message;
	struct buf text;
	buf_init(&text, 4 << 20);
	for (size_t i = 0; i < list->n_devices; i++) {
		const V1beta1__Device *device = list->devices[i];
		char node[24] = "-";
		if (device->topology && device->topology->n_nodes == 1)
			(void)snprintf(node, sizeof(node), "%lld",
				       (long long)device->topology->nodes[0]->id);
		(void)buf_printf(&text, "%s %s %s\n", device->id, device->health, node);
	}
	free(caller->list);
	caller->list = buf_take(&text);
	caller->lists++;
}

static void on_end(const struct wire_result *result, void *context)
{
	struct caller *caller = context;
	caller->ended = true;
	caller->watch = NULL;
	caller->result = *result;
}

static void on_closed(const struct err *why, void *context)
{
	struct caller *caller = context;
	(void)why;
	caller->closed = true;
}

struct caller *door_connect(struct door *door, unsigned number)
{
	struct caller *caller = &door->callers[number];
	const struct wire_client_options options = {.closed = on_closed, .context = caller};
	struct err err = {0};
	door_hang_up(caller);
	*caller = (struct caller){.door = door};
	caller->client = wire_client_new(door->fixture->loop, door->fixture->path, &options, &err);
	if (!caller->client)
		fail_msg("%s", err.text);
	return caller;
}

struct caller *door_watch(struct door *door, unsigned number)
{
	struct caller *caller = door_connect(door, number);
	const struct wire_client_callbacks callbacks = {on_list, on_end, caller};
	V1beta1__Empty request = V1BETA1__EMPTY__INIT;
	caller->watch = wire_client_call(caller->client, &door_methods[DOOR_WATCH], &request.base,
					 0, &callbacks, NULL);
	assert_non_null(caller->watch);
	return caller;
}

void door_hang_up(struct caller *caller)
{
	caller->client = wire_client_free(caller->client);
	caller->watch = NULL;
	free(caller->list);
	caller->list = NULL;
}

struct wanted {
	const struct caller *caller;
	size_t lists;
};

static bool has_lists(void *context)
{
	const struct wanted *wanted = context;
	return wanted->caller->lists >= wanted->lists || wanted->caller->ended;
}

void door_expect_lists(struct caller *caller, size_t lists)
{
	struct wanted wanted = {caller, lists};
	fixture_run(caller->door->fixture, has_lists, &wanted);
	assert_int_equal(caller->lists, lists);
	assert_non_null(caller->list);
}

static bool is_at_end(void *context)
{
	const struct caller *caller = context;
	return caller->ended && caller->closed;
}

void door_expect_end(struct caller *caller)
{
	fixture_run(caller->door->fixture, is_at_end, caller);
}

void door_idle(struct door *door)
{
	for (int i = 0; i < 20; i++)
		assert_int_equal(loop_pass(door->fixture->loop, 0, NULL), 0);
}

/* --- calls --- */

ProtobufCMessage *door_ask(struct door *door, enum door_method method,
			   const ProtobufCMessage *request, struct wire_result *out_result)
{
	struct caller *caller = door_connect(door, DOOR_CALLERS - 1);
	ProtobufCMessage *reply = NULL;
	struct err err = {0};
	*out_result = (struct wire_result){.status = WIRE_UNKNOWN};
	int rc = wire_client_ask(caller->client, door->fixture->loop, &door_methods[method],
				 request, 0, &reply, out_result, &err);
	door_hang_up(caller);
	if (rc < 0 && rc != -EREMOTEIO)
		fail_msg("%s", err.text);
	return reply;
}

const char *door_allocate(struct door *door, const char *const *ids, enum wire_status *out_status)
{
	static struct wire_result result;
	V1beta1__ContainerAllocateRequest container = V1BETA1__CONTAINER_ALLOCATE_REQUEST__INIT;
	V1beta1__ContainerAllocateRequest *containers[] = {&container};
	V1beta1__AllocateRequest request = V1BETA1__ALLOCATE_REQUEST__INIT;
	char *names[DOOR_IDS];
	request.n_container_requests = 1;
	request.container_requests = containers;
	container.devices_ids = names;
	for (; ids[container.n_devices_ids]; container.n_devices_ids++)
		names[container.n_devices_ids] = (char *)ids[container.n_devices_ids];
	ProtobufCMessage *reply = door_ask(door, DOOR_ALLOCATE, &request.base, &result);
	if (reply)
		protobuf_c_message_free_unpacked(reply, NULL);
	*out_status = result.status;
	return result.message;
}
