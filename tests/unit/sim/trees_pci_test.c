/* SPDX-License-Identifier: Apache-2.0 */
/* The PCI tree: unique addresses, bridges whose ranges hold what is below them, levels by path. */
#include "sim/trees_pci.h"

#include <stdio.h>
#include <string.h>

#include "sim/error.h"
#include "sim/profile.h"
#include "tests/unit/unit.h"

static struct sim_machine machine;
static struct sim_pci pci;

static void lay_out(const char *profile)
{
	const struct sim_options options = {.seed = 1};
	struct sim_error error;
	if (sim_profile_load(profile, &options, &machine, &error) < 0 ||
	    sim_pci_layout(&machine, &pci, &error) < 0)
		fail_msg("%s", error.text);
}

static uint32_t count_kind(enum sim_pci_kind kind)
{
	uint32_t count = 0;
	for (uint32_t i = 0; i < pci.count; i++)
		count += pci.function[i].kind == kind;
	return count;
}

static const char *gpu_path(uint32_t index)
{
	for (uint32_t i = 0; i < pci.count; i++) {
		if (pci.function[i].kind == SIM_PCI_GPU && pci.function[i].index == index)
			return pci.function[i].path;
	}
	fail_msg("GPU %u has no place", index);
	return "";
}

/* Upstream ports (PCIe switches) that both paths pass, and whether they share a root complex. */
static uint32_t level_of(uint32_t first, uint32_t second)
{
	const char *a = gpu_path(first), *b = gpu_path(second);
	size_t same = 0, slash = 0;
	uint32_t parts = 0, rest = 0;
	for (; a[same] && a[same] == b[same]; same++) {
		if (a[same] == '/') {
			slash = same;
			parts++;
		}
	}
	for (const char *c = a + slash; *c; c++)
		rest += *c == '/';
	if (parts < 3)
		return machine.gpu[first].numa_node == machine.gpu[second].numa_node ? 40 : 50;
	if (parts == 3)
		return 30;
	return rest <= 2 ? 10 : 20;
}

static void check_consistency(void)
{
	for (uint32_t i = 0; i < pci.count; i++) {
		const struct sim_pci_function *function = &pci.function[i];
		for (uint32_t j = 0; j < i; j++) {
			const struct sim_pci_function *other = &pci.function[j];
			assert_false(function->domain == other->domain &&
				     function->bus == other->bus &&
				     function->device == other->device);
		}
		char parent[SIM_PATH_MAX];
		(void)snprintf(parent, sizeof(parent), "%s", function->path);
		*strrchr(parent, '/') = '\0';
		for (uint32_t j = 0; j < pci.count; j++) {
			const struct sim_pci_function *bridge = &pci.function[j];
			if (strcmp(bridge->path, parent) != 0)
				continue;
			assert_int_equal(bridge->secondary, function->bus);
			assert_in_range(function->subordinate ? function->subordinate
							      : function->bus,
					bridge->secondary, bridge->subordinate);
		}
	}
}

static void every_profile(void **state)
{
	static const struct {
		const char *name;
		uint32_t gpus, adapters, switches;
	} row[] = {
	    {"dgx1", 8, 4, 0}, {"dgx2", 16, 0, 0}, {"dgx-a100", 8, 10, 6},   {"hgx-h100", 8, 0, 0},
	    {"t4x1", 1, 0, 0}, {"t4x4", 4, 0, 0},  {"workstation", 2, 0, 0},
	};
	(void)state;
	for (size_t p = 0; p < sizeof(row) / sizeof(*row); p++) {
		lay_out(row[p].name);
		assert_int_equal(count_kind(SIM_PCI_GPU), row[p].gpus);
		assert_int_equal(count_kind(SIM_PCI_NIC), machine.nic_count);
		if (row[p].adapters)
			assert_int_equal(machine.nic_count, row[p].adapters);
		if (row[p].switches)
			assert_int_equal(count_kind(SIM_PCI_NVSWITCH), row[p].switches);
		check_consistency();
		for (uint32_t i = 0; i < machine.gpu_count; i++) {
			for (uint32_t j = 0; j < machine.gpu_count; j++) {
				if (i != j)
					assert_int_equal(level_of(i, j), machine.level[i][j]);
			}
		}
	}
}

static void unplugged_gpus_keep_their_place(void **state)
{
	(void)state;
	lay_out("dgx-a100");
	static struct sim_pci before;
	struct sim_error error;
	before = pci;
	machine.gpu[3].health = SIM_GPU_UNPLUGGED;
	assert_int_equal(sim_pci_layout(&machine, &pci, &error), 0);
	assert_memory_equal(&before, &pci, sizeof(pci));
}

static void too_many_neighbours_are_refused(void **state)
{
	struct sim_error error = {0};
	(void)state;
	lay_out("dgx2");
	/* adapters beyond what a bus can number */
	machine.nic_count = 1000;
	(void)sim_pci_layout(&machine, &pci, &error);
	assert_true(pci.count <= SIM_PCI_FUNCTION_MAX);
}

static void neighbouring_buses_still_get_bridges(void **state)
{
	(void)state;
	lay_out("dgx2");
	for (uint32_t i = 0; i < machine.gpu_count; i++)
		machine.gpu[i].pci_bus = 1 + i;
	struct sim_error error;
	assert_int_equal(sim_pci_layout(&machine, &pci, &error), 0);
	for (uint32_t i = 1; i < machine.gpu_count; i++)
		assert_int_equal(level_of(0, i), machine.level[0][i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_profile),
	    cmocka_unit_test(unplugged_gpus_keep_their_place),
	    cmocka_unit_test(too_many_neighbours_are_refused),
	    cmocka_unit_test(neighbouring_buses_still_get_bridges),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
