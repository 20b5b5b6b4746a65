/* SPDX-License-Identifier: Apache-2.0 */
/* Faults on the machine itself, without files; tests/e2e/test_sim_faults.py looks from outside. */
#include "sim/fault.h"

#include <stdio.h>
#include <string.h>

#include "sim/error.h"
#include "sim/profile.h"
#include "tests/unit/unit.h"

static struct sim_machine machine, before;

static void start(const char *profile, const char *layout)
{
	const struct sim_options options = {.seed = 1, .mig_layout = layout};
	struct sim_error error;
	if (sim_profile_load(profile, &options, &machine, &error) < 0)
		fail_msg("%s", error.text);
	machine.root[0] = '\0';
	machine.pending_count = 0;
	before = machine;
}

static struct sim_fault fault_of(const char *kind, const char *first, const char *second)
{
	return (struct sim_fault){
	    .kind = kind,
	    .argument = {first, second},
	    .argument_count = second  ? 2
			      : first ? 1
				      : 0,
	    .gi = SIM_WHOLE_GPU,
	    .ci = SIM_WHOLE_GPU,
	};
}

static void inject(const char *kind, const char *first, const char *second)
{
	struct sim_fault fault = fault_of(kind, first, second);
	struct sim_error error = {0};
	if (sim_fault_inject(&machine, &fault, &error) != 0)
		fail_msg("%s: %s", kind, error.text);
}

/* What shows of a fault in readings; the log's numbers and what is counted for good stay out. */
static void forget_history(struct sim_machine *m)
{
	m->kmsg_seq = m->uevent_seq = m->next_rule_id = 0;
	m->pending_count = 0;
	memset(m->pending, 0, sizeof(m->pending));
	for (uint32_t i = 0; i < m->gpu_count; i++) {
		m->gpu[i].last_xid = 0;
		m->gpu[i].ecc = (struct sim_ecc){0};
		m->gpu[i].remap_uncorrectable = m->gpu[i].retired_dbe = 0;
		memset(m->gpu[i].pcie_errors, 0, sizeof(m->gpu[i].pcie_errors));
	}
}

static void healing_takes_everything_back(void **state)
{
	static const char *const fault[][3] = {
	    {"lost"},
	    {"xid", "48"},
	    {"xid", "63"},
	    {"xid", "154"},
	    {"remap", "failure"},
	    {"power-brake"},
	    {"nvlink", "0", "down"},
	    {"pcie", "width", "4"},
	    {"pcie", "gen", "1"},
	    {"pcie", "replays", "10"},
	    {"reset-required"},
	    {"recovery", "3"},
	    {"hang", "nvmlDeviceGetName"},
	    {"hang", "any"},
	    {"return", "nvmlInit"},
	    {"version-mismatch"},
	    {"no-driver"},
	    {"no-permission"},
	    {"events-missed", "79"},
	    {"hotunplug"},
	    {"mode", "ecc", "pending"},
	    {"mode", "mig", "pending"},
	    {"rdma", "mlx5_3", "down"},
	    {"rdma", "all", "gone"},
	    {"rdma", "0", "unbound"},
	    {"rdma", "9", "wrong-node"},
	    {"rdma-netns", "exclusive"},
	    {"acs", "on"},
	    {"iommu", "translate"},
	};
	(void)state;
	for (size_t i = 0; i < sizeof(fault) / sizeof(*fault); i++) {
		struct sim_error error = {0};
		start("dgx-a100", NULL);
		inject(fault[i][0], fault[i][1], fault[i][2]);
		assert_memory_not_equal(&machine, &before, sizeof(machine));
		assert_int_equal(sim_fault_heal(&machine, SIM_WHOLE_GPU, &error), 0);
		forget_history(&machine);
		forget_history(&before);
		if (memcmp(&machine, &before, sizeof(machine)) != 0)
			fail_msg("heal leaves something of '%s %s'", fault[i][0],
				 fault[i][1] ? fault[i][1] : "");
	}
}

static void a_refused_fault_changes_nothing(void **state)
{
	static const char *const fault[][3] = {
	    {"nonsense"},
	    {"xid"},
	    {"xid", "0"},
	    {"xid", "10000"},
	    {"xid", "1x"},
	    {"ecc", "uncorected"},
	    {"retire"},
	    {"nvlink", "99", "down"},
	    {"nvlink", "0", "up"},
	    {"pcie", "width", "3"},
	    {"pcie", "gen", "9"},
	    {"recovery", "8"},
	    {"hang", "cuInit"},
	    {"slow", "any"},
	    {"hotplug"},
	    {"mode", "ecc", "now"},
	    {"mig", "singel"},
	    {"events-missed", "0"},
	    {"thermal"},
	};
	(void)state;
	for (size_t i = 0; i < sizeof(fault) / sizeof(*fault); i++) {
		struct sim_fault wrong = fault_of(fault[i][0], fault[i][1], fault[i][2]);
		struct sim_error error = {0};
		start("dgx-a100", NULL);
		assert_int_equal(sim_fault_inject(&machine, &wrong, &error), -1);
		assert_int_equal(error.exit_code, SIM_EXIT_INPUT);
		assert_memory_equal(&machine, &before, sizeof(machine));
	}
}

static void events_carry_what_happened(void **state)
{
	(void)state;
	start("dgx-a100", NULL);
	inject("xid", "13", NULL);
	assert_int_equal(machine.pending_count, 1);
	assert_int_equal(machine.pending[0].type, 0x8);
	assert_int_equal(machine.pending[0].data, 13);
	assert_int_equal(machine.pending[0].gi, SIM_WHOLE_GPU);
	assert_false(machine.pending[0].silent);
	inject("events-missed", "13,31", NULL);
	inject("xid", "13", NULL);
	assert_true(machine.pending[1].silent);
}

static void a_link_has_two_ends(void **state)
{
	(void)state;
	start("dgx1", NULL);
	inject("nvlink", "1", "down");
	const struct sim_link *link = &machine.gpu[0].link[1];
	assert_true(link->down);
	assert_true(machine.gpu[link->peer_gpu].link[link->peer_link].down);
	struct sim_error error;
	assert_int_equal(sim_fault_heal(&machine, link->peer_gpu, &error), 0);
	assert_false(link->down);
}

static void reset_applies_what_was_pending(void **state)
{
	struct sim_error error = {0};
	(void)state;
	start("dgx-a100", NULL);
	inject("mode", "mig", "pending");
	inject("ecc", "uncorrected", NULL);
	inject("remap", "pending", NULL);
	assert_int_equal(sim_fault_reset_gpu(&machine, 0, &error), 0);
	const struct sim_gpu *gpu = &machine.gpu[0];
	assert_true(gpu->mig_current && gpu->mig_pending);
	assert_false(gpu->remap_pending);
	assert_int_equal(gpu->ecc.uncorrected_volatile, 0);
	assert_int_equal(gpu->ecc.uncorrected_aggregate, 1);
	assert_int_equal(gpu->remap_uncorrectable, 1);
}

static void resets_are_refused(void **state)
{
	struct sim_error error = {0};
	(void)state;
	start("dgx-a100", NULL);
	inject("lost", NULL, NULL);
	assert_int_equal(sim_fault_reset_gpu(&machine, 0, &error), -1);
	machine.gpu[1].process[5].pid = 77;
	assert_int_equal(sim_fault_reset_gpu(&machine, 1, &error), -1);
	assert_non_null(strstr(error.text, "77"));
	assert_int_equal(sim_fault_reload_driver(&machine, &error), -1);
}

static void rules_run_out(void **state)
{
	struct sim_error error = {0};
	struct sim_fault fault = fault_of("return", "nvmlInit", NULL);
	(void)state;
	start("t4x1", NULL);
	fault.gpu = SIM_WHOLE_GPU;
	for (uint32_t i = 0; i < SIM_RULE_MAX; i++)
		assert_int_equal(sim_fault_inject(&machine, &fault, &error), 0);
	assert_int_equal(sim_fault_inject(&machine, &fault, &error), -1);
	assert_int_equal(sim_fault_end(&machine, &fault, &error), 0);
	assert_int_equal(machine.rule[0].kind, SIM_RULE_NONE);
}

static void function_names(void **state)
{
	const char *near;
	(void)state;
	assert_true(sim_fault_knows_function("any", &near));
	assert_true(sim_fault_knows_function("nvmlInit", &near));
	assert_true(sim_fault_knows_function("nvmlInit_v2", &near));
	assert_true(sim_fault_knows_function("nvmlDeviceGetMemoryInfo", &near));
	assert_false(sim_fault_knows_function("nvmlIni", &near));
	assert_non_null(near);
	assert_false(sim_fault_knows_function("", &near));
	assert_false(sim_fault_knows_function("zzzzzzzzzzzzzzzzzzz", &near));
	assert_null(near);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(healing_takes_everything_back),
	    cmocka_unit_test(a_refused_fault_changes_nothing),
	    cmocka_unit_test(events_carry_what_happened),
	    cmocka_unit_test(a_link_has_two_ends),
	    cmocka_unit_test(reset_applies_what_was_pending),
	    cmocka_unit_test(resets_are_refused),
	    cmocka_unit_test(rules_run_out),
	    cmocka_unit_test(function_names),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
