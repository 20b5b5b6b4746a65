/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/doors/queue_pools.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "doors/queue/schedule/schedule_pool.h"
#include "hardware/gpu.h"
#include "hardware/pci.h"
#include "hardware/rdma.h"
#include "policy/rdma.h"

_Static_assert((int)DEMAND_NAME_MAX >= (int)RDMA_CONFIG_RESOURCE_MAX, "a resource's name fits");
_Static_assert((int)SCHEDULE_POOL_TEXT_MAX >= (int)RDMA_POLICY_REASON_MAX, "and its problem");

/* What does not fit is left out: SLUICE_RDMA would name half an adapter. */
static void pool_add_name(struct schedule_pool *pool, const char *name)
{
	size_t length = strlen(pool->adapters), more = strlen(name);
	if (length + more + 2 > sizeof(pool->adapters))
		return;
	if (length > 0)
		pool->adapters[length++] = ',';
	memcpy(pool->adapters + length, name, more + 1);
}

static void pool_add(struct schedule_pool *pool, const struct rdma_inventory *adapters,
		     const struct rdma_function *function, const struct pci_device *gpus,
		     uint32_t gpu_count)
{
	for (uint32_t i = 0; i < function->device_count; i++)
		pool_add_name(pool, adapters->device[function->devices[i]].name);

	pool->simulated |= function->simulated;
	for (uint32_t i = 0; i < gpu_count; i++) {
		uint8_t level = (uint8_t)rdma_distance(&gpus[i], function);
		if (level < pool->level[i])
			pool->level[i] = level;
	}
}

static void pool_make(const struct queue_pools_source *source, const struct rdma_resource *resource,
		      const struct pci_device *gpus, uint32_t gpu_count, struct schedule_pool *out)
{
	(void)snprintf(out->name, sizeof(out->name), "%s", resource->name);
	out->units = resource->entry->units;
	memset(out->level, GPU_LEVEL_UNKNOWN, sizeof(out->level));
	rdma_policy_problem(resource, source->adapters, source->is_down, out->problem);

	for (uint32_t i = 0; i < resource->candidate_count; i++) {
		const struct rdma_candidate *candidate = &resource->candidates[i];
		if (rdma_resource_is_healthy(resource, candidate, source->is_down))
			pool_add(out, source->adapters,
				 &source->adapters->function[candidate->function], gpus, gpu_count);
	}
}

/* Where they are; one whose place is not known is far from everything. */
static void pools_read_gpus(const struct queue_pools_source *source, struct pci_device *out)
{
	for (uint32_t i = 0; source->gpus && i < source->gpus->gpu_count; i++)
		if (!source->gpus->gpus[i].has_pci ||
		    pci_read_device(source->root, &source->gpus->gpus[i].pci, &out[i], NULL) < 0)
			out[i] = (struct pci_device){.has_path = false};
}

int queue_pools_make(const struct queue_pools_source *source, struct schedule_pools *out,
		     struct err *err)
{
	*out = (struct schedule_pools){.items = NULL};
	out->is_unknown = source->is_unknown && source->problem[0] == '\0';
	(void)snprintf(out->problem, sizeof(out->problem), "%s",
		       out->is_unknown ? "RDMA adapters have not been read yet" : source->problem);

	if (source->problem[0] || !source->policy || !source->adapters ||
	    source->policy->count == 0)
		return 0;

	_cleanup_free_ struct pci_device *gpus = calloc(GPU_MAX, sizeof(*gpus));

	out->items = calloc(source->policy->count, sizeof(*out->items));
	if (!gpus || !out->items) {
		schedule_pools_done(out);
		return err_set(err, -ENOMEM, "no memory for the RDMA resources of jobs");
	}

	uint32_t gpu_count = source->gpus ? source->gpus->gpu_count : 0;

	pools_read_gpus(source, gpus);

	for (size_t i = 0; i < source->policy->count && i < SCHEDULE_POOLS_MAX; i++)
		pool_make(source, &source->policy->resources[i], gpus, gpu_count,
			  &out->items[out->count++]);

	return 0;
}
