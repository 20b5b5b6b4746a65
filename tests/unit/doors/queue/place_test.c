/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "doors/queue/place.h"
#include "hardware/snapshot.h"
#include "unit/unit.h"

static struct inventory inventory;
static struct place place;
static struct err err;

/* Four GPUs: 0 and 1 near each other, 2 and 3 as well. NVML's indices are the places plus `shift`,
 * so that the two cannot be mixed up unnoticed. */
static void machine_new(uint32_t shift)
{
	inventory_init(&inventory);
	inventory.gpu_count = 4;
	inventory.gpus = calloc(4, sizeof(struct gpu));
	assert_non_null(inventory.gpus);
	for (uint32_t i = 0; i < 4; i++) {
		struct gpu *gpu = &inventory.gpus[i];
		gpu->index = i + shift;
		gpu->numa_node = (int32_t)(i / 2);
		gpu->mig_current = GPU_MIG_DISABLED;
		(void)snprintf(gpu->uuid, sizeof(gpu->uuid), "GPU-0000000%u", i);
		for (uint32_t j = 0; j < 4; j++)
			inventory.level[i][j] =
			    i == j ? GPU_LEVEL_INTERNAL
				   : (i / 2 == j / 2 ? GPU_LEVEL_SINGLE : GPU_LEVEL_SYSTEM);
	}
}

/* Splits GPUs 0 and (when `all`) the others into two MIG devices each. */
static void machine_split(bool all)
{
	uint32_t split = all ? 4 : 1;
	inventory.mig_count = 2 * split;
	inventory.migs = calloc(inventory.mig_count, sizeof(struct mig_device));
	assert_non_null(inventory.migs);
	for (uint32_t i = 0; i < inventory.mig_count; i++) {
		struct mig_device *mig = &inventory.migs[i];
		mig->parent = i / 2;
		mig->index = i % 2;
		mig->gi = 1 + i % 2;
		(void)snprintf(mig->uuid, sizeof(mig->uuid), "MIG-0000000%u", i);
		inventory.gpus[i / 2].mig_current = GPU_MIG_ENABLED;
	}
}

static int teardown(void **state)
{
	inventory_done(&inventory);
	return 0;
}

static int find(const char *ids, size_t needed)
{
	err.text[0] = '\0';
	int result = place_find(&inventory, NULL, ids, needed, &place, &err);
	if (result < 0)
		print_message("  %s\n", err.text);
	return result;
}

static void any_gpu_will_do(void **state)
{
	machine_new(0);
	assert_int_equal(find(NULL, 2), 0);
	assert_int_equal(place.count, 4);
	assert_int_equal(place.needed, 2);
	assert_string_equal(place.unit[3].label, "GPU 3");
}

static void more_than_there_are_names_both_numbers(void **state)
{
	machine_new(0);
	assert_int_equal(find(NULL, 5), -ERANGE);
	assert_non_null(strstr(err.text, "5 GPUs are asked for"));
	assert_non_null(strstr(err.text, "this machine has 4"));
	machine_split(false);
	assert_int_equal(find(NULL, 4), -ERANGE); /* the split one is not whole */
	assert_non_null(strstr(err.text, "this machine has 3"));
	assert_non_null(strstr(err.text, "2 MIG devices"));
}

static void sick_ones_count_but_are_marked(void **state)
{
	machine_new(0);
	inventory.gpus[1].state = GPU_STATE_LOST;
	assert_int_equal(find(NULL, 4), 0);
	assert_false(place.unit[1].healthy);
	assert_string_equal(place.unit[1].reason, "lost");
	assert_true(place.unit[2].healthy);
}

static void split_gpus_are_given_in_parts(void **state)
{
	machine_new(0);
	machine_split(true);
	assert_int_equal(find(NULL, 3), 0);
	assert_int_equal(place.count, 8);
	assert_string_equal(place.unit[3].label, "MIG 1:1");
	assert_string_equal(place.unit[3].uuid, "MIG-00000003");
}

static void ids_name_gpus_in_every_way(void **state)
{
	machine_new(4);
	machine_split(false);
	assert_int_equal(find("6,GPU-00000003,4:1,MIG-00000000", 0), 0);
	assert_int_equal(place.count, 4);
	assert_int_equal(place.needed, 4);
	assert_string_equal(place.unit[0].uuid, "GPU-00000002");
	assert_string_equal(place.unit[1].uuid, "GPU-00000003");
	assert_string_equal(place.unit[2].uuid, "MIG-00000001");
	assert_string_equal(place.unit[3].uuid, "MIG-00000000");
}

static void wrong_ids_are_refused(void **state)
{
	static const struct {
		const char *ids;
		int result;
	} rows[] = {
	    {"", -EINVAL},
	    {",", -EINVAL},
	    {"1,", -EINVAL},
	    {"x", -EINVAL},
	    {"-1", -EINVAL},
	    {" 1", -EINVAL},
	    {"9", -ENOENT},
	    {"1,1", -EINVAL},
	    {"1,GPU-00000001", -EINVAL},
	    {"GPU-nothere", -ENOENT},
	    {"MIG-nothere", -ENOENT},
	    {"0", -EINVAL /* split */},
	    {"0:2", -ENOENT},
	    {"1:0", -ENOENT},
	    {"9:0", -ENOENT},
	    {"0:", -EINVAL},
	    {":0", -EINVAL},
	    {"99999999999999999999", -EINVAL},
	    {"GPU-00000000", -EINVAL},
	};
	machine_new(0);
	machine_split(false);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		print_message("'%s'\n", rows[i].ids);
		assert_int_equal(find(rows[i].ids, 0), rows[i].result);
	}
	char *longer = calloc(1, PLACE_IDS_MAX + 2);
	memset(longer, '1', PLACE_IDS_MAX + 1);
	assert_int_equal(find(longer, 0), -EINVAL);
	free(longer);
}

static void strangers_on_a_gpu_are_seen(void **state)
{
	machine_new(0);
	machine_split(false);
	struct snapshot *snapshot = calloc(1, sizeof(*snapshot));
	snapshot->gpu_count = 4;
	for (uint32_t i = 0; i < 4; i++)
		memcpy(snapshot->gpu[i].uuid, inventory.gpus[i].uuid, 16);
	snapshot->gpu[2].process_count = 1;
	snapshot->gpu[2].process[0] = (struct snapshot_process){
	    .pid = 77, .type = SNAPSHOT_PROCESS_GRAPHICS, .gi = SNAPSHOT_WHOLE_GPU};
	snapshot->gpu[3].process_count = 1;
	snapshot->gpu[3].process[0] = (struct snapshot_process){
	    .pid = 78, .type = SNAPSHOT_PROCESS_COMPUTE | SNAPSHOT_PROCESS_GRAPHICS};
	snapshot->gpu[0].process_count = 1;
	snapshot->gpu[0].process[0] =
	    (struct snapshot_process){.pid = 79, .type = SNAPSHOT_PROCESS_MPS, .gi = 2, .ci = 0};
	assert_int_equal(place_find(&inventory, snapshot, "2,3,0:0,0:1", 0, &place, NULL), 0);
	assert_int_equal(place.unit[0].outsider, 0); /* only draws */
	assert_int_equal(place.unit[1].outsider, 78);
	assert_int_equal(place.unit[2].outsider, 0); /* the other instance */
	assert_int_equal(place.unit[3].outsider, 79);
	free(snapshot);
}

static void the_best_connected_are_chosen(void **state)
{
	machine_new(0);
	assert_int_equal(find(NULL, 2), 0);
	bool is_free[4] = {false, true, true, true}, chosen[4];
	assert_int_equal(place_choose(&inventory, &place, is_free, chosen, NULL), 0);
	assert_false(chosen[0]);
	assert_false(chosen[1]);
	assert_true(chosen[2]);
	assert_true(chosen[3]);

	/* One GPU: the one whose neighbour is gone anyway. */
	place.needed = 1;
	assert_int_equal(place_choose(&inventory, &place, is_free, chosen, NULL), 0);
	assert_true(chosen[1]);
	assert_false(chosen[2] || chosen[3]);
}

static void mig_devices_are_packed(void **state)
{
	machine_new(0);
	machine_split(true);
	assert_int_equal(find(NULL, 1), 0);
	bool is_free[8] = {true, true, true, true, true, false, true, true}, chosen[8];
	assert_int_equal(place_choose(&inventory, &place, is_free, chosen, NULL), 0);
	for (size_t i = 0; i < 8; i++)
		assert_int_equal(chosen[i], i == 4);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_teardown(name, teardown)
	const struct CMUnitTest tests[] = {
	    TEST(any_gpu_will_do),
	    TEST(more_than_there_are_names_both_numbers),
	    TEST(sick_ones_count_but_are_marked),
	    TEST(split_gpus_are_given_in_parts),
	    TEST(ids_name_gpus_in_every_way),
	    TEST(wrong_ids_are_refused),
	    TEST(strangers_on_a_gpu_are_seen),
	    TEST(the_best_connected_are_chosen),
	    TEST(mig_devices_are_packed),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
