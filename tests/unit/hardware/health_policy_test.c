/* SPDX-License-Identifier: Apache-2.0 */
#include "hardware/health_policy.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "unit/unit.h"

static char bad_entries[256];

static void note_bad(const char *entry, void *context)
{
	size_t length = strlen(bad_entries);
	(void)snprintf(bad_entries + length, sizeof(bad_entries) - length, "[%s]", entry);
}

static struct health_policy made(const char *disable, const char *enable)
{
	struct health_policy policy = {.base = HEALTH_BY_TABLE};
	bad_entries[0] = '\0';
	health_policy_environment(&policy, disable, enable, note_bad, NULL);
	return policy;
}

static void test_table(void **state)
{
	assert_int_equal(health_policy_class(NULL, 79), XID_REBOOT);
	assert_int_equal(health_policy_class(NULL, 13), XID_APP);
	assert_int_equal(health_policy_fatal(13), XID_RESET);
	assert_int_equal(health_policy_fatal(79), XID_REBOOT);
	assert_int_equal(health_policy_fatal(54), XID_INSPECT);
}

static void test_peer(void **state)
{
	static const uint32_t ignored[] = {13, 31, 43, 45, 68, 109};
	const struct health_policy peer = {.base = HEALTH_AS_PEER};
	for (uint32_t xid = 0; xid < 200; xid++) {
		bool ignores = false;
		for (size_t i = 0; i < 6; i++)
			ignores |= ignored[i] == xid;
		assert_int_equal(health_policy_class(&peer, xid) < XID_RESET, ignores);
	}
	assert_false(health_policy_is_table(&peer, 48));
}

static void test_codes_of_the_configuration(void **state)
{
	struct health_policy policy = {.base = HEALTH_AS_PEER};
	assert_int_equal(health_policy_set(&policy, 63, XID_IGNORE), 0);
	assert_int_equal(health_policy_set(&policy, 13, health_policy_fatal(13)), 0);
	assert_int_equal(health_policy_class(&policy, 63), XID_IGNORE);
	assert_int_equal(health_policy_class(&policy, 13), XID_RESET);
	assert_int_equal(health_policy_set(&policy, 63, XID_INFO), 0);
	assert_int_equal(policy.override_count, 2);
	for (uint32_t i = 2; i < HEALTH_OVERRIDE_MAX; i++)
		assert_int_equal(health_policy_set(&policy, 1000 + i, XID_APP), 0);
	assert_int_equal(health_policy_set(&policy, 5000, XID_APP), -E2BIG);
}

static void test_disable(void **state)
{
	struct health_policy policy = made("48, 62 ,x,-1,79", NULL);
	assert_int_equal(health_policy_class(&policy, 48), XID_IGNORE);
	assert_int_equal(health_policy_class(&policy, 62), XID_IGNORE);
	assert_int_equal(health_policy_class(&policy, 79), XID_IGNORE);
	assert_int_equal(health_policy_class(&policy, 95), XID_RESET);
	assert_string_equal(bad_entries, "[x][-1]");
	static const char *const all[] = {"all", "xids", "ALL", "Xids", "48,xids", " all ,13"};
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		policy = made(all[i], NULL);
		assert_int_equal(health_policy_class(&policy, 79), XID_IGNORE);
		assert_int_equal(health_policy_class(&policy, 48), XID_IGNORE);
		assert_string_equal(bad_entries, "");
	}
	policy = made("allx", "");
	assert_int_equal(health_policy_class(&policy, 79), XID_REBOOT);
	assert_string_equal(bad_entries, "[allx]");
}

static void test_enable_beats_disable(void **state)
{
	struct health_policy policy = made("all", "79");
	assert_int_equal(health_policy_class(&policy, 79), XID_REBOOT);
	assert_int_equal(health_policy_class(&policy, 48), XID_IGNORE);
	policy = made("79", "79,13");
	assert_int_equal(health_policy_class(&policy, 79), XID_REBOOT);
	assert_int_equal(health_policy_class(&policy, 13), XID_RESET); /* ignored by itself */
	policy = made("all", "all");
	assert_int_equal(health_policy_class(&policy, 13), XID_RESET);
	policy = made("13", "all");
	assert_int_equal(health_policy_class(&policy, 13), XID_RESET);
}

static void test_long_entry_is_no_code(void **state)
{
	char list[200];
	memset(list, '0', sizeof(list));
	list[150] = '\0';
	struct health_policy policy = made(list, NULL);
	assert_int_equal(policy.override_count, 0);
	assert_non_null(strstr(bad_entries, "...]"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_table),
	    cmocka_unit_test(test_peer),
	    cmocka_unit_test(test_codes_of_the_configuration),
	    cmocka_unit_test(test_disable),
	    cmocka_unit_test(test_enable_beats_disable),
	    cmocka_unit_test(test_long_entry_is_no_code),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
