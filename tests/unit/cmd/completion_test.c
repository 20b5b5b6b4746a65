/* SPDX-License-Identifier: Apache-2.0 */
/* The bash script is run by bash itself; zsh and fish check the syntax of theirs where installed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "unit/cmd/sample.h"
#include "unit/unit.h"

static int setup(void **state)
{
	*state = unit_tmp_new();
	return 0;
}

static int teardown(void **state)
{
	*state = unit_tmp_free(*state);
	return 0;
}

/* Runs `program arguments` and puts its output into `out`, complaints as well: they would stand in
 * the middle of the user's line. Its exit code; 127: not there. */
static int shell(const char *const *argv, char *out, size_t size)
{
	int ends[2];
	assert_int_equal(pipe(ends), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		(void)dup2(ends[1], STDOUT_FILENO);
		(void)dup2(ends[1], STDERR_FILENO);
		(void)close(ends[0]);
		(void)close(ends[1]);
		(void)execvp(argv[0], (char *const *)argv);
		_exit(127);
	}
	(void)close(ends[1]);
	size_t length = 0;
	ssize_t count;
	while ((count = read(ends[0], out + length, size - 1 - length)) > 0)
		length += (size_t)count;
	out[length] = '\0';
	(void)close(ends[0]);
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

static const char *script(const char *directory, const char *name)
{
	char line[64];
	char *out, *err;
	(void)snprintf(line, sizeof(line), "sluice completion %s", name);
	assert_int_equal(sample_call(line, &out, &err), 0);
	const char *path = unit_path(directory, name);
	unit_write(path, out);
	free(out);
	free(err);
	return path;
}

static void test_bash_completes(void **state)
{
	/* What readline splits the line into; the last word is the one to be completed. */
	static const struct {
		const char *words;
		const char *offers;
	} cases[] = {
	    {"sluice ''", "run sim help completion"},
	    {"sluice s", "sim"},
	    {"sluice sim ''", "start stop"},
	    {"sluice sim sto", "stop"},
	    {"sluice sim start ''", "dgx1 dgx2 t4x1"},
	    {"sluice sim start --file /x d", "dgx1 dgx2"},
	    {"sluice sim start --output ''", "table json"},
	    {"sluice sim start --output = j", "json"},
	    {"sluice sim start --output =", "table json"},
	    {"sluice sim start -o t", "table"},
	    {"sluice sim start --o", "--output="},
	    {"sluice run --q", "--quiet"},
	    {"sluice run --quiet --gp", "--gpus="},
	    {"sluice run --gpus ''", ""},
	    {"sluice run --sec", ""},
	    {"sluice run --pa", "--part= --part"},
	    {"sluice run --part = ''", ""},
	    {"sluice run --part --qu", "--quiet"}, /* not the option's value */
	    {"sluice run -- tru", "true truncate"},
	    {"sluice --v", "--version"},
	    {"sluice completion ''", "bash zsh fish"},
	    {"sluice help s", "sim"},
	    {"sluice help sim ''", "start stop"},
	};
	const char *path = script(*state, "bash");
	for (size_t i = 0; i < array_length(cases); i++) {
		char program[1024], out[4096];
		(void)snprintf(
		    program, sizeof(program),
		    "compopt() { :; }; PATH=/usr/bin:/bin; source '%s'; COMP_WORDS=(%s); "
		    "COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _sluice; "
		    "printf '%%s\\n' \"${COMPREPLY[*]}\"",
		    path, cases[i].words);
		const char *const argv[] = {"bash", "--norc", "-uc", program, NULL};
		int exit_code = shell(argv, out, sizeof(out));
		out[strcspn(out, "\n")] = '\0';
		if (exit_code != 0 || (strcmp(out, cases[i].offers) != 0 &&
				       !(strstr(cases[i].words, "tru") && strstr(out, "true"))))
			fail_msg("%s: '%s' instead of '%s' (exit %d)", cases[i].words, out,
				 cases[i].offers, exit_code);
	}
}

static void test_zsh_and_fish_parse(void **state)
{
	static const char *const shells[] = {"zsh", "fish"};
	for (size_t i = 0; i < array_length(shells); i++) {
		char out[4096];
		const char *path = script(*state, shells[i]);
		const char *const argv[] = {shells[i], "-n", path, NULL};
		int exit_code = shell(argv, out, sizeof(out));
		if (exit_code == 127)
			printf("SKIPPED: %s is not installed, its script was not checked\n",
			       shells[i]);
		else
			assert_int_equal(exit_code, 0);
	}
}

static void test_fish_completes(void **state)
{
	static const struct {
		const char *line;
		const char *first; /* of what is offered, in the order of the alphabet */
	} cases[] = {
	    {"sluice sim ", "start\tStart it\nstop\tStop it\n"},
	    {"sluice sim start ", "dgx1\ndgx2\nt4x1\n"},
	    {"sluice sim start --output j",
	     "json\thow to print: a table for people (default) or JSON for programs\n"},
	    {"sluice run --qu", "--quiet\tsay nothing\n"},
	    {"sluice completion ", "bash\nfish\nzsh\n"},
	};
	const char *path = script(*state, "fish");
	for (size_t i = 0; i < array_length(cases); i++) {
		char program[1024], out[4096];
		(void)snprintf(program, sizeof(program), "source '%s'; complete -C '%s'", path,
			       cases[i].line);
		const char *const argv[] = {"fish", "--no-config", "-c", program, NULL};
		int exit_code = shell(argv, out, sizeof(out));
		if (exit_code == 127) {
			printf("SKIPPED: fish is not installed, its completion was not tried\n");
			skip();
		}
		if (exit_code != 0 || strcmp(out, cases[i].first) != 0)
			fail_msg("%s: '%s' instead of '%s' (exit %d)", cases[i].line, out,
				 cases[i].first, exit_code);
	}
}

static void test_unknown_shell(void **state)
{
	char *out, *err;
	assert_int_equal(sample_call("sluice completion csh", &out, &err), CMD_EXIT_USAGE);
	assert_string_equal(out, "");
	assert_non_null(strstr(err, "unknown shell 'csh'"));
	free(out);
	free(err);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_bash_completes, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_zsh_and_fish_parse, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_fish_completes, setup, teardown),
	    cmocka_unit_test(test_unknown_shell),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
