/* SPDX-License-Identifier: Apache-2.0 */
#include "hardware/health.h"

#include <errno.h>
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
	health_sample(&track, &gpu, START, NULL);
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
		health_sample(&track, &gpu, START, NULL);
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
		health_sample(&track, &gpu, START, NULL);
		xid(codes[i][0], START, 1);
		if (judge(START + SECOND, false) != codes[i][1])
			fail_msg("XID %u makes the GPU %s", codes[i][0],
				 health_state_to_string(verdict.state));
	}
}

static void test_advice_names_the_bus(void **state)
{
	health_sample(&track, &gpu, START, NULL);
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
	health_sample(&track, &gpu, START, NULL);
	xid(62, START, 1);
	health_judge(&track, &policy, START, false, &verdict);
	assert_int_equal(verdict.state, HEALTH_HEALTHY);
	xid(13, START, 1);
	health_judge(&track, &policy, START, false, &verdict);
	assert_int_equal(verdict.state, HEALTH_UNHEALTHY);
}

static void test_repeated_in_several_jobs(void **state)
{
	health_sample(&track, &gpu, START, NULL);
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
	health_sample(&track, &gpu, START, NULL);
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
	health_sample(&track, &gpu, START, NULL);
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
	health_sample(&track, &gpu, START, NULL);
	xid(74, START, 1);
	assert_int_equal(judge(START, false), HEALTH_DEGRADED);
	snapshot_put(&gpu, SNAPSHOT_NVLINK_ERRORS, 6);
	health_sample(&track, &gpu, START + SECOND, NULL);
	assert_int_equal(judge(START + SECOND, false), HEALTH_UNHEALTHY);
}

static void test_recovery_action_wins(void **state)
{
	snapshot_put(&gpu, SNAPSHOT_RECOVERY_ACTION, 2);
	health_sample(&track, &gpu, START, NULL);
	assert_int_equal(judge(START, false), HEALTH_UNHEALTHY);
	assert_non_null(strstr(verdict.reason[0].text, "restart the machine"));
	snapshot_put(&gpu, SNAPSHOT_RECOVERY_ACTION, 0);
	health_sample(&track, &gpu, START, NULL);
	assert_int_equal(judge(START, false), HEALTH_UNHEALTHY);
	assert_non_null(strstr(verdict.reason[0].text, "does not any more: restart the machine"));
	health_sample(&track, &gpu, START, NULL);
	health_sample(&track, &gpu, START, NULL);
	assert_int_equal(judge(START, false), HEALTH_HEALTHY);
	/* without the field the kernel log tells */
	snapshot_drop(&gpu, SNAPSHOT_RECOVERY_ACTION);
	health_sample(&track, &gpu, START, NULL);
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
		health_sample(&track, &gpu, START, NULL);
		assert_int_equal(judge(START, false), values[i][1]);
		assert_true(has((enum health_cause)values[i][2]));
	}
}

static void test_ecc_counts_from_when_watching_began(void **state)
{
	snapshot_put(&gpu, SNAPSHOT_ECC_UNCORRECTED_VOLATILE, 3);
	health_sample(&track, &gpu, START, NULL);
	assert_int_equal(judge(START, false), HEALTH_HEALTHY);
	assert_int_equal(judge(START, true), HEALTH_DEGRADED); /* looking once: since the driver */
	snapshot_put(&gpu, SNAPSHOT_ECC_UNCORRECTED_VOLATILE, 4);
	health_sample(&track, &gpu, START + SECOND, NULL);
	assert_int_equal(judge(START + SECOND, false), HEALTH_DEGRADED);
	assert_true(has(HEALTH_ECC_UNCORRECTED));
}

/* Samples that come `count` times, a second apart; returns the time of the next one. */
static uint64_t samples(uint32_t count, uint64_t from_ns, const struct health_policy *policy)
{
	for (uint32_t i = 0; i < count; i++)
		health_sample(&track, &gpu, from_ns + i * SECOND, policy);
	return from_ns + count * SECOND;
}

static void test_reset_forgives_after_three_good_samples(void **state)
{
	snapshot_put(&gpu, SNAPSHOT_ENERGY, 1000);
	uint64_t now = samples(20, START, NULL);
	xid(62, now, 1);
	now = samples(20, now, NULL);
	assert_int_equal(judge(now, false), HEALTH_UNHEALTHY); /* good samples alone cure nothing */
	snapshot_put(&gpu, SNAPSHOT_ENERGY, 10);
	now = samples(2, now, NULL);
	assert_int_equal(judge(now, false), HEALTH_UNHEALTHY);
	assert_non_null(strstr(verdict.reason[0].text, "it was reset since (2 of 3"));
	now = samples(1, now, NULL);
	assert_int_equal(judge(now, false), HEALTH_HEALTHY);
}

static void test_reset_is_not_enough(void **state)
{
	snapshot_put(&gpu, SNAPSHOT_ENERGY, 1000);
	snapshot_put(&gpu, SNAPSHOT_RECOVERY_ACTION, 1);
	health_sample(&track, &gpu, START, NULL);
	xid(62, START, 1);
	xid(79, START, 1);
	xid(54, START, 1);
	snapshot_put(&gpu, SNAPSHOT_ENERGY, 10);
	uint64_t now = samples(10, START + SECOND, NULL);
	assert_int_equal(judge(now, false), HEALTH_UNHEALTHY);
	assert_int_equal(verdict.reason_count, 4); /* the driver still asks for a reset */
	snapshot_put(&gpu, SNAPSHOT_RECOVERY_ACTION, 0);
	now = samples(3, now, NULL);
	assert_int_equal(judge(now, false), HEALTH_UNHEALTHY);
	assert_int_equal(verdict.reason_count, 2); /* 79 and 54 need more */
	health_reboot(&track, NULL, now);
	assert_int_equal(judge(now, false), HEALTH_UNHEALTHY);
	assert_int_equal(verdict.reason_count, 1);
	assert_int_equal(verdict.reason[0].xid, 54);
	health_clear(&track, now);
	assert_int_equal(judge(now, false), HEALTH_HEALTHY);
}

/* A GPU that is being reset tells nothing for a while: what it told before counts. */
static void test_reset_is_seen_behind_a_pause(void **state)
{
	snapshot_put(&gpu, SNAPSHOT_ENERGY, 1000);
	health_sample(&track, &gpu, START, NULL);
	xid(119, START, 1);
	gpu.state = GPU_STATE_RESET_REQUIRED;
	snapshot_drop(&gpu, SNAPSHOT_ENERGY);
	uint64_t now = samples(5, START + SECOND, NULL);
	gpu.state = GPU_STATE_OK;
	snapshot_put(&gpu, SNAPSHOT_ENERGY, 10);
	now = samples(2, now, NULL);
	assert_int_equal(judge(now, false), HEALTH_UNHEALTHY);
	now = samples(1, now, NULL);
	assert_int_equal(judge(now, false), HEALTH_HEALTHY);
}

static void test_what_could_not_be_asked(void **state)
{
	const struct health_policy slow = {.poll_ns = 10 * SECOND};
	gpu.state = GPU_STATE_HUNG;
	memcpy(gpu.reason, "nvmlX did not come back", 24);
	uint64_t now = samples(1, START, &slow);
	gpu.state = GPU_STATE_OK;
	gpu.reason[0] = '\0';
	now = samples(19, now, &slow);
	assert_int_equal(judge(now, false), HEALTH_UNHEALTHY);
	assert_true(has(HEALTH_HUNG));
	assert_non_null(strstr(verdict.reason[0].text, "(2 of 3 good samples); was: nvmlX did"));
	gpu.state = GPU_STATE_LOST; /* once more: it begins anew */
	now = samples(1, now, &slow);
	gpu.state = GPU_STATE_OK;
	now = samples(20, now, &slow);
	assert_int_equal(judge(now, false), HEALTH_UNHEALTHY);
	now = samples(1, now, &slow);
	assert_int_equal(judge(now, false), HEALTH_HEALTHY);
}

static void test_nothing_is_well_by_itself_when_a_person_wants_to_look(void **state)
{
	const struct health_policy manual = {.manual = true};
	snapshot_put(&gpu, SNAPSHOT_ENERGY, 1000);
	uint64_t now = samples(1, START, &manual);
	xid(62, now, 1);
	xid(79, now, 1);
	gpu.state = GPU_STATE_HUNG;
	now = samples(1, now, &manual);
	gpu.state = GPU_STATE_OK;
	snapshot_put(&gpu, SNAPSHOT_ENERGY, 10);
	now = samples(10, now, &manual);
	health_reboot(&track, &manual, now);
	now = samples(10, now, &manual);
	health_judge(&track, &manual, now, false, &verdict);
	assert_int_equal(verdict.state, HEALTH_UNHEALTHY);
	assert_int_equal(verdict.reason_count, 3);
	health_clear(&track, now);
	assert_int_equal(judge(now, false), HEALTH_HEALTHY);
}

static void test_failed_remapping_stays_until_cleared(void **state)
{
	snapshot_put(&gpu, SNAPSHOT_REMAP_FAILURE, 1);
	uint64_t now = samples(1, START, NULL);
	snapshot_put(&gpu, SNAPSHOT_REMAP_FAILURE, 0);
	now = samples(10, now, NULL);
	assert_int_equal(judge(now, false), HEALTH_UNHEALTHY);
	snapshot_put(&gpu, SNAPSHOT_REMAP_FAILURE, 1);
	now = samples(1, now, NULL);
	health_clear(&track, now);
	now = samples(10, now, NULL); /* the GPU tells it for ever: the person has seen it */
	assert_int_equal(judge(now, false), HEALTH_HEALTHY);
}

static uint32_t judge_device(uint32_t gi, uint32_t ci)
{
	health_judge_device(&track, NULL, START, gi, ci, &verdict);
	return verdict.state;
}

static void xid_at(uint32_t code, uint32_t gi, uint32_t ci)
{
	const struct health_event event = {.time_ns = START,
					   .xid = code,
					   .gi = gi,
					   .ci = ci,
					   .pid = SNAPSHOT_U32_ABSENT,
					   .recovery_action = SNAPSHOT_U32_ABSENT};
	health_event(&track, &event, NULL);
}

static void test_an_instance_concerns_itself(void **state)
{
	health_sample(&track, &gpu, START, NULL);
	xid_at(62, 3, 0);
	assert_int_equal(judge(START, false), HEALTH_UNHEALTHY);
	assert_int_equal(judge_device(3, 0), HEALTH_UNHEALTHY);
	assert_non_null(strstr(verdict.reason[0].text, "in GPU instance 3, compute instance 0"));
	assert_null(strstr(verdict.reason[0].text, "ago"));
	assert_int_equal(judge_device(3, 1), HEALTH_HEALTHY);
	assert_int_equal(judge_device(4, 0), HEALTH_HEALTHY);
	assert_int_equal(judge_device(SNAPSHOT_WHOLE_GPU, SNAPSHOT_WHOLE_GPU), HEALTH_HEALTHY);
	xid_at(95, 4, SNAPSHOT_WHOLE_GPU); /* of the kernel log, which names no compute instance */
	assert_int_equal(judge_device(4, 0), HEALTH_UNHEALTHY);
	assert_int_equal(judge_device(4, 1), HEALTH_UNHEALTHY);
	assert_int_equal(judge_device(5, 0), HEALTH_HEALTHY);
	xid_at(79, 4, 0); /* off the bus is off the bus */
	assert_int_equal(judge_device(5, 0), HEALTH_UNHEALTHY);
	assert_int_equal(judge_device(SNAPSHOT_WHOLE_GPU, SNAPSHOT_WHOLE_GPU), HEALTH_UNHEALTHY);
}

/* A storm on one instance must not push out what is known of another. */
static void test_a_storm_on_one_instance(void **state)
{
	health_sample(&track, &gpu, START, NULL);
	xid_at(62, 5, 0);
	for (uint32_t i = 0; i < 1000; i++)
		xid_at(62, 3, 0);
	assert_int_equal(judge_device(5, 0), HEALTH_UNHEALTHY);
	assert_int_equal(judge_device(3, 0), HEALTH_UNHEALTHY);
}

static void test_as_the_peer(void **state)
{
	const struct health_policy peer = {.base = HEALTH_AS_PEER};
	health_sample(&track, &gpu, START, &peer);
	xid(109, START, 1);
	health_judge(&track, &peer, START, false, &verdict);
	assert_int_equal(verdict.state, HEALTH_HEALTHY);
	xid(63, START, 1);
	health_judge(&track, &peer, START, false, &verdict);
	assert_int_equal(verdict.state, HEALTH_UNHEALTHY);
}

/* Looking once, an uncorrectable error of which the counter knows nothing is from before a reset.
 */
static void test_reset_that_nobody_saw(void **state)
{
	snapshot_put(&gpu, SNAPSHOT_ECC_UNCORRECTED_VOLATILE, 0);
	health_sample(&track, &gpu, START, NULL);
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
	health_sample(&track, &gpu, START, NULL);
	assert_int_equal(judge(START, false), HEALTH_DEGRADED);
	assert_true(has(HEALTH_PCIE_LINK));
	snapshot_put(&gpu, SNAPSHOT_UTIL_GPU, 0); /* idle: it may save power */
	health_sample(&track, &gpu, START, NULL);
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
	health_sample(&track, &gpu, START, NULL);
	snapshot_put(&gpu, SNAPSHOT_PCIE_REPLAYS, 116);
	health_sample(&track, &gpu, START + 60 * SECOND, NULL);
	assert_int_equal(judge(START + 60 * SECOND, false), HEALTH_HEALTHY);
	snapshot_put(&gpu, SNAPSHOT_PCIE_REPLAYS, 133);
	health_sample(&track, &gpu, START + 120 * SECOND, NULL);
	assert_int_equal(judge(START + 120 * SECOND, false), HEALTH_DEGRADED);
	assert_true(has(HEALTH_PCIE_REPLAYS));
}

static void test_heat_has_to_last(void **state)
{
	snapshot_put(&gpu, SNAPSHOT_TEMPERATURE, 82);
	snapshot_put(&gpu, SNAPSHOT_TEMPERATURE_SLOWDOWN, 87);
	health_sample(&track, &gpu, START, NULL);
	assert_int_equal(judge(START, true), HEALTH_DEGRADED);
	assert_int_equal(judge(START + 299 * SECOND, false), HEALTH_HEALTHY);
	assert_int_equal(judge(START + 300 * SECOND, false), HEALTH_DEGRADED);
	snapshot_put(&gpu, SNAPSHOT_TEMPERATURE, 81);
	health_sample(&track, &gpu, START + 301 * SECOND, NULL);
	assert_int_equal(judge(START + 301 * SECOND, false), HEALTH_HEALTHY);
}

static void test_throttled_for_a_tenth_of_the_time(void **state)
{
	for (uint32_t i = 0; i <= 100; i++) {
		snapshot_put(&gpu, SNAPSHOT_THROTTLE, i % 9 == 0 ? 0x80 : 0x1);
		health_sample(&track, &gpu, START + i * SECOND, NULL);
		if (i < 60)
			assert_int_equal(judge(START + i * SECOND, false), HEALTH_HEALTHY);
	}
	assert_int_equal(judge(START + 100 * SECOND, false), HEALTH_DEGRADED);
	assert_true(has(HEALTH_THROTTLED));
	setup(NULL);
	for (uint32_t i = 0; i <= 100; i++) {
		snapshot_put(&gpu, SNAPSHOT_THROTTLE, i % 12 == 0 ? 0x80 : 0x4);
		health_sample(&track, &gpu, START + i * SECOND, NULL);
	}
	assert_int_equal(judge(START + 100 * SECOND, false), HEALTH_HEALTHY);
}

static void test_pending_modes_and_links(void **state)
{
	snapshot_put(&gpu, SNAPSHOT_ECC_MODE, 1);
	snapshot_put(&gpu, SNAPSHOT_ECC_MODE_PENDING, 0);
	snapshot_put(&gpu, SNAPSHOT_NVLINK_INACTIVE, 2);
	health_sample(&track, &gpu, START, NULL);
	assert_int_equal(judge(START, false), HEALTH_DEGRADED);
	assert_true(has(HEALTH_MODE_PENDING));
	assert_true(has(HEALTH_NVLINK_DOWN));
}

/* A storm of harmless errors must not push out the one that matters. */
static void test_the_gravest_are_kept(void **state)
{
	health_sample(&track, &gpu, START, NULL);
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
	health_sample(&track, &gpu, START, NULL);
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
	assert_int_equal(health_cause_from_string("hung"), HEALTH_HUNG);
	assert_int_equal(health_cause_from_string("hang"), -EINVAL);
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
	    TEST(test_reset_forgives_after_three_good_samples),
	    TEST(test_reset_is_not_enough),
	    TEST(test_reset_is_seen_behind_a_pause),
	    TEST(test_what_could_not_be_asked),
	    TEST(test_nothing_is_well_by_itself_when_a_person_wants_to_look),
	    TEST(test_failed_remapping_stays_until_cleared),
	    TEST(test_an_instance_concerns_itself),
	    TEST(test_a_storm_on_one_instance),
	    TEST(test_as_the_peer),
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
