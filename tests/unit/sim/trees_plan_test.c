/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/trees_plan.h"

#include <string.h>

#include "sim/error.h"
#include "tests/unit/unit.h"

static void relative_links(void **state)
{
	static const struct {
		const char *from, *to, *link;
	} row[] = {
	    {"sys/bus/pci/devices/0000:07:00.0", "sys/devices/pci0000:00/0000:07:00.0",
	     "../../../devices/pci0000:00/0000:07:00.0"},
	    {"a", "b", "b"},
	    {"a/b", "a/c", "c"},
	    {"a/b", "c", "../c"},
	    {"a/bc/d", "a/bd", "../bd"},
	};
	(void)state;
	for (size_t i = 0; i < sizeof(row) / sizeof(*row); i++) {
		char link[SIM_PATH_MAX];
		assert_string_equal(sim_plan_relative(link, row[i].from, row[i].to), row[i].link);
	}
}

static void parents_come_before_what_is_in_them(void **state)
{
	struct sim_plan plan = {0};
	struct sim_error error = {0};
	(void)state;
	sim_plan_file(&plan, 0444, "a/b/c");
	sim_plan_text(&plan, "%d\n", 7);
	sim_plan_dir(&plan, "a/b");
	sim_plan_dir(&plan, "a/b");
	sim_plan_link(&plan, "b", "a/l");
	assert_int_equal(sim_plan_finish(&plan, &error), 0);
	static const char *const path[] = {"a", "a/b", "a/b/c", "a/l"};
	assert_int_equal(plan.count, 4);
	for (size_t i = 0; i < 4; i++)
		assert_string_equal(plan.entry[i].path, path[i]);
	assert_int_equal(plan.entry[1].kind, SIM_PLAN_DIR);
	assert_memory_equal(plan.entry[2].content, "7\n", 2);
	sim_plan_done(&plan);
}

static void one_path_cannot_be_two_things(void **state)
{
	struct sim_plan plan = {0};
	struct sim_error error = {0};
	(void)state;
	sim_plan_file(&plan, 0444, "a/b");
	sim_plan_dir(&plan, "a/b");
	sim_plan_file(&plan, 0444, "a/c");
	assert_int_equal(sim_plan_finish(&plan, &error), -1);
	assert_int_equal(error.exit_code, SIM_EXIT_INPUT);
	assert_non_null(strstr(error.text, "a/b"));
	sim_plan_done(&plan);
}

static void paths_that_are_too_long_fail_the_plan(void **state)
{
	struct sim_plan plan = {0};
	struct sim_error error = {0};
	(void)state;
	sim_plan_dir(&plan, "%0600d", 1);
	assert_true(plan.failed);
	assert_int_equal(sim_plan_finish(&plan, &error), -1);
	sim_plan_done(&plan);
}

static void capability_numbers(void **state)
{
	(void)state;
	assert_int_equal(sim_cap_minor(0, 0), 3);
	assert_int_equal(sim_cap_minor(31, 14) + 1 + 7, 4322);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(relative_links),
	    cmocka_unit_test(parents_come_before_what_is_in_them),
	    cmocka_unit_test(one_path_cannot_be_two_things),
	    cmocka_unit_test(paths_that_are_too_long_fail_the_plan),
	    cmocka_unit_test(capability_numbers),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
