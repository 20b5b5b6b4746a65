/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/jobs/job_standing.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "tests/unit/unit.h"

static void lines_for_people(void **state)
{
	char text[JOB_STANDING_MAX];
	Sluice__V1__Job job = SLUICE__V1__JOB__INIT;
	Sluice__V1__Standing standing = SLUICE__V1__STANDING__INIT;
	assert_string_equal(job_standing_score(&job, text), "");
	assert_string_equal(job_standing_usage(&job, text), "");
	standing.score = 12.25;
	standing.age = 27.75;
	standing.size = 10;
	standing.usage = 25.5;
	standing.usage_gpu_hours = 1.021;
	standing.half_life_ns = UINT64_C(86400000000000);
	standing.gpus_now = 1;
	job.standing = &standing;
	assert_string_equal(job_standing_score(&job, text),
			    "12.2: age 27.8 + size 10.0 + priority 0.0 - usage 25.5");
	assert_string_equal(job_standing_usage(&job, text),
			    "1.02 GPU-hours that count (half as much after 1d00h), and 1 GPU now");
	standing.half_life_ns = UINT64_MAX;
	standing.gpus_now = 0;
	assert_string_equal(job_standing_usage(&job, text),
			    "1.02 GPU-hours that count (for ever), and 0 GPUs now");
}

static void when_it_starts(void **state)
{
	char text[JOB_STANDING_MAX];
	Sluice__V1__Job job = SLUICE__V1__JOB__INIT;
	Sluice__V1__Standing standing = SLUICE__V1__STANDING__INIT;
	assert_string_equal(job_standing_start(&job, text), "");
	assert_string_equal(job_standing_takes(&job, text), "");
	job.standing = &standing;
	job.gpus = 8;
	assert_string_equal(job_standing_start(&job, text), "");
	assert_string_equal(job_standing_takes(&job, text), "");
	standing.is_reserved = true;
	assert_string_equal(job_standing_start(&job, text),
			    "when enough of what runs has ended: GPUs are reserved for it");
	standing.starts_unix_ns = INT64_C(1700000000000000000);
	assert_true(strncmp(job_standing_start(&job, text), "by 2023-11-1", 12) == 0);
	assert_non_null(strstr(text, " at the latest: GPUs are reserved for it"));
	standing.start_is_estimate = true;
	assert_true(strncmp(job_standing_start(&job, text), "about 2023-11-1", 15) == 0);
	assert_non_null(
	    strstr(text, "an estimate by what such jobs have taken: GPUs are reserved"));
	job.gpus = 1;
	assert_non_null(strstr(job_standing_start(&job, text), ": a GPU is reserved for it"));
	job.gpus = 0;
	assert_non_null(strstr(job_standing_start(&job, text), ": it comes first"));
	standing.is_reserved = standing.start_is_estimate = false;
	assert_non_null(strstr(job_standing_start(&job, text), ", by the limits of what runs"));
	standing.estimate_ns = UINT64_C(310000000000);
	assert_string_equal(job_standing_takes(&job, text),
			    "5m10s, an estimate by its user's last jobs of this name");
}

static void json_for_programs(void **state)
{
	Sluice__V1__Job job = SLUICE__V1__JOB__INIT;
	Sluice__V1__Standing standing = SLUICE__V1__STANDING__INIT;
	json_t *json = job_standing_json(&job);
	assert_true(json_is_null(json));
	json_decref(json);
	standing.score = -3;
	standing.half_life_ns = UINT64_C(500000000);
	job.standing = &standing;
	json = job_standing_json(&job);
	assert_true(json_real_value(json_object_get(json, "total")) == -3);
	assert_true(json_real_value(json_object_get(json, "half_life_seconds")) == 0.5);
	json_decref(json);
	standing.half_life_ns = UINT64_MAX;
	json = job_standing_json(&job);
	assert_true(json_is_null(json_object_get(json, "half_life_seconds")));
	json_decref(json);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(lines_for_people),
	    cmocka_unit_test(when_it_starts),
	    cmocka_unit_test(json_for_programs),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
