/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where every PCI function of the machine lies: host bridges, root ports, switches, GPUs, network
 * adapters and NVSwitches, such that the paths alone tell the machine's topology levels. Pure:
 * machine in, list of functions out; trees_sys.c turns the list into files.
 */
#ifndef SLUICE_SIM_TREES_PCI_H
#define SLUICE_SIM_TREES_PCI_H

#include <stdint.h>

#include "sim/machine.h"

struct sim_error;

enum sim_pci_limits {
	SIM_PCI_FUNCTION_MAX = 512,
	SIM_PCI_SWITCH_MAX = 32, /* NVSwitch functions */
};

enum sim_pci_kind {
	SIM_PCI_HOST, /* host bridge: device 0 of a root bus */
	SIM_PCI_ROOT_PORT,
	SIM_PCI_UPSTREAM, /* of a PCIe switch */
	SIM_PCI_DOWNSTREAM,
	SIM_PCI_GPU,
	SIM_PCI_NIC,
	SIM_PCI_NVSWITCH,
};

struct sim_pci_function {
	char path[SIM_PATH_MAX]; /* "sys/devices/pci0000:00/0000:00:01.0/0000:07:00.0" */
	enum sim_pci_kind kind;
	uint32_t domain, bus, device;
	uint32_t secondary, subordinate; /* buses behind a bridge */
	/* of the GPU, network adapter or NVSwitch; adapters are counted by address */
	uint32_t index;
	int32_t numa_node;
};

struct sim_pci {
	uint32_t count;
	struct sim_pci_function function[SIM_PCI_FUNCTION_MAX];
};

/*
 * Lays the machine out. GPUs of level 10 share a switch, of level 20 the switch above theirs, of
 * level 30 the root complex only (https://docs.nvidia.com/deploy/nvml-api/,
 * nvmlGpuTopologyLevel_t). Unplugged GPUs keep their place. The result does not depend on health or
 * load. 0, or -1 (SIM_EXIT_INPUT) when there are not enough bus numbers.
 */
int sim_pci_layout(const struct sim_machine *machine, struct sim_pci *out, struct sim_error *error);

#endif
