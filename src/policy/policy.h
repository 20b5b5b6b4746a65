/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From what is in the machine and what the configuration says to what can be handed out: resources
 * and their units. A pure function: the same inventory and configuration give the same policy, unit
 * by unit and in the same order, so that a change of either can be told as a small difference. It
 * knows nothing of who holds what, nor of sockets.
 *
 * In this order (that of the NVIDIA device plugin, with `resources`, `rename` and `devices`
 * honoured):
 *   1. devices: GPUs, or the MIG devices of those in MIG mode, as the MIG strategy says;
 *   2. sluice.devices.include and .exclude;
 *   3. a name: the first rule of `resources` whose pattern matches, else NVIDIA's names;
 *   4. sharing: the first entry for that name which selects the device replaces it by replicas;
 *   5. doors: who may hand it out.
 */
#ifndef SLUICE_POLICY_POLICY_H
#define SLUICE_POLICY_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/config.h"
#include "policy/policy_door.h"

struct err;
struct inventory;

enum policy_limits {
	POLICY_UNITS_MAX = 16384,
	POLICY_ID_MAX = GPU_UUID_MAX + 16, /* "UUID::1023" */
	POLICY_WARNINGS_MAX = 32,
	POLICY_TEXT_MAX = 256,
};

#define POLICY_WHOLE_GPU UINT32_MAX

/* One thing that can be handed out: a device, or one replica of it. */
struct policy_unit {
	char id[POLICY_ID_MAX];	    /* the device's UUID; a replica's is UUID::N */
	uint32_t gpu;		    /* place in inventory.gpus */
	uint32_t mig;		    /* place in inventory.migs, or POLICY_WHOLE_GPU */
	uint32_t replica, replicas; /* 0 of 1 when it is not shared */
};

/* A named pool of units that one door hands out. */
struct policy_resource {
	char name[CONFIG_NAME_MAX]; /* "nvidia.com/gpu" */
	enum policy_door door;
	bool shared;	       /* at least one unit is a replica */
	bool one_each;	       /* sharing.*.failRequestsGreaterThanOne, of shared units */
	uint32_t first, count; /* units[first] ... in the order of gpu, MIG device, replica */
};

struct policy {
	struct policy_resource *resources; /* owned; by door, then by their first unit */
	uint32_t resource_count;
	struct policy_unit *units; /* owned; by resource */
	uint32_t unit_count;
	/* Why no GPU of the machine is handed out although there are some; "" when that is not so.
	 * A MIG layout that the strategy `single` forbids: it is looked at again at every change.
	 */
	char problem[POLICY_TEXT_MAX];
	uint32_t warning_count; /* all; the first POLICY_WARNINGS_MAX are kept */
	char warning[POLICY_WARNINGS_MAX][POLICY_TEXT_MAX];
};

/* What decides beside inventory and configuration. */
struct policy_surroundings {
	bool has_kubelet;	     /* its socket directory is there */
	const char *visible_devices; /* $NVIDIA_VISIBLE_DEVICES; NULL or "" when not set */
};

/*
 * Makes the policy. -EINVAL: a device would belong to two doors, or more than POLICY_UNITS_MAX
 * units; -ENOMEM. What merely does not fit the machine now is a warning of the policy.
 */
int policy_make(const struct inventory *inventory, const struct config *config,
		const struct policy_surroundings *surroundings, struct policy **out,
		struct err *err);
struct policy *policy_free(struct policy *policy);

/* Whether steps 1 and 2 let this device exist for sluice, whatever its MIG mode: it is no display
 * adapter, included, not excluded and visible. `mig`: place in inventory.migs, or POLICY_WHOLE_GPU
 * for the GPU itself. Pure. */
bool policy_selects(const struct inventory *inventory, const struct config *config,
		    const struct policy_surroundings *surroundings, uint32_t gpu, uint32_t mig);

/* The resource of this name and door, or NULL. Borrowed. */
const struct policy_resource *policy_find(const struct policy *policy, const char *name,
					  enum policy_door door);

/* What became of a resource between two policies. */
enum policy_change { POLICY_SAME, POLICY_ADDED, POLICY_REMOVED, POLICY_CHANGED };

/*
 * Calls `tell` for every resource of either policy that is not the same in both: other units, or
 * other rules. Either policy may be NULL (none). A resource whose units keep their ids and order is
 * the same, whatever happened elsewhere. Returns how many differ.
 */
size_t policy_compare(const struct policy *before, const struct policy *after,
		      void (*tell)(enum policy_change change,
				   const struct policy_resource *resource, void *context),
		      void *context);

const char *policy_change_to_string(enum policy_change change);

#endif
