/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which GPUs and MIG devices somebody means who writes indices and UUIDs on a command line, in the
 * way of nvidia-container-cli. Pure. Called by devices_files.c.
 *
 * Facts: https://github.com/NVIDIA/libnvidia-container, src/cli/common.c.
 */
#ifndef SLUICE_CMD_MACHINE_DEVICES_SELECT_H
#define SLUICE_CMD_MACHINE_DEVICES_SELECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hardware/gpu.h"

struct err;

enum { DEVICES_SELECT_MIG_MAX = GPU_MAX * GPU_MIG_MAX };

/* Places in the inventory, each once, in the order in which they were asked for. */
struct devices_select {
	bool all; /* by the word "all" */
	uint32_t gpu_count, mig_count;
	uint32_t gpus[GPU_MAX];
	uint32_t migs[DEVICES_SELECT_MIG_MAX]; /* their GPUs are among `gpus` */
};

/*
 * Each text holds ids with commas between: "all", "none", an index ("0"), a GPU's UUID or address
 * ("00000000:07:00.0"), a MIG device's UUID or indices ("0:1"). Nothing stands behind "all".
 * -ENODEV: there is no such device, the text names it.
 */
int devices_select(const struct inventory *inventory, const char *const *texts, size_t count,
		   struct devices_select *out, struct err *err);

/*
 * Who may change or watch MIG: the texts can only be "all", which means the GPUs of `visible` that
 * know MIG, and is an error beside single MIG devices. `option` is for the messages. `*out`:
 * whether it was asked for. -EINVAL.
 */
int devices_select_mig(const struct devices_select *visible, const char *const *texts, size_t count,
		       const char *option, bool *out, struct err *err);

#endif
