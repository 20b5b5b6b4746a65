/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/physics.h"

#include <stdlib.h>
#include <string.h>

#include "sim/error.h"
#include "sim/profile.h"
#include "tests/unit/unit.h"

enum { SECOND = SIM_TICKS_PER_SECOND, MINUTE = 60 * SECOND };

static struct sim_machine machine;
static struct sim_gpu *gpu;

static void start(const char *profile, const char *layout)
{
	const struct sim_options options = {.seed = 3, .mig_layout = layout};
	struct sim_error error;

	if (sim_profile_load(profile, &options, &machine, &error) < 0)
		fail_msg("%s", error.text);
	gpu = &machine.gpu[0];
}

static void advance(uint64_t ticks)
{
	sim_physics_advance(&machine, machine.tick + ticks);
}

/* A steady compute load in slot `slot`. */
static struct sim_process *load(uint32_t slot, uint32_t util)
{
	gpu->process[slot] = (struct sim_process){.pid = 100 + slot,
						  .host_pid = 100 + slot,
						  .type = SIM_PROCESS_COMPUTE,
						  .gi = SIM_WHOLE_GPU,
						  .ci = SIM_WHOLE_GPU,
						  .util_permille = util,
						  .membw_permille = -1,
						  .begin_tick = machine.tick};
	return &gpu->process[slot];
}

static void assert_near(int64_t value, int64_t wanted, int64_t off)
{
	if (value < wanted - off || value > wanted + off)
		fail_msg("%lld is not within %lld of %lld", (long long)value, (long long)off,
			 (long long)wanted);
}

static void test_idle_node_reads_zero(void **state)
{
	start("dgx-a100", "none");
	advance(30 * MINUTE);
	assert_int_equal(sim_physics_util_percent(&machine, 0), 0);
	assert_int_equal(gpu->membw_permille, 0);
	assert_int_equal(gpu->throttle_reasons, 0x1);
	assert_int_equal(gpu->sm_mhz, 210);
	assert_int_equal(gpu->mem_mhz, 1215);
	assert_int_equal(gpu->pstate, 0);
	assert_near(sim_physics_power_mw(&machine, 0), 72000, 720);
	assert_int_equal(gpu->pcie_tx_bytes, 0);
	assert_int_equal(sim_physics_memory_used(&machine, 0, SIM_WHOLE_GPU), 0);
	start("t4x1", NULL);
	advance(MINUTE);
	assert_int_equal(gpu->pstate, 8);
	assert_int_equal(gpu->mem_mhz, 405);
}

static void test_full_load_settles_20_below_slowdown(void **state)
{
	static const char *const profiles[] = {"dgx1", "dgx2",	      "dgx-a100", "hgx-h100",
					       "t4x4", "workstation", "h100-mig"};

	for (size_t i = 0; i < sizeof(profiles) / sizeof(profiles[0]); i++) {
		start(profiles[i], "none");
		load(0, 1000);
		advance(10 * MINUTE);
		assert_int_equal(sim_physics_temperature_c(&machine, 0),
				 machine.model[0].slowdown_c - 20);
		assert_int_equal(sim_physics_memory_temperature_c(&machine, 0),
				 machine.model[0].slowdown_c - 20 +
				     (machine.model[0].has_hbm ? 5U : 0U));
		assert_near(sim_physics_power_mw(&machine, 0), machine.model[0].power_max_mw,
			    machine.model[0].power_max_mw / 99);
		assert_int_equal(gpu->sm_mhz, machine.model[0].sm_max_mhz);
		assert_int_equal(gpu->throttle_reasons, 0);
		assert_int_equal(sim_physics_util_percent(&machine, 0), 100);
		assert_int_equal(gpu->membw_permille, 500);
	}
}

static void test_power_lags_300_ms(void **state)
{
	start("dgx-a100", "none");
	load(0, 1000);
	advance(3);
	/* 1 - 1/e of the way from 72 W to 400 W */
	assert_near(gpu->power_uw, 72000000 + (int64_t)(328000000 * 0.632), 1000000);
}

static void test_temperature_lags_20_s(void **state)
{
	int64_t first;

	start("dgx-a100", "none");
	load(0, 1000);
	advance(2 * SECOND);
	first = gpu->temperature_uc;
	advance(20 * SECOND);
	assert_near(gpu->temperature_uc, first + (int64_t)((67000000 - first) * 0.632), 200000);
}

static void test_idle_clocks_after_a_second(void **state)
{
	start("dgx-a100", "none");
	load(0, 500)->end_tick = 5 * SECOND;
	advance(5 * SECOND);
	assert_int_equal(gpu->process[0].pid, 0);
	assert_int_equal(gpu->util_permille, 500);
	advance(SECOND);
	assert_int_equal(gpu->util_permille, 0);
	assert_int_equal(gpu->sm_mhz, 1410);
	advance(1);
	assert_int_equal(gpu->sm_mhz, 210);
	assert_int_equal(gpu->throttle_reasons, 0x1);
}

static void test_time_slices_are_shared_in_proportion(void **state)
{
	start("dgx-a100", "none");
	load(0, 900);
	load(1, 600);
	load(2, 300);
	advance(1);
	assert_int_equal(gpu->util_permille, 1000);
	assert_int_equal(gpu->process[0].share_permille, 500);
	assert_int_equal(gpu->process[1].share_permille, 333);
	assert_int_equal(gpu->process[2].share_permille, 167);
	load(0, 300);
	load(1, 200);
	load(2, 0);
	advance(1);
	assert_int_equal(gpu->util_permille, 500);
	assert_int_equal(gpu->process[0].share_permille, 300);
}

static void test_mps_clients_add_up(void **state)
{
	start("dgx-a100", "none");
	load(0, 600)->type = SIM_PROCESS_MPS;
	load(1, 300)->type = SIM_PROCESS_MPS;
	advance(1);
	assert_int_equal(gpu->util_permille, 900);
	assert_int_equal(gpu->process[0].share_permille, 600);
	/* together they are one taker of turns, so somebody else gets as much as all of them */
	load(1, 600)->type = SIM_PROCESS_MPS;
	load(2, 1000);
	advance(1);
	assert_near(gpu->process[0].share_permille, 250, 1);
	assert_near(gpu->process[2].share_permille, 500, 1);
}

static void test_mig_shares_are_of_the_instance(void **state)
{
	start("dgx-a100", "hetero"); /* 3g (42 SM), 2g, 2g (28 SM each), of 108 */
	load(0, 1000)->gi = gpu->gi[0].id;
	gpu->process[0].ci = 0;
	load(1, 1000)->gi = gpu->gi[0].id;
	gpu->process[1].ci = 0;
	load(2, 1000)->gi = gpu->gi[1].id;
	gpu->process[2].ci = 0;
	load(3, 1000); /* the whole GPU cannot be used */
	load(4, 1000)->gi = 14;
	advance(1);
	assert_int_equal(gpu->process[0].share_permille + gpu->process[1].share_permille,
			 42 * 1000 / 108);
	assert_near(gpu->process[0].share_permille, 194, 1);
	assert_int_equal(gpu->process[2].share_permille, 28 * 1000 / 108);
	assert_int_equal(gpu->process[3].share_permille, 0);
	assert_int_equal(gpu->process[4].share_permille, 0);
	assert_int_equal(gpu->util_permille, 42 * 1000 / 108 + 28 * 1000 / 108);
}

static void test_power_cap(void **state)
{
	start("dgx-a100", "none");
	load(0, 1000);
	gpu->power_limit_mw = 200000;
	advance(MINUTE);
	assert_int_equal(gpu->power_uw, 200000000);
	assert_int_equal(gpu->throttle_reasons, 0x4);
	assert_int_equal(gpu->sm_mhz, 705); /* half of 1410 */
	assert_int_equal(gpu->power_violation_ns, UINT64_C(60) * 1000000000);
	gpu->power_limit_mw = 400000;
	advance(SECOND);
	assert_int_equal(gpu->throttle_reasons, 0);
	assert_int_equal(gpu->power_violation_ns, UINT64_C(60) * 1000000000);
}

static void test_power_brake(void **state)
{
	start("dgx-a100", "none");
	load(0, 1000);
	gpu->power_brake = true;
	advance(10 * SECOND);
	assert_int_equal(gpu->throttle_reasons, 0x80);
	assert_int_equal(gpu->sm_mhz, 705);
	assert_int_equal(gpu->brake_ns, UINT64_C(10) * 1000000000);
}

static void test_hot_gpu_throttles(void **state)
{
	uint64_t seen = 0;

	start("dgx-a100", "none");
	load(0, 1000);
	gpu->fan_stuck = true;
	for (uint32_t i = 0; i < 5 * MINUTE; i++) {
		advance(1);
		seen |= gpu->throttle_reasons;
	}
	assert_int_equal(seen & 0x68, 0x68);
	assert_true(gpu->thermal_violation_ns > 0);
	assert_int_equal(gpu->thermal_violation_ns, gpu->sw_thermal_ns);
	assert_true(gpu->hw_thermal_ns > 0 && gpu->hw_thermal_ns < gpu->sw_thermal_ns);
	assert_true(gpu->sm_mhz < 1410);
	assert_int_equal(gpu->health, SIM_GPU_OK);
	gpu->fan_stuck = false;
	advance(10 * MINUTE);
	assert_int_equal(gpu->throttle_reasons, 0);
	assert_int_equal(gpu->sm_mhz, 1410);
}

static void test_overheated_gpus_are_lost_in_order(void **state)
{
	start("dgx-a100", "none");
	for (uint32_t i = 0; i < 4; i++) {
		machine.gpu[i].process[0] = (struct sim_process){.pid = 1,
								 .type = 1,
								 .gi = SIM_WHOLE_GPU,
								 .ci = SIM_WHOLE_GPU,
								 .util_permille = 1000,
								 .membw_permille = -1};
	}
	machine.gpu[0].ambient_c = 90;
	machine.gpu[2].ambient_c = 150;
	advance(10 * MINUTE);
	assert_int_equal(machine.pending_count, 2);
	assert_int_equal(machine.pending[0].gpu, 2);
	assert_int_equal(machine.pending[1].gpu, 0);
	assert_true(machine.pending[0].tick < machine.pending[1].tick);
	assert_int_equal(machine.pending[0].type, 0x8);
	assert_int_equal(machine.pending[0].data, 79);
	assert_int_equal(machine.pending[0].gi, SIM_WHOLE_GPU);
	assert_int_equal(machine.gpu[0].health, SIM_GPU_LOST);
	assert_int_equal(machine.gpu[0].last_xid, 79);
	assert_int_equal(machine.gpu[0].util_permille, 0);
	assert_int_equal(machine.gpu[1].health, SIM_GPU_OK);
}

static void test_fan(void **state)
{
	start("workstation", NULL);
	assert_int_equal(gpu->fan_permille, 0);
	load(0, 1000);
	advance(10 * MINUTE);
	assert_int_equal(gpu->fan_permille, (70 - 50) * 1000 / (84 - 50));
}

static void test_counters_integrate_rates(void **state)
{
	struct sim_process *process;

	start("dgx-a100", "none");
	process = load(0, 1000);
	process->pcie_tx_bps = 1000;
	process->pcie_rx_bps = 2000;
	process->nvlink_bps = 3000;
	process->tensor_permille = 250;
	gpu->pcie_replays_per_tick_milli = 50;
	gpu->link[2].errors_per_tick_milli = 1500;
	advance(MINUTE);
	assert_int_equal(gpu->pcie_tx_bytes, 60000);
	assert_int_equal(gpu->pcie_rx_bytes, 120000);
	assert_int_equal(gpu->nvlink_tx_bytes, 180000);
	assert_int_equal(gpu->gpm_busy_permille_ticks, 600000);
	assert_int_equal(gpu->gpm_tensor_permille_ticks, 150000);
	assert_int_equal(gpu->gpm_dram_permille_ticks, 300000);
	assert_int_equal(gpu->pcie_replays, 30);
	assert_int_equal(gpu->link[2].crc_flit, 900);
	assert_int_equal(gpu->link[2].replay, 900);
	assert_int_equal(gpu->link[2].recovery, 9);
	assert_int_equal(gpu->process[0].sm_busy_permille_ticks, 600000);
}

static void test_shapes(void **state)
{
	struct sim_process *process;
	uint64_t sum = 0;

	start("dgx-a100", "none");
	process = load(0, 800);
	process->shape = SIM_SHAPE_BURST;
	advance(1);
	assert_int_equal(gpu->util_permille, 800);
	advance(10);
	assert_int_equal(gpu->util_permille, 0);
	advance(10);
	assert_int_equal(gpu->util_permille, 800);

	process = load(0, 1000);
	process->shape = SIM_SHAPE_SINE;
	for (uint32_t i = 0; i < 100; i++) {
		advance(1);
		sum += gpu->util_permille;
	}
	assert_near((int64_t)sum, 50000, 100);

	process = load(0, 500);
	process->shape = SIM_SHAPE_TRACE;
	process->trace_length = 2;
	process->trace_permille[0][0] = 1000 & 0xff;
	process->trace_permille[0][1] = 1000 >> 8;
	process->trace_permille[1][0] = 100;
	advance(10);
	assert_int_equal(gpu->util_permille, 500);
	advance(1);
	assert_int_equal(gpu->util_permille, 50);
	advance(10);
	assert_int_equal(gpu->util_permille, 500);
}

static void test_samples_six_a_second(void **state)
{
	start("dgx-a100", "none");
	load(0, 700);
	load(1, 200);
	advance(SECOND);
	assert_int_equal(gpu->sample_count, 12);
	assert_int_equal(gpu->sample[0].pid, 100);
	assert_int_equal(gpu->sample[0].sm, 700);
	assert_int_equal(gpu->sample[0].mem, 350);
	assert_int_equal(gpu->sample[1].pid, 101);
	assert_int_equal(gpu->sample[11].tick, 10);
	advance(100 * MINUTE);
	assert_int_equal(gpu->sample_count, 12 * (100 * 60 + 1));
	for (uint32_t i = 0; i < SIM_SAMPLE_MAX; i++)
		assert_in_range(machine.tick - gpu->sample[i].tick, 0, SIM_SAMPLE_MAX * 10 / 12);
}

/* Of the whole GPU: means since the one before, of an idle GPU too, and the same whether the
 * machine was looked at often or hours later. */
static void test_samples_of_the_device(void **state)
{
	static struct sim_machine often;
	uint64_t permille = 0;

	start("dgx-a100", "none");
	advance(SECOND);
	assert_int_equal(gpu->device_sample_count, 6);
	assert_int_equal(gpu->device_sample[5].sm, 0);
	load(0, 700)->shape = SIM_SHAPE_BURST;
	load(1, 200);
	often = machine;
	advance(2 * 60 * MINUTE + 7);
	for (uint64_t tick = often.tick; tick < machine.tick; tick++)
		sim_physics_advance(&often, tick + 1);
	assert_memory_equal(&often, &machine, sizeof(often));
	assert_int_equal(gpu->device_sample_count, 6 * (2 * 60 * 60 + 1) + 4);
	for (uint64_t i = 0; i < 12; i++) { /* the last two seconds: a whole burst */
		uint64_t at = gpu->device_sample_count - 12 + i;
		permille += gpu->device_sample[at % SIM_DEVICE_SAMPLE_MAX].sm;
	}
	assert_near((int64_t)permille / 12, 200 + 350, 30);
}

static void test_memory(void **state)
{
	const uint64_t mib = 1 << 20;

	start("dgx-a100", "none");
	load(0, 0)->memory_bytes = 1000 * mib;
	load(1, 0)->memory_bytes = 2000 * mib;
	assert_int_equal(sim_physics_memory_used(&machine, 0, SIM_WHOLE_GPU), 3600 * mib);
	load(2, 0)->memory_bytes = 90000 * mib;
	assert_int_equal(sim_physics_memory_used(&machine, 0, SIM_WHOLE_GPU), (40960 - 583) * mib);
	gpu->process[1].gi = 4;
	assert_int_equal(sim_physics_memory_used(&machine, 0, 4), 2300 * mib);
}

static void test_noise_is_of_the_tick(void **state)
{
	uint32_t first, low = UINT32_MAX, high = 0;

	start("dgx-a100", "none");
	first = sim_physics_power_mw(&machine, 0);
	assert_int_equal(sim_physics_power_mw(&machine, 0), first);
	for (uint32_t i = 0; i < 1000; i++) {
		uint32_t now;

		advance(1);
		now = sim_physics_power_mw(&machine, 0);
		low = now < low ? now : low;
		high = now > high ? now : high;
	}
	assert_in_range(low, 71280, 71400);
	assert_in_range(high, 72600, 72720);
}

static void test_full_queue_drops_the_oldest(void **state)
{
	struct sim_event event = {0};

	start("dgx-a100", "none");
	for (uint64_t i = 0; i < SIM_PENDING_MAX + 3; i++) {
		event.data = i;
		sim_machine_event(&machine, &event);
	}
	assert_int_equal(machine.pending_count, SIM_PENDING_MAX);
	assert_int_equal(machine.pending[0].data, 3);
	assert_int_equal(machine.pending[SIM_PENDING_MAX - 1].data, SIM_PENDING_MAX + 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_idle_node_reads_zero),
	    cmocka_unit_test(test_full_load_settles_20_below_slowdown),
	    cmocka_unit_test(test_power_lags_300_ms),
	    cmocka_unit_test(test_temperature_lags_20_s),
	    cmocka_unit_test(test_idle_clocks_after_a_second),
	    cmocka_unit_test(test_time_slices_are_shared_in_proportion),
	    cmocka_unit_test(test_mps_clients_add_up),
	    cmocka_unit_test(test_mig_shares_are_of_the_instance),
	    cmocka_unit_test(test_power_cap),
	    cmocka_unit_test(test_power_brake),
	    cmocka_unit_test(test_hot_gpu_throttles),
	    cmocka_unit_test(test_overheated_gpus_are_lost_in_order),
	    cmocka_unit_test(test_fan),
	    cmocka_unit_test(test_counters_integrate_rates),
	    cmocka_unit_test(test_shapes),
	    cmocka_unit_test(test_samples_six_a_second),
	    cmocka_unit_test(test_samples_of_the_device),
	    cmocka_unit_test(test_memory),
	    cmocka_unit_test(test_noise_is_of_the_tick),
	    cmocka_unit_test(test_full_queue_drops_the_oldest),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
