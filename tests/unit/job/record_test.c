/* SPDX-License-Identifier: Apache-2.0 */
#include "job/record.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "tests/unit/unit.h"

static const char instance[] = "0f9c4a5e-1111-4222-8333-444455556666";

static void what_is_written_is_read_again(void **state)
{
	struct launch_grant grants[2] = {
	    {.uuid = "GPU-1", .label = "GPU 0", .index = 0, .slot_count = 1, .slots = {1}},
	    {.uuid = "MIG-2", .label = "MIG 3:1", .index = 3, .slot_count = 1000},
	};
	grants[1].slots[15] = UINT64_C(1) << 39; /* slot 999 */
	_cleanup_free_ char *text = NULL;
	assert_int_equal(record_format_attempt(instance, grants, 2, &text, NULL), 0);
	assert_non_null(text);
	_cleanup_record_attempt_ struct record_attempt attempt;
	assert_int_equal(record_parse_attempt(text, strlen(text), &attempt, NULL), 0);
	assert_string_equal(attempt.instance, instance);
	assert_int_equal(attempt.grant_count, 2);
	for (size_t i = 0; i < 2; i++) {
		assert_string_equal(attempt.grants[i].uuid, grants[i].uuid);
		assert_string_equal(attempt.grants[i].label, grants[i].label);
		assert_int_equal(attempt.grants[i].index, grants[i].index);
		assert_int_equal(attempt.grants[i].slot_count, grants[i].slot_count);
		assert_memory_equal(attempt.grants[i].slots, grants[i].slots,
				    sizeof(grants[i].slots));
	}
}

static void count_grant(const struct launch_grant *grant, void *context)
{
	size_t *count = context;
	assert_string_equal(grant->uuid, *count ? "MIG-2" : "GPU-1");
	++*count;
}

static void grants_are_told_without_memory(void **state)
{
	static const char text[] = "sluice-attempt 1\ninstance x\ngrant GPU-1 0 4 3 GPU 0\n"
				   "isolation cgroup\ngrant MIG-2 3 1 1 MIG 3:1\n";
	size_t count = 0;
	assert_int_equal(record_each_grant(text, strlen(text), count_grant, &count), 0);
	assert_int_equal(count, 2);
	count = 0;
	assert_int_equal(record_each_grant(text, strlen(text) - 3, count_grant, &count), 0);
	assert_int_equal(record_each_grant("", 0, count_grant, &count), -EINVAL);
	static const char bad[] = "sluice-attempt 1\ngrant GPU-1 0 1 2 GPU 0\n";
	assert_int_equal(record_each_grant(bad, strlen(bad), count_grant, &count), -EINVAL);
	assert_int_equal(record_each_grant(bad, RECORD_TEXT_MAX + 1, count_grant, &count), -EINVAL);
}

static void a_job_without_gpus_has_an_instance_all_the_same(void **state)
{
	_cleanup_free_ char *text = NULL;
	assert_int_equal(record_format_attempt(instance, NULL, 0, &text, NULL), 0);
	assert_non_null(text);
	_cleanup_record_attempt_ struct record_attempt attempt;
	assert_int_equal(record_parse_attempt(text, strlen(text), &attempt, NULL), 0);
	assert_int_equal(attempt.grant_count, 0);
	assert_string_equal(attempt.instance, instance);
}

static void nothing_else_is_taken_for_an_attempt(void **state)
{
	static const char *const wrong[] = {
	    "",
	    "sluice-attempt 2\n",
	    "sluice-attempt 1\n\n",
	    "sluice-attempt 1\nother x\n",
	    "sluice-attempt 1\ninstance \n",
	    "sluice-attempt 1\ngrant GPU-1 0 1 1\n",	   /* no label */
	    "sluice-attempt 1\ngrant GPU-1 0 1 0 GPU 0\n", /* no slot */
	    "sluice-attempt 1\ngrant GPU-1 0 1 2 GPU 0\n", /* beyond its slots */
	    "sluice-attempt 1\ngrant GPU-1 0 1 1: GPU 0\n",
	    "sluice-attempt 1\ngrant GPU-1 0 1001 1 GPU 0\n",
	    "sluice-attempt 1\ngrant GPU-1 x 1 1 GPU 0\n",
	    "sluice-attempt 1\ngrant GPU-1 0 1 1 GPU\x1b[0m\n",
	};
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct record_attempt attempt;
		struct err err;
		assert_int_equal(record_parse_attempt(wrong[i], strlen(wrong[i]), &attempt, &err),
				 -EINVAL);
		assert_non_null(strstr(err.text, "line "));
		assert_null(attempt.grants);
	}
}

static void observations_are_read_again(void **state)
{
	const struct queue_observation seen[2] = {
	    {.pid = 4711, .uuid = "GPU-1", .first_unix_ns = 1, .last_unix_ns = INT64_MAX},
	    {.pid = 1, .uuid = "MIG-2"},
	};
	_cleanup_free_ char *text = NULL;
	assert_int_equal(record_format_observations(seen, 2, &text, NULL), 0);
	assert_non_null(text);
	_cleanup_free_ struct queue_observation *again = NULL;
	size_t count = 0;
	assert_int_equal(record_parse_observations(text, strlen(text), &again, &count, NULL), 0);
	assert_int_equal(count, 2);
	assert_int_equal(again[0].pid, 4711);
	assert_int_equal(again[0].last_unix_ns, INT64_MAX);
	assert_string_equal(again[1].uuid, "MIG-2");
	_cleanup_free_ char *none = NULL;
	assert_int_equal(record_format_observations(seen, 0, &none, NULL), 0);
	assert_null(none);
}

static void nothing_else_is_taken_for_observations(void **state)
{
	static const char *const wrong[] = {"\n", "1 2 3\n", "x 1 2 GPU-1\n", "1 -1 2 GPU-1\n",
					    "1 2 9223372036854775808 GPU-1\n"};
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct queue_observation *seen = NULL;
		size_t count = 0;
		assert_int_equal(
		    record_parse_observations(wrong[i], strlen(wrong[i]), &seen, &count, NULL),
		    -EINVAL);
		assert_null(seen);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_is_written_is_read_again),
	    cmocka_unit_test(grants_are_told_without_memory),
	    cmocka_unit_test(a_job_without_gpus_has_an_instance_all_the_same),
	    cmocka_unit_test(nothing_else_is_taken_for_an_attempt),
	    cmocka_unit_test(observations_are_read_again),
	    cmocka_unit_test(nothing_else_is_taken_for_observations),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
