/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/kubelet/resource.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/names.h"
#include "doors/kubelet/pool.h"
#include "hardware/gpu.h"
#include "hardware/minors.h"

static const char cdi_vendor_simulated[] = "sluice.sim";

/* One unit of the policy on its way into the order of (i, j, n). */
struct unit_place {
	const struct policy_unit *unit;
	uint32_t gpu_index, mig_index;
};

const char *resource_control_path(enum resource_control control)
{
	static const char *const paths[] = {
	    [RESOURCE_NVIDIACTL] = "/dev/nvidiactl",
	    [RESOURCE_UVM] = "/dev/nvidia-uvm",
	    [RESOURCE_UVM_TOOLS] = "/dev/nvidia-uvm-tools",
	    [RESOURCE_MODESET] = "/dev/nvidia-modeset",
	};
	return names_at(paths, control, NULL);
}

static int compare_u32(uint32_t a, uint32_t b)
{
	return (a > b) - (a < b);
}

/* By NVML's indices; by place in the inventory where those do not tell two GPUs apart. */
static int unit_place_compare(const void *left, const void *right)
{
	const struct unit_place *a = left, *b = right;
	int order = compare_u32(a->gpu_index, b->gpu_index);
	if (order == 0)
		order = compare_u32(a->unit->gpu, b->unit->gpu);
	if (order == 0)
		order = compare_u32(a->mig_index, b->mig_index);

	if (order == 0)
		order = compare_u32(a->unit->replica, b->unit->replica);

	return order;
}

/* Whether the unit at `i` is not a replica of the one before it. */
static bool is_other_hardware(const struct unit_place *places, uint32_t i)
{
	return i == 0 || places[i - 1].unit->gpu != places[i].unit->gpu ||
	       places[i - 1].unit->mig != places[i].unit->mig;
}

static void hardware_blame(struct kubelet_hardware *hardware, const char *reason)
{
	if (!hardware->healthy)
		return;
	hardware->healthy = false;
	(void)snprintf(hardware->reason, sizeof(hardware->reason), "%s", reason);
}

static void hardware_cap(struct kubelet_hardware *hardware, const struct minors *minors,
			 uint32_t minor, uint32_t gi, uint32_t ci)
{
	uint32_t cap;
	if (minors_find(minors, minor, gi, ci, &cap) < 0) {
		hardware_blame(hardware, "its capability is not in " MINORS_PATH);
		return;
	}
	(void)snprintf(hardware->path[hardware->path_count++], RESOURCE_PATH_MAX,
		       "/dev/nvidia-caps/nvidia-cap%u", cap);
}

/* Why an instance of the unit is not well, "" or NULL: its own, or any of a GPU that is handed out
 * whole with all of them. */
static const char *hardware_instance_trouble(const struct inventory *inventory,
					     const struct policy_unit *unit,
					     const char *const *mig_unhealthy)
{
	if (!mig_unhealthy)
		return NULL;
	if (unit->mig != POLICY_WHOLE_GPU)
		return mig_unhealthy[unit->mig];

	for (uint32_t i = 0; i < inventory->mig_count; i++) {
		const char *why = mig_unhealthy[i];
		if (inventory->migs[i].parent == unit->gpu && why && why[0] != '\0')
			return why;
	}

	return NULL;
}

static void hardware_fill(const struct inventory *inventory, const struct unit_place *place,
			  const struct resource_surroundings *surroundings,
			  struct kubelet_hardware *out)
{
	const struct gpu *gpu = &inventory->gpus[place->unit->gpu];
	const struct mig_device *mig =
	    place->unit->mig == POLICY_WHOLE_GPU ? NULL : &inventory->migs[place->unit->mig];

	out->gpu = place->unit->gpu;
	out->gpu_index = gpu->index;
	out->mig = place->mig_index;
	out->replicas = place->unit->replicas;
	out->numa = gpu->numa_node;
	out->healthy = true;
	(void)snprintf(out->uuid, sizeof(out->uuid), "%s", mig ? mig->uuid : gpu->uuid);

	if (mig)
		(void)snprintf(out->index, sizeof(out->index), "%u:%u", gpu->index, mig->index);
	else
		(void)snprintf(out->index, sizeof(out->index), "%u", gpu->index);

	const char *why = surroundings->unhealthy ? surroundings->unhealthy[out->gpu] : NULL;
	const char *mig_why =
	    hardware_instance_trouble(inventory, place->unit, surroundings->mig_unhealthy);

	if (gpu->state != GPU_STATE_OK)
		hardware_blame(out, gpu->reason[0] ? gpu->reason : gpu_state_to_string(gpu->state));
	if (why && why[0] != '\0')
		hardware_blame(out, why);
	if (mig_why && mig_why[0] != '\0')
		hardware_blame(out, mig_why);
	if (gpu->minor == GPU_U32_UNKNOWN) {
		hardware_blame(out, "the number of its node in /dev is not known");
		return;
	}

	(void)snprintf(out->path[out->path_count++], RESOURCE_PATH_MAX, "/dev/nvidia%u",
		       gpu->minor);
	if (!mig)
		return;

	hardware_cap(out, surroundings->minors, gpu->minor, mig->gi, MINORS_GPU_INSTANCE);
	hardware_cap(out, surroundings->minors, gpu->minor, mig->gi, mig->ci);
}

const char *resource_cdi_vendor(const struct config *config, bool simulated)
{
	bool is_own = config->source[SCHEMA_CDI_VENDOR] != CONFIG_DEFAULT;
	return simulated && !is_own ? cdi_vendor_simulated : config->cdi_vendor;
}

static int settings_fill(const struct config *config,
			 const struct resource_surroundings *surroundings, bool simulated,
			 struct kubelet_settings *out)
{
	const char *root =
	    config->dev_root && config->dev_root[0] ? config->dev_root : config->driver_root;
	size_t length = root ? strlen(root) : 0;
	while (length > 0 && root[length - 1] == '/')
		length--;

	out->list_strategy = config->list_strategy;
	out->index_ids = config->id_strategy == 1;
	out->pass_device_specs = config->pass_device_specs;
	out->also_cdi = surroundings->also_cdi && config->kubelet_inject == CONFIG_INJECT_AUTO;
	out->also_nodes = surroundings->also_nodes && config->kubelet_inject == CONFIG_INJECT_AUTO;
	out->alloc_env = config->alloc_env;
	out->gdrcopy = config->gdrcopy;
	out->gds = config->gds;
	out->mofed = config->mofed;
	out->policy = config->allocation_policy;
	out->control = surroundings->control;
	out->cdi_modes =
	    surroundings->cdi.modes | (surroundings->cdi.is_known ? 0 : RESOURCE_CDI_IMEX);

	const char *imex = config->imex_channel && surroundings->imex_host_path
			       ? surroundings->imex_host_path
			       : "";

	out->cdi_vendor = strdup(resource_cdi_vendor(config, simulated));
	out->cdi_annotation_prefix =
	    strdup(config->cdi_annotation_prefix ? config->cdi_annotation_prefix : "");
	out->dev_root = strndup(root ? root : "", length);
	out->imex_host_path = strdup(imex);

	return out->cdi_vendor && out->cdi_annotation_prefix && out->dev_root && out->imex_host_path
		   ? 0
		   : -ENOMEM;
}

bool resource_names_cdi(const struct kubelet_settings *settings)
{
	return settings->also_cdi ||
	       (settings->list_strategy & (CONFIG_LIST_CDI_ANNOTATIONS | CONFIG_LIST_CDI_CRI));
}

/* No container that was given it would start. */
static void hardware_check_cdi(const struct resource_surroundings *surroundings,
			       struct kubelet_hardware *hardware)
{
	for (uint32_t i = 0; i < surroundings->cdi.missing_count; i++) {
		if (strcmp(surroundings->cdi.missing[i], hardware->uuid) == 0)
			hardware_blame(hardware, "no CDI specification has it: 'sluice cdi check' "
						 "says why");
	}
}

static int by_id_compare(const void *left, const void *right, void *context)
{
	const struct kubelet_device *devices = context;
	return strcmp(devices[*(const uint32_t *)left].id, devices[*(const uint32_t *)right].id);
}

/* Fills the devices from the ordered units; -EINVAL for what the kubelet would not take. */
static int resource_fill(struct kubelet_resource *resource, const struct inventory *inventory,
			 const struct unit_place *places,
			 const struct resource_surroundings *surroundings, struct err *err)
{
	uint32_t hardware_count = 0;

	for (uint32_t i = 0; i < resource->device_count; i++) {
		const struct policy_unit *unit = places[i].unit;
		struct kubelet_device *device = &resource->devices[i];
		size_t length = strlen(unit->id);
		if (length == 0 || length >= RESOURCE_ID_MAX)
			return err_set(err, -EINVAL,
				       "%s: the device id '%s' has %zu characters; the kubelet "
				       "takes 1 to %d",
				       resource->name, unit->id, length, RESOURCE_ID_MAX - 1);

		if (is_other_hardware(places, i)) {
			struct kubelet_hardware *hardware = &resource->hardware[hardware_count++];
			hardware_fill(inventory, &places[i], surroundings, hardware);
			if (resource_names_cdi(&resource->settings))
				hardware_check_cdi(surroundings, hardware);
			hardware->first = i;
		}

		memcpy(device->id, unit->id, length + 1);
		device->replica = unit->replica;
		device->hardware = &resource->hardware[hardware_count - 1];
		resource->per_gpu[unit->gpu]++;
		resource->shared |= unit->replicas > 1;
		resource->partial |= unit->replicas > 1 || unit->mig != POLICY_WHOLE_GPU;
		resource->by_id[i] = i;
	}

	qsort_r(resource->by_id, resource->device_count, sizeof(*resource->by_id), by_id_compare,
		resource->devices);

	for (uint32_t i = 1; i < resource->device_count; i++) {
		const char *id = resource->devices[resource->by_id[i]].id;
		if (strcmp(resource->devices[resource->by_id[i - 1]].id, id) == 0)
			return err_set(err, -EINVAL, "%s: the device id '%s' is there twice",
				       resource->name, id);
	}

	return 0;
}

static int resource_build(struct kubelet_resource *resource, const struct inventory *inventory,
			  const struct policy *policy, const struct policy_resource *of,
			  const struct config *config,
			  const struct resource_surroundings *surroundings, struct err *err)
{
	/* One more than needed: nothing at all is not out of memory. */
	size_t room = (size_t)of->count + 1;
	_cleanup_free_ struct unit_place *places = calloc(room, sizeof(*places));

	resource->devices = calloc(room, sizeof(*resource->devices));
	resource->by_id = calloc(room, sizeof(*resource->by_id));
	if (!places || !resource->devices || !resource->by_id ||
	    settings_fill(config, surroundings, inventory->simulated, &resource->settings) < 0)
		return err_set(err, -ENOMEM, "%s: out of memory for %u devices", of->name,
			       of->count);

	(void)snprintf(resource->name, sizeof(resource->name), "%s", of->name);
	resource->one_each = of->one_each;
	resource->device_count = of->count;

	for (uint32_t i = 0; i < of->count; i++) {
		const struct policy_unit *unit = &policy->units[of->first + i];
		places[i].unit = unit;
		places[i].gpu_index = inventory->gpus[unit->gpu].index;
		places[i].mig_index = unit->mig == POLICY_WHOLE_GPU
					  ? POLICY_WHOLE_GPU
					  : inventory->migs[unit->mig].index;
	}

	qsort(places, of->count, sizeof(*places), unit_place_compare);

	for (uint32_t i = 0; i < of->count; i++)
		resource->hardware_count += is_other_hardware(places, i);

	resource->hardware =
	    calloc((size_t)resource->hardware_count + 1, sizeof(*resource->hardware));
	if (!resource->hardware)
		return err_set(err, -ENOMEM, "%s: out of memory for %u devices", of->name,
			       of->count);

	return resource_fill(resource, inventory, places, surroundings, err);
}

int resource_new(const struct inventory *inventory, const struct policy *policy,
		 const struct policy_resource *of, const struct config *config,
		 const struct resource_surroundings *surroundings, struct kubelet_resource **out,
		 struct err *err)
{
	struct kubelet_resource *resource = calloc(1, sizeof(*resource));
	if (!resource)
		return err_set(err, -ENOMEM, "%s: out of memory", of->name);

	int rc = resource_build(resource, inventory, policy, of, config, surroundings, err);
	if (rc < 0) {
		(void)resource_free(resource);
		return rc;
	}

	*out = resource;
	return 0;
}

struct kubelet_resource *resource_free(struct kubelet_resource *resource)
{
	if (resource) {
		free(resource->settings.cdi_vendor);
		free(resource->settings.cdi_annotation_prefix);
		free(resource->settings.dev_root);
		free(resource->settings.imex_host_path);
		free(resource->hardware);
		free(resource->devices);
		free(resource->by_id);
		(void)pool_free(resource->pool);
		free(resource);
	}

	return NULL;
}

static void *resource_copy_array(const void *from, size_t count, size_t size)
{
	void *copy = calloc(count + 1, size);
	if (copy && count > 0)
		memcpy(copy, from, count * size);
	return copy;
}

/* What a text of the settings is copied to may not be NULL: that is no memory. */
static int settings_copy(const struct kubelet_settings *from, struct kubelet_settings *out)
{
	*out = *from;
	out->cdi_vendor = strdup(from->cdi_vendor);
	out->cdi_annotation_prefix = strdup(from->cdi_annotation_prefix);
	out->dev_root = strdup(from->dev_root);
	out->imex_host_path = strdup(from->imex_host_path);

	return out->cdi_vendor && out->cdi_annotation_prefix && out->dev_root && out->imex_host_path
		   ? 0
		   : -ENOMEM;
}

static int resource_copy_some(const struct kubelet_resource *from, bool with_devices,
			      struct kubelet_resource **out, struct err *err)
{
	if (from->pool) {
		struct kubelet_pool pool = *from->pool;
		pool.units = with_devices ? pool.units : 0;
		return pool_new(from->name, &pool, out, err);
	}

	struct kubelet_resource *copy = calloc(1, sizeof(*copy));
	if (!copy)
		return err_set(err, -ENOMEM, "%s: out of memory", from->name);
	if (with_devices)
		*copy = *from;
	memcpy(copy->name, from->name, sizeof(copy->name));
	copy->one_each = from->one_each;
	copy->hardware =
	    resource_copy_array(from->hardware, copy->hardware_count, sizeof(*copy->hardware));
	copy->devices =
	    resource_copy_array(from->devices, copy->device_count, sizeof(*copy->devices));
	copy->by_id = resource_copy_array(from->by_id, copy->device_count, sizeof(*copy->by_id));

	int rc = settings_copy(&from->settings, &copy->settings);
	if (rc < 0 || !copy->hardware || !copy->devices || !copy->by_id) {
		(void)resource_free(copy);
		return err_set(err, -ENOMEM, "%s: out of memory for %u devices", from->name,
			       from->device_count);
	}

	for (uint32_t i = 0; i < copy->device_count; i++)
		copy->devices[i].hardware =
		    &copy->hardware[from->devices[i].hardware - from->hardware];

	*out = copy;
	return 0;
}

int resource_copy(const struct kubelet_resource *from, struct kubelet_resource **out,
		  struct err *err)
{
	return resource_copy_some(from, true, out, err);
}

int resource_empty(const struct kubelet_resource *from, struct kubelet_resource **out,
		   struct err *err)
{
	return resource_copy_some(from, false, out, err);
}

void resource_blame(struct kubelet_resource *resource, const char *reason)
{
	if (resource->pool && resource->pool->is_healthy) {
		resource->pool->is_healthy = false;
		(void)snprintf(resource->pool->reason, sizeof(resource->pool->reason), "%s",
			       reason);
	}
	for (uint32_t i = 0; i < resource->hardware_count; i++)
		hardware_blame(&resource->hardware[i], reason);
}

uint32_t resource_healthy(const struct kubelet_resource *resource)
{
	uint32_t count = 0;
	if (resource->pool)
		return resource->pool->is_healthy ? resource->device_count : 0;
	for (uint32_t i = 0; i < resource->device_count; i++)
		count += resource->devices[i].hardware->healthy;
	return count;
}

const struct kubelet_device *resource_find(const struct kubelet_resource *resource, const char *id)
{
	uint32_t low = 0, high = resource->pool ? 0 : resource->device_count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		const struct kubelet_device *device = &resource->devices[resource->by_id[middle]];
		int order = strcmp(id, device->id);
		if (order == 0)
			return device;

		if (order < 0)
			high = middle;
		else
			low = middle + 1;
	}

	return NULL;
}

bool resource_list_is_same(const struct kubelet_resource *a, const struct kubelet_resource *b)
{
	if (a->device_count != b->device_count || !a->pool != !b->pool)
		return false;
	if (a->pool)
		return a->pool->is_healthy == b->pool->is_healthy && a->pool->numa == b->pool->numa;

	for (uint32_t i = 0; i < a->device_count; i++) {
		const struct kubelet_device *left = &a->devices[i], *right = &b->devices[i];
		if (strcmp(left->id, right->id) != 0 ||
		    left->hardware->healthy != right->hardware->healthy ||
		    left->hardware->numa != right->hardware->numa)
			return false;
	}

	return true;
}

static bool settings_are_same(const struct kubelet_settings *a, const struct kubelet_settings *b)
{
	return a->list_strategy == b->list_strategy && a->index_ids == b->index_ids &&
	       a->pass_device_specs == b->pass_device_specs && a->also_cdi == b->also_cdi &&
	       a->also_nodes == b->also_nodes && a->gdrcopy == b->gdrcopy && a->gds == b->gds &&
	       a->mofed == b->mofed && a->alloc_env == b->alloc_env && a->policy == b->policy &&
	       a->control == b->control && a->cdi_modes == b->cdi_modes &&
	       strcmp(a->cdi_vendor, b->cdi_vendor) == 0 &&
	       strcmp(a->cdi_annotation_prefix, b->cdi_annotation_prefix) == 0 &&
	       strcmp(a->dev_root, b->dev_root) == 0 &&
	       strcmp(a->imex_host_path, b->imex_host_path) == 0;
}

bool resource_is_same(const struct kubelet_resource *a, const struct kubelet_resource *b)
{
	if (a->pool && b->pool)
		return strcmp(a->name, b->name) == 0 && pool_is_same(a->pool, b->pool);
	if (strcmp(a->name, b->name) != 0 || a->one_each != b->one_each ||
	    a->hardware_count != b->hardware_count || !resource_list_is_same(a, b) ||
	    !settings_are_same(&a->settings, &b->settings))
		return false;

	for (uint32_t i = 0; i < a->hardware_count; i++) {
		const struct kubelet_hardware *left = &a->hardware[i], *right = &b->hardware[i];
		if (strcmp(left->index, right->index) != 0 || left->path_count != right->path_count)
			return false;

		for (uint32_t p = 0; p < left->path_count; p++) {
			if (strcmp(left->path[p], right->path[p]) != 0)
				return false;
		}
	}

	return true;
}
