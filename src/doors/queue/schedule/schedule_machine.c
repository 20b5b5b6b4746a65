/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/queue/schedule/schedule.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "doors/queue/schedule/schedule_internal.h"
#include "policy/policy.h"

_Static_assert(POLICY_WHOLE_GPU == PLACE_WHOLE, "the two mean the same");

static void machine_add(struct schedule_machine *machine, const struct snapshot *snapshot,
			const struct policy_unit *unit, uint32_t mig, place_stranger *stranger,
			void *context)
{
	if (machine->device_count == PLACE_UNIT_MAX)
		return; /* four times what any machine of today has */

	struct schedule_device *device = &machine->devices[machine->device_count++];
	place_describe(machine->inventory, snapshot, unit->gpu, mig, stranger, context,
		       &device->unit);

	/* Replicas of a GPU that is split by MIG say nothing of its MIG devices. */
	bool split = mig != unit->mig;
	uint32_t slots = split ? 1 : unit->replicas;

	device->slot_count = slots < LAUNCH_SLOTS_MAX ? slots : LAUNCH_SLOTS_MAX;
}

static void machine_add_unit(struct schedule_machine *machine, const struct snapshot *snapshot,
			     const struct policy_unit *unit, place_stranger *stranger,
			     void *context)
{
	const struct inventory *inventory = machine->inventory;
	bool split = unit->mig == POLICY_WHOLE_GPU &&
		     inventory->gpus[unit->gpu].mig_current == GPU_MIG_ENABLED;

	if (!split) {
		machine_add(machine, snapshot, unit, unit->mig, stranger, context);
		return;
	}

	/* The MIG strategy `none` shows such a GPU as one, and no process could use it so. */
	for (uint32_t i = 0; i < inventory->mig_count; i++)
		if (inventory->migs[i].parent == unit->gpu)
			machine_add(machine, snapshot, unit, i, stranger, context);
}

static int machine_compare(const void *left, const void *right)
{
	const struct place_unit *a = &((const struct schedule_device *)left)->unit;
	const struct place_unit *b = &((const struct schedule_device *)right)->unit;
	if (a->gpu != b->gpu)
		return a->gpu < b->gpu ? -1 : 1;
	return (a->mig > b->mig) - (a->mig < b->mig);
}

/* Why the queue has nothing to hand out. */
static void machine_explain(struct schedule_machine *machine, const struct policy *policy)
{
	char *out = machine->problem;
	const size_t size = sizeof(machine->problem);
	const struct inventory *inventory = machine->inventory;
	enum policy_door owner = POLICY_DOOR_NONE;

	for (uint32_t i = 0; policy && i < policy->resource_count && owner == POLICY_DOOR_NONE; i++)
		if (policy->resources[i].door != POLICY_DOOR_QUEUE)
			owner = policy->resources[i].door;

	if (!inventory)
		(void)snprintf(out, size, "the NVIDIA driver does not answer");
	else if (inventory->gpu_count == 0)
		(void)snprintf(out, size, "this machine has no NVIDIA GPU");
	else if (policy && policy->problem[0] != '\0')
		(void)snprintf(out, size, "%.*s", (int)size - 1, policy->problem);
	else if (owner != POLICY_DOOR_NONE)
		(void)snprintf(out, size,
			       "all GPUs of this machine belong to the %s; "
			       "sluice.doors.queue.devices in the configuration gives some of them "
			       "to jobs",
			       policy_door_to_string(owner));
	else if (policy && policy->unit_count > 0)
		(void)snprintf(out, size,
			       "the GPUs of this machine are split by MIG and have no MIG devices");
	else
		(void)snprintf(out, size,
			       "the configuration gives no GPU of this machine to jobs "
			       "(sluice.doors.queue.devices)");
}

int schedule_machine_make(const struct inventory *inventory, const struct snapshot *snapshot,
			  const struct policy *policy, place_stranger *stranger, void *context,
			  struct schedule_machine *out, struct err *err)
{
	*out = (struct schedule_machine){.inventory = inventory};
	uint32_t resources = inventory && policy ? policy->resource_count : 0;
	if (resources > 0) {
		out->devices = calloc(PLACE_UNIT_MAX, sizeof(*out->devices));
		if (!out->devices)
			return err_set(err, -ENOMEM, "no memory for the devices of the queue");
	}

	for (uint32_t r = 0; r < resources; r++) {
		const struct policy_resource *resource = &policy->resources[r];
		for (uint32_t i = 0; resource->door == POLICY_DOOR_QUEUE && i < resource->count;
		     i++) {
			const struct policy_unit *unit = &policy->units[resource->first + i];
			if (unit->replica == 0)
				machine_add_unit(out, snapshot, unit, stranger, context);
		}
	}

	if (out->device_count == 0) {
		machine_explain(out, policy);
		return 0;
	}

	qsort(out->devices, out->device_count, sizeof(*out->devices), machine_compare);
	struct schedule_device *fit =
	    reallocarray(out->devices, out->device_count, sizeof(*out->devices));
	if (fit)
		out->devices = fit;

	return 0;
}

void schedule_machine_sicken(struct schedule_machine *machine, const struct schedule_health *health)
{
	for (size_t i = 0; i < machine->device_count; i++) {
		struct place_unit *unit = &machine->devices[i].unit;
		const char *why = health->all;

		if (!why && unit->mig == PLACE_WHOLE && health->gpu)
			why = health->gpu[unit->gpu];
		if (!why && unit->mig != PLACE_WHOLE && health->mig)
			why = health->mig[unit->mig];
		if (!why || (!unit->healthy && !health->all))
			continue; /* what the driver says itself is as good */

		unit->healthy = false;
		(void)snprintf(unit->reason, sizeof(unit->reason), "%s", why); /* cut if need be */
	}
}

static struct schedule_shape *schedule_shape_free(struct schedule_shape *shape)
{
	if (shape)
		shape->allocator = allocator_free(shape->allocator);
	free(shape);
	return NULL;
}

void schedule_machine_done(struct schedule_machine *machine)
{
	free(machine->devices);
	machine->devices = NULL;
	machine->device_count = 0;
	schedule_pools_done(&machine->pools);
	machine->shape = schedule_shape_free(machine->shape);
}

int schedule_shape_get(struct schedule_machine *machine, struct allocator **out, struct err *err)
{
	_cleanup_free_ struct allocator_topology *now = calloc(1, sizeof(*now));
	if (!now)
		return err_set(err, -ENOMEM, "no memory to choose GPUs with");

	allocator_topology_weigh(machine->inventory, now);
	if (machine->shape && memcmp(&machine->shape->topology, now, sizeof(*now)) != 0)
		machine->shape = schedule_shape_free(machine->shape);

	if (!machine->shape) {
		struct schedule_shape *shape = calloc(1, sizeof(*shape));
		int rc = shape ? allocator_new(now, &shape->allocator, err)
			       : err_set(err, -ENOMEM, "no memory to choose GPUs with");
		if (rc < 0) {
			(void)schedule_shape_free(shape);
			return rc;
		}

		shape->topology = *now;
		machine->shape = shape;
	}

	*out = machine->shape->allocator;
	return 0;
}

uint32_t schedule_machine_gpus(const struct schedule_machine *machine)
{
	return machine->inventory ? machine->inventory->gpu_count : 0;
}

struct schedule_device *schedule_machine_find(const struct schedule_machine *machine,
					      const char *uuid)
{
	for (size_t i = 0; i < machine->device_count; i++)
		if (strcmp(machine->devices[i].unit.uuid, uuid) == 0)
			return &machine->devices[i];
	return NULL;
}

void schedule_machine_inherit(struct schedule_machine *machine, struct schedule_machine *before)
{
	machine->clock = before->clock;
	(void)schedule_shape_free(machine->shape);
	machine->shape = take_ptr(before->shape);

	for (size_t i = 0; i < before->device_count; i++) {
		struct schedule_device *device =
		    schedule_machine_find(machine, before->devices[i].unit.uuid);
		if (device)
			device->last_used = before->devices[i].last_used;
	}
}

static void machine_use_slot(struct schedule_device *device, uint32_t slot)
{
	uint64_t bit = UINT64_C(1) << (slot % 64);
	device->used_count += !(device->used[slot / 64] & bit);
	device->used[slot / 64] |= bit;
}

static void machine_use_whole(struct schedule_device *device)
{
	for (uint32_t slot = 0; slot < device->slot_count; slot++)
		machine_use_slot(device, slot);
	device->used_whole = true;
}

void schedule_machine_take(struct schedule_machine *machine, const struct launch_grant *grant)
{
	struct schedule_device *device = schedule_machine_find(machine, grant->uuid);
	if (!device)
		return;
	if (device->last_used == 0)
		device->last_used = ++machine->clock;

	uint32_t slots = 0;
	bool strange = false;

	for (uint32_t slot = 0; slot < LAUNCH_SLOTS_MAX; slot++) {
		if (!launch_grant_has(grant, slot))
			continue;

		slots++;
		if (slot < device->slot_count)
			machine_use_slot(device, slot);
		else
			strange = true;
	}

	if (strange || slots >= grant->slot_count)
		machine_use_whole(device);
}

void schedule_machine_hold(struct schedule_machine *machine, const char *uuid, uint32_t slot,
			   const char *who)
{
	struct schedule_device *device = schedule_machine_find(machine, uuid);
	if (!device || slot >= device->slot_count)
		return;
	machine_use_slot(device, slot);
	(void)snprintf(device->guest, sizeof(device->guest), "%s", who); /* cut if need be */
}
