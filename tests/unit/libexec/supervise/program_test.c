/* SPDX-License-Identifier: Apache-2.0 */
#include "libexec/supervise/program.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "job/spec.h"
#include "unit/unit.h"

enum { VARIABLES = 16 };

static void place(const char *path, mode_t mode)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(fchmod(fd, mode), 0);
	assert_int_equal(close(fd), 0);
}

static int find(const char *path, unsigned runtime, struct err *err)
{
	char variable[FILE_PATH_MAX + 8];
	char *environment[] = {(char *)"A=1", variable, NULL};
	(void)snprintf(variable, sizeof(variable), "PATH=%.*s", FILE_PATH_MAX, path);
	return program_find(environment, runtime, err);
}

/* A place below /tmp is anybody's, whoever owns the file. */
static void test_whose_a_program_is(void **state)
{
	(void)state;
	char *tmp = unit_tmp_new();
	const char *mine = unit_path(tmp, "podman");
	struct err err = {0};
	place(mine, 0755);
	assert_int_equal(program_check("/bin/sh", &err), 0);
	assert_int_equal(program_check("/usr/bin", &err), 0);
	assert_int_equal(program_check(mine, &err), -EPERM);
	assert_int_equal(program_check("/nowhere/at/all", &err), -ENOENT);
	assert_int_equal(program_check("/etc/passwd", &err), -EPERM); /* nobody executes it */

	/* A link of the user's counts as what it leads to. */
	const char *link = unit_path(tmp, "link");
	assert_int_equal(symlink("/bin/sh", link), 0);
	assert_int_equal(program_check(link, &err), 0);
	tmp = unit_tmp_free(tmp);
}

static void test_the_first_in_path_counts(void **state)
{
	(void)state;
	char *tmp = unit_tmp_new();
	char path[2 * FILE_PATH_MAX];
	struct err err = {0};
	assert_int_equal(find("/nowhere", SPEC_RUNTIME_ANY, &err), -ENOENT);
	assert_int_equal(find("", SPEC_RUNTIME_ANY, &err), -ENOENT);
	place(unit_path(tmp, "podman"), 0755);
	assert_int_equal(find(tmp, SPEC_RUNTIME_ANY, &err), -EPERM);
	assert_non_null(strstr(err.text, "podman' is not the administrator's"));
	assert_int_equal(find(tmp, SPEC_RUNTIME_DOCKER, &err), -ENOENT);
	place(unit_path(tmp, "docker"), 0755);
	assert_int_equal(find(tmp, SPEC_RUNTIME_DOCKER, &err), -EPERM);
	assert_non_null(strstr(err.text, "docker'"));

	/* Before what lies behind it; one that is not to be executed is passed over. */
	(void)snprintf(path, sizeof(path), "bin:%s:/usr/bin", tmp);
	assert_int_equal(find(path, SPEC_RUNTIME_PODMAN, &err), -EPERM);
	assert_int_equal(unlink(unit_path(tmp, "podman")), 0);
	assert_int_equal(symlink("/bin/sh", unit_path(tmp, "podman")), 0);
	assert_int_equal(find(path, SPEC_RUNTIME_PODMAN, &err), 0);
	assert_int_equal(unlink(unit_path(tmp, "podman")), 0);
	place(unit_path(tmp, "podman"), 0644);
	assert_int_equal(find(tmp, SPEC_RUNTIME_PODMAN, &err), -ENOENT);
	tmp = unit_tmp_free(tmp);
}

static bool has(char *const *environment, const char *variable)
{
	for (; *environment; environment++)
		if (strcmp(*environment, variable) == 0)
			return true;
	return false;
}

static void test_what_loads_other_code_is_left_out(void **state)
{
	(void)state;
	char *tmp = unit_tmp_new();
	char path[FILE_PATH_MAX + 64];
	char **environment = calloc(VARIABLES, sizeof(*environment));
	assert_non_null(environment);
	(void)snprintf(path, sizeof(path), "PATH=%s:/usr/bin:.::relative:/usr/sbin:/nowhere", tmp);
	const char *const given[] = {"HOME=/home/alice",
				     "LD_PRELOAD=/home/alice/x.so",
				     "LD_LIBRARY_PATH=/home/alice",
				     path,
				     "BASH_ENV=/home/alice/x",
				     "BASH_FUNC_podman%%=() { true; }",
				     "GCONV_PATH=/home/alice",
				     "PATH=/home/alice",
				     "LDAP=stays"};
	for (size_t i = 0; i < sizeof(given) / sizeof(given[0]); i++)
		environment[i] = strdup(given[i]);
	assert_int_equal(program_clean(environment), 0);
	assert_true(has(environment, "HOME=/home/alice"));
	assert_true(has(environment, "LDAP=stays"));
	assert_true(has(environment, "PATH=/usr/bin:/usr/sbin"));
	assert_null(environment[3]);
	for (size_t i = 0; environment[i]; i++)
		free(environment[i]);
	free(environment);
	tmp = unit_tmp_free(tmp);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_whose_a_program_is),
	    cmocka_unit_test(test_the_first_in_path_counts),
	    cmocka_unit_test(test_what_loads_other_code_is_left_out),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
