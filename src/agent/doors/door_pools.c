/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/doors/door_pools.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "agent/doors/door_rdma.h"
#include "agent/doors/doors.h"
#include "agent/doors/queue_pools.h"
#include "agent/node.h"
#include "base/err.h"
#include "base/log.h"
#include "doors/queue/queue.h"
#include "doors/queue/schedule/schedule_pool.h"

struct door_pools {
	struct doors *doors; /* borrowed */
	struct queue *queue; /* borrowed; NULL: not open yet, or not any more */
	uint64_t told;	     /* node_generation() of what it was told */
	bool is_unknown;     /* it was told that adapters are not read yet */
};

int door_pools_open(struct doors *doors, void **out, struct err *err)
{
	struct door_pools *door = calloc(1, sizeof(*door));
	if (!door)
		return err_set(err, -ENOMEM, "out of memory for the queue's RDMA resources");
	door->doors = doors;
	*out = door;
	return 0;
}

void door_pools_tell(void *context)
{
	struct door_pools *door = context;
	if (!door || !door->queue)
		return;

	const struct doors_parts *parts = doors_parts(door->doors);
	struct schedule_pools pools;
	struct err err = {0};
	struct queue_pools_source source = {
	    .gpus = node_inventory(parts->node),
	    .root = parts->root,
	    .problem = node_has_kubelet(parts->node)
			   ? "the kubelet of this machine hands out its RDMA adapters"
			   : "",
	};

	door_rdma_source(doors_at(door->doors, DOOR_RDMA), &source);
	door->told = node_generation(parts->node);
	door->is_unknown = source.is_unknown;

	int rc = queue_pools_make(&source, &pools, &err);
	if (rc == 0 && (rc = queue_set_pools(door->queue, &pools)) < 0)
		(void)err_set(&err, rc, "the queue does not take them: %s", err_describe(rc));
	schedule_pools_done(&pools);

	if (rc < 0)
		log_write(parts->log, LOG_LEVEL_WARNING, NULL, "RDMA resources of jobs: %s",
			  err.text);
}

void door_pools_update(void *context)
{
	const struct door_pools *door = context;
	if (door->is_unknown || node_generation(doors_parts(door->doors)->node) != door->told)
		door_pools_tell(context);
}

void door_pools_set_queue(void *context, struct queue *queue)
{
	struct door_pools *door = context;
	door->queue = queue;
	door_pools_tell(door);
}

void door_pools_stop(void *context)
{
	struct door_pools *door = context;
	door->queue = NULL;
}

void *door_pools_free(void *door)
{
	free(door);
	return NULL;
}
