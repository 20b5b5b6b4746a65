/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The resources of RDMA adapters as the queue's scheduler wants them: units, names of the adapters
 * that are well, and how near they are to each GPU. Reads where the GPUs are from /sys; knows
 * nothing of jobs.
 */
#ifndef SLUICE_AGENT_DOORS_QUEUE_POOLS_H
#define SLUICE_AGENT_DOORS_QUEUE_POOLS_H

#include <stdbool.h>

struct err;
struct inventory;
struct rdma_inventory;
struct rdma_policy;
struct schedule_pools;

/* All borrowed for the call. */
struct queue_pools_source {
	const struct inventory *gpus; /* NULL: not known */
	const char *root;	      /* before /sys; pci_root() */
	const struct rdma_policy *policy;
	const struct rdma_inventory *adapters; /* NULL: not known, or none is configured */
	bool is_unknown;		       /* configuration or adapters are not read yet */
	const bool *is_down;		       /* as rdma_resource_is_healthy() has it */
	const char *problem; /* why jobs get none of them; "": they do, if there is one */
};

/* `out` is given: schedule_pools_done(). -ENOMEM. */
int queue_pools_make(const struct queue_pools_source *source, struct schedule_pools *out,
		     struct err *err);

#endif
