/* SPDX-License-Identifier: Apache-2.0 */
/* What needs no agent; tests/e2e/test_jobs_order.py has the rest. */
#include "cmd/jobs/job_target.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "cmd/service/agent_call.h"
#include "cmd/jobs/job_text.h"
#include "unit/unit.h"

static void a_number_alone_asks_nobody(void **state)
{
	struct agent_call nobody = AGENT_CALL_NONE;
	struct job_target target;
	assert_int_equal(job_target_find(&nobody, "17", false, &target, NULL), 0);
	assert_int_equal(target.id, 17);
	assert_false(target.is_member);
	assert_int_equal(target.array_count, 0);
}

static void what_is_no_number_is_refused(void **state)
{
	static const char *const bad[] = {
	    "",	    "0",     "x",      "17.",	     ".3",
	    "17.x", "17.-1", "17.3.4", "17.4000001", "18446744073709551615"};
	struct agent_call nobody = AGENT_CALL_NONE;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct job_target target;
		struct err err = {.code = 0};
		assert_int_equal(job_target_find(&nobody, bad[i], true, &target, &err), -EINVAL);
		assert_non_null(strstr(err.text, "no number of a job"));
	}
}

static void a_member_is_counted_from_the_first(void **state)
{
	uint64_t id = 0, array_id = 0;
	char label[JOB_TEXT_LABEL_MAX];
	assert_int_equal(job_text_target("17.3", &id, &array_id), 0);
	assert_int_equal(id, 20);
	assert_int_equal(array_id, 17);
	Sluice__V1__Job job = SLUICE__V1__JOB__INIT;
	job.id = 20;
	assert_string_equal(job_text_label(&job, label), "20");
	job.array_id = 17;
	job.array_index = 3;
	assert_string_equal(job_text_label(&job, label), "17.3");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_number_alone_asks_nobody),
	    cmocka_unit_test(what_is_no_number_is_refused),
	    cmocka_unit_test(a_member_is_counted_from_the_first),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
