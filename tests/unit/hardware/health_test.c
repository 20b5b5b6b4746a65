/* SPDX-License-Identifier: Apache-2.0 */
#include "hardware/health.h"

#include <string.h>

#include "hardware/gpu.h"
#include "unit/unit.h"

#define SECOND UINT64_C(1000000000)
#define START  (1000 * SECOND)

static struct health_track track;
static struct snapshot_gpu gpu;
static struct health_verdict verdict;

static int setup(void **state)
{
	memset(&track, 0, sizeof(track));
	memset(&gpu, 0, sizeof(gpu));
	memcpy(gpu.bus, "0000:07:00.0", 13);
	snapshot_put(&gpu, SNAPSHOT_UTIL_GPU, 50);
	return 0;
}

static uint32_t judge(uint64_t now_ns, bool once)
{
	health_judge(&track, NULL, now_ns, once, &verdict);
	return verdict.state;
}

static void xid(uint32_t code, uint64_t time_ns, uint32_t pid)
{
	const struct health_event event = {.time_ns = time_ns,
					   .xid = code,
					   .gi = SNAPSHOT_WHOLE_GPU,
					   .ci = SNAPSHOT_WHOLE_GPU,
					   .pid = pid,
					   .recovery_action = SNAPSHOT_U32_ABSENT};
	health_event(&track, &event, NULL);
}

static bool has(enum health_cause cause)
{
	for (uint32_t i = 0; i < verdict.reason_count; i++) {
		if (verdict.reason[i].cause == (uint32_t)cause)
			return true;
	}
	return false;
}

static void test_unknown_then_healthy(void **state)
{
	assert_int_equal(judge(START, true), HEALTH_UNKNOWN);
	assert_true(has(HEALTH_NO_SAMPLE));
	health_sample(&track, &gpu, START);
	assert_int_equal(judge(START, true), HEALTH_HEALTHY);
	assert_int_equal(verdict.reason_count, 0);
}

static void test_states(void **state)
{
	static const uint32_t states[][2] = {
	    {GPU_STATE_LOST, HEALTH_LOST},
	    {GPU_STATE_HUNG, HEALTH_HUNG},
	    {GPU_STATE_RESET_REQUIRED, HEALTH_RESET_REQUIRED},
	    {GPU_STATE_ERROR, HEALTH_DRIVER_ERROR},
	};
	for (size_t i = 0; i < 4; i++) {
		gpu.state = states[i][0];
		health_sample(&track, &gpu, START);
		assert_int_equal(judge(START, true), HEALTH_UNHEALTHY);
		assert_true(has((enum health_cause)states[i][1]));
		assert_int_not_equal(strlen(verdict.reason[0].advice), 0);
		assert_int_not_equal(strlen(verdict.reason[0].text), 0);
	}
}

static void test_xid_classes(void **state)
{
	static const uint32_t codes[][2] = {
	    {13, HEALTH_HEALTHY},    {31, HEALTH_HEALTHY},   {43, HEALTH_HEALTHY},
	    {63, HEALTH_HEALTHY},    {94, HEALTH_HEALTHY},   {109, HEALTH_HEALTHY},
	    {62, HEALTH_UNHEALTHY},  {64, HEALTH_UNHEALTHY}, {79, HEALTH_UNHEALTHY},
	    {119, HEALTH_UNHEALTHY}, {54, HEALTH_UNHEALTHY}, {999, HEALTH_UNHEALTHY},
	    {7, HEALTH_UNHEALTHY},
	};
	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
		setup(NULL);
		health_sample(&track, &gpu, START);
		xid(codes[i][0], START, 1);
		if (judge(START + SECOND, false) != codes[i][1])
			fail_msg("XID %u makes the GPU %s", codes[i][0],
				 health_state_to_string(verdict.state));
	}
}

static void test_advice_names_the_bus(void **state)
{
	health_sample(&track, &gpu, START);
	xid(62, START, 1);
	judge(START + 3 * SECOND, false);
	assert_non_null(strstr(verdict.reason[0].advice, "-i 0000:07:00.0"));
	assert_non_null(strstr(verdict.reason[0].text, "3 s ago"));
	assert_int_equal(verdict.reason[0].xid, 62);
}

static void test_policy_overrides(void **state)
{
	struct health_policy policy = {.override_count = 2};
	policy.override[0].xid = 62;
	policy.override[0].class_ = XID_APP;
	policy.override[1].xid = 13;
	policy.override[1].class_ = XID_INSPECT;
	health_sample(&track, &gpu, START);
	xid(62, START, 1);
	health_judge(&track, &policy, START, false, &verdict);
	assert_int_equal(verdict.state, HEALTH_HEALTHY);
	xid(13, START, 1);
	health_judge(&track, &policy, START, false, &verdict);
	assert_int_equal(verdict.state, HEALTH_UNHEALTHY);
}

static void test_repeated_in_several_jobs(void **state)
{
	health_sample(&track, &gpu, START);
	xid(31, START, 1);
	xid(31, START, 1);
	xid(31, START, 2);
	assert_int_equal(judge(START, false), HEALTH_HEALTHY);
	xid(31, START, 3);
	assert_int_equal(judge(START, false), HEALTH_DEGRADED);
	assert_true(has(HEALTH_REPEATED_XID));
	/* a day later it is forgotten */
	assert_int_equal(judge(START + 25 * 3600 * SECOND, false), HEALTH_HEALTHY);
}

static void test_contained_error(void **state)
{
	health_sample(&track, &gpu, START);
	xid(48, START, 1);
	assert_int_equal(judge(START, false), HEALTH_UNHEALTHY);
	xid(63, START + SECOND, 1);
	assert_int_equal(judge(START + SECOND, false), HEALTH_UNHEALTHY);
	xid(94, START + 2 * SECOND, 1);
	assert_int_equal(judge(START + 2 * SECOND, false), HEALTH_DEGRADED);
}

static void test_nvlink_severity(void **state)
{
	struct health_event event = {.time_ns = START,
				     .xid = 149,
				     .has_severity = true,
				     .recovery_action = SNAPSHOT_U32_ABSENT};
	health_sample(&track, &gpu, START);
	health_event(&track, &event, NULL);
	assert_int_equal(judge(START, false), HEALTH_HEALTHY);
	event.fatal = true;
	health_event(&track, &event, NULL);
	assert_int_equal(judge(START, false), HEALTH_UNHEALTHY);
}

static void test_link_error_that_is_over(void **state)
{
	snapshot_put(&gpu, SNAPSHOT_NVLINK_INACTIVE, 0);
	snapshot_put(&gpu, SNAPSHOT_NVLINK_ERRORS, 5);
	health_sample(&track, &gpu, START);
	xid(74, START, 1);
	assert_int_equal(judge(START, false), HEALTH_DEGRADED);
	snapshot_put(&gpu, SNAPSHOT_NVLINK_ERRORS, 6);
	health_sample(&track, &gpu, START + SECOND);
	assert_int_equal(judge(START + SECOND, false), HEALTH_UNHEALTHY);
}

static void test_recovery_action_wins(void **state)
{
	snapshot_put(&gpu, SNAPSHOT_RECOVERY_ACTION, 2);
	health_sample(&track, &gpu, START);
	assert_int_equal(judge(START, false), HEALTH_UNHEALTHY);
	assert_non_null(strstr(verdict.reason[0].text, "restart the machine"));
	snapshot_put(&gpu, SNAPSHOT_RECOVERY_ACTION, 0);
	health_sample(&track, &gpu, START);
	assert_int_equal(judge(START, false), HEALTH_HEALTHY);
	/* without the field the kernel log tells */
	snapshot_drop(&gpu, SNAPSHOT_RECOVERY_ACTION);
	health_sample(&track, &gpu, START);
	const struct health_event event = {.time_ns = START, .xid = 154, .recovery_action = 1};
	health_event(&track, &event, NULL);
	assert_int_equal(judge(START, false), HEALTH_UNHEALTHY);
}

static void test_memory(void **state)
{
	static const uint32_t values[][3] = {
	    {SNAPSHOT_REMAP_FAILURE, HEALTH_UNHEALTHY, HEALTH_REMAP_FAILURE},
	    {SNAPSHOT_REMAP_PENDING, HEALTH_DEGRADED, HEALTH_REMAP_PENDING},
	    {SNAPSHOT_RETIRED_PENDING, HEALTH_DEGRADED, HEALTH_RETIRE_PENDING},
	};
	for (size_t i = 0; i < 3; i++) {
		setup(NULL);
		snapshot_put(&gpu, values[i][0], 1);
		health_sample(&track, &gpu, START);
		assert_int_equal(judge(START, false), values[i][1]);
		assert_true(has((enum health_cause)values[i][2]));
	}
}

static void test_ecc_counts_from_when_watching_began(void **state)
{
	snapshot_put(&gpu, SNAPSHOT_ECC_UNCORRECTED_VOLATILE, 3);
	health_sample(&track, &gpu, START);
	assert_int_equal(judge(START, false), HEALTH_HEALTHY);
	assert_int_equal(judge(START, true), HEALTH_DEGRADED); /* looking once: since the driver */
	snapshot_put(&gpu, SNAPSHOT_ECC_UNCORRECTED_VOLATILE, 4);
	health_sample(&track, &gpu, START + SECOND);
	assert_int_equal(judge(START + SECOND, false), HEALTH_DEGRADED);
	assert_true(has(HEALTH_ECC_UNCORRECTED));
}

static void test_reset_forgives(void **state)
{
	snapshot_put(&gpu, SNAPSHOT_ENERGY, 1000);
	health_sample(&track, &gpu, START);
	xid(62, START, 1);
	xid(79, START, 1);
	assert_int_equal(judge(START, false), HEALTH_UNHEALTHY);
	snapshot_put(&gpu, SNAPSHOT_ENERGY, 10);
	health_sample(&track, &gpu, START + SECOND);
	assert_int_equal(judge(START + SECOND, false), HEALTH_UNHEALTHY); /* 79 needs more */
	assert_int_equal(verdict.reason_count, 1);
	assert_int_equal(verdict.reason[0].xid, 79);
	health_clear(&track, START + 2 * SECOND);
	assert_int_equal(judge(START + 2 * SECOND, false), HEALTH_HEALTHY);
}

/* Looking once, an uncorrectable error of which the counter knows nothing is from before a reset.
 */
static void test_reset_that_nobody_saw(void **state)
{
	snapshot_put(&gpu, SNAPSHOT_ECC_UNCORRECTED_VOLATILE, 0);
	health_sample(&track, &gpu, START);
	xid(48, START - SECOND, 1);
	assert_int_equal(judge(START, true), HEALTH_HEALTHY);
	xid(62, START - SECOND, 1);
	assert_int_equal(judge(START, true), HEALTH_UNHEALTHY);
}

static void test_pcie_link_under_load(void **state)
{
	snapshot_put(&gpu, SNAPSHOT_PCIE_GEN, 4);
	snapshot_put(&gpu, SNAPSHOT_PCIE_WIDTH, 8);
	snapshot_put(&gpu, SNAPSHOT_PCIE_GEN_MAX, 4);
	snapshot_put(&gpu, SNAPSHOT_PCIE_WIDTH_MAX, 16);
	health_sample(&track, &gpu, START);
	assert_int_equal(judge(START, false), HEALTH_DEGRADED);
	assert_true(has(HEALTH_PCIE_LINK));
	snapshot_put(&gpu, SNAPSHOT_UTIL_GPU, 0); /* idle: it may save power */
	health_sample(&track, &gpu, START);
	assert_int_equal(judge(START, false), HEALTH_HEALTHY);
}

static void test_replay_budget(void **state)
{
	assert_int_equal(health_replay_budget(3, 16), 8);
	assert_int_equal(health_replay_budget(4, 16), 16);
	assert_int_equal(health_replay_budget(5, 16), 31);
	assert_int_equal(health_replay_budget(0, 16), 0);
	snapshot_put(&gpu, SNAPSHOT_PCIE_GEN, 4);
	snapshot_put(&gpu, SNAPSHOT_PCIE_WIDTH, 16);
	snapshot_put(&gpu, SNAPSHOT_PCIE_REPLAYS, 100);
	health_sample(&track, &gpu, START);
	snapshot_put(&gpu, SNAPSHOT_PCIE_REPLAYS, 116);
	health_sample(&track, &gpu, START + 60 * SECOND);
	assert_int_equal(judge(START + 60 * SECOND, false), HEALTH_HEALTHY);
	snapshot_put(&gpu, SNAPSHOT_PCIE_REPLAYS, 133);
	health_sample(&track, &gpu, START + 120 * SECOND);
	assert_int_equal(judge(START + 120 * SECOND, false), HEALTH_DEGRADED);
	assert_true(has(HEALTH_PCIE_REPLAYS));
}

static void test_heat_has_to_last(void **state)
{
	snapshot_put(&gpu, SNAPSHOT_TEMPERATURE, 82);
	snapshot_put(&gpu, SNAPSHOT_TEMPERATURE_SLOWDOWN, 87);
	health_sample(&track, &gpu, START);
	assert_int_equal(judge(START, true), HEALTH_DEGRADED);
	assert_int_equal(judge(START + 299 * SECOND, false), HEALTH_HEALTHY);
	assert_int_equal(judge(START + 300 * SECOND, false), HEALTH_DEGRADED);
	snapshot_put(&gpu, SNAPSHOT_TEMPERATURE, 81);
	health_sample(&track, &gpu, START + 301 * SECOND);
	assert_int_equal(judge(START + 301 * SECOND, false), HEALTH_HEALTHY);
}

static void test_throttled_for_a_tenth_of_the_time(void **state)
{
	for (uint32_t i = 0; i <= 100; i++) {
		snapshot_put(&gpu, SNAPSHOT_THROTTLE, i % 9 == 0 ? 0x80 : 0x1);
		health_sample(&track, &gpu, START + i * SECOND);
		if (i < 60)
			assert_int_equal(judge(START + i * SECOND, false), HEALTH_HEALTHY);
	}
	assert_int_equal(judge(START + 100 * SECOND, false), HEALTH_DEGRADED);
	assert_true(has(HEALTH_THROTTLED));
	setup(NULL);
	for (uint32_t i = 0; i <= 100; i++) {
		snapshot_put(&gpu, SNAPSHOT_THROTTLE, i % 12 == 0 ? 0x80 : 0x4);
		health_sample(&track, &gpu, START + i * SECOND);
	}
	assert_int_equal(judge(START + 100 * SECOND, false), HEALTH_HEALTHY);
}

static void test_pending_modes_and_links(void **state)
{
	snapshot_put(&gpu, SNAPSHOT_ECC_MODE, 1);
	snapshot_put(&gpu, SNAPSHOT_ECC_MODE_PENDING, 0);
	snapshot_put(&gpu, SNAPSHOT_NVLINK_INACTIVE, 2);
	health_sample(&track, &gpu, START);
	assert_int_equal(judge(START, false), HEALTH_DEGRADED);
	assert_true(has(HEALTH_MODE_PENDING));
	assert_true(has(HEALTH_NVLINK_DOWN));
}

/* A storm of harmless errors must not push out the one that matters. */
static void test_the_gravest_are_kept(void **state)
{
	health_sample(&track, &gpu, START);
	xid(62, START, 1);
	for (uint32_t i = 0; i < 1000; i++)
		xid(13, START + i, 1);
	assert_int_equal(judge(START, false), HEALTH_UNHEALTHY);
	assert_int_equal(track.event_total, 1001);
	for (uint32_t i = 0; i < 1000; i++)
		xid(79, START + i, 1);
	assert_int_equal(judge(START, false), HEALTH_UNHEALTHY);
	assert_true(verdict.reason_count <= HEALTH_REASON_MAX);
}

static void test_gravest_reason_first(void **state)
{
	snapshot_put(&gpu, SNAPSHOT_REMAP_PENDING, 1);
	health_sample(&track, &gpu, START);
	xid(79, START, 1);
	judge(START, false);
	assert_int_equal(verdict.reason_count, 2);
	assert_int_equal(verdict.reason[0].cause, HEALTH_XID);
	assert_int_equal(verdict.reason[1].cause, HEALTH_REMAP_PENDING);
}

static void test_words(void **state)
{
	for (uint32_t i = 0; i < HEALTH_CAUSE_COUNT; i++)
		assert_non_null(health_cause_to_string(i));
	assert_string_equal(health_cause_to_string(HEALTH_CAUSE_COUNT), "unknown");
	assert_string_equal(health_state_to_string(HEALTH_DEGRADED), "degraded");
	assert_string_equal(health_recovery_to_string(1), "reset the GPU");
	assert_string_equal(health_recovery_to_string(100),
			    "an action that this build does not know");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, setup)
	const struct CMUnitTest tests[] = {
	    TEST(test_unknown_then_healthy),
	    TEST(test_states),
	    TEST(test_xid_classes),
	    TEST(test_advice_names_the_bus),
	    TEST(test_policy_overrides),
	    TEST(test_repeated_in_several_jobs),
	    TEST(test_contained_error),
	    TEST(test_nvlink_severity),
	    TEST(test_link_error_that_is_over),
	    TEST(test_recovery_action_wins),
	    TEST(test_memory),
	    TEST(test_ecc_counts_from_when_watching_began),
	    TEST(test_reset_forgives),
	    TEST(test_reset_that_nobody_saw),
	    TEST(test_pcie_link_under_load),
	    TEST(test_replay_budget),
	    TEST(test_heat_has_to_last),
	    TEST(test_throttled_for_a_tenth_of_the_time),
	    TEST(test_pending_modes_and_links),
	    TEST(test_the_gravest_are_kept),
	    TEST(test_gravest_reason_first),
	    TEST(test_words),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
