/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/groups.h"

#include <stdio.h>
#include <string.h>

#include "agent/askname.h"
#include "base/child.h"
#include "base/err.h"
#include "base/loop.h"
#include "tests/unit/agent/getent.h"
#include "unit/unit.h"

static int setup(void **state)
{
	return getent_setup(state, "staff:x:50:alice,bob\n77:x:1234:\n");
}

static int teardown(void **state)
{
	struct getent *scene = *state;
	scene->groups = groups_free(scene->groups);
	return getent_teardown(state);
}

static void start(struct getent *scene, const char *script)
{
	getent_answer(scene, script);
	const struct groups_options options = {.loop = scene->loop,
					       .children = scene->children,
					       .file = scene->file,
					       .getent = scene->program,
					       .changed = getent_changed,
					       .context = scene};
	scene->groups = groups_new(&options, NULL);
	assert_non_null(scene->groups);
}

static void test_the_local_file_answers_at_once(void **state)
{
	struct getent *scene = *state;
	gid_t gid = 0;
	bool is_asked = true;
	start(scene, "#!/bin/sh\nexit 2\n");
	assert_true(groups_find(scene->groups, "staff", &gid, &is_asked));
	assert_int_equal(gid, 50);
	assert_false(is_asked);
	assert_true(groups_find(scene->groups, "77", &gid, NULL)); /* a name, of digits */
	assert_int_equal(gid, 1234);
	assert_true(groups_find(scene->groups, "78", &gid, NULL));
	assert_int_equal(gid, 78);
	assert_int_equal(child_set_count(scene->children), 0);
}

static void test_others_are_asked_for_elsewhere(void **state)
{
	struct getent *scene = *state;
	gid_t gid = 0;
	bool is_asked = false;
	/* More members than a pipe holds. */
	start(scene, "#!/bin/sh\n[ \"$1 $2\" = 'group lab$(x)' ] || exit 2\n"
		     "printf 'lab:x:4711:'; head -c 200000 /dev/zero | tr '\\0' m; echo\n");
	assert_false(groups_find(scene->groups, "lab$(x)", &gid, &is_asked));
	assert_true(is_asked);
	assert_false(groups_find(scene->groups, "lab$(x)", &gid, NULL));
	assert_int_equal(child_set_count(scene->children), 1); /* asked once */
	getent_pass_until_no_child(scene);
	assert_int_equal(scene->changes, 1);
	assert_true(groups_find(scene->groups, "lab$(x)", &gid, &is_asked));
	assert_int_equal(gid, 4711);
	assert_false(is_asked);
}

static void test_answers_that_are_none(void **state)
{
	struct getent *scene = *state;
	static const char *const scripts[] = {
	    "#!/bin/sh\nexit 2\n",
	    "#!/bin/sh\necho nonsense\n",
	    "#!/bin/sh\necho lab:x:\n",
	    "#!/bin/sh\necho lab:x:-1:\n",
	    "#!/bin/sh\necho lab:x:4294967295:\n",
	    "#!/bin/sh\necho lab:x:12\n",
	};
	for (size_t i = 0; i < sizeof(scripts) / sizeof(*scripts); i++) {
		gid_t gid;
		bool is_asked = true;
		start(scene, scripts[i]);
		assert_false(groups_find(scene->groups, "lab", &gid, NULL));
		getent_pass_until_no_child(scene);
		assert_false(groups_find(scene->groups, "lab", &gid, &is_asked));
		assert_false(is_asked);
		assert_int_equal(scene->changes, 0);
		scene->groups = groups_free(scene->groups);
	}
}

static void test_what_is_not_known_is_looked_for_again(void **state)
{
	struct getent *scene = *state;
	gid_t gid = 0;
	start(scene, "#!/bin/sh\nexit 2\n");
	assert_false(groups_find(scene->groups, "lab", &gid, NULL));
	getent_pass_until_no_child(scene);
	getent_answer(scene, "#!/bin/sh\necho lab:x:60:\n");
	assert_int_equal(loop_advance(scene->loop, GROUPS_AGAIN_NS, NULL), 0);
	getent_pass_until_no_child(scene);
	assert_true(groups_find(scene->groups, "lab", &gid, NULL));
	assert_int_equal(gid, 60);
}

/* A directory that is down takes nothing away that was known. */
static void test_a_directory_that_goes_away(void **state)
{
	struct getent *scene = *state;
	gid_t gid = 0;
	start(scene, "#!/bin/sh\necho lab:x:60:\n");
	assert_false(groups_find(scene->groups, "lab", &gid, NULL));
	getent_pass_until_no_child(scene);
	getent_answer(scene, "#!/bin/sh\nexec sleep 1000\n");
	groups_look_again(scene->groups);
	assert_int_equal(child_set_count(scene->children), 1);
	assert_true(groups_find(scene->groups, "lab", &gid, NULL));
	assert_int_equal(loop_advance(scene->loop, ASKNAME_NS, NULL), 0);
	getent_pass_until_no_child(scene); /* it was killed */
	assert_true(groups_find(scene->groups, "lab", &gid, NULL));
	assert_int_equal(gid, 60);
	getent_answer(scene, "#!/bin/sh\necho lab:x:61:\n");
	groups_look_again(scene->groups);
	getent_pass_until_no_child(scene);
	assert_true(groups_find(scene->groups, "lab", &gid, NULL));
	assert_int_equal(gid, 61);
	assert_int_equal(scene->changes, 2);
}

static void test_no_more_processes_than_allowed(void **state)
{
	struct getent *scene = *state;
	char name[16];
	gid_t gid = 0;
	start(scene, "#!/bin/sh\necho \"$2:x:70:\"\n");
	for (unsigned i = 0; i < GROUPS_MAX + 3; i++) {
		(void)snprintf(name, sizeof(name), "g%u", i);
		assert_false(groups_find(scene->groups, name, &gid, NULL));
		assert_true(child_set_count(scene->children) <= GROUPS_ASKING_MAX);
	}
	getent_pass_until_no_child(scene);
	assert_int_equal(scene->changes, GROUPS_MAX);
}

static void test_an_end_while_somebody_is_asked(void **state)
{
	struct getent *scene = *state;
	gid_t gid;
	start(scene, "#!/bin/sh\nexec sleep 1000\n");
	assert_false(groups_find(scene->groups, "lab", &gid, NULL));
	scene->groups = groups_free(scene->groups);
	assert_null(scene->groups);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_the_local_file_answers_at_once, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_others_are_asked_for_elsewhere, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_answers_that_are_none, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_what_is_not_known_is_looked_for_again, setup,
					    teardown),
	    cmocka_unit_test_setup_teardown(test_a_directory_that_goes_away, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_no_more_processes_than_allowed, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_an_end_while_somebody_is_asked, setup, teardown),
	};
	return cmocka_run_group_tests_name("agent/groups", tests, NULL, NULL);
}
