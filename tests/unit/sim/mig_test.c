/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/mig.h"

#include <string.h>

#include "sim/error.h"
#include "sim/profile.h"
#include "tests/unit/unit.h"

enum { OK = 0, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, IN_USE = 19, NO_ROOM = 23 };

static struct sim_machine machine;
static struct sim_gpu *gpu;

static void start(const char *profile, const char *layout)
{
	const struct sim_options options = {.seed = 1, .mig_layout = layout};
	struct sim_error error;

	if (sim_profile_load(profile, &options, &machine, &error) < 0)
		fail_msg("%s", error.text);
	gpu = &machine.gpu[0];
}

static uint32_t row(const char *name)
{
	for (uint32_t i = 0; i < machine.model[0].mig_profile_count; i++) {
		if (strcmp(machine.model[0].mig_profile[i].name, name) == 0)
			return i;
	}
	fail_msg("no MIG profile %s", name);
	return 0;
}

static uint32_t create(const char *name, uint32_t at)
{
	uint32_t slot = 99, result = sim_mig_create_gi(&machine, 0, row(name), at, &slot);

	return result == OK ? gpu->gi[slot].id : 100 + result;
}

static void test_ids_follow_the_slice_tree(void **state)
{
	start("dgx-a100", "empty");
	assert_int_equal(create("3g.20gb", 0), 1);
	assert_int_equal(create("2g.10gb", 4), 5);
	assert_int_equal(create("1g.5gb", 6), 13);
	start("dgx-a100", "empty");
	assert_int_equal(create("7g.40gb", 0), 0);
	assert_int_equal(create("1g.5gb", 6), 100 + NO_ROOM);
	start("dgx-a100", "empty");
	machine.mig_gi_swapped = true;
	assert_int_equal(create("3g.20gb", 0), 2);
	assert_int_equal(create("3g.20gb", 4), 1);
}

static void test_chosen_places_leave_room(void **state)
{
	start("dgx-a100", "empty");
	assert_int_equal(create("3g.20gb", SIM_WHOLE_GPU), 2);
	assert_int_equal(create("2g.10gb", SIM_WHOLE_GPU), 3);
	assert_int_equal(create("2g.10gb", SIM_WHOLE_GPU), 4);
	assert_int_equal(create("1g.5gb", SIM_WHOLE_GPU), 100 + NO_ROOM);
	start("dgx-a100", "empty");
	assert_int_equal(create("4g.20gb", SIM_WHOLE_GPU), 1);
	assert_int_equal(create("3g.20gb", SIM_WHOLE_GPU), 2);
}

static void test_creating_lowers_what_others_can(void **state)
{
	start("dgx-a100", "empty");
	assert_int_equal(sim_mig_remaining(&machine, 0, row("1g.5gb")), 7);
	assert_int_equal(sim_mig_remaining(&machine, 0, row("3g.20gb")), 2);
	assert_int_equal(create("3g.20gb", 4), 2);
	assert_int_equal(sim_mig_remaining(&machine, 0, row("7g.40gb")), 0);
	assert_int_equal(sim_mig_remaining(&machine, 0, row("4g.20gb")), 1);
	assert_int_equal(sim_mig_remaining(&machine, 0, row("3g.20gb")), 1);
	assert_int_equal(sim_mig_remaining(&machine, 0, row("2g.10gb")), 2);
	assert_int_equal(sim_mig_remaining(&machine, 0, row("1g.5gb")), 4);
	assert_int_equal(sim_mig_remaining(&machine, 0, row("1g.5gb+me")), 1);
	assert_int_equal(create("1g.5gb+me", 0), 7);
	assert_int_equal(sim_mig_remaining(&machine, 0, row("1g.5gb+me")), 0);
	assert_int_equal(sim_mig_remaining(&machine, 0, 12), 0);
	assert_int_equal(sim_mig_remaining(&machine, 1, 0), 0); /* MIG is off there */
}

static void test_refusals(void **state)
{
	uint32_t slot, ci;

	start("dgx-a100", "empty");
	assert_int_equal(create("3g.20gb", 2), 100 + INVALID);
	assert_int_equal(sim_mig_create_gi(&machine, 0, 12, 0, &slot), INVALID);
	assert_int_equal(sim_mig_create_gi(&machine, 1, 0, 0, &slot), NOT_SUPPORTED);
	assert_int_equal(sim_mig_destroy_gi(&machine, 0, 0), NOT_FOUND);
	assert_int_equal(sim_mig_destroy_gi(&machine, 0, 7), NOT_FOUND);
	assert_int_equal(sim_mig_create_ci(&machine, 0, 3, 1, &ci), NOT_FOUND);
	assert_int_equal(sim_mig_create_gi(&machine, 0, row("3g.20gb"), 0, &slot), OK);
	assert_int_equal(sim_mig_create_ci(&machine, 0, slot, 0, &ci), INVALID);
	assert_int_equal(sim_mig_create_ci(&machine, 0, slot, 4, &ci), INVALID);
	assert_int_equal(sim_mig_create_ci(&machine, 0, slot, 2, &ci), OK);
	assert_int_equal(sim_mig_create_ci(&machine, 0, slot, 2, &ci), NO_ROOM);
	assert_int_equal(sim_mig_create_ci(&machine, 0, slot, 1, &ci), OK);
	assert_int_equal(gpu->gi[slot].ci[ci].id, 1);
	assert_int_equal(sim_mig_destroy_gi(&machine, 0, slot), IN_USE);
	gpu->process[5] = (struct sim_process){.pid = 9, .gi = gpu->gi[slot].id, .ci = 1};
	assert_int_equal(sim_mig_destroy_ci(&machine, 0, slot, ci), IN_USE);
	assert_int_equal(sim_mig_destroy_ci(&machine, 0, slot, 0), OK);
	gpu->process[5].pid = 0;
	assert_int_equal(sim_mig_destroy_ci(&machine, 0, slot, ci), OK);
	assert_int_equal(sim_mig_destroy_ci(&machine, 0, slot, ci), NOT_FOUND);
	assert_int_equal(sim_mig_destroy_gi(&machine, 0, slot), OK);
}

/* Creates the same compute instance again and says whether it got the same UUID. */
static bool uuid_returns(void)
{
	char uuid[SIM_UUID_MAX];
	uint32_t generation = gpu->gi[0].ci[0].generation, ci;

	memcpy(uuid, gpu->gi[0].ci[0].uuid, sizeof(uuid));
	assert_memory_equal(uuid, "MIG-51ce51ce-", 13);
	assert_int_equal(strlen(uuid), 40);
	assert_int_equal(sim_mig_destroy_ci(&machine, 0, 0, 0), OK);
	assert_int_equal(sim_mig_create_ci(&machine, 0, 0, 1, &ci), OK);
	assert_true(gpu->gi[0].ci[0].generation > generation);
	return strcmp(uuid, gpu->gi[0].ci[0].uuid) == 0;
}

static void test_uuid_of_a_recreated_instance(void **state)
{
	start("dgx-a100", "single");
	assert_string_not_equal(gpu->gi[0].ci[0].uuid, gpu->gi[1].ci[0].uuid);
	assert_string_not_equal(gpu->gi[0].ci[0].uuid, machine.gpu[1].gi[0].ci[0].uuid);
	assert_true(uuid_returns());
	machine.mig_uuid_fresh = true;
	assert_false(uuid_returns());
}

static void test_changes_are_events(void **state)
{
	uint32_t before, slot;

	start("dgx-a100", "empty");
	assert_int_equal(machine.pending_count, 0);
	before = gpu->mig_generation;
	assert_int_equal(sim_mig_create_gi(&machine, 0, 0, 3, &slot), OK);
	assert_int_equal(machine.pending_count, 1);
	assert_int_equal(machine.pending[0].type, 0x100);
	assert_int_equal(machine.pending[0].gi, 10);
	assert_int_equal(gpu->mig_generation, before + 1);
	assert_int_equal(sim_mig_destroy_gi(&machine, 0, 0), OK);
	assert_int_equal(machine.pending_count, 2);
}

static void test_mode_waits_for_a_reset(void **state)
{
	start("dgx-a100", "none");
	gpu->process[0] = (struct sim_process){.pid = 5};
	assert_int_equal(sim_mig_set_mode(&machine, 0, true), IN_USE);
	gpu->process[0].pid = 0;
	assert_int_equal(sim_mig_set_mode(&machine, 0, true), OK);
	assert_true(!gpu->mig_current && gpu->mig_pending);
	sim_mig_reset(&machine, 0);
	assert_true(gpu->mig_current);
	assert_int_equal(create("1g.5gb", 0), 7);
	assert_int_equal(machine.pending_count, 2);
	sim_mig_reset(&machine, 0);
	assert_false(gpu->gi[0].used);
	assert_int_equal(machine.pending_count, 3);
	sim_mig_reset(&machine, 0);
	assert_int_equal(machine.pending_count, 3);
	start("dgx1", NULL);
	assert_int_equal(sim_mig_set_mode(&machine, 0, true), NOT_SUPPORTED);
}

static uint32_t instances(uint32_t index)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < SIM_GI_MAX; i++)
		count += machine.gpu[index].gi[i].used && machine.gpu[index].gi[i].ci[0].used;
	return count;
}

static void test_ready_layouts(void **state)
{
	static const struct {
		const char *layout;
		uint32_t count[8];
		uint8_t mig[8];
	} cases[] = {
	    {"none", {0}, {0}},
	    {"single", {7, 7, 7, 7, 7, 7, 7, 7}, {1, 1, 1, 1, 1, 1, 1, 1}},
	    {"mixed", {0, 0, 0, 0, 3, 3, 7, 7}, {0, 0, 0, 0, 1, 1, 1, 1}},
	    {"half", {7, 7, 7, 7, 0, 0, 0, 0}, {1, 1, 1, 1, 0, 0, 0, 0}},
	    {"empty", {0}, {1, 0}},
	    {"hetero", {3, 3, 3, 3, 3, 3, 3, 3}, {1, 1, 1, 1, 1, 1, 1, 1}},
	};
	static const char *const profiles[] = {"dgx-a100", "hgx-h100"};

	for (size_t p = 0; p < 2; p++) {
		for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
			start(profiles[p], cases[i].layout);
			for (uint32_t g = 0; g < 8; g++) {
				assert_int_equal(instances(g), cases[i].count[g]);
				assert_int_equal(machine.gpu[g].mig_current, cases[i].mig[g]);
			}
			assert_int_equal(machine.pending_count, 0);
		}
	}
	start("dgx-a100", "mixed");
	assert_string_equal(machine.model[0].mig_profile[machine.gpu[6].gi[0].profile].name,
			    "1g.5gb+me");
	assert_int_equal(sim_mig_row(&machine.model[0], 7), row("1g.5gb+me"));
	assert_int_equal(sim_mig_row(&machine.model[0], 5), SIM_WHOLE_GPU);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_ids_follow_the_slice_tree),
	    cmocka_unit_test(test_chosen_places_leave_room),
	    cmocka_unit_test(test_creating_lowers_what_others_can),
	    cmocka_unit_test(test_refusals),
	    cmocka_unit_test(test_uuid_of_a_recreated_instance),
	    cmocka_unit_test(test_changes_are_events),
	    cmocka_unit_test(test_mode_waits_for_a_reset),
	    cmocka_unit_test(test_ready_layouts),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
