/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/physics.h"

#include <stddef.h>
#include <string.h>

#include "sim/physics_run.h"

enum {
	IDLE_TICKS = 10,
	THROTTLE_STEPS_MAX = 8,
	THROTTLE_HYSTERESIS_C = 3,
	CLOCK_STEP_MHZ = 15,
	FAN_FROM_C = 50,
	SETTLE_BELOW_SLOWDOWN_C = 20,
	SETTLE_AMBIENT_C = 25,
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
	REASON_SYNC_BOOST = 0x10,
	REASON_SW_THERMAL = 0x20,
	REASON_HW_THERMAL = 0x40,
	REASON_HW_POWER_BRAKE = 0x80,
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

/* Injected errors, which come at a steady rate whatever the loads do. */
static void count_errors(struct run *run, uint64_t ticks)
{
	struct sim_gpu *gpu = run->gpu;
	uint64_t milli = gpu->pcie_replays_residue + ticks * gpu->pcie_replays_per_tick_milli;

	if (gpu->health == SIM_GPU_LOST || gpu->health == SIM_GPU_UNPLUGGED)
		return;

	gpu->pcie_replays += milli / 1000;
	gpu->pcie_replays_residue = (uint32_t)(milli % 1000);
	for (uint32_t i = 0; i < run->model->link_count; i++) {
		if (gpu->link[i].errors_per_tick_milli > 0)
			count_link(&gpu->link[i], ticks);
	}
}

/* Lets `ticks` ticks like the present one pass for everything that only grows. */
static void count(struct run *run, uint64_t ticks)
{
	struct sim_gpu *gpu = run->gpu;
	uint64_t ns = ticks * SIM_TICK_NS;

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

	for (uint32_t i = 0; i < SIM_HOLD_COUNT; i++) {
		if (gpu->holds >> i & 1)
			gpu->hold_ns[i] += ns;
	}

	count_errors(run, ticks);

	for (uint32_t i = 0; i < run->demand_count; i++)
		gpu->process[run->demand[i].slot].sm_busy_permille_ticks +=
		    ticks * run->demand[i].share;
}

/* The counters that integrate what the loads do; the same ones in the same order every time. */
static void list_counters(struct run *run, uint64_t *out[COUNTERS + SIM_PROCESS_MAX])
{
	struct sim_gpu *gpu = run->gpu;
	uint64_t *const of_gpu[COUNTERS] = {
	    &gpu->energy_uj,
	    &gpu->pcie_tx_bytes,
	    &gpu->pcie_rx_bytes,
	    &gpu->nvlink_tx_bytes,
	    &gpu->nvlink_rx_bytes,
	    &gpu->gpm_busy_permille_ticks,
	    &gpu->gpm_tensor_permille_ticks,
	    &gpu->gpm_dram_permille_ticks,
	    &gpu->power_violation_ns,
	    &gpu->thermal_violation_ns,
	    &gpu->sw_thermal_ns,
	    &gpu->hw_thermal_ns,
	    &gpu->brake_ns,
	    &gpu->hold_ns[SIM_HOLD_SYNC_BOOST],
	    &gpu->hold_ns[SIM_HOLD_BOARD],
	    &gpu->hold_ns[SIM_HOLD_LOW_UTIL],
	    &gpu->hold_ns[SIM_HOLD_RELIABILITY],
	};

	memcpy(out, of_gpu, sizeof(of_gpu));

	for (uint32_t i = 0; i < run->demand_count; i++)
		out[COUNTERS + i] = &gpu->process[run->demand[i].slot].sm_busy_permille_ticks;
}

/* How many of the ticks 1 to `tick` end a sixth of a second, in which samples are taken. */
static uint64_t sample_ticks(uint64_t tick)
{
	return tick / 5 * 3 + tick % 5 * 3 / 5;
}

/* The mean since the last sample; the GPU is idle in some of them, but always sampled. */
static void take_device_sample(struct sim_gpu *gpu, uint64_t tick)
{
	uint32_t ticks = gpu->since_ticks ? gpu->since_ticks : 1;

	gpu->device_sample[gpu->device_sample_count++ % SIM_DEVICE_SAMPLE_MAX] =
	    (struct sim_device_sample){
		.tick = tick,
		.sm = (uint16_t)(gpu->since_sm / ticks),
		.mem = (uint16_t)(gpu->since_mem / ticks),
		.enc = (uint16_t)(gpu->since_enc / ticks),
		.dec = (uint16_t)(gpu->since_dec / ticks),
	    };
	gpu->since_sm = gpu->since_mem = gpu->since_enc = gpu->since_dec = gpu->since_ticks = 0;
}

static void take_samples(struct run *run, uint64_t tick)
{
	struct sim_gpu *gpu = run->gpu;

	gpu->since_sm += run->util;
	gpu->since_mem += run->membw;
	gpu->since_enc += run->enc;
	gpu->since_dec += run->dec;
	gpu->since_ticks++;

	if (sample_ticks(tick) == sample_ticks(tick - 1))
		return;

	take_device_sample(gpu, tick);

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

	if (gpu->holds >> SIM_HOLD_SYNC_BOOST & 1)
		*reasons |= REASON_SYNC_BOOST;
	if (gpu->holds != 0)
		factor = factor * 9 / 10;

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

static struct motion motion_of(const struct sim_gpu *gpu)
{
	return (struct motion){gpu->power_uw,	     gpu->temperature_uc, gpu->sm_mhz,
			       gpu->idle_ticks,	     gpu->throttle_steps, gpu->fan_permille,
			       gpu->throttle_reasons};
}

static bool same_motion(const struct motion *a, const struct motion *b)
{
	return a->power_uw == b->power_uw && a->temperature_uc == b->temperature_uc &&
	       a->sm_mhz == b->sm_mhz && a->idle_ticks == b->idle_ticks &&
	       a->throttle_steps == b->throttle_steps && a->fan_permille == b->fan_permille &&
	       a->reasons == b->reasons;
}

/* True when the coming ticks will repeat the last one as long as the loads stay. */
static bool stands_still(const struct run *run, const struct motion *a)
{
	const struct motion b = motion_of(run->gpu);

	return !run->varies && same_motion(a, &b) && b.throttle_steps == 0 &&
	       b.temperature_uc < (int64_t)run->model->gpu_max_c * MICRO;
}

/*
 * How many of the ticks from `tick` on may be jumped over: up to `target` and the horizon, but so
 * many are left to be stepped through that the ring of samples is written anew.
 */
static uint64_t jump_room(const struct run *run, uint64_t tick, uint64_t target)
{
	uint64_t last = target < run->horizon - 1 ? target : run->horizon - 1;
	uint64_t keep = SIM_DEVICE_SAMPLE_MAX + 2; /* samples */

	if (run->demand_count > 0 && SIM_SAMPLE_MAX / run->demand_count + 2 > keep)
		keep = SIM_SAMPLE_MAX / run->demand_count + 2;
	keep = keep * 5 / 3 + 5;
	return last > tick + keep ? last - tick - keep : 0;
}

static void jump_samples(struct run *run, uint64_t tick, uint64_t ticks)
{
	uint64_t samples = sample_ticks(tick + ticks) - sample_ticks(tick);

	run->gpu->sample_count += samples * run->demand_count;
	run->gpu->device_sample_count += samples;
}

/* Jumps over ticks that would repeat the last one and returns the tick reached. */
static uint64_t jump_still(struct run *run, uint64_t tick, uint64_t target)
{
	uint64_t ticks = jump_room(run, tick, target);

	if (ticks > 0) {
		count(run, ticks);
		jump_samples(run, tick, ticks);
	}
	return tick + ticks;
}

static void cycle_mark(struct run *run, uint64_t tick, uint64_t power)
{
	uint64_t *counter[COUNTERS + SIM_PROCESS_MAX];

	run->cycle.next = run->period ? tick + run->period : UINT64_MAX;
	run->cycle.power = power;
	run->cycle.length = 0;
	run->cycle.motion = motion_of(run->gpu);
	list_counters(run, counter);

	for (uint32_t i = 0; i < COUNTERS + run->demand_count; i++)
		run->cycle.counter[i] = *counter[i];
}

/*
 * Loads that come and go, or a GPU that is hot and cools down in turn, go round in a circle before
 * long. Brent's algorithm finds it: compare with a marked state once a period, and mark anew after
 * 1, 2, 4, ... periods. Then whole rounds are jumped over.
 */
static uint64_t jump_cycle(struct run *run, uint64_t tick, uint64_t target)
{
	uint64_t *counter[COUNTERS + SIM_PROCESS_MAX];
	const struct motion now = motion_of(run->gpu);
	struct cycle *cycle = &run->cycle;
	uint64_t round, rounds;

	cycle->next = tick + run->period;
	cycle->length++;

	if (!same_motion(&now, &cycle->motion)) {
		if (cycle->length == cycle->power)
			cycle_mark(run, tick, cycle->power * 2);
		return tick;
	}

	round = cycle->length * run->period;
	rounds = jump_room(run, tick, target) / round;
	list_counters(run, counter);

	for (uint32_t i = 0; i < COUNTERS + run->demand_count; i++)
		*counter[i] += rounds * (*counter[i] - cycle->counter[i]);

	count_errors(run, rounds * round);
	jump_samples(run, tick, rounds * round);
	cycle_mark(run, tick + rounds * round, 1);

	return tick + rounds * round;
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
			physics_list_demands(&run, tick + 1);
			physics_take_loads(&run, tick + 1);
			run.cycle.next = 0;
		} else if (run.varies) {
			physics_take_loads(&run, tick + 1);
		}

		step(&run, ++tick);
		if (stands_still(&run, &before))
			tick = jump_still(&run, tick, target);
		else if (run.cycle.next == 0)
			cycle_mark(&run, tick, 1);
		else if (tick == run.cycle.next)
			tick = jump_cycle(&run, tick, target);
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
