/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random adapters and selectors: what is offered is what ten lines say that is, an adapter that a
 * resource does not mean changes nothing of it, and no node is named twice.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "policy/config.h"
#include "policy/rdma.h"
#include "tests/unit/units/brute.h"

enum property_limits { ROUNDS = 2000, FUNCTIONS_MAX = 10, TEXT_SIZE = 4096 };

static const char *const vendors[] = {"15b3", "8086", "14e4"};
static const char *const models[] = {"1017", "101d", "159b"};
static const char *const drivers[] = {"mlx5_core", "irdma", ""};
static const char *const names[] = {"ib0", "ib1", "ib10", "eth0", "eth1"};
static const char *const links[] = {"", "ether", "infiniband"};

struct world {
	const char *const *values;
	uint32_t count;
	const char *key;
};
static const struct world worlds[RDMA_SELECT_COUNT] = {
    [RDMA_SELECT_VENDOR] = {vendors, 3, "vendors"},
    [RDMA_SELECT_DEVICE] = {models, 3, "deviceIDs"},
    [RDMA_SELECT_DRIVER] = {drivers, 2, "drivers"},
    [RDMA_SELECT_INTERFACE] = {names, 5, "ifNames"},
    [RDMA_SELECT_LINK] = {links + 1, 2, "linkTypes"},
};

static char text[TEXT_SIZE];
/* Which words of each selector were drawn: bits. */
static uint32_t drawn[RDMA_SELECT_COUNT];

static void fail(const char *what)
{
	(void)fprintf(stderr, "%s with\n%s\n", what, text);
	exit(1);
}

static void config_make(void)
{
	size_t length =
	    (size_t)snprintf(text, sizeof(text),
			     "{\"configList\": [{\"resourceName\": \"x\", \"rdmaHcaMax\": 1, "
			     "\"selectors\": {");
	uint32_t count = 0;
	for (uint32_t i = 0; i < RDMA_SELECT_COUNT; i++) {
		drawn[i] = random_below(2) ? random_below(1u << worlds[i].count) : 0;
		if (i + 1 == RDMA_SELECT_COUNT && count == 0 && drawn[i] == 0)
			drawn[i] = 1;
		if (drawn[i] == 0)
			continue;
		length += (size_t)snprintf(text + length, sizeof(text) - length, "%s\"%s\": [",
					   count++ ? ", " : "", worlds[i].key);
		for (uint32_t k = 0, words = 0; k < worlds[i].count; k++) {
			if (drawn[i] >> k & 1)
				length += (size_t)snprintf(text + length, sizeof(text) - length,
							   "%s\"%s\"", words++ ? ", " : "",
							   worlds[i].values[k]);
		}
		length += (size_t)snprintf(text + length, sizeof(text) - length, "]");
	}
	(void)snprintf(text + length, sizeof(text) - length, "}}]}");
}

static void device_make(struct rdma_inventory *inventory, struct rdma_function *function)
{
	uint32_t place = inventory->device_count++;
	struct rdma_device *device = &inventory->device[place];
	*device = (struct rdma_device){.node_count = 2};
	(void)snprintf(device->name, sizeof(device->name), "mlx5_%u", place);
	for (uint32_t i = 0; i < 2; i++) {
		struct rdma_node *node = &device->node[i];
		node->kind = i == 0 ? RDMA_UVERBS : RDMA_UMAD;
		node->state = random_below(5) ? RDMA_NODE_OK : RDMA_NODE_MISSING;
		(void)snprintf(node->path, sizeof(node->path), "/dev/infiniband/%s%u",
			       i == 0 ? "uverbs" : "umad", place);
	}
	function->devices[function->device_count++] = place;
}

/* Draws one function; an index into each world. */
static void function_make(struct rdma_inventory *inventory)
{
	uint32_t place = inventory->function_count++;
	struct rdma_function *function = &inventory->function[place];
	*function = (struct rdma_function){.address.bus = (uint8_t)place};
	function->vendor = (uint32_t)strtoul(vendors[random_below(3)], NULL, 16);
	function->device = (uint32_t)strtoul(models[random_below(3)], NULL, 16);
	(void)snprintf(function->driver, sizeof(function->driver), "%s", drivers[random_below(3)]);
	function->interface_count = random_below(3);
	for (uint32_t i = 0; i < function->interface_count; i++) {
		(void)snprintf(function->interface[i].name, RDMA_IFNAME_MAX, "%s",
			       names[random_below(5)]);
		function->interface[i].link_type = random_below(3);
	}
	if (random_below(4))
		device_make(inventory, function);
	/* Multiport: it shares one with the function before it. */
	else if (inventory->device_count > 0)
		function->devices[function->device_count++] = inventory->device_count - 1;
}

static bool drawn_has(uint32_t selector, const char *word)
{
	for (uint32_t k = 0; k < worlds[selector].count; k++) {
		if (drawn[selector] >> k & 1 && strcmp(worlds[selector].values[k], word) == 0)
			return true;
	}
	return drawn[selector] == 0;
}

/* The ten lines. */
static bool model(const struct rdma_inventory *inventory, const struct rdma_function *f)
{
	char vendor[8], device[8];
	bool name = drawn[RDMA_SELECT_INTERFACE] == 0, link = drawn[RDMA_SELECT_LINK] == 0;
	(void)snprintf(vendor, sizeof(vendor), "%04x", f->vendor & 0xffff);
	(void)snprintf(device, sizeof(device), "%04x", f->device & 0xffff);
	for (uint32_t i = 0; i < f->interface_count; i++) {
		name |= drawn_has(RDMA_SELECT_INTERFACE, f->interface[i].name);
		link |= drawn_has(RDMA_SELECT_LINK, links[f->interface[i].link_type]);
	}
	return drawn_has(RDMA_SELECT_VENDOR, vendor) && drawn_has(RDMA_SELECT_DEVICE, device) &&
	       drawn_has(RDMA_SELECT_DRIVER, f->driver) && name && link && f->driver[0] != '\0' &&
	       f->device_count == 1 &&
	       inventory->device[f->devices[0]].node[0].state == RDMA_NODE_OK;
}

static void check_nodes(const struct rdma_inventory *inventory, const struct rdma_policy *policy)
{
	struct rdma_node *nodes = NULL;
	size_t count = 0, expected = 0;
	bool seen[FUNCTIONS_MAX + 1] = {false};
	if (rdma_resource_nodes(&policy->resources[0], inventory, NULL, &nodes, &count, NULL) < 0)
		fail("no memory");
	for (size_t i = 1; i < count; i++) {
		if (strcmp(nodes[i - 1].path, nodes[i].path) >= 0)
			fail("nodes that are not in their order");
	}
	for (uint32_t i = 0; i < inventory->function_count; i++) {
		uint32_t place = inventory->function[i].devices[0];
		if (!model(inventory, &inventory->function[i]) || seen[place])
			continue;
		seen[place] = true;
		expected += 1 + (inventory->device[place].node[1].state == RDMA_NODE_OK);
	}
	if (count != expected + (expected > 0))
		fail("another number of nodes");
	free(nodes);
}

static void check_offered(const struct rdma_inventory *inventory, const struct rdma_policy *policy)
{
	const struct rdma_resource *resource = &policy->resources[0];
	uint32_t at = 0, offered = 0;
	for (uint32_t i = 0; i < inventory->function_count; i++) {
		bool is_candidate =
		    at < resource->candidate_count && resource->candidates[at].function == i;
		bool is_offered = is_candidate && resource->candidates[at].reason_count == 0;
		if (is_offered != model(inventory, &inventory->function[i]))
			fail("offered is not what the model says");
		at += is_candidate;
		offered += is_offered;
	}
	if (at != resource->candidate_count || offered != resource->offered)
		fail("candidates that are no functions");
}

static void round_one(struct rdma_inventory *inventory)
{
	struct config *config = NULL;
	struct rdma_policy policy, larger;
	struct err err = {0};
	config_make();
	if (config_parse_rdma(text, strlen(text), "c.json", NULL, true, &config, &err) < 0)
		fail(err.text);
	inventory->function_count = inventory->device_count = 0;
	inventory->netns = RDMA_NETNS_SHARED;
	uint32_t count = random_below(FUNCTIONS_MAX);
	for (uint32_t i = 0; i < count; i++)
		function_make(inventory);
	if (rdma_policy_make(&config->rdma, inventory, &policy, &err) < 0)
		fail(err.text);
	check_offered(inventory, &policy);
	check_nodes(inventory, &policy);
	/* One more. What it is not meant by stays as it was. */
	function_make(inventory);
	if (rdma_policy_make(&config->rdma, inventory, &larger, &err) < 0)
		fail(err.text);
	check_offered(inventory, &larger);
	for (uint32_t i = 0; i < policy.resources[0].candidate_count; i++) {
		const struct rdma_candidate *before = &policy.resources[0].candidates[i],
					    *after = &larger.resources[0].candidates[i];
		if (before->function != after->function || !rdma_candidate_is_same(before, after))
			fail("another adapter has changed what was there");
	}
	rdma_policy_done(&policy);
	rdma_policy_done(&larger);
	(void)config_free(config);
}

int main(void)
{
	const char *seed_text = getenv("SLUICE_TEST_SEED"),
		   *rounds_text = getenv("SLUICE_TEST_ROUNDS");
	uint64_t seed = seed_text ? strtoull(seed_text, NULL, 10) : 20261122;
	unsigned long rounds = rounds_text ? strtoul(rounds_text, NULL, 10) : ROUNDS;
	struct rdma_inventory *inventory = calloc(1, sizeof(*inventory));
	if (!inventory)
		return 1;
	random_seed(seed);
	printf("seed %" PRIu64 ", %lu rounds\n", seed, rounds);
	inventory->rdma_cm = (struct rdma_node){
	    .kind = RDMA_CM, .state = RDMA_NODE_OK, .path = "/dev/infiniband/rdma_cm"};
	for (unsigned long i = 0; i < rounds; i++)
		round_one(inventory);
	free(inventory);
	printf("%lu random sets of adapters: offered as the model says\n", rounds);
	return 0;
}
