/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is in this machine, as plain data: GPUs, MIG instances, driver. No pointers into NVML and
 * none between the parts, so that it can be sent from the probe to whoever asks, compared and kept.
 * Filled by hardware/inventory.c; read by policy, units, doors and commands. Knows nothing of how
 * a GPU may be shared.
 *
 * A number that a GPU or driver does not give is the field's GPU_*_UNKNOWN or the empty string:
 * absent is never zero.
 */
#ifndef SLUICE_HARDWARE_GPU_H
#define SLUICE_HARDWARE_GPU_H

#include <stdbool.h>
#include <stdint.h>

enum gpu_limits {
	GPU_MAX = 64,		   /* GPUs of one machine */
	GPU_MIG_MAX = 16,	   /* MIG devices of one GPU; the hardware of today has at most 8 */
	GPU_LINK_MAX = 36,	   /* NVLinks of one GPU (NVML_NVLINK_MAX_LINKS of API 13) */
	GPU_UUID_MAX = 96,	   /* NVML_DEVICE_UUID_V2_BUFFER_SIZE */
	GPU_NAME_MAX = 96,	   /* NVML_DEVICE_NAME_V2_BUFFER_SIZE */
	GPU_SERIAL_MAX = 32,	   /* NVML_DEVICE_SERIAL_BUFFER_SIZE is 30 */
	GPU_PROFILE_MAX = 32,	   /* "1g.5gb+me" */
	GPU_VERSION_MAX = 80,	   /* NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE */
	GPU_REASON_MAX = 192,	   /* why a GPU is not ok, one sentence */
	GPU_PATH_MAX = 512,	   /* of the library */
	GPU_FABRIC_UUID_SIZE = 16, /* NVML_GPU_FABRIC_UUID_LEN */
	PCI_TEXT_MAX = 16,	   /* "0000:07:00.0" and, with a wide domain, "10000:07:00.0" */
};

#define GPU_U32_UNKNOWN UINT32_MAX
#define GPU_U64_UNKNOWN UINT64_MAX
#define GPU_NUMA_NONE	(-1) /* the machine has no NUMA nodes, or does not say which */
/* The UUIDs of simulated GPUs and of their MIG devices start so; no real one does. */
#define GPU_SIMULATED_PREFIX "GPU-51ce51ce-"
#define MIG_SIMULATED_PREFIX "MIG-51ce51ce-"

struct pci_address {
	uint32_t domain;
	uint8_t bus, device, function;
};

enum gpu_state {
	GPU_STATE_OK,
	GPU_STATE_LOST,		  /* fell off the bus: NVML answers GPU_IS_LOST */
	GPU_STATE_RESET_REQUIRED, /* NVML answers RESET_REQUIRED */
	GPU_STATE_HUNG,		  /* a driver call on it did not come back */
	GPU_STATE_ERROR,	  /* anything else; the reason says what */
};

enum gpu_architecture { /* numbers of nvmlDeviceArchitecture_t */
			GPU_ARCH_UNKNOWN = 0,
			GPU_ARCH_KEPLER = 2,
			GPU_ARCH_MAXWELL = 3,
			GPU_ARCH_PASCAL = 4,
			GPU_ARCH_VOLTA = 5,
			GPU_ARCH_TURING = 6,
			GPU_ARCH_AMPERE = 7,
			GPU_ARCH_ADA = 8,
			GPU_ARCH_HOPPER = 9,
			GPU_ARCH_BLACKWELL = 10,
};

/* How near two devices are, by what a packet between them has to cross. Numbers of
 * nvmlGpuTopologyLevel_t; the words of `nvidia-smi topo -m` beside them. */
enum gpu_level {
	GPU_LEVEL_INTERNAL = 0,	   /* the same board */
	GPU_LEVEL_SINGLE = 10,	   /* PIX: at most one PCIe bridge */
	GPU_LEVEL_MULTIPLE = 20,   /* PXB: several bridges, no host bridge */
	GPU_LEVEL_HOSTBRIDGE = 30, /* PHB: a PCIe host bridge */
	GPU_LEVEL_NODE = 40,	   /* NODE: host bridges of one NUMA node */
	GPU_LEVEL_SYSTEM = 50,	   /* SYS: the interconnect between NUMA nodes */
	GPU_LEVEL_UNKNOWN = 255,
};

enum gpu_mig_mode { GPU_MIG_UNSUPPORTED, GPU_MIG_DISABLED, GPU_MIG_ENABLED };

enum gpu_link_peer {
	GPU_LINK_ABSENT, /* the GPU has no such link, or the driver does not say */
	GPU_LINK_DOWN,	 /* there, and not active */
	GPU_LINK_GPU,	 /* active, another GPU at the other end */
	GPU_LINK_SWITCH, /* active, an NVSwitch */
	GPU_LINK_OTHER,	 /* active, something else (an IBM NPU) or not told */
};

struct gpu_link {
	uint8_t peer;		   /* enum gpu_link_peer */
	struct pci_address remote; /* valid for GPU_LINK_GPU, GPU_LINK_SWITCH, GPU_LINK_OTHER */
};

struct gpu {
	uint32_t index; /* NVML's, in this boot of the driver; for people */
	uint32_t minor; /* /dev/nvidia<minor>; not the index */
	char uuid[GPU_UUID_MAX];
	char name[GPU_NAME_MAX];
	char serial[GPU_SERIAL_MAX];
	char vbios[GPU_SERIAL_MAX];
	char board_part[GPU_SERIAL_MAX];

	uint32_t state;		     /* enum gpu_state */
	char reason[GPU_REASON_MAX]; /* "" when ok */

	bool has_pci;
	struct pci_address pci;
	uint32_t pci_device_id, pci_subsystem_id; /* device << 16 | vendor, as NVML gives them */
	int32_t numa_node;			  /* GPU_NUMA_NONE when there is none */
	uint32_t pcie_gen_max, pcie_width_max;

	uint64_t memory_bytes;	     /* total, as NVML gives it */
	uint32_t architecture;	     /* enum gpu_architecture; newer ones keep NVML's number */
	uint32_t cc_major, cc_minor; /* compute capability */
	uint32_t brand;		     /* nvmlBrandType_t */
	uint32_t core_count;
	uint32_t power_min_mw, power_max_mw, power_default_mw, power_limit_mw;
	uint32_t slowdown_c, shutdown_c; /* temperatures */

	uint32_t mig_current, mig_pending; /* enum gpu_mig_mode */
	uint32_t mig_max;		   /* MIG devices it can have; 0 without MIG */
	uint32_t mig_generation;	   /* counts the re-layouts seen since the probe started */
	uint32_t ecc_current, ecc_pending; /* 0, 1 or GPU_U32_UNKNOWN */
	uint32_t persistence;		   /* 0, 1 or GPU_U32_UNKNOWN */
	uint32_t compute_mode;		   /* nvmlComputeMode_t or GPU_U32_UNKNOWN */

	uint32_t link_count; /* entries of `link` in use */
	struct gpu_link link[GPU_LINK_MAX];

	bool has_fabric; /* joined an NVLink fabric, as the driver says; the two below are valid */
	uint8_t fabric_cluster[GPU_FABRIC_UUID_SIZE];
	uint32_t fabric_clique;
};

struct mig_device {
	uint32_t parent; /* place in inventory.gpus, not NVML's index */
	uint32_t index;	 /* among the MIG devices of its parent, as NVML enumerates them */
	char uuid[GPU_UUID_MAX];
	uint32_t gi, ci;	       /* GPU instance and compute instance ids */
	char profile[GPU_PROFILE_MAX]; /* "3g.20gb", "1c.3g.20gb"; "" when not known */
	uint64_t memory_bytes;
	uint32_t sm_count; /* multiprocessors; GPU_U32_UNKNOWN: these and the next lines too */
	uint32_t gi_slices, ci_slices;
	uint32_t copy_engines, decoders, encoders, jpegs, ofas; /* shared with its neighbours */
	/* The parent's mig_generation when this instance was first seen: tells an instance from a
	 * later one that has the same place and perhaps the same UUID. */
	uint32_t generation;
};

/* The machine. Freed by inventory_done(). */
struct inventory {
	char driver_version[GPU_VERSION_MAX]; /* "580.105.08" */
	char nvml_version[GPU_VERSION_MAX];
	char library_path[GPU_PATH_MAX]; /* of the loaded libnvidia-ml.so.1, links resolved */
	uint32_t cuda_version;		 /* 13000 = 13.0; 0 when not known */
	bool simulated; /* at least one simulated GPU, or the simulator's library */

	uint32_t gpu_count;
	struct gpu *gpus; /* owned; ordered by PCI address, those without one last */
	uint32_t mig_count;
	struct mig_device *migs; /* owned; ordered by parent, then index */
	/* enum gpu_level between gpus[i] and gpus[j] as NVML says; GPU_LEVEL_UNKNOWN otherwise */
	uint8_t level[GPU_MAX][GPU_MAX];
};

/* An inventory of nothing. Allocates nothing. */
void inventory_init(struct inventory *inventory);
void inventory_done(struct inventory *inventory);
#define _cleanup_inventory_ __attribute__((cleanup(inventory_done)))
/* A deep copy. -ENOMEM. */
int inventory_copy(const struct inventory *from, struct inventory *out);

/* The GPU with this UUID, or NULL. Borrowed: valid until the inventory changes. */
const struct gpu *inventory_find_gpu(const struct inventory *inventory, const char *uuid);
const struct mig_device *inventory_find_mig(const struct inventory *inventory, const char *uuid);

/* "ok", "lost", "reset required", "hung", "error". */
const char *gpu_state_to_string(uint32_t state);
/* "Ampere"; "unknown" for what this build does not know. */
const char *gpu_architecture_to_string(uint32_t architecture);
/* "Tesla", "GeForce", "Unknown": of nvmlBrandType_t, spelled as NVIDIA's programs do. */
const char *gpu_brand_to_string(uint32_t brand);
/* "unsupported", "disabled", "enabled". */
const char *gpu_mig_mode_to_string(uint32_t mode);
/* "PIX", "PXB", "PHB", "NODE", "SYS"; "X" for INTERNAL, "?" otherwise. */
const char *gpu_level_to_string(uint32_t level);
/* Whether the UUID (of a GPU or MIG device) says that the device is simulated. */
bool gpu_uuid_is_simulated(const char *uuid);

/* "0000:07:00.0": the form of /sys/bus/pci/devices. Returns `out`. */
const char *pci_address_to_string(const struct pci_address *address, char out[PCI_TEXT_MAX]);
/* Orders by domain, bus, device, function; <0, 0, >0. */
int pci_address_compare(const struct pci_address *a, const struct pci_address *b);

#endif
