/* SPDX-License-Identifier: Apache-2.0 */
/* MIG instances come and go in any order; none overlap, and the end is the start. */
#include <stdio.h>
#include <string.h>

#include "sim/mig.h"
#include "sim/state_private.h"
#include "tests/property/sim.h"

static struct sim_machine machine;
static uint64_t seed;

static void check_layout(uint32_t gpu, uint64_t round)
{
	const struct sim_gpu *g = &machine.gpu[gpu];
	const struct sim_model *model = sim_model_of(&machine, g);
	uint32_t memory = 0, slices = 0, ids = 0;

	for (uint32_t i = 0; i < SIM_GI_MAX; i++) {
		const struct sim_gi *gi = &g->gi[i];
		const struct sim_mig_profile *row = &model->mig_profile[gi->profile];
		uint32_t mask = ((1U << row->placement_size) - 1) << gi->start, inside = 0;

		if (!gi->used)
			continue;
		property_check((memory & mask) == 0, "instances do not overlap", seed, round);
		property_check(!(ids & 1U << gi->id), "ids are unique", seed, round);
		memory |= mask;
		ids |= 1U << gi->id;
		slices += row->slices;
		for (uint32_t k = 0; k < SIM_CI_MAX; k++) {
			uint32_t part = ((1U << gi->ci[k].slices) - 1) << gi->ci[k].start;

			if (!gi->ci[k].used)
				continue;
			property_check((inside & part) == 0 && part < 1U << row->slices,
				       "compute instances do not overlap", seed, round);
			inside |= part;
		}
	}
	property_check(memory < 1U << SIM_MEMORY_SLICES && slices <= 7, "instances fit", seed,
		       round);
}

/* What sim_mig_remaining() promises can be made, one after the other, and no more. */
static void check_remaining(struct chance *chance, uint32_t gpu, uint64_t round)
{
	static struct sim_machine saved;
	const struct sim_model *model = sim_model_of(&machine, &machine.gpu[gpu]);
	uint32_t row = (uint32_t)chance_below(chance, model->mig_profile_count), slot, made = 0;
	uint32_t promised = sim_mig_remaining(&machine, gpu, row);

	saved = machine;
	/* lowest places first: what the driver chooses may cut up a larger gap */
	for (uint32_t i = 0; i < model->mig_profile[row].placement_count; i++)
		made += sim_mig_create_gi(&machine, gpu, row,
					  model->mig_profile[row].placement_start[i], &slot) == 0;
	property_check(made == promised, "as many fit as promised", seed, round);
	machine = saved;
}

static void one_step(struct chance *chance, uint32_t gpu)
{
	struct sim_gpu *g = &machine.gpu[gpu];
	const struct sim_model *model = sim_model_of(&machine, g);
	uint32_t slot = (uint32_t)chance_below(chance, SIM_GI_MAX), out;

	switch (chance_below(chance, 5)) {
	case 0:
	case 1:
		(void)sim_mig_create_gi(
		    &machine, gpu, (uint32_t)chance_below(chance, model->mig_profile_count + 1U),
		    chance_below(chance, 2) ? SIM_WHOLE_GPU : (uint32_t)chance_below(chance, 8),
		    &out);
		break;
	case 2:
		(void)sim_mig_create_ci(&machine, gpu, slot, (uint32_t)chance_below(chance, 9),
					&out);
		break;
	case 3:
		(void)sim_mig_destroy_ci(&machine, gpu, slot,
					 (uint32_t)chance_below(chance, SIM_CI_MAX));
		break;
	default:
		(void)sim_mig_destroy_gi(&machine, gpu, slot);
		break;
	}
}

static void destroy_all(struct chance *chance, uint32_t gpu)
{
	struct sim_gpu *g = &machine.gpu[gpu];

	for (uint32_t left = 1; left > 0;) {
		uint32_t slot = (uint32_t)chance_below(chance, SIM_GI_MAX);

		(void)sim_mig_destroy_ci(&machine, gpu, slot,
					 (uint32_t)chance_below(chance, SIM_CI_MAX));
		(void)sim_mig_destroy_gi(&machine, gpu, slot);
		left = 0;
		for (uint32_t i = 0; i < SIM_GI_MAX; i++)
			left += g->gi[i].used;
	}
}

int main(void)
{
	uint64_t rounds = property_rounds(200);
	static struct sim_gpu start;
	struct chance chance;

	seed = property_seed();
	chance.state = seed;
	for (uint64_t round = 0; round < rounds; round++) {
		do
			property_machine(&chance, &machine);
		while (!machine.model[0].has_mig || !machine.gpu[0].mig_current);
		destroy_all(&chance, 0);
		start = machine.gpu[0];
		for (uint32_t i = 0; i < 60; i++) {
			one_step(&chance, 0);
			check_layout(0, round);
			property_check(sim_machine_check(&machine), "the check passes", seed,
				       round);
			if (i % 10 == 0)
				check_remaining(&chance, 0, round);
		}
		destroy_all(&chance, 0);
		start.mig_generation = machine.gpu[0].mig_generation;
		property_check(memcmp(&start, &machine.gpu[0], sizeof(start)) == 0,
			       "destroying returns to the start", seed, round);
	}
	printf("ok: %llu machines\n", (unsigned long long)rounds);
	return 0;
}
