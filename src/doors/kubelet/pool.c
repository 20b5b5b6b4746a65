/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/kubelet/pool.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/parse.h"
#include "doors/kubelet/allocate.h"
#include "doors/kubelet/resource.h"
#include "hardware/gpu.h"
#include "wire/arena.h"

enum {
	POOL_ID_MAX = 12,    /* any number */
	POOL_NAME_KEPT = 50, /* of a name that is too long */
};

/* FNV-1a. */
static uint32_t name_hash(const char *name)
{
	uint32_t hash = 2166136261u;
	for (; *name != '\0'; name++)
		hash = (hash ^ (unsigned char)*name) * 16777619u;
	return hash;
}

void pool_endpoint(const char *name, char out[POOL_ENDPOINT_MAX])
{
	char text[RESOURCE_NAME_MAX + 16];
	const char *slash = strchr(name, '/'), *minus = strchr(name, '-');
	int length = snprintf(text, sizeof(text), "rdma-%s.sock", name);

	/* "a-b/c" and "a/b-c" are two. */
	bool is_clear = !slash || !minus || minus > slash;
	if (length < POOL_ENDPOINT_MAX && is_clear)
		memcpy(out, text, (size_t)length + 1);
	else
		(void)snprintf(out, POOL_ENDPOINT_MAX, "rdma-%.*s-%08" PRIx32 ".sock",
			       POOL_NAME_KEPT, name, name_hash(name));

	for (char *at = out; (at = strchr(at, '/'));)
		*at = '-';
}

struct kubelet_pool *pool_free(struct kubelet_pool *pool)
{
	if (pool)
		free(pool->paths);
	free(pool);
	return NULL;
}

int pool_new(const char *name, const struct kubelet_pool *pool, struct kubelet_resource **out,
	     struct err *err)
{
	struct kubelet_resource *resource = calloc(1, sizeof(*resource));
	struct kubelet_pool *copy = calloc(1, sizeof(*copy));
	/* One more than needed: nothing at all is not out of memory. */
	void *paths = calloc(pool->path_count + 1, sizeof(*pool->paths));
	if (!resource || !copy || !paths) {
		free(resource);
		free(copy);
		free(paths);
		return err_set(err, -ENOMEM, "%s: out of memory", name);
	}

	*copy = *pool;
	copy->paths = paths;
	if (pool->path_count > 0)
		memcpy(copy->paths, pool->paths, pool->path_count * sizeof(*pool->paths));
	resource->pool = copy;
	resource->device_count = copy->units;
	(void)snprintf(resource->name, sizeof(resource->name), "%s", name);
	pool_endpoint(name, resource->endpoint);
	*out = resource;

	return 0;
}

bool pool_is_same(const struct kubelet_pool *a, const struct kubelet_pool *b)
{
	if (a->units != b->units || a->is_healthy != b->is_healthy || a->numa != b->numa ||
	    a->path_count != b->path_count || strcmp(a->reason, b->reason) != 0 ||
	    strcmp(a->cdi, b->cdi) != 0)
		return false;

	for (size_t i = 0; i < a->path_count; i++) {
		if (strcmp(a->paths[i], b->paths[i]) != 0)
			return false;
	}

	return true;
}

/* --- the list -----------------------------------------------------------------------------------
 */

static V1beta1__TopologyInfo *pool_topology(int32_t numa, struct arena *arena)
{
	V1beta1__TopologyInfo *topology = arena_alloc(arena, sizeof(*topology));
	V1beta1__NUMANode *node = arena_alloc(arena, sizeof(*node));
	V1beta1__NUMANode **nodes = arena_alloc(arena, sizeof(*nodes));
	if (!topology || !node || !nodes)
		return NULL;

	v1beta1__topology_info__init(topology);
	v1beta1__numanode__init(node);
	node->id = numa;
	nodes[0] = node;
	topology->n_nodes = 1;
	topology->nodes = nodes;

	return topology;
}

int pool_list(const struct kubelet_resource *resource, struct arena *arena,
	      V1beta1__ListAndWatchResponse *out)
{
	static char healthy[] = "Healthy", unhealthy[] = "Unhealthy";
	const struct kubelet_pool *pool = resource->pool;
	size_t count = pool->units;
	V1beta1__Device *devices = arena_alloc(arena, count * sizeof(*devices));

	char(*ids)[POOL_ID_MAX] = arena_alloc(arena, count * sizeof(*ids));
	V1beta1__TopologyInfo *topology = NULL;

	v1beta1__list_and_watch_response__init(out);
	out->devices = arena_alloc(arena, count * sizeof(*out->devices));
	if (!devices || !ids || !out->devices)
		return -ENOMEM;
	if (pool->numa != GPU_NUMA_NONE && !(topology = pool_topology(pool->numa, arena)))
		return -ENOMEM;

	for (size_t i = 0; i < count; i++) {
		(void)snprintf(ids[i], sizeof(ids[i]), "%u", (unsigned)i);
		v1beta1__device__init(&devices[i]);
		devices[i].id = ids[i];
		devices[i].health = pool->is_healthy ? healthy : unhealthy;
		devices[i].topology = topology;
		out->devices[i] = &devices[i];
	}

	out->n_devices = count;
	return 0;
}

/* --- Allocate -----------------------------------------------------------------------------------
 */

/* As it is in the list: "07" is none. */
static bool pool_has(const struct kubelet_pool *pool, const char *id)
{
	uint64_t unit;
	return parse_u64(id, 0, POOL_UNITS_MAX, &unit) == 0 && unit < pool->units &&
	       (id[0] != '0' || id[1] == '\0');
}

static int pool_check(const struct kubelet_resource *resource,
		      const V1beta1__AllocateRequest *request, struct err *err)
{
	const struct kubelet_pool *pool = resource->pool;

	for (size_t i = 0; i < request->n_container_requests; i++) {
		const V1beta1__ContainerAllocateRequest *one = request->container_requests[i];

		for (size_t k = 0; k < one->n_devices_ids; k++) {
			if (!pool_has(pool, one->devices_ids[k]))
				return err_set(err, -EINVAL,
					       "invalid allocation request for \"%s\": invalid "
					       "request: unknown device: %.64s",
					       resource->name, one->devices_ids[k]);
		}
	}

	if (!pool->is_healthy)
		return err_set(err, -ENODEV, "invalid allocation request for \"%s\": %s",
			       resource->name, pool->reason);

	return 0;
}

/* https://github.com/cncf-tags/container-device-interface: pkg/cdi/annotations.go; a runtime that
 * reads both names the device once. */
static int pool_fill_cdi(const struct kubelet_resource *resource, struct arena *arena,
			 V1beta1__ContainerAllocateResponse *out)
{
	V1beta1__CDIDevice *device = arena_alloc(arena, sizeof(*device));
	V1beta1__Entry *note = arena_alloc(arena, sizeof(*note));

	v1beta1__container_allocate_response__init(out);
	out->cdi_devices = arena_alloc(arena, sizeof(*out->cdi_devices));
	out->annotations = arena_alloc(arena, sizeof(*out->annotations));
	if (!device || !note || !out->cdi_devices || !out->annotations)
		return -ENOMEM;

	v1beta1__cdidevice__init(device);
	v1beta1__entry__init(note);
	device->name = note->value = resource->pool->cdi;

	/* A container may have several resources, and a key only once. */
	note->key =
	    arena_printf(arena, "cdi.k8s.io/sluice_rdma_%08" PRIx32, name_hash(resource->name));
	if (!note->key)
		return -ENOMEM;

	out->cdi_devices[out->n_cdi_devices++] = device;
	out->annotations[out->n_annotations++] = note;
	return 0;
}

static int pool_fill(const struct kubelet_resource *resource, struct arena *arena,
		     V1beta1__ContainerAllocateResponse *out)
{
	static char permissions[] = "rwm";
	const struct kubelet_pool *pool = resource->pool;

	if (pool->cdi[0])
		return pool_fill_cdi(resource, arena, out);

	V1beta1__DeviceSpec *specs = arena_alloc(arena, pool->path_count * sizeof(*specs));

	v1beta1__container_allocate_response__init(out);
	out->devices = arena_alloc(arena, pool->path_count * sizeof(*out->devices));
	if (!specs || !out->devices)
		return -ENOMEM;

	for (size_t i = 0; i < pool->path_count; i++) {
		v1beta1__device_spec__init(&specs[i]);
		specs[i].container_path = specs[i].host_path = pool->paths[i];
		specs[i].permissions = permissions;
		out->devices[i] = &specs[i];
	}

	out->n_devices = pool->path_count;
	return 0;
}

int pool_answer(const struct kubelet_resource *resource, const V1beta1__AllocateRequest *request,
		struct arena *arena, V1beta1__AllocateResponse *out, struct err *err)
{
	size_t count = request->n_container_requests;
	int rc = pool_check(resource, request, err);
	if (rc < 0)
		return rc;

	/* All containers get the same. */
	V1beta1__ContainerAllocateResponse *one = arena_alloc(arena, sizeof(*one));

	v1beta1__allocate_response__init(out);
	out->container_responses = arena_alloc(arena, count * sizeof(*out->container_responses));
	if (!one || !out->container_responses || pool_fill(resource, arena, one) < 0)
		return err_set(err, -ENOMEM, "%s: out of memory for an answer", resource->name);

	for (size_t i = 0; i < count; i++)
		out->container_responses[i] = one;

	out->n_container_responses = count;
	return 0;
}

enum wire_status pool_status(int code)
{
	if (code == -EINVAL)
		return WIRE_INVALID_ARGUMENT;
	return code == -ENODEV ? WIRE_FAILED_PRECONDITION : allocate_status(code);
}
