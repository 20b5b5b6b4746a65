/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the machine moves: one pure function from tick to tick. Advancing by
 * 100 ticks at once equals advancing 100 times by one, bit for bit, whoever does it.
 */
#ifndef SLUICE_SIM_PHYSICS_H
#define SLUICE_SIM_PHYSICS_H

#include <stdint.h>

#include "sim/machine.h"

/* Moves `machine` forward to `tick` (nothing happens if it is there already). Events that the
 * physics causes (a GPU that overheats and is lost) are added to machine->pending. */
void sim_physics_advance(struct sim_machine *machine, uint64_t tick);

/* Puts a GPU into the state it would have after hours without work at its ambient temperature:
 * power, temperature, clocks, utilisation. Counters, settings and processes stay. */
void sim_physics_settle(struct sim_machine *machine, uint32_t gpu);

/* What a noise or an identity is for: keeps the hashes apart. */
enum sim_hash_use { SIM_HASH_UUID = 1, SIM_HASH_MIG_UUID, SIM_HASH_POWER, SIM_HASH_OTHER };
/* Spreads (seed, gpu, use, counter) over 64 bits; the same on every machine. */
uint64_t sim_hash(uint64_t seed, uint64_t gpu, enum sim_hash_use use, uint64_t counter);

/* Readings with their noise, which is a hash of (seed, gpu, quantity, tick). */
uint32_t sim_physics_power_mw(const struct sim_machine *machine, uint32_t gpu);
int32_t sim_physics_temperature_c(const struct sim_machine *machine, uint32_t gpu);
int32_t sim_physics_memory_temperature_c(const struct sim_machine *machine, uint32_t gpu);
uint32_t sim_physics_util_percent(const struct sim_machine *machine, uint32_t gpu);
/* Memory in use by processes of a GPU, or of one MIG instance (gi = SIM_WHOLE_GPU: all), bytes,
 * context overhead included, never more than there is. total = used + free + reserved. */
uint64_t sim_physics_memory_used(const struct sim_machine *machine, uint32_t gpu, uint32_t gi);

/* Queues an event for the next publication. A full queue drops the oldest. */
void sim_machine_event(struct sim_machine *machine, const struct sim_event *event);

#endif
