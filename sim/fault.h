/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fault injection: each fault shows on every surface on which it would show on a real machine:
 * return codes and counters of NVML, its events, the kernel log, sysfs and /dev. The table in
 * fault.c is the list of kinds, their arguments and their help.
 *
 * All of these change a machine that the caller has for writing (sim_state_write()); records of the
 * kernel log are appended at once. The caller syncs the trees and commits.
 */
#ifndef SLUICE_SIM_FAULT_H
#define SLUICE_SIM_FAULT_H

#include <stddef.h>

#include "sim/kmsg.h"
#include "sim/machine.h"

struct sim_error;

enum sim_fault_limits { SIM_FAULT_ARGUMENT_MAX = 3 };

/* One request as the command line gives it. Zero where nothing is said. */
struct sim_fault {
	const char *kind;			      /* "xid", "ecc", "lost", "hang", ... */
	const char *argument[SIM_FAULT_ARGUMENT_MAX]; /* code, "corrected", link number, "down" */
	uint32_t argument_count;
	uint32_t gpu;	 /* SIM_WHOLE_GPU: not said */
	uint32_t gi, ci; /* SIM_WHOLE_GPU: the whole GPU */
	uint32_t pid;
	uint32_t ms;	       /* of hang and slow */
	uint32_t result;       /* of return: nvmlReturn_t */
	uint32_t after, count; /* of function faults, in calls */
	const char *text;      /* of the kernel-log record; NULL: the driver's */
	bool has_form;	       /* else the one that fits the fault */
	enum sim_kmsg_form form;
	bool forge; /* of xid: only a record that a program forged; nothing really happened */
	bool contained, uncontained, storm, fan_stuck, has_ambient;
	int32_t ambient_c;
};

struct sim_fault_kind {
	const char *name;
	const char *arguments; /* for people: "CODE", "LINK down|errors RATE" */
	const char *help;      /* a phrase: what it does and where it shows */
	bool needs_gpu;
	uint32_t least, most; /* arguments */
	int (*apply)(struct sim_machine *machine, const struct sim_fault *fault,
		     struct sim_error *error);
};

/* The table. */
const struct sim_fault_kind *sim_fault_kinds(size_t *out_count);

/* Applies one. 0, or -1 with SIM_EXIT_INPUT (the nearest name for what is unknown). */
int sim_fault_inject(struct sim_machine *machine, const struct sim_fault *fault,
		     struct sim_error *error);
/* Takes all injected conditions back (of one GPU, or SIM_WHOLE_GPU for all GPUs, standing faults
 * and the driver). Counters stay. */
int sim_fault_heal(struct sim_machine *machine, uint32_t gpu, struct sim_error *error);
/* Takes back the conditions of one fault, whatever the machine is like otherwise. */
int sim_fault_end(struct sim_machine *machine, const struct sim_fault *fault,
		  struct sim_error *error);
/*
 * What `nvidia-smi --gpu-reset` does: volatile ECC counters are cleared, pending modes, remapped
 * rows and retired pages take effect. SIM_EXIT_FAILED when processes use the GPU, or it is lost.
 */
int sim_fault_reset_gpu(struct sim_machine *machine, uint32_t gpu, struct sim_error *error);
/* Unloads and loads the driver: resets every GPU and begins energy and link counters anew.
 * SIM_EXIT_FAILED when processes use a GPU. */
int sim_fault_reload_driver(struct sim_machine *machine, struct sim_error *error);

/* Writes what only the physics did so far (a GPU that overheated and was lost) into the kernel log.
 * 0 or -1. */
int sim_fault_catch_up(struct sim_machine *machine, struct sim_error *error);

/* Whether the simulated library of any age exports `name`, with or without its version suffix, or
 * it is "any". When not, `*out_near` is the nearest name or NULL. */
bool sim_fault_knows_function(const char *name, const char **out_near);

#endif
