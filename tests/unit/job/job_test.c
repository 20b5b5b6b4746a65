/* SPDX-License-Identifier: Apache-2.0 */
#include "job/job.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "unit/failmalloc.h"
#include "unit/unit.h"

static void test_every_state_has_its_own_name(void **state)
{
	(void)state;
	for (enum job_state one = JOB_PENDING; one <= JOB_CANCELLED; one++) {
		enum job_state back = JOB_PENDING;
		assert_int_equal(job_state_from_string(job_state_to_string(one), &back), 0);
		assert_int_equal(back, one);
	}
	enum job_state untouched = JOB_RUNNING;
	assert_int_equal(job_state_from_string("running", &untouched), -EINVAL);
	assert_int_equal(job_state_from_string("", &untouched), -EINVAL);
	assert_int_equal(untouched, JOB_RUNNING);
	assert_string_equal(job_state_to_string((enum job_state)99), "?");
}

static void test_every_reason_has_its_own_name(void **state)
{
	(void)state;
	for (enum job_reason one = JOB_REASON_NONE; one <= JOB_REASON_USER; one++) {
		enum job_reason back = JOB_REASON_NONE;
		assert_int_equal(job_reason_from_string(job_reason_to_string(one), &back), 0);
		assert_int_equal(back, one);
	}
	enum job_reason untouched = JOB_REASON_SIGNAL;
	assert_int_equal(job_reason_from_string("?", &untouched), -EINVAL);
	assert_int_equal(untouched, JOB_REASON_SIGNAL);
	assert_string_equal(job_reason_to_string(JOB_REASON_NONE), "");
	assert_string_equal(job_reason_to_string((enum job_reason)99), "?");
}

static void test_three_states_are_final(void **state)
{
	(void)state;
	assert_false(job_state_is_final(JOB_PENDING));
	assert_false(job_state_is_final(JOB_STARTING));
	assert_false(job_state_is_final(JOB_RUNNING));
	assert_false(job_state_is_final(JOB_STOPPING));
	assert_true(job_state_is_final(JOB_SUCCEEDED));
	assert_true(job_state_is_final(JOB_FAILED));
	assert_true(job_state_is_final(JOB_CANCELLED));
}

static int copy_one(void *context)
{
	(void)context;
	char text[] = "(code 3)", ids[] = "0,3:1";
	struct job job = {.id = 17, .name = "train", .reason_text = text, .ids = ids};
	struct job copy = {.id = 4};
	int rc = job_copy(&job, &copy);
	if (rc < 0) {
		assert_int_equal(copy.id, 4);
		return rc;
	}
	text[0] = ids[0] = '\0';
	assert_int_equal(copy.id, 17);
	assert_string_equal(copy.name, "train");
	assert_string_equal(copy.reason_text, "(code 3)");
	assert_string_equal(copy.ids, "0,3:1");
	job_done(&copy);
	job_done(&copy);
	return 0;
}

static void expect_why(const char *text, const char *detail, const char *expected)
{
	struct job job = {.id = 1};
	char why[JOB_WHY_MAX];
	job_set_reason(&job, JOB_REASON_BACKOFF, text, detail);
	job_why(&job, why);
	assert_string_equal(why, expected);
	job_done(&job);
}

static void test_why_in_one_text(void **state)
{
	(void)state;
	expect_why(NULL, NULL, "");
	expect_why("the last: LaunchError", "", "the last: LaunchError");
	expect_why("", "executing '/bin/x'", "executing '/bin/x'");
	expect_why("the last: LaunchError", "executing '/bin/x'",
		   "the last: LaunchError (executing '/bin/x')");
	char text[JOB_REASON_MAX + 2], detail[JOB_DETAIL_MAX + 2], why[JOB_WHY_MAX];
	struct job job = {.id = 1};
	memset(text, 't', sizeof(text));
	memset(detail, 'd', sizeof(detail));
	text[JOB_REASON_MAX + 1] = detail[JOB_DETAIL_MAX + 1] = '\0';
	job_set_reason(&job, JOB_REASON_BACKOFF, text, detail);
	job_why(&job, why);
	assert_int_equal(strlen(why), JOB_REASON_MAX - 1 + JOB_DETAIL_MAX - 1 + 3);
	assert_true(why[strlen(why) - 1] == ')');
	job_done(&job);
}

static void test_a_copy_has_its_own_strings(void **state)
{
	(void)state;
	assert_int_equal(failmalloc_each(copy_one, NULL), 2);
	struct job empty = {.id = 1}, copy = {.id = 0};
	assert_int_equal(job_copy(&empty, &copy), 0);
	assert_null(copy.ids);
	assert_null(copy.reason_text);
	job_done(&copy);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_every_state_has_its_own_name),
	    cmocka_unit_test(test_every_reason_has_its_own_name),
	    cmocka_unit_test(test_three_states_are_final),
	    cmocka_unit_test(test_why_in_one_text),
	    cmocka_unit_test(test_a_copy_has_its_own_strings),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
