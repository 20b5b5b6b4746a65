/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/doors/held_forms.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "doors/kubelet/podresources.h"
#include "policy/policy.h"

/* How containers hold a device: bits. */
enum { HELD_WHOLE = 1, HELD_SHARE = 2, HELD_INSTANCE = 4 /* a MIG device of it */ };

struct held_units {
	uint8_t gpu[GPU_MAX];
	uint8_t mig[GPU_MAX * GPU_MIG_MAX];
};

static void held_add(const struct inventory *inventory, const char *unit, struct held_units *held)
{
	char uuid[GPU_UUID_MAX];
	size_t length = strlen(unit);
	const char *replica = strstr(unit, "::");
	uint8_t bit = replica ? HELD_SHARE : HELD_WHOLE;

	if (replica)
		length = (size_t)(replica - unit);
	if (length == 0 || length >= sizeof(uuid))
		return; /* another vendor's */

	(void)snprintf(uuid, sizeof(uuid), "%.*s", (int)length, unit);
	const struct gpu *gpu = inventory_find_gpu(inventory, uuid);
	if (gpu) {
		held->gpu[gpu - inventory->gpus] |= bit;
		return;
	}

	const struct mig_device *mig = inventory_find_mig(inventory, uuid);
	if (mig) {
		held->mig[mig - inventory->migs] |= bit;
		held->gpu[mig->parent] |= HELD_INSTANCE;
	}
}

static const char *held_conflict(uint8_t held, bool is_shared)
{
	if (is_shared && (held & HELD_WHOLE))
		return "a container holds it whole: it is shared once it is free";
	if (!is_shared && (held & HELD_SHARE))
		return "a container holds a share of it: it is given whole once it is free";
	return NULL;
}

static void held_judge(const struct inventory *inventory, const struct held_units *held,
		       const struct policy_unit *unit, struct held_forms *out)
{
	bool is_shared = unit->replicas > 1;

	if (unit->mig == POLICY_WHOLE_GPU) {
		out->gpu[unit->gpu] = held->gpu[unit->gpu] & HELD_INSTANCE
					  ? "a container holds a MIG device of it: it is given "
					    "whole once that is free"
					  : held_conflict(held->gpu[unit->gpu], is_shared);
		return;
	}

	out->mig[unit->mig] =
	    held->gpu[inventory->migs[unit->mig].parent] & (HELD_WHOLE | HELD_SHARE)
		? "a container holds its whole GPU: it is given once that is free"
		: held_conflict(held->mig[unit->mig], is_shared);
}

bool held_forms_find(const struct inventory *inventory, const struct policy *policy,
		     const struct podresources *pods, struct held_forms *out)
{
	struct held_units held = {{0}, {0}};
	size_t count = pods ? podresources_count(pods) : 0;
	bool any = false;

	memset(out, 0, sizeof(*out));

	for (size_t i = 0; i < count; i++)
		held_add(inventory, podresources_at(pods, i)->unit, &held);

	for (uint32_t r = 0; count > 0 && r < policy->resource_count; r++) {
		const struct policy_resource *of = &policy->resources[r];
		for (uint32_t u = 0; of->door == POLICY_DOOR_KUBELET && u < of->count; u++)
			held_judge(inventory, &held, &policy->units[of->first + u], out);
	}

	for (uint32_t i = 0; i < inventory->gpu_count; i++)
		any |= out->gpu[i] != NULL;

	for (uint32_t i = 0; i < inventory->mig_count; i++)
		any |= out->mig[i] != NULL;

	return any;
}
