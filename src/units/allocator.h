/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which units to hand out when somebody asks for some of those that are free. Pure: the answer is a
 * function of the machine's shape, the free units, those that must be among them, the size and the
 * policy; the order of the input does not matter. Knows nothing of kubelets, jobs or leases; the
 * doors call it.
 *
 * Whole GPUs are chosen so that the machine as a whole stays as well connected as it can be. Let A
 * be the free GPUs, k the size, w the weight of a pair (see allocator_topology_weigh) and W(X) the
 * sum of w over the pairs in X. Cut A into as many sets of k as fit and one remainder. The total of
 * such a partition is the sum of W over all its parts. Of the partitions with a set that holds all
 * GPUs that must be in, the best total is OPT. Of the sets that occur in a partition of total OPT
 * the answer is the one with, in this order,
 *   1. the largest W of its own,
 *   2. the fewest NUMA nodes,
 *   3. the largest W of what is left,
 *   4. the smallest list of indices.
 * Up to ALLOCATOR_EXACT_MAX free GPUs this is exact; above, a greedy choice improved by exchanges.
 *
 * Replicas and MIG devices are picked one at a time from physical GPUs by the policy's key.
 */
#ifndef SLUICE_UNITS_ALLOCATOR_H
#define SLUICE_UNITS_ALLOCATOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hardware/gpu.h"

struct err;
struct allocator;

enum allocator_limits {
	ALLOCATOR_EXACT_MAX = 16,   /* free GPUs up to which the answer is optimal */
	ALLOCATOR_UNIT_MAX = 65536, /* units in one question: 64 GPUs x 1024 replicas */
};

enum allocator_policy {
	ALLOCATOR_DISTRIBUTED, /* least used GPU first, by the share of its units in use */
	ALLOCATOR_PACKED,      /* most used GPU first */
	ALLOCATOR_SPREAD,      /* on as many different GPUs as there are */
	ALLOCATOR_POLICY_COUNT,
};

/* How the GPUs of a machine are connected. Index: place in struct inventory. */
struct allocator_topology {
	uint32_t gpu_count;
	int32_t weight[GPU_MAX][GPU_MAX]; /* symmetric, 0 on the diagonal */
	int32_t numa[GPU_MAX];		  /* GPU_NUMA_NONE when not known */
};

/* One unit of the pool that is asked for. */
struct allocator_unit {
	uint32_t gpu;	  /* physical GPU, place in struct inventory */
	uint32_t device;  /* MIG device of that GPU; 0 for the whole GPU */
	uint32_t replica; /* 0 when it is not shared */
};

struct allocator_question {
	const struct allocator_unit *available; /* borrowed; any order, no unit twice */
	size_t available_count;
	const struct allocator_unit
	    *must; /* borrowed; each is in the answer; need not be available */
	size_t must_count;
	size_t size;
	/* A whole GPU each ("aligned"), or replicas and MIG devices ("shared"). */
	bool shared;
	enum allocator_policy policy; /* of shared units */
	/* Shared: units of this pool on each GPU, free or not; gpu_count of the topology entries.
	 */
	const uint32_t *pool_per_gpu;
};

/*
 * Fills the weights from what the inventory says: for each pair 60 INTERNAL, 50 SINGLE, 40
 * MULTIPLE, 30 HOSTBRIDGE, 20 NODE, 10 SYSTEM, 0 unknown, plus 100 for each NVLink between them.
 * Direct links count as the smaller of both directions; when there are none and both reach an
 * NVSwitch, as the smaller number of active switch links. A GPU that is not ok weighs 0 to all. The
 * numbers are those of the NVIDIA device plugin's allocator (github.com/NVIDIA/go-gpuallocator),
 * which knows no NVSwitch.
 */
void allocator_topology_weigh(const struct inventory *inventory, struct allocator_topology *out);

/* An allocator for machines of this shape; copies the topology. -ENOMEM, -EINVAL (counts). */
int allocator_new(const struct allocator_topology *topology, struct allocator **out,
		  struct err *err);
struct allocator *allocator_free(struct allocator *allocator);
/*
 * Builds the tables that questions of this size will use, so that the first is as fast as the rest
 * (at most 10 ms for 16 GPUs). Optional. -ENOMEM.
 */
int allocator_prepare(struct allocator *allocator, size_t size, struct err *err);

/*
 * Answers. `out` has room for `size` units and is ordered by gpu, device, replica. Returns their
 * number: `size`; everything there is when that is less; 0 when `size` is 0 or smaller than the
 * number that must be in. -ENOMEM, or -EINVAL for a unit on a GPU that the topology does not have
 * or too many units.
 */
int allocator_prefer(struct allocator *allocator, const struct allocator_question *question,
		     struct allocator_unit *out, struct err *err);

#endif
