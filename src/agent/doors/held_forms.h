/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices that a container holds in another form than that in which the policy hands them out now:
 * as a whole while they are shared by now, a share of them while they are given whole, a GPU whose
 * MIG devices are given, or the reverse. Nobody who is told that a device is his alone gets a
 * neighbour by a change of the configuration: such a device is kept out until it is free. Pure, but
 * for what it asks of podresources.h.
 */
#ifndef SLUICE_AGENT_DOORS_HELD_FORMS_H
#define SLUICE_AGENT_DOORS_HELD_FORMS_H

#include <stdbool.h>

#include "hardware/gpu.h"

struct inventory;
struct podresources;
struct policy;

/* Why GPU i, MIG device i of the inventory is kept out; NULL: it is not. Texts live for ever. */
struct held_forms {
	const char *gpu[GPU_MAX];
	const char *mig[GPU_MAX * GPU_MIG_MAX];
};

/* Fills `out`. `pods` may be NULL: nothing is known. True: at least one is kept out. */
bool held_forms_find(const struct inventory *inventory, const struct policy *policy,
		     const struct podresources *pods, struct held_forms *out);

#endif
