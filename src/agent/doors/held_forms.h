/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices of the kubelet's door that cannot be handed out as the policy has it by now, because of
 * who holds them: a job of the queue; a container that has one as a whole while they are shared by
 * now, a share of one while they are given whole, a GPU whose MIG devices are given, or the
 * reverse. Nobody who is told that a device is theirs alone gets a neighbour by a change of the
 * configuration: such a device is kept out until it is free. Pure: the ledger knows.
 */
#ifndef SLUICE_AGENT_DOORS_HELD_FORMS_H
#define SLUICE_AGENT_DOORS_HELD_FORMS_H

#include <stdbool.h>

#include "hardware/gpu.h"

struct inventory;
struct ledger;
struct policy;

/* Why GPU i, MIG device i of the inventory is kept out; NULL: it is not. Texts live for ever. */
struct held_forms {
	const char *gpu[GPU_MAX];
	const char *mig[GPU_MAX * GPU_MIG_MAX];
};

/* Fills `out`. True: at least one is kept out. */
bool held_forms_find(const struct inventory *inventory, const struct policy *policy,
		     const struct ledger *ledger, struct held_forms *out);

#endif
