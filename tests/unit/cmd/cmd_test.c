/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/cmd.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "unit/cmd/sample.h"
#include "unit/unit.h"

static void test_calls(void **state)
{
	static const struct {
		const char *line;
		int exit_code;
		const char *out; /* all of standard output; NULL: not compared */
		const char *err; /* a part of standard error; "" : nothing */
	} cases[] = {
	    {"sluice run -q true -x", 0, "sluice run gpus=1 quiet=1 env=0: [true] [-x]\n", ""},
	    {"sluice run -n2 -e A=1 -- true", 0, "sluice run gpus=2 quiet=0 env=1: [true]\n", ""},
	    {"sluice sim start --file=x dgx1", 0, "sluice sim start gpus=0 quiet=0 env=0: [dgx1]\n",
	     ""},
	    {"sluice run fail", CMD_EXIT_UNAVAILABLE, "sluice run gpus=1 quiet=0 env=0: [fail]\n",
	     "sluice run: no GPU 'x'\n"},
	    {"sluice run", CMD_EXIT_USAGE, "",
	     "sluice run: an argument is missing: [--] COMMAND [ARGUMENT...]\n"
	     "Try 'sluice run --help'.\n"},
	    {"sluice sim stop x", CMD_EXIT_USAGE, "", "sluice sim stop: unexpected argument 'x'\n"},
	    {"sluice sim start", CMD_EXIT_USAGE, "", "option '--file' is missing"},
	    {"sluice rnu true", CMD_EXIT_USAGE, "",
	     "sluice: unknown command 'rnu'; did you mean 'run'?\n"},
	    {"sluice sim strat", CMD_EXIT_USAGE, "",
	     "sluice sim: unknown command 'strat'; did you mean 'start'?\n"
	     "Try 'sluice sim --help'.\n"},
	    {"sluice stop", CMD_EXIT_USAGE, "",
	     "sluice: unknown command 'stop'; 'sluice cancel' ends a job\n"},
	    {"sluice kill 3", CMD_EXIT_USAGE, "", "'sluice cancel' ends a job\n"},
	    {"sluice ps", CMD_EXIT_USAGE, "", "'sluice jobs' lists the jobs\n"},
	    {"sluice sim kill", CMD_EXIT_USAGE, "", "sluice sim: unknown command 'kill'\n"},
	    {"sluice sim", CMD_EXIT_USAGE, "", "Usage: sluice sim COMMAND"},
	    {"sluice", CMD_EXIT_USAGE, "", "Usage: sluice COMMAND"},
	    {"sluice --frob", CMD_EXIT_USAGE, "", "unknown option '--frob'"},
	    {"sluice run --gpu 2 true", CMD_EXIT_USAGE, "",
	     "--gpu is not an option; did you mean --gpus?"},
	    {"sluice -n2 run true", CMD_EXIT_USAGE, "", "unknown option '-n2'"},
	    {"sluice __dum", CMD_EXIT_USAGE, "", "sluice: unknown command '__dum'\n"},
	    {"sluice --version", 0, NULL, ""},
	    {"sluice help sim start", 0, NULL, ""},
	    {"sluice help sim strat", CMD_EXIT_USAGE, "", "did you mean 'start'?"},
	    {"sluice help run x", CMD_EXIT_USAGE, "", "'sluice run' has no command 'x'"},
	};
	for (size_t i = 0; i < array_length(cases); i++) {
		char *out, *err;
		int exit_code = sample_call(cases[i].line, &out, &err);
		bool good = exit_code == cases[i].exit_code &&
			    (!cases[i].out || strcmp(out, cases[i].out) == 0) &&
			    (*cases[i].err ? strstr(err, cases[i].err) != NULL : *err == '\0');
		if (!good)
			fail_msg("%s: exit %d, out '%s', err '%s'", cases[i].line, exit_code, out,
				 err);
		free(out);
		free(err);
	}
}

/* A program whose own options stand before the command. */
static int program_run(const struct cmd_call *call)
{
	return call->argc > 0 ? cmd_verb(call) : cmd_usage(call, "a command is missing");
}

static int program_verb(const struct cmd_call *call)
{
	const struct sample_options *outer = call->outer;
	const struct sample_options *options = call->options;
	if (!outer)
		return 10;
	return outer->quiet && !options->quiet && options->gpus == 3 && call->argc == 1 &&
		       strcmp(call->path, "tool show") == 0
		   ? 11
		   : 12;
}

static void test_options_before_the_command(void **state)
{
	static const struct command verb = {.name = "show",
					    .summary = "Show",
					    .run = program_verb,
					    .options = sample_rows,
					    .options_size = sizeof(struct sample_options),
					    .positional = "X",
					    .positional_max = 1};
	static const struct command *const verbs[] = {&verb, NULL};
	static const struct command program = {.name = "tool",
					       .summary = "A tool",
					       .commands = verbs,
					       .run = program_run,
					       .options = sample_rows,
					       .options_size = sizeof(struct sample_options),
					       .positional = "COMMAND",
					       .positional_max = CMD_ARGUMENTS_ANY,
					       .takes_command = true};
	static const struct {
		const char *words[6];
		int exit_code;
	} cases[] = {
	    {{"tool", "-q", "show", "-n3", "x"}, 11},
	    {{"tool", "show", "-n3", "x"}, 10},
	    {{"tool", "-q", "shwo"}, CMD_EXIT_USAGE},
	    {{"tool", "-q", "show", "x", "y"}, CMD_EXIT_USAGE},
	    {{"tool", "-q", "show", "--frob"}, CMD_EXIT_USAGE},
	    {{"tool", "-q"}, CMD_EXIT_USAGE},
	    {{"tool", "--help"}, 0},
	};
	FILE *saved[2] = {stdout, stderr};
	FILE *sink = tmpfile();
	assert_non_null(sink);
	int codes[array_length(cases)];
	stdout = sink;
	stderr = sink;
	for (size_t i = 0; i < array_length(cases); i++) {
		int count = 0;
		while (cases[i].words[count])
			count++;
		codes[i] = cmd_main(&program, count, (char **)cases[i].words);
	}
	stdout = saved[0];
	stderr = saved[1];
	char text[8192];
	rewind(sink);
	text[fread(text, 1, sizeof(text) - 1, sink)] = '\0';
	(void)fclose(sink);
	for (size_t i = 0; i < array_length(cases); i++)
		assert_int_equal(codes[i], cases[i].exit_code);
	assert_non_null(strstr(text, "unknown command 'shwo'; did you mean 'show'?"));
	assert_non_null(strstr(text, "--quiet")); /* of the help */
	assert_non_null(strstr(text, "tool COMMAND [OPTION...]"));
}

static void test_find(void **state)
{
	assert_non_null(cmd_find(&sample_root, "sim"));
	assert_non_null(cmd_find(cmd_find(&sample_root, "sim"), "stop"));
	assert_null(cmd_find(&sample_root, "stop"));
	assert_null(cmd_find(cmd_find(&sample_root, "run"), "x"));
}

static void test_full_device_is_an_error(void **state)
{
	FILE *full = fopen("/dev/full", "we");
	assert_non_null(full);
	FILE *saved[2] = {stdout, stderr};
	FILE *messages = tmpfile();
	assert_non_null(messages);
	const char *argv[] = {"sluice", "help", NULL};
	stdout = full;
	stderr = messages;
	int exit_code = cmd_main(&sample_root, 2, (char **)argv);
	stdout = saved[0];
	stderr = saved[1];
	(void)fclose(full);
	assert_true(ftell(messages) > 0);
	(void)fclose(messages);
	assert_int_equal(exit_code, CMD_EXIT_FAILED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_calls),
	    cmocka_unit_test(test_options_before_the_command),
	    cmocka_unit_test(test_find),
	    cmocka_unit_test(test_full_device_is_an_error),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
