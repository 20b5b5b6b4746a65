/* SPDX-License-Identifier: Apache-2.0 */
#include "job/warning.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/err.h"
#include "unit/unit.h"

static struct warning read_warning(const char *text)
{
	struct err err = {0};
	struct warning warning = {0};
	assert_int_equal(warning_parse(text, strlen(text), &warning, &err), 0);
	return warning;
}

static void expect(const char *text, uint32_t signal, uint64_t before_s, bool alone,
		   const char *written)
{
	struct warning warning = read_warning(text);
	char out[WARNING_TEXT_MAX];
	assert_int_equal(warning.signal, signal);
	assert_int_equal(warning.before_ns, before_s * CLOCK_NS_PER_S);
	assert_int_equal(warning.command_alone, alone);
	assert_string_equal(warning_format(&warning, out), written);
}

static void a_warning_is_read_and_written(void **state)
{
	expect("USR1", SIGUSR1, 60, false, "USR1@60s");
	expect("USR1@120", SIGUSR1, 120, false, "USR1@120s");
	expect("TERM@5m", SIGTERM, 300, false, "TERM@300s");
	expect("sigint@1h30m", SIGINT, 5400, false, "INT@5400s");
	expect("B:USR2@90s", SIGUSR2, 90, true, "B:USR2@90s");
	expect("b:10", 10, 60, true, "B:USR1@60s");
	expect("40@5", 40, 5, false, "40@5s");
}

static void what_is_no_warning_is_refused(void **state)
{
	static const char *const bad[] = {"",	     "USR9",	  "USR1@", "USR1@0",  "USR1@soon",
					  "@60",     "B:",	  "B:@60", "0",	      "65",
					  "KILL",    "STOP@60",	  "9",	   "USR1 60", "R:USR1@60",
					  "USR1@-5", "USR1@60@60"};
	for (size_t i = 0; i < array_length(bad); i++) {
		struct err err = {0};
		struct warning warning = {.signal = 7};
		if (warning_parse(bad[i], strlen(bad[i]), &warning, &err) != -EINVAL)
			fail_msg("'%s' was read", bad[i]);
		assert_int_equal(warning.signal, 7);
		assert_string_not_equal(err.text, "");
	}

	struct err err = {0};
	struct warning warning;
	char text[WARNING_TEXT_MAX];
	memset(text, 'a', sizeof(text));
	assert_int_equal(warning_parse(text, sizeof(text), &warning, &err), -EINVAL);
	assert_int_equal(warning_parse("USR1\0", 5, &warning, &err), -EINVAL);
	assert_int_equal(warning_parse("KILL", 4, &warning, &err), -EINVAL);
	assert_string_equal(err.text, "'KILL': no program can act on KILL; take one that it can "
				      "catch, such as USR1 or TERM");
}

static void it_needs_an_end_to_warn_of(void **state)
{
	struct err err = {0};
	struct warning warning = read_warning("USR1@120");
	assert_int_equal(warning_check(&warning, 0, &err), -EINVAL);
	assert_string_equal(err.text,
			    "--signal USR1@120s: the job has no time limit that it could be told "
			    "of; give it one with --time");
	assert_int_equal(warning_check(&warning, 120 * CLOCK_NS_PER_S, &err), -EINVAL);
	assert_non_null(strstr(err.text, "may run 120 s"));
	assert_int_equal(warning_check(&warning, 121 * CLOCK_NS_PER_S, &err), 0);
	warning = (struct warning){.signal = 0};
	assert_int_equal(warning_check(&warning, 0, &err), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_warning_is_read_and_written),
	    cmocka_unit_test(what_is_no_warning_is_refused),
	    cmocka_unit_test(it_needs_an_end_to_warn_of),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
