/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When a program divides a GPU through the library, the files around the driver change with it: the
 * capabilities of MIG instances below ROOT/proc and ROOT/dev. The code that makes those files is
 * larger than all the rest, and nearly no program needs it: it lies in a module of its own, beside
 * the libraries' directories, and is loaded when it is needed first.
 */
#ifndef SLUICE_SIM_NVML_FOLLOW_H
#define SLUICE_SIM_NVML_FOLLOW_H

#include <stddef.h>

#include "sim/machine.h"

/* Between sim_state_write() and sim_state_commit(). A machine without trees, or whose root is out
 * of sight as in a container, needs nothing. What goes wrong is said once on stderr: the program's
 * call has succeeded all the same. */
void follow_machine(const struct sim_machine *machine);

/* The module's one function. `size` is the caller's sizeof(struct sim_machine): a module of another
 * build refuses. 0 or -1. */
#define FOLLOW_FUNCTION "sluice_sim_trees_follow"
int sluice_sim_trees_follow(const struct sim_machine *machine, size_t size);

#endif
