/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/web/door_web_counters.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unit/unit.h"

#define SECOND UINT64_C(1000000000)

static struct web_counters *counters;
static struct snapshot *snapshot;

static int setup(void **state)
{
	counters = calloc(1, sizeof(*counters));
	snapshot = calloc(1, sizeof(*snapshot));
	assert_true(counters && snapshot);
	snapshot->gpu_count = 1;
	strcpy(snapshot->gpu[0].uuid, "GPU-a");
	return 0;
}

static int teardown(void **state)
{
	free(counters);
	free(snapshot);
	return 0;
}

static struct web_counted sample(uint64_t at_ns)
{
	struct web_counted counted;
	snapshot->gpu[0].sampled_ns[SNAPSHOT_FAST] = at_ns;
	web_counters_sample(counters, snapshot);
	web_counters_of(counters, &snapshot->gpu[0], &counted);
	return counted;
}

static void put(uint32_t value, int64_t number)
{
	snapshot_put(&snapshot->gpu[0], value, number);
}

static void test_nothing_is_known(void **state)
{
	struct web_counted counted = sample(SECOND);
	assert_int_equal(counted.busy_ns, SNAPSHOT_U64_ABSENT);
	assert_int_equal(counted.energy_mj, SNAPSHOT_U64_ABSENT);
	for (uint32_t i = 0; i < WEB_THROTTLES; i++)
		assert_int_equal(counted.throttle_ns[i], SNAPSHOT_U64_ABSENT);
}

static void test_busy_goes_on_over_a_new_probe(void **state)
{
	put(SNAPSHOT_BUSY, 500);
	assert_int_equal(sample(SECOND).busy_ns, 500);
	put(SNAPSHOT_BUSY, 800);
	assert_int_equal(sample(2 * SECOND).busy_ns, 800);
	assert_int_equal(sample(2 * SECOND).busy_ns, 800); /* the same again counts nothing */
	put(SNAPSHOT_BUSY, 100);			   /* a new one */
	assert_int_equal(sample(3 * SECOND).busy_ns, 900);
	snapshot_drop(&snapshot->gpu[0], SNAPSHOT_BUSY);
	assert_int_equal(sample(4 * SECOND).busy_ns, SNAPSHOT_U64_ABSENT);
	put(SNAPSHOT_BUSY, -5);
	assert_int_equal(sample(5 * SECOND).busy_ns, 900); /* nonsense */
}

static void test_energy_is_the_drivers_or_summed_up(void **state)
{
	put(SNAPSHOT_POWER, 300000);
	struct web_counted counted = sample(SECOND);
	assert_true(counted.energy_estimated);
	assert_int_equal(counted.energy_mj, 0);
	counted = sample(3 * SECOND);
	assert_int_equal(counted.energy_mj, 600000);
	put(SNAPSHOT_POWER, WEB_POWER_MAX_MW + 1); /* no power of a GPU */
	assert_int_equal(sample(4 * SECOND).energy_mj, 600000);
	put(SNAPSHOT_POWER, 100000);
	/* Who knows what was in a gap. */
	assert_int_equal(sample(4 * SECOND + WEB_COUNTERS_GAP_NS + 1).energy_mj, 600000);
	put(SNAPSHOT_ENERGY, 123);
	counted = sample(20 * SECOND);
	assert_false(counted.energy_estimated);
	assert_int_equal(counted.energy_mj, 123);
	snapshot_drop(&snapshot->gpu[0], SNAPSHOT_ENERGY); /* it counts, and does not tell now */
	assert_int_equal(sample(21 * SECOND).energy_mj, SNAPSHOT_U64_ABSENT);
}

static void test_throttling_is_the_drivers_or_summed_up(void **state)
{
	put(SNAPSHOT_THROTTLE, 0x20);
	put(SNAPSHOT_VIOLATION_POWER, 77);
	struct web_counted counted = sample(SECOND);
	assert_int_equal(counted.throttle_ns[0], 77);
	assert_int_equal(counted.throttle_ns[6], 0);
	assert_int_equal(counted.throttle_ns[3], SNAPSHOT_U64_ABSENT); /* no bit says it */
	put(SNAPSHOT_THROTTLE, 0x20 | 0x4 | 0x80);
	counted = sample(2 * SECOND);
	assert_int_equal(counted.throttle_ns[0], 77); /* the driver knows */
	assert_int_equal(counted.throttle_ns[1], SECOND);
	assert_int_equal(counted.throttle_ns[6], SECOND);
	assert_int_equal(counted.throttle_ns[7], 0);
	assert_int_equal(counted.throttle_ns[8], SECOND);
}

/* Whatever the samples say: what is summed up never falls, and what the driver counts is its own.
 */
static void test_counters_never_fall(void **state)
{
	unsigned seed = 7;
	for (int round = 0; round < 200; round++) {
		struct web_counted before = {.busy_ns = 0}, now;
		bool has_before = false;
		memset(counters, 0, sizeof(*counters));
		snapshot_drop_all(&snapshot->gpu[0]);
		uint64_t at_ns = SECOND;
		for (int i = 0; i < 100; i++) {
			at_ns += (uint64_t)rand_r(&seed) % (7 * SECOND);
			put(SNAPSHOT_BUSY, rand_r(&seed) % 4 ? (int64_t)(at_ns / 2)
							     : (int64_t)rand_r(&seed) % 1000);
			put(SNAPSHOT_POWER, rand_r(&seed) % 800000 - 1000);
			put(SNAPSHOT_THROTTLE, rand_r(&seed) & 0x1ff);
			now = sample(at_ns);
			if (has_before) {
				assert_true(now.busy_ns >= before.busy_ns);
				assert_true(before.energy_mj == SNAPSHOT_U64_ABSENT ||
					    now.energy_mj >= before.energy_mj);
				for (uint32_t t = 0; t < WEB_THROTTLES; t++)
					assert_true(now.throttle_ns[t] >= before.throttle_ns[t]);
			}
			before = now;
			has_before = true;
		}
	}
}

static void test_gpus_come_and_go(void **state)
{
	for (uint32_t i = 0; i < 3 * SNAPSHOT_GPU_MAX; i++) {
		(void)snprintf(snapshot->gpu[0].uuid, sizeof(snapshot->gpu[0].uuid), "GPU-%u", i);
		put(SNAPSHOT_BUSY, 10);
		assert_int_equal(sample((i + 1) * SECOND).busy_ns, 10);
	}
	snapshot->gpu[0].uuid[0] = '\0'; /* nameless: not counted */
	assert_int_equal(sample(1000 * SECOND).busy_ns, SNAPSHOT_U64_ABSENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_nothing_is_known, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_busy_goes_on_over_a_new_probe, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_energy_is_the_drivers_or_summed_up, setup,
					    teardown),
	    cmocka_unit_test_setup_teardown(test_throttling_is_the_drivers_or_summed_up, setup,
					    teardown),
	    cmocka_unit_test_setup_teardown(test_counters_never_fall, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_gpus_come_and_go, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
