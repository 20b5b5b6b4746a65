/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "cmd/jobs/terminal_link.h"
#include "unit/unit.h"

static void two_of_the_key_leave(void **state)
{
	static const struct {
		const char *typed, *out;
		bool held_before, held, leaves;
	} rows[] = {
	    {"ls\r", "ls\r", false, false, false},
	    {"\x1d", "", false, true, false},
	    {"\x1d\x1d", "", false, false, true},
	    {"\x1d", "", true, false, true},
	    {"a\x1d\x1d"
	     "b",
	     "a", false, false, true},
	    {"x", "\x1dx", true, false, false},
	    {"\x1dx\x1d", "\x1dx", false, true, false},
	    {"", "", true, true, false},
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		char out[16];
		size_t length;
		bool held = rows[i].held_before;
		assert_int_equal(
		    terminal_link_keys(&held, rows[i].typed, strlen(rows[i].typed), out, &length),
		    rows[i].leaves);
		assert_int_equal(held, rows[i].held);
		assert_int_equal(length, strlen(rows[i].out));
		assert_memory_equal(out, rows[i].out, length);
	}
}

static void a_job_without_one_is_told(void **state)
{
	assert_false(terminal_link_is_there(unit_path(unit_top, "out.1")));
	unit_write(unit_path(unit_top, "terminal"), "");
	assert_true(terminal_link_is_there(unit_path(unit_top, "out.1")));
	assert_false(terminal_link_is_there("/nonexistent/out.1"));
	assert_false(terminal_link_is_there(""));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(two_of_the_key_leave),
	    cmocka_unit_test_setup_teardown(a_job_without_one_is_told, unit_top_setup,
					    unit_top_teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
