/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How near the devices of a machine are to each other and to its CPUs: the matrix that people know
 * from `nvidia-smi topo -m`. Made from an inventory and from what sysfs says; asks no driver.
 */
#ifndef SLUICE_HARDWARE_TOPOLOGY_H
#define SLUICE_HARDWARE_TOPOLOGY_H

#include <stdbool.h>
#include <stdint.h>

#include "hardware/gpu.h"
#include "hardware/pci.h"

struct err;

enum topology_limits {
	TOPOLOGY_NIC_MAX = 64,
	TOPOLOGY_MAX = GPU_MAX + TOPOLOGY_NIC_MAX,
	TOPOLOGY_CELL_MAX = 8,
};

enum topology_kind { TOPOLOGY_GPU, TOPOLOGY_NIC };

struct topology_device {
	uint32_t kind;		  /* enum topology_kind */
	uint32_t number;	  /* N of GPUN (NVML's index) or NICN */
	char label[GPU_UUID_MAX]; /* the GPU's UUID; the NIC's name ("mlx5_0") or address */
	bool has_pci;
	struct pci_address pci;
	bool is_rdma, is_simulated;    /* of a NIC: it has an RDMA device; it is not real */
	int32_t numa_node;	       /* GPU_NUMA_NONE */
	char cpulist[PCI_CPULIST_MAX]; /* "" when not known */
};

struct topology_cell {
	uint8_t level;	 /* enum gpu_level */
	uint8_t nvlinks; /* 0: none between the two */
};

struct topology {
	bool simulated;
	uint32_t count; /* GPUs first, then NICs */
	struct topology_device device[TOPOLOGY_MAX];
	struct topology_cell cell[TOPOLOGY_MAX][TOPOLOGY_MAX];
};

/* Reads sysfs below `root`. `*out` is owned by the caller: free(). -ENOMEM. */
int topology_read(const struct inventory *inventory, const char *root, struct topology **out,
		  struct err *err);

/*
 * Active NVLinks between two GPUs: those that lead straight from one to the other, or, where both
 * are connected to switches, the smaller number of links to switches. Pure.
 */
uint32_t topology_nvlinks(const struct gpu *a, const struct gpu *b);
/*
 * The NICs with an RDMA device that are nearest to the device in `row`, by their places; of equal
 * ones all, ordered. Returns how many; 0 when there are none, or nobody knows where they are. Pure.
 */
uint32_t topology_nearest_rdma(const struct topology *topology, uint32_t row,
			       uint32_t out[TOPOLOGY_NIC_MAX]);
/* "X", "NV12", "PIX", "PXB", "PHB", "NODE", "SYS" or "?". Returns `out`. */
const char *topology_cell_to_string(const struct topology *topology, uint32_t row, uint32_t column,
				    char out[TOPOLOGY_CELL_MAX]);

#endif
