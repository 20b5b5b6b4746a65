/* SPDX-License-Identifier: Apache-2.0 */
/* sluice topo: how near GPUs and network adapters are to each other and to the CPUs. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "cmd/cmd.h"
#include "cmd/machine/machine.h"
#include "cmd/options.h"
#include "cmd/table.h"
#include "hardware/pci.h"
#include "hardware/topology.h"

struct topo_options {
	enum option_output output;
	uint64_t timeout_ns;
};

static const struct option_row rows[] = {
    OPTION_OUTPUT(struct topo_options, output),
    MACHINE_TIMEOUT_ROW(struct topo_options),
    {.name = NULL},
};

static const struct topo_options defaults = {.timeout_ns = MACHINE_TIMEOUT_NS};

enum { NAME_MAX_BYTES = 16 };

static const char *device_name(const struct topology_device *device, char out[NAME_MAX_BYTES])
{
	(void)snprintf(out, NAME_MAX_BYTES, "%s%u", device->kind == TOPOLOGY_GPU ? "GPU" : "NIC",
		       device->number);
	return out;
}

static void print_legend(const struct topology *topology)
{
	printf("\nX = itself; NV# = # NVLinks between the two, straight or through switches; PIX = "
	       "at most one PCIe bridge;\nPXB = several PCIe bridges; PHB = a PCIe host bridge; "
	       "NODE = host bridges of one NUMA node; SYS = between NUMA nodes\n");

	for (uint32_t i = 0; i < topology->count; i++) {
		char name[NAME_MAX_BYTES], bus[PCI_TEXT_MAX];
		const struct topology_device *device = &topology->device[i];

		if (device->kind == TOPOLOGY_NIC)
			printf("%s = %s (%s%s%s)\n", device_name(device, name), device->label,
			       device->is_simulated ? "simulated, " : "",
			       device->is_rdma ? "" : "no RDMA device, ",
			       pci_address_to_string(&device->pci, bus));
	}
}

/* A line for each GPU: which adapters a process on it should use. */
static void print_nearest(const struct topology *topology)
{
	for (uint32_t i = 0; i < topology->count; i++) {
		const struct topology_device *device = &topology->device[i];
		uint32_t nearest[TOPOLOGY_NIC_MAX],
		    count = topology_nearest_rdma(topology, i, nearest);
		if (device->kind != TOPOLOGY_GPU || count == 0)
			continue;

		char name[NAME_MAX_BYTES];
		printf("%s%s: nearest RDMA adapter%s (%s):", i == 0 ? "\n" : "",
		       device_name(device, name), count == 1 ? "" : "s",
		       gpu_level_to_string(topology->cell[i][nearest[0]].level));

		for (uint32_t n = 0; n < count; n++)
			printf(" %s", topology->device[nearest[n]].label);

		putchar('\n');
	}
}

/* Wider than what a table takes: one line per row, columns of equal width. */
static void print_matrix(const struct topology *topology)
{
	char name[NAME_MAX_BYTES], cell[TOPOLOGY_CELL_MAX];

	printf("%-6s", "");

	for (uint32_t i = 0; i < topology->count; i++)
		printf(" %-5s", device_name(&topology->device[i], name));

	printf(" %-24s %s\n", "CPU AFFINITY", "NUMA AFFINITY");

	for (uint32_t i = 0; i < topology->count; i++) {
		const struct topology_device *device = &topology->device[i];
		printf("%-6s", device_name(device, name));

		for (uint32_t j = 0; j < topology->count; j++)
			printf(" %-5s", topology_cell_to_string(topology, i, j, cell));

		printf(" %-24s ", device->cpulist[0] ? device->cpulist : "-");
		if (device->numa_node == GPU_NUMA_NONE)
			printf("-\n");
		else
			printf("%d\n", device->numa_node);
	}
}

static json_t *json_device(const struct topology *topology, uint32_t row)
{
	const struct topology_device *device = &topology->device[row];
	char name[NAME_MAX_BYTES], bus[PCI_TEXT_MAX];
	json_t *links = json_object();

	for (uint32_t i = 0; i < topology->count; i++) {
		char cell[TOPOLOGY_CELL_MAX];

		if (i == row)
			continue;

		const struct topology_cell *at = &topology->cell[row][i];
		(void)json_object_set_new(links, device_name(&topology->device[i], name),
					  json_pack("{s:s, s:s, s:I}", "connection",
						    topology_cell_to_string(topology, row, i, cell),
						    "pcie", gpu_level_to_string(at->level),
						    "nvlinks", (json_int_t)at->nvlinks));
	}

	json_t *nearest = json_array();
	uint32_t adapters[TOPOLOGY_NIC_MAX], count = topology_nearest_rdma(topology, row, adapters);

	for (uint32_t i = 0; i < count; i++)
		(void)json_array_append_new(
		    nearest,
		    json_pack("{s:s, s:o, s:s}", "name",
			      device_name(&topology->device[adapters[i]], name), "label",
			      table_json_text(topology->device[adapters[i]].label), "pcie",
			      gpu_level_to_string(topology->cell[row][adapters[i]].level)));

	json_t *object = json_pack(
	    "{s:s, s:s, s:o, s:o, s:o, s:o, s:o}", "name", device_name(device, name), "kind",
	    device->kind == TOPOLOGY_GPU ? "gpu" : "nic",
	    device->kind == TOPOLOGY_GPU ? "uuid" : "label", table_json_text(device->label), "bus",
	    table_json_text(device->has_pci ? pci_address_to_string(&device->pci, bus) : NULL),
	    "numa_node",
	    device->numa_node == GPU_NUMA_NONE ? json_null() : json_integer(device->numa_node),
	    "cpu_affinity", table_json_text(device->cpulist[0] ? device->cpulist : NULL), "to",
	    links);

	if (device->kind == TOPOLOGY_GPU) {
		(void)json_object_set_new(object, "nearest_rdma", nearest);
		return object;
	}

	json_decref(nearest);
	(void)json_object_set_new(object, "rdma", json_boolean(device->is_rdma));
	(void)json_object_set_new(object, "simulated", json_boolean(device->is_simulated));

	return object;
}

static int print_json(const struct inventory *inventory, const struct topology *topology,
		      struct err *err)
{
	json_t *root = machine_json(inventory);
	json_t *devices = json_array();
	for (uint32_t i = 0; i < topology->count; i++)
		(void)json_array_append_new(devices, json_device(topology, i));

	(void)json_object_set_new(root, "devices", devices);
	int rc = table_print_json(root, stdout, err);

	json_decref(root);
	return rc;
}

static int run(const struct cmd_call *call)
{
	const struct topo_options *options = call->options;
	_cleanup_machine_ struct machine machine = {.snapshot = NULL};
	int code = machine_read(call, options->timeout_ns, &machine, NULL, NULL);
	if (code != 0)
		return code;

	struct err err = {.code = 0};
	_cleanup_free_ struct topology *topology = NULL;
	int rc = topology_read(&machine.inventory, pci_root(), &topology, &err);
	if (rc == 0 && options->output == OPTION_OUTPUT_JSON) {
		rc = print_json(&machine.inventory, topology, &err);
	} else if (rc == 0) {
		machine_headline(&machine.inventory);
		print_matrix(topology);
		print_legend(topology);
		print_nearest(topology);
	}

	return rc < 0 ? cmd_fail(call, CMD_EXIT_FAILED, &err) : CMD_EXIT_OK;
}

static const struct cmd_example examples[] = {
    {"sluice topo", "prints the matrix that people know from 'nvidia-smi topo -m'"},
    {"sluice topo --output json", "the same for programs, with the PCIe level below each NVLink"},
    {NULL, NULL},
};

const struct command cmd_topo = {
    .name = "topo",
    .summary = "Show how GPUs and network adapters are connected",
    .description =
	"Prints for each pair how a packet gets from one to the other, and for each device the "
	"CPUs and the NUMA node beside it. NVLinks are counted from the driver, the rest is read "
	"from /sys, so that a GPU that does not answer still has its place.",
    .group = CMD_GROUP_MACHINE,
    .run = run,
    .options = rows,
    .defaults = &defaults,
    .options_size = sizeof(struct topo_options),
    .exits = machine_exits,
    .examples = examples,
};
