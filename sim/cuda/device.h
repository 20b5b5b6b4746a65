/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The GPUs of the simulated machine that this process sees, as CUDA counts them, and its entry on
 * them: what it holds of their memory stands in the machine's state, where the simulated NVML reads
 * it too. Knows nothing of time and kernels.
 */
#ifndef SLUICE_SIM_CUDA_DEVICE_H
#define SLUICE_SIM_CUDA_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/machine.h"

struct sim_state;

struct device {
	uint32_t gpu;	 /* index of the machine's */
	uint32_t gi, ci; /* ids; SIM_WHOLE_GPU: the whole GPU */
	char name[SIM_NAME_MAX + 48];
	char uuid[SIM_UUID_MAX]; /* "GPU-..." or "MIG-..." */
	char gpu_uuid[SIM_UUID_MAX];
	uint32_t pci_domain, pci_bus, pci_device;
	uint32_t sm_count;
	uint64_t memory_bytes;	/* what can be given out, and the reserved part */
	uint64_t usable_bytes;	/* what can be given out */
	uint64_t context_bytes; /* what the process takes by having a context */
	struct sim_model model;
};

struct devices {
	struct sim_state *state; /* owned */
	char path[SIM_PATH_MAX]; /* of the state; "" when it is of this process alone */
	uint32_t cuda_version;
	uint32_t count;
	struct device device[SIM_GPU_MAX];
	uint32_t links[SIM_GPU_MAX][SIM_GPU_MAX]; /* NVLinks between devices, each way */
	uint8_t level[SIM_GPU_MAX][SIM_GPU_MAX];  /* of the machine's topology */
};

/* CU_OK, or what cuInit answers. Honours $CUDA_VISIBLE_DEVICES, $SLUICE_SIM_STATE and
 * $SLUICE_SIM_PROFILE; GPUs whose device node may not be opened are left out as NVML leaves them
 * out. */
int devices_open(struct devices *out);
void devices_close(struct devices *devices); /* zeroed: nothing */

/* Which of `uuids` a list like "1,GPU-51ce,0" names, in its order: numbers, or beginnings of UUIDs
 * of GPUs ("GPU-") and MIG devices ("MIG-"). The list ends at the first that names none or more
 * than one; if a device comes twice, there are none. Returns how many. */
uint32_t devices_choose(const char *list, const char *const *uuids, uint32_t count,
			uint32_t out[SIM_GPU_MAX]);

/* Bytes of the device that all processes hold, contexts included. */
uint64_t device_used(struct devices *devices, uint32_t device);
/* Enters that this process has a context on the device and holds `bytes` of its memory, and keeps
 * it busy to `util_permille`. CU_OUT_OF_MEMORY: then nothing changed. */
int device_hold(struct devices *devices, uint32_t device, uint64_t bytes, uint32_t util_permille);
/* Takes the entry away. */
void device_leave(struct devices *devices, uint32_t device);
/* CU_OK, or what a call answers on a GPU that was lost (CU_UNKNOWN). */
int device_health(struct devices *devices, uint32_t device);

#endif
