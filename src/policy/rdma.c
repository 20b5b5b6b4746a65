/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/rdma.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/err.h"
#include "hardware/gpu.h"

/* --- selectors ----------------------------------------------------------------------------------
 */

static bool words_have(const struct rdma_config_words *words, const char *text)
{
	for (size_t i = 0; i < words->count; i++) {
		if (text[0] != '\0' && strcmp(words->items[i], text) == 0)
			return true;
	}
	return false;
}

/* As sysfs has it, without its 0x. */
static bool words_have_number(const struct rdma_config_words *words, uint32_t number)
{
	char text[16];
	(void)snprintf(text, sizeof(text), "%04x", (unsigned)number);
	return words_have(words, text);
}

/* Any of its interfaces will do: the kernel gives them no order. */
static bool words_have_interface(const struct rdma_config_words *words,
				 const struct rdma_function *function, bool by_name)
{
	for (uint32_t i = 0; i < function->interface_count; i++) {
		const struct rdma_interface *interface = &function->interface[i];
		if (words_have(words, by_name ? interface->name
					      : rdma_link_type_to_string(interface->link_type)))
			return true;
	}
	return false;
}

/* Whether the selectors of the entry mean the adapter: one word of each list that is there. One in
 * software has no vendor and no device id, and is meant without softwareAdapters, too: a reason
 * says then why it is not offered. */
static bool rdma_policy_matches(const struct rdma_config_entry *entry,
				const struct rdma_function *function)
{
	for (size_t i = 0; i < RDMA_SELECT_COUNT; i++) {
		const struct rdma_config_words *words = &entry->selectors[i];
		bool matches = false;

		if (words->count == 0)
			continue;

		switch ((enum rdma_config_selector)i) {
		case RDMA_SELECT_VENDOR:
			matches =
			    !function->is_software && words_have_number(words, function->vendor);
			break;
		case RDMA_SELECT_DEVICE:
			matches =
			    !function->is_software && words_have_number(words, function->device);
			break;
		case RDMA_SELECT_DRIVER:
			matches = words_have(words, function->driver);
			break;
		case RDMA_SELECT_INTERFACE:
		case RDMA_SELECT_LINK:
			matches = words_have_interface(words, function, i == RDMA_SELECT_INTERFACE);
			break;
		case RDMA_SELECT_COUNT:
			break;
		}

		if (!matches)
			return false;
	}

	return true;
}

/* --- resources ----------------------------------------------------------------------------------
 */

/* Whether one in software that the resource means lies on an interface of this card, which has no
 * RDMA device itself: then the card is not what is meant. */
static bool is_below_software(const struct rdma_resource *resource,
			      const struct rdma_inventory *inventory,
			      const struct rdma_function *card)
{
	for (uint32_t i = 0; card->device_count == 0 && i < inventory->function_count; i++) {
		const struct rdma_function *other = &inventory->function[i];
		if (!other->is_software || !rdma_policy_matches(resource->entry, other))
			continue;

		for (uint32_t k = 0; other->interface_count > 0 && k < card->interface_count; k++) {
			if (strcmp(card->interface[k].name, other->interface[0].name) == 0)
				return true;
		}
	}

	return false;
}

static bool resource_means(const struct rdma_resource *resource,
			   const struct rdma_inventory *inventory, uint32_t place)
{
	const struct rdma_function *function = &inventory->function[place];
	return rdma_policy_matches(resource->entry, function) &&
	       !is_below_software(resource, inventory, function);
}

static int resource_fill(struct rdma_resource *resource, const struct rdma_inventory *inventory,
			 struct err *err)
{
	uint32_t count = 0;
	for (uint32_t i = 0; i < inventory->function_count; i++)
		count += resource_means(resource, inventory, i);

	/* One more than needed: nothing at all is not out of memory. */
	resource->candidates = calloc((size_t)count + 1, sizeof(*resource->candidates));
	if (!resource->candidates)
		return err_set(err, -ENOMEM, "%s: out of memory for %u adapters", resource->name,
			       count);

	for (uint32_t i = 0; i < inventory->function_count; i++) {
		if (!resource_means(resource, inventory, i))
			continue;

		struct rdma_candidate *candidate =
		    &resource->candidates[resource->candidate_count++];
		candidate->function = i;

		if (inventory->function[i].is_software && !resource->entry->takes_software)
			candidate->reason[candidate->reason_count++].code = RDMA_REASON_SOFTWARE;
		else
			candidate->reason_count =
			    rdma_reasons(inventory, &inventory->function[i], resource->entry->needs,
					 candidate->reason);

		resource->offered += candidate->reason_count == 0;
	}

	return 0;
}

int rdma_policy_make(const struct rdma_config *config, const struct rdma_inventory *inventory,
		     struct rdma_policy *out, struct err *err)
{
	struct rdma_policy policy = {.count = 0};
	policy.resources = calloc(config->count + 1, sizeof(*policy.resources));
	if (!policy.resources)
		return err_set(err, -ENOMEM, "out of memory for %zu resources", config->count);

	policy.count = config->count;
	int rc = 0;
	for (size_t i = 0; rc == 0 && i < config->count; i++) {
		policy.resources[i].entry = &config->entries[i];
		rdma_config_name(&config->entries[i], policy.resources[i].name);
		rc = resource_fill(&policy.resources[i], inventory, err);
	}

	if (rc < 0) {
		rdma_policy_done(&policy);
		return rc;
	}

	*out = policy;
	return 0;
}

void rdma_policy_done(struct rdma_policy *policy)
{
	for (size_t i = 0; i < policy->count; i++)
		free(policy->resources[i].candidates);
	free(policy->resources);
	*policy = (struct rdma_policy){.count = 0};
}

bool rdma_resource_is_healthy(const struct rdma_resource *resource,
			      const struct rdma_candidate *candidate, const bool *is_down)
{
	bool is_looked_at = is_down && resource->entry->health == RDMA_CONFIG_HEALTH_PORT;
	return candidate->reason_count == 0 && !(is_looked_at && is_down[candidate->function]);
}

uint32_t rdma_resource_healthy(const struct rdma_resource *resource, const bool *is_down)
{
	uint32_t count = 0;
	for (uint32_t i = 0; i < resource->candidate_count; i++)
		count += rdma_resource_is_healthy(resource, &resource->candidates[i], is_down);
	return count;
}

int32_t rdma_resource_numa(const struct rdma_resource *resource,
			   const struct rdma_inventory *inventory)
{
	int32_t numa = GPU_NUMA_NONE;
	bool is_first = true;

	for (uint32_t i = 0; resource->entry->topology && i < resource->candidate_count; i++) {
		const struct rdma_candidate *candidate = &resource->candidates[i];
		int32_t own = inventory->function[candidate->function].numa_node;

		if (candidate->reason_count > 0)
			continue;
		if (!is_first && own != numa)
			return GPU_NUMA_NONE;

		numa = own;
		is_first = false;
	}

	return numa;
}

/* --- nodes --------------------------------------------------------------------------------------
 */

struct node_list {
	struct rdma_node *items;
	size_t count, room;
};

static int nodes_add(struct node_list *list, const struct rdma_node *node)
{
	if (!rdma_node_is_usable(node))
		return 0;

	if (array_room(&list->items, list->count, &list->room, 16) < 0)
		return -ENOMEM;

	list->items[list->count++] = *node;
	return 0;
}

static int nodes_add_device(struct node_list *list, const struct rdma_device *device,
			    bool management)
{
	int rc = 0;
	for (uint32_t i = 0; rc == 0 && i < device->node_count; i++) {
		const struct rdma_node *node = &device->node[i];
		if (management || (node->kind != RDMA_UMAD && node->kind != RDMA_ISSM))
			rc = nodes_add(list, node);
	}
	return rc;
}

static int node_compare(const void *left, const void *right)
{
	const struct rdma_node *a = left, *b = right;
	return strcmp(a->path, b->path);
}

/* Sorted, each once: with multiport one RDMA device serves several functions. */
static int nodes_finish(struct node_list *list, const struct rdma_node *rdma_cm, int rc,
			struct rdma_node **out, size_t *out_count, struct err *err)
{
	if (rc == 0 && list->count > 0)
		rc = nodes_add(list, rdma_cm);
	if (rc < 0) {
		free(list->items);
		return err_set(err, rc, "out of memory for the nodes of RDMA adapters");
	}

	size_t count = 0;
	if (list->count > 0)
		qsort(list->items, list->count, sizeof(*list->items), node_compare);

	for (size_t i = 0; i < list->count; i++) {
		if (count == 0 || strcmp(list->items[count - 1].path, list->items[i].path) != 0)
			list->items[count++] = list->items[i];
	}

	*out = list->items;
	*out_count = count;
	return 0;
}

int rdma_resource_nodes(const struct rdma_resource *resource,
			const struct rdma_inventory *inventory, const bool *is_down,
			struct rdma_node **out, size_t *out_count, struct err *err)
{
	struct node_list list = {.count = 0};
	int rc = 0;

	for (uint32_t i = 0; i < resource->candidate_count; i++) {
		const struct rdma_candidate *candidate = &resource->candidates[i];
		const struct rdma_function *function = &inventory->function[candidate->function];

		if (!rdma_resource_is_healthy(resource, candidate, is_down))
			continue;

		for (uint32_t k = 0; rc == 0 && k < function->device_count; k++)
			rc = nodes_add_device(&list, &inventory->device[function->devices[k]],
					      resource->entry->management);
	}

	return nodes_finish(&list, &inventory->rdma_cm, rc, out, out_count, err);
}

int rdma_device_nodes(const struct rdma_inventory *inventory, uint32_t device, bool management,
		      struct rdma_node **out, size_t *out_count, struct err *err)
{
	struct node_list list = {.count = 0};
	int rc = nodes_add_device(&list, &inventory->device[device], management);
	return nodes_finish(&list, &inventory->rdma_cm, rc, out, out_count, err);
}

/* --- words --------------------------------------------------------------------------------------
 */

/* "no driver bound", "node missing: /dev/infiniband/uverbs0": one reason. */
static void rdma_policy_reason(const struct rdma_reason *reason, char out[RDMA_POLICY_REASON_MAX])
{
	(void)snprintf(out, RDMA_POLICY_REASON_MAX, "%s%s%s", rdma_reason_to_string(reason->code),
		       reason->subject[0] ? ": " : "", reason->subject);
}

bool rdma_candidate_is_same(const struct rdma_candidate *a, const struct rdma_candidate *b)
{
	if (a->reason_count != b->reason_count)
		return false;

	for (uint32_t i = 0; i < a->reason_count; i++) {
		if (a->reason[i].code != b->reason[i].code ||
		    strcmp(a->reason[i].subject, b->reason[i].subject) != 0)
			return false;
	}

	return true;
}

void rdma_policy_explain(const struct rdma_resource *resource,
			 const struct rdma_inventory *inventory,
			 const struct rdma_candidate *candidate, char *out, size_t size)
{
	char name[RDMA_NAME_MAX], reason[RDMA_POLICY_REASON_MAX];
	int used =
	    snprintf(out, size, "%s not offered as %s",
		     rdma_function_name(inventory, &inventory->function[candidate->function], name),
		     resource->name);
	for (uint32_t i = 0; i < candidate->reason_count && used >= 0 && (size_t)used < size; i++) {
		rdma_policy_reason(&candidate->reason[i], reason);
		used += snprintf(out + used, size - (size_t)used, "%s%s", i ? "; " : ": ", reason);
	}
}

void rdma_policy_problem(const struct rdma_resource *resource,
			 const struct rdma_inventory *inventory, const bool *is_down,
			 char out[RDMA_POLICY_REASON_MAX])
{
	out[0] = '\0';
	if (rdma_resource_healthy(resource, is_down) > 0)
		return;

	if (resource->candidate_count == 0)
		(void)snprintf(out, RDMA_POLICY_REASON_MAX,
			       "no adapter of this machine matches its selectors");
	else if (resource->offered > 0)
		(void)snprintf(out, RDMA_POLICY_REASON_MAX, "no port of its %u adapter%s is up",
			       resource->offered, resource->offered == 1 ? "" : "s");
	else if (inventory->netns == RDMA_NETNS_EXCLUSIVE)
		(void)snprintf(out, RDMA_POLICY_REASON_MAX, "%s",
			       rdma_reason_to_string(RDMA_REASON_NETNS));
	else
		rdma_policy_reason(&resource->candidates[0].reason[0], out);
}
