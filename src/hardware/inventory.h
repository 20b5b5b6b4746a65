/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVML in, struct inventory out. One GPU that is lost, hangs or answers nonsense never hides the
 * others: it is listed with its state and with what /proc and /sys say about it. Only the probe
 * calls this, because a driver call may never come back.
 */
#ifndef SLUICE_HARDWARE_INVENTORY_H
#define SLUICE_HARDWARE_INVENTORY_H

#include <stdint.h>

#include "hardware/gpu.h"
#include "hardware/nvml.h"

struct err;

/* A GPU that must not be asked anything, because a call on it has hung before. */
struct inventory_skip {
	uint32_t index;		/* NVML's, as it was then */
	char bus[PCI_TEXT_MAX]; /* "" when the call hung before the address was known */
};

struct inventory_request {
	const char *root;		   /* prefix of /proc and /sys; "" for the real ones */
	const struct inventory_skip *skip; /* borrowed: for the call */
	uint32_t skip_count;
};

/*
 * Reads the machine. `out_handles[i]` is NVML's handle of out->gpus[i], NULL for a GPU that has
 * none (lost, skipped). `out` must be initialised and is replaced on success only.
 *
 * -EPERM: a simulated machine was asked for and the library shows a GPU that is not simulated.
 * -EIO: the driver does not even tell how many GPUs there are. -ENOMEM.
 */
int inventory_read(struct nvml_caller *caller, const struct inventory_request *request,
		   struct inventory *out, nvml_device out_handles[GPU_MAX], struct err *err);

/* The profile in the name of a MIG device: "NVIDIA A100-SXM4-40GB MIG 1g.5gb" -> "1g.5gb"; "" if
 * there is none. Pure. */
void inventory_mig_profile(const char *name, char out[GPU_PROFILE_MAX]);

#endif
