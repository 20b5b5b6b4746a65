/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random adapters in random states, as files of the simulator, which shares no code with the
 * reader: what is read is what the machine is, twice the same, and what happens to one adapter
 * changes nothing of the others.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/parse.h"
#include "hardware/rdma.h"
#include "sim/error.h"
#include "sim/profile.h"
#include "sim/trees.h"
#include "tests/unit/units/brute.h"

enum property_limits { ROUNDS = 6, STEPS = 3, NICS_MAX = 12 };

static struct sim_machine machine;
static struct rdma_inventory *before, *after;

static void fail(const char *what, uint32_t nic)
{
	struct sim_error error;
	(void)fprintf(stderr, "%s: adapter %u of %u, %u ports\n", what, nic, machine.nic_count,
		      machine.nic_ports);
	(void)sim_trees_remove(machine.root, &error);
	exit(1);
}

static void sync_and_read(struct rdma_inventory *out)
{
	struct sim_error error;
	struct err err = {.code = 0};
	if (sim_trees_sync(&machine, &error) != 0) {
		(void)fprintf(stderr, "%s\n", error.text);
		exit(1);
	}
	if (rdma_read(machine.root, out, &err) < 0) {
		(void)fprintf(stderr, "%s\n", err.text);
		exit(1);
	}
}

static void nic_draw(struct sim_nic *nic)
{
	*nic = (struct sim_nic){.gone = random_below(6) == 0,
				.unbound = random_below(6) == 0,
				.no_node = random_below(6) == 0,
				.wrong_node = random_below(6) == 0};
	for (uint32_t p = 0; p < SIM_NIC_PORT_MAX; p++) {
		nic->down[p] = random_below(3) == 0;
		nic->rate_gbit[p] = random_below(3) == 0 ? 50 : 0;
	}
}

static const struct rdma_function *function_of(const struct rdma_inventory *inventory,
					       const char *name)
{
	for (uint32_t f = 0; f < inventory->function_count; f++)
		for (uint32_t d = 0; d < inventory->function[f].device_count; d++)
			if (strcmp(inventory->device[inventory->function[f].devices[d]].name,
				   name) == 0)
				return &inventory->function[f];
	return NULL;
}

static void check_reasons(const struct rdma_function *function, uint32_t i)
{
	const struct sim_nic *nic = &machine.nic[i];
	uint32_t wanted = machine.rdma_exclusive + (nic->no_node || nic->wrong_node);
	if (function->reason_count != wanted)
		fail("the number of reasons", i);
	if (wanted == 0)
		return;
	uint32_t last = function->reason[wanted - 1].code;
	if (last != (nic->no_node      ? RDMA_REASON_NODE_MISSING
		     : nic->wrong_node ? RDMA_REASON_NODE_WRONG
				       : RDMA_REASON_NETNS))
		fail("the reason", i);
}

static void check_ports(const struct rdma_device *device, uint32_t i)
{
	const struct sim_nic *nic = &machine.nic[i];
	bool ethernet = i + machine.nic_ethernet >= machine.nic_count;
	if (device->port_count != machine.nic_ports)
		fail("the number of ports", i);
	if (device->node_count != 1 + machine.nic_ports * (ethernet ? 1 : 2))
		fail("the number of nodes", i);
	for (uint32_t p = 0; p < device->port_count; p++) {
		const struct rdma_port *port = &device->port[p];
		if (port->number != p + 1 || rdma_port_is_up(port) == nic->down[p])
			fail("a port's state", i);
		if (!nic->down[p] && port->rate_mbit != (nic->rate_gbit[p] ? 50000 : 100000))
			fail("a port's rate", i);
		if (port->link_layer != (ethernet ? RDMA_LAYER_ETHERNET : RDMA_LAYER_INFINIBAND))
			fail("a port's link layer", i);
	}
}

static void check(const struct rdma_inventory *inventory)
{
	uint32_t present = 0, devices = 0;
	for (uint32_t i = 0; i < machine.nic_count; i++) {
		const struct sim_nic *nic = &machine.nic[i];
		char name[16];
		(void)snprintf(name, sizeof(name), "mlx5_%u", i);
		const struct rdma_function *function = function_of(inventory, name);
		bool works = !nic->gone && !nic->unbound;
		present += !nic->gone;
		devices += works;
		if ((function != NULL) != works)
			fail("whether it is there", i);
		if (!function)
			continue;
		if (!function->simulated || function->interface_count != machine.nic_ports)
			fail("what it is", i);
		check_reasons(function, i);
		check_ports(&inventory->device[function->devices[0]], i);
	}
	if (inventory->function_count != present || inventory->device_count != devices)
		fail("how many there are", 0);
}

/* Something happens to one adapter: the others read as they did. */
static void step(void)
{
	if (machine.nic_count == 0)
		return;
	uint32_t one = random_below(machine.nic_count);
	nic_draw(&machine.nic[one]);
	sync_and_read(after);
	check(after);
	for (uint32_t i = 0; i < machine.nic_count; i++) {
		char name[16];
		(void)snprintf(name, sizeof(name), "mlx5_%u", i);
		const struct rdma_device *was = rdma_find_device(before, name),
					 *is = rdma_find_device(after, name);
		if (i != one && (was != NULL) != (is != NULL))
			fail("another came or went", i);
		if (i != one && was && memcmp(was->node, is->node, sizeof(*was->node)) != 0)
			fail("another's node changed", i);
	}
	struct rdma_inventory *swap = before;
	before = after;
	after = swap;
}

static void round_run(void)
{
	machine.nic_count = random_below(NICS_MAX + 1);
	machine.nic_ports = 1 + random_below(SIM_NIC_PORT_MAX);
	machine.nic_ethernet = random_below(machine.nic_count + 1);
	machine.rdma_exclusive = random_below(8) == 0;
	memset(machine.nic, 0, sizeof(machine.nic));
	for (uint32_t i = 0; i < machine.nic_count; i++)
		nic_draw(&machine.nic[i]);
	sync_and_read(before);
	check(before);
	sync_and_read(after);
	if (!rdma_is_same(before, after))
		fail("a second reading differs", 0);
	for (uint32_t s = 0; s < STEPS; s++)
		step();
}

int main(void)
{
	const char *seed_text = getenv("SLUICE_TEST_SEED"),
		   *rounds_text = getenv("SLUICE_TEST_ROUNDS");
	uint64_t seed = (uint64_t)time(NULL), rounds = ROUNDS;
	/* Hundreds of files are made and removed: in memory where that can be had. */
	char memory[] = "/dev/shm/sluice-property-XXXXXX", disk[] = "/tmp/sluice-property-XXXXXX";
	const char *directory = mkdtemp(memory);
	struct sim_error error;
	if (!directory)
		directory = mkdtemp(disk);
	if (!directory || (seed_text && parse_u64(seed_text, 0, UINT64_MAX, &seed) < 0) ||
	    (rounds_text && parse_u64(rounds_text, 1, 1000000, &rounds) < 0) ||
	    sim_profile_load("t4x1", NULL, &machine, &error) < 0)
		return 1;
	before = calloc(1, sizeof(*before));
	after = calloc(1, sizeof(*after));
	if (!before || !after)
		return 1;
	printf("SLUICE_TEST_SEED=%" PRIu64 "\n", seed);
	(void)fflush(stdout);
	random_seed(seed);
	machine.dev_style = SIM_DEV_FILE;
	(void)snprintf(machine.root, sizeof(machine.root), "%s/root", directory);
	for (uint64_t i = 0; i < rounds; i++)
		round_run();
	(void)sim_trees_remove(machine.root, &error);
	(void)rmdir(directory);
	free(before);
	free(after);
	return 0;
}
