/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "doors/queue/schedule.h"
#include "doors/queue/schedule_internal.h"
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
	bool kubelet = false;
	for (uint32_t i = 0; policy && i < policy->resource_count; i++)
		kubelet |= policy->resources[i].door == POLICY_DOOR_KUBELET;
	if (!inventory)
		(void)snprintf(out, size, "the NVIDIA driver does not answer");
	else if (inventory->gpu_count == 0)
		(void)snprintf(out, size, "this machine has no NVIDIA GPU");
	else if (policy && policy->problem[0] != '\0')
		(void)snprintf(out, size, "%.*s", (int)size - 1, policy->problem);
	else if (kubelet)
		(void)snprintf(out, size,
			       "all GPUs of this machine belong to the kubelet; "
			       "sluice.doors.queue.devices in the configuration gives some of them "
			       "to jobs");
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

void schedule_machine_done(struct schedule_machine *machine)
{
	free(machine->devices);
	machine->devices = NULL;
	machine->device_count = 0;
	schedule_pools_done(&machine->pools);
	machine->shape = schedule_shape_free(machine->shape);
}

struct schedule_shape *schedule_shape_free(struct schedule_shape *shape)
{
	if (shape)
		shape->allocator = allocator_free(shape->allocator);
	free(shape);
	return NULL;
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
		int result = shape ? allocator_new(now, &shape->allocator, err)
				   : err_set(err, -ENOMEM, "no memory to choose GPUs with");
		if (result < 0) {
			(void)schedule_shape_free(shape);
			return result;
		}
		shape->topology = *now;
		machine->shape = shape;
	}
	*out = machine->shape->allocator;
	return 0;
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

/* --- what a job wants ------------------------------------------------------------------------ */

static size_t want_find(const struct schedule_machine *machine, uint32_t gpu, uint32_t mig)
{
	size_t i = 0;
	while (i < machine->device_count &&
	       (machine->devices[i].unit.gpu != gpu || machine->devices[i].unit.mig != mig))
		i++;
	return i;
}

static int want_add_id(const struct schedule_machine *machine, const char *id,
		       struct schedule_want *want, struct err *err)
{
	uint32_t gpu, mig;
	int result = place_resolve(machine->inventory, id, &gpu, &mig, err);
	if (result < 0)
		return result;
	size_t place = want_find(machine, gpu, mig);
	if (place == machine->device_count)
		return err_set(
		    err, -ENOENT,
		    "GPU '%s' is not the queue's to give: sluice.doors.queue.devices and "
		    "sluice.devices in the configuration say which are",
		    id);
	const struct schedule_device *device = &machine->devices[place];
	for (size_t i = 0; i < want->count; i++)
		if (want->device[i] == place)
			return err_set(err, -EINVAL, "%s is named twice", device->unit.label);
	if (want->shared && device->slot_count < 2)
		return err_set(err, -ERANGE,
			       "%s is not shared: sharing.timeSlicing in the configuration makes "
			       "slots",
			       device->unit.label);
	want->device[want->count++] = (uint16_t)place; /* no device twice: there is room */
	return 0;
}

static int want_add_ids(const struct schedule_machine *machine, const char *ids,
			struct schedule_want *want, struct err *err)
{
	char id[GPU_UUID_MAX];
	int more;
	want->listed = true;
	while ((more = place_next_id(&ids, id, err)) > 0) {
		int result = want_add_id(machine, id, want, err);
		if (result < 0)
			return result;
	}
	want->needed = want->count;
	return more;
}

static bool want_suits(const struct schedule_want *want, const struct schedule_device *device)
{
	return !want->shared || device->slot_count > 1;
}

static int want_refuse(const struct schedule_machine *machine, const struct schedule_want *want,
		       struct err *err)
{
	const char *plural = want->needed == 1 ? "" : "s";
	size_t migs = 0;
	for (size_t i = 0; i < machine->device_count; i++)
		migs += machine->devices[i].unit.mig != PLACE_WHOLE;
	if (want->shared && want->count == 0)
		return err_set(err, -ERANGE,
			       "no GPU of this machine is shared: sharing.timeSlicing in the "
			       "configuration makes slots");
	if (want->shared)
		return err_set(err, -ERANGE,
			       "needs shares of %zu GPU%s, this machine has %zu that %s shared "
			       "(sharing.timeSlicing in the configuration)",
			       want->needed, plural, want->count, want->count == 1 ? "is" : "are");
	if (want->mig)
		return err_set(
		    err, -ERANGE,
		    "needs %zu GPU%s, this machine has %zu MIG device%s and no whole GPU",
		    want->needed, plural, want->count, want->count == 1 ? "" : "s");
	if (migs > 0)
		return err_set(err, -ERANGE,
			       "needs %zu GPU%s, this machine has %zu (and %zu MIG device%s, which "
			       "--gpu-ids can name)",
			       want->needed, plural, want->count, migs, migs == 1 ? "" : "s");
	if (machine->inventory->gpu_count > want->count)
		return err_set(err, -ERANGE,
			       "needs %zu GPU%s, the queue has %zu of the %u of this machine "
			       "(sluice.doors.queue.devices in the configuration says which)",
			       want->needed, plural, want->count, machine->inventory->gpu_count);
	return err_set(err, -ERANGE, "needs %zu GPU%s, this machine has %zu", want->needed, plural,
		       want->count);
}

int schedule_want_make(const struct schedule_machine *machine, const struct job *job,
		       struct schedule_want *out, struct err *err)
{
	out->needed = job->gpus;
	out->listed = out->mig = false;
	out->shared = job->share_numerator > 0;
	out->numerator = job->share_numerator;
	out->denominator = job->share_denominator;
	out->ignore_outsiders = job->ignore_outsiders;
	out->resources = job->resources;
	out->count = 0;
	if (job->gpus == 0) /* only what is beside GPUs */
		return 0;
	if (!machine->inventory || machine->device_count == 0)
		return err_set(err, -ERANGE, "needs %u GPU%s, there are 0: %s", job->gpus,
			       job->gpus == 1 ? "" : "s", machine->problem);
	if (job->ids)
		return want_add_ids(machine, job->ids, out, err);

	/* MIG devices are small: nobody gets one who has not said so, unless there is no GPU. */
	out->mig = true;
	for (size_t i = 0; i < machine->device_count && out->mig; i++)
		if (want_suits(out, &machine->devices[i]))
			out->mig = machine->devices[i].unit.mig != PLACE_WHOLE;
	for (size_t i = 0; i < machine->device_count; i++) {
		const struct schedule_device *device = &machine->devices[i];
		if (want_suits(out, device) && (device->unit.mig != PLACE_WHOLE) == out->mig)
			out->device[out->count++] = (uint16_t)i;
	}
	return out->count < out->needed ? want_refuse(machine, out, err) : 0;
}

uint32_t schedule_want_slots(const struct schedule_want *want, const struct schedule_device *device)
{
	if (!want->shared)
		return device->slot_count;
	if (want->denominator == 0)
		return 1;
	uint64_t slots = ((uint64_t)want->numerator * device->slot_count + want->denominator - 1) /
			 want->denominator;
	return slots < device->slot_count ? (uint32_t)slots : device->slot_count;
}

enum schedule_use schedule_device_use(const struct schedule_device *device,
				      const struct schedule_want *want)
{
	if (!device->unit.healthy)
		return SCHEDULE_SICK;
	if (device->unit.outsider != 0 && !want->ignore_outsiders)
		return SCHEDULE_OUTSIDER;
	if (device->holder[0] != '\0' || device->used_whole)
		return SCHEDULE_USED;
	if (device->slot_count - device->used_count < schedule_want_slots(want, device))
		return SCHEDULE_USED;
	return SCHEDULE_FREE;
}

int schedule_check(const struct schedule_machine *machine, const struct job *job, struct err *err)
{
	struct schedule_want want;
	int result = schedule_pools_check(&machine->pools, job->resources, err);
	return result < 0 || job->gpus == 0 ? result : schedule_want_make(machine, job, &want, err);
}
