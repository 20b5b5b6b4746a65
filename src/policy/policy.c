/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/policy.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/names.h"
#include "base/parse.h"

/* A device on its way through the steps. */
struct candidate {
	uint32_t gpu, mig;
	char rule_name[CONFIG_NAME_MAX]; /* what the rules called it; sharing entries mean this one
					  */
	char name[CONFIG_NAME_MAX];	 /* of the resource; "" when no rule gave one */
	enum policy_door door;
	uint32_t replicas;
	bool one_each;
};

struct policy_maker {
	const struct inventory *inventory;
	const struct config *config;
	struct policy *policy;
	struct candidate *candidates; /* in the order of gpu and MIG device */
	size_t count;
	struct err *err;
};

static void policy_warn(struct policy *policy, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void policy_warn(struct policy *policy, const char *format, ...)
{
	if (policy->warning_count < POLICY_WARNINGS_MAX) {
		va_list arguments;
		va_start(arguments, format);
		(void)vsnprintf(policy->warning[policy->warning_count], POLICY_TEXT_MAX, format,
				arguments);
		va_end(arguments);
	}

	policy->warning_count++;
}

/* --- 1. devices ------------------------------------------------------------------------------ */

static bool gpu_is_display(const struct gpu *gpu)
{
	return strcmp(gpu->name, "DGX Display") == 0 ||
	       strcmp(gpu->name, "NVIDIA DGX Display") == 0;
}

static uint32_t gpu_mig_count(const struct inventory *inventory, uint32_t gpu)
{
	uint32_t count = 0;
	for (uint32_t i = 0; i < inventory->mig_count; i++)
		count += inventory->migs[i].parent == gpu;
	return count;
}

static bool gpu_is_mig(const struct gpu *gpu)
{
	return gpu->mig_current == GPU_MIG_ENABLED;
}

/* What the strategy `single` wants of the machine; fills policy->problem when it is not so. */
static void check_single(struct policy_maker *maker)
{
	const struct inventory *inventory = maker->inventory;
	const char *profile = NULL;
	uint32_t with = 0, without = 0, empty = POLICY_WHOLE_GPU;
	bool differ = false;

	for (uint32_t i = 0; i < inventory->gpu_count; i++) {
		if (gpu_is_display(&inventory->gpus[i]))
			continue;

		bool is_mig = gpu_is_mig(&inventory->gpus[i]);
		with += is_mig;
		without += !is_mig;

		if (is_mig && empty == POLICY_WHOLE_GPU && gpu_mig_count(inventory, i) == 0)
			empty = i;
	}

	for (uint32_t i = 0; i < inventory->mig_count; i++) {
		if (profile && strcmp(profile, inventory->migs[i].profile) != 0)
			differ = true;
		profile = inventory->migs[i].profile;
	}

	char *problem = maker->policy->problem;

	if (with > 0 && without > 0)
		(void)snprintf(
		    problem, POLICY_TEXT_MAX,
		    "all devices on the node must be configured with the same migEnabled "
		    "value (MIG is on for %u and off for %u)",
		    with, without);
	else if (empty != POLICY_WHOLE_GPU)
		(void)snprintf(problem, POLICY_TEXT_MAX,
			       "at least one device with migEnabled=true was not configured "
			       "correctly: GPU %u has no MIG devices",
			       inventory->gpus[empty].index);
	else if (differ)
		(void)snprintf(problem, POLICY_TEXT_MAX,
			       "more than one MIG device type present on node");
}

static void candidate_add(struct policy_maker *maker, uint32_t gpu, uint32_t mig)
{
	maker->candidates[maker->count++] = (struct candidate){
	    .gpu = gpu,
	    .mig = mig,
	    .door = POLICY_DOOR_NONE,
	    .replicas = 1,
	};
}

static void add_mig_devices(struct policy_maker *maker, uint32_t gpu)
{
	const struct inventory *inventory = maker->inventory;
	bool any = false;
	for (uint32_t i = 0; i < inventory->mig_count; i++) {
		if (inventory->migs[i].parent != gpu)
			continue;
		any = true;
		candidate_add(maker, gpu, i);
	}

	if (!any)
		policy_warn(maker->policy, "GPU %u (%s) is in MIG mode and has no instances",
			    inventory->gpus[gpu].index, inventory->gpus[gpu].uuid);
}

static void add_devices(struct policy_maker *maker)
{
	const struct inventory *inventory = maker->inventory;
	uint32_t strategy = maker->config->mig_strategy;

	if (strategy == CONFIG_MIG_SINGLE)
		check_single(maker);
	if (maker->policy->problem[0] != '\0')
		return;

	for (uint32_t i = 0; i < inventory->gpu_count; i++) {
		const struct gpu *gpu = &inventory->gpus[i];
		if (gpu_is_display(gpu))
			continue;

		if (gpu->uuid[0] == '\0')
			policy_warn(maker->policy, "GPU %u is left out: its UUID is not known",
				    gpu->index);
		else if (strategy != CONFIG_MIG_NONE && gpu_is_mig(gpu))
			add_mig_devices(maker, i);
		else
			candidate_add(maker, i, POLICY_WHOLE_GPU);
	}
}

/* --- 2. include and exclude ---------------------------------------------------------------------
 */

static bool selector_matches(const struct config_selector *selector,
			     const struct inventory *inventory, uint32_t gpu_place,
			     uint32_t mig_place)
{
	const struct gpu *gpu = &inventory->gpus[gpu_place];
	const struct mig_device *mig =
	    mig_place == POLICY_WHOLE_GPU ? NULL : &inventory->migs[mig_place];
	char old_name[GPU_UUID_MAX + 32];

	switch (selector->kind) {
	case CONFIG_SELECT_INDEX:
		return gpu->index == selector->index;
	case CONFIG_SELECT_MIG_INDEX:
		return mig && gpu->index == selector->index && mig->index == selector->mig_index;
	case CONFIG_SELECT_UUID:
		if (strcmp(selector->text, gpu->uuid) == 0)
			return true;

		if (!mig)
			return false;

		/* Drivers before 470 called it MIG-GPU-<uuid>/<gi>/<ci>. */
		(void)snprintf(old_name, sizeof(old_name), "MIG-%s/%u/%u", gpu->uuid, mig->gi,
			       mig->ci);
		return strcmp(selector->text, mig->uuid) == 0 ||
		       strcmp(selector->text, old_name) == 0;
	case CONFIG_SELECT_PCI:
		return gpu->has_pci && pci_address_compare(&gpu->pci, &selector->pci) == 0;
	case CONFIG_SELECT_NAME:
		return config_pattern_matches(selector->text, gpu->name);
	case CONFIG_SELECT_NUMA:
		return gpu->numa_node == (int32_t)selector->index;
	}

	return false;
}

static bool selectors_match(const struct config_selectors *selectors,
			    const struct inventory *inventory, const struct candidate *candidate)
{
	for (size_t i = 0; i < selectors->count; i++) {
		if (selector_matches(&selectors->items[i], inventory, candidate->gpu,
				     candidate->mig))
			return true;
	}
	return false;
}

/* NVIDIA_VISIBLE_DEVICES hides GPUs when it is a list; people rely on it. */
static bool is_visible(const char *visible, const struct inventory *inventory,
		       const struct candidate *candidate)
{
	static const char *const not_a_list[] = {"", "all", "none", "void"};

	if (!visible || names_find(not_a_list, visible) >= 0)
		return true;

	while (*visible != '\0') {
		size_t length = strcspn(visible, ",");
		uint64_t index;
		struct config_selector selector = {.kind = CONFIG_SELECT_UUID};

		if (parse_u64_span(visible, length, 0, UINT32_MAX, &index) == 0) {
			selector.kind = CONFIG_SELECT_INDEX;
			selector.index = (uint32_t)index;
		} else if (length > 0 && length < sizeof(selector.text)) {
			memcpy(selector.text, visible, length);
		}

		if (selector_matches(&selector, inventory, candidate->gpu, candidate->mig))
			return true;

		visible += length + (visible[length] == ',');
	}

	return false;
}

static bool is_selected(const struct inventory *inventory, const struct config *config,
			const struct policy_surroundings *surroundings,
			const struct candidate *candidate)
{
	bool included =
	    config->include.count == 0 || selectors_match(&config->include, inventory, candidate);
	return included && !selectors_match(&config->exclude, inventory, candidate) &&
	       is_visible(surroundings->visible_devices, inventory, candidate);
}

static void filter_devices(struct policy_maker *maker,
			   const struct policy_surroundings *surroundings)
{
	size_t kept = 0;
	for (size_t i = 0; i < maker->count; i++) {
		const struct candidate *candidate = &maker->candidates[i];
		if (is_selected(maker->inventory, maker->config, surroundings, candidate))
			maker->candidates[kept++] = *candidate;
	}
	maker->count = kept;
}

bool policy_selects(const struct inventory *inventory, const struct config *config,
		    const struct policy_surroundings *surroundings, uint32_t gpu, uint32_t mig)
{
	const struct candidate candidate = {.gpu = gpu, .mig = mig};
	return !gpu_is_display(&inventory->gpus[gpu]) &&
	       is_selected(inventory, config, surroundings, &candidate);
}

/* --- 3. names ------------------------------------------------------------------------------------
 */

static bool rules_name(const struct config_rules *rules, const char *text, char *out)
{
	for (size_t i = 0; i < rules->count; i++) {
		if (config_pattern_matches(rules->items[i].pattern, text)) {
			memcpy(out, rules->items[i].name, CONFIG_NAME_MAX);
			return true;
		}
	}
	return false;
}

/* "1c.3g.20gb": fewer compute slices than the instance has. */
static bool profile_is_part(const char *profile)
{
	const char *digits = profile + strspn(profile, "0123456789");
	return digits != profile && digits[0] == 'c' && digits[1] == '.';
}

static void name_mig_device(struct policy_maker *maker, struct candidate *candidate)
{
	const struct mig_device *mig = &maker->inventory->migs[candidate->mig];
	if (rules_name(&maker->config->mig_rules, mig->profile, candidate->name))
		return;
	if (maker->config->mig_strategy == CONFIG_MIG_SINGLE) {
		(void)snprintf(candidate->name, CONFIG_NAME_MAX, "nvidia.com/gpu");
		return;
	}

	if (mig->profile[0] == '\0' || profile_is_part(mig->profile)) {
		policy_warn(maker->policy,
			    "MIG device %s (%s) has no resource name and is left out; add "
			    "resources.mig: [{pattern: \"%s\", name: mig-%s}]",
			    mig->uuid, mig->profile, mig->profile, mig->profile);
		return;
	}

	(void)snprintf(candidate->name, CONFIG_NAME_MAX, "nvidia.com/mig-%s", mig->profile);

	for (char *at = candidate->name; (at = strchr(at, '+'));)
		*at = '.'; /* Kubernetes allows no '+' in names */
}

static void name_devices(struct policy_maker *maker)
{
	size_t kept = 0;

	for (size_t i = 0; i < maker->count; i++) {
		struct candidate *candidate = &maker->candidates[i];
		const struct gpu *gpu = &maker->inventory->gpus[candidate->gpu];

		if (candidate->mig != POLICY_WHOLE_GPU)
			name_mig_device(maker, candidate);
		else if (!rules_name(&maker->config->gpu_rules, gpu->name, candidate->name))
			(void)snprintf(candidate->name, CONFIG_NAME_MAX, "nvidia.com/gpu");

		if (candidate->name[0] != '\0')
			maker->candidates[kept++] = *candidate;
	}

	maker->count = kept;
}

/* --- 4. sharing ----------------------------------------------------------------------------------
 */

static bool share_selects(const struct policy_maker *maker, const struct config_share *share,
			  const struct candidate *candidate, uint32_t taken)
{
	if (share->devices == CONFIG_DEVICES_COUNT)
		return taken < share->device_count;
	return share->devices == CONFIG_DEVICES_ALL ||
	       selectors_match(&share->device_list, maker->inventory, candidate);
}

/* A list entry that names nothing that is here. */
static void share_warn(struct policy_maker *maker, const struct config_share *share, size_t number)
{
	for (size_t k = 0; k < share->device_list.count; k++) {
		const struct config_selector *selector = &share->device_list.items[k];
		bool here = false;
		for (size_t i = 0; i < maker->count && !here; i++)
			here = selector_matches(selector, maker->inventory,
						maker->candidates[i].gpu, maker->candidates[i].mig);

		if (!here)
			policy_warn(maker->policy,
				    "line %u, column %u: sharing entry %zu (%s): device '%s' is "
				    "not here now",
				    selector->line, selector->column, number, share->name,
				    selector->text);
	}
}

static void share_candidate(const struct config_sharing *sharing, const struct config_share *share,
			    struct candidate *candidate)
{
	candidate->replicas = share->replicas;
	candidate->one_each = sharing->one_each;
	if (share->rename[0] != '\0')
		memcpy(candidate->name, share->rename, CONFIG_NAME_MAX);
	else if (sharing->rename_by_default)
		(void)snprintf(candidate->name, CONFIG_NAME_MAX, "%.*s.shared",
			       (int)(CONFIG_NAME_MAX - sizeof(".shared")), share->name);
}

static void share_entry(struct policy_maker *maker, const struct config_share *share, size_t number)
{
	uint32_t taken = 0, present = 0;

	for (size_t i = 0; i < maker->count; i++) {
		struct candidate *candidate = &maker->candidates[i];
		if (strcmp(candidate->rule_name, share->name) != 0)
			continue;

		present++;
		bool selected = share_selects(maker, share, candidate, taken);
		if (selected && candidate->replicas == 1) {
			taken++;
			share_candidate(&maker->config->time_slicing, share, candidate);
		} else if (selected && share->devices == CONFIG_DEVICES_LIST) {
			policy_warn(maker->policy,
				    "line %u: sharing entry %zu (%s): GPU %u is shared by an "
				    "earlier entry, which holds",
				    share->line, number, share->name,
				    maker->inventory->gpus[candidate->gpu].index);
		}
	}

	share_warn(maker, share, number);
	if (share->devices == CONFIG_DEVICES_COUNT && taken < share->device_count && present > 0)
		policy_warn(maker->policy,
			    "line %u: sharing entry %zu (%s): %u devices are to be shared and %u "
			    "could be",
			    share->line, number, share->name, share->device_count, taken);
}

static void share_devices(struct policy_maker *maker)
{
	const struct config_sharing *sharing = &maker->config->time_slicing;
	for (size_t i = 0; i < maker->count; i++)
		memcpy(maker->candidates[i].rule_name, maker->candidates[i].name, CONFIG_NAME_MAX);

	for (size_t e = 0; e < sharing->count; e++)
		share_entry(maker, &sharing->items[e], e + 1);
}

/* --- 5. doors ------------------------------------------------------------------------------------
 */

static bool door_takes(const struct policy_maker *maker, const struct config_door *door,
		       const struct candidate *candidate)
{
	return door->is_set &&
	       (door->all || selectors_match(&door->devices, maker->inventory, candidate));
}

/*
 * A door that is named gets what it names, and of kubelet and queue the one that is not gets the
 * rest; if no door is named, everything goes to the kubelet where there is one, else to the queue.
 */
static enum policy_door door_of_rest(const struct config *config, bool has_kubelet)
{
	bool is_any_set = false;

	for (int door = 0; door < POLICY_DOOR_NONE; door++)
		is_any_set |= config->doors[door].is_set;

	if (!is_any_set)
		return has_kubelet ? POLICY_DOOR_KUBELET : POLICY_DOOR_QUEUE;
	if (!config->doors[POLICY_DOOR_KUBELET].is_set)
		return POLICY_DOOR_KUBELET;

	return config->doors[POLICY_DOOR_QUEUE].is_set ? POLICY_DOOR_NONE : POLICY_DOOR_QUEUE;
}

static int door_devices(struct policy_maker *maker, bool has_kubelet)
{
	enum policy_door rest = door_of_rest(maker->config, has_kubelet);

	for (size_t i = 0; i < maker->count; i++) {
		struct candidate *candidate = &maker->candidates[i];
		const struct gpu *gpu = &maker->inventory->gpus[candidate->gpu];
		enum policy_door taker = POLICY_DOOR_NONE;

		for (int door = 0; door < POLICY_DOOR_NONE; door++) {
			if (!door_takes(maker, &maker->config->doors[door], candidate))
				continue;
			if (taker != POLICY_DOOR_NONE)
				return err_set(
				    maker->err, -EINVAL,
				    "sluice.doors: GPU %u (%s) is given to both the %s and the %s; "
				    "a device belongs to one door at a time",
				    gpu->index, gpu->uuid, policy_door_to_string(taker),
				    policy_door_to_string((enum policy_door)door));
			taker = (enum policy_door)door;
		}

		candidate->door = taker != POLICY_DOOR_NONE ? taker : rest;
		if (candidate->door == POLICY_DOOR_NONE)
			policy_warn(maker->policy,
				    "GPU %u (%s) is given to no door in sluice.doors", gpu->index,
				    gpu->uuid);
	}

	return 0;
}

/* --- the result ----------------------------------------------------------------------------------
 */

static struct policy_resource *resource_of(struct policy *policy, const struct candidate *candidate)
{
	for (uint32_t i = 0; i < policy->resource_count; i++) {
		struct policy_resource *resource = &policy->resources[i];
		if (resource->door == candidate->door &&
		    strcmp(resource->name, candidate->name) == 0)
			return resource;
	}

	struct policy_resource *resource = &policy->resources[policy->resource_count++];
	memcpy(resource->name, candidate->name, CONFIG_NAME_MAX);
	resource->door = candidate->door;

	return resource;
}

static void unit_fill(const struct inventory *inventory, const struct candidate *candidate,
		      uint32_t replica, struct policy_unit *out)
{
	const char *uuid = candidate->mig == POLICY_WHOLE_GPU
			       ? inventory->gpus[candidate->gpu].uuid
			       : inventory->migs[candidate->mig].uuid;

	out->gpu = candidate->gpu;
	out->mig = candidate->mig;
	out->replica = replica;
	out->replicas = candidate->replicas;

	if (candidate->replicas > 1)
		(void)snprintf(out->id, sizeof(out->id), "%s::%u", uuid, replica);
	else
		(void)snprintf(out->id, sizeof(out->id), "%s", uuid);
}

/* Resources in their order, each with its units. */
static int make_units(struct policy_maker *maker)
{
	struct policy *policy = maker->policy;
	size_t units = 0;
	for (size_t i = 0; i < maker->count; i++)
		units += maker->candidates[i].replicas;

	if (units > POLICY_UNITS_MAX)
		return err_set(maker->err, -EINVAL,
			       "%zu units are more than the %d that a node may have; lower the "
			       "number of replicas",
			       units, POLICY_UNITS_MAX);

	/* One more than needed: nothing at all is not out of memory. */
	policy->resources = calloc(maker->count + 1, sizeof(*policy->resources));
	policy->units = calloc(units + 1, sizeof(*policy->units));
	if (!policy->resources || !policy->units)
		return err_set(maker->err, -ENOMEM, "out of memory for %zu units", units);

	for (int door = 0; door < POLICY_DOOR_NONE; door++) {
		for (size_t i = 0; i < maker->count; i++) {
			if ((int)maker->candidates[i].door == door)
				(void)resource_of(policy, &maker->candidates[i]);
		}
	}

	for (uint32_t r = 0; r < policy->resource_count; r++) {
		struct policy_resource *resource = &policy->resources[r];
		resource->first = policy->unit_count;
		for (size_t i = 0; i < maker->count; i++) {
			const struct candidate *candidate = &maker->candidates[i];
			if (candidate->door != resource->door ||
			    strcmp(candidate->name, resource->name) != 0)
				continue;

			for (uint32_t n = 0; n < candidate->replicas; n++)
				unit_fill(maker->inventory, candidate, n,
					  &policy->units[policy->unit_count++]);

			resource->shared |= candidate->replicas > 1;
			resource->one_each |= candidate->one_each;
		}

		resource->count = policy->unit_count - resource->first;
	}

	return 0;
}

static int policy_build(struct policy_maker *maker, const struct policy_surroundings *surroundings)
{
	add_devices(maker);
	filter_devices(maker, surroundings);
	name_devices(maker);
	share_devices(maker);
	int rc = door_devices(maker, surroundings->has_kubelet);
	return rc < 0 ? rc : make_units(maker);
}

int policy_make(const struct inventory *inventory, const struct config *config,
		const struct policy_surroundings *surroundings, struct policy **out,
		struct err *err)
{
	size_t most = (size_t)inventory->gpu_count + inventory->mig_count;
	struct policy *policy = calloc(1, sizeof(*policy));
	_cleanup_free_ struct candidate *candidates = calloc(most + 1, sizeof(*candidates));
	if (!policy || !candidates) {
		free(policy);
		return err_set(err, -ENOMEM, "out of memory for %zu devices", most);
	}

	struct policy_maker maker = {
	    .inventory = inventory,
	    .config = config,
	    .policy = policy,
	    .candidates = candidates,
	    .err = err,
	};
	int rc = policy_build(&maker, surroundings);
	if (rc < 0) {
		(void)policy_free(policy);
		return rc;
	}

	*out = policy;
	return 0;
}

struct policy *policy_free(struct policy *policy)
{
	if (policy) {
		free(policy->resources);
		free(policy->units);
		free(policy);
	}
	return NULL;
}

const struct policy_resource *policy_find(const struct policy *policy, const char *name,
					  enum policy_door door)
{
	for (uint32_t i = 0; policy && i < policy->resource_count; i++) {
		if (policy->resources[i].door == door &&
		    strcmp(policy->resources[i].name, name) == 0)
			return &policy->resources[i];
	}
	return NULL;
}

static bool resource_is_same(const struct policy *a, const struct policy_resource *left,
			     const struct policy *b, const struct policy_resource *right)
{
	if (left->count != right->count || left->shared != right->shared ||
	    left->one_each != right->one_each)
		return false;

	for (uint32_t i = 0; i < left->count; i++) {
		if (strcmp(a->units[left->first + i].id, b->units[right->first + i].id) != 0)
			return false;
	}

	return true;
}

size_t policy_compare(const struct policy *before, const struct policy *after,
		      void (*tell)(enum policy_change change,
				   const struct policy_resource *resource, void *context),
		      void *context)
{
	size_t differ = 0;

	for (uint32_t i = 0; before && i < before->resource_count; i++) {
		const struct policy_resource *old = &before->resources[i];
		if (policy_find(after, old->name, old->door))
			continue;
		tell(POLICY_REMOVED, old, context);
		differ++;
	}

	for (uint32_t i = 0; after && i < after->resource_count; i++) {
		const struct policy_resource *now = &after->resources[i];
		const struct policy_resource *old = policy_find(before, now->name, now->door);
		if (old && resource_is_same(before, old, after, now))
			continue;

		tell(old ? POLICY_CHANGED : POLICY_ADDED, now, context);
		differ++;
	}

	return differ;
}

const char *policy_change_to_string(enum policy_change change)
{
	static const char *const names[] = {"same", "added", "removed", "changed"};
	return names_at(names, change, "unknown");
}
