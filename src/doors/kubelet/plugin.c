/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/kubelet/plugin.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/file.h"
#include "base/log.h"
#include "base/loop.h"
#include "deviceplugin.pb-c.h"
#include "doors/kubelet/allocate.h"
#include "doors/kubelet/pool.h"
#include "doors/kubelet/prefer.h"
#include "doors/kubelet/resource.h"
#include "wire/arena.h"
#include "wire/listen.h"
#include "wire/server.h"

#define PLUGIN_AGAIN_NS UINT64_C(1000000000) /* after there was no memory for a list */

enum {
	PLUGIN_MODE = 0600, /* the kubelet is root */
	PLUGIN_LIST_MAX =
	    16 << 20, /* bytes that a list of 16384 devices takes while it is packed */
};

/* A ListAndWatch that is open; in the arena of its call. */
struct plugin_stream {
	struct plugin *plugin;	/* borrowed */
	struct wire_call *call; /* borrowed */
	struct plugin_stream *next, **link;
	uint64_t version; /* of the list that it was sent; 0: none */
};

/* An Allocate that waits for the book; in the arena of its call. */
struct plugin_waiting {
	struct wire_call *call;		 /* borrowed */
	const ProtobufCMessage *request; /* borrowed: the call's */
	struct plugin_waiting *next, **link;
};

struct plugin {
	struct loop *loop;	    /* borrowed */
	struct log *log;	    /* borrowed */
	char *path;		    /* owned: of the socket */
	const char *name;	    /* the end of it */
	struct wire_server *server; /* owned */
	bool is_bound;
	dev_t device; /* of the socket's file */
	ino_t inode;
	struct allocator *allocator;	   /* borrowed; may be NULL */
	struct kubelet_resource *resource; /* owned */
	uint64_t version;		   /* of its list */
	/* While a change waits for the timer: the list before it, which streams of this version
	 * have. */
	struct kubelet_resource *shown; /* owned; NULL: nothing waits */
	uint64_t shown_version;
	struct loop_timer *timer; /* owned */
	struct plugin_stream *streams;
	struct plugin_book book;
	struct plugin_waiting *waiting;
	struct plugin_counts counts;
	void (*changed)(void *context);
	void *context;
	struct loop_task changed_task;
	void (*hung_up)(void *context);
	void *hung_up_context;
};

int plugin_endpoint(const char *resource, char out[PLUGIN_ENDPOINT_MAX], struct err *err)
{
	const char *slash = strchr(resource, '/');
	int label = (int)strcspn(resource, "./");
	if (!slash || label == 0 || slash[1] == '\0' || strchr(slash + 1, '/'))
		return err_set(err, -EINVAL,
			       "'%s' is no name of a resource, as 'nvidia.com/gpu' is one",
			       resource);

	char name[PLUGIN_ENDPOINT_MAX];
	int length = snprintf(name, sizeof(name), "%.*s-%s.sock", label, resource, slash + 1);
	if (length < 0 || (size_t)length >= sizeof(name))
		return err_set(err, -ENAMETOOLONG, "the name of resource '%s' is too long",
			       resource);

	memcpy(out, name, (size_t)length + 1);
	return 0;
}

/* --- the list of devices ---------------------------------------------------------------------- */

/* Where the devices of one GPU are. */
struct list_place {
	V1beta1__TopologyInfo topology;
	V1beta1__NUMANode node, *nodes[1];
};

static V1beta1__TopologyInfo *list_topology(struct list_place *place, int32_t numa)
{
	if (numa == GPU_NUMA_NONE)
		return NULL;

	v1beta1__topology_info__init(&place->topology);
	v1beta1__numanode__init(&place->node);
	place->node.id = numa;
	place->nodes[0] = &place->node;
	place->topology.n_nodes = 1;
	place->topology.nodes = place->nodes;

	return &place->topology;
}

static int list_make(const struct kubelet_resource *resource, struct arena *arena,
		     V1beta1__ListAndWatchResponse *out)
{
	static char healthy[] = "Healthy", unhealthy[] = "Unhealthy";
	size_t count = resource->device_count;

	if (resource->pool)
		return pool_list(resource, arena, out);

	V1beta1__Device *devices = arena_alloc(arena, count * sizeof(*devices));
	struct list_place *places = arena_alloc(arena, resource->hardware_count * sizeof(*places));

	v1beta1__list_and_watch_response__init(out);
	out->devices = arena_alloc(arena, count * sizeof(*out->devices));
	if (!devices || !places || !out->devices)
		return -ENOMEM;

	for (size_t i = 0; i < count; i++) {
		const struct kubelet_device *device = &resource->devices[i];
		const struct kubelet_hardware *hardware = device->hardware;

		v1beta1__device__init(&devices[i]);
		devices[i].id = (char *)device->id;
		devices[i].health = hardware->healthy ? healthy : unhealthy;
		devices[i].topology =
		    list_topology(&places[hardware - resource->hardware], hardware->numa);
		out->devices[i] = &devices[i];
	}

	out->n_devices = count;
	return 0;
}

/* --- streams ---------------------------------------------------------------------------------- */

static void plugin_on_changed(void *context)
{
	struct plugin *plugin = context;
	plugin->changed(plugin->context);
}

static void plugin_note_change(struct plugin *plugin)
{
	if (plugin->changed)
		loop_defer(plugin->loop, &plugin->changed_task, plugin_on_changed, plugin);
}

static void stream_remove(struct plugin_stream *stream)
{
	*stream->link = stream->next;
	if (stream->next)
		stream->next->link = stream->link;
	stream->plugin->counts.streams--;
	plugin_note_change(stream->plugin);
}

static void stream_send(struct plugin_stream *stream, const V1beta1__ListAndWatchResponse *list)
{
	struct plugin *plugin = stream->plugin;
	struct err err = {0};
	int rc = wire_call_reply(stream->call, &list->base, &err);
	if (rc == 0) {
		stream->version = plugin->version;
		plugin->counts.lists++;
	} else if (rc == -ENOMEM || rc == -ENOBUFS) {
		/* Without the stream the kubelet would take all devices for lost. */
		if (!loop_timer_is_running(plugin->timer))
			loop_timer_start(plugin->timer, PLUGIN_AGAIN_NS);
	} else if (rc != -EAGAIN) { /* who does not read is told the newest when he does */
		log_write(plugin->log, LOG_LEVEL_ERROR, NULL, "%s: the list of devices: %s",
			  plugin->resource->name, err.text);
		stream_remove(stream);
		wire_call_fail(stream->call, &err);
	}
}

/* To one stream, or to all (NULL) that do not have it. */
static void plugin_send_list(struct plugin *plugin, struct plugin_stream *only)
{
	_cleanup_arena_ struct arena arena;
	arena_init(&arena, PLUGIN_LIST_MAX);

	V1beta1__ListAndWatchResponse list;
	if (list_make(plugin->resource, &arena, &list) < 0) {
		if (!loop_timer_is_running(plugin->timer))
			loop_timer_start(plugin->timer, PLUGIN_AGAIN_NS);
		return;
	}

	for (struct plugin_stream *stream = only ? only : plugin->streams, *next; stream;
	     stream = next) {
		next = only ? NULL : stream->next;
		if (stream->version != plugin->version)
			stream_send(stream, &list);
	}
}

static void stream_on_writable(void *context)
{
	struct plugin_stream *stream = context;
	struct plugin *plugin = stream->plugin;
	/* What waits for its time goes to him with the others. */
	if (stream->version != plugin->version && !plugin->shown)
		plugin_send_list(plugin, stream);
}

static void stream_on_cancel(void *context)
{
	stream_remove(context);
}

static void plugin_on_watch(struct wire_call *call, const ProtobufCMessage *request, void *context)
{
	struct plugin *plugin = context;

	(void)request;
	struct plugin_stream *stream = plugin->counts.streams < PLUGIN_STREAMS_MAX
					   ? arena_alloc(wire_call_arena(call), sizeof(*stream))
					   : NULL;
	if (!stream) {
		wire_call_finish(call, WIRE_RESOURCE_EXHAUSTED,
				 "no more lists of devices can be watched at a time");
		return;
	}

	*stream = (struct plugin_stream){
	    .plugin = plugin, .call = call, .next = plugin->streams, .link = &plugin->streams};
	if (stream->next)
		stream->next->link = &stream->next;
	plugin->streams = stream;
	plugin->counts.streams++;
	plugin_note_change(plugin);
	wire_call_on_cancel(call, stream_on_cancel, stream);
	wire_call_on_writable(call, stream_on_writable, stream);
	plugin_send_list(plugin, stream);
}

void plugin_flush(struct plugin *plugin)
{
	bool wanted = false;

	loop_timer_stop(plugin->timer);
	bool same = plugin->shown && resource_list_is_same(plugin->shown, plugin->resource);
	for (struct plugin_stream *stream = plugin->streams; stream; stream = stream->next) {
		/* There and back again meanwhile. */
		if (same && stream->version == plugin->shown_version)
			stream->version = plugin->version;
		wanted |= stream->version != plugin->version;
	}

	plugin->shown = resource_free(plugin->shown);
	if (wanted)
		plugin_send_list(plugin, NULL);
}

static void plugin_on_timer(void *context)
{
	plugin_flush(context);
}

/* --- calls ------------------------------------------------------------------------------------ */

static void plugin_answer(struct wire_call *call, const ProtobufCMessage *reply)
{
	struct err err = {0};
	if (wire_call_reply(call, reply, &err) < 0)
		wire_call_fail(call, &err);
}

static void plugin_on_options(struct wire_call *call, const ProtobufCMessage *request,
			      void *context)
{
	const struct plugin *plugin = context;
	V1beta1__DevicePluginOptions options = V1BETA1__DEVICE_PLUGIN_OPTIONS__INIT;
	(void)request;
	options.get_preferred_allocation_available = !plugin->resource->pool;
	plugin_answer(call, &options.base);
}

/* The units of all containers, as far as they are to be had. */
static int plugin_take(const struct plugin *plugin, const V1beta1__AllocateRequest *request,
		       struct err *err)
{
	int rc = 0;

	for (size_t i = 0; plugin->book.take && rc == 0 && i < request->n_container_requests; i++) {
		const V1beta1__ContainerAllocateRequest *of = request->container_requests[i];
		rc = plugin->book.take(plugin->resource->name, of->devices_ids, of->n_devices_ids,
				       plugin->book.context, err);
	}

	return rc;
}

static void waiting_remove(void *context)
{
	struct plugin_waiting *waiting = context;
	*waiting->link = waiting->next;
	if (waiting->next)
		waiting->next->link = waiting->link;
}

/* False: no memory. */
static bool plugin_wait(struct plugin *plugin, struct wire_call *call,
			const ProtobufCMessage *request)
{
	struct plugin_waiting *waiting = arena_alloc(wire_call_arena(call), sizeof(*waiting));
	if (!waiting)
		return false;

	*waiting = (struct plugin_waiting){
	    .call = call, .request = request, .next = plugin->waiting, .link = &plugin->waiting};
	if (waiting->next)
		waiting->next->link = &waiting->next;
	plugin->waiting = waiting;
	wire_call_on_cancel(call, waiting_remove, waiting);

	return true;
}

static void plugin_on_allocate(struct wire_call *call, const ProtobufCMessage *message,
			       void *context)
{
	struct plugin *plugin = context;
	V1beta1__AllocateResponse response;
	struct err err = {0};
	const V1beta1__AllocateRequest *request = (const V1beta1__AllocateRequest *)message;
	bool is_pool = plugin->resource->pool != NULL;
	int rc =
	    is_pool ? pool_answer(plugin->resource, request, wire_call_arena(call), &response, &err)
		    : allocate_answer(plugin->resource, request, NULL, wire_call_arena(call),
				      &response, &err);
	if (rc == 0 && !is_pool)
		rc = plugin_take(plugin, request, &err);
	if (rc == -EAGAIN && plugin_wait(plugin, call, message))
		return;

	if (rc == 0)
		rc = wire_call_reply(call, &response.base, &err);

	if (rc == 0) {
		plugin->counts.allocations++;
		return;
	}

	plugin->counts.refused++;
	log_write(plugin->log, LOG_LEVEL_WARNING, NULL, "%s", err.text);
	wire_call_finish(call, is_pool ? pool_status(rc) : allocate_status(rc), err.text);
}

void plugin_resume(struct plugin *plugin)
{
	/* Apart: a call may end with another one's connection, and may have to wait again. */
	struct plugin_waiting *list = plugin->waiting;

	plugin->waiting = NULL;
	if (list)
		list->link = &list;

	while (list) {
		struct wire_call *call = list->call;
		const ProtobufCMessage *request = list->request;

		waiting_remove(list);
		wire_call_on_cancel(call, NULL, NULL);
		plugin_on_allocate(call, request, plugin);
	}
}

/* An error here costs the pod its life; an empty answer leaves the choice to the kubelet. */
static void plugin_on_prefer(struct wire_call *call, const ProtobufCMessage *message, void *context)
{
	struct plugin *plugin = context;
	V1beta1__PreferredAllocationResponse response,
	    empty = V1BETA1__PREFERRED_ALLOCATION_RESPONSE__INIT;
	struct err err = {0};
	size_t dropped = 0;

	if (plugin->resource->pool) {
		plugin_answer(call, &empty.base); /* all of them are as good */
		return;
	}

	int rc = prefer_answer(plugin->resource, plugin->allocator,
			       (const V1beta1__PreferredAllocationRequest *)message,
			       wire_call_arena(call), &response, &dropped, &err);

	plugin->counts.preferred++;
	if (rc == 0)
		rc = wire_call_reply(call, &response.base, &err);
	if (rc < 0) {
		log_write(plugin->log, LOG_LEVEL_WARNING, NULL, "%s", err.text);
		plugin_answer(call, &empty.base);
	}

	if (dropped > 0)
		log_write(plugin->log, LOG_LEVEL_NOTICE, NULL,
			  "%s: the kubelet offered %zu devices that are not there",
			  plugin->resource->name, dropped);
}

static void plugin_on_pre_start(struct wire_call *call, const ProtobufCMessage *request,
				void *context)
{
	V1beta1__PreStartContainerResponse response = V1BETA1__PRE_START_CONTAINER_RESPONSE__INIT;
	(void)request;
	(void)context;
	plugin_answer(call, &response.base);
}

#define PLUGIN_SERVICE "/v1beta1.DevicePlugin/"
static const struct wire_method plugin_methods[] = {
    {.path = PLUGIN_SERVICE "Allocate",
     .request = &v1beta1__allocate_request__descriptor,
     .reply = &v1beta1__allocate_response__descriptor,
     .request_max = PLUGIN_REQUEST_MAX,
     .handle = plugin_on_allocate},
    {.path = PLUGIN_SERVICE "GetPreferredAllocation",
     .request = &v1beta1__preferred_allocation_request__descriptor,
     .reply = &v1beta1__preferred_allocation_response__descriptor,
     .request_max = PLUGIN_REQUEST_MAX,
     .handle = plugin_on_prefer},
    {.path = PLUGIN_SERVICE "PreStartContainer",
     .request = &v1beta1__pre_start_container_request__descriptor,
     .reply = &v1beta1__pre_start_container_response__descriptor,
     .request_max = PLUGIN_REQUEST_MAX,
     .handle = plugin_on_pre_start},
    {.path = PLUGIN_SERVICE "GetDevicePluginOptions",
     .request = &v1beta1__empty__descriptor,
     .reply = &v1beta1__device_plugin_options__descriptor,
     .request_max = PLUGIN_EMPTY_MAX,
     .handle = plugin_on_options},
    {.path = PLUGIN_SERVICE "ListAndWatch",
     .request = &v1beta1__empty__descriptor,
     .reply = &v1beta1__list_and_watch_response__descriptor,
     .request_max = PLUGIN_EMPTY_MAX,
     .output_max = 1, /* lists do not queue up */
     .server_streams = true,
     .handle = plugin_on_watch},
    {0},
};

/* --- the socket ------------------------------------------------------------------------------- */

/* Whether the file at the socket's path is the one that we bound. While the socket is open its
 * inode number is not given to another. */
bool plugin_has_socket(const struct plugin *plugin)
{
	struct stat status;
	return plugin->is_bound && lstat(plugin->path, &status) == 0 && S_ISSOCK(status.st_mode) &&
	       status.st_dev == plugin->device && status.st_ino == plugin->inode;
}

/* Another plugin that answers there loses its place: the kubelet takes the newest. */
static int plugin_listen(struct plugin *plugin, bool *out_taken_over, struct err *err)
{
	struct stat status;
	bool taken_over = false;
	int fd = wire_listen_unix(plugin->path, PLUGIN_MODE, err);
	if (fd == -EADDRINUSE) {
		if (unlink(plugin->path) < 0 && errno != ENOENT) {
			int code = -errno;
			return err_set(err, code, "cannot remove the socket '%s': %s", plugin->path,
				       err_describe(code));
		}

		taken_over = true;
		fd = wire_listen_unix(plugin->path, PLUGIN_MODE, err);
	}

	if (fd < 0)
		return fd;

	if (lstat(plugin->path, &status) < 0) {
		int code = -errno;
		(void)close(fd);
		return err_set(err, code, "the socket '%s' is gone already: %s", plugin->path,
			       err_describe(code));
	}

	plugin->device = status.st_dev;
	plugin->inode = status.st_ino;
	plugin->is_bound = true;
	*out_taken_over = taken_over;

	return wire_server_add_listener(plugin->server, fd, err);
}

static int plugin_start(struct plugin *plugin, const struct plugin_options *options,
			bool *out_taken_over, struct err *err)
{
	const struct wire_server_options server = {.methods = plugin_methods, .context = plugin};
	char name[PLUGIN_ENDPOINT_MAX], path[FILE_PATH_MAX];
	int rc = options->endpoint ? 0 : plugin_endpoint(options->resource, name, err);
	if (rc == 0)
		rc = file_path(path, err, "%s/%s", options->directory,
			       options->endpoint ? options->endpoint : name);

	if (rc < 0)
		return rc;

	plugin->path = strdup(path);
	if (!plugin->path)
		return err_set(err, -ENOMEM, "%s: out of memory", options->resource);

	plugin->name = strrchr(plugin->path, '/') + 1;
	plugin->timer = loop_timer_new(options->loop, plugin_on_timer, plugin, err);
	if (!plugin->timer)
		return -ENOMEM;

	plugin->server = wire_server_new(options->loop, &server, err);
	if (!plugin->server)
		return -ENOMEM;

	rc = plugin_listen(plugin, out_taken_over, err);
	return rc < 0 ? err_wrap(err, "%s", options->resource) : 0;
}

int plugin_open(const struct plugin_options *options, struct kubelet_resource *resource,
		struct allocator *allocator, struct plugin **out, bool *out_taken_over,
		struct err *err)
{
	struct plugin *plugin = calloc(1, sizeof(*plugin));
	bool taken_over = false;

	if (!plugin)
		return err_set(err, -ENOMEM, "%s: out of memory", options->resource);

	plugin->loop = options->loop;
	plugin->log = options->log;
	plugin->book = options->book;
	plugin->changed = options->changed;
	plugin->context = options->context;
	plugin->allocator = allocator;
	plugin->version = 1;

	int rc = plugin_start(plugin, options, &taken_over, err);
	if (rc < 0) {
		(void)plugin_close(plugin);
		return rc;
	}

	plugin->resource = resource;
	*out = plugin;
	*out_taken_over = taken_over;

	return 0;
}

struct plugin *plugin_close(struct plugin *plugin)
{
	if (!plugin)
		return NULL;
	if (plugin_has_socket(plugin))
		(void)unlink(plugin->path);
	plugin->changed = NULL; /* nobody is told any more */
	plugin->server = wire_server_free(plugin->server);
	loop_cancel(plugin->loop, &plugin->changed_task);
	plugin->timer = loop_timer_free(plugin->timer);
	plugin->shown = resource_free(plugin->shown);
	plugin->resource = resource_free(plugin->resource);
	free(plugin->path);
	free(plugin);

	return NULL;
}

/* --- what its owner asks ---------------------------------------------------------------------- */

void plugin_update(struct plugin *plugin, struct kubelet_resource *resource,
		   struct allocator *allocator)
{
	struct kubelet_resource *before = plugin->resource;

	plugin->resource = resource;
	plugin->allocator = allocator;

	if (!resource_list_is_same(before, resource)) {
		if (!plugin->shown) {
			plugin->shown = before;
			plugin->shown_version = plugin->version;
			before = NULL;
			loop_timer_start(plugin->timer, PLUGIN_COALESCE_NS);
		}

		plugin->version++;
	}

	(void)resource_free(before);
}

void plugin_set_allocator(struct plugin *plugin, struct allocator *allocator)
{
	plugin->allocator = allocator;
}

static void plugin_on_hung_up(void *context)
{
	struct plugin *plugin = context;
	if (plugin->hung_up)
		plugin->hung_up(plugin->hung_up_context);
}

void plugin_hang_up(struct plugin *plugin, void (*done)(void *context), void *context)
{
	plugin->hung_up = done;
	plugin->hung_up_context = context;
	while (plugin->streams) {
		struct plugin_stream *stream = plugin->streams;
		stream_remove(stream);
		wire_call_finish(stream->call, WIRE_OK, NULL);
	}

	wire_server_hang_up(plugin->server, PLUGIN_CLOSE_NS, plugin_on_hung_up, plugin);
}

bool plugin_is_attached(const struct plugin *plugin)
{
	return plugin->streams != NULL;
}

const struct kubelet_resource *plugin_resource(const struct plugin *plugin)
{
	return plugin->resource;
}

void plugin_count(const struct plugin *plugin, struct plugin_counts *out)
{
	struct wire_server_counts server;
	wire_server_count(plugin->server, &server);
	*out = plugin->counts;
	out->protocol_errors = server.protocol_errors;
	out->connections = server.open_connections;
	out->output_bytes = server.output_bytes;
}
