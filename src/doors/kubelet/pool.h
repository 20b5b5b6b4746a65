/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A resource whose units are all the same: whatever units a container holds, it is given the same
 * device nodes. So are shared RDMA adapters handed out. Units have no memory of their own: a
 * thousand of them cost no more than one. Pure; the plugin (plugin.c) serves it like one of GPUs.
 */
#ifndef SLUICE_DOORS_KUBELET_POOL_H
#define SLUICE_DOORS_KUBELET_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "deviceplugin.pb-c.h"
#include "wire/status.h"

struct arena;
struct err;
struct kubelet_resource;

enum pool_limits {
	POOL_UNITS_MAX = 16384,
	POOL_PATH_MAX = 64,    /* "/dev/infiniband/uverbs255" */
	POOL_REASON_MAX = 128, /* why it is not healthy */
	POOL_CDI_MAX = 320,    /* "sluice.dev/rdma=rdma:hca" */
	/* With "/var/lib/kubelet/device-plugins/" before it: what fits into a socket's address. */
	POOL_ENDPOINT_MAX = 76,
};

struct kubelet_pool {
	uint32_t units;	 /* their ids are "0", "1", ... */
	bool is_healthy; /* else nothing is handed out, for this reason */
	char reason[POOL_REASON_MAX];
	int32_t numa;		      /* GPU_NUMA_NONE: the kubelet is told nothing */
	char (*paths)[POOL_PATH_MAX]; /* owned; of the nodes, in the order of the reply */
	size_t path_count;
	/* The CDI device that the reply names in place of the nodes; "": the nodes. */
	char cdi[POOL_CDI_MAX];
};

/* "rdma-rdma-hca.sock" of "rdma/hca": both parts, because two resources may differ in the first
 * only. Names that are long or could be mistaken for others end in a number made from them. */
void pool_endpoint(const char *name, char out[POOL_ENDPOINT_MAX]);

/* A resource that is a pool; what `pool` owns is copied. -ENOMEM. */
int pool_new(const char *name, const struct kubelet_pool *pool, struct kubelet_resource **out,
	     struct err *err);
/* For resource.c. NULL is fine; returns NULL. */
struct kubelet_pool *pool_free(struct kubelet_pool *pool);
bool pool_is_same(const struct kubelet_pool *a, const struct kubelet_pool *b);

/* Fills `out` (initialised here) with the list of units, in the arena. -ENOMEM. */
int pool_list(const struct kubelet_resource *resource, struct arena *arena,
	      V1beta1__ListAndWatchResponse *out);
/*
 * Fills `out` (initialised here) with one answer for each container: every node of the pool, for
 * reading, writing and mknod, or its CDI device, as a field and for runtimes without CDI in CRI as
 * an annotation. In the arena or borrowed from the resource. -EINVAL: an id that there is not;
 * -ENODEV: nothing is healthy, and a container would start without what it asks for; -ENOMEM.
 */
int pool_answer(const struct kubelet_resource *resource, const V1beta1__AllocateRequest *request,
		struct arena *arena, V1beta1__AllocateResponse *out, struct err *err);
/* The gRPC status for a code of pool_answer(). */
enum wire_status pool_status(int code);

#endif
