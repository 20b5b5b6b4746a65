/* SPDX-License-Identifier: Apache-2.0 */
/* What needs no cgroup; with one: tests/e2e/test_run_image.py. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "libexec/supervise/image.h"
#include "libexec/supervise/watch.h"
#include "unit/unit.h"

static void what_is_missing_around_it_is_said(void **state)
{
	struct launch launch _cleanup_launch_;
	struct cgroup none = CGROUP_NONE;
	struct image image;
	char text[CONTROL_TEXT_MAX];
	launch_init(&launch);
	image_prepare(&launch, &none, "for a reason", &image);
	image_describe(&image, text);
	if (geteuid() == 0)
		assert_string_equal(text, "container, no device cgroup around it: no cgroup: for a "
					  "reason");
	else
		assert_string_equal(text, "container, no device cgroup around it: the agent is not "
					  "root's");
	image_done(&image);
	image.is_guarded = true;
	image_describe(&image, text);
	assert_string_equal(text, "container");
}

static void the_helper_must_be_there(void **state)
{
	struct launch launch _cleanup_launch_;
	char *helper[IMAGE_HELPER_WORDS];
	struct err err = {0};
	launch_init(&launch);
	assert_int_equal(image_helper(&launch, "run", helper, &err), -ENOPKG);
	assert_non_null(strstr(err.text, "sluice-container"));
	(void)snprintf(launch.container, sizeof(launch.container), "/x/sluice-container");
	assert_int_equal(image_helper(&launch, "run", helper, &err), 0);
	assert_string_equal(helper[0], "/x/sluice-container");
	assert_string_equal(helper[1], "run");
	assert_null(helper[2]);
}

static void what_was_killed_may_have_left_something(void **state)
{
	struct watch watch = {.status = 7 << 8};
	assert_false(image_is_left(&watch));
	watch.killed_leftovers = 1;
	assert_true(image_is_left(&watch));
	watch = (struct watch){.status = 9};
	assert_true(image_is_left(&watch));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_is_missing_around_it_is_said),
	    cmocka_unit_test(the_helper_must_be_there),
	    cmocka_unit_test(what_was_killed_may_have_left_something),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
