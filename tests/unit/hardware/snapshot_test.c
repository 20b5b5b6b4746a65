/* SPDX-License-Identifier: Apache-2.0 */
#include "hardware/snapshot.h"

#include <stdlib.h>
#include <string.h>

#include "unit/unit.h"

static struct snapshot *make(uint32_t gpus)
{
	struct snapshot *snapshot = calloc(1, sizeof(*snapshot));
	assert_non_null(snapshot);
	snapshot->magic = SNAPSHOT_MAGIC;
	snapshot->version = SNAPSHOT_VERSION;
	snapshot->size = sizeof(*snapshot);
	snapshot->gpu_count = gpus;
	return snapshot;
}

static void test_absent_is_not_zero(void **state)
{
	struct snapshot_gpu gpu = {.index = 0};
	int64_t value = 77;
	for (uint32_t i = 0; i < SNAPSHOT_VALUE_COUNT; i++)
		assert_false(snapshot_get(&gpu, i, &value));
	assert_int_equal(value, 77);
	snapshot_put(&gpu, SNAPSHOT_POWER, 0);
	assert_true(snapshot_get(&gpu, SNAPSHOT_POWER, &value));
	assert_int_equal(value, 0);
	snapshot_drop(&gpu, SNAPSHOT_POWER);
	assert_false(snapshot_get(&gpu, SNAPSHOT_POWER, &value));
	snapshot_put(&gpu, SNAPSHOT_VALUE_COUNT, 5);
	assert_false(snapshot_get(&gpu, SNAPSHOT_VALUE_COUNT, &value));
	snapshot_put(&gpu, SNAPSHOT_VALUE_COUNT - 1, 5);
	assert_true(snapshot_get(&gpu, SNAPSHOT_VALUE_COUNT - 1, &value));
}

static void test_every_value_has_a_name(void **state)
{
	for (uint32_t i = 0; i < SNAPSHOT_VALUE_COUNT; i++) {
		assert_non_null(snapshot_value_to_string(i));
		for (uint32_t j = 0; j < i; j++)
			assert_string_not_equal(snapshot_value_to_string(i),
						snapshot_value_to_string(j));
	}
	assert_string_equal(snapshot_value_to_string(SNAPSHOT_VALUE_COUNT), "unknown");
	assert_int_equal(snapshot_value_class(SNAPSHOT_POWER), SNAPSHOT_FAST);
}

static void test_valid(void **state)
{
	struct snapshot *snapshot = make(2);
	assert_true(snapshot_is_valid(snapshot, snapshot_length(2)));
	assert_false(snapshot_is_valid(snapshot, snapshot_length(2) - 1));
	assert_false(snapshot_is_valid(snapshot, 3));
	assert_int_equal(snapshot_length(1000), sizeof(*snapshot));
	free(snapshot);
}

/* Each of these is what a broken or hostile writer may send. */
static void test_invalid(void **state)
{
	struct snapshot *snapshot = make(2);
#define REFUSED(change, undo)                                                                      \
	do {                                                                                       \
		change;                                                                            \
		assert_false(snapshot_is_valid(snapshot, sizeof(*snapshot)));                      \
		undo;                                                                              \
		assert_true(snapshot_is_valid(snapshot, sizeof(*snapshot)));                       \
	} while (0)
	struct snapshot_gpu *gpu = &snapshot->gpu[1];
	REFUSED(snapshot->magic = 1, snapshot->magic = SNAPSHOT_MAGIC);
	REFUSED(snapshot->version = SNAPSHOT_VERSION + 1, snapshot->version = SNAPSHOT_VERSION);
	REFUSED(snapshot->size = 8, snapshot->size = sizeof(*snapshot));
	REFUSED(snapshot->gpu_count = 65, snapshot->gpu_count = 2);
	REFUSED(snapshot->simulated = 2, snapshot->simulated = 1);
	REFUSED(gpu->state = 99, gpu->state = 0);
	REFUSED(snapshot->error_count = SNAPSHOT_ERROR_MAX + 1, snapshot->error_count = 0);
	REFUSED(gpu->mig_count = 9, gpu->mig_count = 0);
	REFUSED(gpu->process_count = 1, gpu->process_count = 0);
	REFUSED(gpu->process_count = gpu->process_total = 65,
		gpu->process_count = gpu->process_total = 0);
	REFUSED(gpu->present[SNAPSHOT_PRESENT_WORDS - 1] = UINT64_C(1) << 63,
		gpu->present[SNAPSHOT_PRESENT_WORDS - 1] = 0);
	REFUSED(memset(gpu->uuid, 'a', sizeof(gpu->uuid)), gpu->uuid[0] = gpu->uuid[95] = 0);
	REFUSED(memset(gpu->reason, 'a', sizeof(gpu->reason)), gpu->reason[191] = 0);
	REFUSED(memset(snapshot->driver_text, 'a', sizeof(snapshot->driver_text)),
		snapshot->driver_text[0] = snapshot->driver_text[191] = 0);
	free(snapshot);
}

static void test_find(void **state)
{
	struct snapshot *snapshot = make(2);
	memcpy(snapshot->gpu[1].uuid, "GPU-x", 6);
	assert_ptr_equal(snapshot_find(snapshot, "GPU-x"), &snapshot->gpu[1]);
	assert_null(snapshot_find(snapshot, "GPU-y"));
	free(snapshot);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_absent_is_not_zero),
	    cmocka_unit_test(test_every_value_has_a_name),
	    cmocka_unit_test(test_valid),
	    cmocka_unit_test(test_invalid),
	    cmocka_unit_test(test_find),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
