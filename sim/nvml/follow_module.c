/* SPDX-License-Identifier: Apache-2.0 */
/* libsluice-simtrees.so: see follow.h. */
#include "follow.h"

#include <stdio.h>

#include "sim/error.h"
#include "sim/trees.h"

__attribute__((visibility("default"))) int
sluice_sim_trees_follow(const struct sim_machine *machine, size_t size)
{
	struct sim_error error = {0};
	if (size != sizeof(*machine))
		return -1;
	if (sim_trees_sync(machine, &error) == 0)
		return 0;
	fprintf(stderr, "libnvidia-ml (simulated): %s\n", error.text);
	return -1;
}
