/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/groups.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/child.h"
#include "base/err.h"
#include "base/loop.h"
#include "unit/unit.h"

struct scene {
	char *directory;
	struct loop *loop;
	struct child_set *children;
	struct groups *groups;
	char getent[4096], file[4096];
	unsigned changes;
};

static void on_changed(void *context)
{
	struct scene *scene = context;
	scene->changes++;
}

static int setup(void **state)
{
	static struct scene scene;
	memset(&scene, 0, sizeof(scene));
	scene.directory = unit_tmp_new();
	scene.loop = loop_new(LOOP_FAKE, NULL);
	scene.children = scene.loop ? child_set_new(scene.loop, CHILD_WATCH_AUTO, NULL) : NULL;
	(void)snprintf(scene.getent, sizeof(scene.getent), "%s/get ent", scene.directory);
	(void)snprintf(scene.file, sizeof(scene.file), "%s/group", scene.directory);
	unit_write(scene.file, "staff:x:50:alice,bob\n77:x:1234:\n");
	*state = &scene;
	return scene.children ? 0 : -1;
}

static int teardown(void **state)
{
	struct scene *scene = *state;
	scene->groups = groups_free(scene->groups);
	scene->children = child_set_free(scene->children);
	scene->loop = loop_free(scene->loop);
	scene->directory = unit_tmp_free(scene->directory);
	return 0;
}

/* `script` takes getent's place from now on. */
static void answer(const struct scene *scene, const char *script)
{
	unit_write(scene->getent, script);
	assert_int_equal(chmod(scene->getent, 0755), 0);
}

static void start(struct scene *scene, const char *script)
{
	answer(scene, script);
	const struct groups_options options = {.loop = scene->loop,
					       .children = scene->children,
					       .file = scene->file,
					       .getent = scene->getent,
					       .changed = on_changed,
					       .context = scene};
	scene->groups = groups_new(&options, NULL);
	assert_non_null(scene->groups);
}

static void pass_until_no_child(struct scene *scene)
{
	uint64_t end_ns = unit_now_ns() + UINT64_C(20000000000);
	while (child_set_count(scene->children) > 0 && unit_now_ns() < end_ns)
		assert_int_equal(loop_pass(scene->loop, 50000000, NULL), 0);
	assert_int_equal(child_set_count(scene->children), 0);
}

static void test_the_local_file_answers_at_once(void **state)
{
	struct scene *scene = *state;
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
	struct scene *scene = *state;
	gid_t gid = 0;
	bool is_asked = false;
	/* More members than a pipe holds. */
	start(scene, "#!/bin/sh\n[ \"$1 $2\" = 'group lab$(x)' ] || exit 2\n"
		     "printf 'lab:x:4711:'; head -c 200000 /dev/zero | tr '\\0' m; echo\n");
	assert_false(groups_find(scene->groups, "lab$(x)", &gid, &is_asked));
	assert_true(is_asked);
	assert_false(groups_find(scene->groups, "lab$(x)", &gid, NULL));
	assert_int_equal(child_set_count(scene->children), 1); /* asked once */
	pass_until_no_child(scene);
	assert_int_equal(scene->changes, 1);
	assert_true(groups_find(scene->groups, "lab$(x)", &gid, &is_asked));
	assert_int_equal(gid, 4711);
	assert_false(is_asked);
}

static void test_answers_that_are_none(void **state)
{
	struct scene *scene = *state;
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
		pass_until_no_child(scene);
		assert_false(groups_find(scene->groups, "lab", &gid, &is_asked));
		assert_false(is_asked);
		assert_int_equal(scene->changes, 0);
		scene->groups = groups_free(scene->groups);
	}
}

static void test_what_is_not_known_is_looked_for_again(void **state)
{
	struct scene *scene = *state;
	gid_t gid = 0;
	start(scene, "#!/bin/sh\nexit 2\n");
	assert_false(groups_find(scene->groups, "lab", &gid, NULL));
	pass_until_no_child(scene);
	answer(scene, "#!/bin/sh\necho lab:x:60:\n");
	assert_int_equal(loop_advance(scene->loop, GROUPS_AGAIN_NS, NULL), 0);
	pass_until_no_child(scene);
	assert_true(groups_find(scene->groups, "lab", &gid, NULL));
	assert_int_equal(gid, 60);
}

/* A directory that is down takes nothing away that was known. */
static void test_a_directory_that_goes_away(void **state)
{
	struct scene *scene = *state;
	gid_t gid = 0;
	start(scene, "#!/bin/sh\necho lab:x:60:\n");
	assert_false(groups_find(scene->groups, "lab", &gid, NULL));
	pass_until_no_child(scene);
	answer(scene, "#!/bin/sh\nexec sleep 1000\n");
	groups_look_again(scene->groups);
	assert_int_equal(child_set_count(scene->children), 1);
	assert_true(groups_find(scene->groups, "lab", &gid, NULL));
	assert_int_equal(loop_advance(scene->loop, GROUPS_ANSWER_NS, NULL), 0);
	pass_until_no_child(scene); /* it was killed */
	assert_true(groups_find(scene->groups, "lab", &gid, NULL));
	assert_int_equal(gid, 60);
	answer(scene, "#!/bin/sh\necho lab:x:61:\n");
	groups_look_again(scene->groups);
	pass_until_no_child(scene);
	assert_true(groups_find(scene->groups, "lab", &gid, NULL));
	assert_int_equal(gid, 61);
	assert_int_equal(scene->changes, 2);
}

static void test_no_more_processes_than_allowed(void **state)
{
	struct scene *scene = *state;
	char name[16];
	gid_t gid = 0;
	start(scene, "#!/bin/sh\necho \"$2:x:70:\"\n");
	for (unsigned i = 0; i < GROUPS_MAX + 3; i++) {
		(void)snprintf(name, sizeof(name), "g%u", i);
		assert_false(groups_find(scene->groups, name, &gid, NULL));
		assert_true(child_set_count(scene->children) <= GROUPS_ASKING_MAX);
	}
	pass_until_no_child(scene);
	assert_int_equal(scene->changes, GROUPS_MAX);
}

static void test_an_end_while_somebody_is_asked(void **state)
{
	struct scene *scene = *state;
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
