/* SPDX-License-Identifier: Apache-2.0 */
/* What holds for every machine, load and fault: see each check. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/physics.h"
#include "sim/state.h"
#include "sim/state_private.h"
#include "tests/property/sim.h"

static struct sim_machine whole, parts, before;
static uint64_t seed;

/* Utilisation is shared out without a rest, and nothing exceeds the whole. */
static void check_shares(uint64_t round)
{
	for (uint32_t g = 0; g < whole.gpu_count; g++) {
		const struct sim_gpu *gpu = &whole.gpu[g];
		uint32_t sum = 0, ended = 0;

		for (uint32_t i = 0; i < SIM_PROCESS_MAX; i++) {
			const struct sim_process *process = &gpu->process[i];

			sum += process->share_permille;
			property_check(process->share_permille <= process->util_permille,
				       "a process gets no more than it wants", seed, round);
			ended += process->pid != 0 && process->end_tick != 0 &&
				 process->end_tick <= whole.tick;
		}
		/* what ended with this very tick has left its part in the utilisation */
		property_check(sum <= gpu->util_permille, "shares fit", seed, round);
		property_check(gpu->util_permille <= 1000, "use is at most the whole", seed, round);
		property_check(ended == 0, "a load that ended is gone", seed, round);
	}
}

static void check_memory(uint64_t round)
{
	for (uint32_t g = 0; g < whole.gpu_count; g++) {
		const struct sim_model *model = sim_model_of(&whole, &whole.gpu[g]);
		uint64_t used = sim_physics_memory_used(&whole, g, SIM_WHOLE_GPU);

		property_check(used + model->reserved_bytes <= model->memory_bytes,
			       "used + reserved <= total", seed, round);
	}
}

static void check_monotonic(uint64_t round)
{
	for (uint32_t g = 0; g < whole.gpu_count; g++) {
		const struct sim_gpu *a = &before.gpu[g], *b = &whole.gpu[g];

		property_check(a->energy_uj <= b->energy_uj &&
				   a->pcie_tx_bytes <= b->pcie_tx_bytes &&
				   a->nvlink_tx_bytes <= b->nvlink_tx_bytes &&
				   a->power_violation_ns <= b->power_violation_ns &&
				   a->thermal_violation_ns <= b->thermal_violation_ns &&
				   a->hw_thermal_ns <= b->hw_thermal_ns &&
				   a->pcie_replays <= b->pcie_replays &&
				   a->link[0].crc_flit <= b->link[0].crc_flit &&
				   a->gpm_busy_permille_ticks <= b->gpm_busy_permille_ticks &&
				   a->sample_count <= b->sample_count,
			       "counters only grow", seed, round);
	}
}

/* One long advance equals many short ones, byte for byte. */
static void one_round(struct chance *chance, uint64_t round)
{
	uint64_t ticks = 1 + chance_below(chance, chance_below(chance, 4) ? 400 : 20000);
	uint64_t target = whole.tick + ticks;

	before = whole;
	parts = whole;
	sim_physics_advance(&whole, target);
	while (parts.tick < target) {
		uint64_t step = 1 + chance_below(chance, chance_below(chance, 2) ? 3 : 700);

		sim_physics_advance(&parts,
				    parts.tick + step < target ? parts.tick + step : target);
	}
	property_check(memcmp(&whole, &parts, sizeof(whole)) == 0, "time-step invariance", seed,
		       round);
	property_check(sim_machine_check(&parts), "physics stays within what the check allows",
		       seed, round);
	property_check(memcmp(&whole, &parts, sizeof(whole)) == 0, "the check changes nothing",
		       seed, round);
	check_shares(round);
	check_memory(round);
	check_monotonic(round);
	whole.pending_count = 0;
}

/* The energy counter is the integral of the power that is read, within a thousandth. */
static void energy(struct chance *chance, uint64_t round)
{
	uint32_t gpu = (uint32_t)chance_below(chance, whole.gpu_count);
	uint64_t start = whole.gpu[gpu].energy_uj, sum_mj_ticks = 0, counted;

	for (uint32_t i = 0; i < 3000; i++) {
		sim_physics_advance(&whole, whole.tick + 1);
		if (whole.gpu[gpu].health != SIM_GPU_LOST)
			sum_mj_ticks += sim_physics_power_mw(&whole, gpu);
	}
	counted = whole.gpu[gpu].energy_uj - start;
	sum_mj_ticks *= 100; /* milliwatts for 100 ms: microjoules */
	property_check(counted * 999 <= sum_mj_ticks * 1000 && sum_mj_ticks * 999 <= counted * 1000,
		       "energy is the integral of power", seed, round);
	whole.pending_count = 0;
}

/* A reader that catches up by itself sees what a writer would have written. */
static void reader_is_writer(struct chance *chance, uint64_t round);

static uint64_t fake_now;

static uint64_t read_fake_now(void *context)
{
	(void)context;
	return fake_now;
}

static bool always_alive(const struct sim_process *process, void *context)
{
	(void)process;
	(void)context;
	return true;
}

static void reader_is_writer(struct chance *chance, uint64_t round)
{
	struct sim_state *writer = NULL, *reader = NULL;
	const struct sim_machine *seen;

	whole.clock = SIM_CLOCK_REAL;
	property_check(sim_state_private(&whole, &writer) == 0 &&
			   sim_state_private(&whole, &reader) == 0,
		       "states", seed, round);
	sim_state_use_alive(writer, always_alive, NULL);
	sim_state_use_alive(reader, always_alive, NULL);
	sim_state_use_clock(writer, read_fake_now, NULL);
	sim_state_use_clock(reader, read_fake_now, NULL);
	reader->writable = false;
	reader->file->header.start_ns = writer->file->header.start_ns;
	for (uint32_t i = 0; i < 20; i++) {
		struct sim_machine *draft;

		fake_now = writer->file->header.start_ns +
			   (whole.tick + i * 50 + chance_below(chance, 50)) * SIM_TICK_NS;
		draft = sim_state_write(writer);
		property_check(draft != NULL, "write", seed, round);
		parts = *draft;
		sim_state_abort(writer);
		seen = sim_state_read(reader);
		property_check(memcmp(seen, &parts, sizeof(parts)) == 0,
			       "reader side = writer side", seed, round);
		sim_state_read_done(reader);
	}
	(void)sim_state_close(writer);
	(void)sim_state_close(reader);
	whole.clock = SIM_CLOCK_VIRTUAL;
}

int main(void)
{
	uint64_t rounds = property_rounds(60);
	struct chance chance;

	seed = property_seed();
	chance.state = seed;
	for (uint64_t round = 0; round < rounds; round++) {
		property_machine(&chance, &whole);
		for (uint32_t i = 0; i < 12; i++) {
			for (uint64_t k = chance_below(&chance, 6); k > 0; k--)
				property_load(&chance, &whole);
			if (chance_below(&chance, 3) == 0)
				property_turn(&chance, &whole);
			one_round(&chance, round);
		}
		if (round % 4 == 0)
			energy(&chance, round);
		if (round % 4 == 1)
			reader_is_writer(&chance, round);
	}
	printf("ok: %llu machines\n", (unsigned long long)rounds);
	return 0;
}
