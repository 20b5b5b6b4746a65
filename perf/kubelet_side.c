/* SPDX-License-Identifier: Apache-2.0 */
#include "perf/kubelet_side.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/file.h"
#include "base/loop.h"
#include "perf/gate.h"
#include "wire/client.h"
#include "wire/listen.h"
#include "wire/server.h"

#define SIDE_PLUGIN "/v1beta1.DevicePlugin/"

enum { SIDE_ARGUMENTS_MAX = SIDE_DEVICES_MAX };

static const struct wire_method side_options_method = {
    .path = SIDE_PLUGIN "GetDevicePluginOptions",
    .request = &v1beta1__empty__descriptor,
    .reply = &v1beta1__device_plugin_options__descriptor,
};
static const struct wire_method side_watch_method = {
    .path = SIDE_PLUGIN "ListAndWatch",
    .request = &v1beta1__empty__descriptor,
    .reply = &v1beta1__list_and_watch_response__descriptor,
    .server_streams = true,
};
static const struct wire_method side_allocate_method = {
    .path = SIDE_PLUGIN "Allocate",
    .request = &v1beta1__allocate_request__descriptor,
    .reply = &v1beta1__allocate_response__descriptor,
};
static const struct wire_method side_prefer_method = {
    .path = SIDE_PLUGIN "GetPreferredAllocation",
    .request = &v1beta1__preferred_allocation_request__descriptor,
    .reply = &v1beta1__preferred_allocation_response__descriptor,
};

/* --- the plugin is called ----------------------------------------------------------------------
 */

static struct wire_client *side_connect(struct side_resource *resource)
{
	char path[FILE_PATH_MAX];
	struct err err = {.code = 0};
	struct wire_client *client = NULL;
	if (file_path(path, &err, "%s/%s", resource->side->directory, resource->endpoint) == 0)
		client = wire_client_new(resource->side->loop, path, NULL, &err);
	rig_must(client, "dialling '%s': %s", resource->endpoint, err.text);
	return client;
}

static void side_on_list(const ProtobufCMessage *message, void *context)
{
	struct side_resource *resource = context;
	const V1beta1__ListAndWatchResponse *list = (const V1beta1__ListAndWatchResponse *)message;

	if (resource->listed_ns == 0)
		resource->listed_ns = gate_now_ns();
	rig_must(list->n_devices <= SIDE_DEVICES_MAX, "'%s' has %zu devices", resource->name,
		 list->n_devices);
	resource->devices = list->n_devices;

	for (size_t i = 0; i < list->n_devices; i++)
		(void)snprintf(resource->ids[i], SIDE_ID_MAX, "%s", list->devices[i]->id);
}

static void side_on_list_end(const struct wire_result *result, void *context)
{
	struct side_resource *resource = context;
	(void)result;
	resource->devices = 0; /* the kubelet takes them all for lost */
}

static void side_watch(struct side_resource *resource)
{
	const struct wire_client_callbacks callbacks = {
	    .message = side_on_list, .end = side_on_list_end, .context = resource};
	V1beta1__Empty empty = V1BETA1__EMPTY__INIT;
	struct err err = {.code = 0};
	rig_must(wire_client_call(resource->client, &side_watch_method, &empty.base, 0, &callbacks,
				  &err),
		 "%s", err.text);
}

static void side_on_reply(const ProtobufCMessage *message, void *context)
{
	(void)message;
	(void)context;
}

/* The registration is answered, and then the list is asked for. */
static void side_on_options(const struct wire_result *result, void *context)
{
	struct side_resource *resource = context;
	V1beta1__Empty empty = V1BETA1__EMPTY__INIT;
	struct wire_call *call = resource->registration;

	resource->registration = NULL;
	if (!call)
		return; /* the plugin has given up */
	if (result->status != WIRE_OK || wire_call_reply(call, &empty.base, NULL) < 0) {
		wire_call_finish(call, WIRE_UNKNOWN, result->message);
		return;
	}

	side_watch(resource);
}

/* --- the plugin calls --------------------------------------------------------------------------
 */

static void side_on_gone(void *context)
{
	struct side_resource *resource = context;
	resource->registration = NULL;
}

static struct side_resource *side_find(struct side *side, const char *name)
{
	for (size_t i = 0; i < side->count; i++)
		if (strcmp(side->resources[i].name, name) == 0)
			return &side->resources[i];

	rig_must(side->count < SIDE_RESOURCES_MAX, "too many resources");
	struct side_resource *resource = &side->resources[side->count++];
	*resource = (struct side_resource){.side = side};
	(void)snprintf(resource->name, sizeof(resource->name), "%s", name);

	return resource;
}

static void side_on_register(struct wire_call *call, const ProtobufCMessage *message, void *context)
{
	uint64_t now = gate_now_ns();
	const V1beta1__RegisterRequest *request = (const V1beta1__RegisterRequest *)message;
	struct side_resource *resource = side_find(context, request->resource_name);

	(void)snprintf(resource->endpoint, sizeof(resource->endpoint), "%s", request->endpoint);
	resource->registered_ns = now;
	resource->listed_ns = 0;
	resource->devices = 0;
	(void)wire_client_free(resource->client);
	resource->client = side_connect(resource);
	resource->registration = call;
	wire_call_on_cancel(call, side_on_gone, resource);

	const struct wire_client_callbacks callbacks = {
	    .message = side_on_reply, .end = side_on_options, .context = resource};
	V1beta1__Empty empty = V1BETA1__EMPTY__INIT;
	struct err err = {.code = 0};

	rig_must(wire_client_call(resource->client, &side_options_method, &empty.base,
				  SIDE_DEADLINE_NS, &callbacks, &err),
		 "%s", err.text);
}

static const struct wire_method side_methods[] = {
    {.path = "/v1beta1.Registration/Register",
     .request = &v1beta1__register_request__descriptor,
     .reply = &v1beta1__empty__descriptor,
     .handle = side_on_register},
    {0},
};

/* --- its life ----------------------------------------------------------------------------------
 */

void side_forget(struct side *side)
{
	for (size_t i = 0; i < side->count; i++)
		(void)wire_client_free(side->resources[i].client);
	side->count = 0;
}

void side_die(struct side *side)
{
	side->server = wire_server_free(side->server);
	side_forget(side);
}

static void side_remove_sockets(const struct side *side)
{
	char path[FILE_PATH_MAX];
	struct stat info;
	_cleanup_closedir_ DIR *directory = opendir(side->directory);

	rig_must(directory, "cannot read %s", side->directory);

	for (const struct dirent *entry; (entry = readdir(directory));)
		if (file_path(path, NULL, "%s/%s", side->directory, entry->d_name) == 0 &&
		    lstat(path, &info) == 0 && S_ISSOCK(info.st_mode))
			(void)unlink(path);
}

uint64_t side_start(struct side *side)
{
	const struct wire_server_options options = {.methods = side_methods, .context = side};
	struct err err = {.code = 0};

	side_remove_sockets(side);
	side->server = wire_server_new(side->loop, &options, &err);
	rig_must(side->server, "%s", err.text);

	uint64_t began = gate_now_ns();
	int fd = wire_listen_unix(side->socket, 0600, &err);

	rig_must(fd >= 0 && wire_server_add_listener(side->server, fd, &err) == 0, "%s", err.text);
	return began;
}

void side_open(struct side *side, struct rig *rig)
{
	static const char *const parts[] = {"/var", "/lib", "/kubelet", "/device-plugins"};
	const char *root = getenv("SLUICE_ROOT");
	rig_must(root, "'sluice sim env' did not say where the machine's files lie");
	*side = (struct side){.loop = rig->loop};

	size_t length =
	    (size_t)snprintf(side->directory, sizeof(side->directory), "%.*s", RIG_PATH_MAX, root);
	for (size_t i = 0; i < array_length(parts); i++) {
		length += (size_t)snprintf(side->directory + length,
					   sizeof(side->directory) - length, "%s", parts[i]);
		rig_must(mkdir(side->directory, 0755) == 0 || errno == EEXIST, "cannot make %s",
			 side->directory);
	}

	(void)snprintf(side->socket, sizeof(side->socket), "%s/kubelet.sock", side->directory);
	(void)side_start(side);
}

void side_close(struct side *side)
{
	side_die(side);
	side_remove_sockets(side);
}

static bool side_has(const struct side *side, size_t resources, size_t devices)
{
	size_t found = 0;
	for (size_t i = 0; i < side->count; i++)
		found += side->resources[i].devices;
	return side->count == resources && found == devices;
}

void side_wait(struct side *side, size_t resources, size_t devices)
{
	uint64_t end = gate_now_ns() + SIDE_DEADLINE_NS;
	struct err err = {.code = 0};
	while (!side_has(side, resources, devices)) {
		rig_must(loop_pass(side->loop, SIDE_DEADLINE_NS, &err) == 0, "%s", err.text);
		rig_must(gate_now_ns() < end,
			 "%zu resources have registered, and not %zu with %zu devices", side->count,
			 resources, devices);
	}
}

void side_rest(struct side *side, uint64_t ns)
{
	struct err err = {.code = 0};
	for (uint64_t end = gate_now_ns() + ns, now; (now = gate_now_ns()) < end;)
		rig_must(loop_pass(side->loop, end - now, &err) == 0, "%s", err.text);
}

/* --- its questions -----------------------------------------------------------------------------
 */

struct side_resource *side_only(struct side *side)
{
	rig_must(side->count == 1, "%zu resources have registered, and not one", side->count);
	return &side->resources[0];
}

static ProtobufCMessage *side_ask(struct side_resource *resource, const struct wire_method *method,
				  const ProtobufCMessage *request)
{
	ProtobufCMessage *reply = NULL;
	struct err err = {.code = 0};
	rig_must(wire_client_ask(resource->client, resource->side->loop, method, request,
				 SIDE_DEADLINE_NS, &reply, NULL, &err) == 0,
		 "%s of %s: %s", method->path, resource->name, err.text);
	return reply;
}

V1beta1__AllocateResponse *side_allocate(struct side_resource *resource, const char *id)
{
	char *ids[] = {(char *)(uintptr_t)id};
	V1beta1__ContainerAllocateRequest container = V1BETA1__CONTAINER_ALLOCATE_REQUEST__INIT;
	V1beta1__ContainerAllocateRequest *containers[] = {&container};
	V1beta1__AllocateRequest request = V1BETA1__ALLOCATE_REQUEST__INIT;

	container.n_devices_ids = 1;
	container.devices_ids = ids;
	request.n_container_requests = 1;
	request.container_requests = containers;

	V1beta1__AllocateResponse *reply =
	    (V1beta1__AllocateResponse *)side_ask(resource, &side_allocate_method, &request.base);
	rig_must(reply->n_container_responses == 1, "an Allocate is answered with %zu containers",
		 reply->n_container_responses);
	return reply;
}

size_t side_prefer(struct side_resource *resource, const struct side_question *question)
{
	static char *available[SIDE_ARGUMENTS_MAX], *must[SIDE_ARGUMENTS_MAX];
	V1beta1__ContainerPreferredAllocationRequest container =
	    V1BETA1__CONTAINER_PREFERRED_ALLOCATION_REQUEST__INIT;
	V1beta1__ContainerPreferredAllocationRequest *containers[] = {&container};
	V1beta1__PreferredAllocationRequest request = V1BETA1__PREFERRED_ALLOCATION_REQUEST__INIT;

	for (size_t i = 0; i < question->available_count; i++)
		available[i] = (char *)(uintptr_t)question->available[i];

	for (size_t i = 0; i < question->must_count; i++)
		must[i] = (char *)(uintptr_t)question->must[i];

	container.n_available_deviceids = question->available_count;
	container.available_deviceids = available;
	container.n_must_include_deviceids = question->must_count;
	container.must_include_deviceids = must;
	container.allocation_size = question->size;
	request.n_container_requests = 1;
	request.container_requests = containers;

	V1beta1__PreferredAllocationResponse *reply =
	    (V1beta1__PreferredAllocationResponse *)side_ask(resource, &side_prefer_method,
							     &request.base);
	size_t chosen =
	    reply->n_container_responses == 1 ? reply->container_responses[0]->n_deviceids : 0;

	protobuf_c_message_free_unpacked(&reply->base, NULL);
	return chosen;
}

struct side_first {
	uint64_t came_ns;
	size_t devices;
};

static void side_on_first(const ProtobufCMessage *message, void *context)
{
	struct side_first *first = context;
	first->came_ns = gate_now_ns();
	first->devices = ((const V1beta1__ListAndWatchResponse *)message)->n_devices;
}

static void side_on_first_end(const struct wire_result *result, void *context)
{
	(void)context;
	rig_fail("a list of devices has ended: %s", result->message);
}

uint64_t side_list(struct side_resource *resource)
{
	struct side_first first = {.came_ns = 0};
	const struct wire_client_callbacks callbacks = {
	    .message = side_on_first, .end = side_on_first_end, .context = &first};
	V1beta1__Empty empty = V1BETA1__EMPTY__INIT;
	ProtobufCMessage *options = NULL;
	struct err err = {.code = 0};
	struct wire_client *client = side_connect(resource);

	/* As the kubelet: the connection is there when it asks for the list. */
	rig_must(wire_client_ask(client, resource->side->loop, &side_options_method, &empty.base,
				 SIDE_DEADLINE_NS, &options, NULL, &err) == 0,
		 "%s", err.text);
	protobuf_c_message_free_unpacked(options, NULL);

	uint64_t began = gate_now_ns();
	struct wire_client_call *call =
	    wire_client_call(client, &side_watch_method, &empty.base, 0, &callbacks, &err);

	rig_must(call, "%s", err.text);

	while (first.came_ns == 0)
		rig_must(loop_pass(resource->side->loop, SIDE_DEADLINE_NS, &err) == 0, "%s",
			 err.text);

	rig_must(first.devices == resource->devices, "a list has %zu devices", first.devices);
	(void)wire_client_free(client);
	return first.came_ns - began;
}
