/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/property/sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "sim/error.h"
#include "sim/profile.h"

uint64_t chance_below(struct chance *chance, uint64_t below)
{
	uint64_t x = chance->state += UINT64_C(0x9e3779b97f4a7c15);

	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return (x ^ x >> 31) % below;
}

static uint64_t number_from(const char *variable, uint64_t otherwise)
{
	const char *text = getenv(variable);
	uint64_t value = 0;

	if (!text || !text[0])
		return otherwise;
	for (; *text >= '0' && *text <= '9'; text++)
		value = value * 10 + (uint64_t)(*text - '0');
	return value;
}

uint64_t property_seed(void)
{
	struct timespec now;
	uint64_t seed;

	(void)clock_gettime(CLOCK_REALTIME, &now);
	seed =
	    number_from("SLUICE_TEST_SEED", (uint64_t)now.tv_sec * 1000003 + (uint64_t)now.tv_nsec);
	printf("seed %llu\n", (unsigned long long)seed);
	return seed;
}

uint64_t property_rounds(uint64_t otherwise)
{
	return number_from("SLUICE_TEST_ROUNDS", otherwise);
}

void property_check(bool holds, const char *what, uint64_t seed, uint64_t round)
{
	if (holds)
		return;
	printf("FAILED: %s (round %llu); again with SLUICE_TEST_SEED=%llu\n", what,
	       (unsigned long long)round, (unsigned long long)seed);
	exit(1);
}

void property_machine(struct chance *chance, struct sim_machine *out)
{
	static const char *const profiles[] = {"dgx1", "dgx2",	   "dgx-a100", "hgx-h100",   "t4x1",
					       "t4x4", "a100-mig", "h100-mig", "workstation"};
	static const char *const layouts[] = {"none", "single", "mixed", "half", "empty", "hetero"};
	const char *profile = profiles[chance_below(chance, 9)];
	struct sim_options options = {.seed = chance_below(chance, 1000)};
	struct sim_error error;

	if (profile[3] == '-' || profile[4] == '-')
		options.mig_layout = layouts[chance_below(chance, 6)];
	if (sim_profile_load(profile, &options, out, &error) < 0) {
		printf("%s\n", error.text);
		exit(1);
	}
	out->clock = SIM_CLOCK_VIRTUAL;
}

/* A running compute instance of the GPU, or the whole GPU. */
static void choose_instance(struct chance *chance, const struct sim_gpu *gpu,
			    struct sim_process *process)
{
	const struct sim_gi *gi = &gpu->gi[chance_below(chance, SIM_GI_MAX)];

	process->gi = process->ci = SIM_WHOLE_GPU;
	if (gi->used && gi->ci[0].used) {
		process->gi = gi->id;
		process->ci = gi->ci[0].id;
	}
}

void property_load(struct chance *chance, struct sim_machine *machine)
{
	static const uint8_t types[] = {SIM_PROCESS_COMPUTE, SIM_PROCESS_COMPUTE, SIM_PROCESS_MPS,
					SIM_PROCESS_GRAPHICS};
	struct sim_gpu *gpu = &machine->gpu[chance_below(chance, machine->gpu_count)];
	struct sim_process *process =
	    &gpu->process[chance_below(chance, chance_below(chance, 4) ? 8 : SIM_PROCESS_MAX)];
	uint64_t steady = chance_below(chance, 3);

	if (chance_below(chance, 4) == 0) {
		*process = (struct sim_process){0};
		return;
	}
	*process = (struct sim_process){
	    .pid = (uint32_t)(1 + chance_below(chance, 100000)),
	    .type = types[chance_below(chance, 4)],
	    .shape = (uint8_t)(steady ? SIM_SHAPE_STEADY : chance_below(chance, 4)),
	    .util_permille = (uint32_t)chance_below(chance, 1001),
	    .enc_permille = (uint32_t)chance_below(chance, 300),
	    .dec_permille = (uint32_t)chance_below(chance, 300),
	    .membw_permille = (int32_t)chance_below(chance, 1002) - 1,
	    .tensor_permille = (uint32_t)chance_below(chance, 1001),
	    .memory_bytes = chance_below(chance, UINT64_C(60) << 30),
	    .pcie_tx_bps = chance_below(chance, 1 << 30),
	    .pcie_rx_bps = chance_below(chance, 1 << 30),
	    .nvlink_bps = chance_below(chance, UINT64_C(1) << 38),
	    .begin_tick = machine->tick + chance_below(chance, 50),
	    .end_tick = chance_below(chance, 2) ? 0 : machine->tick + chance_below(chance, 3000),
	    .trace_length = (uint16_t)chance_below(chance, 6),
	};
	process->host_pid = process->pid;
	for (uint32_t i = 0; i < process->trace_length; i++) {
		process->trace_permille[i][0] = (uint8_t)chance_below(chance, 256);
		process->trace_permille[i][1] = (uint8_t)chance_below(chance, 4);
	}
	choose_instance(chance, gpu, process);
}

void property_turn(struct chance *chance, struct sim_machine *machine)
{
	struct sim_gpu *gpu = &machine->gpu[chance_below(chance, machine->gpu_count)];
	const struct sim_model *model = sim_model_of(machine, gpu);

	switch (chance_below(chance, 7)) {
	case 0:
		gpu->power_limit_mw =
		    model->power_min_mw +
		    (uint32_t)chance_below(chance, model->power_max_mw - model->power_min_mw + 1);
		break;
	case 1:
		gpu->ambient_c =
		    chance_below(chance, 3) ? INT32_MIN : (int32_t)chance_below(chance, 80) - 10;
		break;
	case 2:
		gpu->fan_stuck = chance_below(chance, 3) == 0;
		break;
	case 3:
		gpu->power_brake = chance_below(chance, 2);
		break;
	case 4:
		gpu->pcie_replays_per_tick_milli = (uint32_t)chance_below(chance, 5000);
		break;
	case 5:
		gpu->link[chance_below(chance, 6)].errors_per_tick_milli =
		    (uint32_t)chance_below(chance, 50000);
		break;
	default:
		gpu->health = chance_below(chance, 8) ? SIM_GPU_OK : SIM_GPU_RESET_REQUIRED;
		break;
	}
}
