/* SPDX-License-Identifier: Apache-2.0 */
/* Which adapters match is the property test's (tests/property/rdma_test.c). */
#include "policy/rdma.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/err.h"
#include "policy/config.h"
#include "tests/unit/failmalloc.h"
#include "tests/unit/unit.h"

enum { HCAS = 4 };

static struct rdma_inventory *machine;
static struct config *config;
static struct rdma_policy policy;

static void add_node(struct rdma_device *device, enum rdma_node_kind kind, unsigned number)
{
	struct rdma_node *node = &device->node[device->node_count++];
	*node = (struct rdma_node){.kind = kind, .state = RDMA_NODE_OK, .mode = 0666};
	(void)snprintf(node->path, sizeof(node->path), "/dev/infiniband/%s%u",
		       rdma_node_kind_to_string(kind), number);
}

/* Four HCAs as a DGX-1 has them, two on each NUMA node. */
static int set_up(void **state)
{
	(void)state;
	machine = calloc(1, sizeof(*machine));
	assert_non_null(machine);
	machine->netns = RDMA_NETNS_SHARED;
	machine->rdma_cm = (struct rdma_node){
	    .kind = RDMA_CM, .state = RDMA_NODE_OK, .path = "/dev/infiniband/rdma_cm"};
	machine->function_count = machine->device_count = HCAS;
	for (uint32_t i = 0; i < HCAS; i++) {
		struct rdma_function *function = &machine->function[i];
		*function = (struct rdma_function){.address = {.bus = (uint8_t)(5 + 64 * i)},
						   .vendor = 0x15b3,
						   .device = 0x1017,
						   .class_ = 0x020700,
						   .driver = "mlx5_core",
						   .numa_node = (int32_t)i / 2,
						   .interface_count = 1,
						   .device_count = 1,
						   .devices = {i}};
		(void)snprintf(function->interface[0].name, RDMA_IFNAME_MAX, "ib%u", i);
		function->interface[0].link_type = RDMA_LINK_INFINIBAND;
		(void)snprintf(machine->device[i].name, RDMA_NAME_MAX, "mlx5_%u", i);
		add_node(&machine->device[i], RDMA_UVERBS, i);
		add_node(&machine->device[i], RDMA_UMAD, i);
		add_node(&machine->device[i], RDMA_ISSM, i);
	}
	return 0;
}

static void forget(void)
{
	rdma_policy_done(&policy);
	config = config_free(config);
}

static int tear_down(void **state)
{
	(void)state;
	forget();
	free(machine);
	return 0;
}

/* One entry of our own kind with these fields. */
static const struct rdma_resource *make(const char *fields)
{
	char text[512];
	struct err err = {0};
	forget();
	(void)snprintf(text, sizeof(text),
		       "sluice: {rdma: {configList: [{resourceName: hca, rdmaHcaMax: 10, %s}]}}",
		       fields);
	if (config_parse(text, strlen(text), "c.yaml", NULL, true, &config, &err) < 0 ||
	    rdma_policy_make(&config->rdma, machine, &policy, &err) < 0)
		fail_msg("%s", err.text);
	assert_int_equal(policy.count, 1);
	return &policy.resources[0];
}

static void check_nodes(const struct rdma_resource *resource, const bool *is_down,
			const char *expected)
{
	struct rdma_node *nodes = NULL;
	size_t count = 0, length = 0;
	char text[1024] = "";
	assert_int_equal(rdma_resource_nodes(resource, machine, is_down, &nodes, &count, NULL), 0);
	for (size_t i = 0; i < count; i++)
		length +=
		    (size_t)snprintf(text + length, sizeof(text) - length, "%s%s", i ? " " : "",
				     nodes[i].path + strlen("/dev/infiniband/"));
	assert_string_equal(text, expected);
	free(nodes);
}

#define ALL "selectors: {vendors: [15b3]}"

static void test_nodes(void **state)
{
	(void)state;
	const bool is_down[HCAS] = {false, true, true, false};
	const bool all_down[HCAS] = {true, true, true, true};
	check_nodes(make(ALL), NULL, "rdma_cm uverbs0 uverbs1 uverbs2 uverbs3");
	check_nodes(make(ALL), is_down, "rdma_cm uverbs0 uverbs3");
	check_nodes(make(ALL), all_down, "");
	check_nodes(make(ALL ", healthCheck: off"), all_down,
		    "rdma_cm uverbs0 uverbs1 uverbs2 uverbs3");
	check_nodes(make("devices: [ib1], management: true"), NULL, "issm1 rdma_cm umad1 uverbs1");
	machine->rdma_cm.state = RDMA_NODE_MISSING;
	check_nodes(make("devices: [ib1]"), NULL, "uverbs1");
	/* RoCE has no issm: that costs nothing. */
	machine->device[1].node_count = 2;
	check_nodes(make("devices: [ib1], management: true"), NULL, "umad1 uverbs1");
	machine->device[1].node[1].state = RDMA_NODE_WRONG;
	check_nodes(make("devices: [ib1], management: true"), NULL, "uverbs1");
}

static void test_nodes_of_one_device(void **state)
{
	(void)state;
	struct rdma_node *nodes = NULL;
	size_t count = 0;
	assert_int_equal(rdma_device_nodes(machine, 2, true, &nodes, &count, NULL), 0);
	assert_int_equal(count, 4);
	assert_string_equal(nodes[0].path, "/dev/infiniband/issm2");
	assert_string_equal(nodes[1].path, "/dev/infiniband/rdma_cm");
	free(nodes);
	assert_int_equal(rdma_device_nodes(machine, 2, false, &nodes, &count, NULL), 0);
	assert_int_equal(count, 2);
	free(nodes);
}

static void test_where_they_are(void **state)
{
	(void)state;
	assert_int_equal(rdma_resource_numa(make("devices: [ib2, ib3]"), machine), 1);
	assert_int_equal(rdma_resource_numa(make(ALL), machine), GPU_NUMA_NONE);
	assert_int_equal(rdma_resource_numa(make("devices: [ib2], topology: false"), machine),
			 GPU_NUMA_NONE);
	/* One that is not offered does not count. */
	machine->function[1].device_count = 0;
	assert_int_equal(rdma_resource_numa(make("devices: [ib1, ib2]"), machine), 1);
	machine->function[2].numa_node = GPU_NUMA_NONE;
	assert_int_equal(rdma_resource_numa(make("devices: [ib2]"), machine), GPU_NUMA_NONE);
	assert_int_equal(rdma_resource_numa(make("devices: [ib2, ib3]"), machine), GPU_NUMA_NONE);
}

static void check_problem(const struct rdma_resource *resource, const bool *is_down,
			  const char *expected)
{
	char text[RDMA_POLICY_REASON_MAX];
	rdma_policy_problem(resource, machine, is_down, text);
	assert_string_equal(text, expected);
}

static void test_why_not(void **state)
{
	(void)state;
	char text[256];
	const bool all_down[HCAS] = {true, true, true, true};
	machine->function[0].driver[0] = '\0';
	machine->function[0].device_count = 0;
	machine->device[1].node[0].state = RDMA_NODE_MISSING;
	machine->device[1].node[1].state = RDMA_NODE_WRONG;
	const struct rdma_resource *resource = make(ALL ", require: [uverbs, umad]");
	assert_int_equal(resource->candidate_count, 4);
	assert_int_equal(resource->offered, 2);
	rdma_policy_explain(resource, machine, &resource->candidates[0], text, sizeof(text));
	assert_string_equal(text, "0000:05:00.0 not offered as rdma/hca: no driver bound");
	rdma_policy_explain(resource, machine, &resource->candidates[1], text, sizeof(text));
	assert_string_equal(text, "0000:45:00.0 not offered as rdma/hca: node missing: "
				  "/dev/infiniband/uverbs1; node has wrong numbers: "
				  "/dev/infiniband/umad1");
	check_problem(resource, NULL, "");
	check_problem(resource, all_down, "no port of its 2 adapters is up");
	check_problem(make("devices: [ib9]"), NULL,
		      "no adapter of this machine matches its selectors");
	check_problem(make("devices: [ib0]"), NULL, "no driver bound");
	machine->netns = RDMA_NETNS_EXCLUSIVE;
	check_problem(make(ALL), NULL, "rdma subsystem is in exclusive netns mode");
}

/* One on the interface of a card that has no RDMA device, one on an interface of no card. */
static void add_software(void)
{
	machine->function[3].device_count = 0;
	machine->function[3].interface[0].link_type = RDMA_LINK_ETHER;
	for (uint32_t i = 0; i < 2; i++) {
		uint32_t place = machine->device_count++;
		struct rdma_function *function = &machine->function[machine->function_count++];
		*function = (struct rdma_function){.is_software = true,
						   .driver = "rdma_rxe",
						   .numa_node = GPU_NUMA_NONE,
						   .interface_count = 1,
						   .device_count = 1,
						   .devices = {place}};
		(void)snprintf(function->interface[0].name, RDMA_IFNAME_MAX, i ? "veth0" : "ib3");
		function->interface[0].link_type = RDMA_LINK_ETHER;
		(void)snprintf(machine->device[place].name, RDMA_NAME_MAX, "rxe%u", i);
		add_node(&machine->device[place], RDMA_UVERBS, place);
	}
}

static void test_software(void **state)
{
	(void)state;
	char text[256];
	add_software();
	/* Without the word nothing is handed out, and it is said which word it is. */
	const struct rdma_resource *resource = make("devices: [ib3]");
	assert_int_equal(resource->offered, 0);
	assert_int_equal(resource->candidate_count, 1);
	rdma_policy_explain(resource, machine, &resource->candidates[0], text, sizeof(text));
	assert_string_equal(text, "rxe0 not offered as rdma/hca: software adapter, and "
				  "softwareAdapters is not set");
	check_problem(resource, NULL, "software adapter, and softwareAdapters is not set");
	check_nodes(resource, NULL, "");
	check_nodes(make("devices: [veth0], softwareAdapters: false"), NULL, "");
	/* With it each selector that it has a word for means it. */
	check_nodes(make("devices: [ib3], softwareAdapters: true"), NULL, "rdma_cm uverbs4");
	assert_int_equal(policy.resources[0].candidate_count, 1); /* the card is not meant */
	check_nodes(make("selectors: {drivers: [rdma_rxe]}, softwareAdapters: true"), NULL,
		    "rdma_cm uverbs4 uverbs5");
	check_nodes(make("selectors: {linkTypes: [ether], ifNames: [veth0, ib1]}, "
			 "softwareAdapters: true"),
		    NULL, "rdma_cm uverbs5");
	/* It has no numbers, not even those of nothing. */
	check_nodes(make("selectors: {vendors: ['0000']}, softwareAdapters: true"), NULL, "");
	check_nodes(make("selectors: {deviceIDs: ['0000']}, softwareAdapters: true"), NULL, "");
	check_nodes(make(ALL ", softwareAdapters: true"), NULL, "rdma_cm uverbs0 uverbs1 uverbs2");
	/* The kubelet is told no place that it does not have. */
	assert_int_equal(
	    rdma_resource_numa(make("devices: [veth0], softwareAdapters: true"), machine),
	    GPU_NUMA_NONE);
	const bool is_down[HCAS + 2] = {[HCAS] = true};
	check_nodes(make("selectors: {drivers: [rdma_rxe]}, softwareAdapters: true"), is_down,
		    "rdma_cm uverbs5");
}

static int scenario(void *context)
{
	struct rdma_policy made = {.count = 0};
	struct rdma_node *nodes = NULL;
	size_t count = 0;
	(void)context;
	int rc = rdma_policy_make(&config->rdma, machine, &made, NULL);
	if (rc == 0)
		rc = rdma_resource_nodes(&made.resources[0], machine, NULL, &nodes, &count, NULL);
	free(nodes);
	rdma_policy_done(&made);
	return rc;
}

static void test_without_memory(void **state)
{
	(void)state;
	(void)make(ALL);
	assert_true(failmalloc_each(scenario, NULL) >= 3);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(test_nodes),	       TEST(test_nodes_of_one_device),
	    TEST(test_where_they_are), TEST(test_why_not),
	    TEST(test_software),       TEST(test_without_memory),
	};
	return cmocka_run_group_tests_name("policy/rdma", tests, NULL, NULL);
}
