/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the physics: one GPU on its way from one tick to another. physics_load.c says what its
 * processes want and get, physics.c what that does to it. Nobody else includes this.
 */
#ifndef SLUICE_SIM_PHYSICS_RUN_H
#define SLUICE_SIM_PHYSICS_RUN_H

#include "sim/machine.h"

enum {
	FULL = 1000, /* permille */
	THROTTLE_EVERY_TICKS = 10,
	COUNTERS = 17, /* of a GPU, that integrate what the loads do */
};

/* What the processes of one GPU ask for and get in a tick, all in thousandths. */
struct demand {
	uint32_t slot; /* in gpu->process */
	bool works;
	uint32_t factor; /* of its load, by its shape */
	uint32_t wanted; /* SM time */
	uint32_t share, membw, enc, dec;
};

/* What a tick depends on besides the loads. */
struct motion {
	int64_t power_uw, temperature_uc;
	uint32_t sm_mhz, idle_ticks, throttle_steps, fan_permille;
	uint64_t reasons;
};

/* A state of the past, to be found again: then what happened since will happen over and over. */
struct cycle {
	uint64_t next;		/* tick of the next comparison */
	uint64_t length, power; /* in periods of the loads, for Brent's algorithm */
	struct motion motion;
	uint64_t counter[COUNTERS + SIM_PROCESS_MAX];
};

/* One GPU on its way from one tick to another. */
struct run {
	struct sim_machine *machine;
	struct sim_gpu *gpu;
	const struct sim_model *model;
	uint32_t index;
	int64_t power_alpha, thermal_alpha; /* of the lags, in 1/2^ALPHA_BITS per tick */
	struct demand demand[SIM_PROCESS_MAX];
	uint32_t demand_count;
	uint32_t util, membw, enc, dec, tensor;
	uint64_t pcie_tx, pcie_rx, nvlink; /* bytes per tick */
	bool varies;			   /* some load changes with time */
	uint64_t horizon;		   /* first tick with other demands than now */
	uint64_t period;		   /* ticks after which all loads repeat; 0: too many */
	struct cycle cycle;
};

static inline uint32_t least(uint64_t a, uint64_t b)
{
	return (uint32_t)(a < b ? a : b);
}

/* Which processes there are and which of them work, from `tick` to the horizon. */
void physics_list_demands(struct run *run, uint64_t tick);
/* What each gets in tick `tick`, and all of them together. */
void physics_take_loads(struct run *run, uint64_t tick);

#endif
