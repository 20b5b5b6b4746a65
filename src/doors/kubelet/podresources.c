/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/kubelet/podresources.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/file.h"
#include "base/loop.h"
#include "policy/config.h"
#include "podresources.pb-c.h"
#include "wire/client.h"

static const struct wire_method podresources_list = {
    .path = "/v1.PodResourcesLister/List",
    .request = &v1__list_pod_resources_request__descriptor,
    .reply = &v1__list_pod_resources_response__descriptor,
};

static const struct wire_method podresources_get_allocatable = {
    .path = "/v1.PodResourcesLister/GetAllocatableResources",
    .request = &v1__allocatable_resources_request__descriptor,
    .reply = &v1__allocatable_resources_response__descriptor,
};

/* One answer of the kubelet. */
struct podresources_table {
	struct podresources_holder *items; /* owned; they point into `text` */
	char *text;			   /* owned */
	size_t count, length;		   /* of items; bytes of text */
};

struct podresources {
	struct podresources_options options;
	char socket[FILE_PATH_MAX];
	struct wire_client *client; /* owned; NULL: nothing is asked now */
	struct loop_timer *next;    /* owned */
	struct loop_task gone;	    /* frees the client of a call that has ended */
	struct podresources_table table;
	bool is_known;
	char problem[PODRESOURCES_PROBLEM_MAX];
	/* What pods may have. */
	int pools_code; /* 0: they are known */
	uint32_t pool_count;
	struct podresources_pool {
		char name[CONFIG_NAME_MAX];
		uint32_t devices;
	} pools[PODRESOURCES_POOLS_MAX];
};

/* --- what the kubelet says ------------------------------------------------------------------- */

static void podresources_table_free(struct podresources_table *table)
{
	free(table->items);
	free(table->text);
	*table = (struct podresources_table){0};
}

/* Called with each device, by podresources_each(). */
typedef void (*podresources_fn)(const V1__PodResources *pod,
				const V1__ContainerResources *container,
				const V1__ContainerDevices *devices, const char *unit,
				void *context);

static void podresources_each(const V1__ListPodResourcesResponse *reply, podresources_fn each,
			      void *context)
{
	for (size_t p = 0; p < reply->n_pod_resources; p++) {
		const V1__PodResources *pod = reply->pod_resources[p];

		for (size_t c = 0; c < pod->n_containers; c++) {
			const V1__ContainerResources *container = pod->containers[c];
			for (size_t d = 0; d < container->n_devices; d++) {
				const V1__ContainerDevices *devices = container->devices[d];
				for (size_t i = 0; i < devices->n_device_ids; i++)
					each(pod, container, devices, devices->device_ids[i],
					     context);
			}
		}
	}
}

struct podresources_size {
	size_t count, length;
	const char *strange; /* a name that Kubernetes would not allow; NULL: none. Borrowed */
};

static void podresources_measure(const V1__PodResources *pod,
				 const V1__ContainerResources *container,
				 const V1__ContainerDevices *devices, const char *unit,
				 void *context)
{
	struct podresources_size *size = context;

	const char *const texts[] = {unit, devices->resource_name, pod->namespace_, pod->name,
				     container->name};
	size->count++;

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		size_t length = strlen(texts[i]);
		if (length == 0 || length > PODRESOURCES_NAME_MAX)
			size->strange = texts[i];
		size->length += length + 1;
	}
}

static const char *podresources_keep(struct podresources_table *table, const char *text)
{
	char *at = table->text + table->length;
	size_t size = strlen(text) + 1;
	memcpy(at, text, size);
	table->length += size;
	return at;
}

static void podresources_fill(const V1__PodResources *pod, const V1__ContainerResources *container,
			      const V1__ContainerDevices *devices, const char *unit, void *context)
{
	struct podresources_table *table = context;
	table->items[table->count++] = (struct podresources_holder){
	    .unit = podresources_keep(table, unit),
	    .resource = podresources_keep(table, devices->resource_name),
	    .name_space = podresources_keep(table, pod->namespace_),
	    .pod = podresources_keep(table, pod->name),
	    .container = podresources_keep(table, container->name),
	};
}

static int podresources_compare(const void *left, const void *right)
{
	const struct podresources_holder *a = left, *b = right;
	int order = strcmp(a->unit, b->unit);
	if (order == 0)
		order = strcmp(a->resource, b->resource);
	if (order == 0)
		order = strcmp(a->name_space, b->name_space);

	if (order == 0)
		order = strcmp(a->pod, b->pod);

	return order == 0 ? strcmp(a->container, b->container) : order;
}

static int podresources_table_make(const V1__ListPodResourcesResponse *reply,
				   struct podresources_table *out, struct err *err)
{
	struct podresources_size size = {0};

	*out = (struct podresources_table){0};
	podresources_each(reply, podresources_measure, &size);

	if (size.strange)
		return err_set(err, -EBADMSG,
			       "the kubelet names something '%.64s' in its pod resources",
			       size.strange);

	if (size.count > PODRESOURCES_HOLDERS_MAX)
		return err_set(err, -E2BIG, "the kubelet lists %zu devices, more than %d",
			       size.count, PODRESOURCES_HOLDERS_MAX);
	if (size.count == 0)
		return 0;

	out->items = calloc(size.count, sizeof(*out->items));
	out->text = malloc(size.length);
	if (!out->items || !out->text) {
		podresources_table_free(out);
		return err_set(err, -ENOMEM, "out of memory for who holds which device");
	}

	podresources_each(reply, podresources_fill, out);
	qsort(out->items, out->count, sizeof(*out->items), podresources_compare);
	return 0;
}

static bool podresources_table_is_same(const struct podresources_table *a,
				       const struct podresources_table *b)
{
	if (a->count != b->count)
		return false;
	for (size_t i = 0; i < a->count; i++) {
		if (podresources_compare(&a->items[i], &b->items[i]) != 0)
			return false;
	}
	return true;
}

/* What is longer than a name of ours is none of ours. */
static void podresources_on_allocatable(const ProtobufCMessage *message, void *context)
{
	struct podresources *podresources = context;
	const V1__AllocatableResourcesResponse *reply =
	    (const V1__AllocatableResourcesResponse *)message;

	podresources->pools_code = 0;
	podresources->pool_count = 0;
	for (size_t i = 0; i < reply->n_devices; i++) {
		const V1__ContainerDevices *devices = reply->devices[i];
		uint32_t at = 0;
		while (at < podresources->pool_count &&
		       strcmp(podresources->pools[at].name, devices->resource_name) != 0)
			at++;

		if (at == PODRESOURCES_POOLS_MAX ||
		    strlen(devices->resource_name) >= CONFIG_NAME_MAX)
			continue;

		struct podresources_pool *pool = &podresources->pools[at];

		if (at == podresources->pool_count) {
			*pool = (struct podresources_pool){.devices = 0};
			memcpy(pool->name, devices->resource_name,
			       strlen(devices->resource_name) + 1);
			podresources->pool_count++;
		}

		pool->devices += (uint32_t)devices->n_device_ids;
	}
}

/* --- asking ---------------------------------------------------------------------------------- */

static void podresources_tell(struct podresources *podresources)
{
	if (podresources->options.changed)
		podresources->options.changed(podresources->options.context);
}

static void podresources_on_reply(const ProtobufCMessage *message, void *context)
{
	struct podresources *podresources = context;
	struct podresources_table table;
	struct err err = {0};
	int rc =
	    podresources_table_make((const V1__ListPodResourcesResponse *)message, &table, &err);
	bool is_new = strcmp(podresources->problem, err.text) != 0;

	(void)snprintf(podresources->problem, sizeof(podresources->problem), "%s", err.text);
	if (rc == 0) {
		is_new |= !podresources->is_known;
		podresources->is_known = true;
		is_new |= !podresources_table_is_same(&podresources->table, &table);
		podresources_table_free(&podresources->table);
		podresources->table = table;
	}

	if (is_new)
		podresources_tell(podresources);
}

static void podresources_fail(struct podresources *podresources, const char *why)
{
	char text[PODRESOURCES_PROBLEM_MAX];
	(void)snprintf(text, sizeof(text), "'%.255s': %.*s", podresources->socket,
		       PODRESOURCES_PROBLEM_MAX / 2 - 8, why);
	if (strcmp(text, podresources->problem) == 0)
		return;
	memcpy(podresources->problem, text, sizeof(text));
	podresources_tell(podresources);
}

/* The kubelet's end of the connection may outlive its answer: a new one each time cannot go stale.
 */
static void podresources_drop(void *context)
{
	struct podresources *podresources = context;
	podresources->client = wire_client_free(podresources->client);
}

static void podresources_end(struct podresources *podresources)
{
	loop_defer(podresources->options.loop, &podresources->gone, podresources_drop,
		   podresources);
	loop_timer_start(podresources->next, podresources->options.period_ns);
}

static void podresources_on_allocatable_end(const struct wire_result *result, void *context)
{
	struct podresources *podresources = context;
	if (result->status == WIRE_UNIMPLEMENTED)
		podresources->pools_code = -ENOSYS;
	podresources_end(podresources);
}

static int podresources_ask_allocatable(struct podresources *podresources)
{
	const struct wire_client_callbacks callbacks = {.message = podresources_on_allocatable,
							.end = podresources_on_allocatable_end,
							.context = podresources};
	V1__AllocatableResourcesRequest request = V1__ALLOCATABLE_RESOURCES_REQUEST__INIT;

	return wire_client_call(podresources->client, &podresources_get_allocatable, &request.base,
				PODRESOURCES_DEADLINE_NS, &callbacks, NULL)
		   ? 0
		   : -EIO;
}

static void podresources_on_end(const struct wire_result *result, void *context)
{
	struct podresources *podresources = context;
	if (result->status != WIRE_OK || podresources_ask_allocatable(podresources) < 0)
		podresources_end(podresources);
	if (result->status != WIRE_OK)
		podresources_fail(podresources, result->message[0]
						    ? result->message
						    : wire_status_to_string(result->status));
}

static int podresources_ask(struct podresources *podresources, struct err *err)
{
	static const struct wire_client_options how = {.reply_max = PODRESOURCES_REPLY_MAX};
	const struct wire_client_callbacks callbacks = {
	    .message = podresources_on_reply, .end = podresources_on_end, .context = podresources};
	V1__ListPodResourcesRequest request = V1__LIST_POD_RESOURCES_REQUEST__INIT;

	podresources->client =
	    wire_client_new(podresources->options.loop, podresources->socket, &how, err);
	if (!podresources->client)
		return err->code;
	if (wire_client_call(podresources->client, &podresources_list, &request.base,
			     PODRESOURCES_DEADLINE_NS, &callbacks, err))
		return 0;

	podresources->client = wire_client_free(podresources->client);
	return err->code;
}

static void podresources_on_next(void *context)
{
	struct podresources *podresources = context;
	struct err err = {0};
	if (podresources_ask(podresources, &err) == 0)
		return; /* goes on when it has ended */
	loop_timer_start(podresources->next, podresources->options.period_ns);
	podresources_fail(podresources, err.code == -ENOENT ? "no kubelet has made it" : err.text);
}

/* --- its life -------------------------------------------------------------------------------- */

int podresources_open(const struct podresources_options *options, struct podresources **out,
		      struct err *err)
{
	struct podresources *podresources = calloc(1, sizeof(*podresources));
	if (!podresources)
		return err_set(err, -ENOMEM, "out of memory for asking the kubelet");

	podresources->options = *options;
	podresources->pools_code = -ENODATA;
	if (options->period_ns == 0)
		podresources->options.period_ns = PODRESOURCES_PERIOD_NS;

	int rc = file_path(podresources->socket, err, "%s", options->socket);
	if (rc == 0) {
		podresources->next =
		    loop_timer_new(options->loop, podresources_on_next, podresources, err);
		rc = podresources->next ? 0 : -ENOMEM;
	}

	if (rc < 0) {
		free(podresources);
		return rc;
	}

	loop_timer_start(podresources->next, 0);
	*out = podresources;
	return 0;
}

struct podresources *podresources_close(struct podresources *podresources)
{
	if (!podresources)
		return NULL;

	loop_cancel(podresources->options.loop, &podresources->gone);
	(void)wire_client_free(podresources->client);
	(void)loop_timer_free(podresources->next);
	podresources_table_free(&podresources->table);
	free(podresources);

	return NULL;
}

int64_t podresources_allocatable(const struct podresources *podresources, const char *resource)
{
	for (uint32_t i = 0; podresources->pools_code == 0 && i < podresources->pool_count; i++) {
		if (strcmp(podresources->pools[i].name, resource) == 0)
			return podresources->pools[i].devices;
	}
	return podresources->pools_code;
}

void podresources_look(struct podresources *podresources)
{
	if (!podresources->client)
		loop_timer_start(podresources->next, 0);
}

size_t podresources_count(const struct podresources *podresources)
{
	return podresources->table.count;
}

const struct podresources_holder *podresources_at(const struct podresources *podresources,
						  size_t index)
{
	return &podresources->table.items[index];
}

bool podresources_is_known(const struct podresources *podresources)
{
	return podresources->is_known;
}

const char *podresources_problem(const struct podresources *podresources)
{
	return podresources->problem;
}
