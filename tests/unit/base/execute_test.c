/* SPDX-License-Identifier: Apache-2.0 */
#include "base/execute.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "unit/unit.h"

enum { FAILED_BASE = 100 }; /* exit code of a child that did not become the program: this + n */

static const int codes[] = {ENOENT, ENOEXEC, EACCES};

static const char *program(const char *name, const void *bytes, size_t length, mode_t mode)
{
	const char *path = unit_path(unit_top, name);
	FILE *file = fopen(path, "wb");

	assert_non_null(file);
	assert_int_equal(fwrite(bytes, 1, length, file), length);
	assert_int_equal(fclose(file), 0);
	assert_int_equal(chmod(path, mode), 0);
	return path;
}

/* The exit code of `name 7`, or FAILED_BASE + the errno's index in `codes`. */
static int run(const char *name, const char *path)
{
	pid_t child = fork();
	int status;

	if (child == 0) {
		char *argv[] = {(char *)name, (char *)"7", NULL};
		if (path)
			(void)setenv("PATH", path, 1);
		else
			(void)unsetenv("PATH");
		int rc = execute(argv);
		for (int i = 0; i < (int)array_length(codes); i++)
			if (rc == -codes[i])
				_exit(FAILED_BASE + i);
		_exit(99);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static const char script[] = "exit $1\n", elf[] = "\177ELF\2\1\1\n(exit 9)\n",
		  nul[] = "a\0\nexit 9";

static void test_paths(void **state)
{
	(void)state;
	assert_int_equal(run(program("script", script, strlen(script), 0755), ""), 7);
	assert_int_equal(run(program("empty", "", 0, 0755), ""), 0);
	assert_int_equal(run(program("elf", elf, sizeof(elf), 0755), ""), FAILED_BASE + 1);
	assert_int_equal(run(program("nul", nul, sizeof(nul), 0755), ""), FAILED_BASE + 1);
	assert_int_equal(run(program("plain", script, strlen(script), 0644), ""), FAILED_BASE + 2);
	assert_int_equal(run(unit_path(unit_top, "none"), ""), FAILED_BASE);
	assert_int_equal(run(unit_top, ""), FAILED_BASE + 2);
}

static void test_search(void **state)
{
	char path[512];

	(void)state;
	(void)program("tool", script, strlen(script), 0755);
	(void)program("elf", elf, sizeof(elf), 0755);
	(void)program("plain", script, strlen(script), 0644);
	(void)snprintf(path, sizeof(path), "/nowhere:/dev/null:%s", unit_top);
	assert_int_equal(run("tool", path), 7);
	assert_int_equal(run("elf", path), FAILED_BASE + 1);
	assert_int_equal(run("plain", path), FAILED_BASE + 2);
	assert_int_equal(run("none", path), FAILED_BASE);
	assert_int_equal(run("", path), FAILED_BASE);
	assert_int_equal(run("false", NULL), 1);

	/* a file that may not be executed hides none behind it */
	assert_int_equal(mkdir(unit_path(unit_top, "more"), 0755), 0);
	(void)program("more/plain", script, strlen(script), 0755);
	(void)snprintf(path, sizeof(path), "%s:%s/more", unit_top, unit_top);
	assert_int_equal(run("plain", path), 7);

	/* an empty part of PATH is the current directory */
	assert_int_equal(chdir(unit_top), 0);
	assert_int_equal(run("tool", "/nowhere:"), 7);
	assert_int_equal(chdir("/"), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_paths, unit_top_setup, unit_top_teardown),
	    cmocka_unit_test_setup_teardown(test_search, unit_top_setup, unit_top_teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
