/* SPDX-License-Identifier: Apache-2.0 */
#include "base/names.h"

#include "unit/unit.h"

enum colour { COLOUR_RED, COLOUR_HOLE, COLOUR_BLUE, COLOUR_BEYOND };

static const char *const colours[] = {[COLOUR_RED] = "red", [COLOUR_BLUE] = "blue"};

static void a_member_has_its_name(void **state)
{
	assert_string_equal(names_at(colours, COLOUR_RED, "?"), "red");
	assert_string_equal(names_at(colours, COLOUR_BLUE, "?"), "blue");
}

static void what_is_no_member_has_none(void **state)
{
	assert_string_equal(names_at(colours, COLOUR_HOLE, "?"), "?");
	assert_string_equal(names_at(colours, COLOUR_BEYOND, "?"), "?");
	assert_string_equal(names_at(colours, -1, "?"), "?");
	assert_null(names_at(colours, UINT64_MAX, NULL));
}

static void a_name_is_found(void **state)
{
	assert_int_equal(names_find(colours, "red"), COLOUR_RED);
	assert_int_equal(names_find(colours, "blue"), COLOUR_BLUE);
}

static void a_text_that_is_no_name_is_not(void **state)
{
	assert_int_equal(names_find(colours, "blu"), -EINVAL);
	assert_int_equal(names_find(colours, "blues"), -EINVAL);
	assert_int_equal(names_find(colours, ""), -EINVAL);
	assert_int_equal(names_find_of(colours, 1, "blue"), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_member_has_its_name),
	    cmocka_unit_test(what_is_no_member_has_none),
	    cmocka_unit_test(a_name_is_found),
	    cmocka_unit_test(a_text_that_is_no_name_is_not),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
