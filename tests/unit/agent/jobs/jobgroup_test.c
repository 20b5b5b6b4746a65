/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/jobs/jobgroup.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
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

/* What the tests have in common: a hierarchy of their own, and no systemd unless they say so. */
struct place {
	const char *mounts[2], *runs[2];
	char self[FILE_PATH_MAX], run[FILE_PATH_MAX];
	struct jobgroup_places places;
};

static struct jobgroup_options options_of(struct place *place, const char *mount,
					  const char *state_dir, bool is_system)
{
	place->mounts[0] = mount;
	place->mounts[1] = place->runs[1] = NULL;
	assert_int_equal(file_path(place->self, NULL, "%s/self", mount), 0);
	assert_int_equal(file_path(place->run, NULL, "%s/systemd-run", mount), 0);
	place->places = (struct jobgroup_places){.mounts = place->mounts,
						 .self = place->self,
						 .runs = place->runs,
						 .any_file_system = true};
	return (struct jobgroup_options){.state_dir = state_dir,
					 .runtime_dir = "/run/sluice",
					 .supervisor = "/usr/libexec/sluice/sluice-supervise",
					 .is_system = is_system,
					 .places = &place->places};
}

static void test_roots_lies_at_the_top(void **state)
{
	struct place place = {.runs = {NULL}};
	struct jobgroup one, other;
	struct err err = {0};
	struct jobgroup_options options = options_of(&place, *state, "/a", true);
	assert_int_equal(jobgroup_make(&options, &one, &err), 0);
	assert_memory_equal(one.path, *state, strlen(*state));
	assert_ptr_equal(strrchr(one.path, '/'), one.path + strlen(*state));
	options.state_dir = "/b";
	assert_int_equal(jobgroup_make(&options, &other, &err), 0);
	assert_string_not_equal(one.path, other.path);
	options.state_dir = "/a";
	assert_int_equal(jobgroup_make(&options, &other, &err), 0); /* there already */
	assert_string_equal(one.path, other.path);
	jobgroup_remove(&one);
	assert_false(file_exists(one.path));
	one.path[0] = '\0';
	jobgroup_remove(&one);
}

static void test_a_users_lies_in_his_own(void **state)
{
	struct place place = {.runs = {NULL}};
	struct jobgroup group;
	char wanted[FILE_PATH_MAX];
	struct err err = {0};
	const struct jobgroup_options options = options_of(&place, *state, "/a", false);
	assert_int_equal(jobgroup_make(&options, &group, &err), -ENOENT);
	unit_write(place.places.self, "12:memory:/x\n0::/user.slice/app\n");
	assert_int_equal(jobgroup_make(&options, &group, &err), -ENOENT);
	assert_int_equal(file_path(wanted, &err, "%s/user.slice/app", (const char *)*state), 0);
	assert_int_equal(file_mkdirs(wanted, 0755, &err), 0);
	assert_int_equal(jobgroup_make(&options, &group, &err), 0);
	assert_memory_equal(group.path, wanted, strlen(wanted));
	unit_write(place.places.self, "12:memory:/x\n");
	assert_int_equal(jobgroup_make(&options, &group, &err), -ENOENT);
}

static void test_a_machine_without(void **state)
{
	struct place place = {.runs = {NULL}};
	struct jobgroup group;
	struct err err = {0};
	const struct jobgroup_options options = options_of(&place, *state, "/a", true);
	place.places.any_file_system = false;
	assert_int_equal(jobgroup_make(&options, &group, &err), -ENOENT);
	assert_non_null(strstr(err.text, "cgroup v2"));
}

/* --- with systemd ----------------------------------------------------------------------------- */

/* Stands for systemd-run: makes the scope, as its last argument wants it, with a process in it.
 * What it was called with is in TREE/asked, one line for each time. */
static const char run_script[] =
    "#!/bin/sh\n"
    "echo \"$*\" >>'%s/asked'\n"
    "for leaf; do :; done\n"
    "mkdir -p \"$leaf\"\n"
    "printf 'populated 1\\nfrozen 0\\n' >\"${leaf%%/*}/cgroup.events\"\n";

static struct jobgroup_options with_systemd(struct place *place, const char *tree, bool is_system)
{
	char text[FILE_PATH_MAX];
	struct jobgroup_options options = options_of(place, tree, "/a", is_system);
	place->places.booted = tree;
	place->runs[0] = place->run;
	(void)snprintf(text, sizeof(text), run_script, tree);
	unit_write(place->runs[0], text);
	assert_int_equal(chmod(place->runs[0], 0755), 0);
	return options;
}

static size_t times_asked(const char *tree)
{
	struct buf text _cleanup_buf_;
	size_t count = 0;
	buf_init(&text, FILE_PATH_MAX);
	if (file_read(unit_path(tree, "asked"), &text, NULL) < 0)
		return 0;
	for (const char *at = buf_text(&text); *at; at++)
		count += *at == '\n';
	return count;
}

static void assert_asked(const char *tree, const char *wanted)
{
	struct buf text _cleanup_buf_;
	buf_init(&text, FILE_PATH_MAX);
	assert_int_equal(file_read(unit_path(tree, "asked"), &text, NULL), 0);
	assert_non_null(strstr(buf_text(&text), wanted));
}

static void test_systemd_delegates_a_scope(void **state)
{
	struct place place;
	struct jobgroup group;
	struct err err = {0};
	const struct jobgroup_options options = with_systemd(&place, *state, true);
	assert_int_equal(jobgroup_make(&options, &group, &err), 0);
	assert_string_equal(group.path, unit_path(*state, "sluice.slice/sluice-jobs.scope"));
	assert_asked(*state, "--scope ");
	assert_asked(*state, "--property=Delegate=yes ");
	assert_asked(*state, "-- /usr/libexec/sluice/sluice-supervise --keep ");
	assert_false(file_exists(group.plain));

	/* The next agent finds it, and this one does not take it away. */
	jobgroup_remove(&group);
	assert_int_equal(jobgroup_make(&options, &group, &err), 0);
	assert_int_equal(times_asked(*state), 1);
}

static void test_one_that_is_stopped_is_made_anew(void **state)
{
	struct place place;
	struct jobgroup group;
	struct err err = {0};
	const struct jobgroup_options options = with_systemd(&place, *state, true);
	assert_int_equal(jobgroup_make(&options, &group, &err), 0);
	jobgroup_renew(options.supervisor, &group);
	assert_int_equal(times_asked(*state), 1); /* it is there */
	unit_write(unit_path(group.path, "cgroup.events"), "populated 0\nfrozen 0\n");
	jobgroup_renew(options.supervisor, &group);
	assert_int_equal(times_asked(*state), 2);
}

static void test_the_group_of_an_older_agent_goes(void **state)
{
	struct place place;
	struct jobgroup old, group;
	char job[FILE_PATH_MAX];
	struct err err = {0};
	struct jobgroup_options options = with_systemd(&place, *state, true);
	place.places.booted = NULL;
	assert_int_equal(jobgroup_make(&options, &old, &err), 0);
	assert_int_equal(file_path(job, &err, "%s/job-1", old.path), 0);
	assert_int_equal(mkdir(job, 0755), 0);
	place.places.booted = *state;
	assert_int_equal(jobgroup_make(&options, &group, &err), 0);
	assert_true(file_exists(old.path)); /* a job of its time is there */
	assert_int_equal(rmdir(job), 0);
	jobgroup_remove(&group);
	assert_false(file_exists(old.path));
}

static void test_without_systemd_run_it_lies_at_the_top(void **state)
{
	struct place place;
	struct jobgroup group;
	struct err err = {0};
	const struct jobgroup_options options = with_systemd(&place, *state, true);
	unit_write(place.runs[0], "#!/bin/sh\necho 'Failed to start: no' >&2\nexit 1\n");
	assert_int_equal(jobgroup_make(&options, &group, &err), 1);
	assert_string_equal(group.path, group.plain);
	assert_non_null(strstr(err.text, "sluice-jobs.scope"));
	assert_non_null(strstr(err.text, "Failed to start: no"));
	assert_int_equal(unlink(place.runs[0]), 0);
	assert_int_equal(jobgroup_make(&options, &group, &err), 1);
	assert_non_null(strstr(err.text, "systemd-run"));
}

static void test_an_agent_elsewhere_has_no_scope(void **state)
{
	struct place place;
	struct jobgroup group;
	struct err err = {0};
	struct jobgroup_options options = with_systemd(&place, *state, true);
	options.runtime_dir = "/tmp/mine";
	assert_int_equal(jobgroup_make(&options, &group, &err), 0);
	assert_string_equal(group.path, group.plain);
	assert_int_equal(times_asked(*state), 0);
}

static void test_a_users_systemd_delegates_one(void **state)
{
	struct place place;
	struct jobgroup group;
	char runtime[64];
	struct err err = {0};
	struct jobgroup_options options = with_systemd(&place, *state, false);
	(void)snprintf(runtime, sizeof(runtime), "/run/user/%u/sluice", (unsigned)geteuid());
	options.runtime_dir = runtime;
	unit_write(place.places.self, "0::/u.slice/user@5.service/app.slice/sluice.service\n");
	assert_int_equal(jobgroup_make(&options, &group, &err), 0);
	assert_string_equal(
	    group.path, unit_path(*state, "u.slice/user@5.service/sluice.slice/sluice-jobs.scope"));
	assert_asked(*state, "--user ");

	/* From a session it could not move processes there. */
	unit_write(place.places.self, "0::/u.slice/session-2.scope\n");
	assert_int_equal(jobgroup_make(&options, &group, &err), -ENOENT);
	assert_int_equal(times_asked(*state), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_roots_lies_at_the_top, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_a_users_lies_in_his_own, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_a_machine_without, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_systemd_delegates_a_scope, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_one_that_is_stopped_is_made_anew, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_the_group_of_an_older_agent_goes, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_without_systemd_run_it_lies_at_the_top, setup,
					    teardown),
	    cmocka_unit_test_setup_teardown(test_an_agent_elsewhere_has_no_scope, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_a_users_systemd_delegates_one, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
