/* SPDX-License-Identifier: Apache-2.0 */
/* MIG instances of a simulated GPU: which fit, create, destroy, ready layouts. */
#ifndef SLUICE_SIM_MIG_H
#define SLUICE_SIM_MIG_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/machine.h"

struct sim_error;

/* These return the numbers of nvmlReturn_t: 0, 2 invalid, 3 not supported (no MIG part, or
 * MIG mode off), 6 not found, 19 in use, 23 no room. Every change counts gpu->mig_generation up and
 * queues the event "MIG configuration changed" (0x100). */

/* How many more instances of row `profile` of the model's table fit now. */
uint32_t sim_mig_remaining(const struct sim_machine *machine, uint32_t gpu, uint32_t profile);
/* `start` SIM_WHOLE_GPU: a free place is chosen as real drivers do: two-slice instances from the
 * bottom, all others from the top, so that 3g+2g+2g and 4g+3g fit in either order. `*out_slot`:
 * index into gpu->gi. */
uint32_t sim_mig_create_gi(struct sim_machine *machine, uint32_t gpu, uint32_t profile,
			   uint32_t start, uint32_t *out_slot);
uint32_t sim_mig_destroy_gi(struct sim_machine *machine, uint32_t gpu, uint32_t slot);
/* A compute instance of `slices` slices in instance `slot`, at its first free place. */
uint32_t sim_mig_create_ci(struct sim_machine *machine, uint32_t gpu, uint32_t slot,
			   uint32_t slices, uint32_t *out_ci_slot);
uint32_t sim_mig_destroy_ci(struct sim_machine *machine, uint32_t gpu, uint32_t slot,
			    uint32_t ci_slot);
/* Asks for MIG mode; it is pending until sim_mig_reset(). */
uint32_t sim_mig_set_mode(struct sim_machine *machine, uint32_t gpu, bool enabled);
/* What a reset of the GPU does to MIG: the pending mode becomes current, all instances are gone. */
void sim_mig_reset(struct sim_machine *machine, uint32_t gpu);

/* The row of the table with this NVML profile index; SIM_WHOLE_GPU when the model has none. */
uint32_t sim_mig_row(const struct sim_model *model, uint32_t index);

/* Ready layouts, for every GPU of the machine:
 * "none"; "single": 7 x 1g on every GPU; "mixed": GPUs 0-3 whole, 4-5 3g+2g+2g, 6-7 six 1g and one
 * 1g+me; "half": 7 x 1g on GPUs 0-3; "empty": MIG on without instances on GPU 0; "hetero": 3g+2g+2g
 * on every GPU. Takes effect at once and without events.
 * 0, or -1 with the nearest name. */
int sim_mig_layout(struct sim_machine *machine, const char *layout, struct sim_error *error);

#endif
