/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The RDMA side of the machine's network adapters: interfaces, RDMA devices, ports, character
 * devices, modules. Makers like those of trees_plan.h, called by its makers for sys, dev and proc.
 */
#ifndef SLUICE_SIM_TREES_RDMA_H
#define SLUICE_SIM_TREES_RDMA_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/trees_pci.h"
#include "sim/trees_plan.h"

/* The PCI subsystem device of simulated adapters: it is how sluice knows and says "simulated". */
#define SIM_NIC_SUBSYSTEM 0x51ce

/* Plans one node in the machine's style. */
typedef void sim_rdma_node_fn(const void *context, mode_t mode, uint32_t major_number,
			      uint32_t minor_number, const char *path);

bool sim_nic_is_present(const struct sim_machine *machine, uint32_t nic);
bool sim_nic_is_ethernet(const struct sim_machine *machine, uint32_t nic);

/* What lies below the function of one adapter, and the links of the classes to it. */
void sim_trees_plan_nic(struct sim_plan *plan, const struct sim_machine *machine,
			const struct sim_pci_function *function, uint16_t device);
/* Modules and classes of a machine that has adapters. */
void sim_trees_plan_rdma_sys(struct sim_plan *plan, const struct sim_machine *machine);
/* Their lines of /proc/modules, added to the file begun last. */
void sim_trees_plan_rdma_modules(struct sim_plan *plan, const struct sim_machine *machine);
/* /dev/infiniband. */
void sim_trees_plan_rdma_dev(struct sim_plan *plan, const struct sim_machine *machine,
			     sim_rdma_node_fn *node, const void *context);

#endif
