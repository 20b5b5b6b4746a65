/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/jobs/job_text.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "unit/unit.h"

#define S INT64_C(1000000000)

static void test_states(void **state)
{
	static const char *const names[] = {"Pending",	 "Starting", "Running",	 "Stopping",
					    "Succeeded", "Failed",   "Cancelled"};
	Sluice__V1__JobState found;
	struct err err = {0};
	for (int i = 0; i < 7; i++) {
		Sluice__V1__JobState want = (Sluice__V1__JobState)(i + 1);
		assert_string_equal(job_text_state(want), names[i]);
		assert_int_equal(job_text_state_parse(names[i], &found, &err), 0);
		assert_int_equal(found, want);
		assert_true(job_text_is_final(want) == (i >= 4));
	}
	assert_int_equal(job_text_state_parse("running", &found, &err), 0);
	assert_int_equal(found, SLUICE__V1__JOB_STATE__RUNNING);
	assert_int_equal(job_text_state_parse("Runing", &found, &err), -EINVAL);
	assert_non_null(strstr(err.text, "did you mean 'Running'?"));
	assert_string_equal(job_text_state((Sluice__V1__JobState)99), "Unknown");
	uint64_t id;
	assert_int_equal(job_text_id("17", &id), 0);
	assert_int_equal(id, 17);
	assert_true(job_text_id("0", &id) < 0 && job_text_id("-1", &id) < 0);
	assert_true(job_text_id("17x", &id) < 0);
}

static void test_reason(void **state)
{
	char out[JOB_TEXT_MAX], reason[] = "WaitingForGPU", text[] = "have 1, need 2";
	Sluice__V1__Job job = SLUICE__V1__JOB__INIT;
	assert_string_equal(job_text_reason(&job, out), "");
	job.reason = reason;
	assert_string_equal(job_text_reason(&job, out), "WaitingForGPU");
	job.reason_text = text;
	assert_string_equal(job_text_reason(&job, out), "WaitingForGPU (have 1, need 2)");
	job.reason = (char *)"";
	assert_string_equal(job_text_reason(&job, out), "have 1, need 2");
}

static void test_gpus(void **state)
{
	char out[JOB_TEXT_MAX], label[] = "GPU 3", mig[] = "MIG 0:1";
	Sluice__V1__Job job = SLUICE__V1__JOB__INIT;
	assert_string_equal(job_text_gpus(&job, out), "");
	job.gpus = 2;
	assert_string_equal(job_text_gpus(&job, out), "wants 2");
	job.share_numerator = 1;
	job.share_denominator = 4;
	assert_string_equal(job_text_gpus(&job, out), "wants 2 (1/4)");
	job.share_denominator = JOB_TEXT_ONE_SLOT;
	assert_string_equal(job_text_gpus(&job, out), "wants 2 (one slot)");
	job.state = SLUICE__V1__JOB_STATE__CANCELLED;
	assert_string_equal(job_text_gpus(&job, out), "wanted 2 (one slot)");
	job.state = SLUICE__V1__JOB_STATE__PENDING;

	Sluice__V1__Attempt attempt = SLUICE__V1__ATTEMPT__INIT;
	Sluice__V1__Grant one = SLUICE__V1__GRANT__INIT, other = SLUICE__V1__GRANT__INIT;
	Sluice__V1__Grant *grants[] = {&one, &other};
	uint32_t slots[] = {0, 1};
	one.label = label;
	one.slots = slots;
	one.n_slots = 2;
	one.slot_count = 8;
	other.label = mig;
	other.slots = slots;
	other.n_slots = other.slot_count = 1;
	attempt.grants = grants;
	attempt.n_grants = 2;
	job.attempt = &attempt;
	assert_string_equal(job_text_gpus(&job, out), "3 (2/8),0:1");
}

static void test_times(void **state)
{
	static const struct {
		uint64_t ns;
		const char *text;
	} cases[] = {
	    {0, "0.00s"},
	    {UINT64_C(210000000), "0.21s"},
	    {UINT64_C(9999999999), "9.99s"},
	    {UINT64_C(12300000000), "12.3s"},
	    {UINT64_C(59990000000), "59.9s"},
	    {UINT64_C(245) * S, "4m05s"},
	    {UINT64_C(7380) * S, "2h03m"},
	    {UINT64_C(273600) * S, "3d04h"},
	};
	char out[JOB_TEXT_TIME_MAX];
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_string_equal(job_text_duration(cases[i].ns, out), cases[i].text);
	assert_string_equal(job_text_time(0, out), "-");
	assert_non_null(strstr(job_text_time(INT64_C(1700000000123456789), out), ".123"));

	Sluice__V1__Job job = SLUICE__V1__JOB__INIT;
	Sluice__V1__Attempt attempt = SLUICE__V1__ATTEMPT__INIT;
	job.state = SLUICE__V1__JOB_STATE__PENDING;
	job.submitted_unix_ns = 10 * S;
	assert_int_equal(job_text_elapsed_ns(&job, 14 * S), 4 * S); /* it waits */
	job.attempt = &attempt;
	attempt.started_unix_ns = 14 * S;
	assert_int_equal(job_text_elapsed_ns(&job, 20 * S), 6 * S); /* it runs */
	assert_int_equal(job_text_elapsed_ns(&job, 2 * S), 0);	    /* the clock went back */
	attempt.ended_unix_ns = 15 * S;
	assert_int_equal(job_text_elapsed_ns(&job, 20 * S), S);
	attempt = (Sluice__V1__Attempt)SLUICE__V1__ATTEMPT__INIT;
	job.state = SLUICE__V1__JOB_STATE__CANCELLED;
	assert_int_equal(job_text_elapsed_ns(&job, 20 * S), 0); /* it never ran */
}

static void test_exit_codes(void **state)
{
	char deadline[] = "DeadlineExceeded";
	Sluice__V1__Job job = SLUICE__V1__JOB__INIT;
	job.state = SLUICE__V1__JOB_STATE__SUCCEEDED;
	assert_int_equal(job_text_exit_code(&job), 0);
	job.state = SLUICE__V1__JOB_STATE__FAILED;
	assert_int_equal(job_text_exit_code(&job), 1);
	job.state = SLUICE__V1__JOB_STATE__CANCELLED;
	assert_int_equal(job_text_exit_code(&job), 143);
	job.has_exit = true;
	job.exit_code = 7;
	assert_int_equal(job_text_exit_code(&job), 7);
	job.exit_code = 137;
	job.reason = deadline;
	assert_int_equal(job_text_exit_code(&job), 124);
}

static void test_json(void **state)
{
	char label[] = "GPU 3", uuid[] = "GPU-x", user[] = "alice", isolation[] = "env";
	uint32_t slots[] = {4};
	ProtobufCBinaryData argv[] = {{4, (uint8_t *)"echo"}, {2, (uint8_t *)"\xff!"}};
	Sluice__V1__Grant grant = SLUICE__V1__GRANT__INIT, *grants[] = {&grant};
	Sluice__V1__Observation seen = SLUICE__V1__OBSERVATION__INIT, *observed[] = {&seen};
	Sluice__V1__Attempt attempt = SLUICE__V1__ATTEMPT__INIT;
	Sluice__V1__Job job = SLUICE__V1__JOB__INIT;
	grant.label = label;
	grant.uuid = seen.uuid = uuid;
	grant.slots = slots;
	grant.n_slots = 1;
	grant.slot_count = 8;
	seen.pid = 42;
	seen.first_unix_ns = 2 * S;
	attempt.number = 1;
	attempt.grants = grants;
	attempt.n_grants = 1;
	attempt.observed = observed;
	attempt.n_observed = 1;
	attempt.isolation = isolation;
	attempt.started_unix_ns = 3 * S / 2;
	job.id = 17;
	job.user = user;
	job.attempt = &attempt;
	job.argv = argv;
	job.n_argv = 2;
	job.share_numerator = 1;
	job.share_denominator = 8;
	json_t *json = job_text_json(&job);
	assert_non_null(json);
	json_int_t id, slot, pid;
	double started, first;
	const char *word, *share, *state_text;
	assert_int_equal(
	    json_unpack(json,
			"{s:I, s:s, s:s, s:[s,s], s:n, s:n, s:{s:F, s:n, s:[{s:[I]}], s:[{s:I, "
			"s:F, s:n}]}}",
			"id", &id, "state", &state_text, "share", &share, "command", &word, &word,
			"exit_code", "signal", "attempt", "started_unix", &started, "ended_unix",
			"gpus", "slots", &slot, "observed", "pid", &pid, "first_unix", &first,
			"last_unix"),
	    0);
	assert_int_equal(id, 17);
	assert_int_equal(slot, 4);
	assert_int_equal(pid, 42);
	assert_true(started == 1.5 && first == 2);
	assert_string_equal(share, "1/8");
	job.share_denominator = JOB_TEXT_ONE_SLOT;
	json_t *slot_json = job_text_json(&job);
	assert_non_null(slot_json);
	assert_string_equal(json_string_value(json_object_get(slot_json, "share")), "slot");
	json_decref(slot_json);
	assert_string_equal(word, "\xef\xbf\xbd!"); /* bytes that are no text */
	json_decref(json);
}

static void test_start(void **state)
{
	char out[JOB_TEXT_TIME_MAX];
	Sluice__V1__Job job = SLUICE__V1__JOB__INIT;
	job.start_estimate_unix_ns = 100 * S;
	assert_string_equal(job_text_start(&job, 0, out), ""); /* it has no place */
	job.place = 3;
	static const struct {
		int64_t in_s;
		const char *text;
	} rows[] = {{-5, "#3 ~0s"},	{59, "#3 ~59s"},
		    {60, "#3 ~1m"},	{7199, "#3 ~119m"},
		    {7200, "#3 ~2h"},	{172799, "#3 ~47h"},
		    {172800, "#3 ~2d"}, {INT64_C(9000000000), "#3 ~104166d"}};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		job.start_estimate_unix_ns = (10 + rows[i].in_s) * S;
		assert_string_equal(job_text_start(&job, 10 * S, out), rows[i].text);
	}
	job.start_estimate_unix_ns = 0;
	job.place = UINT64_MAX;
	assert_string_equal(job_text_start(&job, 0, out), "#18446744073709551615");
	job.start_estimate_unix_ns = INT64_MAX;
	assert_non_null(strchr(job_text_start(&job, INT64_MIN, out), '~'));
}

static void a_container_that_did_not_start_has_advice(void **state)
{
	Sluice__V1__Job job = SLUICE__V1__JOB__INIT;
	job.reason = (char *)"ContainerError";
	job.reason_text = (char *)"statfs /nowhere: no such file or directory";
	assert_non_null(strstr(job_text_advice(&job), "--volume"));
	job.reason_text = (char *)"something that is new";
	assert_non_null(strstr(job_text_advice(&job), "sluice logs"));
	job.reason = (char *)"BackoffLimitExceeded";
	assert_string_equal(job_text_advice(&job), "");
	job.reason_text = (char *)"2 failures, the last: ContainerError (a: image not known)";
	assert_non_null(strstr(job_text_advice(&job), "--pull"));
	job.reason = (char *)"ExitCode";
	job.reason_text = (char *)"125";
	assert_string_equal(job_text_advice(&job), "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_states),
	    cmocka_unit_test(test_reason),
	    cmocka_unit_test(test_gpus),
	    cmocka_unit_test(test_times),
	    cmocka_unit_test(test_json),
	    cmocka_unit_test(test_exit_codes),
	    cmocka_unit_test(a_container_that_did_not_start_has_advice),
	    cmocka_unit_test(test_start),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
