/* SPDX-License-Identifier: Apache-2.0 */
#include "hardware/topology.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "hardware/rdma.h"

static uint32_t links_to(const struct gpu *gpu, const struct pci_address *remote)
{
	uint32_t count = 0;
	for (uint32_t i = 0; i < gpu->link_count; i++)
		count += gpu->link[i].peer == GPU_LINK_GPU &&
			 pci_address_compare(&gpu->link[i].remote, remote) == 0;
	return count;
}

static uint32_t links_to_switches(const struct gpu *gpu)
{
	uint32_t count = 0;
	for (uint32_t i = 0; i < gpu->link_count; i++)
		count += gpu->link[i].peer == GPU_LINK_SWITCH;
	return count;
}

uint32_t topology_nvlinks(const struct gpu *a, const struct gpu *b)
{
	if (!a->has_pci || !b->has_pci)
		return 0;

	/* A link is up when both ends are: with a table that is not symmetric, the smaller counts.
	 */
	uint32_t there = links_to(a, &b->pci), back = links_to(b, &a->pci);
	uint32_t direct = there < back ? there : back;

	if (direct > 0)
		return direct;

	uint32_t up = links_to_switches(a), down = links_to_switches(b);
	return up < down ? up : down;
}

/* One device and its place in the PCI tree. */
struct topology_place {
	bool has_path;
	struct pci_path path;
};

static void place_device(const char *root, struct topology_device *device,
			 struct topology_place *place)
{
	struct pci_device pci;
	if (!device->has_pci || pci_read_device(root, &device->pci, &pci, NULL) < 0)
		return;
	device->numa_node = pci.numa_node;
	memcpy(device->cpulist, pci.cpulist, sizeof(device->cpulist));
	place->has_path = pci.has_path;
	place->path = pci.path;
}

static void add_gpus(struct topology *topology, const struct inventory *inventory, const char *root,
		     struct topology_place *places)
{
	for (uint32_t i = 0; i < inventory->gpu_count; i++) {
		const struct gpu *gpu = &inventory->gpus[i];
		struct topology_device *device = &topology->device[topology->count];

		*device = (struct topology_device){.kind = TOPOLOGY_GPU,
						   .number = gpu->index,
						   .has_pci = gpu->has_pci,
						   .pci = gpu->pci,
						   .numa_node = gpu->numa_node};
		(void)snprintf(device->label, sizeof(device->label), "%s", gpu->uuid);
		place_device(root, device, &places[topology->count]);
		topology->count++;
	}
}

static void add_nic(struct topology *topology, const struct rdma_inventory *adapters,
		    const struct rdma_function *function, uint32_t number)
{
	struct topology_device *device = &topology->device[topology->count++];
	*device = (struct topology_device){.kind = TOPOLOGY_NIC,
					   .number = number,
					   .has_pci = true,
					   .pci = function->address,
					   .is_rdma = function->device_count > 0,
					   .is_simulated = function->simulated,
					   .numa_node = GPU_NUMA_NONE};

	char bus[PCI_TEXT_MAX];
	const char *name = pci_address_to_string(&function->address, bus);

	if (function->device_count > 0)
		name = adapters->device[function->devices[0]].name;
	else if (function->interface_count > 0)
		name = function->interface[0].name;

	(void)snprintf(device->label, sizeof(device->label), "%s", name);
}

static int add_nics(struct topology *topology, const char *root, struct topology_place *places,
		    struct err *err)
{
	_cleanup_free_ struct rdma_inventory *adapters = calloc(1, sizeof(*adapters));
	if (!adapters)
		return err_set(err, -ENOMEM, "reading the topology: no memory");

	int rc = rdma_read(root, adapters, err);
	if (rc < 0)
		return rc;

	for (uint32_t i = 0; i < adapters->function_count && i < TOPOLOGY_NIC_MAX; i++) {
		/* They come last, and are near to nothing. */
		if (adapters->function[i].is_software)
			break;

		add_nic(topology, adapters, &adapters->function[i], i);
		place_device(root, &topology->device[topology->count - 1],
			     &places[topology->count - 1]);
	}

	return 0;
}

static uint8_t level_of(const struct topology *topology, const struct topology_place *places,
			uint32_t i, uint32_t j)
{
	if (!places[i].has_path || !places[j].has_path)
		return GPU_LEVEL_UNKNOWN;
	return (uint8_t)pci_path_level(&places[i].path, topology->device[i].numa_node,
				       &places[j].path, topology->device[j].numa_node);
}

int topology_read(const struct inventory *inventory, const char *root, struct topology **out,
		  struct err *err)
{
	_cleanup_free_ struct topology *topology = calloc(1, sizeof(*topology));
	_cleanup_free_ struct topology_place *places = calloc(TOPOLOGY_MAX, sizeof(*places));
	if (!topology || !places)
		return err_set(err, -ENOMEM, "reading the topology: no memory");

	topology->simulated = inventory->simulated;
	add_gpus(topology, inventory, root, places);

	int rc = add_nics(topology, root, places, err);
	if (rc < 0)
		return rc;

	for (uint32_t i = 0; i < topology->count; i++) {
		topology->cell[i][i].level = GPU_LEVEL_INTERNAL;
		for (uint32_t j = 0; j < topology->count; j++) {
			if (i == j)
				continue;

			struct topology_cell *cell = &topology->cell[i][j];
			bool gpus = i < inventory->gpu_count && j < inventory->gpu_count;

			cell->level = gpus ? inventory->level[i][j] : GPU_LEVEL_UNKNOWN;
			if (cell->level == GPU_LEVEL_UNKNOWN)
				cell->level = level_of(topology, places, i, j);
			if (gpus)
				cell->nvlinks = (uint8_t)topology_nvlinks(&inventory->gpus[i],
									  &inventory->gpus[j]);
		}
	}

	*out = take_ptr(topology);
	return 0;
}

uint32_t topology_nearest_rdma(const struct topology *topology, uint32_t row,
			       uint32_t out[TOPOLOGY_NIC_MAX])
{
	uint32_t count = 0;
	uint8_t nearest = GPU_LEVEL_UNKNOWN;

	for (uint32_t i = 0; i < topology->count; i++) {
		uint8_t level = topology->cell[row][i].level;
		if (i == row || !topology->device[i].is_rdma || level == GPU_LEVEL_UNKNOWN ||
		    level > nearest)
			continue;
		if (level < nearest)
			count = 0;
		nearest = level;
		out[count++] = i;
	}

	return count;
}

const char *topology_cell_to_string(const struct topology *topology, uint32_t row, uint32_t column,
				    char out[TOPOLOGY_CELL_MAX])
{
	const struct topology_cell *cell = &topology->cell[row][column];
	if (row != column && cell->nvlinks > 0)
		(void)snprintf(out, TOPOLOGY_CELL_MAX, "NV%u", cell->nvlinks);
	else
		(void)snprintf(out, TOPOLOGY_CELL_MAX, "%s",
			       row == column ? "X" : gpu_level_to_string(cell->level));
	return out;
}
