/* SPDX-License-Identifier: Apache-2.0 */
/* MIG instances of a simulated GPU: which fit, create, destroy, ready layouts (simulator.md 6). */
#ifndef SLUICE_SIM_MIG_H
#define SLUICE_SIM_MIG_H

#include <stdint.h>

#include "sim/machine.h"

struct sim_error;

/* These return the numbers of nvmlReturn_t: 0, 2 invalid, 6 not found, 19 in use, 23 no room. */

/* How many more instances of row `profile` of the model's table fit now. */
uint32_t sim_mig_remaining(const struct sim_machine *machine, uint32_t gpu, uint32_t profile);
/* `start` SIM_WHOLE_GPU: the first place that is free. `*out_slot`: index into gpu->gi. */
uint32_t sim_mig_create_gi(struct sim_machine *machine, uint32_t gpu, uint32_t profile,
			   uint32_t start, uint32_t *out_slot);
uint32_t sim_mig_destroy_gi(struct sim_machine *machine, uint32_t gpu, uint32_t slot);
/* A compute instance of `slices` slices in instance `slot`. */
uint32_t sim_mig_create_ci(struct sim_machine *machine, uint32_t gpu, uint32_t slot,
			   uint32_t slices, uint32_t *out_ci_slot);
uint32_t sim_mig_destroy_ci(struct sim_machine *machine, uint32_t gpu, uint32_t slot,
			    uint32_t ci_slot);
uint32_t sim_mig_set_mode(struct sim_machine *machine, uint32_t gpu, bool enabled);

/* "none", "single", "mixed", "half", "empty", "hetero". 0, or -1 with the nearest name. */
int sim_mig_layout(struct sim_machine *machine, const char *layout, struct sim_error *error);

#endif
