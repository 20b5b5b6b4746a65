/* SPDX-License-Identifier: Apache-2.0 */
/* A state file of an own directory for each case, of a simulated DGX A100, for state_test.c and
 * state_access_test.c. */
#ifndef TESTS_UNIT_SIM_STATE_FIXTURE_H
#define TESTS_UNIT_SIM_STATE_FIXTURE_H

#include "sim/error.h"
#include "sim/state_private.h"

extern struct sim_machine machine; /* what fixture_make() makes; a case may change it before */
extern struct sim_error error;
extern char *directory;
extern const char *path;
extern struct sim_state *sim; /* closed by the teardown */
extern uint64_t now_ns;	      /* of fixture_now() */

int fixture_setup(void **state);
int fixture_teardown(void **state);
/* Makes the file and opens it as `sim`. */
void fixture_make(enum sim_clock clock);
/* `now_ns`, for sim_state_use_clock(). */
uint64_t fixture_now(void *context);
/* Gives `sim` that clock, which stands at tick 0 then. */
void fixture_use_clock(void);

#define FIXTURE_CASE(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

#endif
