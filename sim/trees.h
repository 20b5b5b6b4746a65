/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files around the driver: ROOT/dev, ROOT/proc, ROOT/sys, ROOT/kmsg, ROOT/uevent and a driver
 * root with libraries, all made from the machine.
 */
#ifndef SLUICE_SIM_TREES_H
#define SLUICE_SIM_TREES_H

#include "sim/machine.h"

struct sim_error;

/* Directory of the root in which locks and sockets of this machine lie ($SLUICE_RUNTIME_DIR). */
#define SIM_TREES_RUNTIME "run"

/*
 * Makes the trees below machine->root what they must be for `machine`: creates what is missing,
 * corrects what differs, removes what is stale; what is right already is not touched. Each file
 * changes at once. A machine without a root has no trees: nothing is done. Whoever changes what
 * trees show (MIG instances, health, driver) calls this between sim_state_write() and
 * sim_state_commit(), so that the files and the readings change together.
 * 0, or -1: SIM_EXIT_FOREIGN when something that we did not make is in the way (a symbolic link
 * is never followed), SIM_EXIT_INPUT when the machine cannot be laid out, else SIM_EXIT_FAILED.
 */
int sim_trees_sync(const struct sim_machine *machine, struct sim_error *error);
/* Removes everything below the root that sim_trees_sync() made, and nothing else. */
int sim_trees_remove(const char *root, struct sim_error *error);
/* Whether `root` holds trees, of this or of another machine. */
bool sim_trees_are_at(const char *root);
/* Whether this process may make device nodes: tried, because a user namespace has the capability
 * and still may not. */
bool sim_trees_can_make_nodes(void);

#endif
