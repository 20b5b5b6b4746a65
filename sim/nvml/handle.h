/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handles: addresses inside a table of ours that are only ever compared, never followed. The same
 * GPU or instance gets the same handle for as long as it exists; the handle of an instance that is
 * gone, or of anything else, is recognised as such.
 */
#ifndef SLUICE_SIM_NVML_HANDLE_H
#define SLUICE_SIM_NVML_HANDLE_H

#include <stdint.h>

#include "sim/machine.h"

enum handle_limits { HANDLE_MAX = 2048 };

struct handle_target {
	uint32_t gpu, gi, ci; /* slots; SIM_WHOLE_GPU where the handle says nothing */
};

void *handle_of_gpu(uint32_t gpu);
/* Of the instance in this slot; `ci` SIM_WHOLE_GPU: the GPU instance itself. A compute instance has
 * two handles, as itself and as MIG device. NULL when the table is full. */
void *handle_of_gi(const struct sim_machine *machine, uint32_t gpu, uint32_t gi);
void *handle_of_ci(const struct sim_machine *machine, uint32_t gpu, uint32_t gi, uint32_t ci);
void *handle_of_mig(const struct sim_machine *machine, uint32_t gpu, uint32_t gi, uint32_t ci);

/* 0, INVALID_ARGUMENT for what was never such a handle, NOT_FOUND for an instance that is gone. */
unsigned handle_device(const struct sim_machine *machine, const void *handle,
		       struct handle_target *out);
unsigned handle_gi(const struct sim_machine *machine, const void *handle,
		   struct handle_target *out);
unsigned handle_ci(const struct sim_machine *machine, const void *handle,
		   struct handle_target *out);

/* Around fork(): the table's lock is held by the forking thread. */
void handle_lock(void);
void handle_unlock(void);

#endif
