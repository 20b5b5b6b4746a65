/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/physics.h"

#include <stddef.h>
#include <string.h>

enum {
	FULL = 1000, /* permille */
	IDLE_TICKS = 10,
	THROTTLE_EVERY_TICKS = 10,
	THROTTLE_STEPS_MAX = 8,
	THROTTLE_HYSTERESIS_C = 3,
	CLOCK_STEP_MHZ = 15,
	FAN_FROM_C = 50,
	SETTLE_BELOW_SLOWDOWN_C = 20,
	SETTLE_AMBIENT_C = 25,
	BURST_PERIOD_TICKS = 20,
	SINE_PERIOD_TICKS = 100,
	TRACE_POINT_TICKS = SIM_TICKS_PER_SECOND,
	MICRO = 1000000,
	ALPHA_BITS = 24,
	XID_FELL_OFF_THE_BUS = 79,
	EVENT_XID = 0x8, /* nvmlEventTypeXidCriticalError */
};

/* nvmlClocksEventReasons */
enum {
	REASON_GPU_IDLE = 0x1,
	REASON_SW_POWER_CAP = 0x4,
	REASON_HW_SLOWDOWN = 0x8,
	REASON_SW_THERMAL = 0x20,
	REASON_HW_THERMAL = 0x40,
	REASON_HW_POWER_BRAKE = 0x80,
};

/* What the processes of one GPU ask for and get in a tick, all in thousandths. */
struct demand {
	uint32_t slot; /* in gpu->process */
	bool works;
	uint32_t factor; /* of its load, by its shape */
	uint32_t wanted; /* SM time */
	uint32_t share, membw, enc, dec;
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
};

uint64_t sim_hash(uint64_t seed, uint64_t gpu, enum sim_hash_use use, uint64_t counter)
{
	const uint64_t part[] = {gpu, (uint64_t)use, counter};
	uint64_t x = seed;

	/* splitmix64 (https://prng.di.unimi.it/splitmix64.c), one round for each part */
	for (size_t i = 0; i < sizeof(part) / sizeof(part[0]); i++) {
		x += part[i] * UINT64_C(0xd1342543de82ef95) + UINT64_C(0x9e3779b97f4a7c15);
		x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
		x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
		x ^= x >> 31;
	}
	return x;
}

static uint32_t least(uint64_t a, uint64_t b)
{
	return (uint32_t)(a < b ? a : b);
}

/* 1 - exp(-100 ms / tau) in 1/2^ALPHA_BITS, by Taylor's series after halving the argument. */
static int64_t lag_alpha(uint32_t tau_ms)
{
	const uint64_t one = UINT64_C(1) << 30;
	uint64_t x = 100 * one / (tau_ms ? tau_ms : 1), decay;
	uint32_t halvings = 0;

	if (x > 20 * one)
		return INT64_C(1) << ALPHA_BITS;
	while (x > one / 16) {
		x /= 2;
		halvings++;
	}
	decay = one - x + x * x / one / 2 - x * x / one * x / one / 6;
	while (halvings-- > 0)
		decay = decay * decay / one;
	return (int64_t)((one - decay) >> (30 - ALPHA_BITS));
}

/* One tick of a first-order lag. It arrives: when a step would be less than one, it goes all the
 * way, so that a quiet machine stands still. */
static int64_t lag(int64_t value, int64_t target, int64_t alpha)
{
	int64_t step = (target - value) * alpha / (INT64_C(1) << ALPHA_BITS);

	return step == 0 ? target : value + step;
}

static int64_t ambient_uc(const struct run *run)
{
	int64_t c = run->gpu->ambient_c == INT32_MIN ? (int64_t)run->model->ambient_c
						     : (int64_t)run->gpu->ambient_c;

	return c * MICRO;
}

/*
 * Where the temperature settles at this power. The thermal resistance is such that full load at
 * 25 C around settles 20 C below the slowdown threshold; without a fan it is two and a half times
 * that.
 */
static int64_t settled_uc(const struct run *run, int64_t power_uw)
{
	const struct sim_model *model = run->model;
	int64_t full_mw = least(model->power_load_mw, model->power_default_mw);
	int64_t rise_c = (int64_t)model->slowdown_c - SETTLE_BELOW_SLOWDOWN_C - SETTLE_AMBIENT_C;
	int64_t rise_uc = power_uw * rise_c * 1000 / full_mw;

	if (run->gpu->fan_stuck)
		rise_uc = rise_uc * 5 / 2;
	return ambient_uc(run) + rise_uc;
}

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

/* Which processes there are and which of them work, from `tick` to the horizon. */
static void list_demands(struct run *run, uint64_t tick)
{
	run->demand_count = 0;
	run->varies = false;
	run->horizon = UINT64_MAX;
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
		run->varies |= demand->works && process->shape != SIM_SHAPE_STEADY;
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

/* Fills run with everything that depends on the processes alone, for tick `tick`. */
static void take_loads(struct run *run, uint64_t tick)
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

static void count_link(struct sim_link *link, uint64_t ticks)
{
	uint64_t milli = link->errors_residue + ticks * link->errors_per_tick_milli;
	uint64_t errors = milli / 1000;

	link->errors_residue = (uint32_t)(milli % 1000);
	/* every flit with a wrong checksum is sent again; one in a hundred makes the link recover
	 */
	link->recovery += (link->crc_flit + errors) / 100 - link->crc_flit / 100;
	link->crc_flit += errors;
	link->crc_data += errors;
	link->replay += errors;
}

/* Lets `ticks` ticks like the present one pass for everything that only grows. */
static void count(struct run *run, uint64_t ticks)
{
	struct sim_gpu *gpu = run->gpu;
	uint64_t ns = ticks * SIM_TICK_NS, milli;

	if (gpu->health == SIM_GPU_LOST || gpu->health == SIM_GPU_UNPLUGGED)
		return;
	gpu->energy_uj += ticks * ((uint64_t)gpu->power_uw / SIM_TICKS_PER_SECOND);
	gpu->pcie_tx_bytes += ticks * run->pcie_tx;
	gpu->pcie_rx_bytes += ticks * run->pcie_rx;
	gpu->nvlink_tx_bytes += ticks * run->nvlink;
	gpu->nvlink_rx_bytes += ticks * run->nvlink;
	gpu->gpm_busy_permille_ticks += ticks * run->util;
	gpu->gpm_tensor_permille_ticks += ticks * run->tensor;
	gpu->gpm_dram_permille_ticks += ticks * run->membw;
	if (gpu->throttle_reasons & REASON_SW_POWER_CAP)
		gpu->power_violation_ns += ns;
	if (gpu->throttle_reasons & REASON_SW_THERMAL) {
		gpu->thermal_violation_ns += ns;
		gpu->sw_thermal_ns += ns;
	}
	if (gpu->throttle_reasons & REASON_HW_THERMAL)
		gpu->hw_thermal_ns += ns;
	if (gpu->throttle_reasons & REASON_HW_POWER_BRAKE)
		gpu->brake_ns += ns;
	milli = gpu->pcie_replays_residue + ticks * gpu->pcie_replays_per_tick_milli;
	gpu->pcie_replays += milli / 1000;
	gpu->pcie_replays_residue = (uint32_t)(milli % 1000);
	for (uint32_t i = 0; i < run->model->link_count; i++) {
		if (gpu->link[i].errors_per_tick_milli > 0)
			count_link(&gpu->link[i], ticks);
	}
	for (uint32_t i = 0; i < run->demand_count; i++)
		gpu->process[run->demand[i].slot].sm_busy_permille_ticks +=
		    ticks * run->demand[i].share;
}

/* How many of the ticks 1 to `tick` end a sixth of a second, in which samples are taken. */
static uint64_t sample_ticks(uint64_t tick)
{
	return tick / 5 * 3 + tick % 5 * 3 / 5;
}

static void take_samples(struct run *run, uint64_t tick)
{
	struct sim_gpu *gpu = run->gpu;

	if (sample_ticks(tick) == sample_ticks(tick - 1))
		return;
	for (uint32_t i = 0; i < run->demand_count; i++) {
		const struct demand *demand = &run->demand[i];

		gpu->sample[gpu->sample_count++ % SIM_SAMPLE_MAX] = (struct sim_sample){
		    .tick = tick,
		    .pid = gpu->process[demand->slot].host_pid,
		    .sm = (uint16_t)demand->share,
		    .mem = (uint16_t)demand->membw,
		    .enc = (uint16_t)demand->enc,
		    .dec = (uint16_t)demand->dec,
		};
	}
}

/* Slows down by 10 % a second while too hot, and comes back as slowly. */
static void step_throttle(struct run *run, uint64_t tick)
{
	struct sim_gpu *gpu = run->gpu;
	int64_t limit_uc = (int64_t)run->model->gpu_max_c * MICRO;

	if (tick % THROTTLE_EVERY_TICKS != 0)
		return;
	if (gpu->temperature_uc >= limit_uc) {
		if (gpu->throttle_steps < THROTTLE_STEPS_MAX)
			gpu->throttle_steps++;
	} else if (gpu->throttle_steps > 0 &&
		   gpu->temperature_uc < limit_uc - (int64_t)THROTTLE_HYSTERESIS_C * MICRO) {
		gpu->throttle_steps--;
	}
}

/* What holds the clock down for reasons other than power; `*reasons` gets their bits. */
static uint32_t clock_factor(const struct run *run, uint64_t *reasons)
{
	const struct sim_gpu *gpu = run->gpu;
	uint32_t factor = FULL - 100 * gpu->throttle_steps;

	if (gpu->throttle_steps > 0 ||
	    gpu->temperature_uc >= (int64_t)run->model->gpu_max_c * MICRO)
		*reasons |= REASON_SW_THERMAL;
	if (gpu->temperature_uc >= (int64_t)run->model->slowdown_c * MICRO) {
		*reasons |= REASON_HW_SLOWDOWN | REASON_HW_THERMAL;
		factor /= 2;
	}
	if (gpu->power_brake) {
		*reasons |= REASON_HW_POWER_BRAKE;
		factor /= 2;
	}
	return factor;
}

static void set_clocks(struct run *run, bool is_idle, uint32_t factor)
{
	struct sim_gpu *gpu = run->gpu;
	const struct sim_model *model = run->model;
	uint32_t below = model->sm_max_mhz - model->sm_max_mhz * factor / FULL;

	if (is_idle) {
		gpu->sm_mhz = model->sm_idle_mhz;
		gpu->pstate = model->idle_pstate;
		gpu->mem_mhz = model->idle_pstate == 0 ? model->mem_max_mhz : model->mem_idle_mhz;
		return;
	}
	below = (below + CLOCK_STEP_MHZ - 1) / CLOCK_STEP_MHZ * CLOCK_STEP_MHZ;
	gpu->sm_mhz = below < model->sm_max_mhz ? model->sm_max_mhz - below : 0;
	if (gpu->sm_mhz < model->sm_idle_mhz)
		gpu->sm_mhz = model->sm_idle_mhz;
	gpu->mem_mhz = model->mem_max_mhz;
	gpu->pstate = 0;
}

static void set_fan(struct run *run)
{
	struct sim_gpu *gpu = run->gpu;
	int64_t over_uc = gpu->temperature_uc - (int64_t)FAN_FROM_C * MICRO;
	int64_t range_c = (int64_t)run->model->gpu_max_c - FAN_FROM_C;

	if (run->model->fan_count == 0 || gpu->fan_stuck || over_uc <= 0 || range_c <= 0)
		gpu->fan_permille = 0;
	else
		gpu->fan_permille = least((uint64_t)(over_uc / (range_c * 1000)), FULL);
}

static void overheated(struct run *run, uint64_t tick)
{
	struct sim_event event = {
	    .tick = tick,
	    .type = EVENT_XID,
	    .data = XID_FELL_OFF_THE_BUS,
	    .gpu = run->index,
	    .gi = SIM_WHOLE_GPU,
	    .ci = SIM_WHOLE_GPU,
	};

	run->gpu->health = SIM_GPU_LOST;
	run->gpu->last_xid = XID_FELL_OFF_THE_BUS;
	run->horizon = tick + 1;
	sim_machine_event(run->machine, &event);
}

/* Power, temperature and clocks of one tick. */
static void step_heat(struct run *run, uint64_t tick)
{
	struct sim_gpu *gpu = run->gpu;
	const struct sim_model *model = run->model;
	bool is_off = gpu->health == SIM_GPU_LOST || gpu->health == SIM_GPU_UNPLUGGED;
	bool is_idle = gpu->idle_ticks > IDLE_TICKS;
	int64_t span_mw = (int64_t)model->power_load_mw - (int64_t)model->power_idle_mw;
	int64_t limit_uw = (int64_t)gpu->power_limit_mw * 1000, target_uw;
	uint64_t reasons = is_idle ? REASON_GPU_IDLE : 0;
	uint32_t factor;

	step_throttle(run, tick);
	factor = clock_factor(run, &reasons);
	target_uw = is_off ? 0
			   : (int64_t)model->power_idle_mw * 1000 +
				 span_mw * (int64_t)run->util * (int64_t)factor / FULL;
	if (target_uw > limit_uw) {
		reasons |= REASON_SW_POWER_CAP;
		factor = (uint32_t)((int64_t)factor * limit_uw / target_uw);
		target_uw = limit_uw;
	}
	gpu->power_uw = lag(gpu->power_uw, target_uw, run->power_alpha);
	gpu->temperature_uc =
	    lag(gpu->temperature_uc, settled_uc(run, gpu->power_uw), run->thermal_alpha);
	gpu->throttle_reasons = reasons;
	set_clocks(run, is_idle, factor);
	set_fan(run);
	if (!is_off && gpu->temperature_uc >= (int64_t)model->shutdown_c * MICRO)
		overheated(run, tick);
}

static void step(struct run *run, uint64_t tick)
{
	struct sim_gpu *gpu = run->gpu;

	gpu->util_permille = run->util;
	gpu->membw_permille = run->membw;
	gpu->enc_permille = run->enc;
	gpu->dec_permille = run->dec;
	gpu->tensor_permille = run->tensor;
	if (run->util + run->enc + run->dec > 0)
		gpu->idle_ticks = 0;
	else if (gpu->idle_ticks <= IDLE_TICKS)
		gpu->idle_ticks++;
	step_heat(run, tick);
	count(run, 1);
	take_samples(run, tick);
}

/* Frees the slots of loads that end with `tick`. */
static void end_loads(struct run *run, uint64_t tick)
{
	for (uint32_t i = 0; i < SIM_PROCESS_MAX; i++) {
		struct sim_process *process = &run->gpu->process[i];

		if (process->pid != 0 && process->end_tick != 0 && process->end_tick <= tick)
			*process = (struct sim_process){0};
	}
}

/* What a tick depends on besides the loads. */
struct motion {
	int64_t power_uw, temperature_uc;
	uint32_t sm_mhz, idle_ticks, throttle_steps, fan_permille;
	uint64_t reasons;
};

static struct motion motion_of(const struct sim_gpu *gpu)
{
	return (struct motion){gpu->power_uw,	     gpu->temperature_uc, gpu->sm_mhz,
			       gpu->idle_ticks,	     gpu->throttle_steps, gpu->fan_permille,
			       gpu->throttle_reasons};
}

/* True when the coming ticks will repeat the last one as long as the loads stay. */
static bool stands_still(const struct run *run, const struct motion *a)
{
	const struct motion b = motion_of(run->gpu);

	return !run->varies && a->power_uw == b.power_uw && a->temperature_uc == b.temperature_uc &&
	       a->sm_mhz == b.sm_mhz && a->idle_ticks == b.idle_ticks &&
	       a->fan_permille == b.fan_permille && a->reasons == b.reasons &&
	       a->throttle_steps == 0 && b.throttle_steps == 0 &&
	       b.temperature_uc < (int64_t)run->model->gpu_max_c * MICRO;
}

/*
 * Jumps over ticks that would repeat the last one and returns the tick reached. Enough of them are
 * left to be stepped through that the ring of samples is written anew.
 */
static uint64_t jump(struct run *run, uint64_t tick, uint64_t target)
{
	uint64_t last = target < run->horizon - 1 ? target : run->horizon - 1;
	uint64_t keep = 0, ticks;

	if (run->demand_count > 0)
		keep = (SIM_SAMPLE_MAX / run->demand_count + 2) * 5 / 3 + 5;
	if (last <= tick + keep)
		return tick;
	ticks = last - tick - keep;
	count(run, ticks);
	run->gpu->sample_count +=
	    (sample_ticks(tick + ticks) - sample_ticks(tick)) * run->demand_count;
	return tick + ticks;
}

static void run_start(struct run *run, struct sim_machine *machine, uint32_t index)
{
	run->machine = machine;
	run->index = index;
	run->gpu = &machine->gpu[index];
	run->model = sim_model_of(machine, run->gpu);
	run->power_alpha = lag_alpha(run->model->power_tau_ms);
	run->thermal_alpha = lag_alpha(run->model->thermal_tau_ms);
	run->horizon = 0;
	run->varies = false;
}

static void advance_gpu(struct sim_machine *machine, uint32_t index, uint64_t target)
{
	struct run run;
	uint64_t tick = machine->tick;

	run_start(&run, machine, index);
	while (tick < target) {
		struct motion before = motion_of(run.gpu);

		if (tick + 1 >= run.horizon) {
			end_loads(&run, tick);
			list_demands(&run, tick + 1);
			take_loads(&run, tick + 1);
		} else if (run.varies) {
			take_loads(&run, tick + 1);
		}
		step(&run, ++tick);
		if (stands_still(&run, &before))
			tick = jump(&run, tick, target);
	}
	end_loads(&run, tick);
}

void sim_physics_advance(struct sim_machine *machine, uint64_t tick)
{
	uint32_t first = machine->pending_count;

	if (tick <= machine->tick)
		return;
	for (uint32_t i = 0; i < machine->gpu_count; i++)
		advance_gpu(machine, i, tick);
	/* GPUs were advanced one after another; their events belong in the order of time */
	for (uint32_t i = first + 1; i < machine->pending_count; i++) {
		struct sim_event event = machine->pending[i];
		uint32_t k = i;

		for (; k > first && machine->pending[k - 1].tick > event.tick; k--)
			machine->pending[k] = machine->pending[k - 1];
		machine->pending[k] = event;
	}
	machine->tick = tick;
}

void sim_physics_settle(struct sim_machine *machine, uint32_t gpu)
{
	struct run run;

	run_start(&run, machine, gpu);
	run.gpu->util_permille = run.gpu->membw_permille = run.gpu->enc_permille = 0;
	run.gpu->dec_permille = run.gpu->jpg_permille = run.gpu->ofa_permille = 0;
	run.gpu->tensor_permille = 0;
	run.gpu->power_uw = (int64_t)run.model->power_idle_mw * 1000;
	run.gpu->temperature_uc = settled_uc(&run, run.gpu->power_uw);
	run.gpu->idle_ticks = IDLE_TICKS + 1;
	run.gpu->throttle_steps = 0;
	run.gpu->throttle_reasons = REASON_GPU_IDLE;
	set_clocks(&run, true, FULL);
	set_fan(&run);
}

void sim_machine_event(struct sim_machine *machine, const struct sim_event *event)
{
	if (machine->pending_count >= SIM_PENDING_MAX) {
		memmove(&machine->pending[0], &machine->pending[1],
			(SIM_PENDING_MAX - 1) * sizeof(machine->pending[0]));
		machine->pending_count = SIM_PENDING_MAX - 1;
	}
	machine->pending[machine->pending_count++] = *event;
}

uint32_t sim_physics_power_mw(const struct sim_machine *machine, uint32_t gpu)
{
	int64_t mw = machine->gpu[gpu].power_uw / 1000;
	uint64_t noise = sim_hash(machine->seed, gpu, SIM_HASH_POWER, machine->tick) % 20001;

	return (uint32_t)(mw + mw * ((int64_t)noise - 10000) / MICRO);
}

int32_t sim_physics_temperature_c(const struct sim_machine *machine, uint32_t gpu)
{
	return (int32_t)((machine->gpu[gpu].temperature_uc + MICRO / 2) / MICRO);
}

int32_t sim_physics_memory_temperature_c(const struct sim_machine *machine, uint32_t gpu)
{
	const struct sim_model *model = sim_model_of(machine, &machine->gpu[gpu]);

	/* high-bandwidth memory sits beside the chip and a little warmer */
	return sim_physics_temperature_c(machine, gpu) + (model->has_hbm ? 5 : 0);
}

uint32_t sim_physics_util_percent(const struct sim_machine *machine, uint32_t gpu)
{
	return (machine->gpu[gpu].util_permille + 5) / 10;
}

uint64_t sim_physics_memory_used(const struct sim_machine *machine, uint32_t gpu, uint32_t gi)
{
	const struct sim_gpu *g = &machine->gpu[gpu];
	const struct sim_model *model = sim_model_of(machine, g);
	uint64_t most = model->memory_bytes - model->reserved_bytes, used = 0;

	for (uint32_t i = 0; i < SIM_GI_MAX && gi != SIM_WHOLE_GPU; i++) {
		if (g->gi[i].used && g->gi[i].id == gi)
			most = model->mig_profile[g->gi[i].profile].memory_mib << 20;
	}
	for (uint32_t i = 0; i < SIM_PROCESS_MAX; i++) {
		const struct sim_process *process = &g->process[i];

		if (process->pid == 0 || (gi != SIM_WHOLE_GPU && process->gi != gi))
			continue;
		used += process->memory_bytes + ((uint64_t)model->context_bytes_mib << 20);
	}
	return used < most ? used : most;
}
