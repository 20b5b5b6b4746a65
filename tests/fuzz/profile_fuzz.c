/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a machine profile: an error with a place, or a machine that passes the check. */
#include <stdlib.h>
#include <string.h>

#include "sim/error.h"
#include "sim/physics.h"
#include "sim/profile.h"
#include "sim/state_private.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct sim_machine machine;
	struct sim_error error = {0};

	if (sim_profile_parse((const char *)data, size, "fuzz", NULL, &machine, &error) < 0) {
		if (error.exit_code != SIM_EXIT_INPUT || !error.text[0])
			abort();
		return 0;
	}
	if (!sim_machine_check(&machine))
		abort();
	sim_physics_advance(&machine, 100);
	if (!sim_machine_check(&machine))
		abort();
	return 0;
}
