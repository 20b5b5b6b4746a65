/* SPDX-License-Identifier: Apache-2.0 */
#include "libexec/supervise/sandbox.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "job/launch.h"
#include "libexec/supervise/image.h"
#include "libexec/supervise/landlock.h"
#include "unit/unit.h"

/* Rows: the level reached; columns: enum isolation. */
static void what_is_enough(void **state)
{
	static const struct {
		enum isolation level;
		const char *enough; /* best require cgroup landlock env container none */
	} rows[] = {
	    {ISOLATION_NONE, "y-----y"},      {ISOLATION_ENV, "y---y-y"},
	    {ISOLATION_LANDLOCK, "yy-yy-y"},  {ISOLATION_CGROUP1, "yyyyy-y"},
	    {ISOLATION_CGROUP2, "yyyyy-y"},   {ISOLATION_CONTAINER_ALONE, "yy-yyyy"},
	    {ISOLATION_CONTAINER, "yyyyyyy"},
	};
	for (size_t i = 0; i < array_length(rows); i++)
		for (uint32_t wanted = 0; wanted < ISOLATION_ASKED_COUNT; wanted++)
			assert_int_equal(sandbox_is_enough(rows[i].level, wanted),
					 rows[i].enough[wanted] == 'y');
}

static struct sandbox judge(uint32_t wanted, uint32_t least, const char *denied_why)
{
	struct launch launch _cleanup_launch_;
	struct cgroup none = CGROUP_NONE;
	struct sandbox sandbox;
	launch_init(&launch);
	launch.spec.wants.isolation = wanted;
	launch.spec.uid = 1000;
	launch.minimum_isolation = least;
	(void)snprintf(launch.denied_why, sizeof(launch.denied_why), "%s", denied_why);
	sandbox_prepare(&launch, &none, -1, "none is wanted", &sandbox);
	return sandbox;
}

static void each_level_that_is_not_reached_has_a_reason(void **state)
{
	struct sandbox sandbox = judge(ISOLATION_BEST, 0, "the GPUs are not known");
	assert_int_equal(sandbox.level, ISOLATION_ENV);
	assert_false(sandbox.is_refused);
	assert_true(sandbox.has_no_new_privs);
	assert_string_equal(sandbox.why,
			    "cgroup2: the GPUs are not known; cgroup1: the GPUs are not known; "
			    "landlock: the GPUs are not known");
	char text[CONTROL_TEXT_MAX];
	sandbox_describe(&sandbox, text);
	assert_int_equal(strncmp(text, "env: cgroup2: ", 14), 0);
	assert_true(judge(ISOLATION_REQUIRE, 0, "x").is_refused);
	assert_true(judge(ISOLATION_CGROUP, 0, "").is_refused);
	assert_true(judge(ISOLATION_CONTAINER, 0, "").is_refused);
}

static void the_owner_of_the_machine_may_demand_more(void **state)
{
	assert_false(judge(ISOLATION_ENV, ISOLATION_ENV, "").is_refused);
	assert_true(judge(ISOLATION_NONE, ISOLATION_ENV, "").is_refused);
	assert_true(judge(ISOLATION_ENV, ISOLATION_REQUIRE, "").is_refused);
	assert_true(judge(ISOLATION_BEST, ISOLATION_CGROUP, "").is_refused);
}

static void landlock_is_taken_where_there_is_no_group(void **state)
{
	struct sandbox sandbox = judge(ISOLATION_BEST, 0, "");
	bool is_there = landlock_version() > 0;
	assert_int_equal(sandbox.has_landlock, is_there);
	assert_int_equal(sandbox.level, is_there ? ISOLATION_LANDLOCK : ISOLATION_ENV);
	assert_non_null(strstr(sandbox.why, "cgroup2: "));
	assert_non_null(strstr(sandbox.why, "; cgroup1: "));
	sandbox = judge(ISOLATION_NONE, 0, "");
	assert_false(sandbox.has_landlock || sandbox.has_own_pids || sandbox.has_no_new_privs);
	assert_int_equal(sandbox.level, ISOLATION_NONE);
}

static void a_container_is_judged_by_what_is_around_it(void **state)
{
	struct launch launch _cleanup_launch_;
	struct image image = IMAGE_NONE;
	struct sandbox sandbox;
	launch_init(&launch);
	launch.spec.wants.isolation = ISOLATION_CGROUP;
	image.is_guarded = image.is_trusted = true;
	sandbox_judge_image(&launch, &image, &sandbox);
	assert_int_equal(sandbox.level, ISOLATION_CONTAINER);
	assert_false(sandbox.is_refused);
	image.is_guarded = false;
	(void)snprintf(image.why, sizeof(image.why), "no cgroup");
	sandbox_judge_image(&launch, &image, &sandbox);
	assert_int_equal(sandbox.level, ISOLATION_CONTAINER_ALONE);
	assert_true(sandbox.is_refused);
	assert_string_equal(sandbox.why, "no cgroup");
	image.is_privileged = true;
	sandbox_judge_image(&launch, &image, &sandbox);
	assert_int_equal(sandbox.level, ISOLATION_NONE);
}

/* What is called podman in a user's own directory may be anything: the rules around it hold. */
static void a_users_own_podman_makes_no_container(void **state)
{
	struct launch launch _cleanup_launch_;
	struct image image = IMAGE_NONE;
	struct sandbox sandbox;
	launch_init(&launch);
	(void)snprintf(image.why_program, sizeof(image.why_program), "it is bob's");
	(void)snprintf(image.why, sizeof(image.why), "no cgroup");
	for (int wanted = 0; wanted < 2; wanted++) {
		launch.spec.wants.isolation = wanted ? ISOLATION_CONTAINER : 0;
		launch.minimum_isolation = wanted ? 0 : ISOLATION_CONTAINER;
		image.is_guarded = false;
		sandbox_judge_image(&launch, &image, &sandbox);
		assert_int_equal(sandbox.level, ISOLATION_ENV);
		assert_string_equal(sandbox.why, "container: it is bob's; no cgroup");
		assert_true(sandbox.is_refused);
		image.is_guarded = true;
		sandbox_judge_image(&launch, &image, &sandbox);
		assert_int_equal(sandbox.level, ISOLATION_CGROUP2);
		assert_string_equal(sandbox.why, "container: it is bob's");
		assert_true(sandbox.is_refused);
	}
	(void)snprintf(image.devices_v1, sizeof(image.devices_v1), "/x");
	launch.spec.wants.isolation = ISOLATION_CGROUP;
	launch.minimum_isolation = ISOLATION_CGROUP;
	sandbox_judge_image(&launch, &image, &sandbox);
	assert_int_equal(sandbox.level, ISOLATION_CGROUP1);
	assert_false(sandbox.is_refused);
}

static void reasons_are_cut(void **state)
{
	struct sandbox sandbox = {.level = ISOLATION_ENV};
	char long_[SANDBOX_WHY_MAX * 2], text[CONTROL_TEXT_MAX];
	memset(long_, 'x', sizeof(long_) - 1);
	long_[sizeof(long_) - 1] = '\0';
	for (int i = 0; i < 20; i++)
		sandbox_add_why(&sandbox, "level", long_);
	assert_true(strlen(sandbox.why) < CONTROL_TEXT_MAX);
	sandbox_describe(&sandbox, text);
	assert_true(strlen(text) < CONTROL_TEXT_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_is_enough),
	    cmocka_unit_test(each_level_that_is_not_reached_has_a_reason),
	    cmocka_unit_test(the_owner_of_the_machine_may_demand_more),
	    cmocka_unit_test(landlock_is_taken_where_there_is_no_group),
	    cmocka_unit_test(a_container_is_judged_by_what_is_around_it),
	    cmocka_unit_test(a_users_own_podman_makes_no_container),
	    cmocka_unit_test(reasons_are_cut),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
