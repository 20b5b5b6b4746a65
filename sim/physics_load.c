/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/physics_run.h"

enum {
	BURST_PERIOD_TICKS = 20,
	SINE_PERIOD_TICKS = 100,
	TRACE_POINT_TICKS = SIM_TICKS_PER_SECOND,
	CYCLE_PERIOD_MAX = 6400, /* ticks; longer ones are stepped through */
};

/* (1 - cos) / 2 over one period, in thousandths. */
static uint32_t sine_factor(uint64_t phase)
{
	static const uint16_t quarter[] = {0,	1,   4,	  9,   16,  24,	 35,  48,  62,
					   78,	95,  115, 136, 159, 184, 210, 238, 266,
					   296, 327, 359, 392, 425, 459, 493, 500};
	uint32_t at = (uint32_t)(phase % SINE_PERIOD_TICKS);

	if (at > SINE_PERIOD_TICKS / 2)
		at = SINE_PERIOD_TICKS - at;
	if (at <= SINE_PERIOD_TICKS / 4)
		return quarter[at];

	return FULL - quarter[SINE_PERIOD_TICKS / 2 - at];
}

/* How much of its load a process puts on the GPU in tick `tick`, in thousandths. */
static uint32_t shape_factor(const struct sim_process *process, uint64_t tick)
{
	uint64_t age = tick - 1 - process->begin_tick;

	switch (process->shape) {
	case SIM_SHAPE_BURST:
		return age % BURST_PERIOD_TICKS < BURST_PERIOD_TICKS / 2 ? FULL : 0;
	case SIM_SHAPE_SINE:
		return sine_factor(age);
	case SIM_SHAPE_TRACE:
		if (process->trace_length > 0) {
			uint64_t at = age / TRACE_POINT_TICKS % process->trace_length;
			uint32_t value = process->trace_permille[at][0] |
					 (uint32_t)process->trace_permille[at][1] << 8;

			return least(value, FULL);
		}

		return FULL;
	case SIM_SHAPE_STEADY:
	default:
		return FULL;
	}
}

/* The least common multiple of the period and another; 0 when it gets too long. */
static uint64_t join_periods(uint64_t period, uint64_t other)
{
	uint64_t a = period, b = other;

	while (b != 0) {
		uint64_t rest = a % b;

		a = b;
		b = rest;
	}

	if (period == 0 || period / a * other > CYCLE_PERIOD_MAX)
		return 0;

	return period / a * other;
}

static uint64_t shape_period(const struct sim_process *process)
{
	switch (process->shape) {
	case SIM_SHAPE_BURST:
		return BURST_PERIOD_TICKS;
	case SIM_SHAPE_SINE:
		return SINE_PERIOD_TICKS;
	case SIM_SHAPE_TRACE:
		return process->trace_length ? TRACE_POINT_TICKS * process->trace_length : 1;
	default:
		return 1;
	}
}

void physics_list_demands(struct run *run, uint64_t tick)
{
	run->demand_count = 0;
	run->varies = false;
	run->horizon = UINT64_MAX;
	run->period = THROTTLE_EVERY_TICKS;

	for (uint32_t i = 0; i < SIM_PROCESS_MAX; i++) {
		const struct sim_process *process = &run->gpu->process[i];
		struct demand *demand = &run->demand[run->demand_count];

		if (process->pid == 0)
			continue;

		*demand = (struct demand){.slot = i};
		run->demand_count++;
		if (process->end_tick != 0 && process->end_tick + 1 < run->horizon)
			run->horizon = process->end_tick + 1;

		if (tick <= process->begin_tick) {
			if (process->begin_tick + 1 < run->horizon)
				run->horizon = process->begin_tick + 1;
			continue;
		}

		demand->works = run->gpu->health == SIM_GPU_OK;
		if (!demand->works)
			continue;

		run->varies |= process->shape != SIM_SHAPE_STEADY;
		run->period = join_periods(run->period, shape_period(process));
	}
}

/* The part of the GPU's SMs, in thousandths, that a MIG compute instance has; 0: no such one. */
static uint32_t instance_weight(const struct run *run, uint32_t gi_id, uint32_t ci_id)
{
	for (uint32_t g = 0; g < SIM_GI_MAX; g++) {
		const struct sim_gi *gi = &run->gpu->gi[g];
		const struct sim_mig_profile *row = &run->model->mig_profile[gi->profile];

		if (!gi->used || gi->id != gi_id)
			continue;
		if (ci_id == SIM_WHOLE_GPU)
			return row->sm_count * FULL / run->model->sm_count;

		for (uint32_t c = 0; c < SIM_CI_MAX; c++) {
			if (gi->ci[c].used && gi->ci[c].id == ci_id)
				return least(row->sm_count * gi->ci[c].slices / row->slices * FULL /
						 run->model->sm_count,
					     FULL);
		}
	}

	return 0;
}

static bool same_instance(const struct run *run, const struct demand *a, const struct demand *b)
{
	const struct sim_process *p = &run->gpu->process[a->slot], *q = &run->gpu->process[b->slot];

	return p->gi == q->gi && p->ci == q->ci;
}

/*
 * Shares one instance (or the whole GPU) among the demands from `first` on that belong to it.
 * Processes take turns: when they want more than there is, each gets in proportion. MPS clients
 * run at the same time and so are one taker of turns together. Parts are cut from a running sum,
 * so that they add up exactly.
 */
static uint32_t share_instance(struct run *run, uint32_t first, uint32_t weight)
{
	uint64_t mps = 0, all = 0, sum = 0, given = 0, part;
	const struct demand *leader = &run->demand[first];

	for (uint32_t i = first; i < run->demand_count; i++) {
		const struct demand *demand = &run->demand[i];

		if (same_instance(run, leader, demand) &&
		    run->gpu->process[demand->slot].type == SIM_PROCESS_MPS)
			mps += demand->wanted;
	}

	for (uint32_t pass = 0; pass < 2; pass++) {
		part = least((all + FULL - 1) / FULL, FULL) * (uint64_t)weight / FULL;
		for (uint32_t i = first; i < run->demand_count; i++) {
			struct demand *demand = &run->demand[i];
			uint64_t want = (uint64_t)demand->wanted * FULL;

			if (!same_instance(run, leader, demand))
				continue;
			if (mps > FULL && run->gpu->process[demand->slot].type == SIM_PROCESS_MPS)
				want = want * FULL / mps;
			sum += want;

			if (pass == 1 && all > 0) {
				demand->share = (uint32_t)(sum * part / all - given);
				given += demand->share;
			}
		}

		all = pass == 0 ? sum : all;
		sum = 0;
	}

	return (uint32_t)given;
}

static uint32_t share_gpu(struct run *run)
{
	uint32_t util = 0;

	for (uint32_t i = 0; i < run->demand_count; i++) {
		const struct sim_process *process = &run->gpu->process[run->demand[i].slot];
		uint32_t weight = FULL;
		bool is_first = true;

		for (uint32_t k = 0; k < i; k++)
			is_first =
			    is_first && !same_instance(run, &run->demand[k], &run->demand[i]);

		if (!is_first)
			continue;
		if (run->gpu->mig_current)
			weight = instance_weight(run, process->gi, process->ci);
		else if (process->gi != SIM_WHOLE_GPU)
			weight = 0;

		util += share_instance(run, i, weight);
	}

	return least(util, FULL);
}

void physics_take_loads(struct run *run, uint64_t tick)
{
	uint64_t membw = 0, enc = 0, dec = 0, tensor = 0;

	for (uint32_t i = 0; i < run->demand_count; i++) {
		struct demand *demand = &run->demand[i];
		const struct sim_process *process = &run->gpu->process[demand->slot];

		demand->factor = demand->works ? shape_factor(process, tick) : 0;
		demand->wanted = process->util_permille * demand->factor / FULL;
		demand->share = 0;
	}

	run->util = share_gpu(run);
	run->pcie_tx = run->pcie_rx = run->nvlink = 0;
	for (uint32_t i = 0; i < run->demand_count; i++) {
		struct demand *demand = &run->demand[i];
		struct sim_process *process = &run->gpu->process[demand->slot];
		uint64_t memory = process->membw_permille < 0 ? process->util_permille / 2
							      : (uint32_t)process->membw_permille;

		memory = memory * demand->factor / FULL;
		if (demand->wanted > 0)
			memory = memory * demand->share / demand->wanted;
		demand->membw = least(memory, FULL);
		demand->enc = least((uint64_t)process->enc_permille * demand->factor / FULL, FULL);
		demand->dec = least((uint64_t)process->dec_permille * demand->factor / FULL, FULL);
		process->share_permille = demand->share;
		membw += demand->membw;
		enc += demand->enc;
		dec += demand->dec;
		tensor += (uint64_t)demand->share * process->tensor_permille / FULL;
		run->pcie_tx += process->pcie_tx_bps / SIM_TICKS_PER_SECOND * demand->factor / FULL;
		run->pcie_rx += process->pcie_rx_bps / SIM_TICKS_PER_SECOND * demand->factor / FULL;
		run->nvlink += process->nvlink_bps / SIM_TICKS_PER_SECOND * demand->factor / FULL;
	}

	run->membw = least(membw, FULL);
	run->enc = least(enc, FULL);
	run->dec = least(dec, FULL);
	run->tensor = least(tensor, run->util);
}
