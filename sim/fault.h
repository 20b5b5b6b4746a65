/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fault injection: each fault shows on every surface on which it would show (simulator.md section
 * 5). The table in fault.c is the list of kinds, their options and their help text.
 */
#ifndef SLUICE_SIM_FAULT_H
#define SLUICE_SIM_FAULT_H

#include "sim/machine.h"

struct sim_error;
struct sim_state;

/* One request as the command line gives it. Unused numbers are SIM_WHOLE_GPU or 0. */
struct sim_fault {
	const char *kind;      /* "xid", "ecc", "lost", "hang", ... */
	const char *arguments[4]; /* positional: code, "corrected", link number, "down", ... */
	uint32_t argument_count;
	uint32_t gpu, gi, ci, pid;
	uint32_t ms;
	const char *form; /* of the kernel-log record: new|old|mig|threeline|nvlink5 */
	bool contained, uncontained, fan_stuck;
	int32_t ambient_c;
};

/* Applies it. 0, or -1 with SIM_EXIT_INPUT and the nearest name for what is unknown. */
int sim_fault_inject(struct sim_state *state, const struct sim_fault *fault,
		     struct sim_error *error);
/* Takes all injected conditions back (of one GPU, or SIM_WHOLE_GPU for all). Counters stay. */
int sim_fault_heal(struct sim_state *state, uint32_t gpu, struct sim_error *error);
int sim_fault_reset_gpu(struct sim_state *state, uint32_t gpu, struct sim_error *error);
int sim_fault_reload_driver(struct sim_state *state, struct sim_error *error);

#endif
