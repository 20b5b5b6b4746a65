/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random simulated machines for the property tests. Everything comes from one seed, which a failing
 * test prints: run it again with SLUICE_TEST_SEED=that.
 */
#ifndef TESTS_PROPERTY_SIM_H
#define TESTS_PROPERTY_SIM_H

#include <stdint.h>

#include "sim/machine.h"

struct chance {
	uint64_t state;
};

/* A number from 0 to below - 1. */
uint64_t chance_below(struct chance *chance, uint64_t below);

/* $SLUICE_TEST_SEED, or one from the clock; printed. */
uint64_t property_seed(void);
/* $SLUICE_TEST_ROUNDS, or `otherwise`. */
uint64_t property_rounds(uint64_t otherwise);

/* One of the shipped profiles with a random layout. */
void property_machine(struct chance *chance, struct sim_machine *out);
/* Puts a random load on a random GPU, or takes one away. */
void property_load(struct chance *chance, struct sim_machine *machine);
/* Turns a random knob: limits, ambient temperature, fans, brakes, error rates. */
void property_turn(struct chance *chance, struct sim_machine *machine);

/* Exits with 1 and says which round of which seed failed, when `holds` is false. */
void property_check(bool holds, const char *what, uint64_t seed, uint64_t round);

#endif
