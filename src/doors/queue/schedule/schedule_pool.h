/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Named resources beside the GPUs, as the scheduler sees them: how many units there are, how many
 * are in use, and how near the adapters behind them are to each GPU. Pure; knows nothing of what an
 * adapter is. A job gets every adapter of a resource that it has a unit of, as on a cluster.
 */
#ifndef SLUICE_DOORS_QUEUE_SCHEDULE_SCHEDULE_POOL_H
#define SLUICE_DOORS_QUEUE_SCHEDULE_SCHEDULE_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "job/demand.h"
#include "hardware/gpu.h"

struct buf;
struct err;

enum schedule_pool_limits {
	SCHEDULE_POOLS_MAX = 256,
	SCHEDULE_POOL_TEXT_MAX = 256,
	SCHEDULE_POOL_ADAPTERS_MAX = 1024, /* bytes of a list of names */
};

struct schedule_pool {
	char name[DEMAND_NAME_MAX];
	uint32_t units, used;
	/* Why no job can have any now: no adapter is well; "": they can. */
	char problem[SCHEDULE_POOL_TEXT_MAX];
	char adapters[SCHEDULE_POOL_ADAPTERS_MAX]; /* that are well: "mlx5_0,mlx5_1" */
	bool simulated;				   /* they are */
	/* enum gpu_level from each GPU of the inventory to the nearest of them */
	uint8_t level[GPU_MAX];
};

/* All pools of a machine; plain data. */
struct schedule_pools {
	struct schedule_pool *items; /* owned */
	size_t count;
	bool is_unknown; /* what there is has not been read yet: who asks for one waits */
	/* Why there are none, for who asks for one; "" */
	char problem[SCHEDULE_POOL_TEXT_MAX];
};

void schedule_pools_done(struct schedule_pools *pools);
/* A deep copy. -ENOMEM: `out` is empty. */
int schedule_pools_copy(const struct schedule_pools *from, struct schedule_pools *out);
/* Whether they differ in more than what is in use. */
bool schedule_pools_differ(const struct schedule_pools *a, const struct schedule_pools *b);

/* Marks the units of a list (demand.h) as used; what is not there is left out. */
void schedule_pools_take(struct schedule_pools *pools, const char *list);
/* Whether this machine could ever give them. 0; -ERANGE with what there is, -EINVAL. */
int schedule_pools_check(const struct schedule_pools *pools, const char *list, struct err *err);

enum schedule_pool_use { SCHEDULE_POOL_FREE, SCHEDULE_POOL_USED, SCHEDULE_POOL_SICK };
/* How the resources of a list are now; the worst counts. `out` (the place in the list of pools, or
 * `count`) is the first that is so, and `text` says what is missing. */
enum schedule_pool_use schedule_pools_look(const struct schedule_pools *pools, const char *list,
					   size_t *out, char text[SCHEDULE_POOL_TEXT_MAX]);
/* Place of the pool of this name, or `count`. */
size_t schedule_pools_find(const struct schedule_pools *pools, const char *name);

/* The distance of GPU `gpu` of the inventory to the nearest adapter of the list: enum gpu_level. */
uint8_t schedule_pools_level(const struct schedule_pools *pools, const char *list, uint32_t gpu);
/* The adapters behind a list, each once: "mlx5_0,mlx5_1". -ENOMEM, -ENOSPC. */
int schedule_pools_adapters(const struct schedule_pools *pools, const char *list, struct buf *out,
			    bool *out_simulated);

#endif
