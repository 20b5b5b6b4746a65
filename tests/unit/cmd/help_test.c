/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/help.h"

#include <stdlib.h>
#include <string.h>

#include "unit/cmd/sample.h"
#include "unit/unit.h"

static void expect_lines_fit(const char *text)
{
	for (const char *at = text; *at;) {
		size_t length = strcspn(at, "\n");
		if (length > 80)
			fail_msg("a line of %zu columns: %.*s", length, (int)length, at);
		if (length > 0)
			assert_int_not_equal(at[length - 1], ' ');
		at += length + (at[length] == '\n');
	}
}

static void test_command(void **state)
{
	char *out, *err;
	assert_int_equal(sample_call("sluice run --help", &out, &err), 0);
	expect_lines_fit(out);
	static const char *const parts[] = {
	    "Usage: sluice run [OPTION...] [--] COMMAND [ARGUMENT...]\n\nRun a program.\n\n",
	    "beyond eighty columns.\n\nSecond paragraph.\n",
	    "\n  -q, --quiet             say nothing\n",
	    "\n  -n, --gpus=N            how many GPUs",
	    "\n      --name=TEXT         what to call it\n",
	    "\n  -o, --output=table|json\n                          how to print",
	    "\n  -e, --env=NAME=VALUE    set a variable",
	    "\n  -p, --part[=N/M]        only a part of it\n",
	    "\n  -h, --help              show this text\n",
	    ("\nExit status:\n  0    it worked\n  64   wrong command line\n"
	     "  69   there is no driver\n"),
	    "\nExamples:\n  prog run -- true\n      it's the shortest job\n",
	};
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		if (!strstr(out, parts[i]))
			fail_msg("'%s' is not in:\n%s", parts[i], out);
	}
	assert_null(strstr(out, "secret"));
	free(out);
	free(err);
}

static void test_program_and_verbs(void **state)
{
	char *out, *err;
	assert_int_equal(sample_call("sluice --help", &out, &err), 0);
	expect_lines_fit(out);
	assert_non_null(strstr(out, "\nJobs:\n  run                     Run a program\n"));
	assert_non_null(strstr(out, "\nSimulated machines:\n  sim "));
	assert_null(strstr(out, "__dump"));
	free(out);
	free(err);

	assert_int_equal(sample_call("sluice sim -h", &out, &err), 0);
	assert_non_null(strstr(out, "Usage: sluice sim COMMAND"));
	assert_non_null(strstr(out, "\n  start                   Start it\n"));
	assert_null(strstr(out, "Exit status"));
	free(out);
	free(err);
}

static void test_exit_rows_are_sorted_and_complete(void **state)
{
	const struct command command = {
	    .exits = (const struct cmd_exit_row[]){{124, "late"}, {64, "own"}, {1, "sick"}, {0}},
	};
	struct cmd_exit_row row;
	static const int codes[] = {0, 1, 64, 124};
	for (size_t i = 0; i < 4; i++) {
		assert_true(help_exit_row(&command, i, &row));
		assert_int_equal(row.code, codes[i]);
	}
	assert_true(help_exit_row(&command, 2, &row));
	assert_string_equal(row.meaning, "own");
	assert_false(help_exit_row(&command, 4, &row));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_command),
	    cmocka_unit_test(test_program_and_verbs),
	    cmocka_unit_test(test_exit_rows_are_sorted_and_complete),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
