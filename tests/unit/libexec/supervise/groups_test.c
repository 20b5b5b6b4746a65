/* SPDX-License-Identifier: Apache-2.0 */
/* Asks this machine's user database, of which it knows no more than that "daemon" is in it: that
 * one is taken out of a group is in tests/e2e/test_access.py. */
#include "libexec/supervise/groups.h"

#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "job/launch.h"
#include "libexec/supervise/prepare.h"
#include "unit/unit.h"

enum { NOBODY_KNOWN = 61077, STRANGE_GROUP = 61078 };

static bool refresh(struct spec *spec)
{
	struct err err = {0};
	bool is_changed = true;
	if (groups_refresh(spec, &is_changed, &err) < 0)
		fail_msg("%s", err.text);
	return is_changed;
}

static void make(struct spec *spec, uid_t uid, gid_t gid)
{
	spec_init(spec);
	spec->uid = uid;
	spec->gid = gid;
	assert_int_equal(spec_add_group(spec, gid, NULL), 0);
	assert_int_equal(spec_add_group(spec, STRANGE_GROUP, NULL), 0);
}

static void test_groups_of_which_one_is_no_more(void **state)
{
	(void)state;
	struct spec spec _cleanup_spec_;
	const struct passwd *daemon = getpwnam("daemon");
	if (geteuid() != 0 || !daemon || daemon->pw_uid == 0)
		skip();
	make(&spec, daemon->pw_uid, daemon->pw_gid);
	assert_true(refresh(&spec));
	assert_int_equal(spec.group_count, 1);
	assert_int_equal(spec.groups[0], daemon->pw_gid);
	assert_false(refresh(&spec));
	spec.gid = STRANGE_GROUP; /* by newgrp(1), once */
	assert_true(refresh(&spec));
	assert_int_equal(spec.gid, daemon->pw_gid);
}

static void test_somebody_whom_nobody_knows(void **state)
{
	(void)state;
	struct spec spec _cleanup_spec_;
	make(&spec, NOBODY_KNOWN, NOBODY_KNOWN);
	bool is_root = geteuid() == 0;
	assert_true(refresh(&spec) == is_root);
	assert_int_equal(spec.gid, NOBODY_KNOWN);
	assert_int_equal(spec.group_count, is_root ? 1 : 2);
}

static void test_root_is_not_asked_about(void **state)
{
	(void)state;
	struct spec spec _cleanup_spec_;
	make(&spec, 0, 0);
	assert_false(refresh(&spec));
	assert_int_equal(spec.group_count, 2);
}

/* Whatever reads the launch later reads the new one. */
static void test_the_launch_is_replaced(void **state)
{
	(void)state;
	struct launch launch _cleanup_launch_;
	struct launch again _cleanup_launch_;
	struct err err = {0};
	launch_init(&launch);
	launch_init(&again);
	launch.id = 7;
	launch.attempt = 1;
	(void)snprintf(launch.spec.name, sizeof(launch.spec.name), "x");
	(void)snprintf(launch.spec.directory, sizeof(launch.spec.directory), "/");
	assert_int_equal(spec_add_argument(&launch.spec, "true", NULL), 0);
	assert_int_equal(spec_add_group(&launch.spec, 17, NULL), 0);
	int kept = fcntl(LAUNCH_FD_LAUNCH, F_DUPFD_CLOEXEC, 64); /* the test's own, if any */
	assert_int_equal(groups_replace_launch(&launch, &err), 0);
	int flags = fcntl(LAUNCH_FD_LAUNCH, F_GETFD);
	int seals = fcntl(LAUNCH_FD_LAUNCH, F_GET_SEALS);
	int rc = prepare_launch(LAUNCH_FD_LAUNCH, &again, &err);
	if (kept >= 0)
		(void)dup2(kept, LAUNCH_FD_LAUNCH);
	else
		(void)close(LAUNCH_FD_LAUNCH);
	(void)close(kept);
	assert_int_equal(flags, FD_CLOEXEC);
	assert_true(seals & F_SEAL_WRITE);
	assert_int_equal(rc, 0);
	assert_int_equal(again.spec.group_count, 1);
	assert_int_equal(again.spec.groups[0], 17);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_groups_of_which_one_is_no_more),
	    cmocka_unit_test(test_somebody_whom_nobody_knows),
	    cmocka_unit_test(test_root_is_not_asked_about),
	    cmocka_unit_test(test_the_launch_is_replaced),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
