/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/jobs/jobscope.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/file.h"
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

static void test_where_it_is(void **state)
{
	static const struct {
		const char *own, *path; /* NULL: none */
	} users[] = {
	    {"/user.slice/user-5.slice/user@5.service/app.slice/sluice.service",
	     "/c/user.slice/user-5.slice/user@5.service/sluice.slice/sluice-jobs.scope"},
	    {"/user@5.service", "/c/user@5.service/sluice.slice/sluice-jobs.scope"},
	    {"/user.slice/user-5.slice/session-2.scope", NULL},
	    {"/user.slice/user@5.service.d", NULL},
	    {"/user.slice/auser@5.service", NULL},
	    {"/user.slice/user@.servic", NULL},
	    {"/", NULL},
	    {"", NULL},
	};
	char path[128];
	struct jobscope_options options = {.mount = "/c", .own = "", .is_system = true};
	assert_int_equal(jobscope_path(&options, path, sizeof(path), NULL), 0);
	assert_string_equal(path, "/c/sluice.slice/sluice-jobs.scope");
	assert_int_equal(jobscope_path(&options, path, 20, NULL), -ENAMETOOLONG);

	options.is_system = false;
	for (size_t i = 0; i < sizeof(users) / sizeof(users[0]); i++) {
		options.own = users[i].own;
		int rc = jobscope_path(&options, path, sizeof(path), NULL);
		assert_int_equal(rc, users[i].path ? 0 : -ENOENT);
		if (users[i].path)
			assert_string_equal(path, users[i].path);
	}
}

/* What stands for systemd-run says this, and what jobscope_make() makes of it. */
static int make(const char *tree, const char *script, struct err *err)
{
	const struct jobscope_options options = {.mount = tree,
						 .own = "",
						 .supervisor = "/supervise",
						 .systemd_run = unit_path(tree, "run"),
						 .is_system = true};
	if (script) {
		unit_write(options.systemd_run, script);
		assert_int_equal(chmod(options.systemd_run, 0755), 0);
	}
	return jobscope_make(&options, unit_path(tree, "scope"), err);
}

static void test_what_systemd_says_is_passed_on(void **state)
{
	struct err err = {0};
	assert_int_equal(make(*state, NULL, &err), -ENOENT);
	assert_int_equal(make(*state, "#!/bin/sh\necho one >&2\necho two >&2\nexit 1\n", &err),
			 -EIO);
	assert_non_null(strstr(err.text, "sluice-jobs.scope': one"));
	assert_null(strstr(err.text, "two"));

	/* It ends well, and there is no scope. */
	assert_int_equal(make(*state, "#!/bin/sh\n", &err), -EIO);
	assert_int_equal(mkdir(unit_path(*state, "scope"), 0755), 0);
	unit_write(unit_path(*state, "scope/cgroup.events"), "populated 0\n");
	assert_int_equal(make(*state, "#!/bin/sh\n", &err), -EIO);

	/* There is one: nobody is asked. */
	unit_write(unit_path(*state, "scope/cgroup.events"), "populated 1\n");
	assert_int_equal(make(*state, "#!/bin/sh\nexit 1\n", &err), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_where_it_is),
	    cmocka_unit_test_setup_teardown(test_what_systemd_says_is_passed_on, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
