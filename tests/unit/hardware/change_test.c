/* SPDX-License-Identifier: Apache-2.0 */
#include "hardware/change.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unit/unit.h"

/* `count` GPUs on buses 1, 2, ...; with MIG devices on the first. */
static void make(struct inventory *out, uint32_t count, uint32_t migs)
{
	inventory_init(out);
	(void)snprintf(out->driver_version, sizeof(out->driver_version), "580.1");
	out->gpu_count = count;
	out->gpus = calloc(count, sizeof(*out->gpus));
	assert_non_null(out->gpus);
	out->mig_count = migs;
	out->migs = migs ? calloc(migs, sizeof(*out->migs)) : NULL;
	assert_true(out->migs || migs == 0);
	assert_non_null(out->gpus);
	for (uint32_t i = 0; i < count; i++) {
		struct gpu *gpu = &out->gpus[i];
		gpu->index = i;
		gpu->has_pci = true;
		gpu->pci.bus = (uint8_t)(i + 1);
		gpu->memory_bytes = 100 + i;
		(void)snprintf(gpu->uuid, sizeof(gpu->uuid), "GPU-%u", i);
	}
	for (uint32_t i = 0; i < migs; i++) {
		out->migs[i].gi = 7 + i;
		(void)snprintf(out->migs[i].uuid, sizeof(out->migs[i].uuid), "MIG-%u", i);
	}
}

static uint32_t compare(struct inventory *before, struct inventory *after,
			struct change out[CHANGE_MAX])
{
	uint32_t count = change_find(before, after, out);
	inventory_done(before);
	inventory_done(after);
	return count;
}

static void test_nothing(void **state)
{
	struct inventory before, after;
	struct change changes[CHANGE_MAX];
	make(&before, 3, 2);
	make(&after, 3, 2);
	assert_int_equal(compare(&before, &after, changes), 0);
}

static void test_added_and_removed(void **state)
{
	struct inventory before, after;
	struct change changes[CHANGE_MAX];
	make(&before, 3, 0);
	make(&after, 3, 0);
	(void)snprintf(after.gpus[1].uuid, sizeof(after.gpus[1].uuid), "GPU-9");
	assert_int_equal(compare(&before, &after, changes), 2);
	assert_int_equal(changes[0].kind, CHANGE_GPU_REMOVED);
	assert_string_equal(changes[0].uuid, "GPU-1");
	assert_string_equal(changes[0].bus, "0000:02:00.0");
	assert_int_equal(changes[1].kind, CHANGE_GPU_ADDED);
	assert_string_equal(changes[1].uuid, "GPU-9");
}

static void test_state(void **state)
{
	struct inventory before, after;
	struct change changes[CHANGE_MAX];
	make(&before, 2, 0);
	make(&after, 2, 0);
	after.gpus[1].state = GPU_STATE_LOST;
	assert_int_equal(compare(&before, &after, changes), 1);
	assert_int_equal(changes[0].kind, CHANGE_GPU_STATE);
	assert_int_equal(changes[0].state, GPU_STATE_LOST);
	assert_string_equal(changes[0].uuid, "GPU-1");
}

/* A lost GPU may not even tell its UUID: it is still the same one. */
static void test_recognised_by_address(void **state)
{
	struct inventory before, after;
	struct change changes[CHANGE_MAX];
	make(&before, 2, 0);
	make(&after, 2, 0);
	after.gpus[1].uuid[0] = '\0';
	after.gpus[1].state = GPU_STATE_LOST;
	assert_int_equal(compare(&before, &after, changes), 1);
	assert_int_equal(changes[0].kind, CHANGE_GPU_STATE);
}

static void lose_without_name(struct gpu *gpu)
{
	uint32_t index = gpu->index;
	*gpu = (struct gpu){.index = index, .state = GPU_STATE_LOST};
}

/* In a pod without the driver's /proc nothing but its index is left: it is the same all the same,
 * now and with each look that follows, and when it is back. */
static void test_recognised_by_index(void **state)
{
	struct inventory before, after;
	struct change changes[CHANGE_MAX];
	make(&before, 3, 2);
	make(&after, 3, 0);
	lose_without_name(&after.gpus[0]);
	assert_int_equal(change_remember(&before, &after), 0);
	assert_string_equal(after.gpus[0].uuid, "GPU-0");
	assert_true(after.gpus[0].has_pci);
	assert_int_equal(after.mig_count, 2);
	assert_int_equal(compare(&before, &after, changes), 1);
	assert_int_equal(changes[0].kind, CHANGE_GPU_STATE);
	assert_string_equal(changes[0].uuid, "GPU-0");

	/* Nobody knew it before either. */
	make(&before, 3, 0);
	make(&after, 3, 0);
	lose_without_name(&before.gpus[1]);
	lose_without_name(&after.gpus[1]);
	assert_int_equal(change_remember(&before, &after), 0);
	assert_int_equal(compare(&before, &after, changes), 0);

	make(&before, 3, 0);
	make(&after, 3, 0);
	lose_without_name(&before.gpus[1]);
	assert_int_equal(compare(&before, &after, changes), 1);
	assert_int_equal(changes[0].kind, CHANGE_GPU_STATE);
}

/* A GPU was unplugged, so the numbers of those behind it are others: nobody is taken for it. */
static void test_indexes_that_moved_tell_nothing(void **state)
{
	struct inventory before, after;
	make(&before, 4, 0);
	make(&after, 3, 0); /* of 0 1 2 3 the second is gone, the third is lost */
	after.gpus[2] = before.gpus[3];
	after.gpus[2].index = 2;
	lose_without_name(&after.gpus[1]);
	assert_int_equal(change_remember(&before, &after), 0);
	assert_string_equal(after.gpus[1].uuid, "");
	inventory_done(&before);
	inventory_done(&after);
}

static void test_mig_generations(void **state)
{
	struct inventory before, after;
	struct change changes[CHANGE_MAX];
	make(&before, 2, 2);
	make(&after, 2, 2);
	before.gpus[0].mig_generation = 4;
	before.migs[0].generation = 3;
	before.migs[1].generation = 4;
	(void)snprintf(after.migs[1].uuid, sizeof(after.migs[1].uuid), "MIG-new");
	uint32_t count = change_find(&before, &after, changes);
	assert_int_equal(count, 1);
	assert_int_equal(changes[0].kind, CHANGE_MIG);
	assert_string_equal(changes[0].uuid, "GPU-0");
	assert_int_equal(after.gpus[0].mig_generation, 5);
	assert_int_equal(after.migs[0].generation, 3);
	assert_int_equal(after.migs[1].generation, 5);
	inventory_done(&before);
	inventory_done(&after);
}

static void test_mig_mode_and_removal(void **state)
{
	struct inventory before, after;
	struct change changes[CHANGE_MAX];
	make(&before, 1, 2);
	make(&after, 1, 1);
	assert_int_equal(compare(&before, &after, changes), 1);
	assert_int_equal(changes[0].kind, CHANGE_MIG);
	make(&before, 1, 0);
	make(&after, 1, 0);
	after.gpus[0].mig_pending = GPU_MIG_ENABLED;
	assert_int_equal(compare(&before, &after, changes), 1);
	assert_int_equal(changes[0].kind, CHANGE_MIG);
}

static void test_driver(void **state)
{
	struct inventory before, after;
	struct change changes[CHANGE_MAX];
	make(&before, 1, 0);
	make(&after, 1, 0);
	(void)snprintf(after.driver_version, sizeof(after.driver_version), "590.1");
	assert_int_equal(compare(&before, &after, changes), 1);
	assert_int_equal(changes[0].kind, CHANGE_DRIVER);
}

/* What was known of a GPU that does not answer is still true, its MIG devices too. */
static void test_remember(void **state)
{
	struct inventory before, after;
	struct change changes[CHANGE_MAX];
	make(&before, 2, 2);
	make(&after, 2, 0);
	before.gpus[0].mig_generation = 4;
	before.migs[1].generation = 4;
	after.gpus[0].state = GPU_STATE_HUNG;
	after.gpus[0].memory_bytes = GPU_U64_UNKNOWN;
	after.gpus[0].uuid[0] = '\0';
	(void)snprintf(after.gpus[0].reason, sizeof(after.gpus[0].reason), "why");
	int rc = change_remember(&before, &after);
	if (rc == 0) {
		assert_string_equal(after.gpus[0].uuid, "GPU-0");
		assert_int_equal(after.gpus[0].memory_bytes, 100);
		assert_int_equal(after.gpus[0].state, GPU_STATE_HUNG);
		assert_string_equal(after.gpus[0].reason, "why");
		assert_int_equal(after.mig_count, 2);
		assert_string_equal(after.migs[1].uuid, "MIG-1");
		assert_int_equal(change_find(&before, &after, changes), 1);
		assert_int_equal(changes[0].kind, CHANGE_GPU_STATE);
		assert_int_equal(after.migs[1].generation, 4);
	}
	inventory_done(&before);
	inventory_done(&after);
}

/* MIG devices that survive move with their GPU to its new place. */
static void test_remember_moves_parents(void **state)
{
	struct inventory before, after;
	make(&before, 3, 0);
	make(&after, 2, 1);
	memmove(&after.gpus[0], &before.gpus[1], 2 * sizeof(struct gpu));
	after.migs[0].parent = 1;
	assert_int_equal(change_remember(&before, &after), 0);
	assert_int_equal(after.mig_count, 1);
	assert_int_equal(after.migs[0].parent, 1);
	inventory_done(&before);
	inventory_done(&after);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_nothing),
	    cmocka_unit_test(test_added_and_removed),
	    cmocka_unit_test(test_state),
	    cmocka_unit_test(test_recognised_by_address),
	    cmocka_unit_test(test_recognised_by_index),
	    cmocka_unit_test(test_indexes_that_moved_tell_nothing),
	    cmocka_unit_test(test_mig_generations),
	    cmocka_unit_test(test_mig_mode_and_removal),
	    cmocka_unit_test(test_driver),
	    cmocka_unit_test(test_remember),
	    cmocka_unit_test(test_remember_moves_parents),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
