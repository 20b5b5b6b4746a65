/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A machine of made-up GPUs for the tests of the kubelet door, and a resource of it by the
 * configuration that a test writes.
 */
#ifndef TESTS_UNIT_DOORS_KUBELET_RIG_H
#define TESTS_UNIT_DOORS_KUBELET_RIG_H

#include "doors/kubelet/resource.h"
#include "hardware/gpu.h"

struct err;

enum rig_limits { RIG_GPUS = 16, RIG_MIGS = 64 };

struct rig {
	struct inventory inventory;
	struct gpu gpus[RIG_GPUS];
	struct mig_device migs[RIG_MIGS];
	struct minors *minors; /* owned */
	struct resource_surroundings surroundings;
};

/* GPU-a, GPU-b, ...: minor 100 more than the index, NUMA node 0 for the first half; every control
 * node is there. Owned. */
struct rig *rig_new(uint32_t gpus);
struct rig *rig_free(struct rig *rig);
/* One MIG device more, MIG-<gpu>-<index>, GPU instance 7 + index, compute instance 0. */
void rig_add_mig(struct rig *rig, uint32_t gpu, const char *profile);
/* The resource of this name; owned, resource_free(). Fails the test when it cannot be had. */
struct kubelet_resource *rig_resource(const struct rig *rig, const char *config, const char *name);
/* The same with the error, -ENOENT when there is no such resource. */
int rig_try(const struct rig *rig, const char *config, const char *name,
	    struct kubelet_resource **out, struct err *err);

#define RIG_SHARE(entries) "sharing: {timeSlicing: {resources: [" entries "]}}\n"

#endif
