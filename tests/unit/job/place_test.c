/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "job/place.h"
#include "hardware/snapshot.h"
#include "unit/unit.h"

static struct inventory inventory;
static struct place_unit units[16];
static size_t count;
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

/* Resolves and describes each id of a list. */
static int find(const struct snapshot *snapshot, const char *ids)
{
	char id[GPU_UUID_MAX];
	int more = 1;
	count = 0;
	err.text[0] = '\0';
	while (more > 0 && (more = place_next_id(&ids, id, &err)) > 0) {
		uint32_t gpu, mig;
		more = place_resolve(&inventory, id, &gpu, &mig, &err);
		if (more < 0)
			break;
		place_describe(&inventory, snapshot, gpu, mig, NULL, NULL, &units[count++]);
		more = 1;
	}
	if (more < 0)
		print_message("  %s\n", err.text);
	return more;
}

static void sick_ones_are_marked(void **state)
{
	machine_new(0);
	inventory.gpus[1].state = GPU_STATE_LOST;
	assert_int_equal(find(NULL, "1,2"), 0);
	assert_false(units[0].healthy);
	assert_string_equal(units[0].reason, "lost");
	assert_true(units[1].healthy);
}

static void split_gpus_are_given_in_parts(void **state)
{
	machine_new(0);
	machine_split(true);
	assert_int_equal(find(NULL, "1:1"), 0);
	assert_string_equal(units[0].label, "MIG 1:1");
	assert_string_equal(units[0].uuid, "MIG-00000003");
	assert_int_equal(find(NULL, "1"), -EINVAL);
	assert_non_null(strstr(err.text, "GPU 1 is split into MIG devices"));
}

static void ids_name_gpus_in_every_way(void **state)
{
	machine_new(4);
	machine_split(false);
	assert_int_equal(find(NULL, "6,GPU-00000003,4:1,MIG-00000000"), 0);
	assert_int_equal(count, 4);
	assert_string_equal(units[0].uuid, "GPU-00000002");
	assert_string_equal(units[1].uuid, "GPU-00000003");
	assert_string_equal(units[2].uuid, "MIG-00000001");
	assert_string_equal(units[3].uuid, "MIG-00000000");
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
		assert_int_equal(find(NULL, rows[i].ids), rows[i].result);
	}
	char longer[GPU_UUID_MAX + 2];
	memset(longer, '1', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = '\0';
	assert_int_equal(find(NULL, longer), -EINVAL);
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
	assert_int_equal(find(snapshot, "2,3,0:0,0:1"), 0);
	assert_int_equal(units[0].outsider, 0); /* only draws */
	assert_int_equal(units[1].outsider, 78);
	assert_int_equal(units[2].outsider, 0); /* the other instance */
	assert_int_equal(units[3].outsider, 79);
	free(snapshot);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_teardown(name, teardown)
	const struct CMUnitTest tests[] = {
	    TEST(sick_ones_are_marked),	       TEST(split_gpus_are_given_in_parts),
	    TEST(ids_name_gpus_in_every_way),  TEST(wrong_ids_are_refused),
	    TEST(strangers_on_a_gpu_are_seen),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
