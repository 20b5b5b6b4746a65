/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/sim/state_fixture.h"

#include <stdlib.h>
#include <string.h>

#include "sim/profile.h"
#include "tests/unit/unit.h"

struct sim_machine machine;
struct sim_error error;
char *directory;
const char *path;
struct sim_state *sim;
uint64_t now_ns;

int fixture_setup(void **state)
{
	const struct sim_options options = {.seed = 5};

	directory = unit_tmp_new();
	path = strdup(unit_path(directory, "sim.state"));
	if (sim_profile_load("dgx-a100", &options, &machine, &error) < 0)
		fail_msg("%s", error.text);
	sim = NULL;
	return 0;
}

int fixture_teardown(void **state)
{
	sim = sim_state_close(sim);
	free((char *)path);
	directory = unit_tmp_free(directory);
	return 0;
}

void fixture_make(enum sim_clock clock)
{
	machine.clock = clock;
	if (sim_state_create(path, &machine, &error) < 0)
		fail_msg("%s", error.text);
	assert_int_equal(sim_state_open(path, &sim, &error), SIM_OPEN_OK);
}

uint64_t fixture_now(void *context)
{
	return now_ns;
}

void fixture_use_clock(void)
{
	now_ns = sim->file->header.start_ns;
	sim_state_use_clock(sim, fixture_now, NULL);
}
